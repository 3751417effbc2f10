"""A data set's budget, remembered: :class:`Ledger`."""

from __future__ import annotations

import getpass
import os
import secrets
import socket
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Any, Self

from ..budget import Allowance
from ..meter import BudgetExceeded, Meter, Statement
from .budget import Budget, LedgerError
from .chain import Row, State, budget_of, cost_of, legible, opening, problems
from .connections import place_and_name
from .entry import Asked, Entry, most, statement_hash
from .filter import Cost, Limits
from .room import refusal, room
from .store import Store


@dataclass(frozen=True)
class Record:
    """One run in a ledger's history.

    Parameters
    ----------
    entry : int
        Its number: that of the reservation among the data set's rows.
    state : {"pending", "released", "void", "abandoned"}
        ``"pending"``: the run goes on, or has died.
    who, when : str
        Who has reserved, and when; the time in UTC.
    what : Asked
        What was fitted.
    part : float
        The part of the whole budget that it takes, from 0 to 1.
    statement : str or None
        SHA-256 of the privacy statement, once it is released; ``None`` of a run that failed, and
        of a federation's party, which has none.
    """

    entry: int
    state: str
    who: str
    when: str
    what: Asked
    part: float
    statement: str | None

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON values."""
        values = asdict(self)
        what: dict[str, Any] = values.pop("what")
        return what | values


@dataclass(frozen=True)
class Verified:
    """What :meth:`Ledger.verify` has found in order."""

    entries: int
    head: str
    pending: tuple[int, ...]


class Ledger:
    """The budget of a data set, and everything that was spent of it; kept in a database.

    A private fit with ``ledger=`` reserves its cost before any row enters a sum, and is refused
    where all releases together would exceed the budget. Rows are only ever added, and each holds
    the hash of the one before.

    Parameters
    ----------
    where : path or str
        A file (SQLite: one host, a local disk), or ``"postgresql://user@host/database"`` (several
        hosts). It may name the data set: ``"budget.db#cohort-2026"``.
    dataset : str, optional
        The data set; by default the one that ``where`` names, or the only one there is.
    budget : Budget, optional
        Begins the data set with this budget if it is not there yet; otherwise it must be the same.
    who : str, optional
        Who spends; by default the user's name and the host's.

    Raises
    ------
    LedgerError
        If there is no such ledger, or it cannot be read or written.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> from privem import Budget, KMeans, Ledger
    >>> path = os.path.join(tempfile.mkdtemp(), "budget.db")
    >>> ledger = Ledger(path, dataset="cohort-2026", budget=Budget(epsilon=3, delta=1e-6))
    >>> X = np.random.default_rng(0).normal(size=(500, 2))
    >>> model = KMeans(2, epsilon=1.0, bounds=4.0, ledger=ledger).fit(X)
    >>> round(ledger.spent, 1), [run.state for run in ledger.history()]
    (1.0, ['released'])
    >>> round(Ledger(f"{path}#cohort-2026").remaining, 1)
    2.7
    """

    def __init__(
        self,
        where: str | os.PathLike[str],
        dataset: str | None = None,
        budget: Budget | None = None,
        who: str | None = None,
    ) -> None:
        place = os.fspath(where)
        if dataset is None:
            place, dataset = place_and_name(place)
        if budget is not None and not isinstance(budget, Budget):
            raise TypeError(f"budget must be a Budget, got {budget!r}")
        if budget is not None and not dataset:
            raise ValueError("a new data set needs a name: Ledger(path, dataset=..., budget=...)")
        self._who = who
        self.store = Store(place, create=budget is not None)
        self.dataset = dataset or self._only()
        first = self._first(budget)
        self.budget = budget_of(first)
        if budget is not None and budget != self.budget:
            raise ValueError(
                f"the data set {self.dataset!r} has a budget of {self.budget}, not of {budget}; it "
                "cannot be changed"
            )

    def _only(self) -> str:
        names = self.store.datasets()
        if len(names) != 1:
            known = ", ".join(map(repr, names)) or "none"
            raise LedgerError(
                f"say which data set, as in 'budget.db#name': {self.store.name!r} has {known}"
            )
        return names[0]

    def _first(self, budget: Budget | None) -> Row:
        if budget is not None:
            return self.store.open(opening(self.dataset, budget, self.who, _now()))
        with self.store.reading(self.dataset) as rows:
            found = rows.number(0)
        if found is None:
            known = ", ".join(map(repr, self.store.datasets())) or "none"
            raise LedgerError(
                f"the ledger {self.store.name!r} has no data set {self.dataset!r}; it has {known}"
            )
        return found

    @property
    def where(self) -> str:
        """Where it is kept, without any password."""
        return self.store.name

    @property
    def who(self) -> str:
        """Who spends."""
        return self._who or _user()

    @property
    def spent(self) -> float:
        """Epsilon of everything so far, at the budget's delta; what is pending counts in full."""
        state = self.state()
        return 0.0 if state.limits is None else state.limits.epsilon(state.totals, self.budget)

    @property
    def remaining(self) -> float:
        """The largest epsilon, at the budget's delta, that one more fit may have.

        Costs are composed, not added: ``spent`` and ``remaining`` come to more than the budget. It
        is about Gaussian noise and the ledger's own neighbours and unit.
        """
        return room(self.budget, self.state(), self.budget.delta)

    def history(self) -> list[Record]:
        """All runs, in the order of their reservations.

        Examples
        --------
        >>> import os, tempfile
        >>> from privem import Budget, Ledger
        >>> path = os.path.join(tempfile.mkdtemp(), "budget.db")
        >>> Ledger(path, "cohort-2026", Budget(1.0, 1e-6)).history()
        []
        """
        with self.store.reading(self.dataset) as rows:
            every = list(rows)
        outcomes = {row.settles: row for row in every if row.settles is not None}
        with legible(self.dataset):
            return [
                self._record(row, outcomes.get(row.sequence))
                for row in every
                if row.values["kind"] == "reserve"
            ]

    def _record(self, row: Row, outcome: Row | None) -> Record:
        values, ended = row.values, {} if outcome is None else outcome.values
        state, limits = ended.get("kind", "pending"), State.of(row).limits
        assert limits is not None
        part = limits.part(cost_of(outcome or row))
        who, when, what = values["who"], values["when"], Asked.from_dict(values["what"])
        return Record(row.sequence, state, who, when, what, part, ended.get("statement"))

    def rows(self) -> Iterator[dict[str, Any]]:
        """Every row as it is stored, with its hash, for an export."""
        with self.store.reading(self.dataset) as rows:
            for row in rows:
                yield {"hash": row.hash, "body": row.body}

    def verify(self, *statements: Statement) -> Verified:
        """Compute every row anew, and look for the entries of some models.

        A row that was changed, added or taken out of the middle breaks the chain. Rows missing at
        the end, as in a copy that was restored, only show where something else remembers them: the
        statements of models (``model.privacy_``).

        Raises
        ------
        LedgerError
            If anything is wrong; it says what.
        """
        for each in statements:
            if not isinstance(each, Statement):
                raise TypeError(
                    f"verify takes statements (model.privacy_), got a {type(each).__name__}"
                )
        with self.store.reading(self.dataset) as rows:
            every = list(rows)
            wrong = problems(every, self.dataset)
        outcomes = {row.settles: row for row in every}
        # Where the rows themselves are wrong, what they say of entries is nothing.
        for statement in statements if not wrong else ():
            wrong += self._missing(statement, every, outcomes)
        if wrong:
            raise LedgerError(
                f"the ledger {self.where!r} of {self.dataset!r} does not verify: {'; '.join(wrong)}"
            )
        pending = tuple(
            row.sequence
            for row in every
            if row.values["kind"] == "reserve" and row.sequence not in outcomes
        )
        return Verified(len(every), every[-1].hash, pending)

    def _missing(
        self, statement: Statement, every: list[Row], outcomes: dict[int | None, Row]
    ) -> list[str]:
        known = statement.ledger
        if known is None:
            return ["the statement names no ledger: it was fitted without one"]
        if known.dataset != self.dataset:
            return [f"the statement is about the data set {known.dataset!r}"]
        entry = f"entry {known.entry} of the statement"
        if known.entry >= len(every):
            return [f"{entry} is missing: rows were cut off, or an older copy was restored"]
        if every[known.entry].hash != known.head:
            return [f"{entry} is another one here: an older copy was restored and went on"]
        outcome = outcomes.get(known.entry)
        if outcome is None or outcome.values["kind"] == "abandoned":
            return []  # counted in full
        if outcome.values["statement"] != statement_hash(statement):
            return [f"{entry} was settled with another statement"]
        return []

    def reserve(self, asked: Asked, allowance: Allowance, meter: Meter) -> Entry:
        """Reserve what a run may cost at most; on the disk when this returns.

        Raises
        ------
        BudgetExceeded
            If that is more than what is left.
        """
        # With noise on people's own devices a person has one record: both units are the same.
        unit = self.budget.unit if asked.trust == "local" else asked.unit
        steps = self.budget.steps(asked.neighbours, unit)
        cost = most(allowance, self.budget.epsilon, steps)
        return Entry(self, self.hold(asked, cost, steps), meter, steps)

    def hold(self, asked: Asked, cost: Cost, steps: int) -> Row:
        """Reserve a cost, which counts ``steps`` already; raises BudgetExceeded."""

        def make(last: Row, rows: Any) -> Row:
            state = State.of(last)
            limits = self.granted(state, asked, cost, steps)
            what = {"who": self.who, "when": _now(), "what": asked.to_dict()}
            # No two reservations have one hash, also not in copies that were restored.
            what["token"] = secrets.token_hex(16)
            return state.next("reserve", state.totals + cost, limits, **what, cost=cost.to_dict())

        return self.store.append(self.dataset, make)

    def granted(self, state: State, asked: Asked, cost: Cost, steps: int) -> Limits:
        """The limits that hold if a cost is reserved now; raises BudgetExceeded."""
        limits = state.limits_for(self.budget, cost)
        if not limits.allow(state.totals + cost):
            raise BudgetExceeded(refusal(self.dataset, self.budget, state, asked, cost, steps))
        return limits

    def settle(self, reserve: Row, kind: str, spent: Cost, statement: str | None = None) -> Row:
        """Write what became of a reservation."""

        def make(last: Row, rows: Any) -> Row:
            if rows.number(reserve.sequence) != reserve:
                # What it reserved is not in the totals, so nothing may be given back.
                raise LedgerError(
                    f"the ledger {self.where!r} has no entry {reserve.sequence} as this run knows "
                    "it: an older copy of the ledger was restored, or rows were removed"
                )
            before = rows.outcome(reserve.sequence)
            if before is not None:
                raise LedgerError(f"entry {reserve.sequence} is {before.values['kind']} already")
            return State.of(last).outcome(kind, reserve, spent, statement)

        return self.store.append(self.dataset, make)

    def abandon(self, entry: int) -> None:
        """Mark a pending entry of a run that has died: what it reserved stays spent.

        Nobody knows what the run had released when it died, so nothing is given back.
        """
        with self.store.reading(self.dataset) as rows:
            row = rows.number(entry)
        if row is None or row.values["kind"] != "reserve":
            raise LedgerError(f"there is no reservation with the number {entry}")
        self.settle(row, "abandoned", cost_of(row))

    def state(self) -> State:
        """Where its account stands."""
        with self.store.reading(self.dataset) as rows:
            last = rows.last()
        assert last is not None
        return State.of(last)

    def close(self) -> None:
        """Close its connections; it opens new ones when it is used again."""
        self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *problem: object) -> None:
        self.close()

    def __deepcopy__(self, memo: Any) -> Ledger:
        # Clones of an estimator spend from the same ledger.
        return self

    def __reduce__(self) -> Any:
        # Another process opens its own connections.
        return (Ledger, (self.store.address, self.dataset, None, self._who))

    def __repr__(self) -> str:
        return f"Ledger({self.where!r}, dataset={self.dataset!r})"


def open_ledger(ledger: Any) -> Ledger:
    """The ledger that ``ledger=`` means."""
    if isinstance(ledger, Ledger):
        return ledger
    if isinstance(ledger, str | os.PathLike):
        return Ledger(ledger)
    kind = type(ledger).__name__
    raise TypeError(f"ledger must be a Ledger, a path or a database URL, got a {kind}")


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@cache
def _user() -> str:
    try:
        name = getpass.getuser()
    except (OSError, KeyError, ImportError):  # a user without a name, as in some containers
        name = f"uid {os.getuid()}"
    return f"{name}@{socket.gethostname()}"
