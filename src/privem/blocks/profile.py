"""The distribution of one number per record, released as a profile over a public grid.

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
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from ..core import Block, Group, Scratch
from ..linalg import SMALLEST, gamma
from ..tree import Array
from . import conditions
from .sensitivity import capped, one_group

# More than any plan asks for, and few enough to hold.
_MOST_POINTS = 2**16
# By how much each number of a family's profile may be off, in records.
_MISFIT = 0.004


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
