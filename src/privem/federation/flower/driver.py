"""The fit's side: a ServerApp that is executed in this process, on a SuperLink elsewhere."""

from __future__ import annotations

import io
import time
import zipfile
from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING, Any

from ..agreement import Agreement
from ..errors import ServerAway
from ..flower import require
from ..server.federation import Federation
from ..server.journal import Journal
from .superlink import Shown
from .transport import GridTransport, pack, unpack

if TYPE_CHECKING:
    from flwr.app import Context
    from flwr.serverapp import Grid, ServerApp
    from flwr.supercore.runtime import RuntimeHttpClient


# Flower starts a run with an app bundle. Ours is empty: server and parties run the privem that is
# installed where they are, and no node fetches the bundle.
_BUNDLE = """[project]
name = "privem"
version = "1.0.0"
description = "Carries no code: every side runs its own privem."
license = "Apache-2.0"
[tool.flwr.app]
publisher = "privem"
[tool.flwr.app.components]
serverapp = "privem.federation.flower.driver:server_app"
clientapp = "privem.federation.flower.node:client_app"
[tool.flwr.app.config]
"""
# Messages of so many bytes together go in one request; larger ones go one by one.
_TOGETHER = 2**23
_ACQUIRE = "/flwr.proto.Runtime/AcquireTask"
_UNREACHABLE = "the server at {} cannot be reached ({}); start it with: privem federate server"


def _bundle() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr(zipfile.ZipInfo("pyproject.toml"), _BUNDLE)
    return out.getvalue()


def server_app(
    agreement: Agreement,
    nodes: dict[str, bytes],
    journal: Journal,
    fit: Callable[[Federation], None],
    patience: float,
) -> ServerApp:
    """A ServerApp that fits over the parties behind a grid.

    Parameters
    ----------
    agreement : Agreement
    nodes : dict
        By party, the public key its node is registered with.
    journal : Journal
    fit : callable
        What to do with the federation.
    patience : float
        Seconds after which a party that does not answer has dropped out.
    """
    require()
    from flwr.serverapp import ServerApp

    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        fit(Federation.over(agreement, GridTransport(grid, nodes, patience), journal))

    return app


def run_app(app: ServerApp, address: str, ca: bytes, secret: bytes) -> None:
    """Start a run at the SuperLink, and execute ``app`` in it, here.

    Parameters
    ----------
    app : ServerApp
    address : str
        Host and port of the SuperLink.
    ca : bytes
        The certificate it must show a descendant of (PEM).
    secret : bytes
        What the SuperLink knows its executors by.

    Raises
    ------
    ServerAway
        If the SuperLink cannot be reached, or has forgotten the run.
    """
    require()
    import httpx
    from flwr.common.constant import SubStatus
    from flwr.common.serde import context_from_proto, run_from_proto
    from flwr.proto.runtime_pb2 import PullTaskInputRequest, PushTaskOutputRequest
    from flwr.supercore.heartbeat import HeartbeatSender
    from flwr.supercore.interceptors import RuntimeTokenHttpInterceptor
    from flwr.supercore.task_identity import TaskIdentity

    try:
        token = _token(address, ca, secret)
        client = _runtime(address, ca, RuntimeTokenHttpInterceptor(token))
        task = client.PullTaskInput(PullTaskInputRequest())
    except httpx.HTTPError as problem:
        raise ServerAway(_UNREACHABLE.format(address, problem)) from None
    grid = _grid(address, ca, token)
    grid.set_run(run_from_proto(task.run))
    TaskIdentity.task_id, TaskIdentity.run_id = task.task_id, task.run.run_id
    TaskIdentity.node_id = task.context.node_id
    heart = HeartbeatSender(lambda: _beat(client))
    heart.start()
    status, details = SubStatus.FAILED, "stopped"
    try:
        app(grid, context_from_proto(task.context))
        status, details = SubStatus.COMPLETED, ""
    finally:
        heart.stop()
        # If this fails, the SuperLink ends the run because heartbeats stop.
        with suppress(httpx.HTTPError):
            client.PushTaskOutput(PushTaskOutputRequest(sub_status=status, details=details))
        client.close()
        grid.close()


def _token(address: str, ca: bytes, secret: bytes) -> str:
    """Start a run, and take its task."""
    from flwr.proto.control_pb2 import ListRunsRequest, StartRunRequest
    from flwr.proto.fab_pb2 import Fab
    from flwr.proto.runtime_pb2 import AcquireTaskRequest
    from flwr.supercore.constant import TaskType
    from flwr.supercore.control.control_http_client import ControlHttpClient
    from flwr.supercore.interceptors import SuperExecAuthHttpInterceptor

    with ControlHttpClient.from_server_address(address, False, ca, [Shown(secret)]) as control:
        control.ListRuns(ListRunsRequest())  # the SuperLink clears away what ended runs have left
        run = control.StartRun(StartRunRequest(fab=Fab(content=_bundle()))).run_id
    sign = SuperExecAuthHttpInterceptor(master_secret=secret, protected_methods=[_ACQUIRE])
    request = AcquireTaskRequest(supported_task_types=[TaskType.SERVER_APP])
    with _runtime(address, ca, sign) as executor:
        for _ in range(100):
            answer = executor.AcquireTask(request)
            if answer.token and answer.task.run_id == run:
                return str(answer.token)
            time.sleep(0.05)  # there may be others, of runs that were never executed
    raise ServerAway(f"the server at {address} gives us nothing to do")


def _runtime(address: str, ca: bytes, interceptor: Any) -> RuntimeHttpClient:
    from flwr.supercore.interceptors import RuntimeVersionHttpInterceptor
    from flwr.supercore.runtime import RuntimeHttpClient

    version = RuntimeVersionHttpInterceptor(component_name="flwr-serverapp")
    return RuntimeHttpClient.from_server_address(address, False, ca, [version, interceptor])


def _grid(address: str, ca: bytes, token: str) -> Any:
    """A grid that reports errors at once: the journal is how a fit waits and tries again."""
    import httpx
    from flwr.app import Message
    from flwr.proto.runtime_pb2 import PullAppMessagesRequest, PushAppMessagesRequest
    from flwr.supercore.retry import RetryInvoker
    from flwr.superlink.grid import HttpGrid

    class PromptGrid(HttpGrid):
        def __init__(self) -> None:
            super().__init__(address, False, ca, token=token)
            self._retry_invoker = RetryInvoker(
                wait_gen_factory=lambda: (0.2 for _ in count()),
                recoverable_exceptions=httpx.TransportError,
                max_tries=3,
                max_time=None,
            )

        def push_messages(self, messages: Iterable[Message]) -> list[str]:
            parts = [PushAppMessagesRequest(**pack(message)) for message in messages]
            if sum(part.ByteSize() for part in parts) <= _TOGETHER:
                for part in parts[1:]:
                    parts[0].MergeFrom(part)
                del parts[1:]
            push = self._runtime_client.PushMessages
            return [number for part in parts for number in push(part).message_ids]

        def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
            request = PullAppMessagesRequest(message_ids=message_ids)
            return unpack(self._runtime_client.PullMessages(request))

    return PromptGrid()


def _beat(client: Any) -> bool:
    """Tell the SuperLink that this process is alive; the next message shows its answer."""
    import httpx
    from flwr.proto.runtime_pb2 import SendTaskHeartbeatRequest

    try:
        client.SendTaskHeartbeat(SendTaskHeartbeatRequest())
    except httpx.HTTPError:
        return False
    return True


def nodes_of(address: str, ca: bytes, secret: bytes) -> dict[bytes, str] | None:
    """Public keys of registered nodes and their status; ``None`` if the server cannot be reached.

    A server tells this only to those who have its ``secret``; others get an empty answer.
    """
    require()
    import httpx
    from flwr.proto.control_pb2 import ListNodesRequest
    from flwr.supercore.control.control_http_client import ControlHttpClient

    try:
        with ControlHttpClient.from_server_address(address, False, ca, [Shown(secret)]) as client:
            found = client.ListNodes(ListNodesRequest()).nodes_info
    except httpx.HTTPStatusError:
        return {}
    except httpx.HTTPError:
        return None
    return {node.public_key.strip(): str(node.status) for node in found}
