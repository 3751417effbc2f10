"""Where a private fit begins: one Gaussian of all records, and points spread out over it.

The Gaussian is two releases of its moments, the second in the frame of the first.

Where only variances are asked for (a diag or spherical mixture of many columns), its covariance is
a diagonal throughout: 2 d numbers are released instead of d^2/2, by the same query with another
covariance type and under the same bound (:mod:`privem.blocks.sensitivity`).
"""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.spatial.distance import pdist

from ...blocks.region import Region
from ...blocks.sensitivity import MomentWeights
from ...blocks.shrinkage import (
    clip_radius,
    consistency,
    james_stein,
    operator_noise,
    rounder,
    soften,
    soften_each,
)
from ...budget import Part
from ...core import Release, Stage
from ...ground import Ground
from ...linalg import smat
from ...tape import held
from ...tree import Array
from .model import Mixture
from .query import BoundedQuery, BoundedSums

# Up to so many columns the frame of a diag or spherical mixture is a full covariance: see
# :mod:`privem.models.kmeans.private_plan`.
_MOST_TURNED = 256

# Relative noise of a covariance that costs less than clipping heavy tails would.
_TOLERATED = 0.1


def only_variances(covariance_type: str, d: int) -> bool:
    """Whether the frame of such a mixture is diagonal."""
    return covariance_type in ("diag", "spherical") and d > _MOST_TURNED


def frame_size(d: int, diagonal: bool) -> int:
    """How many numbers each release has."""
    return 1 + d + (d if diagonal else d * (d + 1) // 2)


def frame_parts(left: float, shares: Sequence[float], sizes: Sequence[int]) -> list[Part]:
    """The parts ``"frame 1"``, ``"frame 2"``, ... of what is left of a budget."""
    return [
        Part(f"frame {i}", left * share, [("gaussian", size)])
        for i, (share, size) in enumerate(zip(shares, sizes, strict=True), start=1)
    ]


@dataclass(frozen=True)
class PrivateGaussian:
    """Mean and covariance in unit coordinates.

    Parameters
    ----------
    ground : Ground
        Region, number of records, and an allowance with parts ``"frame 1"`` and ``"frame 2"``.
    diagonal : bool
        The covariance is its diagonal, (d,).
    """

    ground: Ground
    diagonal: bool = False

    def stages(self) -> Generator[Stage, Release[Any], tuple[Array, Array]]:
        """Generate the stages."""
        d, reach = self.ground.region.d, self.ground.region.reach
        one = np.ones(d) if self.diagonal else np.eye(d)
        centre, covariance = np.zeros(d), one * reach**2 / d
        # At first the frame is the region itself: no record is clipped.
        radius = reach / math.sqrt(reach**2 / d)
        centre, covariance = yield from self._step("frame 1", radius, centre, covariance)
        return (yield from self._step("frame 2", self._radius("frame 2"), centre, covariance))

    def refine(
        self, centre: Array, covariance: Array, releases: float = 1
    ) -> Generator[Stage, Release[Any], tuple[Array, Array]]:
        """One more look, with the budget of the part ``"em"`` or one of so many parts of it."""
        r = held(lambda: self._radius("em", releases))
        return (yield from self._step("em", r, centre, covariance, releases))

    def _radius(self, part: str, releases: float = 1) -> float:
        """As wide as the noise allows: real tails are heavier than a Gaussian's."""
        d, neighbours = self.ground.region.d, self.ground.allowance.neighbours
        w = MomentWeights.balanced(d, clip_radius(d), count=False, diagonal=self.diagonal)
        entry = w.l2(neighbours) * self.ground.allowance.multiplier(part, releases) / w.w2
        noise = (entry if self.diagonal else float(operator_noise(d, entry))) / self.ground.count
        return clip_radius(d, noise=noise, tolerated=_TOLERATED)

    def ask(
        self, part: str, mixture: Mixture, w: MomentWeights, releases: float = 1
    ) -> Generator[Stage, Release[Any], tuple[Array, Array, float]]:
        """The mean, shrunk, and second moments in the coordinates of a mixture of one component.

        Second moments are sums over records yet, in units of ``w.w2``; and the deviation of their
        noise.
        """
        ground = self.ground
        query = BoundedQuery(mixture, ground.region, w, "whitened", ground.rows, ground.cap_weight)
        release = yield Stage(query, ground.noise(part, releases), part)
        sums: BoundedSums = release.statistics
        mean = sums.total / (w.w1 * ground.count)
        noise = np.array([release.spread / (w.w1 * ground.count)])
        return james_stein(mean, noise**2)[0], sums.second[0], release.spread

    def _step(
        self, part: str, r: float, centre: Array, covariance: Array, releases: float = 1
    ) -> Generator[Stage, Release[Any], tuple[Array, Array]]:
        region, count = self.ground.region, self.ground.count
        d = region.d
        w = MomentWeights.balanced(d, r, count=False, diagonal=self.diagonal)
        shape = "diag" if self.diagonal else "full"
        mixture = Mixture(shape, np.ones(1), centre[None], covariance[None])
        mean, sums, deviation = yield from self.ask(part, mixture, w, releases)
        factor = w.w2 * count * (1.0 if part == "frame 1" else consistency(d, r))
        noise = deviation / factor
        if self.diagonal:
            white = _variances(sums / factor, mean, noise)
            root = np.sqrt(covariance)
            return region.inside((centre + root * mean)[None])[0], covariance * white
        second, share = rounder(smat(sums, d) / factor, noise)
        size = float(operator_noise(d, noise)) * (share + 1 / d)
        # A variance too small costs far more than one too large: never below half its noise.
        low = float(np.clip(size / 2, 0.02, 1.0))
        white = soften(second - np.outer(mean, mean), low, size, 1e3)
        lower = np.linalg.cholesky(covariance)
        return region.inside((centre + lower @ mean)[None])[0], lower @ white @ lower.T


def _variances(second: Array, mean: Array, noise: float) -> Array:
    """Of each column, from second moments: drawn to their mean by what noise explains, positive."""
    d = len(second)
    level = second.mean()
    away = second - level
    share = max(0.0, 1.0 - (d - 1) * noise**2 / max(float(away @ away), 1e-300))
    size = noise * (share + 1 / math.sqrt(d))
    low = float(np.clip(size / 2, 0.02, 1.0))
    return soften_each(level + share * away - mean**2, low, size, 1e3)


def filled(region: Region, diagonal: bool = False) -> tuple[Array, Array]:
    """Mean and covariance, in unit coordinates, of records spread evenly over a region."""
    d = region.d
    variances = np.full(d, 1.0 / (d + 2)) if region.ball else region.limit**2 / 3
    return np.zeros(d), variances if diagonal else np.diag(variances)


def pack(
    centre: Array, covariance: Array, k: int, rng: np.random.Generator, width: float = 0.8
) -> Array:
    """K points far apart on the ellipsoid of a Gaussian: the best of many random sets.

    ``covariance`` is a matrix, or its diagonal.
    """
    d = len(centre)
    best, spread = np.zeros((k, d)), -1.0
    for _ in range(300 if d <= 10 else 20):
        points = rng.standard_normal((k, d))
        points *= math.sqrt(d) / np.maximum(np.linalg.norm(points, axis=1, keepdims=True), 1e-12)
        if k > 2 * d:  # too many for a sphere: fill the ball
            points *= rng.random((k, 1)) ** (1.0 / d) * 1.5
        gap = float(pdist(points).min(initial=math.inf))
        if gap > spread:
            best, spread = points, gap
    if covariance.ndim == 1:
        return np.asarray(centre + width * best * np.sqrt(covariance))
    return np.asarray(centre + width * best @ np.linalg.cholesky(covariance).T)
