"""The server of masked sums: what it keeps from round to round.

It is trusted with nothing. What it checks keeps sums right, not private: privacy is kept by what
parties refuse.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from ...errors import Refused
from ...primitives import Words
from .exchanges import Exchange, Exchanges
from .messages import KEYS_BYTES, Reader, table
from .scheme import MAX_RUN_BYTES, MAX_SIZE, Scheme

MaskedSum = Exchange[tuple[Words, list[str]]]
_MAGIC = b"PVMV\x03"


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
        # The server's secret key of the run, with which it recognises replies.
        self._secret = os.urandom(32)
        # The parties' keys of the run with their signatures, and the shares they have sent for the
        # round of this number.
        self._keys: Mapping[int, bytes] = {}
        self._number, self._shares = 0, dict[int, bytes]()
        self._tags: dict[int, bytes] = {}
        if state:
            self._restore(state)

    def state(self) -> bytes:
        """Return what must be kept between rounds. It says nothing about inputs."""
        parts = [_MAGIC, self._scheme.session(self._run), self._secret, table(self._keys)]
        parts.append(self._number.to_bytes(8, "little"))
        for index, body in self._shares.items():
            parts += [index.to_bytes(4, "little"), len(body).to_bytes(4, "little"), body]
        return b"".join(parts)

    def _restore(self, state: bytes) -> None:
        reader = Reader(state)
        known = reader.take(len(_MAGIC)) == _MAGIC
        if not known or reader.take(32) != self._scheme.session(self._run):
            raise Refused("not the state of a server of masked sums of this run")
        self._secret = reader.take(32)
        self._keys = reader.table(KEYS_BYTES, range(len(self._scheme.roster)))
        self._number = reader.number(8)
        while reader.left():
            index = reader.number(4)
            self._shares[index] = reader.take(reader.number(4))

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
            self._scheme, self._run, self._secret, number, size, about, patience, self._tags
        )
        return self._sum(exchanges, tuple(some))

    def _sum(self, exchanges: Exchanges, some: tuple[int, ...]) -> MaskedSum:
        if not self._keys:  # Parties accept keys once: these are the run's from now on.
            self._keys = yield from exchanges.ask_keys(some)
        known = self._shares if self._number == exchanges.number else {}
        shares = yield from exchanges.ask_shares(some, self._keys, known)
        total, counted, ahead = yield from exchanges.ask_inputs(shares)
        # Only now: until the sum is open, a new attempt must ask the same again.
        self._number, self._shares = exchanges.number + 1, ahead
        return total, sorted(exchanges.names[i] for i in counted)
