"""Which code an agreement means."""

from __future__ import annotations

from . import cipher
from .agreement import Agreement
from .ckks import CkksParty, CkksServer
from .ckks_paper import PaperParty, PaperServer
from .masking import MaskedServer, MaskedSide
from .plain import PlainParty, PlainServer
from .protection import PartySide, ServerSide
from .threshold import require

__all__ = ["party_side", "server_side"]


def server_side(agreement: Agreement, run: str, state: bytes = b"") -> ServerSide:
    """The server's half in a run, going on from ``state`` if there is any."""
    match agreement.protection:
        case "plain":
            return PlainServer(state)
        case "ckks":
            cipher.require()
            return PaperServer(state) if agreement.paper else CkksServer(state)
        case "masked":
            return MaskedServer(agreement, run, state)
    require()
    raise NotImplementedError(agreement.protection)


def party_side(agreement: Agreement, state: bytes) -> PartySide:
    """A party's half, going on from ``state`` if there is any."""
    match agreement.protection:
        case "plain":
            return PlainParty(state)
        case "ckks":
            cipher.require()
            return PaperParty(state) if agreement.paper else CkksParty(state)
        case "masked":
            return MaskedSide(state)
    require()
    raise NotImplementedError(agreement.protection)
