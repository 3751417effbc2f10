"""Exact regression with missing covariates: plain moments, then EM."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...core import Release, Stage
from ...em import ExactEM, Fit
from ...linalg import smat
from ...noise.exact import Exact
from ...tree import Array
from ..symmetric.model import Symmetric, _solve
from .model import MissingCovariateModel, MissingQuery, MissingSums, corrected

__all__ = ["MissingPlan", "from_moments"]

_LEAST = 1e-9  # Smallest noise variance an estimate may have, of the targets' mean square.


def from_moments(cross: Array, second: Array, square: float, floor: float) -> Symmetric:
    """Least squares from E x y, E x x' and E y^2, however little they fit together."""
    beta = _solve(second, cross)
    left = square - 2 * float(beta @ cross) + float(beta @ second @ beta)
    return Symmetric(beta, max(left, floor))


@dataclass(frozen=True)
class MissingPlan:
    """Moments at b = 0; with ``method="moments"`` that is all, otherwise EM from there.

    Parameters
    ----------
    d : int
    method : {"em", "moments"}
    variance : float or None
        Known noise variance.
    missing : array of shape (d,) or None
        Known probabilities, for ``"moments"``; ``None``: as often as seen.
    init : array of shape (d,) or None
    max_iter : int
    tol : float
    """

    d: int
    method: str
    variance: float | None
    missing: Array | None
    init: Array | None
    max_iter: int
    tol: float

    def stages(self) -> Generator[Stage, Release[Any], Fit[Symmetric]]:
        """Generate the stages."""
        nothing = Symmetric(np.zeros(self.d), 1.0)
        sums: MissingSums = (yield Stage(MissingQuery(nothing), Exact(), "moments")).statistics
        count = float(sums.count)
        if not count > 0:
            raise ValueError("the sample weights sum to zero: no record counts")
        square = float(sums.square) / count
        observed = 1 - sums.missing / count if self.missing is None else 1 - self.missing
        plain = smat(sums.second, self.d) / count - np.diag(sums.missing / count)
        if not (np.isfinite(plain).all() and np.isfinite(square)):
            raise ValueError("values are so large that their squares overflow; rescale them")
        cross, second = corrected(sums.cross / count, plain, observed)
        floor = max(_LEAST * square, 1e-300)
        if self.method == "moments":
            state = from_moments(cross, second, square, floor)
            if self.variance is not None:
                state = Symmetric(state.beta, self.variance)
            return Fit(state, float("nan"), 1, True)
        # Covariates are taken to be standard: E x y is the coefficient.
        beta = cross if self.init is None else self.init
        size = float(beta @ beta)
        if self.init is None and size > 0.9 * square:
            beta = beta * np.sqrt(0.9 * square / size)
        variance = self.variance if self.variance is not None else max(0.5 * square, floor)
        em = ExactEM(
            MissingCovariateModel(self.variance, floor),
            Symmetric(beta, variance),
            self.max_iter,
            lambda change, old, new: abs(change) < self.tol,
        )
        return (yield from em.stages())
