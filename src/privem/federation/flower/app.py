"""The Flower app: a ClientApp around a party, a ServerApp around a fit."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ..agreement import Agreement
from ..flower import require
from ..party.party import Party
from ..server.federation import Federation
from ..server.journal import Journal
from .grid import GridTransport

if TYPE_CHECKING:
    from flwr.app import Context, Message, RecordDict
    from flwr.clientapp import ClientApp
    from flwr.serverapp import Grid, ServerApp

__all__ = ["client_app", "content", "payload", "server_app"]


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
