"""The transport over a grid that loses and delays; the app that stores before it speaks."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("flwr")

from privem.federation import Federation, Party
from privem.federation.flower import MESSAGE_TYPE, require, transport
from privem.federation.flower.node import client_app
from privem.federation.flower.transport import GridTransport, Pace, content, pack, payload, unpack
from privem.federation.wire.codec import decode
from privem.federation.wire.messages import Request, RunTerms

require()
KEYS = {"a": b"key a\n", "b": b"key b\n"}


class Grid:
    """Two nodes; ``fate`` says what becomes of the n-th message to a node."""

    def __init__(self, fate):
        from flwr.supercore.task_identity import TaskIdentity

        TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 7, 1, 1
        self.fate, self.sent, self.waiting, self.late = fate, {11: [], 12: []}, {}, []
        self.here = [11, 12]

    def get_nodes(self):
        names = {11: b"key a", 12: b"key b\n"}
        return [SimpleNamespace(node_id=n, public_key=names[n]) for n in self.here]

    def push_messages(self, messages):
        from flwr.app import Error, Message

        numbers = []
        for message in messages:
            assert message.metadata.message_type == MESSAGE_TYPE
            node = message.metadata.dst_node_id
            self.sent[node].append(payload(message))
            number = f"{node}.{len(self.sent[node])}"
            message.metadata.__dict__["_message_id"] = number
            numbers.append(number)
            what = self.fate(node, len(self.sent[node]))
            if what == "answered":
                self.waiting[number] = Message(content(b"re " + payload(message)), reply_to=message)
            elif what == "error":
                self.waiting[number] = Message(Error(1, "unavailable"), reply_to=message)
        return numbers

    def pull_messages(self, numbers):
        return [self.waiting.pop(number) for number in numbers if number in self.waiting]


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(transport, "_AGAIN", 0.02)
    monkeypatch.setattr(transport, "_LATER", 0.01)
    monkeypatch.setattr(transport, "_SOON", 0.001)


@pytest.mark.parametrize("trouble", ["lost", "error"])
def test_what_is_not_answered_is_sent_again_byte_for_byte(trouble):
    flower = Grid(lambda node, n: "answered" if n == 3 or node == 11 else trouble)
    replies = GridTransport(flower, KEYS, 5.0).exchange({"a": b"one", "b": b"two"})
    assert replies == {"a": b"re one", "b": b"re two"}
    assert flower.sent == {11: [b"one"], 12: [b"two"] * 3}


def test_the_silent_are_missing():
    flower = Grid(lambda node, n: "answered" if node == 11 else "lost")
    transport = GridTransport(flower, KEYS, 0.2)
    assert transport.exchange({"a": b"one", "b": b"two"}) == {"a": b"re one"}
    assert set(flower.sent[12]) == {b"two"}


def test_who_comes_later_is_waited_for():
    flower = Grid(lambda node, n: "answered")
    flower.here = [11]
    look = flower.get_nodes

    def later():
        found = look()
        flower.here = [11, 12]
        return found

    flower.get_nodes = later
    assert set(GridTransport(flower, KEYS, 5.0).exchange({"a": b"1", "b": b"2"})) == {"a", "b"}


def test_a_server_that_fails_is_said_to_be_away():
    import httpx

    from privem.federation.errors import ServerAway

    flower = Grid(lambda node, n: "answered")

    def broken(messages):
        raise httpx.ConnectError("refused")

    flower.push_messages = broken
    with pytest.raises(ServerAway, match="carries no messages"):
        GridTransport(flower, KEYS, 5.0).exchange({"a": b"1"})


def test_the_state_is_stored_before_the_reply_leaves():
    from flwr.app import Message

    Grid(None)
    stored: list[bytes] = []
    parties = [Party(np.zeros((3, 1)), name) for name in "abc"]
    federation = Federation(parties)
    terms = RunTerms({"a": "b"})
    head = (federation.agreement.hash, "run", terms.hash, 0, 0, b"")
    ask = Message(content(Request(*head, terms.to_bytes()).to_bytes()), 11, MESSAGE_TYPE)
    ask.metadata.__dict__["_message_id"] = "1"
    parties[0].store = stored.append
    reply = payload(client_app(parties[0])(ask, None))
    assert decode(reply)[0] == "reply"
    # Whoever goes on from what was stored says the same.
    assert payload(client_app(Party(np.zeros((3, 1)), "a").restore(stored[-1]))(ask, None)) == reply

    def full(state):
        raise OSError("disk full")

    parties[1].store = full
    with pytest.raises(OSError, match="disk full"):
        client_app(parties[1])(ask, None)


def test_a_message_without_our_bytes_is_answered_by_a_refusal():
    from flwr.app import ConfigRecord, Message, RecordDict

    Grid(None)
    for record in (RecordDict(), RecordDict({"privem": ConfigRecord({"message": "text"})})):
        ask = Message(record, 11, MESSAGE_TYPE)
        ask.metadata.__dict__["_message_id"] = "1"
        assert payload(ask) == b""


def test_a_parcel_holds_the_message_and_announces_no_pieces():
    from flwr.app import Message
    from flwr.proto.fleet_pb2 import PullMessagesResponse
    from flwr.proto.message_pb2 import ObjectTree

    Grid(None)
    ask = Message(content(b"hello"), 11, MESSAGE_TYPE)
    packed = pack(ask)
    assert packed["message_object_trees"] == [ObjectTree(object_id=ask.metadata.message_id)]
    (found,) = unpack(PullMessagesResponse(**packed))
    assert payload(found) == b"hello"
    assert found.metadata == ask.metadata
    assert unpack(PullMessagesResponse()) == []


class Clock:
    """Time that passes by sleeping alone."""

    def __init__(self):
        self.now = 100.0

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


def test_a_wait_is_not_much_longer_for_its_pauses(monkeypatch):
    monkeypatch.setattr(transport, "_SOON", 0.015)
    monkeypatch.setattr(transport, "time", clock := Clock())
    keeper = Pace()

    def wait(need):
        """How much later it is seen than it is there, and after how many looks."""
        keeper.begin()
        end, looks = clock.now + need, 0
        while not looks or clock.now < end:
            keeper.pause()
            looks += 1
        keeper.came()
        return clock.now - end, looks

    for need in (0.05, 30.0, 0.3, 3.0, 0.06):
        assert wait(need)[0] <= max(0.0151, 0.0626 * need)
    for _ in range(4):
        wait(0.05)
    assert wait(0.05)[1] <= 2  # of what comes regularly, few looks come too early
    for _ in range(4):
        wait(30.0)
    assert wait(0.05)[0] <= 0.2  # nor does a surprise lie for long
