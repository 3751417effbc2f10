"""The SuperLink of a federation: Flower's own, with TLS, and only the agreed nodes.

It keeps its state in memory. Nothing of a fit is lost with it: parties remember what they said, the
fit has its journal, and both find their way back to a SuperLink that is started again. Flower's
database on disk takes more than twice the processor time (36 s against 16 s for ten masked rounds
of three parties), and would keep what passes through.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path

from ..flower import require
from .gate import Gate, Shown

__all__ = ["serve_link"]


def serve_link(
    folder: Path, address: str, host: str, port: int, nodes: Mapping[str, bytes]
) -> None:
    """Run ``flower-superlink`` in this process until it is stopped.

    Parameters
    ----------
    folder : Path
        Holds ``tls.pem``, ``tls.key``, ``ca.pem`` and ``secret``.
    address : str
        Host and port by which this machine reaches it.
    host, port
        Where to listen.
    nodes : mapping of str to bytes
        By party, the public key of its node; nobody else is let in.
    """
    require()
    from flwr.superlink import extensions
    from flwr.superlink.cli.flower_superlink import flower_superlink
    from starlette.middleware import Middleware

    ca, secret = (folder / "ca.pem").read_bytes(), (folder / "secret").read_bytes()
    known = threading.Event()
    gate = Middleware(Gate, secret=secret, ready=known.is_set)
    extensions.get_middleware = lambda: (gate,)
    for other in ("FLWR_INTERNAL_GRPC_CONTROL_API", "FLWR_INTERNAL_GRPC_FLEET_API"):
        os.environ.pop(other, None)  # ways in that have no gate

    def register() -> None:
        _register(address, ca, secret, nodes)
        known.set()

    threading.Thread(target=register, daemon=True).start()
    # fmt: off
    sys.argv = [
        "flower-superlink",
        "--host", host, "--port", str(port),
        "--ssl-certfile", str(folder / "tls.pem"),
        "--ssl-keyfile", str(folder / "tls.key"),
        "--ssl-ca-certfile", str(folder / "ca.pem"),
        "--enable-supernode-auth",
        # The fit is executed by `privem federate run`, which knows the secret; by nobody else.
        "--isolation", "process",
        "--superexec-auth-secret-file", str(folder / "secret"),
        "--disable-runtime-dependency-installation",
    ]
    # fmt: on
    flower_superlink()


def _register(address: str, ca: bytes, secret: bytes, nodes: Mapping[str, bytes]) -> None:
    """Tell the SuperLink the parties' keys, as ``flwr supernode register`` does, once it is up."""
    import httpx
    from flwr.proto.control_pb2 import RegisterNodeRequest
    from flwr.supercore.control.control_http_client import ControlHttpClient

    left = dict(nodes)
    with ControlHttpClient.from_server_address(address, False, ca, [Shown(secret)]) as client:
        while left:
            name = next(iter(left))
            try:
                client.RegisterNode(RegisterNodeRequest(public_key=left[name], name=name))
            except httpx.HTTPError:
                time.sleep(0.1)
            else:
                del left[name]
