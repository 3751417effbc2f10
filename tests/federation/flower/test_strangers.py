"""Somebody who reaches the server's port, and has no account: delay is all the harm they can do."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("flwr")

from privem.federation import FederationError
from privem.federation.flower import node as nodes
from privem.federation.flower.superlink import Gate, proof

from .conftest import EXACT, PARTIES

SECRET = b"5e" * 32


def ask(gate, path, *headers, kind="http"):
    """The status that comes back; 200 is the app's."""
    sent = []

    async def send(message):
        sent.append(message)

    asyncio.run(gate({"type": kind, "path": path, "headers": headers}, None, send))
    return sent[0]["status"] if sent else None


async def app(scope, receive, send):
    await send({"status": 200})


CONTROL = ["unregister-node", "register-node", "stop-run", "start-run", "list-nodes"]
CLOSED = [f"/v1/control/{what}" for what in CONTROL]
CLOSED += ["/v1/fleet/register-node", "/v1/fleet/unregister-node", "/v1/fleet/push-object"]
CLOSED += ["/docs", "/openapi.json", "/v1/control", "//v1/fleet/activate-node", ""]


@pytest.mark.parametrize("path", CLOSED)
def test_the_gate_is_open_to_whoever_has_the_secret(path):
    gate = Gate(app, SECRET, lambda: True)
    mine, other = (("privem-proof", proof(secret)) for secret in (SECRET, b"5f" * 32))
    for shown in ((), other, ("privem-proof", ""), ("privem-proof", SECRET.decode())):
        headers = [tuple(part.encode() for part in shown)] if shown else []
        assert ask(gate, path, *headers) == 403
    assert ask(gate, path, tuple(part.encode() for part in mine)) == 200
    assert ask(gate, path, kind="websocket") is None


def test_nodes_wait_until_all_keys_are_known():
    ready = []
    gate = Gate(app, SECRET, lambda: bool(ready))
    assert ask(gate, "/v1/fleet/activate-node") == 503
    ready.append(1)
    assert ask(gate, "/v1/fleet/activate-node") == 200
    assert ask(gate, "/v1/runtime/acquire-task") == 200  # Flower knows these by the secret itself


class Impatient:
    """A clock that runs as fast as somebody sleeps."""

    def __init__(self, monkeypatch):
        self.now, self.slept = 0.0, []
        monkeypatch.setattr(nodes.time, "monotonic", lambda: self.now)
        monkeypatch.setattr(nodes.time, "sleep", self.sleep)

    def sleep(self, seconds):
        self.now += seconds
        self.slept.append(seconds)


@pytest.fixture
def node(tmp_path):
    found = nodes.Node.__new__(nodes.Node)
    found._been, found._say, found._address, found.told = False, lambda text: None, "x", []
    return found


def refused(times, kind):
    left = iter(range(times))

    def activate():
        if next(left, None) is not None:
            raise kind

    return activate


def test_a_party_that_was_let_in_once_tries_for_ever(node, monkeypatch):
    import httpx

    clock = Impatient(monkeypatch)
    node._activate = refused(3, nodes._Forgotten("status 401"))
    node._connect()
    assert clock.slept == [0.5, 1.0, 2.0]
    node._activate = refused(2000, nodes._Forgotten("status 401"))
    node._connect()  # an hour and more
    assert clock.now > 3600
    assert max(clock.slept) == 8.0
    # Somebody else answers at the port: not ours, and not for ever.
    node._activate = refused(50, httpx.ConnectError("certificate verify failed"))
    node._connect()


def test_a_party_waits_for_a_server_that_is_not_ready(node, monkeypatch, tmp_path):
    """However long it takes: it was said that the server does not know the key."""
    import httpx

    clock, left = Impatient(monkeypatch), iter(range(100))

    class Client:
        def ActivateNode(self, request):
            if next(left, None) is not None:
                busy = httpx.Response(503, request=httpx.Request("POST", "https://x"))
                busy.raise_for_status()
            return SimpleNamespace(node_id=7)

    node._client, node._public, node._known = Client(), b"", tmp_path / "node"
    node._connect()
    assert clock.now > 10
    assert node._node.node_id == 7


def test_a_party_that_was_never_let_in_gives_up(node, monkeypatch):
    import httpx

    Impatient(monkeypatch)
    node._activate = refused(2000, nodes._Forgotten("status 401"))
    with pytest.raises(FederationError, match="does not know this node's key"):
        node._connect()
    node._activate = refused(50, httpx.ConnectError("certificate verify failed"))
    with pytest.raises(FederationError, match="not the one of this federation"):
        node._connect()


def attack(folder: Path, port: int) -> list[str]:
    """All that a stranger may try without the secret; what came back."""
    import httpx
    from cryptography.hazmat.primitives.asymmetric import ec
    from flwr.proto import control_pb2 as control
    from flwr.proto import fleet_pb2 as fleet
    from flwr.supercore.control.control_http_client import ControlHttpClient
    from flwr.supercore.interceptors import RuntimeVersionHttpInterceptor
    from flwr.supercore.primitives.asymmetric import public_key_to_bytes
    from flwr.supernode.fleet_http_client import FleetHttpClient
    from flwr.supernode.node_auth_http_interceptor import NodeAuthHttpInterceptor

    ca = (folder / "fed/server/ca.pem").read_bytes()
    numbers = [int((folder / f"fed/{name}/node").read_text()) for name in PARTIES]
    own = ec.generate_private_key(ec.SECP256R1())
    known = public_key_to_bytes(own.public_key())
    signs = [
        RuntimeVersionHttpInterceptor(component_name="SuperNode"),
        NodeAuthHttpInterceptor(own, own.public_key()),
    ]
    found = []

    def tried(call, request):
        try:
            call(request)
            found.append("done")
        except httpx.HTTPStatusError as problem:
            found.append(str(problem.response.status_code))

    address = f"127.0.0.1:{port}"
    with ControlHttpClient.from_server_address(address, False, ca, []) as client:
        tried(client.ListNodes, control.ListNodesRequest())
        tried(client.ListRuns, control.ListRunsRequest())
        tried(client.RegisterNode, control.RegisterNodeRequest(public_key=known, name="x"))
        for number in numbers:
            tried(client.UnregisterNode, control.UnregisterNodeRequest(node_id=number))
        for run in range(3):
            tried(client.StopRun, control.StopRunRequest(run_id=run))
    with FleetHttpClient.from_server_address(address, False, ca, signs) as client:
        me = fleet.ActivateNodeRequest(public_key=known, heartbeat_interval=30)
        tried(client.ActivateNode, me)
        for number in numbers:
            tried(client.DeactivateNode, fleet.DeactivateNodeRequest(node_id=number))
    return found


@pytest.mark.slow
def test_a_fit_goes_on_while_a_stranger_does_the_worst(stage):
    stage.federation()
    assert "ERROR" not in stage.log("server")  # Flower says nothing in red at the start
    assert "done" not in attack(stage.folder, stage.port)
    fit, over, tried = stage.start("run", EXACT), threading.Event(), []

    def again():
        while not over.is_set():
            tried.extend(attack(stage.folder, stage.port))
            over.wait(0.5)

    stranger = threading.Thread(target=again)
    stranger.start()
    try:
        assert fit.wait(180) == 0, stage.log("run")
    finally:
        over.set()
        stranger.join()
    assert tried
    assert "done" not in tried
    assert all(stage.running[name].poll() is None for name in PARTIES)
    stage.same_as_central()
    # The server's own folder is told who is there, others only that the server is.
    assert "online" in stage.do("privem federate status fed/server")
    (stage.folder / "fed/server/secret").rename(stage.folder / "kept")
    said = stage.do("privem federate status fed/server")
    assert ": up" in said
    assert "online" not in said
    (stage.folder / "kept").rename(stage.folder / "fed/server/secret")


@pytest.mark.slow
def test_parties_come_back_to_a_server_that_was_away(stage):
    stage.federation()
    for away in (0.0, 15.0):  # longer than a party waits that was never let in
        stage.kill("server")
        if away:
            threading.Event().wait(away)
        stage.start("server", "privem federate server fed/server")
    stage.until(lambda: all("connected again" in stage.log(name) for name in PARTIES))
    assert all(stage.running[name].poll() is None for name in PARTIES)
    stage.do(EXACT)
    stage.same_as_central()
    assert "ERROR" not in stage.log("server")
