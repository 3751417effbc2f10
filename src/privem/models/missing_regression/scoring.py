"""Fisher's scoring on noisy sums of clipped gradients: regression with missing covariates.

Each iteration asks for the mean of clipped EM gradients and capped squared residuals, and compares
it with what the model expects of them. How that mean moves with the parameters, J, is known without
data (:func:`privem.models.missing_regression.model.scoring`), so one solve gives the step; at the
solution nothing is left to move, whatever was clipped. Each iteration gets twice the budget of the
one before; where they lead: :mod:`~.course`.

The variance is a working one: what the current coefficients leave of y. It falls towards the
noise's own, and is not below that where it is known.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...blocks.bounded_sums import Cell
from ...blocks.bounding import PRODUCT, Clip, best_radius
from ...blocks.gradient import BoundedGradientQuery, GradientSums, Squares
from ...blocks.region import Region
from ...core import Release, Stage
from ...tree import Array
from ..symmetric.asking import Asking
from ..symmetric.course import Course
from ..symmetric.gradient_plan import em_noise, stands_out
from ..symmetric.model import Symmetric
from .model import scoring, typical_length
from .query import MissingCovariateGradient

__all__ = ["ScoringSteps"]

_SQUARES = 0.3  # the squares' share of a joint release
_CAP = 10.0  # squared residuals are capped at so many variances


@dataclass(frozen=True)
class ScoringSteps:
    """Scoring from a public state.

    Parameters
    ----------
    asking : Asking
    region, target : Region
    missing : ndarray of shape (d,)
        How often entries are missing.
    most : float
        What E y^2 is at most: the two parts that share it, |b|^2 and the variance, are no larger.
    iterations : int
    known : float, optional
        The variance of the noise.
    near : bool
        Whether the start is near the solution (:mod:`~.course`).
    cap_weight : float
    cells : int, optional
        Iteration t asks cell t of so many.
    """

    asking: Asking
    region: Region
    target: Region
    missing: Array
    most: float
    iterations: int
    known: float | None
    near: bool
    cap_weight: float = 1.0
    cells: int | None = None

    def stages(self, state: Symmetric) -> Generator[Stage, Release[Any], Symmetric]:
        """Generate the stages."""
        d = self.region.d
        tightness = best_radius(PRODUCT, d, em_noise(self.asking)) / math.sqrt(d)
        course = Course.begin(state, self.near)
        for t in range(self.iterations):
            cell = None if self.cells is None else Cell(t, self.cells)
            query = self._query(state, tightness)
            release = yield from self.asking.ask(query, f"EM {t + 1}", f"EM {t + 1}", cell)
            state, course = self._update(state, course, release, self.asking.records(cell))
        return state if self.known is None else Symmetric(state.beta, self.known)

    def _query(self, state: Symmetric, tightness: float) -> BoundedGradientQuery:
        clip = tightness * typical_length(state, self.missing)
        cap = _CAP * state.variance
        return BoundedGradientQuery(
            MissingCovariateGradient(state.beta, state.variance),
            Clip(clip),
            self.region,
            self.target,
            Squares(_SQUARES * clip / cap, cap),
            self.cap_weight,
        )

    @np.errstate(over="ignore")  # of noise beyond all numbers nothing stands out
    def _update(
        self, state: Symmetric, course: Course, release: Release[GradientSums], count: float
    ) -> tuple[Symmetric, Course]:
        """The next state, and the steps so far."""
        sums, noise, query = release.statistics, release.deviation, release.query
        assert noise is not None
        assert sums.square is not None
        d, squares = len(state.beta), query.squares
        expected, slope = scoring(state, self.missing, query.bounding.radius, squares.cap)
        found = np.append(sums.total, sums.square / squares.weight) / count - expected
        # In units of the noise all entries of the slope are plain numbers.
        unit = np.append(np.full(d, math.sqrt(state.variance)), state.variance)
        inverse = _bounded_inverse(slope * unit / unit[:, None]) * unit[:, None] / unit
        step = inverse @ found
        spread = np.full(d + 1, float(noise.total[0]) / count)
        spread[-1] /= squares.weight
        blurs = np.sum((inverse * spread) ** 2, axis=1)
        blur = float(np.mean(blurs[:d]))
        # The variance too moves by what stands out of its noise; never more than a factor of
        # four at once, nor beyond what there is; a known one is where residuals end.
        change = float(stands_out(step[d:], float(blurs[d]), state.variance**2)[0])
        variance = float(np.clip(state.variance + change, state.variance / 4, state.variance * 4))
        variance = max(min(variance, self.most), self.known or 0.0)
        course = course.to(state, step[:d], blur)
        beta = self._kept(state.beta, course.estimate() - state.beta, state.variance)
        return Symmetric(beta, variance), course

    def _kept(self, beta: Array, move: Array, variance: float) -> Array:
        """The coefficients moved, and kept to what y allows."""
        # In one step no more than the data can say: a few times what is not yet explained.
        limit = 2 * math.sqrt(variance)
        beta = beta + move * min(1.0, limit / max(_length(move), 1e-300))
        return np.asarray(beta * min(1.0, math.sqrt(self.most) / max(_length(beta), 1e-300)))


def _length(vector: Array) -> float:
    return float(np.linalg.norm(vector))


def _bounded_inverse(matrix: Array) -> Array:
    """The inverse, directions that say next to nothing left out (an entry never observed)."""
    u, values, v = np.linalg.svd(matrix)
    keep = values > 0.02 * values[0]
    return np.asarray((v[keep].T / values[keep]) @ u[:, keep].T)
