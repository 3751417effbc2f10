"""Who may ask the SuperLink what.

Flower's Control API needs no account: whoever reaches the port could unregister nodes, whose keys
are then refused for good, stop a fit, or register keys of their own. In front of it stands this
gate. Nodes may say the five things that nodes of privem say, which Flower takes from registered
keys only; a fit is known to Flower by the secret in the server's folder, and its task by a token.
For everything else whoever asks shows that they have that secret too.

Nodes are asked to wait until all keys are registered, so that Flower sees none that it does not
know yet.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

__all__ = ["Gate", "Shown", "proof"]

_NODES = tuple(
    f"/v1/fleet/{what}"
    for what in (
        "activate-node",
        "deactivate-node",
        "send-node-heartbeat",
        "pull-messages",
        "push-messages",
    )
)
_FITS = "/v1/runtime/"
_HEADER = "privem-proof"

Scope = MutableMapping[str, Any]
App = Callable[[Scope, Any, Any], Awaitable[None]]


def proof(secret: bytes) -> str:
    """What somebody shows who has the server's secret, and which does not give it away."""
    return hmac.new(secret.strip(), b"privem control", hashlib.sha256).hexdigest()


class Shown:
    """Shows the proof with every request of a client of Flower's."""

    def __init__(self, secret: bytes) -> None:
        self._proof = proof(secret)

    def intercept(self, context: Any, call_next: Callable[[Any], Any]) -> Any:
        """Send the request with it."""
        context.request.headers[_HEADER] = self._proof
        return call_next(context)


class Gate:
    """In front of the SuperLink's app (ASGI).

    Parameters
    ----------
    app : callable
    secret : bytes
    ready : callable
        Whether all keys are registered.
    """

    def __init__(self, app: App, secret: bytes, ready: Callable[[], bool]) -> None:
        self._app, self._proof, self._ready = app, proof(secret).encode("ascii"), ready

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        """Pass a request on, or answer it here."""
        refused = self._refuse(scope) if scope["type"] != "lifespan" else 0
        if not refused:
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            await send({"type": "http.response.start", "status": refused, "headers": []})
            await send({"type": "http.response.body", "body": b""})

    def _refuse(self, scope: Scope) -> int:
        """The status of a refusal; 0 lets the request pass."""
        path = scope["path"] if scope["type"] == "http" else ""
        if path in _NODES:
            return 0 if self._ready() else 503
        if path.startswith(_FITS):
            return 0
        shown = dict(scope.get("headers", ())).get(_HEADER.encode("ascii"), b"")
        return 0 if hmac.compare_digest(shown, self._proof) else 403
