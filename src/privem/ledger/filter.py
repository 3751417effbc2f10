"""The arithmetic of budgets that adaptively chosen releases share: a privacy filter.

Whoever spends from a budget chooses each release, its noise and when to stop after seeing earlier
ones. Not every accountant is valid then. Gaussian releases are counted by the sum of their mu^2,
Laplace ones as Gaussian; or, where all are Laplace, by the sum of their epsilons. Failures are
counted apart, against a part of delta that is fixed before anything is released
(``docs/proofs/ledger.md``).

A party of a federation prices its answers by the same functions (:func:`chosen`, :func:`dearest`;
``docs/proofs/federation.md``, section 4).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import zip_longest
from typing import Any

from ..accounting import (
    Composed,
    Event,
    Failure,
    Gaussian,
    Laplace,
    compose,
    epsilon,
    flatten,
    mu_for,
)
from ..accounting.accountant import gaussian_curve, hockey_stick
from ..accounting.events import tally
from ..core import Spent
from ..meter import event_of
from .budget import Budget

# A Laplace release of multiplier m tells no more than a Gaussian one of m sqrt(2/pi), rounded down.
AS_GAUSSIAN = 0.7978845
# Totals are whole numbers of these: they add up exactly, and giving back leaves no trace.
_ONE = 2**120
# One part in so many of delta is for failures, unless the first reservation leaves less; and of
# that, one part in so many for what discrete noise adds, of which there is little.
_FOR_FAILURES = 4
_FOR_APART = 64


def as_gaussian(event: Event) -> Event:
    """The event with Gaussian noise, which tells no less, in place of Laplace noise."""
    return Composed(
        tuple(
            (Gaussian(leaf.noise_multiplier * AS_GAUSSIAN), count)
            if isinstance(leaf, Laplace)
            else (leaf, count)
            for leaf, count in flatten(event)
        )
    )


def chosen(events: Iterable[Event], delta: float) -> float:
    """Epsilon at ``delta`` of releases whose noise was chosen adaptively, one after the other.

    Gaussian releases are priced by the sum of their 1/m^2, and Laplace ones as Gaussian; or, where
    all are Laplace, by the sum of their epsilons.

    Examples
    --------
    >>> round(chosen([Gaussian(20.0), Laplace(20.0)], 1e-6), 3)
    0.313
    >>> round(chosen([Laplace(20.0), Laplace(20.0)], 1e-6), 6)
    0.1
    """
    all_of_it = compose(*events)
    cost = epsilon(as_gaussian(all_of_it), delta, "gdp")
    if any(isinstance(leaf, Gaussian) for leaf, _ in flatten(all_of_it)):
        return cost
    return min(cost, epsilon(all_of_it, delta, "linear"))


def dearest(cells: Iterable[Sequence[Spent]]) -> list[Event]:
    """Events that cost at least as much as those of any one cell.

    An event's cost falls with its noise and grows with how many numbers it has. So the worst of the
    first, second, ... release of every cell (dearest first) bounds the cost of each cell.

    Examples
    --------
    >>> from dataclasses import replace
    >>> one = Spent("x", "gaussian", 2, 1.0, 0.0, 2.0**-20, 2**24, cell=0)
    >>> dearest([[one], [replace(one, cell=1)]]) == [event_of(one)]
    True
    """
    found: list[Event] = []
    kept = [sorted(cell, key=lambda spent: spent.multiplier) for cell in cells]
    for kind in ("gaussian", "laplace"):
        for spents in zip_longest(*([s for s in cell if s.kind == kind] for cell in kept)):
            some = [spent for spent in spents if spent is not None]
            multiplier = min(spent.multiplier for spent in some)
            dimension = max(spent.dimension for spent in some)
            if kind == "gaussian":
                found.append(Gaussian(multiplier, dimension, min(spent.steps for spent in some)))
            else:
                found.append(Laplace(multiplier, dimension))
    return found


def event_of_run(spent: Iterable[Spent], failure: float = 0.0) -> Event:
    """What the releases of one run cost whoever pays most, as one event.

    Cells of a run's partition concern different people; their failures are added all the same.
    """
    cells: dict[int | None, list[Spent]] = {}
    for group in spent:
        cells.setdefault(group.cell, []).append(group)
    common = [event_of(group) for group in cells.pop(None, [])]
    failures = [failure, *(group.failure for cell in cells.values() for group in cell)]
    return compose(*common, *dearest(cells.values()), *(Failure(f) for f in failures if f))


def _up(value: float | Fraction) -> int:
    over, under = value.as_integer_ratio()
    return -(-over * _ONE // under)


def _down(value: float | Fraction) -> int:
    over, under = value.as_integer_ratio()
    return over * _ONE // under


@dataclass(frozen=True)
class Cost:
    """What was spent or reserved, in parts of 2^-120, each rounded up.

    Parameters
    ----------
    gaussian, laplace : int
        The sums of mu^2 of Gaussian releases, and of Laplace ones counted as Gaussian.
    pure : int
        The sum of the epsilons of Laplace releases.
    failure : int
        The sum of failure probabilities, and of the total variations at which discrete noise lies
        from noise that is priced exactly.
    apart : int
        The sum of these total variations times e^epsilon, at the budget's epsilon.

    Examples
    --------
    >>> one = Cost.of(Gaussian(4.0), epsilon=1.0)
    >>> round((one + one).mu_squared, 9), one - one == Cost()
    (0.125, True)
    """

    gaussian: int = 0
    laplace: int = 0
    pure: int = 0
    failure: int = 0
    apart: int = 0

    @classmethod
    def of(cls, event: Event, epsilon: float, steps: int = 1) -> Cost:
        """The cost of an event for a budget of this epsilon.

        ``steps``: how many steps of the event's relation one step of the budget's is.
        """
        bill = tally(event)
        if bill.exact:
            raise ValueError("an exact release has no finite cost")
        mu, drift = gaussian_curve(bill)
        pure, squares = Fraction(), Fraction()
        for noise, count in bill.laplaces:
            each = 1 / Fraction(noise.noise_multiplier)
            pure += count * each
            squares += count * (each / Fraction(AS_GAUSSIAN)) ** 2
        # Discrete noise is at a total variation of `drift` from noise that is priced exactly: on
        # one side of the promise once, on the other e^epsilon times.
        apart = drift * math.exp(epsilon) * (1 + 2.0**-40)
        return cls(
            steps**2 * _up(Fraction(mu) ** 2),
            steps**2 * _up(squares),
            steps * _up(pure),
            steps * (_up(bill.failure) + _up(drift)),
            steps * _up(apart),
        )

    @property
    def squares(self) -> int:
        """All noise, counted as Gaussian."""
        return self.gaussian + self.laplace

    @property
    def mu_squared(self) -> float:
        """The same as a number."""
        return self.squares / _ONE

    @property
    def epsilon(self) -> float:
        """The epsilons of Laplace noise, added up."""
        return self.pure / _ONE

    @property
    def failures(self) -> float:
        """The failure probabilities, added up."""
        return self.failure / _ONE

    @property
    def _all(self) -> tuple[int, int, int, int, int]:
        return self.gaussian, self.laplace, self.pure, self.failure, self.apart

    def __add__(self, other: Cost) -> Cost:
        return Cost(*(a + b for a, b in zip(self._all, other._all, strict=True)))

    def __sub__(self, other: Cost) -> Cost:
        return Cost(*(a - b for a, b in zip(self._all, other._all, strict=True)))

    def within(self, reserve: Cost) -> bool:
        """Whether a reserve covers it, whichever rule the reserve was granted by."""
        if self.squares > reserve.squares or self.failure > reserve.failure:
            return False
        if self.apart > reserve.apart:
            return False
        # A reserve without Gaussian noise may have been granted for the sum of its epsilons.
        return reserve.gaussian > 0 or (self.gaussian == 0 and self.pure <= reserve.pure)

    def to_dict(self) -> dict[str, str]:
        """As texts: JSON's numbers have too few digits."""
        return {name: str(value) for name, value in vars(self).items()}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Cost:
        """The inverse of :meth:`to_dict`."""
        found = cls(**{name: int(value) for name, value in values.items()})
        if min(found._all) < 0:
            raise ValueError("a cost below zero")
        return found


@dataclass(frozen=True)
class Limits:
    """What all costs of a data set may add up to.

    Parameters
    ----------
    squares, pure, failure, apart : int
        Of :attr:`Cost.squares`, :attr:`Cost.failure` and :attr:`Cost.apart`; or of
        :attr:`Cost.pure` in place of the squares where no noise is Gaussian. In parts of 2^-120,
        rounded down.
    """

    squares: int
    pure: int
    failure: int
    apart: int

    @classmethod
    def of(cls, budget: Budget, first: Cost) -> Limits:
        """How a budget's delta is divided between noise and failures.

        It is divided when nothing has been released, so by nothing that was seen. The first
        reservation says how, if it needs more than the usual part for its noise.
        """
        whole, pure = _down(budget.delta), _down(budget.epsilon)
        failures = whole // _FOR_FAILURES
        apart = failures // _FOR_APART
        squares = _squares_for(budget.epsilon, (whole - failures) / _ONE)
        usual = cls(squares, pure, failures - apart, apart)
        if usual.allow(first):
            return usual
        # For failures, what the noise of the first reservation leaves: enough for its own, or not.
        noise = hockey_stick(math.sqrt(first.mu_squared) * (1 + 2.0**-50), budget.epsilon)
        spare = whole - _up(noise) - first.failure - first.apart
        apart = first.apart + spare // _FOR_APART
        rest = cls(first.squares, pure, first.failure + spare - spare // _FOR_APART, apart)
        return rest if spare >= 0 and rest.allow(first) else usual

    def allow(self, total: Cost) -> bool:
        """Whether a total is within the budget."""
        if total.failure > self.failure or total.apart > self.apart:
            return False
        return total.squares <= self.squares or (total.gaussian == 0 and total.pure <= self.pure)

    def left(self, total: Cost) -> float:
        """The largest mu that one more Gaussian release may have."""
        return math.sqrt(max(0, self.squares - total.squares) / _ONE)

    def left_for_failures(self, total: Cost) -> float:
        """How much of delta failures may still take."""
        return max(0, self.failure - total.failure) / _ONE

    def left_pure(self, total: Cost) -> float:
        """How much epsilon Laplace noise may still cost; none where Gaussian noise was used."""
        return 0.0 if total.gaussian else max(0, self.pure - total.pure) / _ONE

    def part(self, cost: Cost) -> float:
        """What part of all that may be spent a cost is, as noise."""
        squares = cost.squares / self.squares if self.squares else math.inf
        return squares if cost.gaussian else min(squares, cost.pure / self.pure)

    def epsilon(self, total: Cost, budget: Budget) -> float:
        """Epsilon at the budget's delta of all that was spent."""
        found = math.inf
        delta = (_down(budget.delta) - self.failure - self.apart) / _ONE
        if not total.squares:
            return 0.0
        if delta > 0:
            found = epsilon(Gaussian(1 / math.sqrt(total.mu_squared)), delta, "gdp")
        # What is within the budget is not said to exceed it, because of rounding.
        most = budget.epsilon if self.allow(total) else math.inf
        return min(found, most) if total.gaussian else min(found, total.epsilon, most)


@lru_cache(maxsize=64)
def _squares_for(epsilon: float, delta: float) -> int:
    """The largest sum of mu^2 that is (epsilon, delta)-private."""
    if delta <= 0:
        return 0
    # `mu_for` rounds down by 2^-38, its square by less.
    return _down(Fraction(mu_for(epsilon, delta * (1 - 2.0**-50))) ** 2)
