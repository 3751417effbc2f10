"""Where the records lie, for k-means: a ball of their size first, then the axes within it.

The first release asks for the mean and the mean square only, d + 1 numbers that survive much noise;
the second for the covariance, in the ball of the first. What differs from a ball is kept as far as
it stands out of its noise (James and Stein), so that the frame of very noisy data is a ball of
about the right size at about the right place, never one drawn out by noise.

With many columns the second release asks for variances only, 2 d numbers instead of d^2/2: the
frame is diagonal, and its axes are the columns. It is the same query with another covariance type,
under the same bound (:mod:`privem.blocks.sensitivity`: a diagonal is a projection).
"""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...blocks.region import Region
from ...blocks.sensitivity import MomentWeights
from ...blocks.shrinkage import clip_radius, consistency, james_stein, soften, soften_each
from ...budget import Allowance
from ...core import Release, Stage
from ...linalg import smat
from ...tree import Array
from ..gaussian_mixture.model import Mixture
from ..gaussian_mixture.query import BoundedQuery, BoundedSums

FRAME_SHARES = (0.06, 0.10)
# Up to so many columns the frame has axes of its own. Their covariances are 33,000 numbers there, a
# twentieth of a second of noise; 2,000 columns would need two million. And noise on so many drowns
# them: with 20,000 rows of 300 columns the inertia was 0.89 of the total from variances and 0.92
# from covariances at epsilon 1, 0.66 and 0.71 at epsilon 4 (better data), 0.87 and 0.62 exact.
_MOST_TURNED = 256
# Least variance, in unit coordinates.
_FLOOR = 1e-6


def frame_sizes(d: int) -> tuple[int, int]:
    """How many numbers the two releases have."""
    return 2 + d, 1 + d + (d if d > _MOST_TURNED else d * (d + 1) // 2)


@dataclass(frozen=True)
class ClusterFrame:
    """Mean and covariance in unit coordinates, with parts ``"frame 1"`` and ``"frame 2"``.

    Of many columns the covariance is its diagonal, (d,).

    Parameters
    ----------
    region : Region
    count, rows : float
        Number of records, public or released, and a bound on it.
    allowance : Allowance
    guess : float
        Of the records' variance, in squares of the region's reach.
    cap_weight : float
    """

    region: Region
    count: float
    rows: float
    allowance: Allowance
    guess: float
    cap_weight: float = 1.0

    def stages(self) -> Generator[Stage, Release[Any], tuple[Array, Array]]:
        """Generate the stages."""
        d = self.region.d
        # In units of the region's reach nothing is clipped.
        r, unit = 1.0, self.region.reach**2
        mixture = Mixture("spherical", np.ones(1), np.zeros((1, d)), np.array([unit]))
        sums, w, sigma = yield from self._ask("frame 1", mixture, MomentWeights(0.0, 0.8, 0.6, r))
        mean = self._shrunk(sums.total / (w.w1 * self.count), sigma / (w.w1 * self.count))
        noise = sigma / (w.w2 * self.count)
        square = float(sums.second[0]) / (w.w2 * self.count) - float(mean @ mean)
        square = _between(square, noise, self.guess)
        centre = self.region.inside(mean[None] * self.region.reach)[0]
        variance = float(np.clip(square * unit / d, _FLOOR, unit))

        r = clip_radius(d)
        if d > _MOST_TURNED:
            ball = Mixture("diag", np.ones(1), centre[None], np.full((1, d), variance))
            half = math.sqrt(0.5)
            w = MomentWeights(0.0, half / r, half / r**2, r)
        else:
            ball = Mixture("full", np.ones(1), centre[None], np.eye(d)[None] * variance)
            w = MomentWeights.balanced(d, r, count=False)
        sums, w, sigma = yield from self._ask("frame 2", ball, w)
        mean = self._shrunk(sums.total / (w.w1 * self.count), sigma / (w.w1 * self.count))
        noise = sigma / (w.w2 * self.count)
        second = sums.second[0] / (w.w2 * self.count * consistency(d, r))
        if d > _MOST_TURNED:
            white = _nearly_equal(second - mean**2, noise)
        else:
            white = _nearly_round(smat(second, d) - np.outer(mean, mean), noise)
        centre = self.region.inside((centre + math.sqrt(variance) * mean)[None])[0]
        return centre, white * variance

    def _ask(
        self, part: str, mixture: Mixture, w: MomentWeights
    ) -> Generator[Stage, Release[Any], tuple[BoundedSums, MomentWeights, float]]:
        query = BoundedQuery(mixture, self.region, w, "whitened", self.rows, self.cap_weight)
        release = yield Stage(query, self.allowance.noise(part, self.rows), part)
        return release.statistics, w, release.spread

    @staticmethod
    def _shrunk(mean: Array, noise: float) -> Array:
        return np.asarray(james_stein(mean, np.array([noise**2]))[0])


def _between(value: float, noise: float, guess: float) -> float:
    """What to take a variance for, given a noisy one and a guess that may be as wrong as large."""
    drawn = (value * guess**2 + guess * noise**2) / (guess**2 + noise**2)
    return max(drawn, min(noise, guess) / 2)  # no narrower than what the noise can tell


def _nearly_round(matrix: Array, noise: float) -> Array:
    """A valid covariance: its deviation from a ball shrunk by what noise on its svec explains."""
    d = len(matrix)
    size = float(np.trace(matrix)) / d
    away = matrix - size * np.eye(d)
    kept = _kept(away, d * (d + 1) // 2 - 1, noise)
    size, low = _size_and_least(size, noise, d)
    return soften(size * np.eye(d) + kept * away, low, 0.0, 1e3)


def _nearly_equal(variances: Array, noise: float) -> Array:
    """The same of a diagonal."""
    d = len(variances)
    away = variances - variances.mean()
    kept = _kept(away, d - 1, noise)
    size, low = _size_and_least(float(variances.mean()), noise, d)
    return soften_each(size + kept * away, low, 0.0, 1e3)


def _kept(away: Array, numbers: int, noise: float) -> float:
    """James' and Stein's factor."""
    return max(0.0, 1.0 - numbers * noise**2 / max(float(np.sum(away**2)), 1e-300))


def _size_and_least(size: float, noise: float, d: int) -> tuple[float, float]:
    size = float(np.clip(_between(size, noise / math.sqrt(d), 1.0), 0.1, 4.0))
    return size, float(np.clip(noise, 0.02, 0.5 * size))
