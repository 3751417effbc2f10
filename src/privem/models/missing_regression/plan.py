"""Regression with missing covariates: scales or moments first, then EM, exact or private."""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...blocks.bounding import PRODUCT, best_radius
from ...blocks.shrinkage import clip_radius, james_stein, operator_noise, soften
from ...budget import Allowance, Part
from ...core import Release, Stage
from ...em import ExactEM, Fit, PrivateEM, gains_less
from ...ground import Ground, Preamble
from ...linalg import Array, smat
from ...noise.exact import Exact
from ...norms import NormBounds
from ...run import held
from ..symmetric.gradient_em import GradientSettings, em_noise, iteration_noise
from ..symmetric.model import Symmetric
from ..symmetric.path import NoisyState, ShrunkPath
from ..symmetric.plan import GradientFit
from .model import MissingCovariateModel, MissingQuery, MissingSums, corrected, from_moments
from .query import MissingCovariateGradient, ObservedMomentsQuery, ScalesQuery
from .scoring import ScoringEM

_LEAST = 1e-9  # Smallest noise variance an estimate may have, of the targets' mean square.
_NORMS_SHARE, _SCALES_SHARE = 0.1, 0.06


@dataclass(frozen=True)
class MissingPlan:
    """Moments at b = 0; with ``method="moments"`` that is all, otherwise EM from there.

    Parameters
    ----------
    d : int
    method : {"em", "moments"}
    variance : float or None
        Known noise variance.
    missing : array of shape (d,) or None
        Known probabilities, for ``"moments"``; ``None``: as often as seen.
    init : array of shape (d,) or None
    max_iter : int
    tol : float
    """

    d: int
    method: str
    variance: float | None
    missing: Array | None
    init: Array | None
    max_iter: int
    tol: float

    def stages(self) -> Generator[Stage, Release[Any], Fit[Symmetric]]:
        """Generate the stages."""
        nothing = Symmetric(np.zeros(self.d), 1.0)
        sums: MissingSums = (yield Stage(MissingQuery(nothing), Exact(), "moments")).statistics
        count = float(sums.count)
        if not count > 0:
            raise ValueError("the sample weights sum to zero: no record counts")
        square = float(sums.square) / count
        observed = 1 - sums.missing / count if self.missing is None else 1 - self.missing
        plain = smat(sums.second, self.d) / count - np.diag(sums.missing / count)
        if not (np.isfinite(plain).all() and np.isfinite(square)):
            raise ValueError("values are so large that their squares overflow; rescale them")
        cross, second = corrected(sums.cross / count, plain, observed)
        floor = max(_LEAST * square, 1e-300)
        if self.method == "moments":
            state = from_moments(cross, second, square, floor)
            if self.variance is not None:
                state = Symmetric(state.beta, self.variance)
            return Fit(state, float("nan"), 1, True)
        # Covariates are taken to be standard: E x y is the coefficient.
        beta = cross if self.init is None else self.init
        size = float(beta @ beta)
        if self.init is None and size > 0.9 * square:
            beta = beta * np.sqrt(0.9 * square / size)
        variance = self.variance if self.variance is not None else max(0.5 * square, floor)
        em = ExactEM(
            MissingCovariateModel(self.variance, floor),
            Symmetric(beta, variance),
            self.max_iter,
            gains_less(self.tol),
        )
        return (yield from em.stages())


@dataclass(frozen=True)
class PrivateMissingPlan:
    """Count, norms, scales, then the method's releases; whatever is known is not asked.

    Parameters
    ----------
    settings : GradientSettings
        Without a start, EM begins at zero.
    preamble : Preamble
        For the count; its region is not used.
    bounds : NormBounds
    missing : ndarray of shape (d,) or None
        Known probabilities.
    """

    settings: GradientSettings
    preamble: Preamble
    bounds: NormBounds
    missing: Array | None

    def parts(self) -> list[Part]:
        """How the budget is shared out."""
        settings, left = self.settings, 1.0 - self.preamble.share()
        d, method = settings.d, settings.method
        norms = self.bounds.parts(left * _NORMS_SHARE)
        scales = Part("scales", left * _SCALES_SHARE, [("gaussian", d + 2)])
        left *= 1 - (_NORMS_SHARE * bool(norms) + _SCALES_SHARE)
        size = (d + 1) * (d + 2) // 2 if method == "moments" else d + (method == "em")
        return [*self.preamble.parts(), *norms, scales, *settings.parts(left, size)]

    def stages(self, allowance: Allowance) -> Generator[Stage, Release[Any], GradientFit]:
        """Generate the stages."""
        settings = self.settings
        ground = yield from self.preamble.stages(allowance)
        ground = yield from self.bounds.stages(ground)
        found = yield from self._scales(ground)
        missing, squares, unsure = held(lambda: found)
        total, known = float(squares[1]), settings.variance
        beta = np.zeros(settings.d) if settings.init is None else settings.init
        state: Symmetric
        if settings.method == "moments":
            state = yield from self._moments(ground, missing, squares)
        elif settings.method == "gradient":
            start = Symmetric(beta, 0.5 * total if known is None else known)
            # E of a squared coordinate of y x at b = 0.
            moment = float(squares[0]) / settings.d * total
            state = yield from settings.gradient_em(ground, _gradient, start, moment).stages()
        else:
            start = self._begin(beta, total)
            state = yield from self._scoring(ground, missing, start, total + 2 * unsure).stages()
            state = state if known is None else Symmetric(state.beta, known)
        return GradientFit(state, ground, settings.iterations, missing=found[0])

    def _scoring(
        self, ground: Ground, missing: Array, start: Symmetric, most: float
    ) -> PrivateEM[NoisyState]:
        """Scoring; ``most``: what E y^2 is at most, of which |b|^2 and the variance are parts."""
        d, known = self.settings.d, self.settings.variance
        tightness = held(lambda: best_radius(PRODUCT, d, em_noise(ground)) / math.sqrt(d))
        return PrivateEM(
            ScoringEM(ground, missing, tightness, most, known or 0.0),
            NoisyState(start.beta, start.variance),
            self.settings.iterations,
            iteration_noise(ground),
            # In one step no more than the data can say: a few times what is not yet explained.
            ShrunkPath(start, self.settings.init is not None, 2.0, most),
        )

    def _begin(self, beta: Array, total: float) -> Symmetric:
        """A start, and how much of y it is taken to leave."""
        known = self.settings.variance
        if known is not None and self.settings.init is not None:
            # Whoever gave both knows better than a noisy E y^2; a step corrects a factor of four.
            return Symmetric(beta, known)
        return Symmetric(beta, max(total - float(beta @ beta), 0.1 * total, known or 0.0))

    def _scales(self, ground: Ground) -> Generator[Stage, Release[Any], tuple[Array, Array, float]]:
        """How often entries are missing; E |x_obs|^2 and E y^2, above what noise could hide.

        And the deviation of the last one's noise.
        """
        assert ground.target is not None
        radii = (ground.region.radius, ground.target.radius)
        query = ScalesQuery(ground.region, ground.target, radii, ground.cap_weight)
        release = yield ground.stage(query, "scales")
        sums, noise = release.statistics, release.deviation
        assert noise is not None
        count, d, missing = ground.count, self.settings.d, self.missing
        if missing is None:
            unit = math.sqrt(d) / count
            missing = _missing(sums.observed * unit, float(noise.observed[0]) * unit)
        found = np.clip(np.maximum(sums.squares, noise.squares) / count, 1e-6, 1.0)
        unsure = float(noise.squares[-1]) / count * radii[1] ** 2
        return missing, np.asarray(found * np.square(radii)), unsure

    def _moments(
        self, ground: Ground, missing: Array, squares: Array
    ) -> Generator[Stage, Release[Any], Symmetric]:
        """One release of the observed second moments, corrected, made valid, solved."""
        d, known = self.settings.d, self.settings.variance
        assert ground.target is not None
        sizes = np.sqrt(squares)
        radii = (float(sizes[0]) * clip_radius(d) / math.sqrt(d), 3.0 * float(sizes[1]))
        query = ObservedMomentsQuery(ground.region, ground.target, radii, ground.cap_weight)
        release = yield ground.stage(query, "em", "moments")
        assert release.deviation is not None
        unit = np.append(np.full(d, radii[0]), radii[1])
        scale = 2.0 / ground.count
        matrix = smat(release.statistics.second, d + 1) * scale
        observed = np.where(missing < 1, np.maximum(1 - missing, 0.02), 0.0)
        cross, second = corrected(matrix[:d, d], matrix[:d, :d], observed)
        blur = float(release.deviation.second[0]) * scale / max(float(observed.max()), 0.02) ** 2
        top = max(float(np.trace(second)), d * blur)
        second = soften(second, 1e-3 * top / d, float(operator_noise(d, blur)), top)
        square = max(float(matrix[d, d]), 1e-3)
        state = from_moments(cross, second, square, 1e-3 * square)
        beta = state.beta * unit[d] / unit[:d]
        return Symmetric(beta, state.variance * unit[d] ** 2 if known is None else known)


def _gradient(state: Symmetric) -> MissingCovariateGradient:
    return MissingCovariateGradient(state.beta, state.variance)


def _missing(observed: Array, blur: float) -> Array:
    """Probabilities from noisy shares of observed entries: the more noise, the more alike.

    A column of which nothing stands out, though the noise is small, was never seen.
    """
    level = float(np.mean(observed))
    shares = level + james_stein((observed - level)[None], np.array([blur**2]))[0]
    never = (observed < 4 * blur) & (blur < 0.05)
    return np.where(never, 1.0, np.clip(1 - shares, 0.0, 0.95))
