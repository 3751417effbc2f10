"""Which code an agreement means."""

from __future__ import annotations

from ..agreement import Agreement
from .base import PartySide, ServerSide
from .ckks import CkksParty, CkksServer
from .encrypted import bfv as cipher
from .encrypted.shared_key import EncryptedParty, EncryptedServer
from .masked.protection import MaskedServer, MaskedSide
from .plain import PlainParty, PlainServer

__all__ = ["party_side", "server_side"]


def server_side(agreement: Agreement, run: str, state: bytes = b"") -> ServerSide:
    """The server's half in a run, going on from ``state`` if there is any."""
    match agreement.protection:
        case "plain":
            return PlainServer(state)
        case "encrypted":
            cipher.require()
            return EncryptedServer(state)
        case "ckks":
            cipher.require()
            return CkksServer(state)
        case "masked":
            return MaskedServer(agreement, run, state)
    raise NotImplementedError(agreement.protection)


def party_side(agreement: Agreement, state: bytes) -> PartySide:
    """A party's half, going on from ``state`` if there is any."""
    match agreement.protection:
        case "plain":
            return PlainParty(state)
        case "encrypted":
            cipher.require()
            return EncryptedParty(state)
        case "ckks":
            cipher.require()
            return CkksParty(state)
        case "masked":
            return MaskedSide(state)
    raise NotImplementedError(agreement.protection)
