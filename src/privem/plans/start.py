"""Where to start: from weighted sums alone.

A start that looks at single rows (k-means++, random rows) changes when records are reordered,
repeated or weighted, and could never be made private. This one needs sums only: begin with one
cluster, split the widest in two along its longest axis, let Lloyd's algorithm settle, until there
are enough of them (Linde, Buzo and Gray 1980, but one at a time: splitting all of them at once
ended in a worse optimum than k-means++ for every fourth mixture tried, one at a time for none).
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core import Release, Stage
from ..linalg import smat
from ..models.kmeans import Clusters, ClusterSums, KMeansModel, NearestQuery
from ..models.moments import Frame
from ..noise.exact import Exact
from ..tree import Array

__all__ = ["SplitStart"]

# Splitting a Gaussian at its middle puts the halves' means at sqrt(2/pi) standard deviations.
_STEP = float(np.sqrt(2 / np.pi))


@dataclass(frozen=True)
class SplitStart:
    """K centres by repeated splitting.

    Parameters
    ----------
    frame : Frame
    n_clusters : int
    rng : numpy.random.Generator, optional
        Splits along random directions instead, to give ``n_init`` different starts.
    settle : int
        Lloyd iterations after each round of splits.
    """

    frame: Frame
    n_clusters: int
    rng: np.random.Generator | None = None
    settle: int = 2

    def stages(self) -> Generator[Stage, Release[Any], Clusters]:
        """Generate the stages."""
        model = KMeansModel(self.frame)
        clusters = Clusters(self.frame.mean[None])
        covariances = self.frame.covariance[None]
        counts = np.array([self.frame.count])
        while len(clusters.centres) < self.n_clusters:
            clusters = self._split(clusters, covariances, counts)
            more = len(clusters.centres) < self.n_clusters
            for left in reversed(range(self.settle)):
                # The last pass before another split also asks which way each cluster is long.
                query = NearestQuery(clusters, self.frame.origin, more and not left)
                release = yield Stage(query, Exact(), "start")
                clusters = model.m_step(clusters, release)
            if more:
                sums: ClusterSums = release.statistics
                counts, covariances = sums.count, _covariances(sums)
        return clusters

    def _split(self, clusters: Clusters, covariances: Array, counts: Array) -> Clusters:
        axes, gains = [], []
        for covariance, count in zip(covariances, counts, strict=True):
            axis = self._axis(covariance)
            axes.append(axis)
            gains.append(max(count, 0.0) * float(axis @ axis))
        have = len(counts)
        # Ties (all of them empty, say) must not depend on rounding: lowest index first.
        order = np.argsort(-np.asarray(gains), kind="stable")
        # One at a time while there are few; then in parties of an eighth, to save passes.
        chosen = order[: min(max(1, have // 8), self.n_clusters - have)]
        centres = clusters.centres.copy()
        born = []
        for k in sorted(chosen):
            born.append(centres[k] + _STEP * axes[k])
            centres[k] = centres[k] - _STEP * axes[k]
        return Clusters(np.vstack([centres, born]))

    def _axis(self, covariance: Array) -> Array:
        """One standard deviation along the longest axis, or along a random direction."""
        values, vectors = np.linalg.eigh(covariance)
        # Below this a spread is rounding error: copies of one record are not to be pulled apart.
        values = np.where(values > 1e-12 * self.frame.scale, values, 0.0)
        if self.rng is not None:
            draw = self.rng.standard_normal(len(values))
            return np.asarray(vectors @ (np.sqrt(values) * draw) / np.sqrt(len(values)))
        axis = vectors[:, -1] * np.sqrt(values[-1])
        # An eigenvector's sign is arbitrary: its largest entry is made positive.
        return np.asarray(axis * np.sign(axis[np.argmax(np.abs(axis))] or 1.0))


def _covariances(sums: ClusterSums) -> Array:
    assert sums.second is not None
    n = np.maximum(sums.count, np.finfo(float).tiny)[:, None]
    mean = sums.total / n
    d = mean.shape[1]
    spread = smat(sums.second, d) / n[:, :, None] - np.einsum("ki,kj->kij", mean, mean)
    return np.where((sums.count > 0)[:, None, None], spread, 0.0)
