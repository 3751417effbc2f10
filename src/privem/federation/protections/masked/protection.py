"""Masked sums as a protection: this tells the protocol which integers to add, and for what."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Generator
from functools import lru_cache
from typing import Self

from ...agreement import Agreement
from ...errors import FederationError, Refused
from ...primitives import Identity
from ...wire.codec import BadMessage, decode, encode
from .. import Mail, Opened, PartyRound, PartySide, Protection, ServerRound, ServerSide
from .party import MaskedParty
from .scheme import ALL_PAIRS, Roster, Scheme
from .server import MaskedSums


@lru_cache(maxsize=16)
def scheme_of(agreement: Agreement) -> Scheme:
    """The terms of a masked sum that follow from an agreement."""
    keys = {card.name: bytes.fromhex(card.signing) for card in agreement.members}
    roster = Roster("privem", keys, bytes.fromhex(agreement.seed))
    return Scheme.of(roster, threshold=agreement.opened_by)


def session_of(agreement: Agreement, run: str) -> bytes:
    """Names a run: it is in every key, mask and signature.

    Parties that have agreed on different terms (so that they add other shares of noise) share no
    masks.
    """
    return hashlib.sha256(f"{agreement.hash}|{run}".encode()).digest()


class MaskedServer(ServerSide):
    """Drives :class:`~privem.federation.protections.masked.MaskedSums`, one for a run."""

    def __init__(self, agreement: Agreement, run: str, state: bytes = b"") -> None:
        self._sums = MaskedSums(scheme_of(agreement), session_of(agreement, run), state)

    def state(self) -> bytes:
        """What is kept from round to round."""
        return self._sums.state()

    def collect(self, this: ServerRound) -> Generator[Mail, Mail, Opened]:
        """One masked sum over those who are still asked."""
        about = hashlib.sha256(this.question).digest()
        try:
            total, parties = yield from self._sums.sum(this.number, this.size, about, this.active)
        except Refused as problem:
            raise FederationError(f"masked sum: {problem}") from None
        return Opened(total, tuple(parties))


class MaskedSide(PartySide):
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

    def handle(self, payload: bytes, this: PartyRound) -> bytes:
        """Answer one payload."""
        try:
            return self._member(this).handle(payload, this.numbers, this.round, this.about)
        except Refused as problem:
            raise BadMessage(f"masked sum: {problem}") from None

    def _member(self, this: PartyRound) -> MaskedParty:
        session = session_of(this.agreement, this.run)
        if self._party is None or self._session != session:
            identity, scheme = Identity(this.signing_key), scheme_of(this.agreement)
            if self._session == session and self._state:
                self._party = MaskedParty.from_state(identity, scheme, self._state)
            else:
                self._party = MaskedParty(identity, scheme, session, self._secret)
            self._session, self._state, self._secret = session, b"", b""
        return self._party


class Masked(Protection):
    """``protection="masked"``."""

    trust = (
        "The server learns the total and nothing else, also when it breaks the protocol, as long "
        "as no more parties work with it than were declared. No party learns another's numbers."
    )
    keys = ("signing",)
    shares_noise = True

    def adds_integers(self, private: bool, bounded: bool) -> bool:
        """Masks are integers modulo 2^64."""
        return True

    def check_agreement(self, agreement: Agreement) -> None:
        """More than two thirds of the parties must stay."""
        n = len(agreement.members)
        if 3 * agreement.opened_by <= 2 * n:
            raise ValueError(
                f"dropouts={agreement.dropouts} of {n} parties: a masked sum needs more than two "
                "thirds of them to stay, or a server that lies could open two; expect at most "
                f"{(n - 1) // 3} to drop out"
            )

    def honest_parties(self, agreement: Agreement) -> int:
        """An active server can do worse than let parties drop out: ``docs/proofs/masked.md``."""
        left = super().honest_parties(agreement)
        if all(card.signing for card in agreement.members):
            left = min(left, scheme_of(agreement).honest_cohort(agreement.colluders))
        return left

    def about_sharing(self, parties: int) -> str:
        """Peers on a sparse graph."""
        if parties <= ALL_PAIRS:
            return ""
        return (
            " With so many parties each shares masks with some of the others: that so many honest "
            "ones are in a sum holds but for a chance of 2^-40, and for colluders who were chosen "
            "without looking at who shares with whom."
        )

    def server_side(self, agreement: Agreement, run: str, state: bytes = b"") -> MaskedServer:
        """Takes masks off sums."""
        return MaskedServer(agreement, run, state)

    def party_side(self, state: bytes = b"") -> MaskedSide:
        """Puts masks on numbers."""
        return MaskedSide(state)


PROTECTION = Masked()
