"""The server of masked sums: what it keeps from round to round.

It is trusted with nothing. What it checks keeps sums right, not private: privacy is kept by what
parties refuse.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from ...errors import Refused
from ...primitives import Words
from .exchanges import Exchange, Exchanges
from .messages import KEYS_BYTES, Reader, table
from .scheme import MAX_RUN_BYTES, MAX_SIZE, Scheme

MaskedSum = Exchange[tuple[Words, list[str]]]
_MAGIC = b"PVMV\x03"


@dataclass(frozen=True)
class _Session:
    """What the server keeps from round to round."""

    secret: bytes
    """The server's secret key of the run, with which it recognises replies."""
    keys: Mapping[int, bytes] = field(default_factory=dict)
    """The parties' keys of the run, with their signatures."""
    number: int = 0
    shares: Mapping[int, bytes] = field(default_factory=dict)
    """The shares that parties have sent for the round of that number."""


class MaskedSums:
    """The server's side of masked sums, for one run.

    Parameters
    ----------
    scheme
        The terms, the same at every party.
    run
        Which fit the sums belong to (at most 64 bytes).
    state
        Of an earlier one, to go on from.

    Examples
    --------
    >>> from privem.federation.protections.masked import Identity, Roster, Scheme
    >>> roster = Roster("trial", {name: Identity.new().public for name in "abc"})
    >>> server = MaskedSums(Scheme.of(roster), b"run 1")
    >>> sorted(next(server.sum(1, size=5)))  # the first messages, by party
    ['a', 'b', 'c']
    """

    def __init__(self, scheme: Scheme, run: bytes, state: bytes = b"") -> None:
        if not 0 < len(run) <= MAX_RUN_BYTES:
            raise ValueError(f"a run's id has 1 to {MAX_RUN_BYTES} bytes, got {len(run)}")
        self._scheme, self._run = scheme, bytes(run)
        self._session = self._read(state) if state else _Session(os.urandom(32))
        self._tags: dict[int, bytes] = {}

    def state(self) -> bytes:
        """Return what must be kept between rounds. It says nothing about inputs."""
        one = self._session
        parts = [_MAGIC, self._scheme.session(self._run), one.secret, table(one.keys)]
        parts.append(one.number.to_bytes(8, "little"))
        for index, body in one.shares.items():
            parts += [index.to_bytes(4, "little"), len(body).to_bytes(4, "little"), body]
        return b"".join(parts)

    def _read(self, state: bytes) -> _Session:
        reader = Reader(state)
        known = reader.take(len(_MAGIC)) == _MAGIC
        if not known or reader.take(32) != self._scheme.session(self._run):
            raise Refused("not the state of a server of masked sums of this run")
        secret = reader.take(32)
        keys = reader.table(KEYS_BYTES, range(len(self._scheme.roster)))
        number, shares = reader.number(8), {}
        while reader.left():
            index = reader.number(4)
            shares[index] = reader.take(reader.number(4))
        return _Session(secret, keys, number, shares)

    def sum(
        self,
        number: int,
        size: int,
        about: bytes = b"",
        among: Iterable[str] | None = None,
        patience: int = 1,
    ) -> MaskedSum:
        """Sum the parties' vectors modulo 2^64 without seeing any of them.

        A generator: it yields messages by party id and is sent replies by party id, three times
        (four on a sparse graph), and once or twice more in the first round. A party that is missing
        from the replies, or whose reply does not fit, has dropped out.

        Parameters
        ----------
        number
            Of the round: larger than any before in this run, by 1,000 at most.
        size
            How many integers each party contributes.
        about
            What they are: parties that take them for something else are not counted.
        among
            Who is asked; all by default.
        patience
            How often those missing are asked again where too few have answered.

        Returns
        -------
        (sum, parties) by ``StopIteration.value``
            The sum as uint64 (view it as int64 for signed numbers), the sorted ids counted in it.

        Raises
        ------
        TooFewParties
            The sum stays closed. The error names who was missing and why.
        """
        if not 0 <= number < 2**63:
            raise ValueError("rounds are counted from zero, below 2^63")
        if not 0 < size <= MAX_SIZE:
            raise ValueError(f"a sum has 1 to {MAX_SIZE} entries, got {size}")
        index = self._scheme.roster.index
        some = range(len(index)) if among is None else sorted(index[name] for name in among)
        exchanges = Exchanges(
            self._scheme, self._run, self._session.secret, number, size, about, patience, self._tags
        )
        return self._sum(exchanges, tuple(some))

    def _sum(self, exchanges: Exchanges, some: tuple[int, ...]) -> MaskedSum:
        session = self._session
        if not session.keys:  # Parties accept keys once: these are the run's from now on.
            keys = yield from exchanges.ask_keys(some)
            session = self._session = replace(session, keys=keys)
        known = session.shares if session.number == exchanges.number else {}
        shares = yield from exchanges.ask_shares(some, session.keys, known)
        total, counted, ahead = yield from exchanges.ask_inputs(shares)
        # Only now: until the sum is open, a new attempt must ask the same again.
        self._session = replace(session, number=exchanges.number + 1, shares=ahead)
        return total, sorted(exchanges.names[i] for i in counted)
