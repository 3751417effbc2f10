"""Exact mixtures of regressions: frame, one regression, directions, EM; the best of several."""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...blocks.moments import FramePlan
from ...blocks.packing import pack
from ...core import Release, Stage
from ...em import ExactEM, Fit
from ...linalg import floor_eigenvalues, invert_cholesky
from ...noise.exact import Exact
from ...tree import Array
from .directions import ResidualDirections, apart_along
from .model import RegressionMixtureModel, Regressions

__all__ = ["RegressionMixturePlan", "one_regression", "spread"]

# Smallest variance of a component, of the target's.
_FLOOR = 1e-8


def one_regression(mean: Array, covariance: Array, floor: float) -> Regressions:
    """The regression of the last column on the others, from mean and covariance of all."""
    d = len(mean) - 1
    within = covariance[:d, :d]
    size = max(float(np.trace(within)) / max(d, 1), 1e-300)
    floors = np.maximum(1e-6 * np.diag(within), 1e-12 * size)
    whitener = invert_cholesky(floor_eigenvalues(within, floors))
    slope = whitener @ covariance[:d, d]
    left = float(covariance[d, d] - slope @ slope)
    coefficients = np.concatenate([mean[d:], slope])[None]
    return Regressions(np.ones(1), coefficients, np.array([max(left, floor)]), whitener, mean[:d])


def spread(one: Regressions, axes: Array, k: int, rng: np.random.Generator) -> Regressions:
    """K regressions about one, apart along ``axes`` by about its deviation."""
    m = axes.shape[1]
    points = pack(np.zeros(m), np.eye(m), k, rng, width=0.8 / math.sqrt(m))
    deviation = math.sqrt(one.variances[0])
    coefficients = one.coefficients + deviation * points @ axes.T
    variances = np.full(k, 0.5 * one.variances[0])
    return Regressions(np.full(k, 1 / k), coefficients, variances, one.whitener, one.centre)


@dataclass(frozen=True)
class RegressionMixturePlan:
    """Frame, directions, EM until the log-likelihood gains less than ``tol``.

    The first start is along the directions residuals grow in; later ones are random.
    """

    names: Sequence[str]
    components: int
    max_iter: int
    tol: float
    n_init: int
    rng: np.random.Generator
    start: tuple[Array, Array, Array, Array] | None = None
    """Given weights, slopes, intercepts and variances, in the data's units."""

    def stages(self) -> Generator[Stage, Release[Any], Fit[Regressions]]:
        """Generate the stages."""
        k = self.components
        frame = yield from FramePlan(self.names, min_rows=k).stages()
        floor = max(_FLOOR * float(frame.variances[-1]), 1e-300)
        one = one_regression(frame.mean, frame.covariance, floor)
        q = len(frame.mean)
        axes = np.eye(q)
        if k > 1 and self.start is None:
            release = yield Stage(ResidualDirections(one), Exact(), "residuals")
            blur = 0.25 * math.sqrt(frame.count)
            axes = apart_along(release.statistics.second, q, k, blur)
        best: Fit[Regressions] | None = None
        for run in range(1 if self.start is not None or k == 1 else self.n_init):
            if self.start is not None:
                state = given(one, *self.start)
            elif k == 1:
                state = one
            else:
                state = spread(one, axes if run == 0 else np.eye(q), k, self.rng)
            model = RegressionMixtureModel(floor)
            em = ExactEM(model, state, self.max_iter, lambda gain, old, new: abs(gain) < self.tol)
            fit = yield from em.stages()
            best = fit if best is None or fit.objective > best.objective else best
        assert best is not None
        return best


def given(
    one: Regressions, weights: Array, slopes: Array, intercepts: Array, variances: Array
) -> Regressions:
    """Given parameters in the coordinates of ``one``."""
    inside = np.linalg.solve(one.whitener.T, slopes.T).T
    first = intercepts + slopes @ one.centre
    coefficients = np.concatenate([first[:, None], inside], axis=1)
    return Regressions(weights, coefficients, variances, one.whitener, one.centre)
