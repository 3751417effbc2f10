"""What a fit promises, in words to sign and numbers to check."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from .accounting import Event, epsilon
from .core import Spent
from .meter import Meter, alternatives

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
    trust : {"central", "local"}
        Where the noise was added: to sums over records, or on each person's own device.
    parties : str
        Of a federated fit: who can learn what.

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

    @classmethod
    def of(
        cls,
        meter: Meter,
        unit: str,
        neighbours: str,
        public: dict[str, str],
        trust: str = "central",
    ) -> Statement:
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
            trust,
        )

    def event(self) -> Event:
        """Everything released about one person, as one privacy event.

        Where records were partitioned, about whoever is in the dearest cell.
        """
        groups = [group for record in self.releases for group in record.groups]
        found = alternatives(groups, self.failure)
        if len(found) == 1:
            return found[0]
        return max(found, key=lambda event: epsilon(event, self.delta, self.accountant))

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
        local = self.trust == "local"
        what = (
            f"{len(self.releases)} rounds asked for {numbers:,} numbers in all; in each a person's "
            "own device rounded its numbers to a lattice and added exact discrete noise before "
            "sending them, and nobody saw more than that"
            if local
            else f"{len(self.releases)} releases of {numbers:,} numbers in all left the data, each "
            f"a sum over {units} rounded to a lattice plus exact discrete noise"
        )
        apart = any(group.cell is not None for record in self.releases for group in record.groups)
        once = (
            " (records were assigned at random to one cell each, and a cell's releases concern "
            "nobody else)"
        )
        return (
            f"This model is ({self.epsilon:g}, {self.delta:g})-differentially private"
            f"{', locally,' if local else ''} with respect to {change}. {what}; together they cost "
            f"epsilon = {self.spent:.4f} at delta = {self.delta:g} by the {self.accountant} "
            f"accountant{once if apart else ''}. Everything else was computed from those releases. "
            f"Taken as public: the columns' names and number, every parameter"
            f"{'; ' + given if given else ''}. The promise covers this fit alone: those of further "
            f"fits on the same people add up."
            + (f" Fitted by a federation. {self.parties}" if self.parties else "")
        )
