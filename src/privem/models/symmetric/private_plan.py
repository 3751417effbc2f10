"""Private fits of the symmetric models: count and norms, then size, shape, direction, EM."""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...advice import advise_at_end
from ...blocks.histograms import HALF_OCTAVES, NormQuery, upper_edge
from ...blocks.region import Region
from ...budget import Allowance, Part, Terms
from ...core import Release, Stage
from ...data.table import Table
from ...ground import Ground, Preamble
from ...tree import Array
from .asking import Asking
from .base import GradientEstimator
from .gradient_plan import moment_parts
from .model import Symmetric
from .stages import SymmetricStages
from .task import SymmetricTask

__all__ = ["PrivateSymmetricFit", "PrivateSymmetricPlan", "SymmetricTask"]

_RADIUS_SHARE, _SQUARES_SHARE, _SHAPE_SHARE, _DIRECTION_SHARE = 0.05, 0.04, 0.06, 0.15


@dataclass(frozen=True)
class PrivateSymmetricFit:
    """Coefficients and variance in the data's units, and how they came about. All public."""

    state: Symmetric
    iterations: int
    ground: Ground
    target: Region | None
    found: bool = True
    """Whether all bounds that had to be found were."""
    lost: bool = False
    """Whether the start's direction is mostly noise, as far as the noise level tells."""


@dataclass(frozen=True)
class PrivateSymmetricPlan:
    """Count, norms, squares, shape, direction, EM; whatever is known is not asked.

    ``region`` and ``target``, where not given, are balls about the origin, found from a histogram
    of norms. The preamble's own region is not used.
    """

    task: SymmetricTask
    preamble: Preamble
    region: Region | None = None
    target: Region | None = None

    def parts(self) -> list[Part]:
        """How the budget is shared out."""
        task, sizes = self.task, self.task.sizes()
        shares = {
            "squares": _SQUARES_SHARE,
            "shape": _SHAPE_SHARE,
            "direction": _DIRECTION_SHARE,
        }
        parts, left = self.preamble.parts(), 1.0 - self.preamble.share()
        if self.norms(task, self.region, self.target):
            numbers = (1 + task.regression) * HALF_OCTAVES
            parts.append(Part("norms", left * _RADIUS_SHARE, [("gaussian", numbers)]))
            left *= 1 - _RADIUS_SHARE
        spent = 0.0
        for name, share in shares.items():
            if name in sizes:
                parts.append(Part(name, left * share, [("gaussian", sizes[name])]))
                spent += left * share
        left -= spent
        if task.method == "moments":
            return parts + moment_parts(left, task.iterations, sizes["em"])
        releases = 1 if task.partition else task.iterations
        return [*parts, Part("em", left, [("gaussian", sizes["em"])] * releases)]

    def stages(self, allowance: Allowance) -> Generator[Stage, Release[Any], PrivateSymmetricFit]:
        """Generate the stages."""
        task, region, target, found = self.task, self.region, self.target, True
        ground = yield from self.preamble.stages(allowance)
        asking = Asking(ground.count, ground.rows, ground.allowance)
        if self.norms(task, region, target):
            balls = yield from self._find_norms(asking)
            found = (region is not None or balls[0] is not None) and (
                not task.regression or target is not None or balls[-1] is not None
            )
            region = region or balls[0] or Region.around_origin(1.0, task.d)
            if task.regression:
                target = target or balls[1] or Region.around_origin(1.0, 1)
        assert region is not None
        fit = SymmetricStages(task, asking, region, target, self.preamble.cap_weight)
        state = yield from fit.stages()
        ground = replace(ground, region=region)
        return PrivateSymmetricFit(state, task.iterations, ground, target, found, fit.lost())

    @staticmethod
    def norms(task: SymmetricTask, region: Region | None, target: Region | None) -> bool:
        """Whether a histogram of norms is needed."""
        return region is None or (task.regression and target is None)

    def _find_norms(self, asking: Asking) -> Generator[Stage, Release[Any], list[Region | None]]:
        """Balls that hold all but what the noise hides; None where that is everything."""
        task = self.task
        query = NormQuery((task.d, 1) if task.regression else (task.d,))
        release = yield from asking.ask(query, "norms", "norms")
        deviation = release.spread
        radii = [_edge(row, deviation) for row in release.statistics.counts]
        return [
            None if r is None else Region.around_origin(r, d)
            for r, d in zip(radii, query.widths, strict=True)
        ]


def _edge(counts: Array, deviation: float) -> float | None:
    """A radius beyond which nothing stands out of the noise, and more; None if nothing does."""
    windows = np.convolve(counts, np.ones(3), "same")
    peak, noise = int(windows.argmax()), math.sqrt(3) * deviation
    # What the noise alone reaches once in a thousand.
    if windows[peak] <= noise * (math.sqrt(2 * math.log(len(counts))) + 0.5):
        return None
    threshold = 2.5 * noise
    last = peak
    while last + 1 < len(counts) and windows[last + 1] > threshold:
        last += 1
    return upper_edge(min(last + 1, len(counts) - 1))


def symmetric_plan(
    estimator: GradientEstimator, table: Table, terms: Terms, target: Region | None
) -> PrivateSymmetricPlan:
    """The plan of a private fit of either estimator; ``target`` of a regression, if it is given."""
    d = estimator.n_features_in_
    region = estimator._region(d)
    method = "gradient" if estimator.method == "gradient" else "moments"
    regression = hasattr(estimator, "target_bounds")
    task = SymmetricTask(d, regression, method, **estimator._settings(terms))
    norms = PrivateSymmetricPlan.norms(task, region, target)
    preamble = estimator._ungrounded(table, terms, task.iterations, norms)
    return PrivateSymmetricPlan(task, preamble, region, target)


def set_symmetric(
    estimator: GradientEstimator,
    fit: PrivateSymmetricFit,
    plan: PrivateSymmetricPlan,
    terms: Terms,
) -> None:
    """Set what a private fit of either estimator has found."""
    estimator._set_beta(fit.state)
    estimator.n_iter_ = fit.iterations
    if not fit.found:
        advise_at_end(
            "no bounds stood out of the noise: a ball of radius 1 was used; give bounds=, or use "
            "more records or a larger epsilon",
        )
    if fit.lost:
        # From the noise and the paid count alone: it says nothing about the data that was not paid.
        how = "about " if plan.preamble.count is None else ""
        advise_at_end(
            f"{how}{fit.ground.count:,.0f} records are too few for a start in {plan.task.d} "
            f"dimensions at epsilon={terms.epsilon:g}: its direction is mostly noise; give init=, "
            "or use more records, fewer features or a larger epsilon",
        )
    estimator.bounds_ = fit.ground.region.sides
    if fit.target is not None:
        estimator.target_bounds_ = tuple(float(side[0]) for side in fit.target.sides)
