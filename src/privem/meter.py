"""What a fit has spent, checked before each release touches the data."""

from __future__ import annotations

from .accounting import Event, Failure, Gaussian, Laplace, NoPrivacy, compose, epsilon
from .core import Spent, Stage

__all__ = ["BudgetExceeded", "Meter", "event_of"]


class BudgetExceeded(RuntimeError):
    """A plan asked for a release that its budget does not cover. Nothing was released."""


def event_of(spent: Spent) -> Event:
    """The privacy event of one group of a release."""
    if spent.kind == "gaussian":
        return Gaussian(spent.multiplier, spent.dimension, spent.steps)
    if spent.kind == "laplace":
        return Laplace(spent.multiplier, spent.dimension)
    return NoPrivacy()


class Meter:
    """Prices every stage before it runs and refuses what would exceed the budget.

    Plans calibrate their noise; the meter does not believe them. It adds up what the noise that is
    about to run costs, by the chosen accountant, and compares with the budget.
    """

    def __init__(self, budget: float, delta: float, accountant: str, failure: float = 0.0) -> None:
        self.budget, self.delta, self.accountant, self.failure = budget, delta, accountant, failure
        self.releases: list[tuple[str, tuple[Spent, ...]]] = []
        self._event: Event = Failure(failure)

    def charge(self, stage: Stage) -> None:
        """Add a stage's cost, or raise :class:`BudgetExceeded` and add nothing."""
        prices = stage.noise.price(stage.query)
        event = compose(self._event, *(event_of(spent) for spent in prices))
        cost = epsilon(event, self.delta, self.accountant)
        # Said this way round, a cost that is not a number is refused as well.
        if not cost <= self.budget:
            raise BudgetExceeded(
                f"stage {stage.name!r} would bring epsilon to {cost:.6g}, "
                f"above the budget of {self.budget:g}"
            )
        self._event = event
        self.releases.append((stage.name, prices))

    @property
    def spent(self) -> float:
        """Epsilon so far, at the budget's delta."""
        return epsilon(self._event, self.delta, self.accountant)
