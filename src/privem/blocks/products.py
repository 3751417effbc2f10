"""Second moments of clusters times given vectors, without forming the d x d matrices.

With A = sum w (x - m)(x - m)' over the records of a cluster, A v = sum w (x - m) <x - m, v> is a
sum over records like any other: d numbers in O(d) time per record, where A would need d^2.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..core import Block, Scratch
from ..kernels.nearest import nearest, nearest_block_rows
from ..tree import Array
from . import conditions
from .region import farthest

__all__ = ["Products", "ProductsQuery"]


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
