"""Fits of the symmetric models: a spectral start, then EM, exact or private."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from ...blocks.bounding import PRODUCT, VECTOR, best_radius
from ...blocks.gradient import Gradient
from ...blocks.moments import FramePlan
from ...budget import Allowance, Part
from ...core import Release, Stage
from ...em import ExactEM, Fit, PrivateEM, gains_less
from ...ground import Ground, Preamble, PrivateFit
from ...linalg import Array, positive
from ...norms import NormBounds
from ...run import given, held
from .gradient_em import ClippedEM, GradientSettings, em_noise, iteration_noise
from .model import Symmetric, SymmetricModel
from .path import NoisyState, ShrunkPath
from .query import SymmetricGradient, SymmetricRegressionGradient
from .start import PrivateStart, Start, exact_start

_LEAST = 1e-9  # Smallest noise variance an estimate may have, of the records' mean square.
_NORMS_SHARE = 0.1


@dataclass(frozen=True)
class SymmetricPlan:
    """Frame, direction, EM until the log-likelihood gains less than ``tol``.

    Parameters
    ----------
    names : sequence of str
        One per column, for error messages.
    regression : bool
        Whether the last column is a target.
    variance : float or None
        Known noise variance.
    init : array of shape (d,) or None
        Start; ``None``: along the top eigenvector of the second moment.
    max_iter : int
    tol : float
    """

    names: Sequence[str]
    regression: bool
    variance: float | None
    init: Array | None
    max_iter: int
    tol: float

    def stages(self) -> Generator[Stage, Release[Any], Fit[Symmetric]]:
        """Generate the stages."""
        frame = yield from FramePlan(self.names).stages()
        second = frame.covariance + np.outer(frame.mean, frame.mean)
        unit = float(second[-1, -1] if self.regression else np.trace(second) / len(second))
        floor = _LEAST * unit if unit > 0 else 1.0
        start = yield from exact_start(second, self.regression, self.variance, self.init, floor)
        model = SymmetricModel(self.regression, self.variance, floor)
        em = ExactEM(model, start, self.max_iter, gains_less(self.tol))
        fit = yield from em.stages()
        if self.init is not None:
            return fit
        # b and -b are one model. Where rows are fewer than columns, rounding picks the start.
        return replace(fit, state=replace(fit.state, beta=positive(fit.state.beta)))


@dataclass(frozen=True)
class GradientFit(PrivateFit[Symmetric]):
    """Coefficients and variance, and what else was found."""

    missing: Array | None = None
    """How often entries are missing (d,), in models that have missing ones."""


@dataclass(frozen=True)
class PrivateSymmetricPlan:
    """Count, norms, start, EM; whatever is known is not asked.

    Parameters
    ----------
    settings : GradientSettings
    preamble : Preamble
        For the count; its region is not used.
    bounds : NormBounds
    regression : bool
        Whether the last column is a target.
    """

    settings: GradientSettings
    preamble: Preamble
    bounds: NormBounds
    regression: bool

    @property
    def start(self) -> PrivateStart:
        """How to begin."""
        return PrivateStart(self.settings, self.regression)

    def parts(self) -> list[Part]:
        """How the budget is shared out."""
        settings, left = self.settings, 1.0 - self.preamble.share()
        norms = self.bounds.parts(left * _NORMS_SHARE)
        left *= 1 - _NORMS_SHARE * bool(norms)
        start = self.start.parts(left)
        left -= sum(part.share for part in start)
        released = settings.variance is None and settings.method == "em"
        return [
            *self.preamble.parts(),
            *norms,
            *start,
            *settings.parts(left, settings.d + released),
        ]

    def stages(self, allowance: Allowance) -> Generator[Stage, Release[Any], GradientFit]:
        """Generate the stages."""
        ground = yield from self.preamble.stages(allowance)
        ground = yield from self.bounds.stages(ground)
        start = yield from given(self.start.stages(ground))
        state: Symmetric = yield from self._em(ground, start).stages()
        if start.whitener is not None:
            state = replace(state, beta=start.whitener @ state.beta)
        structure = "lost" if self.start.lost(ground) else "full"
        return GradientFit(state, ground, self.settings.iterations, structure)

    def _em(self, ground: Ground, start: Start) -> PrivateEM[Any]:
        settings, state, squares = self.settings, start.state, start.squares
        gradient = partial(_gradient, self.regression, start.whitener)
        if settings.method == "gradient":
            # Second moments of a gradient's coordinate: of y_j, or of x_j times a residual.
            moment = float(squares[0]) / settings.d * (float(squares[1]) if self.regression else 1)
            return settings.gradient_em(ground, gradient, state, moment)
        kind, dimension = (PRODUCT, 1) if self.regression else (VECTOR, settings.d)
        radius = held(lambda: best_radius(kind, settings.d, em_noise(ground)))
        known, near = settings.variance is not None, settings.init is not None
        return PrivateEM(
            ClippedEM(ground, gradient, kind, radius, dimension, known),
            NoisyState(state.beta, state.variance),
            settings.iterations,
            iteration_noise(ground),
            ShrunkPath(state, near, 2 * radius, iterations=settings.iterations),
        )


def _gradient(regression: bool, whitener: Array | None, state: Symmetric) -> Gradient:
    if regression:
        return SymmetricRegressionGradient(state.beta, state.variance, whitener)
    return SymmetricGradient(state.beta, state.variance)
