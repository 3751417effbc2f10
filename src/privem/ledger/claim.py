"""The entry of a run that outlives its process: that of a federation's party.

A party hears of a run message by message, and may be killed, started again, copied, or restored
from a backup in between. So it writes each answer into the ledger before a row is read for it, in
a row of its own, and remembers the last one (:class:`Claim`). Whoever holds a claim that is not
the last is behind the ledger: answers have left that it does not know of. It can neither answer
under the entry nor give anything back (``docs/proofs/ledger.md``, section 6).
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from ..meter import BudgetExceeded
from .budget import LedgerError
from .chain import Row, State, cost_of
from .entry import Asked
from .filter import Cost
from .ledger import Ledger
from .store import Rows


@dataclass(frozen=True)
class Claim:
    """What a party remembers of a run's entry.

    Parameters
    ----------
    run : str
        Which run it is.
    dataset : str
        Whose ledger.
    entry : int
        The number of the reservation.
    last : int
        The number of the entry's last row that it knows: the reservation, or an answer.
    head : str
        The hash of that row.
    steps : int
        See :meth:`Budget.steps`.
    spent : Cost
        What the run has cost so far.
    """

    run: str
    dataset: str
    entry: int
    last: int
    head: str
    steps: int
    spent: Cost = field(default_factory=Cost)

    @classmethod
    def make(cls, ledger: Ledger, run: str, asked: Asked, cost: Cost, steps: int) -> Claim:
        """Reserve the most that a run may cost; raises BudgetExceeded."""
        row = ledger.hold(asked, cost, steps)
        return cls(run, ledger.dataset, row.sequence, row.sequence, row.hash, steps)

    def followed(self, ledger: Ledger, known: str) -> Claim:
        """The claim up to the entry's last row, where all later ones are of an answer it knows.

        A party that was killed between an answer's row and its own state comes up to date so.
        """
        with ledger.store.reading(self.dataset) as rows:
            self._reserve(rows)
            later = self._later(rows)
        if any(row.values["answer"] != known for row in later):
            raise _unknown(self.entry)
        return self._at(later[-1]) if later else self

    def answering(self, ledger: Ledger, answer: str, cost: Cost) -> Claim:
        """Write down an answer, with which the run has cost this; on the disk when this returns.

        Raises
        ------
        BudgetExceeded
            If the reservation does not cover it.
        LedgerError
            If the entry is settled, or has answers that this claim does not know of.
        """

        def make(last: Row, rows: Rows) -> Row:
            reserve, ended = self._reserve(rows), rows.outcome(self.entry)
            if ended is not None:
                kind = ended.values["kind"]
                raise LedgerError(f"entry {self.entry} is {kind} already: its run is over")
            if self._behind(rows):
                raise _unknown(self.entry)
            if not cost.within(cost_of(reserve)):
                raise BudgetExceeded(
                    "the question would exceed what the ledger has reserved for this run"
                )
            state, what = State.of(last), {"entry": self.entry, "answer": answer}
            return state.next("answer", state.totals, state.limits, **what, cost=cost.to_dict())

        return self._at(ledger.store.append(self.dataset, make))

    def settle(self, ledger: Ledger) -> None:
        """Record that the run is over, at what it cost; in full, if the claim is behind."""

        def make(last: Row, rows: Rows) -> Row:
            reserve = self._reserve(rows)
            if rows.outcome(self.entry) is not None:
                raise _Over
            if self._behind(rows):
                return State.of(last).outcome("abandoned", reserve, cost_of(reserve), None)
            kind = "void" if self.spent == Cost() else "released"
            return State.of(last).outcome(kind, reserve, self.spent, None)

        with suppress(_Over):
            ledger.store.append(self.dataset, make)

    def returned(self, ledger: Ledger) -> Cost:
        """What settling it would give back."""
        with ledger.store.reading(self.dataset) as rows:
            reserve = self._reserve(rows)
            if rows.outcome(self.entry) is not None or self._behind(rows):
                return Cost()
        return cost_of(reserve) - self.spent

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON values."""
        return vars(self) | {"spent": self.spent.to_dict()}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Claim:
        """The inverse of :meth:`to_dict`."""
        return cls(**values | {"spent": Cost.from_dict(values["spent"])})

    def _at(self, row: Row) -> Claim:
        return replace(self, last=row.sequence, head=row.hash, spent=cost_of(row))

    def _reserve(self, rows: Rows) -> Row:
        """The reservation; raises LedgerError where the ledger is older than the claim."""
        known, reserve = rows.number(self.last), rows.number(self.entry)
        if known is None or known.hash != self.head or reserve is None:
            raise LedgerError(
                f"the ledger of {self.dataset!r} has no entry {self.entry} as this party knows "
                "it: an older copy of the ledger was restored, or it is another one"
            )
        return reserve

    def _behind(self, rows: Rows) -> bool:
        """Whether the entry has answers after the last that it knows."""
        return bool(self._later(rows))

    def _later(self, rows: Rows) -> list[Row]:
        return [row for row in rows.after(self.last) if row.values.get("entry") == self.entry]


class _Over(Exception):
    """The entry is settled already."""


def _unknown(entry: int) -> LedgerError:
    return LedgerError(
        f"entry {entry} of the ledger has answers that this party does not know of: its state is "
        "an older copy, or another copy of it has gone on"
    )
