"""Private k-means: count, bounds, frame, a noisy grid to start from, Lloyd on noisy sums."""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...blocks.packing import filled, pack
from ...blocks.sensitivity import MomentWeights
from ...blocks.shrinkage import clip_radius, consistency, james_stein
from ...budget import Allowance, Part
from ...core import Release, Stage
from ...ground import Ground, Preamble
from ...tree import Array
from .frame import FRAME_SHARES, ClusterFrame, frame_sizes
from .grid_start import MOST_CELLS, GridStart
from .query import BoundedClusterQuery, BoundedClusterSums, cluster_releases

# Recipes by name, and the kind of their noise.
KMEANS_RECIPES = {
    "whitened": "gaussian",
    "joint": "gaussian",
    "gg": "gaussian",
    "ll": "laplace",
    "dplloyd": "laplace",
}
# Of what the count, the bounds and the frame leave.
_GRID_SHARE = 0.4
_ITERATIONS = 8
# Recipes that start from the grid; the papers' own start from a packing.
_GRIDDED = ("whitened", "joint")
# So much noise on a centre, in spreads of its cluster, is worth all the iterations together.
_LEVEL = 0.25
_MOST_ROUNDS = 12
# Least spread of clusters, in unit coordinates.
_NARROWEST = 1e-4


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
    clusters: int
    recipe: str
    n_iter: int | None
    rng: np.random.Generator
    start: Array | None = None
    max_iter: int = _MOST_ROUNDS

    def parts(self) -> list[Part]:
        """How the budget is shared out."""
        d = self.preamble.d
        parts, left = self.preamble.parts(), 1.0 - self.preamble.share()
        # A pure fit starts without looking.
        given_start = self.start is not None or self.preamble.pure
        if not given_start:
            parts += [
                Part(f"frame {i}", left * share, [("gaussian", size)])
                for i, (share, size) in enumerate(
                    zip(FRAME_SHARES, frame_sizes(d), strict=True), start=1
                )
            ]
            left *= 1 - sum(FRAME_SHARES)
        each = cluster_releases(self.recipe, self.clusters, d)
        if not given_start and self.recipe in _GRIDDED:
            parts.append(Part("grid", left * _GRID_SHARE, [("gaussian", MOST_CELLS)]))
            left *= 1 - _GRID_SHARE
        return [*parts, Part("em", left, each * self._planned)]

    @property
    def _planned(self) -> int:
        """Iterations where their number may not depend on the count."""
        return self.n_iter or min(_ITERATIONS, self.max_iter)

    def stages(self, allowance: Allowance) -> Generator[Stage, Release[Any], PrivateKMeansFit]:
        """Generate the stages."""
        ground = yield from self.preamble.stages(allowance)
        if self.preamble.count is None:
            # A count below its own noise says nothing, and everything is divided by it.
            least = ground.allowance.multiplier("count") * self.preamble.cap_weight
            ground = replace(ground, count=max(ground.count, least))
        region, d, k = ground.region, self.preamble.d, self.clusters
        rounds, allowance = self._rounds(ground)
        # K clusters share the volume: each is about K^(-1/d) as wide as the whole.
        spread = region.reach / math.sqrt(d) * k ** (-1.0 / d)
        if self.start is not None:
            centres = region.inside((self.start - region.centre) / region.scale)
        else:
            # Given bounds are taken to be filled; estimated ones are some eight scales away.
            guess = 1 / 3 if self.preamble.region is not None else 1 / 30
            frame = ClusterFrame(
                region, ground.count, ground.rows, allowance, guess, self.preamble.cap_weight
            )
            # Gaussian noise has no place in a pure fit, whose bounds are given: they are filled.
            pure = self.preamble.pure
            middle, covariance = filled(region) if pure else (yield from frame.stages())
            if self.recipe in _GRIDDED:
                start = GridStart(
                    region,
                    ground.count,
                    region.inside(middle[None])[0],
                    covariance,
                    k,
                    allowance.noise("grid", ground.rows),
                    self.rng,
                    self.preamble.cap_weight,
                )
                centres, square = yield from start.stages()
                spread = max(math.sqrt(square / d), _NARROWEST)
            else:
                centres = region.inside(pack(middle, covariance, k, self.rng))
                variances = covariance if covariance.ndim == 1 else np.diag(covariance)
                spread = math.sqrt(float(variances.mean())) * k ** (-1.0 / d)
        each = len(cluster_releases(self.recipe, k, d))
        late: list[Array] = [centres]
        for t in range(rounds):
            noise = allowance.noise("em", ground.rows, each * rounds)
            query = self._query(centres, spread, ground)
            release = yield Stage(query, noise, f"k-means {t + 1}")
            centres, spread = self._update(centres, spread, release, ground)
            late = [*late, centres] if t > rounds // 2 else [centres]
        centres = np.mean(late, axis=0)
        return PrivateKMeansFit(region.to_data(centres), rounds, ground)

    def _rounds(self, ground: Ground) -> tuple[int, Allowance]:
        """How many iterations, and the allowance; where they would only move noise, none.

        From the noise level alone, so within what was reserved.
        """
        allowance = ground.allowance
        if self.n_iter is not None or not allowance.adaptive or self.recipe == "dplloyd":
            return self._planned, allowance
        # Noise of one release with all of the budget, against the records of a cluster.
        level = allowance.multiplier("em", 1) * self.clusters / ground.count
        if self.recipe not in _GRIDDED or self.start is not None:
            return min(int(np.clip(0.02 / level**2, 2, 12)), self.max_iter), allowance
        # The same as noise of a centre's coordinate, in spreads of its cluster.
        w = _weights(self.preamble.d, clip_radius(self.preamble.d))
        level *= w.l2(allowance.neighbours) / w.w1
        rounds = int(min((_LEVEL / level) ** 2, _MOST_ROUNDS, self.max_iter))
        if rounds:
            return rounds, allowance
        # What they would cost goes to the frame and the grid, not yet spent, in proportion.
        share = {part.name: part.share for part in allowance.parts}
        start = [name for name in share if name == "grid" or name.startswith("frame")]
        more = 1 + share["em"] / sum(share[name] for name in start)
        parts = [
            replace(part, share=part.share * more) if part.name in start else part
            for part in allowance.parts
            if part.name != "em"
        ]
        return 0, replace(allowance, parts=tuple(parts))

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
