"""Mean and covariance of all records, for factor analysis: as a matrix, or as its square root.

With n rows of d columns, n < d, the d x d covariance A has no more than n directions. They are
found from sums as well (Halko, Martinsson and Tropp 2011): A times a few more random vectors than
rows spans all of them, but for a chance of zero; with Q an orthonormal basis of that, A = Q (Q'AQ)
Q'. Two passes, O(n^2 d) time and O(n d) memory, as by the n x n Gram matrix of the rows. That one
would need the rows themselves in one place, and pairs of rows of different parties. Columns are
divided by their deviations meanwhile, so that columns of small numbers keep their digits.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...blocks.krylov import ProductsQuery
from ...blocks.moments import Frame, FramePlan
from ...core import Release, Stage
from ...noise.exact import Exact
from ...tree import Array
from .model import Covariance, LowRank, Whole

# Vectors more than rows, so that a random square matrix, which may be nearly singular, is none.
_SPARE = 8
# So many products are asked for in a pass: what is asked and answered stays small.
_AT_ONCE = 256


@dataclass(frozen=True)
class CovariancePlan:
    """The frame, and the covariance in the form that is smaller.

    Parameters
    ----------
    names : sequence of str
        One per column.
    """

    names: Sequence[str]

    def stages(self) -> Generator[Stage, Release[Any], tuple[Frame, Covariance]]:
        """Generate the stages."""
        whole_from = len(self.names) - _SPARE
        frame = yield from FramePlan(self.names, whole_from=whole_from).stages()
        if frame.rows >= whole_from:
            return frame, Whole(frame.covariance)
        return frame, (yield from self._low_rank(frame))

    def _low_rank(self, frame: Frame) -> Generator[Stage, Release[Any], LowRank]:
        unit = np.sqrt(frame.variances)
        unit = np.where(unit > 0, unit, 1.0)
        shape = (int(frame.rows) + _SPARE, len(unit))
        vectors = np.random.default_rng(0).standard_normal(shape)
        reached = yield from self._products(frame, vectors, unit)
        basis = np.ascontiguousarray(np.linalg.qr(reached.T)[0].T)
        image = yield from self._products(frame, basis, unit)
        projected = image @ basis.T
        values, turn = np.linalg.eigh((projected + projected.T) / 2)
        factor = (turn * np.sqrt(np.maximum(values, 0.0))).T @ basis
        return LowRank(factor * unit)

    @staticmethod
    def _products(
        frame: Frame, vectors: Array, unit: Array
    ) -> Generator[Stage, Release[Any], Array]:
        """The covariance of columns divided by ``unit``, times vectors (k, d)."""
        mean, parts = frame.mean[None], []
        for at in range(0, len(vectors), _AT_ONCE):
            query = ProductsQuery(mean, mean, (vectors[at : at + _AT_ONCE] / unit)[None])
            release = yield Stage(query, Exact(), "covariance")
            parts.append(release.statistics.products[0] / (frame.count * unit))
        return np.concatenate(parts)
