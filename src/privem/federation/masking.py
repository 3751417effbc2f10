"""Masked sums as a protection: ``masked/`` adds integers, this tells it which."""

from __future__ import annotations

import hashlib
from collections.abc import Generator
from typing import TYPE_CHECKING

from .codec import BadMessage, decode, encode
from .errors import FederationError, TooFewParties
from .protection import Inside, Mail, Opened, Round

if TYPE_CHECKING:
    from .masked import MaskedParty

__all__ = ["MaskedServer", "MaskedSide"]


def _run(agreement: str, run: str, number: int, question: bytes) -> bytes:
    """Names one sum: agreement, round and question are in every key, mask and signature of it.

    Parties that have agreed on different terms (so that they add other shares of noise), or were
    asked different things, share no masks, and a party opens one sum a round.
    """
    digest = hashlib.sha256(f"{agreement}|{number}|{run}|".encode())
    digest.update(hashlib.sha256(question).digest())
    return digest.digest()


class MaskedServer:
    """Drives :func:`privem.federation.masked.masked_sum`."""

    def __init__(self, state: bytes = b"") -> None:
        pass

    def state(self) -> bytes:
        """Nothing is kept from round to round."""
        return b""

    def collect(self, this: Round) -> Generator[Mail, Mail, Opened]:
        """One masked sum over all members; whoever is no longer asked counts as missing."""
        from .masked import Refused, masked_sum
        from .masked import TooFewParties as Missing

        protocol = masked_sum(
            this.agreement.scheme,
            _run(this.agreement.hash, this.run, this.number, this.question),
            this.number,
            this.size,
        )
        try:
            mail = next(protocol)
            while True:
                asked = {name: m for name, m in mail.items() if name in this.active}
                replies = yield asked
                mail = protocol.send(replies)
        except StopIteration as end:
            total, parties = end.value
            return Opened(total, tuple(parties))
        except Missing as problem:
            raise TooFewParties(str(problem)) from None
        except Refused as problem:
            raise FederationError(f"masked sum: {problem}") from None


class MaskedSide:
    """Drives a :class:`privem.federation.masked.MaskedParty`, a new one for each round."""

    def __init__(self, state: bytes = b"") -> None:
        self._run, self._state = b"", b""
        self._party: MaskedParty | None = None
        self._asked: tuple[str, str, int, bytes] | None = None
        self._name = b""
        if state:
            body = decode(state, own=True)[1]
            self._run, self._state = body["run"], body["state"]

    def state(self) -> bytes:
        """The round and the state of its masked party."""
        if self._party is not None:
            self._state = self._party.state()
        return encode("masked", {"run": self._run, "state": self._state})

    def handle(self, payload: bytes, inside: Inside) -> bytes:
        """Answer one payload."""
        from .masked import Refused

        try:
            return self._member(inside).handle(payload, inside.numbers)
        except Refused as problem:
            raise BadMessage(f"masked sum: {problem}") from None

    def _member(self, inside: Inside) -> MaskedParty:
        from .masked import Identity, MaskedParty

        asked = (inside.agreement.hash, inside.run, inside.round, inside.question)
        if asked != self._asked:  # Questions are long: hash each once, not in every phase.
            self._asked, self._name = asked, _run(*asked)
        run = self._name
        if self._party is None or self._run != run:
            identity, scheme = Identity(inside.signing_key), inside.agreement.scheme
            only = inside.round
            if self._run == run and self._state:
                self._party = MaskedParty.from_state(identity, scheme, self._state, only)
            else:
                self._party = MaskedParty(identity, scheme, run, only)
            self._run, self._state = run, b""
        return self._party
