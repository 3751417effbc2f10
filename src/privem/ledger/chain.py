"""The rows of a ledger, each of which holds the hash of the one before it.

A row is a text, one JSON object, and its SHA-256. Rows are never changed: what became of a
reservation is a later row. Every row carries the totals after it, so that the next one needs no
other. Sums of money would be kept like this.

===========  =====================================================================================
kind         meaning
===========  =====================================================================================
open         the data set and its budget
reserve      a run is about to begin: who, when, what, and its cost at most; then it is pending
answer       a federation's party is about to answer in its run: what the run has cost with it
released     the run has ended, or failed on the way: what it really cost, and its statement's hash
void         the run has ended before anything was computed from rows: it cost nothing
abandoned    nobody knows how the run ended: all that was reserved is spent
===========  =====================================================================================

Outcomes carry no time: how long a fit took may depend on the data.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from .budget import Budget, LedgerError
from .filter import Cost, Limits

OUTCOMES = ("released", "void", "abandoned")


def canonical(values: Any) -> str:
    """The one JSON text of some values, which hashes are of.

    Examples
    --------
    >>> canonical({"b": 1, "a": [0.1, None]})
    '{"a":[0.1,null],"b":1}'
    """
    return json.dumps(values, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def digest(text: str) -> str:
    """SHA-256 of a text, in hexadecimal digits."""
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True)
class Row:
    """One row as it is stored."""

    dataset: str
    sequence: int
    settles: int | None
    """Of an outcome: the number of the reservation."""
    body: str
    hash: str

    @property
    def values(self) -> dict[str, Any]:
        """What the text says."""
        found: dict[str, Any] = json.loads(self.body)
        return found


@contextmanager
def legible(dataset: str) -> Iterator[None]:
    """Where rows are read that may have been changed to anything."""
    try:
        yield
    except (ValueError, TypeError, LookupError, AttributeError, AssertionError):
        raise LedgerError(
            f"the ledger of {dataset!r} has a row that cannot be read: privem ledger verify says "
            "which"
        ) from None


@dataclass(frozen=True)
class State:
    """Where a data set's account stands after a row."""

    row: Row
    totals: Cost
    limits: Limits | None

    @classmethod
    def of(cls, row: Row) -> State:
        """From the row itself."""
        with legible(row.dataset):
            values = row.values
            limits = values["limits"]
            return cls(
                row,
                Cost.from_dict(values["totals"]),
                None if limits is None else Limits(**{k: int(v) for k, v in limits.items()}),
            )

    def limits_for(self, budget: Budget, first: Cost) -> Limits:
        """The limits that hold for the next reservation.

        They are fixed as soon as anything is reserved, and open again while nothing is spent.
        """
        if self.limits is None or self.totals == Cost():
            return Limits.of(budget, first)
        return self.limits

    def next(self, kind: str, totals: Cost, limits: Limits | None, **values: Any) -> Row:
        """The row after this one."""
        return _row(self.row.dataset, self.row, kind, totals, limits, values)

    def outcome(self, kind: str, reserve: Row, spent: Cost, statement: str | None) -> Row:
        """The row that settles a reservation at what it cost."""
        totals = self.totals - cost_of(reserve) + spent
        more = {"settles": reserve.sequence, "cost": spent.to_dict(), "statement": statement}
        return self.next(kind, totals, self.limits, **more)


def opening(dataset: str, budget: Budget, who: str, when: str) -> Row:
    """The first row of a data set."""
    values = {"budget": budget.to_dict(), "who": who, "when": when}
    return _row(dataset, None, "open", Cost(), None, values)


def _row(
    dataset: str,
    previous: Row | None,
    kind: str,
    totals: Cost,
    limits: Limits | None,
    values: dict[str, Any],
) -> Row:
    sequence = 0 if previous is None else previous.sequence + 1
    common = {
        "dataset": dataset,
        "sequence": sequence,
        "kind": kind,
        "previous": "" if previous is None else previous.hash,
        "totals": totals.to_dict(),
        "limits": None if limits is None else {k: str(v) for k, v in vars(limits).items()},
    }
    body = canonical(common | values)
    return Row(dataset, sequence, values.get("settles"), body, digest(body))


def budget_of(row: Row) -> Budget:
    """The budget that the first row of a data set states."""
    return Budget(**row.values["budget"])


def cost_of(row: Row) -> Cost:
    """What a row reserves, or what its run cost."""
    return Cost.from_dict(row.values["cost"])


def problems(rows: Iterable[Row], dataset: str) -> list[str]:
    """Everything that is wrong with the rows of a data set, in order; each row is computed anew."""
    found: list[str] = []
    state: State | None = None
    pending: dict[int, Row] = {}
    budget: Budget | None = None
    for number, row in enumerate(rows):
        try:
            expected, budget = _again(row, state, pending, budget)
            wrong = None if expected == row else "its text is not what its numbers come to"
            if row.hash != digest(row.body):
                wrong = "its text was changed: its hash is another"
            elif row.dataset != dataset or row.sequence != number:
                wrong = f"it stands in place {number}"
            elif state is not None and row.values["previous"] != state.row.hash:
                wrong = "it does not follow the row before it: that one was changed"
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            wrong = f"it cannot be read ({error})"
        if wrong is not None:
            # What follows is built on this row, and would fail for the same reason.
            return [*found, f"entry {row.sequence}: {wrong}"]
        state = State.of(row)
    return found if state is not None else ["there are no rows"]


def _again(
    row: Row,
    state: State | None,
    pending: dict[int, Row],
    budget: Budget | None,
) -> tuple[Row, Budget]:
    """The row as it must be after the one before it, and the budget."""
    values = row.values
    kind = values["kind"]
    if state is None or budget is None:
        budget = Budget(**values["budget"])
        return opening(row.dataset, budget, values["who"], values["when"]), budget
    if kind == "reserve":
        cost = cost_of(row)
        limits, totals = state.limits_for(budget, cost), state.totals + cost
        if not limits.allow(totals):
            raise ValueError("it exceeds the budget")
        pending[row.sequence] = row
        more = {name: values[name] for name in ("who", "when", "what", "token", "cost")}
        return state.next(kind, totals, limits, **more), budget
    if kind == "answer":
        reserve = pending.get(values["entry"])
        if reserve is None or not cost_of(row).within(cost_of(reserve)):
            raise ValueError("it answers under a reservation that does not cover it")
        more = {name: values[name] for name in ("entry", "answer", "cost")}
        return state.next(kind, state.totals, state.limits, **more), budget
    if kind not in OUTCOMES:
        raise ValueError(f"unknown kind {kind!r}")
    reserve = pending.pop(values["settles"], None)
    if reserve is None:
        raise ValueError("it settles a reservation that is not pending")
    spent = cost_of(row)
    whole = cost_of(reserve)
    if not spent.within(whole) or (kind == "abandoned" and spent != whole):
        raise ValueError("it settles a reservation at another cost")
    if kind == "void" and spent != Cost():
        raise ValueError("it is void, and cost something")
    return state.outcome(kind, reserve, spent, values["statement"]), budget
