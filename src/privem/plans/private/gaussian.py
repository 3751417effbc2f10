"""One Gaussian, privately: two releases of its moments, the second in the frame of the first."""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...core import Release, Stage
from ...linalg import smat
from ...models.gaussian_mixture import Mixture
from ...models.private_mixture import BoundedQuery, BoundedSums
from ...models.region import Region
from ...models.sensitivity import MomentWeights
from ...models.shrink import clip_radius, consistency, james_stein, operator_noise, rounder, soften
from ...tree import Array
from .allowance import Allowance

__all__ = ["PrivateGaussian"]

# Relative noise of a covariance that costs less than clipping heavy tails would.
_TOLERATED = 0.1


@dataclass(frozen=True)
class PrivateGaussian:
    """Mean and covariance in unit coordinates.

    Parameters
    ----------
    region : Region
    count : float
        Number of records, public or released.
    rows : float
        A bound on it, for the floating-point error.
    allowance : Allowance
        With parts ``"frame 1"`` and ``"frame 2"``.
    cap_weight : float
    """

    region: Region
    count: float
    rows: float
    allowance: Allowance
    cap_weight: float = 1.0

    def stages(self) -> Generator[Stage, Release[Any], tuple[Array, Array]]:
        """Generate the stages."""
        d = self.region.d
        centre, covariance = np.zeros(d), np.eye(d) * self.region.reach**2 / d
        # At first the frame is the region itself: no record is clipped.
        centre, covariance = yield from self._step(
            "frame 1", self.region.reach / math.sqrt(self.region.reach**2 / d), centre, covariance
        )
        return (yield from self._step("frame 2", self._radius("frame 2"), centre, covariance))

    def refine(
        self, centre: Array, covariance: Array, releases: int = 1
    ) -> Generator[Stage, Release[Any], tuple[Array, Array]]:
        """One more look, with the budget of the part ``"em"`` or one of so many parts of it."""
        r = self._radius("em", releases)
        return (yield from self._step("em", r, centre, covariance, releases))

    def _radius(self, part: str, releases: int = 1) -> float:
        """As wide as the noise allows: real tails are heavier than a Gaussian's."""
        d, neighbours = self.region.d, self.allowance.neighbours
        w = MomentWeights.balanced(d, clip_radius(d), count=False)
        entry = w.l2(neighbours) * self.allowance.multiplier(part, releases) / w.w2
        noise = float(operator_noise(d, entry)) / self.count
        return clip_radius(d, noise=noise, tolerated=_TOLERATED)

    def _step(
        self, part: str, r: float, centre: Array, covariance: Array, releases: int = 1
    ) -> Generator[Stage, Release[Any], tuple[Array, Array]]:
        d = self.region.d
        w = MomentWeights.balanced(d, r, count=False)
        mixture = Mixture("full", np.ones(1), centre[None], covariance[None])
        query = BoundedQuery(mixture, self.region, w, "whitened", self.rows, self.cap_weight)
        release = yield Stage(query, self.allowance.noise(part, self.rows, releases), part)
        sums: BoundedSums = release.statistics
        mean = sums.total / (w.w1 * self.count)
        mean = james_stein(mean, np.array([release.spread / (w.w1 * self.count)]) ** 2)[0]
        factor = w.w2 * self.count * (1.0 if part == "frame 1" else consistency(d, r))
        noise = release.spread / factor
        second, share = rounder(smat(sums.second[0], d) / factor, noise)
        size = float(operator_noise(d, noise)) * (share + 1 / d)
        # A variance too small costs far more than one too large: never below half its noise.
        low = float(np.clip(size / 2, 0.02, 1.0))
        white = soften(second - np.outer(mean, mean), low, size, 1e3)
        lower = np.linalg.cholesky(covariance)
        return self.region.inside((centre + lower @ mean)[None])[0], lower @ white @ lower.T
