"""What a data set may be charged in all, and how costs in another relation are counted."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from ..parameters import check_float, check_option

# Totals are kept in whole parts of 2^-120: a smaller delta would be a handful of them.
_LEAST_DELTA = 1e-30
# Discrete noise is Gaussian but for a total variation of 5e-32 a number, times e^epsilon.
_MOST_EPSILON = 30.0
# One step of the budget's relation is at most two steps of the event's (docs/proofs/ledger.md,
# section 4): (neighbours, unit) of the event, and of the budget.
_TWO_STEPS = {
    (("add-remove", "record"), ("replace-one", "record")),
    (("add-remove", "person"), ("replace-one", "person")),
    (("add-remove", "person"), ("add-remove", "record")),
}


class LedgerError(RuntimeError):
    """A ledger is missing, cannot be read or written, or is not as it should be."""


class WrongRelation(LedgerError):
    """An event says nothing about the neighbours, or the unit, that a budget is about."""


@dataclass(frozen=True)
class Budget:
    """All that may be spent on a data set.

    Parameters
    ----------
    epsilon : float
    delta : float, default=1e-6
        Everything that is released about the data set, in whatever order and however chosen, is
        together (epsilon, delta)-differentially private.
    neighbours : {"add-remove", "replace-one"}, default="add-remove"
        The change that privacy hides.
    unit : {"record", "person"}, default="record"
        What is added, removed or replaced: a record, or a person with all their records.

    Examples
    --------
    >>> Budget(epsilon=3)
    Budget(epsilon=3.0, delta=1e-06, neighbours='add-remove', unit='record')
    """

    epsilon: float
    delta: float = 1e-6
    neighbours: str = "add-remove"
    unit: str = "record"

    def __post_init__(self) -> None:
        epsilon = check_float("epsilon", self.epsilon, 0.0, strict=True)
        delta = check_float("delta", self.delta, 0.0)
        if not epsilon <= _MOST_EPSILON:
            raise ValueError(
                f"epsilon of a budget must be at most {_MOST_EPSILON:g}, got {epsilon:g}: a larger "
                "one protects nobody"
            )
        if delta >= 1 or 0 < delta < _LEAST_DELTA:
            raise ValueError(
                f"delta of a budget must be 0 or lie between {_LEAST_DELTA:g} and 1, got {delta:g}"
            )
        check_option("neighbours", self.neighbours, ("add-remove", "replace-one"))
        check_option("unit", self.unit, ("record", "person"))
        object.__setattr__(self, "epsilon", epsilon)
        object.__setattr__(self, "delta", delta)

    def steps(self, neighbours: str, unit: str) -> int:
        """How many steps of an event's relation one step of the budget's is, at most.

        Raises
        ------
        WrongRelation
            If the event bounds nothing in the budget's relation.

        Examples
        --------
        >>> Budget(1.0, 1e-6, "replace-one").steps("add-remove", "record")
        2
        """
        event, own = (neighbours, unit), (self.neighbours, self.unit)
        if event == own:
            return 1
        if (event, own) in _TWO_STEPS:
            return 2
        if unit != self.unit:
            told = (
                "say whose the records are with groups="
                if self.unit == "person"
                else "a budget for persons covers it"
            )
        else:
            told = f"use neighbours={self.neighbours!r}"
            if neighbours == "replace-one":
                told += ", or a budget with neighbours='replace-one' (trust='local' needs one)"
        raise WrongRelation(
            f"this release hides a {unit} ({neighbours}), and the ledger's budget is about a "
            f"{self.unit} ({self.neighbours}), of which that promises nothing: {told}"
        )

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON values."""
        return asdict(self)

    def __str__(self) -> str:
        """In words."""
        return (
            f"epsilon {self.epsilon:g} at delta {self.delta:g} per {self.unit} ({self.neighbours})"
        )
