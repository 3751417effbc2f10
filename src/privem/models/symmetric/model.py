"""Two components that mirror each other: y = z b + noise, and y = z <b, x> + noise, z = +-1 alike.

Both have one coefficient vector b and one variance s. The E-step is 2w - 1 = tanh(a/s), with a =
<b, y> or y <b, x>; the statistics are the count, sum (2w - 1) y (or y x), the squares and, for the
regression, sum x x'. Log-densities use log cosh, which does not overflow written as |a| + log1p(exp
(-2 |a|)) - log 2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...blocks import conditions
from ...blocks.region import farthest
from ...core import Block, Release, Scratch
from ...linalg import Array, smat, svec

_LEAST = 1e-150
_MOST = 1e150
_LARGE = 1e100


@dataclass(frozen=True)
class Symmetric:
    """Coefficients (d,) and noise variance."""

    beta: Array
    variance: float
    travels = ("beta", "variance")

    def check(self, d: int) -> None:
        """A coefficient for each of d columns, and a variance."""
        conditions.need(d > 0)
        conditions.shaped((d,), self.beta)
        conditions.need(0.0 < self.variance < math.inf)


@dataclass(frozen=True)
class SymmetricSums:
    """Count, sum of signed records (d,), sum of squares; sum x x' (packed); log-likelihood."""

    count: Array
    total: Array
    square: Array
    second: Array | None
    likelihood: Array


def log_cosh(a: Array) -> Array:
    """The logarithm of cosh a, for any finite a."""
    size = np.abs(a)
    return np.asarray(size + np.log1p(np.exp(-2 * size)) - math.log(2.0))


@dataclass(frozen=True)
class SymmetricQuery:
    """Expected statistics under a state; ``target``: the last column is a regression's y."""

    state: Symmetric
    target: bool
    travels = ("state", "target")

    @property
    def block_rows(self) -> int:
        """Blocks of about a megabyte."""
        return int(np.clip(2**17 // (len(self.state.beta) + 1), 64, 8184)) // 8 * 8

    def __call__(self, block: Block, scratch: Scratch) -> SymmetricSums:
        """Sum a block."""
        b, s = self.state.beta, self.state.variance
        X = np.asarray(block.X, dtype=np.float64)
        weight = np.ones(len(X)) if block.weight is None else block.weight
        if self.target:
            X, y = X[:, :-1], X[:, -1]
            fitted, square = X @ b, y * y
            along, size = y * fitted, fitted * fitted
            second = svec((X * weight[:, None]).T @ X)
            dimension = 1
        else:
            along, square = X @ b, np.einsum("ij,ij->i", X, X)
            size, second, dimension = np.asarray(b @ b), None, len(b)
            y = np.ones(len(X))
        log_density = (
            log_cosh(along / s) - (square + size) / (2 * s) - dimension / 2 * math.log(math.tau * s)
        )
        total = (weight * np.tanh(along / s) * y) @ X
        return SymmetricSums(
            np.asarray(weight.sum()),
            total,
            np.asarray(weight @ square),
            second,
            np.asarray(weight @ log_density),
        )

    def check(self, d: int, private: bool) -> None:
        """Coefficients of all columns but the target."""
        self.state.check(d - self.target)

    def largest(self, low: Array, high: Array) -> Array:
        """A fitted value <b, x> is within sum |b_j x_j|, tanh within one, log cosh t within |t|."""
        b, s, a = np.abs(self.state.beta), self.state.variance, farthest(low, high)
        if self.target:
            a, c = a[:-1], float(a[-1])
            f = float(b @ a)
            along, square, size, dimension = c * f, c * c, f * f, 1
            parts = [[1.0], c * a, [square], svec(np.outer(a, a))]
        else:
            along, square, size, dimension = float(b @ a), float(a @ a), float(b @ b), len(b)
            parts = [[1.0], a, [square]]
        constant = dimension / 2 * abs(math.log(math.tau * s))
        return np.concatenate([*parts, [along / s + (square + size) / (2 * s) + constant]])


@dataclass(frozen=True)
class SymmetricModel:
    """E- and M-step. ``variance``: known noise variance, or ``None``: estimated.

    ``floor`` is the smallest variance an estimate may have.
    """

    target: bool
    variance: float | None = None
    floor: float = 1e-300

    def query(self, state: Symmetric, round: int = 0) -> SymmetricQuery:
        """The expected statistics under ``state``."""
        return SymmetricQuery(state, self.target)

    def m_step(self, state: Symmetric, release: Release[SymmetricSums]) -> Symmetric:
        """New parameters; whatever is not evidence leaves the old ones."""
        sums = release.statistics
        count = float(sums.count)
        if not (math.isfinite(count) and count > 1e-300):
            return state
        with np.errstate(over="ignore", invalid="ignore"):
            total, square = sums.total / count, float(sums.square) / count
            if sums.second is None:
                beta, fitted = total, float(total @ total)
            else:
                matrix = smat(sums.second / count, len(total))
                beta = least_squares(matrix, total)
                # b' (sum x x') b = b' (sum s y x) at the solution; where a floor moved it, not.
                fitted = 2 * float(beta @ total) - float(beta @ matrix @ beta)
        variance = (square - fitted) / (1 if self.target else len(beta))
        return accepted(self, state, beta, variance, _LEAST, _MOST)

    def objective(self, state: Symmetric, release: Release[SymmetricSums]) -> float:
        """Mean log-likelihood (of y given x)."""
        return float(release.statistics.likelihood / release.statistics.count)


def accepted(
    model: Any, old: Symmetric, beta: Array, variance: float, least: float, largest: float
) -> Symmetric:
    """New parameters, of which whatever is not a sensible number leaves the old ones.

    Parameters
    ----------
    model
        With ``variance``, if that is known, and ``floor``, the least that an estimate may be.
    least, largest : float
        The smallest variance and the largest coefficient with which nothing overflows.
    """
    if not (np.isfinite(beta).all() and np.abs(beta).max(initial=0.0) < largest):
        return old
    if model.variance is not None:
        return Symmetric(beta, model.variance)
    if not math.isfinite(variance):
        return Symmetric(beta, old.variance)
    return Symmetric(beta, float(np.clip(variance, max(model.floor, least), _MOST)))


def least_squares(matrix: Array, vector: Array) -> Array:
    """The least-squares solution; eigenvalues that are noise count as none."""
    if not (np.isfinite(matrix).all() and np.isfinite(vector).all()):
        return np.full_like(vector, np.nan)
    if np.abs(matrix).max(initial=0.0) > _LARGE:  # beyond, eigh need not converge
        return least_squares(matrix / _LARGE**2, vector / _LARGE**2)
    values, vectors = np.linalg.eigh(matrix)
    low = 1e-12 * max(float(values[-1]), 0.0)
    inverse = np.where(values > low, 1 / np.where(values > low, values, 1.0), 0.0)
    return np.asarray(vectors @ (inverse * (vectors.T @ vector)))
