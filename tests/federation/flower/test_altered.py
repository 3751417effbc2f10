"""Messages tampered with, cut short, too large, replayed, misdelivered or out of order.

The server's side is a fit that sends what it should not, the party's a node that does; both are
processes of their own (``mischief.py``), on one federation whose exact fit is known.
"""

from __future__ import annotations

import json
import shutil
import socket
import threading
from contextlib import suppress

import pytest

pytest.importorskip("flwr")

import httpx

from privem.federation.flower.superlink import Shown

from .conftest import EXACT

pytestmark = pytest.mark.slow
QUICK = f"{EXACT} --patience 20"
NEW = f"{QUICK} --new"


def at(number, phase, do, **more):
    return {"do": do, "round": number, "phase": phase, **more}


def test_what_a_server_should_not_send_is_refused_and_an_honest_fit_goes_on(shared):
    """Each stops the same fit with a clear error; nothing is lost of what came before."""
    shared.honest()
    run = NEW
    for deed, words in (
        (at(1, "KEYS", "truncate"), "the message is truncated"),
        (at(1, "SHARES", "tamper"), "masked sum: "),
        (at(1, "INPUT", "swap"), "masked sum: "),
        (at(1, "SURVIVORS", "early"), "phase UNMASK is not the next one"),
        (at(2, "INPUT", "question"), "refused: "),
        (at(2, "INPUT", "oversize"), "a message is larger than it can be"),
        (at(2, "SURVIVORS", "truncate"), "the message is truncated"),
        (at(2, "UNMASK", "tamper"), "masked sum: "),
        (at(3, "SURVIVORS", "replay"), "the request is a replay"),
    ):
        said = shared.do(run, deed | {"to": "west"}, code=7)
        run = QUICK
        assert "refused: " in said, said
        assert words in said, (deed, said)
        assert shared.rounds() == deed["round"] - 1
    shared.do(QUICK)
    shared.same_as_central()


def test_a_reply_spoilt_once_is_asked_for_again(shared):
    """In every phase, in every way: the fit is the one it would have been."""
    shared.honest()
    deeds = [
        at(1, "KEYS", "tamper"),
        at(1, "SHARES", "truncate"),
        at(1, "INPUT", "tamper"),
        at(1, "SURVIVORS", "replay"),
        at(1, "UNMASK", "oversize"),
        at(2, "INPUT", "replay"),
        at(2, "SURVIVORS", "tamper"),
        at(2, "UNMASK", "tamper"),
        at(3, "INPUT", "truncate"),
        at(3, "UNMASK", "truncate"),
    ]
    shared.party("west", *deeds)
    shared.connected()
    shared.do(NEW)
    shared.same_as_central()


@pytest.mark.parametrize(("number", "phase"), [(1, "KEYS"), (2, "INPUT"), (2, "UNMASK")])
def test_a_party_whose_replies_are_spoilt_for_good_is_missing(shared, number, phase):
    """Named in the error; once it behaves, the same fit goes on."""
    shared.honest()
    shared.party("west", at(number, phase, "tamper", always=True))
    shared.connected()
    said = shared.do(NEW, code=7)
    assert f"in phase {phase}" in said
    assert f"west: {phase}: " in said
    shared.honest()
    shared.do(QUICK)
    shared.same_as_central()


def test_a_party_that_signs_with_another_key_is_missing(shared):
    shared.honest()
    shared.party("west", {"do": "forge"})
    shared.connected()
    said = shared.do(NEW, code=7)
    assert "west: KEYS: a message in the name of 'west' is not signed by its key" in said
    shared.honest()
    shared.do(NEW)
    shared.same_as_central()


def test_a_party_that_opens_wrong_shares_is_found_out(shared):
    shared.honest()
    shared.party("west", {"do": "lie"})
    shared.connected()
    said = shared.do(NEW, code=7)
    assert "does not follow the protocol" in said
    shared.honest()
    shared.do(NEW)
    shared.same_as_central()


def test_messages_in_any_order_and_more_than_once(shared):
    """Old requests again among the new ones, parties in random order, replies reversed."""
    shared.honest()
    shared.do(NEW, {"do": "shuffle"})
    shared.same_as_central()


def register(stage, card, *shown):
    """Ask the server to let a node in that nobody agreed on."""
    from flwr.proto.control_pb2 import RegisterNodeRequest
    from flwr.supercore.control.control_http_client import ControlHttpClient

    ca = (stage.folder / "fed/server/ca.pem").read_bytes()
    key = json.loads(card.read_text())["node"].encode()
    address = f"127.0.0.1:{stage.port}"
    with ControlHttpClient.from_server_address(address, False, ca, list(shown)) as client:
        client.RegisterNode(RegisterNodeRequest(public_key=key, name="stranger"))


class Wire(threading.Thread):
    """Carries bytes between a party and the server, and spoils what passes now and then."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self.target, self.spoilt, self.chunks = port, 0, 0
        self.door = socket.create_server(("127.0.0.1", 0))
        self.port = self.door.getsockname()[1]

    def run(self) -> None:
        while True:
            try:
                here, _ = self.door.accept()
                there = socket.create_connection(("127.0.0.1", self.target))
            except OSError:
                return
            for ends in ((here, there), (there, here)):
                threading.Thread(target=self.carry, args=ends, daemon=True).start()

    def carry(self, source: socket.socket, sink: socket.socket) -> None:
        try:
            while chunk := source.recv(65536):
                self.chunks += 1
                if self.chunks % 40 == 0:
                    self.spoilt += 1
                    if self.spoilt % 2:  # cut short
                        sink.sendall(chunk[: len(chunk) // 2])
                        return
                    chunk = chunk[:-3] + bytes([chunk[-3] ^ 1]) + chunk[-2:]
                sink.sendall(chunk)
        except OSError:
            return
        finally:
            for end in (source, sink):  # the other direction ends too
                with suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
                end.close()


def test_a_network_that_spoils_bytes(shared):
    """TLS notices; the party connects again and nothing is lost."""
    shared.honest()
    wire = Wire(shared.port)
    wire.start()
    try:
        shared.party("west", {"do": "through", "address": f"127.0.0.1:{wire.port}"})
        shared.connected()
        shared.do(f"{EXACT} --new")
        shared.same_as_central()
        assert wire.spoilt >= 2
    finally:
        shared.party("west")
        wire.door.close()


def test_who_does_not_belong_is_not_let_in(shared):
    shared.honest()
    # A party with a node key that nobody agreed on.
    folder = shared.folder
    shared.kill("west")
    shutil.copytree(folder / "fed/west", folder / "west as it was")
    shared.do("privem federate key stranger --name west")
    (folder / "fed/west/node").unlink()
    shutil.copy(folder / "stranger/node.key", folder / "fed/west/node.key")
    said = shared.do("privem federate party fed/west west.csv", code=7)
    assert "does not know this node's key" in said
    # It cannot register itself.
    with pytest.raises(httpx.HTTPStatusError, match="403"):
        register(shared, folder / "stranger/card.json")
    # Let in by whoever has the server's secret, it still gets no message.
    secret = (folder / "fed/server/secret").read_bytes()
    register(shared, folder / "stranger/card.json", Shown(secret))
    shared.party("west", {"do": "record", "folder": str(folder / "overheard")})
    shared.connected()
    said = shared.do(f"{EXACT} --patience 3 --new", code=7)
    assert "west" in said
    assert not list(folder.glob("overheard/*-in"))
    shared.kill("west")
    # One with its own signing keys in the place of the agreed ones.
    shutil.copy(folder / "stranger/state", folder / "fed/west/state")
    said = shared.do("privem federate party fed/west west.csv", code=2)
    assert "other keys" in said
    # One that the agreement does not name.
    shared.do("privem federate key east --name east")
    shutil.copy(folder / "fed/federation.json", folder / "east/federation.json")
    said = shared.do("privem federate party east west.csv", code=2)
    assert "does not name 'east'" in said
    # A party of another federation meets a server that is not its own.
    names = "--party north --party west --party south"
    shared.do(f"privem federate init other {names}")
    said = shared.do("privem federate party other/north north.csv", code=7)
    assert "not the one of this federation" in said
    # Two processes for one party would say two things.
    said = shared.do("privem federate party fed/north north.csv", code=7)
    assert "runs already" in said
    # The party itself is welcome, and the fit goes on with it.
    shutil.rmtree(folder / "fed/west")
    shutil.copytree(folder / "west as it was", folder / "fed/west")
    shared.honest()
    shared.do(EXACT)
    shared.same_as_central()
