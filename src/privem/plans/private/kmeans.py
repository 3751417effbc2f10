"""Private k-means: count, bounds, frame, then Lloyd's iterations on noisy sums."""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...core import Release, Stage
from ...models.private_kmeans import BoundedClusterQuery, BoundedClusterSums, cluster_releases
from ...models.sensitivity import MomentWeights
from ...models.shrink import clip_radius, consistency, james_stein
from ...tree import Array
from .allowance import Allowance, Part
from .gaussian import PrivateGaussian
from .packing import pack
from .preamble import Ground, Preamble

__all__ = ["KMEANS_RECIPES", "PrivateKMeansFit", "PrivateKMeansPlan"]

KMEANS_RECIPES = ("whitened", "joint", "gg", "ll", "dplloyd")
_FRAME_SHARES = (0.06, 0.14)
_ITERATIONS = 8


@dataclass(frozen=True)
class PrivateKMeansFit:
    """Centres in the data's coordinates, and how they came about. All public."""

    centres: Array
    iterations: int
    ground: Ground


@dataclass(frozen=True)
class PrivateKMeansPlan:
    """Count, bounds, frame, Lloyd."""

    preamble: Preamble
    allowance: Allowance
    clusters: int
    recipe: str
    n_iter: int | None
    adaptive: bool
    rng: np.random.Generator
    start: Array | None = None

    @staticmethod
    def parts(
        preamble: Preamble, clusters: int, recipe: str, n_iter: int | None, given_start: bool
    ) -> list[Part]:
        """How the budget is shared out."""
        d = preamble.d
        parts, left = preamble.parts(), 1.0 - preamble.share()
        if not given_start:
            size = 1 + d + d * (d + 1) // 2
            parts += [
                Part(f"frame {i}", left * share, [("gaussian", size)])
                for i, share in enumerate(_FRAME_SHARES, start=1)
            ]
            left *= 1 - sum(_FRAME_SHARES)
        each = cluster_releases(recipe, clusters, d)
        return [*parts, Part("em", left, each * (n_iter or _ITERATIONS))]

    def stages(self) -> Generator[Stage, Release[Any], PrivateKMeansFit]:
        """Generate the stages."""
        ground = yield from self.preamble.stages(self.allowance, self.adaptive)
        region, d, k = ground.region, self.preamble.d, self.clusters
        spread = region.reach / math.sqrt(d)
        if self.start is not None:
            centres = region.inside((self.start - region.centre) / region.scale)
        else:
            frame = PrivateGaussian(
                region, ground.count, ground.rows, ground.allowance, self.preamble.cap_weight
            )
            middle, covariance = yield from frame.stages()
            centres = region.inside(pack(middle, covariance, k, self.rng))
            spread = math.sqrt(float(np.trace(covariance)) / d)
        # K clusters share the volume: each is about K^(-1/d) as wide as the whole.
        spread *= k ** (-1.0 / d)
        rounds, each = self._rounds(ground), len(cluster_releases(self.recipe, k, d))
        noise = ground.allowance.noise("em", ground.rows, each * rounds)
        late: list[Array] = []
        for t in range(rounds):
            query = self._query(centres, spread, ground)
            release = yield Stage(query, noise, f"k-means {t + 1}")
            centres, spread = self._update(centres, spread, release, ground)
            if t >= rounds // 2:
                late.append(centres)
        centres = np.mean(late, axis=0)
        return PrivateKMeansFit(region.to_data(centres), rounds, ground)

    def _rounds(self, ground: Ground) -> int:
        if self.n_iter is not None or not self.adaptive or self.recipe == "dplloyd":
            return self.n_iter or _ITERATIONS
        # Noise of a count if all went into one release, against the records of a cluster.
        level = ground.allowance.multiplier("em", 1) * math.sqrt(2) * self.clusters / ground.count
        return int(np.clip((0.2 / level) ** 2, 2, 12))

    def _query(self, centres: Array, spread: float, ground: Ground) -> BoundedClusterQuery:
        d = self.preamble.d
        if self.recipe == "whitened":
            r = clip_radius(d)
            weights = _weights(d, r)
        else:
            r = ground.region.reach
            weights = MomentWeights(1.0, 1.0 / r, 0.0, r)
        return BoundedClusterQuery(
            centres, ground.region, weights, spread, self.recipe, self.preamble.cap_weight
        )

    def _update(
        self, centres: Array, spread: float, release: Release[BoundedClusterSums], ground: Ground
    ) -> tuple[Array, float]:
        sums, noise, w = release.statistics, release.deviation, release.query.weights
        assert noise is not None
        k, d = centres.shape
        count = sums.count / w.w0
        if self.preamble.count is not None:
            count = count + (ground.count - count.sum()) / k
        # A count below its own noise says nothing: pretend that much, which moves the centre less.
        count = np.maximum(count, np.maximum(noise.count / w.w0, 0.02 * ground.count / k))
        moves = sums.total / (w.w1 * count[:, None])
        deviation = noise.total[:, 0] / (w.w1 * count)
        if self.recipe == "whitened":
            moves = james_stein(moves, deviation**2) * spread
            assert sums.square is not None
            factor = consistency(d, w.radius)
            square = float(sums.square[0]) / (w.w2 * ground.count * d * factor)
            wider = spread * math.sqrt(float(np.clip(square, 0.25, 4.0)))
            return ground.region.inside(centres + moves), wider
        moves = james_stein(moves - centres, deviation**2)
        return ground.region.inside(centres + moves), spread


def _weights(d: int, r: float) -> MomentWeights:
    """Counts and sums share the noise; the one square needs little."""
    w0, w1 = math.sqrt(0.35), math.sqrt(0.60) / r
    return MomentWeights(w0, w1, max(math.sqrt(0.05) / r**2, w1**2 / (2 * w0) * (1 + 1e-9)), r)
