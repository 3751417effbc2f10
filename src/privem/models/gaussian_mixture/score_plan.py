"""A private score: a count, unless it is public, and one bounded sum."""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...budget import Allowance, Part
from ...core import Release, Stage
from ...ground import Preamble
from .log_density import LogDensityQuery


@dataclass(frozen=True)
class PrivateScorePlan:
    """Count and sum; the mean within its limits, and the deviation of its noise."""

    preamble: Preamble
    query: LogDensityQuery

    def parts(self) -> list[Part]:
        """How the budget is shared out."""
        share = 1.0 - self.preamble.share()
        return [*self.preamble.parts(), Part("score", share, [("gaussian", 1)])]

    def stages(self, allowance: Allowance) -> Generator[Stage, Release[Any], tuple[float, float]]:
        """Generate the stages."""
        ground = yield from self.preamble.stages(allowance)
        noise = ground.allowance.noise("score", ground.rows)
        release = yield Stage(self.query, noise, "score")
        assert release.deviation is not None
        away = float(release.statistics.total[0]) / ground.count
        # To first order, of a ratio of two noisy numbers.
        count = 0.0 if self.preamble.count is not None else allowance.multiplier("count")
        deviation = math.hypot(float(release.deviation.total[0]), away * count) / ground.count
        mean = self.query.middle + away
        return float(np.clip(mean, self.query.low, self.query.high)), deviation
