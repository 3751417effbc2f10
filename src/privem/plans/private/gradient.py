"""Gradient EM on noisy sums of bounded gradients (000, Algorithms 1 and 2; 002 done right).

Two ways to go, both from public numbers:

- :class:`GradientSteps`, the papers': clip at a given norm or truncate robustly, take T steps of
  a given size on the whole data or a cell each, average the second half.
- :class:`MomentSteps`, the default: residuals about the last public iterate are clipped near their
  own typical length, sigma sqrt(d); where exactly, the noise level tells. Residuals are symmetric
  about zero at the solution, so clipping moves it little, and costs a known factor of the step's
  length, which is put back (:mod:`privem.models.slopes`). Each iteration gets twice the budget of
  the one before; its move is shrunk (James and Stein) towards where it started. The result is the
  mean of where the second half of the moves pointed, weighted by their precision (60 of 63 parts of
  the budget at six iterations), shrunk towards where that half began.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...core import Release, Stage
from ...models.bounding import Bounding, Clip
from ...models.cells import Cell
from ...models.gradient import BoundedGradientQuery, GradientSums, Squares
from ...models.gradients import Gradient
from ...models.region import Region
from ...models.shrink import consistency, james_stein
from ...models.slopes import slope
from ...models.symmetric import Symmetric
from ...tree import Array
from .allowance import Part
from .asking import Asking

__all__ = ["GradientSteps", "MomentSteps", "moment_parts"]

# Each iteration gets this many times the budget of the one before, and the last no more than so
# many times that of the first.
_GROWTH, _RANGE = 2.0, 32.0
# The squares' share of a joint release: its length grows by 4%.
_SQUARES = 0.3


def moment_parts(share: float, iterations: int, size: int) -> list[Part]:
    """The parts of an allowance that :class:`MomentSteps` spends."""
    growth = min(_GROWTH, _RANGE ** (1 / max(iterations - 1, 1)))
    shares = growth ** np.arange(iterations)
    shares *= share / shares.sum()
    return [Part(f"EM {t + 1}", float(part), [("gaussian", size)]) for t, part in enumerate(shares)]


@dataclass(frozen=True)
class MomentSteps:
    """EM by residuals clipped at their typical length.

    Parameters
    ----------
    asking : Asking
    model : callable
        From a state to its gradient.
    region, target : Region
    kind : {"vector", "product"}
        Of residuals (:mod:`privem.models.slopes`).
    radius : float
        Clip there, in deviations of the residual.
    iterations : int
    dimension : int
        Of what has the variance: d, or 1 in a regression.
    known : bool
        Whether the variance is known; else it is released beside the gradient.
    cap_weight : float
    cells : (first, count), optional
        Iteration t asks cell first + t of so many.
    """

    asking: Asking
    model: Callable[[Symmetric], Gradient]
    region: Region
    target: Region | None
    kind: str
    radius: float
    iterations: int
    dimension: int
    known: bool
    cap_weight: float = 1.0
    cells: tuple[int, int] | None = None

    def stages(self, state: Symmetric) -> Generator[Stage, Release[Any], Symmetric]:
        """Generate the stages."""
        half, anchor = self.iterations // 2, state.beta
        late: list[tuple[Array, float]] = []
        for t in range(self.iterations):
            cell = None if self.cells is None else Cell(self.cells[0] + t, self.cells[1])
            query, reach = self._query(state)
            release = yield from self.asking.ask(query, f"EM {t + 1}", f"EM {t + 1}", cell)
            before = state.beta
            if t == half:
                anchor = before
            state, move, noise = self._update(state, release, self.asking.records(cell), reach)
            if t >= half:
                late.append((before + move, noise))
        weights = np.array([1 / noise for _, noise in late])
        mean = np.average([point for point, _ in late], axis=0, weights=weights)
        move = james_stein((mean - anchor)[None], np.array([1 / weights.sum()]))[0]
        return Symmetric(anchor + self._limited(move, state.variance), state.variance)

    def _limited(self, move: Array, variance: float) -> Array:
        """A move much longer than the residuals would have been clipped away: it is noise."""
        limit = 2 * self.radius * math.sqrt(variance)
        return np.asarray(move * min(1.0, limit / max(float(np.linalg.norm(move)), 1e-300)))

    def _query(self, state: Symmetric) -> tuple[BoundedGradientQuery, float]:
        """The question, and where squared residuals are capped, in variances."""
        model, deviation = self.model(state), math.sqrt(state.variance)
        clip = self.radius * deviation
        k = self.dimension
        reach = k + 2 * math.sqrt(3 * k) + 6
        squares = None
        if not self.known:
            cap = reach * state.variance
            squares = Squares(_SQUARES * clip / cap, cap)
        query = BoundedGradientQuery(
            model, Clip(clip), self.region, self.target, squares, self.cap_weight
        )
        return query, reach

    def _update(
        self, state: Symmetric, release: Release[GradientSums], count: float, reach: float
    ) -> tuple[Symmetric, Array, float]:
        """The next state; and the move before shrinkage with its noise's variance."""
        sums, noise = release.statistics, release.deviation
        assert noise is not None
        length = count * slope(self.kind, len(state.beta), self.radius)
        step, spread = sums.total / length, (noise.total[:1] / length) ** 2
        move = self._limited(james_stein(step[None], spread)[0], state.variance)
        variance = state.variance
        squares = release.query.squares
        if squares is not None and sums.square is not None:
            mean = float(sums.square[0]) / (squares.weight * count)
            k = self.dimension
            found = (mean - float(move @ move)) / (k * consistency(k, math.sqrt(reach)))
            # Never more than a factor of four at once: noise must not make it vanish or explode.
            variance *= float(np.clip(found / variance, 0.25, 4.0))
        return Symmetric(state.beta + move, variance), step, float(spread[0])


@dataclass(frozen=True)
class GradientSteps:
    """Gradient EM with bounded gradients, full batch or one cell per step.

    Parameters
    ----------
    asking, model, region, target, cap_weight
        As in :class:`MomentSteps`.
    bounding : Bounding
    iterations : int
        T.
    step : float
        Times the mean gradient (eta; 000 has the gradient over the variance, and eta in the
        variance's units).
    averaging : bool
        Return the mean of the second half of the iterates, not the last.
    cells : (first, count), optional
        One cell per step: a partition of the data.
    """

    asking: Asking
    model: Callable[[Symmetric], Gradient]
    region: Region
    target: Region | None
    bounding: Bounding
    iterations: int
    step: float = 1.0
    averaging: bool = True
    cap_weight: float = 1.0
    cells: tuple[int, int] | None = None

    def stages(self, state: Symmetric) -> Generator[Stage, Release[Any], Symmetric]:
        """Generate the stages."""
        late: list[Array] = []
        start = state
        for t in range(self.iterations):
            cell = None if self.cells is None else Cell(self.cells[0] + t, self.cells[1])
            query = self._query(state)
            if not math.isfinite(query.rounding(self.asking.rows)):
                # Noise has led to where sums have no error bound (public: no row was asked): the
                # start is as good a guess, and had one.
                state = start
                query = self._query(state)
            each = self.iterations if cell is None else 1
            release = yield from self.asking.ask(query, "em", f"step {t + 1}", cell, each)
            mean = release.statistics.total / self.asking.records(cell)
            state = Symmetric(state.beta + self.step * mean, state.variance)
            if t >= self.iterations // 2:
                late.append(state.beta)
        if self.averaging:
            state = Symmetric(np.mean(late, axis=0), state.variance)
        return state

    def _query(self, state: Symmetric) -> BoundedGradientQuery:
        return BoundedGradientQuery(
            self.model(state),
            self.bounding,
            self.region,
            self.target,
            cap_weight=self.cap_weight,
        )
