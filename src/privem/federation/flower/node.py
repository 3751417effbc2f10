"""A party's side: a ClientApp behind Flower's Fleet API, one message after the other."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import FederationError
from ..flower import MESSAGE_TYPE, require
from ..party.party import Party
from .transport import Pace, content, pack, payload, unpack

if TYPE_CHECKING:
    from flwr.app import Context, Message
    from flwr.clientapp import ClientApp


# Seconds between two attempts to connect: at first, then twice as long, up to the other.
_RECONNECT, _RARELY = 0.5, 8.0
# After how many seconds a node whose key was never accepted gives up.
_GRACE = 10.0
# What a server says that is not ready yet: on a slow machine that may take longer.
_NOT_YET = (502, 503, 504)


def client_app(party: Party) -> ClientApp:
    """A ClientApp that answers for a party, which has joined its agreement and stores its state."""
    require()
    from flwr.app import Message
    from flwr.clientapp import ClientApp

    app = ClientApp()

    @app.query("privem")
    def answer(message: Message, context: Context) -> Message:
        return Message(content(party.handle(payload(message))), reply_to=message)

    return app


class _Forgotten(Exception):
    """The server does not know this node, or no longer."""


class Node:
    """Answers a SuperLink's messages with a ClientApp, in this process.

    Parameters
    ----------
    app : ClientApp
    address : str
        Host and port of the SuperLink.
    ca : bytes
        The certificate it must show a descendant of (PEM).
    key : bytes
        The node's private key (PEM), of which the server knows the public half.
    known : Path
        Where the number that the server gave this node is kept.
    say : callable
        Called with what happens, in words, for the party's owner.
    """

    def __init__(
        self,
        app: ClientApp,
        address: str,
        ca: bytes,
        key: bytes,
        known: Path,
        say: Callable[[str], None],
    ) -> None:
        require()
        from flwr.supercore.interceptors import RuntimeVersionHttpInterceptor
        from flwr.supercore.primitives.asymmetric import bytes_to_private_key, public_key_to_bytes
        from flwr.supernode.fleet_http_client import FleetHttpClient
        from flwr.supernode.node_auth_http_interceptor import NodeAuthHttpInterceptor

        private = bytes_to_private_key(key)
        self._app, self._address, self._known, self._say = app, address, known, say
        self._public = public_key_to_bytes(private.public_key())
        self._client = FleetHttpClient.from_server_address(
            address,
            False,
            ca,
            [
                RuntimeVersionHttpInterceptor(component_name="SuperNode"),
                NodeAuthHttpInterceptor(private, private.public_key()),
            ],
        )
        self._node: Any = None
        self._been = False  # connected before: whatever is wrong now will pass

    def serve(self) -> None:
        """Answer until interrupted. If the server is away, wait for it."""
        import httpx
        from flwr.proto.fleet_pb2 import DeactivateNodeRequest
        from flwr.supercore.heartbeat import HeartbeatSender

        self._connect()
        self._say("connected")
        heart = HeartbeatSender(self._beat)
        heart.start()
        try:
            while True:
                try:
                    self._converse()
                except _Forgotten:  # the server was started anew
                    self._connect()
                    self._say("connected again")
        finally:
            heart.stop()
            with suppress(httpx.HTTPError):
                self._client.DeactivateNode(DeactivateNodeRequest(node_id=self._node.node_id))

    def _connect(self) -> None:
        """Connect. A node that has connected once tries for ever: the server will know it again."""
        gaps, end = _gaps(), time.monotonic() + _GRACE
        while True:
            try:
                self._patiently(self._activate)
                self._been = True
                return
            except _Forgotten as problem:
                if not self._been and time.monotonic() > end:
                    raise FederationError(f"{_STRANGER} ({problem})") from None
                time.sleep(next(gaps))

    def _converse(self) -> None:
        import httpx

        pace, took = Pace(), 0.0
        while True:
            pace.pause(took)
            begun = time.monotonic()
            message = None
            with suppress(httpx.HTTPStatusError):  # the server's own trouble: ask again
                message = self._patiently(self._receive)
            took = time.monotonic() - begun
            if message is None:
                continue
            pace.came()
            reply = self._answer(message)
            try:
                self._patiently(partial(self._send, reply))
            except httpx.HTTPStatusError:
                self._say("a reply came too late: its run is over")
            pace.begin()

    def _patiently(self, call: Callable[[], Any]) -> Any:
        """Call, and wait as long as there is no server; say so once."""
        import httpx

        waiting, gaps = False, _gaps()
        while True:
            try:
                found = call()
            except httpx.TransportError as problem:
                if "certificate" in str(problem).lower() and not self._been:
                    raise FederationError(
                        f"the server at {self._address} is not the one of this federation: "
                        f"{problem}"
                    ) from None
                if not waiting:
                    self._say(f"waiting for the server at {self._address}")
                waiting = True
                time.sleep(next(gaps))
                continue
            except httpx.HTTPStatusError as problem:
                if problem.response.status_code in _NOT_YET:
                    time.sleep(_RECONNECT)
                    continue
                if problem.response.status_code == 401:
                    raise _Forgotten("status 401") from None
                raise
            if waiting:
                self._say("the server is there")
            return found

    def _activate(self) -> None:
        import httpx
        from flwr.common.constant import HEARTBEAT_DEFAULT_INTERVAL
        from flwr.proto.fleet_pb2 import ActivateNodeRequest, DeactivateNodeRequest
        from flwr.proto.node_pb2 import Node as Number

        request = ActivateNodeRequest(
            public_key=self._public, heartbeat_interval=HEARTBEAT_DEFAULT_INTERVAL
        )
        try:
            number = self._client.ActivateNode(request).node_id
        except httpx.HTTPStatusError as problem:
            if problem.response.status_code in _NOT_YET:
                raise
            why = f"status {problem.response.status_code}"
            # If this node was killed a moment ago, the server still counts it: deactivate it first.
            try:
                old = int(self._known.read_text())
                self._client.DeactivateNode(DeactivateNodeRequest(node_id=old))
                number = self._client.ActivateNode(request).node_id
            except (httpx.HTTPStatusError, ValueError, OSError):
                raise _Forgotten(why) from None
        self._known.write_text(str(number))
        self._node = Number(node_id=number)

    def _beat(self) -> bool:
        import httpx
        from flwr.common.constant import HEARTBEAT_DEFAULT_INTERVAL
        from flwr.proto.heartbeat_pb2 import SendNodeHeartbeatRequest

        request = SendNodeHeartbeatRequest(
            node=self._node, heartbeat_interval=HEARTBEAT_DEFAULT_INTERVAL
        )
        try:
            return bool(self._client.SendNodeHeartbeat(request).success)
        except httpx.HTTPError:
            return False

    def _receive(self) -> Message | None:
        from flwr.proto.fleet_pb2 import PullMessagesRequest

        found = self._client.PullMessages(PullMessagesRequest(node=self._node))
        return next(iter(unpack(found)), None)

    def _answer(self, message: Message) -> Message:
        from flwr.app import Context, Error, Message, RecordDict
        from flwr.common.constant import ErrorCode

        run = message.metadata.run_id
        if message.metadata.message_type != MESSAGE_TYPE:
            error = Error(ErrorCode.CLIENT_APP_RAISED_EXCEPTION, "not a message of privem")
            return Message(error, reply_to=message)
        context = Context(
            run_id=run,
            node_id=self._node.node_id,
            node_config={},
            state=RecordDict(),
            run_config={},
        )
        # What the app remembers is in the party's own state file, not in the context: it must
        # outlive this process.
        return self._app(message, context)

    def _send(self, message: Message) -> None:
        from flwr.proto.fleet_pb2 import PushMessagesRequest

        # The running time is not reported: it may tell about the rows.
        request = PushMessagesRequest(
            node=self._node, clientapp_runtime_list=[0.0], **pack(message)
        )
        self._client.PushMessages(request)


def _gaps() -> Iterator[float]:
    """How long to wait before each further attempt."""
    gap = _RECONNECT
    while True:
        yield gap
        gap = min(2 * gap, _RARELY)


_STRANGER = (
    "the server does not know this node's key: it is not the one that was given to privem "
    "federate init, or the server is of another federation"
)
