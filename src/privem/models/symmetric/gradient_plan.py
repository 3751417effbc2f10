"""Gradient EM on noisy sums of bounded gradients (Wang et al. 2023, Algorithms 1 and 2).

Two ways to go, both from public numbers:

- :class:`GradientSteps`, the papers': clip at a given norm or truncate robustly, take T steps of
  a given size on the whole data or a cell each, average the second half.
- :class:`MomentSteps`, the default: residuals about the last public iterate are clipped near their
  own typical length, sigma sqrt(d); where exactly, the noise level tells. Residuals are symmetric
  about zero at the solution, so clipping moves it little, and costs a known factor of the step's
  length, which is put back (:mod:`privem.blocks.bounding`). Each iteration gets twice the budget of
  the one before. Where they lead: :mod:`~.course`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...blocks.bounded_sums import Cell
from ...blocks.bounding import Bounding, Clip, slope
from ...blocks.gradient import BoundedGradientQuery, Gradient, GradientSums, Squares
from ...blocks.region import Region
from ...blocks.shrinkage import consistency
from ...budget import Part
from ...core import Release, Stage
from ...tree import Array
from .asking import Asking
from .course import Course
from .model import Symmetric

__all__ = [
    "GradientSteps",
    "MomentSteps",
    "em_noise",
    "moment_parts",
    "stands_out",
]

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


def em_noise(asking: Asking) -> float:
    """Noise on a sum of bounded gradients over all, per unit of their bound and sqrt(n)."""
    allowance = asking.allowance
    # On devices whoever answers spends everything on one message, whichever it is.
    em = sum(part.share for part in allowance.parts if part.name.startswith("EM"))
    share = em if allowance.rounds == 1 else 1.0
    twice = 2.0 if allowance.neighbours == "replace-one" else 1.0
    return twice * allowance.base / math.sqrt(share * asking.count)


def stands_out(step: Array, variance: float, size: float) -> Array:
    """A step less what its noise, of this variance in each entry, explains or may explain.

    James and Stein take off the expected squared length of the noise. Where that is larger than
    ``size``, the square of what a step may sensibly be (the residuals' variance), whatever is left
    over is likely to be noise too: up to two deviations more are taken off.
    """
    d = step.size
    doubt = min(2.0, d * variance / max(size, 1e-300))
    explained = variance * (d + doubt * math.sqrt(2 * d))
    return np.asarray(step * max(0.0, 1.0 - explained / max(float(np.sum(step**2)), 1e-300)))


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
        Of residuals (:mod:`privem.blocks.bounding`).
    radius : float
        Clip there, in deviations of the residual.
    iterations : int
    dimension : int
        Of what has the variance: d, or 1 in a regression.
    known : bool
        Whether the variance is known; else it is released beside the gradient.
    near : bool
        Whether the start is near the solution (:mod:`~.course`).
    cap_weight : float
    cells : int, optional
        Iteration t asks cell t of so many.
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
    near: bool
    cap_weight: float = 1.0
    cells: int | None = None

    def stages(self, state: Symmetric) -> Generator[Stage, Release[Any], Symmetric]:
        """Generate the stages."""
        course = Course.begin(state, self.near)
        for t in range(self.iterations):
            course = course.resumed(state, self.near, t, self.iterations) if t else course
            cell = None if self.cells is None else Cell(t, self.cells)
            query, reach = self._query(state)
            release = yield from self.asking.ask(query, f"EM {t + 1}", f"EM {t + 1}", cell)
            state, course = self._update(state, course, release, self.asking.records(cell), reach)
        return state

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
        self,
        state: Symmetric,
        course: Course,
        release: Release[GradientSums],
        count: float,
        reach: float,
    ) -> tuple[Symmetric, Course]:
        """The next state, and the steps so far."""
        sums, noise = release.statistics, release.deviation
        assert noise is not None
        length = count * slope(self.kind, len(state.beta), self.radius)
        step, spread = sums.total / length, float(noise.total[0] / length) ** 2
        course = course.believing(state, step, spread).to(state, step, spread)
        move = self._limited(course.estimate() - state.beta, state.variance)
        variance = state.variance
        squares = release.query.squares
        if squares is not None and sums.square is not None and noise.square is not None:
            k = self.dimension
            unit = k * consistency(k, math.sqrt(reach))
            mean = sums.square / (squares.weight * count)
            blur = float(noise.square[0]) / (squares.weight * count * unit)
            change = (mean - float(move @ move)) / unit - variance
            # Never more than a factor of four at once: noise must not make it vanish or explode.
            found = variance + float(stands_out(change, blur**2, variance**2)[0])
            variance *= float(np.clip(found / variance, 0.25, 4.0))
        return Symmetric(state.beta + move, variance), course


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
        The mean gradient is multiplied by it (eta; Wang et al. divide the gradient by the variance
        and give eta in units of the variance).
    averaging : bool
        Return the mean of the second half of the iterates, not the last.
    cells : int, optional
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
    cells: int | None = None

    def stages(self, state: Symmetric) -> Generator[Stage, Release[Any], Symmetric]:
        """Generate the stages."""
        late: list[Array] = []
        start = state
        # Signed records have the mean b, and targets the mean square |b|^2 at least: neither is
        # larger than the public bounds. (Wang et al. project to a ball too.)
        most = max((self.target or self.region).radius, float(np.linalg.norm(start.beta)))
        for t in range(self.iterations):
            cell = None if self.cells is None else Cell(t, self.cells)
            query = self._query(state)
            if not math.isfinite(query.rounding(self.asking.rows)):
                # Noise has led to where sums have no error bound (public: no row was asked): the
                # start is as good a guess, and had one.
                state = start
                query = self._query(state)
            each = self.iterations if cell is None else 1
            release = yield from self.asking.ask(query, "em", f"step {t + 1}", cell, each)
            mean = release.statistics.total / self.asking.records(cell)
            beta = state.beta + self.step * mean
            with np.errstate(over="ignore"):  # an infinite length is pulled in to nothing
                beta = beta * min(1.0, most / max(float(np.linalg.norm(beta)), 1e-300))
            state = Symmetric(beta, state.variance)
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
