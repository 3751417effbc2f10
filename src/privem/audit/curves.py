"""What a release may reveal: the formulas of an auditor, independent of the accountants.

Nothing here imports :mod:`privem.accounting`, so that an error there is not repeated here. These
are the textbook forms, short enough to check by eye.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import log_ndtr, ndtr, ndtri

from ..core import Spent
from ..linalg import Array


def dearest_cell(groups: Iterable[Spent]) -> list[Spent]:
    """The groups that concern one person: those about everyone and those of one cell.

    Records that are partitioned at random, independently of all data, are in one cell each. The
    cell with the least noise is taken (by the sum of 1/multiplier^2).
    """
    cells: dict[Any, list[Spent]] = {}
    for group in groups:
        cells.setdefault(getattr(group, "cell", None), []).append(group)
    common = cells.pop(None, [])

    def weight(cell: list[Spent]) -> float:
        sizes = [multiplier(group) for group in cell]
        return sum(1 / size**2 if size > 0 else math.inf for size in sizes)

    return [*common, *max(cells.values(), key=weight, default=[])]


def hockey_stick(mu: float, epsilon: float) -> float:
    """Delta at epsilon of Gaussian noise: N(0, 1) against N(mu, 1).

    Examples
    --------
    >>> round(hockey_stick(1.0, 1.0), 6)
    0.126937
    """
    if mu <= 0:
        return 0.0
    if math.isinf(mu):
        return 1.0
    first = float(log_ndtr(mu / 2 - epsilon / mu))
    second = epsilon + float(log_ndtr(-mu / 2 - epsilon / mu))
    return max(0.0, math.exp(first) - math.exp(min(second, first)))


def epsilon_at(mu: float, delta: float, apart: float = 0.0) -> float:
    """Epsilon at delta of noise within total variation ``apart`` of Gaussian noise.

    Examples
    --------
    >>> round(epsilon_at(1.0, 0.126937), 4)
    1.0
    """

    def excess(epsilon: float) -> float:
        return hockey_stick(mu, epsilon) + (1 + math.exp(min(epsilon, 700.0))) * apart - delta

    if excess(0.0) <= 0:
        return 0.0
    if delta <= 0 or math.isinf(mu):
        return math.inf
    # Past a point the total variation outweighs everything: no epsilon is enough.
    return _first(lambda epsilon: excess(epsilon) <= 0, 1e-9, 700.0)


def mu_at(epsilon: float, delta: float) -> float:
    """The largest mu that Gaussian noise may have at (epsilon, delta).

    Examples
    --------
    >>> round(mu_at(1.0, 1e-6), 4)
    0.2367
    """
    return _first(lambda mu: hockey_stick(mu, epsilon) > delta, 1.0)


def _first(holds: Callable[[float], bool], high: float, most: float = math.inf) -> float:
    """The smallest number at which this holds, from above; infinite if far above ``most``."""
    low = 0.0
    while not holds(high):
        if high > most:
            return math.inf
        low, high = high, 2 * high
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def multiplier(group: Spent) -> float:
    """Noise scale over what one person can move the rounded sum by.

    Each of two neighbouring sums is rounded by at most half a step per number, so the distance
    grows by a step per number: sqrt(dimension) steps in L2, dimension steps in L1.
    """
    unit = math.sqrt(group.dimension) if group.kind == "gaussian" else float(group.dimension)
    widened = group.sensitivity + group.slack + group.grid * unit
    return group.steps * group.grid / widened if widened > 0 else 0.0


def drift(dimension: int, steps: float) -> float:
    """Total variation of discrete from rounded Gaussian noise of variance steps^2 - 1/12."""
    return dimension / (250.0 * steps**4) if steps >= 8 else 1.0


@dataclass(frozen=True)
class Claim:
    """How well a mechanism claims to hide the difference between two neighbours.

    An event of probability q on one data set has at most probability ``most(q)`` on the other.

    Parameters
    ----------
    mu : float
        The mu of the Gaussian noise of all releases together.
    pure : float
        The sum of the epsilons of the Laplace noise.
    drift : float
        Probability added for discreteness.
    epsilon, delta : float
        The advertised budget, if any.
    failure : float
        The probability that noise hides nothing: of a threshold, or of a bound that may fail.

    Examples
    --------
    >>> round(float(Claim(mu=1.0).most(0.5)), 4)
    0.8413
    >>> round(float(Claim(pure=1.0).most(0.1)), 4)
    0.2718
    """

    mu: float = 0.0
    pure: float = 0.0
    drift: float = 0.0
    epsilon: float = math.inf
    delta: float = 0.0
    failure: float = 0.0

    @classmethod
    def of(cls, groups: Iterable[Spent]) -> Claim:
        """The claim of releasing these groups, all about the same people."""
        square = pure = apart = failure = 0.0
        for group in groups:
            size = multiplier(group)
            if size <= 0 or group.kind not in ("gaussian", "laplace"):
                return cls(math.inf, math.inf, 1.0)
            failure += getattr(group, "failure", 0.0)
            if group.kind == "laplace":
                pure += 1 / size
            else:
                square += 1 / (size * size * (1 - 1 / (12 * group.steps**2)))
                apart += drift(group.dimension, group.steps)
        return cls(math.sqrt(square), pure, min(apart, 1.0), failure=min(failure, 1.0))

    def most(self, q: Any) -> Array:
        """The largest probability an event may have whose probability on the neighbour is q.

        The infimum over e of exp(pure + e) q + hockey_stick(mu, e) has a closed form, the power of
        the best test between two unit Gaussians mu apart at level exp(pure) q. With the probability
        ``failure`` anything may happen.
        """
        q = np.asarray(q, dtype=np.float64)
        with np.errstate(divide="ignore"):
            level = np.exp(np.minimum(self.pure + np.log(q + self.drift), 0.0))
        most = level if self.mu == 0 else ndtr(ndtri(level) + self.mu)
        most = most + self.drift + self.failure
        if not math.isinf(self.epsilon):
            advertised = math.exp(min(self.epsilon, 700.0)) * q + self.delta
            most = np.minimum(most, advertised)
        return np.asarray(np.minimum(1.0, most))

    def epsilon_at(self, delta: float) -> float:
        """The smallest epsilon claimed at ``delta``, what is advertised included."""
        if math.isinf(self.mu) or math.isinf(self.pure):
            found = math.inf
        else:
            found = self.pure + epsilon_at(self.mu, delta - self.failure, self.drift)
        return min(found, self.epsilon) if delta >= self.delta else found
