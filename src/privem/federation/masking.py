"""Masked sums as a protection: ``masked/`` adds integers, this tells it which."""

from __future__ import annotations

import hashlib
from collections.abc import Generator
from typing import TYPE_CHECKING

from .codec import BadMessage, decode, encode
from .errors import TooFewParties
from .protection import Inside, Mail, Opened, Round

if TYPE_CHECKING:
    from .masked import MaskedParty

__all__ = ["MaskedServer", "MaskedSide"]


def _run(run: str) -> bytes:
    return hashlib.sha256(run.encode()).digest()


class MaskedServer:
    """Drives :func:`privem.federation.masked.masked_sum`."""

    def __init__(self, state: bytes = b"") -> None:
        pass

    def state(self) -> bytes:
        """Nothing is kept from round to round."""
        return b""

    def collect(self, this: Round) -> Generator[Mail, Mail, Opened]:
        """One masked sum over all members; whoever is no longer asked counts as missing."""
        from .masked import TooFewParties as Missing
        from .masked import masked_sum

        protocol = masked_sum(
            this.agreement.scheme,
            _run(this.run),
            this.number,
            this.size,
            attempt=this.attempt,
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


class MaskedSide:
    """Drives a :class:`privem.federation.masked.MaskedParty`, a new one for each run."""

    def __init__(self, state: bytes = b"") -> None:
        self._run, self._state = "", b""
        self._party: MaskedParty | None = None
        if state:
            body = decode(state)[1]
            self._run, self._state = body["run"], body["state"]

    def state(self) -> bytes:
        """The run and the state of its masked party."""
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

        if self._party is None or self._run != inside.run:
            identity, scheme = Identity(inside.signing_key), inside.agreement.scheme
            if self._run == inside.run and self._state:
                self._party = MaskedParty.from_state(identity, scheme, self._state)
            else:
                self._party = MaskedParty(identity, scheme, _run(inside.run))
            self._run, self._state = inside.run, b""
        return self._party
