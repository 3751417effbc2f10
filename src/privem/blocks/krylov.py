"""What a few passes tell of covariance matrices that are too large to form.

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

from ..core import Release, Stage
from ..noise.exact import Exact
from ..tree import Array
from .products import Products, ProductsQuery

__all__ = ["Krylov", "Projected"]

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


@dataclass(frozen=True)
class Krylov:
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

    centres: Array
    means: Array
    counts: Array
    begin: Array
    steps: int = _STEPS

    def stages(self) -> Generator[Stage, Release[Any], Projected]:
        """Generate the stages."""
        clusters, d = self.means.shape
        basis = np.zeros((clusters, self.steps, d))
        projected = np.zeros((clusters, self.steps, self.steps))
        count = np.maximum(self.counts, np.finfo(float).tiny)[:, None]
        new, size = self.begin, np.linalg.norm(self.begin, axis=1, keepdims=True)
        for step in range(self.steps):
            # What rounding alone leaves of a vector has no direction.
            left = np.linalg.norm(new, axis=1, keepdims=True)
            kept = left > 1e-10 * size
            basis[:, step] = np.where(kept, new, 0.0) / np.where(kept, left, 1.0)
            query = ProductsQuery(self.centres, self.means, basis[:, step, None].copy())
            release = yield Stage(query, Exact(), "start")
            sums: Products = release.statistics
            with np.errstate(over="ignore", invalid="ignore"):
                new = np.where(self.counts[:, None] > 0, sums.products[:, 0] / count, 0.0)
                size = np.linalg.norm(new, axis=1, keepdims=True)
            finite = np.isfinite(size)  # whatever overflows says nothing about directions
            new, size = np.where(finite, new, 0.0), np.where(finite, size, 0.0)
            along = np.einsum("kji,ki->kj", basis, new)
            projected[:, step] = projected[:, :, step] = along
            for _ in range(2):  # once leaves what rounding did; twice is enough
                new = new - np.einsum("kj,kji->ki", along, basis)
                along = np.einsum("kji,ki->kj", basis, new)
        return Projected(basis, projected)
