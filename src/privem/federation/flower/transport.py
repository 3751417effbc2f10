"""How messages travel over Flower: a transport over a grid, when to look for messages, parcels.

Flower cuts a message into three pieces, each pushed and pulled by a request of its own, and a
fourth says that all have come: with three parties, 38 to 42 requests an exchange, at more than four
milliseconds of the SuperLink's processor time each. Its announcement of a message has room for the
content, and the SuperLink passes that on. So ours goes with the announcement, and no pieces follow
(:func:`pack`). What the SuperLink keeps for pieces that never come (1.3 kB a message, nothing of
its content) goes when the run has ended and the next one starts.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..errors import ServerAway
from ..flower import MESSAGE_TYPE

if TYPE_CHECKING:
    from flwr.app import Message, RecordDict
    from flwr.serverapp import Grid

# After how many seconds a message is sent again, at first; then twice as long, up to the other.
_AGAIN, _RARELY = 2.0, 30.0
# After how many seconds to look again for a party that has never connected.
_LATER = 0.5
# Seconds between two looks, at least and at most.
_SOON, _SELDOM = 0.015, 1.0
# Between these, a share of the time waited so far, which bounds how much later a message is seen
# than it comes; and a multiple of how long the last look took, as it is work for the SuperLink.
_SHARE, _CALM = 0.0625, 1.0
# The first look, as a share of the shortest of the last waits, and in seconds, at most.
_EARLY, _FIRST = 0.75, 0.2


def content(message: bytes) -> RecordDict:
    """Bytes of privem, as Flower carries them."""
    from flwr.app import ConfigRecord, RecordDict

    return RecordDict({"privem": ConfigRecord({"message": message})})


def payload(message: Message) -> bytes:
    """The bytes in a Flower message; none where there should be some."""
    from flwr.app import ConfigRecord

    record = message.content.get("privem") if message.has_content() else None
    found = record.get("message") if isinstance(record, ConfigRecord) else None
    return found if isinstance(found, bytes) else b""


def pack(message: Message) -> dict[str, Any]:
    """A message as the fields of a request that pushes it."""
    from flwr.common.serde import message_to_proto
    from flwr.proto.message_pb2 import ObjectTree

    message.metadata.__dict__["_message_id"] = number = message.object_id
    return {
        "messages_list": [message_to_proto(message)],
        "message_object_trees": [ObjectTree(object_id=number)],
    }


def unpack(found: Any) -> list[Message]:
    """Messages in the answer to a request that pulls them."""
    from flwr.common.serde import message_from_proto

    return [message_from_proto(announced) for announced in found.messages_list]


class Pace:
    """Decides when to look for the next message: Flower answers requests and calls nobody."""

    def __init__(self) -> None:
        self._waits: deque[float] = deque([0.0], maxlen=4)
        self.begin()

    def begin(self) -> None:
        """Start waiting."""
        self._begun = time.monotonic()

    def came(self) -> None:
        """The message has come."""
        self._waits.append(time.monotonic() - self._begun)

    def pause(self, look: float = 0.0) -> None:
        """Sleep until the next look; ``look`` is how many seconds the last one took."""
        waited = time.monotonic() - self._begun
        first = min(_EARLY * min(self._waits), _FIRST) - waited
        time.sleep(max(first, min(max(_SOON, _CALM * look, _SHARE * waited), _SELDOM)))


class GridTransport:
    """Sends each party's message to its node and collects the replies.

    Flower gives a message to a node once: if the node is killed before it answers, the message is
    lost. So a message that is not answered is sent again, the same bytes. A party that had answered
    gives the same answer, and replies that come twice or too late are ignored.

    Parameters
    ----------
    grid : Grid
    nodes : mapping of str to bytes
        By party, the public key its node is registered with.
    patience : float
        Seconds after which a party that does not answer has dropped out.
    """

    def __init__(self, grid: Grid, nodes: Mapping[str, bytes], patience: float) -> None:
        self._grid, self._patience = grid, patience
        self._names = {key.strip(): name for name, key in nodes.items()}
        self._ids: dict[str, int] = {}
        self._pace = Pace()

    def exchange(self, mail: Mapping[str, bytes]) -> dict[str, bytes]:
        """Replies by party; a party that is silent for too long is missing."""
        import httpx
        from flwr.supercore.run import RunNotRunningException

        try:
            return self._exchange(mail)
        except (httpx.HTTPError, RunNotRunningException) as problem:
            raise ServerAway(f"the server carries no messages any more ({problem})") from None

    def _exchange(self, mail: Mapping[str, bytes]) -> dict[str, bytes]:
        replies: dict[str, bytes] = {}
        sent: dict[str, str] = {}
        due = dict.fromkeys(mail, 0.0)
        gap = dict.fromkeys(mail, _AGAIN)
        took = 0.0
        end = time.monotonic() + self._patience
        self._pace.begin()
        while (now := time.monotonic()) < end:
            late = {n: mail[n] for n in mail if n not in replies and due[n] <= now}
            for name, number in self._send(late).items():
                if not number:  # not there yet
                    due[name] = now + _LATER
                    continue
                sent[number] = name
                due[name], gap[name] = now + gap[name], min(2 * gap[name], _RARELY)
            self._pace.pause(took)
            begun = time.monotonic()
            came = self._collect(sent)
            took = time.monotonic() - begun
            replies |= came
            if len(replies) == len(mail):
                self._pace.came()
                break
            sent = {number: name for number, name in sent.items() if name not in came}
        return replies

    def _send(self, mail: Mapping[str, bytes]) -> dict[str, str]:
        """Ids of the messages, by party; empty for a party that has never connected."""
        from flwr.app import Message

        found = dict.fromkeys(mail, "")
        here = [name for name in mail if self._node(name) is not None]
        if here:
            out = [Message(content(mail[name]), self._ids[name], MESSAGE_TYPE) for name in here]
            numbers = self._grid.push_messages(out)
            found |= {name: number or "" for name, number in zip(here, numbers, strict=True)}
        return found

    def _node(self, name: str) -> int | None:
        """The id of a party's node, known once it has connected."""
        if name not in self._ids:
            for node in self._grid.get_nodes():
                found = self._names.get(node.public_key.strip())
                if found is not None:
                    self._ids[found] = node.node_id
        return self._ids.get(name)

    def _collect(self, sent: dict[str, str]) -> dict[str, bytes]:
        """The replies that have come. An error of Flower's is no reply: its message is dropped."""
        found: dict[str, bytes] = {}
        for message in self._grid.pull_messages(list(sent)) if sent else ():
            name = sent.pop(message.metadata.reply_to_message_id, None)
            if name is not None and not message.has_error():
                found[name] = payload(message)
        return found
