"""Private fits of the symmetric models: count and norms, then size, shape, direction, EM."""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...blocks.asking import Asking
from ...blocks.norms import HALF_OCTAVES, NormQuery, upper_edge
from ...blocks.preamble import Ground, Preamble
from ...blocks.region import Region
from ...budget import Allowance, Part
from ...core import Release, Stage
from ...tree import Array
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
    allowance: Allowance
    region: Region | None = None
    target: Region | None = None
    local: bool = False

    @staticmethod
    def parts(task: SymmetricTask, preamble: Preamble, norms: bool, local: bool) -> list[Part]:
        """How the budget is shared out."""
        sizes = task.sizes()
        if local:
            return Asking.local_parts(list(sizes.values()))
        shares = {
            "squares": _SQUARES_SHARE,
            "shape": _SHAPE_SHARE,
            "direction": _DIRECTION_SHARE,
        }
        parts, left = preamble.parts(), 1.0 - preamble.share()
        if norms:
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

    def stages(self) -> Generator[Stage, Release[Any], PrivateSymmetricFit]:
        """Generate the stages."""
        task, region, target, found = self.task, self.region, self.target, True
        if self.local:
            count = self.preamble.count
            assert count is not None
            assert region is not None
            ground = Ground(count, count, region, None, self.allowance)
        else:
            ground = yield from self.preamble.stages(self.allowance, adaptive=False)
        asking = Asking(ground.count, ground.rows, ground.allowance, self.local)
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
