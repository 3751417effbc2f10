"""Exact k-means: a start, Lloyd's iterations, the best of several runs.

A start that looks at single rows (k-means++, random rows) changes when records are reordered,
repeated or weighted, and could never be made private. :class:`SplitStart` needs sums only: begin
with one cluster, split the widest in two along its longest axis, let Lloyd's algorithm settle,
until there are enough of them (Linde, Buzo and Gray 1980, but one at a time: splitting all of them
at once ended in a worse optimum than k-means++ for every fourth mixture tried, one at a time for
none).

The longest axis of a cluster is the top eigenvector of its covariance matrix. With many columns
that matrix is never formed: a few more passes find the axis (:mod:`privem.blocks.krylov`).
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...blocks.krylov import krylov
from ...blocks.moments import MANY_COLUMNS, Frame, FramePlan
from ...core import Release, Stage
from ...em import ExactEM, Fit
from ...linalg import Array, positive, smat
from ...noise.exact import Exact
from .model import Clusters, ClusterSums, KMeansModel, NearestQuery

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
        counts = np.array([self.frame.count])
        wide = len(self.frame.origin) > MANY_COLUMNS
        if self.n_clusters > 1 and wide:
            axes = yield from self._far_axes(clusters, clusters, counts)
        elif self.n_clusters > 1:
            axes = self._axes(self.frame.covariance[None])
        while len(clusters.centres) < self.n_clusters:
            clusters = self._split(clusters, axes, counts)
            more = len(clusters.centres) < self.n_clusters
            for left in reversed(range(self.settle)):
                # The last pass before another split also asks which way each cluster is long.
                ask = more and not left and not wide
                query = NearestQuery(clusters, self.frame.origin, ask)
                release = yield Stage(query, Exact(), "start")
                before, clusters = clusters, model.m_step(clusters, release)
            if more:
                sums: ClusterSums = release.statistics
                counts = sums.count
                if wide:
                    axes = yield from self._far_axes(before, clusters, counts)
                else:
                    axes = self._axes(_covariances(sums))
        return clusters

    def _split(self, clusters: Clusters, axes: Array, counts: Array) -> Clusters:
        have = len(counts)
        gains = np.maximum(counts, 0.0) * np.einsum("ki,ki->k", axes, axes)
        # Ties (all of them empty, say) must not depend on rounding: lowest index first.
        order = np.argsort(-gains, kind="stable")
        # One at a time while there are few; then in parties of an eighth, to save passes.
        chosen = np.sort(order[: min(max(1, have // 8), self.n_clusters - have)])
        centres = clusters.centres.copy()
        centres[chosen] -= _STEP * axes[chosen]
        return Clusters(np.vstack([centres, clusters.centres[chosen] + _STEP * axes[chosen]]))

    def _axes(self, covariances: Array) -> Array:
        """One standard deviation along the longest axis, or along a random direction; (K, d)."""
        axes = []
        for covariance in covariances:
            values, vectors = np.linalg.eigh(covariance)
            values = self._above_rounding(values)
            if self.rng is not None:
                draw = self.rng.standard_normal(len(values))
                axes.append(vectors @ (np.sqrt(values) * draw) / np.sqrt(len(values)))
            else:
                axes.append(positive(vectors[:, -1] * np.sqrt(values[-1])))
        return np.stack(axes)

    def _far_axes(
        self, assigned: Clusters, means: Clusters, counts: Array
    ) -> Generator[Stage, Release[Any], Array]:
        """The same without covariance matrices: from their products with a few vectors."""
        shape = means.centres.shape
        if self.rng is not None:
            begin = self.rng.standard_normal(shape)
        else:  # a fixed draw, so that no data are orthogonal to it but by chance
            begin = np.random.default_rng(0).standard_normal(shape[1]) * np.ones(shape)
        known = yield from krylov(assigned.centres, means.centres, counts, begin)
        values, vectors = np.linalg.eigh(known.projected)
        values = self._above_rounding(values)
        if self.rng is None:
            axes = np.einsum("kj,kji->ki", vectors[:, :, -1], known.basis)
            return positive(axes * np.sqrt(values[:, -1:]))
        # sqrt(A) z = |z| sqrt(A) q_1, where q_1 = z / |z| is the first vector of the basis.
        along = np.einsum("kjm,km,km->kj", vectors, np.sqrt(values), vectors[:, 0])
        size = np.linalg.norm(begin, axis=1, keepdims=True) / np.sqrt(shape[1])
        return np.asarray(size * np.einsum("kj,kji->ki", along, known.basis))

    def _above_rounding(self, values: Array) -> Array:
        """Below this a spread is rounding error: copies of one record are not to be split."""
        return np.where(values > 1e-12 * self.frame.scale, values, 0.0)


def _covariances(sums: ClusterSums) -> Array:
    assert sums.second is not None
    n = np.maximum(sums.count, np.finfo(float).tiny)[:, None]
    mean = sums.total / n
    d = mean.shape[1]
    spread = smat(sums.second, d) / n[:, :, None] - np.einsum("ki,kj->kij", mean, mean)
    return np.where((sums.count > 0)[:, None, None], spread, 0.0)


def lloyd(frame: Frame, start: Clusters, max_iter: int, tol: float) -> ExactEM[Clusters]:
    """Lloyd's algorithm, stopped as scikit-learn does: centres move less than tol x variance."""

    def stop(change: float, old: Clusters, new: Clusters) -> bool:
        return _shift(old, new) <= tol * frame.scale

    return ExactEM(KMeansModel(frame), start, max_iter, stop, "k-means")


def _shift(old: Clusters, new: Clusters) -> float:
    return float(np.sum((new.centres - old.centres) ** 2))


@dataclass(frozen=True)
class KMeansPlan:
    """Frame, then for each start Lloyd's algorithm; keeps the smallest inertia.

    Parameters
    ----------
    names : sequence of str
        Column names.
    n_clusters, max_iter, tol : as the estimator's
    starts : sequence of array or None or Generator
        Given centres, ``None`` for the splitting start, a generator for a random one.
    """

    names: Sequence[str]
    n_clusters: int
    max_iter: int
    tol: float
    starts: Sequence[Array | np.random.Generator | None]

    def stages(self) -> Generator[Stage, Release[Any], tuple[Frame, Fit[Clusters]]]:
        """Generate the stages."""
        wide = len(self.names) > MANY_COLUMNS
        frame = yield from FramePlan(self.names, self.n_clusters, np.inf if wide else 0.0).stages()
        model, fits = KMeansModel(frame), []
        for start in self.starts:
            if isinstance(start, np.ndarray):
                clusters = Clusters(start)
            else:
                clusters = yield from SplitStart(frame, self.n_clusters, start).stages()
            fit = yield from lloyd(frame, clusters, self.max_iter, self.tol).stages()
            # The loop's objective is that of the centres before the last step: ask once more.
            why = self._why(fit, frame)
            release = yield Stage(model.query(fit.state), Exact(), "inertia", progress=why)
            objective = model.objective(fit.state, release)
            fits.append(replace(fit, objective=objective, release=release))
        return frame, max(fits, key=lambda fit: fit.objective)

    def _why(self, fit: Fit[Clusters], frame: Frame) -> str:
        """Why a run ended, for whoever watches."""
        if not fit.converged:
            return f"Not converged after {fit.n_iter} iterations."
        shift = _shift(fit.previous or fit.state, fit.state)
        within = f"center shift {shift:.6g} within tolerance {self.tol * frame.scale:.6g}"
        return f"Converged at iteration {fit.n_iter}: {within if shift else 'strict convergence'}."
