"""The stages of a private symmetric fit once the ground is known: size, shape, direction, EM."""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from ...blocks.bounding import PRODUCT, VECTOR, Bounding, Clip, best_radius
from ...blocks.gradient import Gradient
from ...blocks.region import Region
from ...blocks.robust_mean import papers_scale
from ...blocks.shrinkage import operator_noise
from ...core import Release, Stage
from ...linalg import smat, svec
from ...tree import Array
from .asking import Asking
from .gradient_plan import GradientSteps, MomentSteps, em_noise, stands_out
from .model import Symmetric
from .query import DirectionsQuery, SquaresQuery, SymmetricGradient, SymmetricRegressionGradient
from .task import SymmetricTask

__all__ = ["SymmetricStages"]

_GAP = 0.623  # E (z^2 - 1)^2/(z^2 + 1) = 2 sqrt(2 pi e) erfc(1/sqrt 2) - 2


@dataclass(frozen=True)
class SymmetricStages:
    """Whatever is known is not asked."""

    task: SymmetricTask
    asking: Asking
    region: Region
    target: Region | None
    cap_weight: float

    def stages(self) -> Generator[Stage, Release[Any], Symmetric]:
        """Generate the stages."""
        task = self.task
        squares = np.array([self.region.radius**2, 1.0]) / 2
        if task.squares:
            squares = yield from self._mean_squares()
        whitener = None
        if task.shape:
            whitener = yield from self._whitener(float(squares[0]))
        state = yield from self._start(squares, whitener)
        cells = task.iterations if task.partition else None
        model = partial(_model, task.regression, whitener)
        d, common = task.d, (self.asking, model, self.region, self.target)
        steps: MomentSteps | GradientSteps
        if task.method == "moments":
            kind, dimension = (PRODUCT, 1) if task.regression else (VECTOR, d)
            known = task.variance is not None
            steps = MomentSteps(
                *common,
                kind,
                best_radius(kind, d, em_noise(self.asking)),
                task.iterations,
                dimension,
                known,
                task.init is not None,
                self.cap_weight,
                cells,
            )
        else:
            steps = GradientSteps(
                *common,
                self._bounding(squares),
                task.iterations,
                task.step,
                task.averaging,
                self.cap_weight,
                cells,
            )
        state = yield from steps.stages(state)
        return state if whitener is None else replace(state, beta=whitener @ state.beta)

    def lost(self) -> bool:
        """Whether noise hides the direction of a regression's start: from the noise alone.

        At best, y = <b, x> exactly, a record's h v v' is expected to be larger along b by
        E (z^2 - 1)^2/(z^2 + 1)/d, z standard normal, than across. That is to be compared with the
        operator norm of the noise. (Records of a mixture all point along b at best.)
        """
        task, asking = self.task, self.asking
        if not task.regression or task.init is not None:
            return False
        noise = asking.allowance.multiplier("direction")
        twice = 2.0 if asking.allowance.neighbours == "replace-one" else 1.0
        signal = _GAP / task.d * asking.count
        return signal < float(operator_noise(task.d, twice * noise * self.cap_weight))

    def _mean_squares(self) -> Generator[Stage, Release[Any], Array]:
        """E |x|^2, and E y^2 where there is a target; at least what their noise could hide.

        Covariates are taken to be what the model says, standard normal, where they do not stand out
        from that.
        """
        radii = [self.region.radius] + ([] if self.target is None else [self.target.radius])
        query = SquaresQuery(self.region, tuple(radii), self.target, self.cap_weight)
        release = yield from self.asking.ask(query, "squares", "squares")
        count, noise = self.asking.count, release.deviation
        assert noise is not None
        found = np.maximum(release.statistics.squares, noise.squares) / count
        if self.target is not None:
            model = min(self.task.d / radii[0] ** 2, 1.0)
            blur = float(noise.squares[0]) / count
            found[:1] = model + stands_out(found[:1] - model, blur**2, model**2)
        return np.asarray(np.clip(found, 1e-6, 1.0) * np.square(radii))

    def _whitener(self, square: float) -> Generator[Stage, Release[Any], Array]:
        """The inverse root of the covariates' second moment, as far as it stands out of noise."""
        d, radius = self.task.d, 1.5 * math.sqrt(square)
        query = DirectionsQuery(self.region, radius, cap_weight=self.cap_weight)
        release = yield from self.asking.ask(query, "shape", "shape")
        unit, count = radius**2, self.asking.count
        noise = release.deviation
        assert noise is not None
        second = smat(release.statistics.second, d) * (unit / count)
        level = square / d
        blur = float(noise.second[0]) * unit / count
        away = smat(stands_out(svec(second - level * np.eye(d)), blur**2, level**2), d)
        values, vectors = np.linalg.eigh(level * np.eye(d) + away)
        root = 1 / np.sqrt(np.clip(values, 0.02 * level, 50 * level))
        return np.asarray((vectors * root) @ vectors.T)

    def _start(
        self, squares: Array, whitener: Array | None
    ) -> Generator[Stage, Release[Any], Symmetric]:
        """Where EM begins, in whitened coordinates."""
        task, d = self.task, self.task.d
        if task.init is not None:
            beta = task.init
            if whitener is not None:
                beta = np.asarray(np.linalg.solve(whitener, beta), dtype=np.float64)
            if task.variance is not None:
                return Symmetric(beta, task.variance)
            total = float(squares[1] if task.regression else squares[0] / d)
            explained = float(beta @ beta) / (1 if task.regression else d)
            return Symmetric(beta, max(total - explained, 0.1 * total))
        typical = math.sqrt(d if whitener is not None else float(squares[0]))
        query = DirectionsQuery(
            self.region,
            typical / 2,
            whitener,
            self.target,
            float(squares[1]) if task.regression else 1.0,
            self.cap_weight,
        )
        release = yield from self.asking.ask(query, "direction", "direction")
        values, vectors = np.linalg.eigh(smat(release.statistics.second, d))
        top: Array = vectors[:, -1]
        if task.regression:
            total = float(squares[1])
            variance = task.variance if task.variance is not None else total / 2
            length = math.sqrt(max(total - variance, 0.05 * total))
            return Symmetric(top * length / self._spread(squares, whitener), variance)
        total = float(squares[0])
        along = float(np.clip(values[-1] / self.asking.count, 1.0 / d, 1.0)) * total
        if task.variance is None:
            variance = (total - along) / (d - 1) if d > 1 else total / 2
            variance = max(variance, 1e-3 * total / d)
            length = math.sqrt(max(along - variance, 0.05 * total / d))
        else:
            variance = task.variance
            length = math.sqrt(max(total - d * variance, 0.05 * total))
        return Symmetric(top * length, variance)

    def _spread(self, squares: Array, whitener: Array | None) -> float:
        """The covariates' deviation in the coordinates of the fit."""
        return 1.0 if whitener is not None else math.sqrt(float(squares[0]) / self.task.d)

    def _bounding(self, squares: Array) -> Bounding:
        task = self.task
        if task.mechanism == "clip":
            return Clip(1.0 if task.clip is None else task.clip)
        tau = task.tau
        if tau is None:
            # Second moments of a gradient's coordinate: of y_j, or of x_j times a residual.
            tau = float(squares[0]) / task.d * (float(squares[1]) if task.regression else 1.0)
        count = self.asking.batch(task.iterations if task.partition else 1)
        return papers_scale("algorithm 2", tau, count, *task.terms)


def _model(regression: bool, whitener: Array | None, state: Symmetric) -> Gradient:
    if regression:
        return SymmetricRegressionGradient(state.beta, state.variance, whitener)
    return SymmetricGradient(state.beta, state.variance)
