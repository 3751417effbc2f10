"""The distribution of one number per record, or of each column, as a profile over a public grid.

Each record has a number v. Over a grid g_0 < ... < g_J it adds, for g_j <= v <= g_{j+1}, 1 - a to
point j and a to point j + 1, where v = (1 - a) g_j + a g_{j+1}: what linear interpolation gives.
Beyond the ends it adds one to the last point, and NaN counts as g_0, a fixed public rule. So a
function of v that is linear between the points and constant beyond them has its sum over records,
exactly, as the inner product with the profile (:meth:`Profile.total`): sum v, sum min(v, g_j).

*Sensitivity.* What a record adds, h(v), is not negative and sums to one, so |h| <= |h|_1 = 1 and
<h, h'> >= 0: L2 is at most 1 for adding or removing a record and sqrt(2) for replacing one. Both
are attained. Weights and persons multiply it by the cap (:mod:`privem.blocks.sensitivity`).

*Rounding.* h is continuous: between two points it moves by sqrt(2) |dv| / (g_{j+1} - g_j), so by at
most sqrt(2) e / s if v is off by e, where s is the smallest spacing around it, and never by more
than sqrt(2). (A count of cells is not: a last digit moves a record to another cell.) A value may
therefore come from exp or a matrix product, whose last digits depend on a record's place in a
block, as long as the query bounds by how much. In computing h, v - g_j, the spacing, their quotient
and its difference from one are each rounded once: as 0 <= a <= 1, h errs by less than gamma_8. The
computed a is within [0, 1] too, since rounding keeps order. Then come a product with the weight and
block sums of at most b records. Proof: ``docs/proofs/profile.md``.

*What a noisy profile says.* A family of distributions has such a profile each, and noise of known
size decides how believable each of them is (:func:`believed`). A few parameters are read off many
noisy numbers that way, and without records what was believed before is believed after.

*All columns at once* (:class:`ColumnsQuery`), before anything else is known. A record's coordinate
y_j, in units of the region's limit, is spread in this way over two of the points of a grid from -1
to 1, for each of d columns.

*Sensitivity of all columns.* What a record adds is d vectors h_1 .. h_d, each not negative and with
sum one, laid end to end: its squared norm is at most d, and inner products of two such are not
negative. So L2 is sqrt(d) for adding or removing a record, sqrt(2 d) for replacing one, times the
cap on weights; both are attained. *Rounding*: coordinates are a record's own (:class:`Region`), and
so is their place on the grid, which is a product, a sum and what is left of it below the point.
What remains is that of each h and of sums, sqrt(d) times that of one.

Moments of the same records would have noise in proportion to the square of the region's width. That
of a profile is in proportion to nothing but the number of columns: it finds a narrow bulk in a wide
region, and outliers do not move it. Read as a normal distribution, it gives each column's mean and
variance; without evidence these are what the region alone says. What variances are likely is
learned from all columns together (empirical Bayes).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import ndtr

from ..core import Block, Group, Scratch
from ..linalg import SMALLEST, Array, gamma
from . import conditions
from .region import Region
from .sensitivity import capped, one_group

# More than any plan asks for, and few enough to hold.
_MOST_POINTS = 2**16
# By how much each number of a family's profile may be off, in records.
_MISFIT = 0.004
# Pieces of the grid of columns: enough for a column a fortieth as wide as its bounds.
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
# Far outliers count if so many deviations of noise do not explain them, within so many points.
_FAR, _WINDOWS = 4.25, (1, 2, 3, 4, 6)


@dataclass(frozen=True)
class Profile:
    """How much of all records is at each point of a grid."""

    counts: Array

    def total(self, function: Array) -> float:
        """The sum over records of a function, linear between the points, from its values there."""
        return float(self.counts @ function)


def add_hats(values: Array, grid: Array, weight: Array | None) -> Array:
    """The profile of some records with these values, (b,), as counts over the grid.

    Examples
    --------
    >>> import numpy as np
    >>> add_hats(np.array([0.25, 7.0, np.nan]), np.array([0.0, 1.0, 5.0]), None).tolist()
    [1.75, 0.25, 1.0]
    """
    v = np.fmin(np.fmax(values, grid[0]), grid[-1])
    below = np.searchsorted(grid[1:-1], v, side="right")
    a = (v - grid[below]) / np.diff(grid)[below]
    left = 1.0 - a
    if weight is not None:
        left *= weight
        a *= weight
    points = len(grid)
    return np.asarray(
        np.bincount(below, left, minlength=points) + np.bincount(below + 1, a, minlength=points)
    )


def hats(below: Array, grid: Array) -> Array:
    """The profile of one record drawn from a distribution, or of each of a stack of them.

    ``below`` (..., J + 1): the expectation of min(v, g_j) at each point.
    """
    # The share of records above each piece, on average over it: the slope of that expectation.
    above = np.diff(below, axis=-1) / np.diff(grid)
    ends = np.ones((*above.shape[:-1], 1))
    return np.asarray(-np.diff(np.concatenate([ends, above, 0 * ends], axis=-1), axis=-1))


def believed(counts: Array, family: Array, deviation: float, count: float, doubt: float) -> Array:
    """Logarithm of how likely noisy profiles (..., J + 1) are, for each profile of a family.

    Parameters
    ----------
    counts : array of shape (..., J + 1)
    family : array of shape (f, J + 1)
        Profiles of one record.
    deviation : float
        Of the noise on each number.
    count, doubt : float
        How many records there are, and the deviation of the noise on that.

    Returns
    -------
    array of shape (..., f)
        Up to a constant for each profile; integrated over the number of records.
    """
    # No family is quite right: where there is next to no noise it need only be near.
    variance = deviation**2 + (_MISFIT * count) ** 2
    sure = max(doubt, 1e-6 * count) ** -2
    precision = np.sum(family**2, axis=1) / variance + sure
    pull = counts @ family.T / variance + count * sure
    return np.asarray(0.5 * (pull**2 / precision - count**2 * sure) - 0.5 * np.log(precision))


def outliers(excess: Array, noise: float) -> Array:
    """Points that noise of this deviation on each does not explain, best windows first."""
    found, left = np.zeros(len(excess), dtype=bool), excess.copy()
    while True:
        total = np.concatenate([[0.0], np.cumsum(left)])
        best, where = _FAR * noise, slice(0, 0)
        for width in _WINDOWS:
            sums = (total[width:] - total[:-width]) / math.sqrt(width)
            at = int(sums.argmax())
            if sums[at] > best:
                best, where = float(sums[at]), slice(at, at + width)
        if where.stop == 0:
            return found
        found[where] = True
        left[found] = 0.0


class ProfileQuery(ABC):
    """Abstract base of queries for the profile of a number that each record has.

    Subclasses are frozen dataclasses with fields ``grid`` and ``cap_weight``.
    """

    grid: Array
    cap_weight: float

    @property
    @abstractmethod
    def block_rows(self) -> int:
        """Rows per call."""

    @abstractmethod
    def values(self, block: Block, scratch: Scratch) -> Array:
        """The number of each record, (b,); NaN counts as the first point of the grid."""

    @property
    @abstractmethod
    def value_error(self) -> float | Array:
        """How far a value within the grid may be from a function of the record alone.

        One number, or one for each piece that this function's value may lie in, (J,). Zero where it
        is computed by correctly rounded operations on single numbers, in a fixed order: what is
        summed is then defined by the value as computed. Values beyond the grid are clamped to its
        ends and may be off by more, as long as they stay beyond.
        """

    @property
    def size(self) -> int:
        """How many numbers are released."""
        return len(self.grid)

    def __call__(self, block: Block, scratch: Scratch) -> Profile:
        """Sum a block."""
        values = self.values(block, scratch)
        weight = capped(block.weight, self.cap_weight, len(values))
        return Profile(add_hats(values, self.grid, weight))

    def groups(self, neighbours: str) -> list[Group]:
        """One group; the bounds are derived above."""
        return one_group(self, "profile", neighbours, 1.0, math.sqrt(2.0))

    def rounding(self, rows: float) -> float:
        """Values that are off, and roundings in a block's sum; see above."""
        # A value that is off by less than the pieces beside its own are wide is in one of these.
        steps = np.pad(np.diff(self.grid), 1, mode="edge")
        near = np.minimum(np.minimum(steps[:-2], steps[2:]), steps[1:-1])
        moved = float(np.max(np.minimum(self.value_error / near, 1.0)))
        return rows * (math.sqrt(2.0) * moved + gamma(self.block_rows + 64))

    def check_profile(self) -> None:
        """A grid of at least two points, increasing by steps that can be divided by; and a cap."""
        conditions.ordinary(self.cap_weight)
        conditions.need(self.grid.ndim == 1 and 2 <= len(self.grid) <= _MOST_POINTS)
        conditions.magnitudes(self.grid)
        conditions.need((np.diff(self.grid) >= SMALLEST).all())


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
