"""Exact fits of the symmetric models: a spectral start, then EM."""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...blocks.moments import FramePlan
from ...blocks.region import Region
from ...core import Release, Stage
from ...em import ExactEM, Fit
from ...linalg import floor_eigenvalues, invert_cholesky, smat
from ...noise.exact import Exact
from ...tree import Array
from .model import Symmetric, SymmetricModel
from .query import DirectionsQuery

__all__ = ["SymmetricPlan"]

_LEAST = 1e-9  # Smallest noise variance an estimate may have, of the records' mean square.
_NO_CAP = 2.0**100  # On weights; a number, as federations carry no infinity.


@dataclass(frozen=True)
class SymmetricPlan:
    """Frame, direction, EM until the log-likelihood gains less than ``tol``.

    Parameters
    ----------
    names : sequence of str
        One per column, for error messages.
    regression : bool
        Whether the last column is a target.
    variance : float or None
        Known noise variance.
    init : array of shape (d,) or None
        Start; ``None``: along the top eigenvector of the second moment.
    max_iter : int
    tol : float
    """

    names: Sequence[str]
    regression: bool
    variance: float | None
    init: Array | None
    max_iter: int
    tol: float

    def stages(self) -> Generator[Stage, Release[Any], Fit[Symmetric]]:
        """Generate the stages."""
        frame = yield from FramePlan(self.names).stages()
        second = frame.covariance + np.outer(frame.mean, frame.mean)
        total = float(second[-1, -1] if self.regression else np.trace(second))
        unit = total / (1 if self.regression else len(second))
        floor = _LEAST * unit if unit > 0 else 1.0
        start = yield from self._start(second, total, floor)
        model = SymmetricModel(self.regression, self.variance, floor)
        em = ExactEM(model, start, self.max_iter, lambda change, old, new: abs(change) < self.tol)
        fit = yield from em.stages()
        if self.init is not None:
            return fit
        # b and -b are one model. Where rows are fewer than columns, rounding picks the start.
        return replace(fit, state=replace(fit.state, beta=_signed(fit.state.beta)))

    def _start(
        self, second: Array, total: float, floor: float
    ) -> Generator[Stage, Release[Any], Symmetric]:
        if not self.regression:
            values, vectors = np.linalg.eigh(second)
            d = len(second)
            rest = (total - values[-1]) / (d - 1) if d > 1 else total / 2
            variance = self.variance if self.variance is not None else max(float(rest), floor)
            beta = _signed(vectors[:, -1])
            beta = beta * math.sqrt(max(float(values[-1]) - variance, 0.05 * total / d))
        else:
            variance = self.variance if self.variance is not None else max(total / 2, floor)
            beta = np.zeros(len(second) - 1)
            if self.init is None:
                beta = yield from self._slope(second[:-1, :-1], total, variance)
        return Symmetric(beta if self.init is None else self.init, variance)

    def _slope(
        self, second: Array, total: float, variance: float
    ) -> Generator[Stage, Release[Any], Array]:
        """Along the direction in which large targets lie, in whitened coordinates."""
        d, size = len(second), float(np.trace(second))
        floors = np.maximum(1e-9 * np.diag(second), 1e-9 * size / d + 1e-300)
        whitener = invert_cholesky(floor_eigenvalues(second, floors))
        # A region far beyond all records: nothing is pulled in.
        region = Region.around_origin(1e9 * math.sqrt(size) + 1e-150, d)
        target = Region.around_origin(1e9 * math.sqrt(total) + 1e-150, 1)
        query = DirectionsQuery(
            region, math.sqrt(d) / 2, whitener, target, max(total, 1e-300), cap_weight=_NO_CAP
        )
        release = yield Stage(query, Exact(), "direction")
        _, vectors = np.linalg.eigh(smat(release.statistics.second, d))
        length = math.sqrt(max(total - variance, 0.05 * total))
        return _signed(np.asarray(whitener.T @ vectors[:, -1] * length))


def _signed(vector: Array) -> Array:
    """The one of v and -v whose largest entry is positive: rounding must not decide."""
    return np.asarray(vector * (1.0 if vector[np.abs(vector).argmax()] >= 0 else -1.0))
