"""What a fit has spent, checked before each release touches the data."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from .accounting import Event, Failure, Gaussian, Laplace, NoPrivacy, compose, epsilon
from .core import Spent, Stage

__all__ = ["BudgetExceeded", "Meter", "alternatives", "cost", "event_of"]


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
