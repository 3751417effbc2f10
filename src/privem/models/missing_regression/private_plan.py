"""Private regression with missing covariates: scales, then scoring, gradients or moments."""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...blocks.bounding import Bounding, Clip
from ...blocks.histograms import HALF_OCTAVES, NormQuery
from ...blocks.region import Region
from ...blocks.robust_mean import papers_scale
from ...blocks.shrinkage import clip_radius, james_stein, operator_noise, soften
from ...budget import Allowance, Part
from ...core import Release, Stage
from ...ground import Ground, Preamble
from ...linalg import smat
from ...tree import Array
from ..symmetric.asking import Asking
from ..symmetric.gradient_plan import GradientSteps, moment_parts
from ..symmetric.model import Symmetric
from ..symmetric.private_plan import _edge
from .model import corrected
from .plan import from_moments
from .query import MissingCovariateGradient, ObservedMomentsQuery, ScalesQuery
from .scoring import ScoringSteps

__all__ = ["MissingTask", "PrivateMissingFit", "PrivateMissingPlan"]

_NORMS_SHARE, _SCALES_SHARE = 0.05, 0.06
_ITERATIONS, _STEPS = 6, 5


@dataclass(frozen=True)
class MissingTask:
    """What to fit, and how; parameters as :class:`~.symmetric_task.SymmetricTask`. All public.

    ``missing``: known probabilities (d,), or ``None``.
    """

    d: int
    method: str
    mechanism: str
    n_iter: int | None
    most: int
    variance: float | None
    missing: Array | None
    init: Array | None
    clip: float | None
    tau: float | None
    step: float
    averaging: bool
    partition: bool
    terms: tuple[float, float, float]

    @property
    def iterations(self) -> int:
        """How many releases EM makes."""
        if self.method == "moments":
            return 1
        usual = _ITERATIONS if self.method == "scoring" else _STEPS
        return min(self.n_iter or usual, self.most)

    @property
    def size(self) -> int:
        """How many numbers one of them has."""
        if self.method == "moments":
            return (self.d + 1) * (self.d + 2) // 2
        return self.d + (self.method == "scoring")


@dataclass(frozen=True)
class PrivateMissingFit:
    """Coefficients and variance, how often entries are missing, and how it came about. Public."""

    state: Symmetric
    missing: Array
    iterations: int
    ground: Ground
    target: Region
    found: bool


@dataclass(frozen=True)
class PrivateMissingPlan:
    """Count, norms, scales, then the method's releases; whatever is known is not asked."""

    task: MissingTask
    preamble: Preamble
    region: Region | None = None
    target: Region | None = None

    @property
    def norms(self) -> bool:
        """Whether a histogram of norms is needed."""
        return self.region is None or self.target is None

    def parts(self) -> list[Part]:
        """How the budget is shared out."""
        task, norms = self.task, self.norms
        parts, left = self.preamble.parts(), 1.0 - self.preamble.share()
        shares = {"norms": (_NORMS_SHARE * norms, 2 * HALF_OCTAVES)}
        shares["scales"] = (_SCALES_SHARE, task.d + 2)
        for name, (share, size) in shares.items():
            if share:
                parts.append(Part(name, left * share, [("gaussian", size)]))
        left *= 1 - sum(share for share, _ in shares.values())
        if task.method == "scoring":
            return parts + moment_parts(left, task.iterations, task.size)
        releases = 1 if task.partition else task.iterations
        return [*parts, Part("em", left, [("gaussian", task.size)] * releases)]

    def stages(self, allowance: Allowance) -> Generator[Stage, Release[Any], PrivateMissingFit]:
        """Generate the stages."""
        task, region, target, found = self.task, self.region, self.target, True
        ground = yield from self.preamble.stages(allowance)
        asking = Asking(ground.count, ground.rows, ground.allowance)
        if region is None or target is None:
            query = NormQuery((task.d, 1))
            release = yield from asking.ask(query, "norms", "norms")
            deviation = release.spread
            x, y = (_edge(row, deviation) for row in release.statistics.counts)
            found = (region is not None or x is not None) and (target is not None or y is not None)
            region = region or Region.around_origin(x or 1.0, task.d)
            target = target or Region.around_origin(y or 1.0, 1)
        fit = _Steps(task, asking, region, target, self.preamble.cap_weight)
        state, missing = yield from fit.stages()
        ground = replace(ground, region=region)
        return PrivateMissingFit(state, missing, task.iterations, ground, target, found)


@dataclass(frozen=True)
class _Steps:
    """Everything after the ground is known."""

    task: MissingTask
    asking: Asking
    region: Region
    target: Region
    cap_weight: float

    def stages(self) -> Generator[Stage, Release[Any], tuple[Symmetric, Array]]:
        cells = self.task.iterations if self.task.partition else None
        missing, squares, unsure = yield from self._scales()
        total, task = float(squares[1]), self.task
        if task.method == "moments":
            return (yield from self._moments(missing, squares)), missing
        beta = np.zeros(task.d) if task.init is None else task.init
        if task.method == "scoring":
            steps = ScoringSteps(
                self.asking,
                self.region,
                self.target,
                missing,
                total + 2 * unsure,
                task.iterations,
                task.variance,
                task.init is not None,
                self.cap_weight,
                cells,
            )
            return (yield from steps.stages(self._begin(beta, total))), missing
        state = Symmetric(beta, 0.5 * total if task.variance is None else task.variance)
        gradient = GradientSteps(
            self.asking,
            lambda now: MissingCovariateGradient(now.beta, now.variance),
            self.region,
            self.target,
            self._bounding(squares),
            task.iterations,
            task.step,
            task.averaging,
            self.cap_weight,
            cells,
        )
        return (yield from gradient.stages(state)), missing

    def _begin(self, beta: Array, total: float) -> Symmetric:
        """A start, and how much of y it is taken to leave."""
        known = self.task.variance
        if known is not None and self.task.init is not None:
            # Whoever gave both knows better than a noisy E y^2; a step corrects a factor of four.
            return Symmetric(beta, known)
        return Symmetric(beta, max(total - float(beta @ beta), 0.1 * total, known or 0.0))

    def _scales(self) -> Generator[Stage, Release[Any], tuple[Array, Array, float]]:
        """How often entries are missing; E |x_obs|^2 and E y^2, above what noise could hide.

        And the deviation of the last one's noise.
        """
        radii = (self.region.radius, self.target.radius)
        query = ScalesQuery(self.region, self.target, radii, self.cap_weight)
        release = yield from self.asking.ask(query, "scales", "scales")
        sums, noise = release.statistics, release.deviation
        assert noise is not None
        count, d = self.asking.count, self.task.d
        missing = self.task.missing
        if missing is None:
            unit = math.sqrt(d) / count
            missing = _missing(sums.observed * unit, float(noise.observed[0]) * unit)
        found = np.clip(np.maximum(sums.squares, noise.squares) / count, 1e-6, 1.0)
        unsure = float(noise.squares[-1]) / count * radii[1] ** 2
        return missing, np.asarray(found * np.square(radii)), unsure

    def _moments(self, missing: Array, squares: Array) -> Generator[Stage, Release[Any], Symmetric]:
        """One release of the observed second moments, corrected, made valid, solved."""
        d, count = self.task.d, self.asking.count
        sizes = np.sqrt(squares)
        radii = (float(sizes[0]) * clip_radius(d) / math.sqrt(d), 3.0 * float(sizes[1]))
        query = ObservedMomentsQuery(self.region, self.target, radii, self.cap_weight)
        release = yield from self.asking.ask(query, "em", "moments")
        assert release.deviation is not None
        unit = np.append(np.full(d, radii[0]), radii[1])
        scale = 2.0 / count
        matrix = smat(release.statistics.second, d + 1) * scale
        observed = np.where(missing < 1, np.maximum(1 - missing, 0.02), 0.0)
        cross, second = corrected(matrix[:d, d], matrix[:d, :d], observed)
        blur = float(release.deviation.second[0]) * scale / max(float(observed.max()), 0.02) ** 2
        top = max(float(np.trace(second)), d * blur)
        second = soften(second, 1e-3 * top / d, float(operator_noise(d, blur)), top)
        square = max(float(matrix[d, d]), 1e-3)
        state = from_moments(cross, second, square, 1e-3 * square)
        beta = state.beta * unit[d] / unit[:d]
        known = self.task.variance
        return Symmetric(beta, state.variance * unit[d] ** 2 if known is None else known)

    def _bounding(self, squares: Array) -> Bounding:
        task = self.task
        if task.mechanism == "clip":
            return Clip(1.0 if task.clip is None else task.clip)
        tau = task.tau
        if tau is None:  # E of a squared coordinate of y x at b = 0
            tau = float(squares[0]) / task.d * float(squares[1])
        count = self.asking.batch(task.iterations if task.partition else 1)
        return papers_scale("algorithm 2", tau, count, *task.terms)


def _missing(observed: Array, blur: float) -> Array:
    """Probabilities from noisy shares of observed entries: the more noise, the more alike.

    A column of which nothing stands out, though the noise is small, was never seen.
    """
    level = float(np.mean(observed))
    shares = level + james_stein((observed - level)[None], np.array([blur**2]))[0]
    never = (observed < 4 * blur) & (blur < 0.05)
    return np.where(never, 1.0, np.clip(1 - shares, 0.0, 0.95))
