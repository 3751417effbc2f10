"""Masked sums as a protection: ``masked/`` adds integers, this tells it which."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Generator
from typing import TYPE_CHECKING, Self

from ...agreement import Agreement
from ...errors import FederationError, TooFewParties
from ...wire.codec import BadMessage, decode, encode
from ...wire.messages import question_hash
from ..base import Inside, Mail, Opened, Round

if TYPE_CHECKING:
    from . import MaskedParty, MaskedSums

__all__ = ["MaskedServer", "MaskedSide"]


def _session(agreement: Agreement, run: str) -> bytes:
    """Names a run: it is in every key, mask and signature.

    Parties that have agreed on different terms (so that they add other shares of noise) share no
    masks.
    """
    return hashlib.sha256(f"{agreement.hash}|{run}".encode()).digest()


class MaskedServer:
    """Drives :class:`privem.federation.protections.masked.MaskedSums`, one for a run."""

    def __init__(self, agreement: Agreement, run: str, state: bytes = b"") -> None:
        from . import MaskedSums

        self._sums: MaskedSums = MaskedSums(agreement.scheme, _session(agreement, run), state)

    def state(self) -> bytes:
        """What is kept from round to round."""
        return self._sums.state()

    def collect(self, this: Round) -> Generator[Mail, Mail, Opened]:
        """One masked sum over those who are still asked."""
        from . import Refused
        from . import TooFewParties as Missing

        about = question_hash(this.question)
        try:
            total, parties = yield from self._sums.sum(this.number, this.size, about, this.active)
        except Missing as problem:
            raise TooFewParties(str(problem)) from None
        except Refused as problem:
            raise FederationError(f"masked sum: {problem}") from None
        return Opened(total, tuple(parties))


class MaskedSide:
    """Drives a :class:`~privem.federation.protections.masked.MaskedParty`, a new one each run."""

    def __init__(self, state: bytes = b"") -> None:
        self._session, self._state, self._secret = b"", b"", b""
        self._party: MaskedParty | None = None
        if state:
            body = decode(state, own=True)[1]
            self._session, self._state = body["session"], body["state"]
            self._secret = body["secret"]

    def state(self) -> bytes:
        """The run and the state of its masked party."""
        state = self._state if self._party is None else self._party.state()
        body = {"session": self._session, "state": state, "secret": self._secret}
        return encode("masked", body)

    def begin(self, secret: bytes) -> None:
        """A new masked party will have its secret from these bytes."""
        self._session, self._state, self._secret, self._party = b"", b"", secret, None

    def copy(self) -> Self:
        """The side as it is now."""
        other = copy.copy(self)
        other._party = copy.copy(self._party)
        return other

    def handle(self, payload: bytes, inside: Inside) -> bytes:
        """Answer one payload."""
        from . import Refused

        try:
            return self._member(inside).handle(payload, inside.numbers, inside.round, inside.about)
        except Refused as problem:
            raise BadMessage(f"masked sum: {problem}") from None

    def _member(self, inside: Inside) -> MaskedParty:
        from . import Identity, MaskedParty

        session = _session(inside.agreement, inside.run)
        if self._party is None or self._session != session:
            identity, scheme = Identity(inside.signing_key), inside.agreement.scheme
            if self._session == session and self._state:
                self._party = MaskedParty.from_state(identity, scheme, self._state)
            else:
                self._party = MaskedParty(identity, scheme, session, self._secret)
            self._session, self._state, self._secret = session, b"", b""
        return self._party
