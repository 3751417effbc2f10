"""A private mean: count, scale and place if nobody gave them, and one bounded sum."""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...blocks.robust_mean import RobustMeanQuery, best_clip, bias_bound, papers_scale
from ...budget import Allowance, Part
from ...core import Release, Stage
from ...ground import Ground, Preamble
from ...tree import Array

__all__ = ["MEAN_METHODS", "PrivateMeanFit", "PrivateMeanPlan"]

MEAN_METHODS = ("auto", "theorem 2", "lemma 1")
# Estimated bounds lie 8 scales from the place found; the place is within 2 scales of the bulk, and
# the bulk's own deviation is below 2 scales.
_SCALES, _SECOND_MOMENT = 8.0, 8.0


@dataclass(frozen=True)
class PrivateMeanFit:
    """The mean; deviation of its noise; a bound on its bias in L2 if tau holds. All public."""

    mean: Array
    deviation: Array
    bias: float
    query: RobustMeanQuery
    ground: Ground


@dataclass(frozen=True)
class PrivateMeanPlan:
    """Count, bounds, and the sum.

    Parameters
    ----------
    preamble : Preamble
        With a (dummy) region where ``tau`` is given.
    centre, tau : array of shape (d,)
        Public origin, and bounds on the second moment about it; ``tau=None``: found privately.
    method : {"auto", "theorem 2", "lemma 1"}
    terms : (epsilon, delta, failure)
        For the papers' choices.
    """

    preamble: Preamble
    centre: Array
    tau: Array | None
    method: str
    terms: tuple[float, float, float]

    def parts(self) -> list[Part]:
        """How the budget is shared out."""
        first = self.preamble
        return [*first.parts(), Part("mean", 1.0 - first.share(), [(first.kind, first.d)])]

    def stages(self, allowance: Allowance) -> Generator[Stage, Release[Any], PrivateMeanFit]:
        """Generate the stages."""
        d, centre = self.preamble.d, self.centre
        ground = yield from self.preamble.stages(allowance)
        count, noise = ground.count, ground.allowance.noise("mean", ground.rows)
        if self.tau is not None:
            unit, tau = np.sqrt(self.tau), 1.0
        else:
            centre, unit = ground.region.centre, ground.region.scale / _SCALES
            tau = _SECOND_MOMENT
        factor = 2.0 if noise.neighbours == "replace-one" else 1.0
        factor *= math.sqrt(2 * d) if self.preamble.pure else 1.0
        if self.method == "auto":
            bounding: Any = best_clip(tau, count, noise.multiplier, d, factor)
        else:
            bounding = papers_scale(self.method, tau, count, *self.terms)
        cap, kind = self.preamble.cap_weight, self.preamble.kind
        query = RobustMeanQuery(centre, unit, bounding, cap, kind=kind)
        release = yield Stage(query, noise, "mean")
        mean = centre + unit * release.statistics.total / count
        assert release.deviation is not None
        deviation = unit * release.deviation.total / count
        bias = bias_bound(bounding, tau, d) * float(unit.max())
        return PrivateMeanFit(mean, deviation, bias, query, ground)
