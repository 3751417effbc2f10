"""How far records lie from the middle of one public Gaussian, as a profile; and what it says.

A record's value is v = q/d, where q = |W (y - m)|^2 is the squared length of the record, pulled
into the region, in coordinates whitened by a public mean m and covariance (W'W is its inverse), and
d the number of columns: one on average where the Gaussian fits, large in heavy tails. Sensitivity
and rounding of the profile: :mod:`privem.blocks.profile`.

*What it says* (:class:`Radii`): how large all variances should be together, and what part of them
is left where records are clipped. Under a Gaussian v is chi-square over its d degrees of freedom;
under Student's t it has an F distribution. Those of all sizes and tails are weighed by how well
they explain the profile, and what the profile itself shows takes their place as far as it stands
out of the noise: point by point, and in far outliers, which no such tail explains.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from scipy.special import betainc

from ...blocks import conditions
from ...blocks.profile import ProfileQuery, believed, hats
from ...blocks.region import Region
from ...core import Block, Scratch
from ...kernels.mixture import differences_block_rows
from ...linalg import gamma, whiten
from ...tree import Array
from .model import Mixture
from .rounding import whitened_lengths

# Points of the grid up to four times the average; then one for each doubling.
_NEAR = (0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0)
_MOST_POINTS = 60
# Degrees of freedom of Student's t, the last as good as a Gaussian, and what is believed of them.
_TAILS = (2.5, 3.0, 4.0, 6.0, 12.0, 400.0)
_BELIEFS = (0.05, 0.08, 0.12, 0.15, 0.15, 0.45)
# Average values looked at, in quarters of a doubling: a factor of e either way is nothing special.
_LEVELS = 2.0 ** np.arange(-6.0, 6.01, 0.25)
# The most that a background takes from a Gaussian.
_FEW = 0.05
# Weights of a background, and rounds of EM for it.
_LEAST_WEIGHT, _MOST_WEIGHT, _ROUNDS = 0.001, 0.3, 50
# Far outliers count if so many deviations of noise do not explain them, within so many points.
_FAR, _WINDOWS = 4.25, (1, 2, 3, 4, 6)


@dataclass(frozen=True)
class RadialQuery(ProfileQuery):
    """The profile of squared whitened lengths over the number of columns.

    Parameters
    ----------
    mixture : Mixture
        Of one component, in unit coordinates.
    region : Region
        Where records are pulled to first.
    grid : array of shape (J + 1,)
        Increasing.
    cap_weight : float
    """

    mixture: Mixture
    region: Region
    grid: Array
    cap_weight: float = 1.0
    travels = ("mixture", "region", "grid", "cap_weight")

    @classmethod
    def all_of(cls, mixture: Mixture, region: Region, cap_weight: float) -> RadialQuery:
        """Over a grid that reaches as far as any record of the region."""
        far = sum(float(part[0]) for part in whitened_lengths(mixture, region)) ** 2 / region.d
        points = list(_NEAR)
        while points[-1] < far and len(points) < _MOST_POINTS:
            points.append(2 * points[-1])
        return cls(mixture, region, np.array(points), cap_weight)

    @property
    def block_rows(self) -> int:
        """Rows per call."""
        return differences_block_rows(self.region.d)

    def values(self, block: Block, scratch: Scratch) -> Array:
        """Squared whitened lengths over d."""
        y = self.region.to_unit(block.X, scratch).T
        y -= self.mixture.means[0][:, None]
        z = whiten(self.mixture.whiteners[0], y)
        return np.asarray(np.einsum("ij,ij->j", z, z) / len(z))

    @property
    def value_error(self) -> Array:
        """Of a product of matrices and a sum of squares: ``docs/proofs/profile.md``, section 4."""
        d = self.region.d
        far = sum(float(part[0]) for part in whitened_lengths(self.mixture, self.region))
        shift = gamma(d + 4) * far / math.sqrt(d)
        if not shift <= 0.4 * math.sqrt(self.grid[-1]):
            return np.full(len(self.grid) - 1, math.inf)
        root = np.sqrt(np.append(self.grid[1:-1], 2 * self.grid[-1]))
        return np.asarray(shift * (2 * root + shift) + gamma(d + 8) * (root + shift) ** 2)

    def check(self, d: int, private: bool) -> None:
        """Any one Gaussian: whatever it is, a record adds hats that sum to one."""
        self.mixture.check(d)
        conditions.need(len(self.mixture.means) == 1)
        self.region.check(d)
        self.check_profile()
        conditions.need(self.grid[0] >= 0)


def most_radii() -> int:
    """How many numbers a profile has at most."""
    return _MOST_POINTS


@dataclass(frozen=True)
class Radii:
    """A distribution of v over a grid, and how well it is known.

    Parameters
    ----------
    grid, shares : array of shape (J + 1,)
        Points, and the part of all records at each.
    doubt : array of shape (J + 1,)
        Variances of the shares.
    family, belief : array of shape (f, J + 1) and (f,)
        Profiles of a family of distributions, and how believable each is.
    """

    grid: Array
    shares: Array
    doubt: Array
    family: Array
    belief: Array

    @classmethod
    def read(
        cls, d: int, grid: Array, counts: Array, deviation: float, count: float, doubt: float
    ) -> Radii:
        """From noisy counts; see :func:`privem.blocks.profile.believed`."""
        family, prior = _student(d, len(grid))
        found = believed(counts, family, deviation, count, doubt) + prior
        belief = np.exp(found - found.max())
        belief /= belief.sum()
        expected, noise = belief @ family, deviation / count
        # The mean of two guesses: the family's, as uncertain as it is large, and what was released.
        trust = expected**2 / (expected**2 + noise**2)
        shares = np.maximum(expected + trust * (counts / count - expected), 0.0)
        unknown = trust * noise**2
        middle = math.exp(float(belief @ np.tile(np.log(_LEVELS), len(_TAILS))))
        far = _outliers(np.where(grid > 2 * middle, counts / count - shares, 0.0), noise)
        shares = np.where(far, np.maximum(counts / count, 0.0), shares)
        unknown = np.where(far, noise**2, unknown)
        total = max(float(shares.sum()), 1e-300)
        return cls(grid, shares / total, unknown, family, belief)

    @property
    def level(self) -> float:
        """The average of v."""
        return max(float(self.shares @ self.grid), float(self.grid[1]) / 4)

    def scaled(self, factor: float) -> Radii:
        """If v were divided by so much."""
        return replace(self, grid=self.grid / factor)

    def above(self, d: int, height: float) -> Radii:
        """Of those records that a Gaussian explains, above a uniform background.

        By EM for the background's weight and the level of the Gaussian, on the grid. ``height``:
        logarithm of the density of a Gaussian of level one at its middle, over the background's. A
        background is for a few records: if it explains more (the ones of a column of zeros and
        ones), it takes those few that lie furthest out.
        """
        level, weight = self.level, _LEAST_WEIGHT
        owned, explained = self.shares, 1.0
        for _ in range(_ROUNDS):
            ratio = (
                math.log(1 / weight - 1) + height - d / 2 * (math.log(level) + self.grid / level)
            )
            owned = self.shares / (1 + np.exp(-np.clip(ratio, -500, 500)))
            explained = float(owned.sum())
            weight = float(np.clip(1 - explained, _LEAST_WEIGHT, _MOST_WEIGHT))
            level = max(float(owned @ self.grid) / max(explained, 1e-300), self.level / 100)
        if explained < 1 - _FEW:
            below = np.minimum(np.cumsum(self.shares), 1 - _FEW)
            return replace(self, shares=np.diff(below, prepend=0.0) / (1 - _FEW))
        return replace(self, shares=owned / explained)

    def within(self, limit: float) -> tuple[float, float]:
        """The average of min(v, limit), and how uncertain it is as a part of that of v."""
        clipped = np.minimum(self.grid, limit)
        each = (self.family @ clipped) / (self.family @ self.grid)
        mean = float(self.belief @ each)
        spread = math.sqrt(max(float(self.belief @ each**2) - mean**2, 0.0))
        noise = math.sqrt(float(self.doubt @ (self.grid - clipped) ** 2)) / self.level
        return max(float(self.shares @ clipped), 1e-3 * self.level), min(spread, noise)


def _outliers(excess: Array, noise: float) -> Array:
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


@lru_cache(maxsize=32)
def _student(d: int, points: int) -> tuple[Array, Array]:
    """Profiles of Student's t of all tails and levels, and the logarithm of prior beliefs."""
    grid = np.array([*_NEAR, *(4 * 2.0 ** np.arange(1, points - len(_NEAR) + 1))])
    below, belief = [], []
    for tail, share in zip(_TAILS, _BELIEFS, strict=True):
        mean = tail / (tail - 2)
        for level in _LEVELS:
            # v / level is F / E F, with F of d and tail degrees of freedom: a function of beta's.
            x = grid * mean / level
            b = d * x / (d * x + tail)
            above = x / mean * (1 - betainc(d / 2, tail / 2, b))
            below.append(level * (betainc(d / 2 + 1, tail / 2 - 1, b) + above))
            belief.append(math.log(share) - 0.5 * math.log(level) ** 2)
    return hats(np.array(below), grid), np.array(belief)
