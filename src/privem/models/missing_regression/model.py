"""Linear regression with covariates missing at random: y = <b, x> + noise, x standard normal.

NaN means missing. With D = s + |b_mis|^2 (s the noise variance) and r = y - <b_obs, x_obs>, the
E-step (Wang et al. 2023) is m = x on observed entries and (r/D) b_mis on missing ones, and V =
diag(missing) - b_mis b_mis'/D. The statistics are sum y m and sum (m m' + V), and the M-step is
least squares. Given the observed entries, y is normal with mean <b_obs, x_obs> and variance D: that
is the likelihood.

At b = 0 the statistics are plain moments of the observed entries. Divided by how often entries
(and pairs of them) are observed they estimate E x y and E x x' whatever the distribution of x:
:func:`corrected`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ...blocks.region import farthest
from ...core import Block, Release, Scratch
from ...linalg import Array, smat, svec
from ..symmetric.model import Symmetric, accepted, least_squares

# Coefficients below the one and variances above the other keep (r/D) b_mis, its square and r^2/D
# far from overflow.
_LARGEST, _LEAST = 1e70, 1e-140


@dataclass(frozen=True)
class MissingSums:
    """Count, sum y m (d,), packed sum m m' + V, sum y^2, how often missing (d,), likelihood."""

    count: Array
    cross: Array
    second: Array
    square: Array
    missing: Array
    likelihood: Array


def log_density(X: Array, y: Array, state: Symmetric) -> Array:
    """Log-density of each target given what is observed of its record (b, d)."""
    missing = np.isnan(X)
    residual = y - np.where(missing, 0.0, X) @ state.beta
    total = state.variance + missing @ state.beta**2
    return np.asarray(-0.5 * (residual**2 / total + np.log(math.tau * total)))


@dataclass(frozen=True)
class MissingQuery:
    """The E-step under ``state``; the last column is the target."""

    state: Symmetric
    travels = ("state",)

    @property
    def block_rows(self) -> int:
        """Blocks of about a megabyte."""
        return int(np.clip(2**16 // (len(self.state.beta) + 1), 64, 8184)) // 8 * 8

    def __call__(self, block: Block, scratch: Scratch) -> MissingSums:
        """Sum a block."""
        b, s = self.state.beta, self.state.variance
        X, y = np.asarray(block.X[:, :-1], dtype=np.float64), np.asarray(block.X[:, -1])
        weight = np.ones(len(X)) if block.weight is None else block.weight
        missing = np.isnan(X).astype(np.float64)
        m = np.where(missing > 0, 0.0, X)
        residual = y - m @ b
        total = s + missing @ b**2
        log_density = -0.5 * (residual**2 / total + np.log(math.tau * total))
        m += missing * b * (residual / total)[:, None]
        second = (m * weight[:, None]).T @ m
        count = weight @ missing
        second += np.diag(count) - np.outer(b, b) * (
            (missing * (weight / total)[:, None]).T @ missing
        )
        return MissingSums(
            np.asarray(weight.sum()),
            (weight * y) @ m,
            svec(second),
            np.asarray(weight @ y**2),
            count,
            np.asarray(weight @ log_density),
        )

    def check(self, d: int, private: bool) -> None:
        """Coefficients of all columns but the target."""
        self.state.check(d - 1)

    def largest(self, low: Array, high: Array) -> Array:
        """With D >= s + b_j^2 where entry j is missing, its expectation is at most r |b_j|/D.

        No entry of V = diag(missing) - b_mis b_mis'/D is larger than one, as 2 |b_i b_j| <= D.
        """
        b, s, reach = np.abs(self.state.beta), self.state.variance, farthest(low, high)
        a, c = reach[:-1], float(reach[-1])
        r = c + float(b @ a)
        m = np.maximum(a, r * b / (s + b * b))
        constants = abs(math.log(math.tau * s)) + abs(math.log(math.tau * (s + float(b @ b))))
        likelihood = 0.5 * (r * r / s + constants)
        second = svec(np.outer(m, m) + 1.0)
        return np.concatenate([[1.0], c * m, second, [c * c], np.ones(len(b)), [likelihood]])


@dataclass(frozen=True)
class MissingCovariateModel:
    """E- and M-step. ``variance``: known, or ``None``: estimated, not below ``floor``."""

    variance: float | None = None
    floor: float = 1e-300

    def query(self, state: Symmetric, round: int = 0) -> MissingQuery:
        """The expected statistics under ``state``."""
        return MissingQuery(state)

    def m_step(self, state: Symmetric, release: Release[MissingSums]) -> Symmetric:
        """New parameters; whatever is not evidence leaves the old ones."""
        sums = release.statistics
        count = float(sums.count)
        if not (math.isfinite(count) and count > 1e-300):
            return state
        with np.errstate(over="ignore", invalid="ignore"):
            second, cross = smat(sums.second / count, len(state.beta)), sums.cross / count
            beta = least_squares(second, cross)
            left = float(float(sums.square) / count - 2 * beta @ cross + beta @ second @ beta)
        return accepted(self, state, beta, left, _LEAST, _LARGEST)

    def objective(self, state: Symmetric, release: Release[MissingSums]) -> float:
        """Mean log-likelihood of y given what was observed of x."""
        return float(release.statistics.likelihood / release.statistics.count)


def corrected(cross: Array, second: Array, observed: Array) -> tuple[Array, Array]:
    """E x y and E x x' from means of observed products (not in Wang et al. 2023).

    ``observed`` (d,): how often each entry is; entries are missing independently of each other. A
    column that never is has no moments: its are zero, and so is then its coefficient.
    """
    seen = np.where(observed > 0, observed, 1.0)
    pairs = np.outer(seen, seen)
    np.fill_diagonal(pairs, seen)
    alive = np.outer(observed > 0, observed > 0)
    return np.where(observed > 0, cross / seen, 0.0), np.where(alive, second / pairs, 0.0)


def from_moments(cross: Array, second: Array, square: float, floor: float) -> Symmetric:
    """Least squares from E x y, E x x' and E y^2, however little they fit together."""
    beta = least_squares(second, cross)
    left = square - 2 * float(beta @ cross) + float(beta @ second @ beta)
    return Symmetric(beta, max(left, floor))
