"""What a fit promises, in words to sign and numbers to check."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from .accounting import Event, Failure, compose, epsilon
from .core import Spent
from .meter import Meter, event_of

__all__ = ["ReleaseRecord", "Statement"]


@dataclass(frozen=True)
class ReleaseRecord:
    """One release of a fit: its name and what each group of numbers cost."""

    name: str
    groups: tuple[Spent, ...]


@dataclass(frozen=True)
class Statement:
    """The privacy statement of a fitted model.

    Parameters
    ----------
    epsilon, delta : float
        The promise: the whole fit is (epsilon, delta)-differentially private.
    spent : float
        Epsilon at that delta of the noise that really ran; at most ``epsilon``.
    unit : {"record", "person"}
        Whose data the promise covers.
    neighbours : {"add-remove", "replace-one"}
    accountant : str
    releases : sequence of ReleaseRecord
        Everything that left the data, in order.
    failure : float
        The part of delta that covers bounds failing, not noise.
    public : dict
        What was taken as public knowledge.

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

    @classmethod
    def of(cls, meter: Meter, unit: str, neighbours: str, public: dict[str, str]) -> Statement:
        """The statement of a fit that has ended."""
        records = tuple(ReleaseRecord(name, groups) for name, groups in meter.releases)
        return cls(
            meter.budget,
            meter.delta,
            meter.spent,
            unit,
            neighbours,
            meter.accountant,
            records,
            meter.failure,
            dict(public),
        )

    def event(self) -> Event:
        """Everything released, as one privacy event."""
        groups = (event_of(group) for record in self.releases for group in record.groups)
        return compose(Failure(self.failure), *groups)

    def recount(self, accountant: str | None = None) -> float:
        """Epsilon at the statement's delta, computed anew from the recorded releases."""
        return epsilon(self.event(), self.delta, accountant or self.accountant)

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Statement:
        """The inverse of :meth:`to_dict`."""
        records = tuple(
            ReleaseRecord(r["name"], tuple(Spent(**group) for group in r["groups"]))
            for r in values["releases"]
        )
        return cls(**{**values, "releases": records})

    def __str__(self) -> str:
        """A paragraph a custodian can sign."""
        who = "person" if self.unit == "person" else "record"
        change = (
            f"adding or removing one {who}"
            if self.neighbours == "add-remove"
            else f"replacing one {who} by another (their number is public)"
        )
        units = "records" if who == "record" else "persons (each the average of their records)"
        numbers = sum(group.dimension for record in self.releases for group in record.groups)
        given = "; ".join(f"{name} {value}" for name, value in self.public.items())
        return (
            f"This model is ({self.epsilon:g}, {self.delta:g})-differentially private with respect "
            f"to {change}. {len(self.releases)} releases of {numbers:,} numbers in all left the "
            f"data, each a sum over {units} rounded to a lattice plus exact discrete noise; "
            f"together they cost epsilon = {self.spent:.4f} at delta = {self.delta:g} by the "
            f"{self.accountant} accountant. Everything else was computed from those releases. "
            f"Taken as public: the columns' names and number, every parameter"
            f"{'; ' + given if given else ''}. The promise covers this fit alone: those of further "
            f"fits on the same people add up."
        )
