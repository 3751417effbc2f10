"""Where each column lies, before anything else is known: noisy profiles of all columns at once.

A record's coordinate y_j, in units of the region's limit, is spread over two of the points of a
grid from -1 to 1 (:mod:`privem.blocks.profile`), for each of d columns.

*Sensitivity.* What a record adds is d vectors h_1 .. h_d, each not negative and with sum one, laid
end to end: its squared norm is at most d, and inner products of two such are not negative. So L2
is sqrt(d) for adding or removing a record, sqrt(2 d) for replacing one, times the cap on weights;
both are attained. *Rounding*: coordinates are a record's own (:class:`Region`), and so is their
place on the grid, which is a product, a sum and what is left of it below the point. What remains is
that of each h and of sums, sqrt(d) times that of one.

Moments of the same records would have noise in proportion to the square of the region's width. That
of a profile is in proportion to nothing but the number of columns: it finds a narrow bulk in a wide
region, and outliers do not move it. Read as a normal distribution, it gives each column's mean and
variance; without evidence these are what the region alone says. What variances are likely is
learned from all columns together (empirical Bayes).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import ndtr

from ...blocks import conditions
from ...blocks.profile import believed, hats
from ...blocks.region import Region
from ...blocks.sensitivity import capped, one_group
from ...core import Block, Group, Scratch
from ...linalg import gamma
from ...tree import Array

# Pieces of the grid: enough for a column a fortieth as wide as its bounds.
PIECES = 64
# Standard deviations looked at, in units of the limit, from half a piece to more than records
# spread evenly have; and so many for each piece of how far off their middle may be.
_DEVIATIONS, _WIDEST, _MIDDLES = 13, 0.65, 2
# Within the region lie at least so many deviations on both sides of the middle.
_INSIDE = 1.5
# What is known of variances before looking counts as so many columns.
_BEFORE, _ROUNDS = 2.0, 30
# Nothing is known better than this, in parts of a variance: columns are no normal distributions.
_LEAST_DOUBT = 0.01
_AT_ONCE = 256  # columns


@dataclass(frozen=True)
class ColumnProfiles:
    """How much of all records is at each point of the grid, (d, J + 1)."""

    counts: Array


@dataclass(frozen=True)
class ColumnsQuery:
    """The profiles of all columns."""

    region: Region
    cap_weight: float = 1.0
    block_rows: int = 4088
    travels = ("region", "cap_weight")

    @property
    def size(self) -> int:
        """How many numbers are released."""
        return columns_size(self.region.d)

    def __call__(self, block: Block, scratch: Scratch) -> ColumnProfiles:
        """Sum a block."""
        y = self.region.to_unit(block.X, scratch).T
        limit = self.region.limit
        # A column without width has one place.
        y *= np.divide(PIECES / 2, limit, out=np.zeros_like(limit), where=limit > 0)[:, None]
        y += PIECES / 2
        np.clip(y, 0, PIECES, out=y)
        below = np.minimum(y.astype(np.intp), PIECES - 1)
        y -= below  # exactly
        below += (np.arange(len(y)) * (PIECES + 1))[:, None]
        weight = capped(block.weight, self.cap_weight, y.shape[1])
        left = 1.0 - y
        if weight is not None:
            left *= weight
            y *= weight
        points, size = below.ravel(), self.size
        lower = np.bincount(points, left.ravel(), minlength=size)
        counts = lower + np.bincount(points + 1, y.ravel(), minlength=size)
        return ColumnProfiles(np.asarray(counts, dtype=np.float64).reshape(len(y), -1))

    def groups(self, neighbours: str) -> list[Group]:
        """One group; the bounds are derived above."""
        d = self.region.d
        return one_group(self, "columns", neighbours, math.sqrt(d), math.sqrt(2 * d))

    def rounding(self, rows: float) -> float:
        """Of a profile in each column."""
        return rows * math.sqrt(self.region.d) * gamma(self.block_rows + 64)

    def check(self, d: int, private: bool) -> None:
        """Any region: whatever it is, a record adds one to each column."""
        self.region.check(d)
        conditions.ordinary(self.cap_weight)
        conditions.held(1, self.block_rows, self.size)


def columns_size(d: int) -> int:
    """How many numbers the profiles of d columns have."""
    return d * (PIECES + 1)


@dataclass(frozen=True)
class Bulk:
    """Mean and variance of each column, in units of the limit, and how well they are known."""

    mean: Array
    variance: Array
    mean_doubt: Array
    """Variance of the mean."""
    doubt: Array
    """Of the variance, as a part of itself: squared deviation."""


def read_columns(counts: Array, deviation: float, count: float, doubt: float) -> Bulk:
    """Each column as a normal distribution.

    Parameters
    ----------
    counts : array of shape (d, J + 1)
    deviation : float
        Of the noise on each number.
    count, doubt : float
        The number of records, and the deviation of its noise.
    """
    middles, deviations, family, prior = _normal()
    likely = np.empty((len(counts), len(deviations)))
    for at in range(0, len(counts), _AT_ONCE):
        found = _weights(counts[at : at + _AT_ONCE], deviation, count, doubt, family, prior)
        likely[at : at + _AT_ONCE] = found.sum(axis=1)
    shares = np.full(len(deviations), 1 / len(deviations))
    for _ in range(_ROUNDS):
        belief = likely * shares
        belief /= belief.sum(axis=1, keepdims=True)
        shares = (belief.sum(axis=0) + _BEFORE / len(shares)) / (len(counts) + _BEFORE)
    parts = []
    for at in range(0, len(counts), _AT_ONCE):
        found = _weights(counts[at : at + _AT_ONCE], deviation, count, doubt, family, prior)
        found *= shares
        found /= found.sum(axis=(1, 2), keepdims=True)
        mean, mean_doubt = _moments(found.sum(axis=2), middles)
        size, size_doubt = _moments(found.sum(axis=1), 2 * np.log(deviations))
        size_doubt = np.maximum(size_doubt, _LEAST_DOUBT)
        # Wider by half of what is unknown of its logarithm: what is too narrow costs more.
        variance = np.exp(size + size_doubt / 2)
        mean_doubt = np.maximum(mean_doubt, _LEAST_DOUBT * variance)
        parts.append((mean, variance, mean_doubt, size_doubt))
    return Bulk(*(np.concatenate(part) for part in zip(*parts, strict=True)))


def _weights(
    counts: Array, deviation: float, count: float, doubt: float, family: Array, prior: Array
) -> Array:
    """How believable each middle and deviation is, (columns, middles, deviations); one at most."""
    found = believed(counts, family, deviation, count, doubt).reshape(-1, *prior.shape)
    found -= found.max(axis=(1, 2), keepdims=True)
    return np.asarray(np.exp(found) * prior)


def _moments(weights: Array, values: Array) -> tuple[Array, Array]:
    mean = weights @ values
    return mean, np.maximum(weights @ values**2 - mean**2, 0.0)


@lru_cache(maxsize=1)
def _grid() -> Array:
    return np.linspace(-1.0, 1.0, PIECES + 1)


@lru_cache(maxsize=1)
def _normal() -> tuple[Array, Array, Array, Array]:
    """Middles and deviations, their profiles, and what is believed of middles before looking."""
    grid = _grid()
    middles = np.linspace(-1.0, 1.0, _MIDDLES * PIECES + 1)
    deviations = np.geomspace(1 / PIECES, _WIDEST, _DEVIATIONS)
    z = (grid - middles[:, None, None]) / deviations[:, None]
    density = np.exp(-0.5 * z**2) / math.sqrt(2 * math.pi)
    # E min(v, g) = g - E (g - v)+ = g - s (z Phi(z) + phi(z)).
    below = grid - deviations[:, None] * (z * ndtr(z) + density)
    room = 1.1 - np.abs(middles)[:, None] - _INSIDE * deviations
    prior = np.clip(room / 0.2, 0.0, 1.0) + 1e-6
    prior /= prior.sum(axis=0)
    return middles, deviations, hats(below, grid).reshape(-1, len(grid)), prior
