"""Private factor analysis: one release of the second moment; every iteration after it is free."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...core import Release, Stage
from ...linalg import smat
from ...models.private_moments import BoundedMoments, BoundedMomentsQuery
from ...models.sensitivity import MomentWeights
from ...models.shrink import operator_noise, soften
from ...tree import Array
from .allowance import Allowance, Part
from .gaussian import PrivateGaussian
from .preamble import Ground, Preamble

__all__ = ["FACTOR_RECIPES", "PrivateCovarianceFit", "PrivateCovariancePlan"]

FACTOR_RECIPES = ("whitened", "joint")
_FRAME_SHARES = (0.3, 0.7)


@dataclass(frozen=True)
class PrivateCovarianceFit:
    """Mean and positive definite covariance in the data's coordinates. Public."""

    mean: Array
    covariance: Array
    ground: Ground


@dataclass(frozen=True)
class PrivateCovariancePlan:
    """Count, bounds, and mean and covariance.

    ``"joint"`` is one release about the region's centre, as in 004; ``"whitened"`` is two, the
    second in the frame of the first: more accurate where the region is much wider than the data.
    """

    preamble: Preamble
    allowance: Allowance
    recipe: str
    adaptive: bool

    @staticmethod
    def parts(preamble: Preamble, recipe: str) -> list[Part]:
        """How the budget is shared out."""
        d, left = preamble.d, 1.0 - preamble.share()
        size = 1 + d + d * (d + 1) // 2
        shares = _FRAME_SHARES if recipe == "whitened" else (1.0,)
        return preamble.parts() + [
            Part(f"frame {i}", left * share, [("gaussian", size)])
            for i, share in enumerate(shares, start=1)
        ]

    def stages(self) -> Generator[Stage, Release[Any], PrivateCovarianceFit]:
        """Generate the stages."""
        ground = yield from self.preamble.stages(self.allowance, self.adaptive)
        cap = self.preamble.cap_weight
        if self.recipe == "whitened":
            frame = PrivateGaussian(ground.region, ground.count, ground.rows, ground.allowance, cap)
            mean, covariance = yield from frame.stages()
        else:
            mean, covariance = yield from self._once(ground)
        scale = ground.region.scale
        covariance = covariance * np.outer(scale, scale)
        return PrivateCovarianceFit(ground.region.to_data(mean), covariance, ground)

    def _once(self, ground: Ground) -> Generator[Stage, Release[Any], tuple[Array, Array]]:
        region, d = ground.region, self.preamble.d
        w = MomentWeights.balanced(d, region.reach, count=False)
        query = BoundedMomentsQuery(region, w, self.preamble.cap_weight)
        noise = ground.allowance.noise("frame 1", ground.rows)
        release = yield Stage(query, noise, "moments")
        sums: BoundedMoments = release.statistics
        mean = sums.total / (w.w1 * ground.count)
        second = smat(sums.second, d) / (w.w2 * ground.count)
        size = float(operator_noise(d, release.spent[0].deviation / (w.w2 * ground.count)))
        # Eigenvalues within the noise say only that they are small: softened, not cut to zero.
        covariance = soften(
            second - np.outer(mean, mean), 1e-6 * region.reach**2 / d, size, region.reach**2
        )
        return region.inside(mean[None])[0], covariance
