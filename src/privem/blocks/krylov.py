"""What a few passes tell of covariance matrices that are too large to form.

With A = sum w (x - m)(x - m)' over the records of a cluster, A v = sum w (x - m) <x - m, v> is a
sum over records like any other: d numbers in O(d) time per record, where A would need d^2.

Power iteration multiplies a vector by the matrix A again and again. The vectors b, A b, A^2 b, ...
that it throws away span a space in which A looks nearly as it is: its largest eigenvalues there are
close to A's, closer than the last vector alone would give (Lanczos 1950), and |b| Q f(Q'AQ) e_1,
with an orthonormal basis Q that begins with b, is close to f(A) b. Each step is one pass over the
records, for all clusters at once.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core import Block, Release, Scratch, Stage
from ..kernels.nearest import nearest, nearest_block_rows
from ..linalg import Array
from ..noise.exact import Exact
from . import conditions
from .region import farthest


@dataclass(frozen=True)
class Products:
    """Second moment of each cluster times each of its vectors, (K, q, d)."""

    products: Array


@dataclass(frozen=True)
class ProductsQuery:
    """Records go to the nearest of ``centres`` (K, d) and are measured from its ``means`` (K, d).

    ``vectors`` (K, q, d): what each cluster's second moment is multiplied by.
    """

    centres: Array
    means: Array
    vectors: Array
    travels = ("centres", "means", "vectors")

    @property
    def block_rows(self) -> int:
        """Rows per call."""
        clusters, q, d = self.vectors.shape
        return nearest_block_rows(d, clusters + q)

    def __call__(self, block: Block, scratch: Scratch) -> Products:
        """Sum a block."""
        middle = self.centres.mean(axis=0)
        x, label, _ = nearest(block.X, middle, self.centres - middle, scratch)
        found = np.zeros(self.vectors.shape)
        order = np.argsort(label, kind="stable")
        edges = np.searchsorted(label[order], np.arange(len(found) + 1))
        rows = x.T if len(found) == 1 else x.T[order]
        for k in np.flatnonzero(np.diff(edges)):
            part = rows[edges[k] : edges[k + 1]]
            part -= self.means[k] - middle
            along = self.vectors[k] @ part.T
            if block.weight is not None:
                along *= block.weight[order[edges[k] : edges[k + 1]]]
            np.matmul(along, part, out=found[k])
        return Products(found)

    def check(self, d: int, private: bool) -> None:
        """A mean and some vectors for each centre."""
        conditions.table(self.centres, d)
        k = len(self.centres)
        conditions.shaped((k, d), self.means)
        conditions.need(self.vectors.ndim == 3)
        q = self.vectors.shape[1]
        conditions.need(q > 0)
        conditions.shaped((k, q, d), self.vectors)
        conditions.held(k + q, self.block_rows, k * q * d)

    def largest(self, low: Array, high: Array) -> Array:
        """A record adds (x - m)_j <x - m, v>, and |<x - m, v>| <= sum |x_i - m_i| |v_i|."""
        a = farthest(low, high, self.means)
        along = np.einsum("ki,kqi->kq", a, np.abs(self.vectors))
        return np.asarray(along[:, :, None] * a[:, None, :]).ravel()


# Measured on 40 data sets of 150 and 200 columns: the k-means that follow end within 0.1% of where
# eigenvectors lead on average (0.5% at most), with three steps within 0.4%, with one within 2%.
_STEPS = 4


@dataclass(frozen=True)
class Projected:
    """Orthonormal vectors (K, steps, d) (or zeros), and the matrices as they look there.

    ``projected`` (K, steps, steps) is Q A Q' of each, its own eigenvalues never above those of A.
    """

    basis: Array
    projected: Array


def krylov(
    centres: Array, means: Array, counts: Array, begin: Array, steps: int = _STEPS
) -> Generator[Stage, Release[Any], Projected]:
    """The spaces that a few products with covariance matrices span.

    Total: vectors that are zero or lie in the space already give zeros, never a division by them.

    Parameters
    ----------
    centres : array of shape (K, d)
        Records belong to the nearest.
    means : array of shape (K, d)
        What their covariances are taken about.
    counts : array of shape (K,)
        How many records each has.
    begin : array of shape (K, d)
        First vectors.
    steps : int
        So many passes.
    """
    clusters, d = means.shape
    basis = np.zeros((clusters, steps, d))
    projected = np.zeros((clusters, steps, steps))
    count = np.maximum(counts, np.finfo(float).tiny)[:, None]
    new, size = begin, np.linalg.norm(begin, axis=1, keepdims=True)
    for step in range(steps):
        # What rounding alone leaves of a vector has no direction.
        left = np.linalg.norm(new, axis=1, keepdims=True)
        kept = left > 1e-10 * size
        basis[:, step] = np.where(kept, new, 0.0) / np.where(kept, left, 1.0)
        query = ProductsQuery(centres, means, basis[:, step, None].copy())
        release = yield Stage(query, Exact(), "start")
        sums: Products = release.statistics
        with np.errstate(over="ignore", invalid="ignore"):
            new = np.where(counts[:, None] > 0, sums.products[:, 0] / count, 0.0)
            size = np.linalg.norm(new, axis=1, keepdims=True)
        finite = np.isfinite(size)  # whatever overflows says nothing about directions
        new, size = np.where(finite, new, 0.0), np.where(finite, size, 0.0)
        along = np.einsum("kji,ki->kj", basis, new)
        projected[:, step] = projected[:, :, step] = along
        for _ in range(2):  # once leaves what rounding did; twice is enough
            new = new - np.einsum("kj,kji->ki", along, basis)
            along = np.einsum("kji,ki->kj", basis, new)
    return Projected(basis, projected)
