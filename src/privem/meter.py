"""What a fit has spent: checked before each release touches the data, and stated at its end.

The :class:`Meter` adds up costs and refuses what would exceed the budget. The :class:`Statement` is
what it has counted, in words to sign and numbers to check.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from .accounting import Event, Failure, Gaussian, Laplace, NoPrivacy, compose, epsilon, which
from .core import Spent, Stage

__all__ = [
    "BudgetExceeded",
    "LedgerEntry",
    "Meter",
    "ReleaseRecord",
    "Shares",
    "Statement",
    "alternatives",
    "cost",
    "event_of",
]


class BudgetExceeded(RuntimeError):
    """A plan asked for a release that its budget does not cover. Nothing was released."""


def event_of(spent: Spent) -> Event:
    """The privacy event of one group of a release."""
    if spent.failure:
        return compose(event_of(replace(spent, failure=0.0)), Failure(spent.failure))
    if spent.kind == "gaussian":
        return Gaussian(spent.multiplier, spent.dimension, spent.steps)
    if spent.kind == "laplace":
        return Laplace(spent.multiplier, spent.dimension)
    return NoPrivacy()


def alternatives(spent: Iterable[Spent], failure: float = 0.0) -> tuple[Event, ...]:
    """The cost of the releases for the people in each cell of a partition, one event per cell.

    Stages of different cells concern different people, so nobody pays for more than one cell: the
    most expensive cell sets the promise. Without a partition there is one event.
    """
    cells: dict[int | None, list[Event]] = {}
    for group in spent:
        cells.setdefault(group.cell, []).append(event_of(group))
    common = [Failure(failure), *cells.pop(None, [])]
    found = {compose(*common, *cell): None for cell in cells.values()}
    return tuple(found) or (compose(*common),)


def cost(spent: Iterable[Spent], failure: float, delta: float, accountant: str) -> float:
    """Epsilon of the releases at ``delta``."""
    return max(epsilon(event, delta, accountant) for event in alternatives(spent, failure))


class Meter:
    """Prices every stage before it runs and refuses what would exceed the budget.

    Plans calibrate their noise, and the meter checks them. It adds up the cost of the noise that
    is about to run, with the chosen accountant, and compares it with the budget.
    """

    def __init__(self, budget: float, delta: float, accountant: str, failure: float = 0.0) -> None:
        self.budget, self.delta, self.accountant, self.failure = budget, delta, accountant, failure
        self.releases: list[tuple[str, tuple[Spent, ...]]] = []

    def charge(self, stage: Stage) -> None:
        """Add a stage's cost, or raise :class:`BudgetExceeded` and add nothing."""
        prices = stage.noise.price(stage.query)
        total = self._cost(prices)
        # Written this way, a cost of NaN is refused as well.
        if not total <= self.budget:
            raise BudgetExceeded(
                f"stage {stage.name!r} would bring epsilon to {total:.6g}, "
                f"above the budget of {self.budget:g}"
            )
        self.releases.append((stage.name, prices))

    def _cost(self, more: tuple[Spent, ...] = ()) -> float:
        spent = [group for _, groups in self.releases for group in groups]
        return cost([*spent, *more], self.failure, self.delta, self.accountant)

    @property
    def spent(self) -> float:
        """Epsilon so far, at the budget's delta."""
        return self._cost()


@dataclass(frozen=True)
class ReleaseRecord:
    """One release of a fit: its name and what each group of numbers cost."""

    name: str
    groups: tuple[Spent, ...]


@dataclass(frozen=True)
class Shares:
    """How much of a federated fit's noise the parties know: each party knows its own share.

    Parameters
    ----------
    cohort : int
        How many parties' shares add up to the noise that was charged.
    present : int
        How many parties' shares were in every sum.
    colluders : int
        How many parties were declared to share everything they know.
    outsiders, members : float
        Epsilon against an adversary who sees the totals, but no single party's numbers, and knows
        no share (outsiders) or one (members). A server may see more; against it the epsilon that
        was charged holds.
    """

    cohort: int
    present: int
    colluders: int
    outsiders: float = math.nan
    members: float = math.nan


@dataclass(frozen=True)
class LedgerEntry:
    """Where a ledger has what was spent: the data set, the number of the entry and its hash."""

    dataset: str
    entry: int
    head: str


@dataclass(frozen=True)
class Statement:
    """The privacy statement of a fitted model.

    Parameters
    ----------
    epsilon, delta : float
        The promise: the whole fit is (epsilon, delta)-differentially private.
    spent : float
        Epsilon at that delta of the releases that ran; at most ``epsilon``.
    unit : {"record", "person"}
        The unit of privacy.
    neighbours : {"add-remove", "replace-one"}
    accountant : str
    releases : sequence of ReleaseRecord
        Everything that left the data, in order.
    failure : float
        The part of delta for the event that a bound on the number of records fails. Releases with a
        threshold list a part of their own.
    public : dict
        What was taken as public knowledge.
    trust : {"central", "local"}
        Where the noise was added: to sums over records, or on each person's own device.
    parties : str
        For a federated fit: who can learn what.
    shares : Shares, optional
        For a federated fit: how much of the noise the parties know.
    subject : {"model", "mean", "score", "set of scores"}
        What was released.
    ledger : LedgerEntry, optional
        The entry that was charged, if the data set has a ledger (:class:`privem.Ledger`). Its hash
        covers all entries before it.

    Examples
    --------
    >>> record = ReleaseRecord("count", (Spent("count", "gaussian", 1, 1.0, 0.0, 2.0**-21, 2**24),))
    >>> statement = Statement(1.0, 1e-6, 0.43, "record", "add-remove", "auto", (record,))
    >>> round(statement.recount(), 2)
    0.5
    """

    epsilon: float
    delta: float
    spent: float
    unit: str
    neighbours: str
    accountant: str
    releases: Sequence[ReleaseRecord]
    failure: float = 0.0
    public: dict[str, str] = field(default_factory=dict)
    trust: str = "central"
    parties: str = ""
    subject: str = "model"
    shares: Shares | None = None
    ledger: LedgerEntry | None = None

    @classmethod
    def of(
        cls, meter: Meter, unit: str, neighbours: str, public: dict[str, str], **more: Any
    ) -> Statement:
        """The statement of a fit that has ended; ``more``: its trust and subject."""
        records = tuple(ReleaseRecord(name, groups) for name, groups in meter.releases)
        budget = (meter.budget, meter.delta, meter.spent)
        how = (unit, neighbours, meter.accountant)
        return cls(*budget, *how, records, meter.failure, dict(public), **more)

    def _groups(self) -> list[Spent]:
        return [group for record in self.releases for group in record.groups]

    def event(self) -> Event:
        """Everything released about one person, as one privacy event.

        If records were partitioned: about a person in the most expensive cell.
        """
        found = alternatives(self._groups(), self.failure)
        if len(found) == 1:
            return found[0]
        return max(found, key=lambda event: epsilon(event, self.delta, self.accountant))

    def recount(self, accountant: str | None = None) -> float:
        """Epsilon at the statement's delta, computed again from the recorded releases."""
        return epsilon(self.event(), self.delta, accountant or self.accountant)

    def shared(self, cohort: int, present: int, colluders: int) -> Statement:
        """The statement of a federated fit, with its epsilon against outsiders and members."""
        found = replace(self, shares=Shares(cohort, present, colluders))
        outsiders, members = found.against(0), found.against(1)
        return replace(self, shares=Shares(cohort, present, colluders, outsiders, members))

    def against(self, known: int) -> float:
        """Epsilon at the statement's delta against someone who knows ``known`` parties' noise.

        It is about an adversary who sees totals. Against one who sees single parties' numbers, as
        the server does under ``"plain"``, the epsilon that was charged holds.
        Laplace noise is not shared: every party adds all of it.
        """
        if self.shares is None:
            raise ValueError("the noise of this fit was not added by parties")
        left, cohort = self.shares.present - known, self.shares.cohort
        if left < 1:
            return math.inf
        groups = [
            replace(group, steps=math.isqrt(left * -(-(group.steps**2) // cohort)))
            if group.kind == "gaussian"
            else group
            for group in self._groups()
        ]
        return cost(groups, self.failure, self.delta, self.accountant)

    @property
    def priced_by(self) -> str:
        """The accountant behind ``spent``; for ``"auto"``, the one it chose."""
        return which(self.event(), self.delta) if self.accountant == "auto" else self.accountant

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON values."""
        values = asdict(self)
        if self.subject == "model":  # as in model files from before there was a subject
            del values["subject"]
        for name in ("shares", "ledger"):
            if values[name] is None:
                del values[name]
        for group in (group for record in values["releases"] for group in record["groups"]):
            if not group["failure"]:  # as before any release had a threshold
                del group["failure"]
        return values

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Statement:
        """The inverse of :meth:`to_dict`."""
        records = tuple(
            ReleaseRecord(r["name"], tuple(Spent(**group) for group in r["groups"]))
            for r in values["releases"]
        )
        found = {**values, "releases": records}
        for name, kind in (("shares", Shares), ("ledger", LedgerEntry)):
            if values.get(name) is not None:
                found[name] = kind(**values[name])
        return cls(**found)

    def __str__(self) -> str:
        """A paragraph a custodian can sign."""
        who = "person" if self.unit == "person" else "record"
        change = (
            f"adding or removing one {who}"
            if self.neighbours == "add-remove"
            else f"replacing one {who} by another (their number is public)"
        )
        units = "records" if who == "record" else "persons (each the average of their records)"
        numbers = sum(group.dimension for group in self._groups() if not group.failure)
        given = "; ".join(f"{name} {value}" for name, value in self.public.items())
        local = self.trust == "local"
        count = len(self.releases)
        in_all = f"{_count(numbers, 'number')}{' in all' if count > 1 else ''}"
        each, together = ("each", "together they") if count > 1 else ("it", "it")
        what = (
            f"{_count(count, 'round')} asked for {in_all}; in {each} a person's "
            "own device rounded its numbers to a lattice and added exact discrete noise before "
            "sending them, and nobody saw more than that"
            if local
            else f"{_count(count, 'release')} of {in_all} left the data"
            f"{', each' if count > 1 else ':'} a sum over {units} rounded to a lattice plus exact "
            "discrete noise"
            + ", but for names of categories, whose noisy counts were large enough"
            * any(group.failure for group in self._groups())
        )
        apart = any(group.cell is not None for group in self._groups())
        once = (
            " (records were assigned at random to one cell each, and a cell's releases concern "
            "nobody else)"
        )
        chosen = ", the tightest that is proved" if self.accountant == "auto" else ""
        again = "fits" if self.subject == "model" else "releases"
        alone = "fit" if self.subject == "model" else self.subject
        return (
            f"This {self.subject} is ({self.epsilon:g}, {self.delta:g})-differentially private"
            f"{', locally,' if local else ''} with respect to {change}{self._except()}. "
            f"{what}; {together} cost epsilon = {self.spent:.4f} at delta = {self.delta:g} "
            f"by the {self.priced_by} accountant{chosen}{once if apart else ''}. Everything else "
            f"was computed from {'those releases' if count > 1 else 'that release'}. Taken as "
            f"public: the columns' names and number, every parameter"
            f"{'; ' + given if given else ''}. The promise covers this {alone} alone: those of "
            f"further {again} on the same people add up{self._kept()}."
            + (f" Fitted by a federation. {self.parties}" if self.parties else "")
            + self._against()
        )

    def _kept(self) -> str:
        """Where they are added up."""
        if self.ledger is None:
            return ""
        return (
            f", in the ledger of the data set {self.ledger.dataset!r}, of which this is entry "
            f"{self.ledger.entry} ({self.ledger.head[:16]})"
        )

    def _except(self) -> str:
        """Against whom the promise does not hold."""
        if self.shares is None or self.shares.members <= self.epsilon:
            return ""
        return (
            ", for all but the parties that fitted it: against one of them, who knows its own "
            f"share of the noise, it is ({self.shares.members:.4f}, {self.delta:g})"
        )

    def _against(self) -> str:
        """What the releases cost against those who know part of the noise."""
        if self.shares is None:
            return ""
        several = self.shares.colluders
        more = f", against {several} of them together {self.against(several):.4f}"
        return (
            " Every party knows the noise that it added itself. At the same delta the totals cost "
            f"epsilon = {self.shares.outsiders:.4f} against outsiders, who see nothing but those "
            f"and know none of it, and {self.shares.members:.4f} against a member, who knows its "
            f"own{more if several > 1 else ''}. The server may see more than totals: against it "
            f"the cost is the {self.spent:.4f} above."
        )


def _count(count: int, what: str) -> str:
    return f"{count:,} {what}{'s' * (count != 1)}"
