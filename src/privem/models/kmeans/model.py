"""k-means: the mixture's straight line with hard assignments."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ...blocks import conditions
from ...blocks.moments import Frame
from ...blocks.region import farthest
from ...blocks.sensitivity import MomentWeights
from ...blocks.shrinkage import clip_radius, consistency, james_stein
from ...core import Block, Release, Scratch
from ...ground import Ground
from ...kernels.compiled import NearestPass, available
from ...kernels.nearest import nearest, nearest_block_rows, nearest_sums, sums_block_rows
from ...linalg import Array, svec
from .query import BoundedClusterQuery, BoundedClusterSums, whitened_weights


@dataclass(frozen=True)
class Clusters:
    """Cluster centres, (K, d)."""

    centres: Array
    travels = ("centres",)


@dataclass(frozen=True)
class ClusterSums:
    """Weight and sum of each cluster about the query's origin, and the inertia.

    ``second`` (K, packed) is there only if asked for: the second moments that splitting needs.
    """

    count: Array
    total: Array
    inertia: Array | None = None
    second: Array | None = None


@dataclass(frozen=True)
class NearestQuery:
    """Counts and sums of the records nearest to each centre."""

    clusters: Clusters
    origin: Array
    second_moments: bool = False
    travels = ("clusters", "origin", "second_moments")

    @property
    def block_rows(self) -> int:
        """Rows per call."""
        rows = nearest_block_rows if self.second_moments else sums_block_rows
        return rows(len(self.origin), len(self.clusters.centres))

    @cached_property
    def _centres(self) -> Array:
        return np.asarray(self.clusters.centres - self.origin)

    @cached_property
    def _compiled(self) -> NearestPass | None:
        return NearestPass(self.origin, self._centres) if available() else None

    def __call__(self, block: Block, scratch: Scratch) -> ClusterSums:
        """Sum a block."""
        if not self.second_moments:
            found = self._compiled and self._compiled(block.X, block.weight, scratch)
            count, total, inertia = found or nearest_sums(
                block.X, self.origin, self._centres, block.weight, scratch
            )
            return ClusterSums(count, total, np.asarray(inertia))
        centres = self._centres
        x, label, distance = nearest(block.X, self.origin, centres, scratch)
        weight = np.ones(len(label)) if block.weight is None else block.weight
        member = scratch.take("member", (len(centres), len(label)))
        np.equal(np.arange(len(centres))[:, None], label, out=member, casting="unsafe")
        if block.weight is not None:
            member *= weight
        second = _second_moments(x, label, block.weight, len(centres))
        square = np.asarray(np.dot(distance, weight))
        return ClusterSums(member.sum(axis=1), np.dot(member, x.T), square, second)

    def check(self, d: int, private: bool) -> None:
        """Centres among the rows."""
        conditions.shaped((d,), self.origin)
        conditions.table(self.clusters.centres, d)
        k = len(self.clusters.centres)
        rows = nearest_block_rows(d, k)
        conditions.held(k, rows, k * (1 + d + d * d * self.second_moments) + 1)

    def largest(self, low: Array, high: Array) -> Array:
        """Counts, distances from the origin, the squared distance from a centre, products."""
        a, k = farthest(low, high, self.origin), len(self.clusters.centres)
        away = farthest(low, high, self.clusters.centres)
        parts = [np.ones(k), np.tile(a, k), np.einsum("ij,ij->i", away, away).max(keepdims=True)]
        if self.second_moments:
            parts.append(np.tile(svec(np.outer(a, a)), k))
        return np.concatenate(parts)


def _second_moments(
    x: Array, label: NDArray[np.int64], weight: Array | None, n_clusters: int
) -> Array:
    """Packed ``sum x x'`` of each cluster; records are sorted, so each is multiplied once."""
    order = np.argsort(label, kind="stable")
    edges = np.searchsorted(label[order], np.arange(n_clusters + 1))
    x = x[:, order]
    weighted = x if weight is None else x * weight[order]
    pairs = itertools.pairwise(edges)
    return np.stack([svec(np.dot(weighted[:, low:high], x[:, low:high].T)) for low, high in pairs])


@dataclass(frozen=True)
class KMeansModel:
    """Lloyd's algorithm. A cluster that loses all its records keeps its centre."""

    frame: Frame

    def query(self, state: Clusters, round: int = 0) -> NearestQuery:
        """Assign under the current centres."""
        return NearestQuery(state, self.frame.origin)

    def m_step(self, state: Clusters, release: Release[ClusterSums]) -> Clusters:
        """Centres move to the mean of their records.

        Total: a cluster with no positive count, or whose mean is not finite, stays where it is.
        """
        sums, origin = release.statistics, release.query.origin
        count = np.maximum(sums.count, np.finfo(float).tiny)[:, None]
        with np.errstate(over="ignore", invalid="ignore"):
            centres = origin + sums.total / count
        moved = (sums.count > 0)[:, None] & np.isfinite(centres).all(axis=1, keepdims=True)
        return Clusters(np.where(moved, centres, state.centres))

    def objective(self, state: Clusters, release: Release[ClusterSums]) -> float:
        """Minus the mean squared distance to the nearest centre."""
        return -float(release.statistics.inertia or 0.0) / self.frame.count


@dataclass(frozen=True)
class SpreadClusters:
    """Centres (K, d) in unit coordinates, and the deviation of records about them.

    ``evidence`` (K,): the noisy counts of the last iteration, in deviations of their noise.
    """

    centres: Array
    spread: float
    evidence: Array | None = None


@dataclass(frozen=True)
class PrivateKMeansModel:
    """Lloyd's algorithm on noisy sums, in unit coordinates.

    Parameters
    ----------
    ground : Ground
    recipe : str
        A key of :data:`privem.models.kmeans.query.KMEANS_RECIPES`.
    """

    ground: Ground
    recipe: str

    def query(self, state: SpreadClusters, round: int = 0) -> BoundedClusterQuery:
        """Bounded sums of the records nearest to each centre."""
        region = self.ground.region
        if self.recipe == "whitened":
            weights = whitened_weights(region.d, clip_radius(region.d))
        else:
            weights = MomentWeights(1.0, 1.0 / region.reach, 0.0, region.reach)
        return BoundedClusterQuery(
            state.centres, region, weights, state.spread, self.recipe, self.ground.cap_weight
        )

    def m_step(self, state: SpreadClusters, release: Release[BoundedClusterSums]) -> SpreadClusters:
        """Centres move by what noise does not explain. Total."""
        sums, noise, w = release.statistics, release.deviation, release.query.weights
        assert noise is not None
        centres, spread, before = release.query.centres, release.query.spread, state.centres
        k, d = centres.shape
        count = sums.count / w.w0
        if self.ground.fixed_count:
            count = count + (self.ground.count - count.sum()) / k
        evidence = count * w.w0 / noise.count
        # A count below its own noise says nothing: pretend that much, which moves the centre less.
        count = np.maximum(count, np.maximum(noise.count / w.w0, 0.02 * self.ground.count / k))
        moves = sums.total / (w.w1 * count[:, None])
        deviation = noise.total[:, 0] / (w.w1 * count)
        if self.recipe == "whitened":
            moves = james_stein(moves + (centres - before) / spread, deviation**2) * spread
            assert sums.square is not None
            factor = consistency(d, w.radius)
            square = float(sums.square[0]) / (w.w2 * self.ground.count * d * factor)
            spread = spread * math.sqrt(float(np.clip(square, 0.25, 4.0)))
        else:
            moves = james_stein(moves - before, deviation**2)
        return SpreadClusters(self.ground.region.inside(before + moves), spread, evidence)
