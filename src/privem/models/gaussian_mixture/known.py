"""What is known of one Gaussian, and what a noisy look at the records adds to it.

A look is a release of mean and second moment in coordinates whitened by what is known already: if
that is right, they are zero and one. What is known comes with how wrong it may be (``doubt``), the
look with the size of its noise, and each number is believed in proportion (as Kalman's filter does,
for each number of its own). So several looks are worth as much as one with all of their budget, and
each has better coordinates than the last.

How wrong something may be is itself a guess. Where many numbers are off by more, or less, than it
says, it is corrected (empirical Bayes), as far as the noise on that is small.

How long records are in whitened coordinates (:class:`Radii`): v = q/d, where q is a record's
squared length and d the number of columns, is one on average where the Gaussian fits, large in
heavy tails. Its distribution says how large all variances should be together, and what part of them
is left where records are clipped. Under a Gaussian v is chi-square over its d degrees of freedom;
under Student's t it has an F distribution. Those of all sizes and tails are weighed by how well
they explain a noisy profile of v, and what the profile itself shows takes their place as far as it
stands out of the noise: point by point, and in far outliers, which no such tail explains.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from scipy.special import betainc

from ...blocks.profile import believed, hats, outliers
from ...blocks.region import Region
from ...blocks.shrinkage import soften_each
from ...linalg import Array
from .model import Mixture

# Points of the grid of lengths up to four times the average; then one for each doubling.
LENGTHS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0)
MOST_LENGTHS = 60
# Degrees of freedom of Student's t, the last as good as a Gaussian, and what is believed of them.
_TAILS = (2.5, 3.0, 4.0, 6.0, 12.0, 400.0)
_BELIEFS = (0.05, 0.08, 0.12, 0.15, 0.15, 0.45)
# Average values looked at, in quarters of a doubling: a factor of e either way is nothing special.
_LEVELS = 2.0 ** np.arange(-6.0, 6.01, 0.25)
# The most that a background takes from a Gaussian.
_FEW = 0.05
# Weights of a background, and rounds of EM for it.
_LEAST_WEIGHT, _MOST_WEIGHT, _ROUNDS = 0.001, 0.3, 50
# Variance of a correlation before looking.
_CORRELATED = 0.1
# A number may be off by as much as it is large; more only if so many deviations say so.
_MOST_DOUBT, _SURE = 1.0, 4.0
# No variance falls by more than this in one look, nor below these parts of its noise and doubt.
_NARROWEST, _OF_NOISE, _OF_DOUBT = 0.02, 0.5, 0.5
# The least standard deviation in any direction, in unit coordinates.
_LEAST = 1e-6
# Eigenvalues are kept away from zero by this part of the largest that noise alone has.
_SOFT = 0.7


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
        far = outliers(np.where(grid > 2 * middle, counts / count - shares, 0.0), noise)
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


@dataclass(frozen=True)
class Look:
    """Mean and second moment of records in coordinates of their own, (d,) and (d, d), with noise.

    The second moment is its diagonal, (d,), where only variances were asked for.
    """

    coordinates: Mixture
    """Of one component: its mean is zero and its covariance one here."""
    mean: Array
    second: Array
    mean_noise: float
    """Deviation, of each number."""
    noise: float
    """Of the second moment, of each svec entry."""


@dataclass(frozen=True)
class Known:
    """A Gaussian in unit coordinates, and how wrong it may be.

    Parameters
    ----------
    mean : array of shape (d,)
    root : array of shape (d, d) or (d,)
        A square root of the covariance, or of its diagonal.
    mean_doubt : array of shape (d,)
        Variances of what the mean may be off by, in whitened coordinates.
    doubt : array of the shape of ``root``
        Of the entries of the covariance in whitened coordinates.
    radii : Radii or None
        How long records are in whitened coordinates.
    owned : Radii or None
        How long those are that it is about; ``None``: all.
    """

    mean: Array
    root: Array
    mean_doubt: Array
    doubt: Array
    radii: Radii | None = None
    owned: Radii | None = None

    @classmethod
    def of_columns(
        cls, mean: Array, variance: Array, mean_doubt: Array, doubt: Array, diagonal: bool
    ) -> Known:
        """Of columns that may be correlated; doubts as parts of the variance."""
        mean_doubt = np.minimum(mean_doubt / variance, _MOST_DOUBT)
        doubt = np.minimum(doubt, _MOST_DOUBT)
        if diagonal:
            return cls(mean, np.sqrt(variance), mean_doubt, doubt)
        d = len(mean)
        entries = np.where(np.eye(d, dtype=bool), doubt, _CORRELATED)
        return cls(mean, np.diag(np.sqrt(variance)), mean_doubt, entries)

    @property
    def diagonal(self) -> bool:
        """Whether only variances are known."""
        return self.root.ndim == 1

    @property
    def loss(self) -> float:
        """How many nats a record's log-density may be off by, to second order in the doubts."""
        return float(np.sum(self.doubt) / 4 + np.sum(self.mean_doubt) / 2)

    @property
    def covariance(self) -> Array:
        """Of a record: that of the Gaussian, and what its mean may be off by."""
        if self.diagonal:
            return np.asarray(self.root**2 * (1 + self.mean_doubt))
        return np.asarray(self.root * (1 + self.mean_doubt) @ self.root.T)

    @property
    def mean_variances(self) -> Array:
        """Variances (d,) of what the mean may be off by, in unit coordinates."""
        squares = self.root**2
        return np.asarray(squares * self.mean_doubt if self.diagonal else squares @ self.mean_doubt)

    @property
    def mixture(self) -> Mixture:
        """As coordinates for the next look."""
        if self.diagonal:
            return Mixture("diag", np.ones(1), self.mean[None], self.root[None] ** 2)
        covariance = self.root @ self.root.T
        return Mixture("full", np.ones(1), self.mean[None], covariance[None])

    def height(self, region: Region) -> float:
        """Logarithm of the density in the middle over the uniform one on a region."""
        size = np.sum(np.log(self.root)) if self.diagonal else np.linalg.slogdet(self.root)[1]
        volume = region.log_volume - float(np.sum(np.log(region.scale)))
        return volume - float(size) - len(self.mean) / 2 * math.log(2 * math.pi)

    def sized(self, radii: Radii, owned: Radii | None = None) -> Known:
        """With all variances as large as these lengths say, all of them or those that are owned.

        Records that lie too far out may do so along all directions (heavy tails) or along one of
        them (outliers): covariances may be off by half of what variances grow by.
        """
        factor = (owned or radii).level
        mean_doubt = np.minimum(self.mean_doubt / factor, _MOST_DOUBT)
        lengths = _scaled(radii, owned, factor)
        grown = max(1 - 1 / factor, 0.0)
        doubt = np.minimum(self.doubt + (grown / 2) ** 2, _MOST_DOUBT)
        return Known(self.mean, self.root * math.sqrt(factor), mean_doubt, doubt, *lengths)

    def kept(self, limit: float) -> float:
        """The part of the variance that is left where squared lengths over d are clipped here.

        More than one where records that are not its own are in the way.
        """
        assert self.radii is not None
        return self.radii.within(limit)[0] / (self.owned or self.radii).level

    def told(self, mean: Array, covariance: Array, mean_doubt: float, doubt: float) -> Known:
        """With another mean and covariance, whose numbers have these variances once whitened."""
        ones = np.ones(len(mean))
        if self.diagonal:
            root, size, entries = np.sqrt(covariance), covariance / self.root**2, doubt * ones
        else:
            root = np.linalg.cholesky(covariance)
            white = np.linalg.solve(self.root, root)
            size, entries = np.sum(white**2, axis=1), doubt * (np.eye(len(mean)) + 1) / 2
        lengths = _scaled(self.radii, self.owned, float(size.mean()))
        entries = np.minimum(entries, _MOST_DOUBT)
        return Known(mean, root, np.minimum(mean_doubt * ones, _MOST_DOUBT), entries, *lengths)

    def after(self, look: Look, kept: float, region: Region) -> Known:
        """What is known after a look that left this part of the variance when it clipped records.

        Total: any finite numbers give a valid Gaussian within the region.
        """
        mean, second, stretch = self._seen(look)
        variance = np.full(len(mean), look.mean_noise**2 * stretch)
        doubt = self.mean_doubt * _factor(mean**2, variance, self.mean_doubt)
        mean = mean * doubt / (doubt + variance)
        mean_doubt = doubt * variance / (doubt + variance)
        noise = look.noise * stretch / kept
        if self.diagonal:
            found, root, doubt, squares = self._variances(second / kept - mean**2, noise)
            shift, mean_doubt = self.root * mean, mean_doubt / squares
        else:
            outer = mean[:, None] * mean
            found, root, doubt, squares = self._matrix(second / kept - outer, noise)
            shift, mean_doubt = self.root @ mean, squares @ mean_doubt
        middle = region.inside((self.mean + shift)[None])[0]
        lengths = _scaled(self.radii, self.owned, found)
        mean_doubt, doubt = np.minimum(mean_doubt, _MOST_DOUBT), np.minimum(doubt, _MOST_DOUBT)
        return Known(middle, _within(root, region), mean_doubt, doubt, *lengths)

    def _seen(self, look: Look) -> tuple[Array, Array, float]:
        """The look in these coordinates, and by what factor its variances are larger.

        Its own coordinates are a rotation of them: by one, but for fits played again
        (:class:`privem.run.Tape`), where they are a little off.
        """
        at = look.coordinates
        if self.diagonal:
            turn = np.sqrt(at.covariances[0]) / self.root
            away = (at.means[0] - self.mean) / self.root
            mean, square = turn * look.mean, turn**2
            second = square * look.second + away * (2 * mean + away)
            return mean + away, second, float(square.mean())
        inverse = np.linalg.inv(self.root)
        turn = inverse @ np.linalg.cholesky(at.covariances[0])
        mean, away = turn @ look.mean, inverse @ (at.means[0] - self.mean)
        cross = np.outer(mean, away)
        second = turn @ look.second @ turn.T + cross + cross.T + np.outer(away, away)
        return mean + away, second, float(np.sum(turn**2)) / len(mean)

    def _variances(self, second: Array, noise: float) -> tuple[float, Array, Array, Array]:
        variance = np.full(len(second), noise**2)
        away = second - 1
        doubt = self.doubt * _factor(away**2, variance, self.doubt)
        trust = doubt / (doubt + variance)
        doubt = trust * variance
        low = np.maximum(_OF_NOISE * noise * trust, _OF_DOUBT * np.sqrt(doubt))
        white = soften_each(1 + trust * away, np.clip(low, _NARROWEST, 1.0), noise * trust, 1e3)
        return float(white.mean()), self.root * np.sqrt(white), doubt / white**2, white

    def _matrix(self, second: Array, noise: float) -> tuple[float, Array, Array, Array]:
        """The mean variance, the new root, doubts, and what to multiply those of the mean by."""
        d = len(second)
        on = np.eye(d, dtype=bool)
        # Off the diagonal an entry is that of svec over sqrt 2.
        variance, away = np.where(on, noise**2, noise**2 / 2), second - on
        doubt = self.doubt.copy()
        for some in (on, ~on) if d > 1 else (on,):
            doubt[some] *= _factor(away[some] ** 2, variance[some], doubt[some], 2 - on[some][0])
        trust = doubt / (doubt + variance)
        doubt = trust * variance
        values, vectors = np.linalg.eigh(on + trust * away)
        # The largest eigenvalue of the noise that is left.
        size = math.sqrt(2 * d) * noise * float(trust[~on].mean() if d > 1 else trust[0, 0])
        squares = vectors**2
        own = np.sqrt(np.sum(squares * (doubt @ squares), axis=0))
        low = np.clip(np.maximum(_OF_NOISE * size, _OF_DOUBT * own), _NARROWEST, 1.0)
        values = soften_each(values, low, _SOFT * size, 1e3)
        root = self.root @ (vectors * np.sqrt(values)) @ vectors.T
        stretch = ((vectors / np.sqrt(values)) @ vectors.T) ** 2
        return float(values.mean()), root, stretch @ doubt @ stretch, stretch


def _scaled(radii: Radii | None, owned: Radii | None, factor: float) -> Iterator[Radii | None]:
    return (None if each is None else each.scaled(factor) for each in (radii, owned))


def _within(root: Array, region: Region) -> Array:
    """No column varies by more than its limit, and nothing by less than roundings allow."""
    limit = np.where(region.limit > 0, region.limit, 1.0)
    if root.ndim == 1:
        return np.clip(root, _LEAST, limit)
    root = root / np.maximum(np.sqrt(np.sum(root**2, axis=1)) / limit, 1.0)[:, None]
    try:
        np.linalg.cholesky(root @ root.T - _LEAST**2 * np.eye(len(root)))
    except np.linalg.LinAlgError:
        left, sizes, right = np.linalg.svd(root)
        root = np.asarray(left * np.maximum(sizes, _LEAST) @ right)
    return root


def _factor(squares: Array, variance: Array, doubt: Array, times: float = 1.0) -> float:
    """What to multiply doubts by: how far off numbers were, and how much of that is noise.

    ``times``: how often each number stands among them.
    """
    before, noise = float(doubt.mean()), float(variance.mean())
    excess, numbers = float(squares.mean()) - noise, squares.size / times
    error = math.sqrt(2 / numbers)
    # The mean of two guesses, one as uncertain as it is large, one by the noise on what was seen.
    other = (error * (noise + max(excess, 0.0)) / before) ** 2
    drawn = (before * other + excess) / (1 + other)
    sure = excess - _SURE * error * noise
    return max(min(drawn, _MOST_DOUBT), sure, _NARROWEST * before) / before


@lru_cache(maxsize=32)
def _student(d: int, points: int) -> tuple[Array, Array]:
    """Profiles of Student's t of all tails and levels, and the logarithm of prior beliefs."""
    grid = np.array([*LENGTHS, *(4 * 2.0 ** np.arange(1, points - len(LENGTHS) + 1))])
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
