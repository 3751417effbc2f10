"""Where a private mixture of Poisson distributions starts, and what it does with lost components.

Noisy counts of the cells of a grid, once released, may be fitted as often as one likes
(:mod:`privem.models.kmeans.grid`): EM runs on points that stand for the records, from several
starts, and the best is kept. The grid sees the longest axes of the frame, in columns divided by
their deviations. The means of K components span K - 1 axes, which are among the longest where they
lie apart.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from ...core import Release, Stage
from ...em import LateMean
from ...ground import Ground, without_evidence
from ...linalg import Array
from ...run import held
from ..gaussian_mixture.start import cloud_of, fitted
from ..kmeans.grid import MOST_AXES
from .model import FLOOR, Poissons

# Iterations before averaging in which components stay where they are.
_SETTLE = 2
# Components whose rates are less than so many deviations apart, in all columns together, are one.
_SAME = 1.0
# A component is spread too far if squares exceed the variance by this part of it.
_WIDE = 0.25
# The least weight of a component, in equal parts.
_LEAST_WEIGHT = 0.2


def from_grid(
    mean: Array, covariance: Array, k: int, ground: Ground, rng: np.random.Generator
) -> Generator[Stage, Release[Any], Poissons]:
    """A mixture of k components; generates the stage ``"grid"``.

    ``mean`` and ``covariance`` are the frame, in unit coordinates.
    """
    region = ground.region
    unit, shape, cloud = yield from cloud_of(mean, covariance, k, ground, rng)
    # Along other axes than those of the grid, points are drawn at random and say nothing.
    values, vectors = np.linalg.eigh(shape)
    axes = vectors[:, ::-1][:, :MOST_AXES]
    middle = mean / unit
    fit = fitted((cloud.points - middle) @ axes, cloud, values[::-1][:MOST_AXES], k, rng)
    share = np.maximum(cloud.kept * fit.weights + (1 - cloud.kept) / k, _LEAST_WEIGHT / k)
    rates = region.to_data(region.inside((middle + fit.means @ axes.T) * unit))
    return Poissons(share / share.sum(), np.maximum(rates, FLOOR))


class Restarts:
    """EM, the mean of its late iterates, and another try for components that are of no use.

    A component is of no use if noise may have made up its records, or if another one has the same
    rates. It takes half of the one whose records are spread most beyond what its rates explain:
    that one covers several groups. Both then lie on opposite sides of where it was, in a direction
    drawn at random; groups that lie apart are apart in almost every direction.
    """

    def __init__(self, start: Poissons, iterations: int, rng: np.random.Generator) -> None:
        self._mean = LateMean(start, iterations, "weights", "rates")
        self._rng, self._last = rng, iterations // 2 - _SETTLE

    def step(self, t: int, before: Poissons, found: Poissons) -> Poissons:
        """The M-step's own state, with components moved while there is time to settle."""
        if 0 < t < self._last:
            found = held(partial(self._moved, found))
        return self._mean.step(t, before, found)

    def end(self, state: Poissons) -> Poissons:
        """The mean of the late iterates."""
        return self._mean.end(state)

    def _moved(self, state: Poissons) -> Poissons:
        assert state.excess is not None
        weights, rates, excess = state.weights.copy(), state.rates.copy(), state.excess.copy()
        free = useless(state)
        excess[free] = 0.0
        for k in free:
            wide = int(np.argmax(weights * excess))
            if excess[wide] < _WIDE:
                break
            units = np.sqrt(np.maximum(rates[wide], 1.0))
            away = self._rng.standard_normal(len(units))
            away *= 0.5 * math.sqrt(excess[wide]) * math.sqrt(len(units)) / np.linalg.norm(away)
            rates[k] = np.maximum(rates[wide] + units * away, FLOOR)
            rates[wide] = np.maximum(rates[wide] - units * away, FLOOR)
            weights[[k, wide]] = weights[wide] / 2
            excess[wide] = 0.0
        return replace(state, weights=weights / weights.sum(), rates=rates)


def useless(state: Poissons) -> list[int]:
    """Components that noise may have made up, and those with the rates of a heavier one."""
    units = np.sqrt(np.maximum(state.rates, 1.0))
    lost = without_evidence(state.evidence)
    kept: list[int] = []
    for k in np.argsort(-state.weights):
        away = [np.linalg.norm((state.rates[k] - state.rates[j]) / units[j]) for j in kept]
        if k not in lost and (not away or min(away) > _SAME):
            kept.append(int(k))
    return [k for k in range(len(units)) if k not in kept]
