"""Sum and second moment of all records about the region's centre: one bounded release.

One record contributes (w1 y, w2 svec(y y')) with |y| <= the region's reach: the statistic of
:mod:`privem.blocks.sensitivity` with one component and w0 = 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...blocks import conditions
from ...blocks.moments import first_two
from ...blocks.region import Region
from ...blocks.sensitivity import MomentWeights, capped, check_bounded
from ...blocks.shrinkage import clean, james_stein
from ...core import Block, Group, Release, Scratch
from ...linalg import Array, gamma, smat


@dataclass(frozen=True)
class BoundedMoments:
    """Weighted sum (d,) and packed second moment."""

    total: Array
    second: Array


@dataclass(frozen=True)
class BoundedMomentsQuery:
    """Sum and second moment in unit coordinates."""

    region: Region
    weights: MomentWeights
    cap_weight: float = 1.0
    travels = ("region", "weights", "cap_weight")

    @property
    def block_rows(self) -> int:
        """Blocks of about a megabyte."""
        return int(np.clip(2**17 // self.region.d, 64, 8184)) // 8 * 8

    def __call__(self, block: Block, scratch: Scratch) -> BoundedMoments:
        """Sum a block."""
        y = self.region.to_unit(block.X, scratch)
        w = self.weights
        total, second = first_two(y, capped(block.weight, self.cap_weight, len(y)))
        return BoundedMoments(w.w1 * total, w.w2 * second)

    def groups(self, neighbours: str) -> list[Group]:
        """One group; see :mod:`privem.blocks.sensitivity`."""
        d = self.region.d
        size = d + d * (d + 1) // 2
        return [Group("moments", slice(0, size), self.weights.l2(neighbours) * self.cap_weight)]

    def rounding(self, rows: float) -> float:
        """Unit coordinates are what they are; sums err by a rounding per row of a block."""
        return rows * gamma(self.block_rows + 32) * math.sqrt(self.weights.bound)

    def check(self, d: int, private: bool) -> None:
        """The radius covers the region."""
        check_bounded(self.region, self.weights, self.cap_weight, d)
        conditions.held(1, 1, d + d * (d + 1) // 2)


@dataclass(frozen=True)
class NoisyMoments:
    """Mean and second moment after a release, and the deviations of their noise. Public.

    Parameters
    ----------
    mean : array of shape (d,)
    second : array of shape (d, d)
    mean_noise : float
        Of each number of the mean.
    noise : float
        Of each :func:`privem.linalg.svec` entry of the second moment.
    """

    mean: Array
    second: Array
    mean_noise: float
    noise: float

    @classmethod
    def of(cls, release: Release[Any], weights: MomentWeights, count: float) -> NoisyMoments:
        """From a release of sums with these weights."""
        total, second = release.statistics.total, release.statistics.second
        first, square = weights.w1 * count, weights.w2 * count
        deviation = release.spread
        return cls(
            total / first, smat(second / square, len(total)), deviation / first, deviation / square
        )

    def gaussian(self, typical: float, low: float, high: float) -> tuple[Array, Array]:
        """Mean and covariance with the noise taken out as far as its known size allows.

        ``typical, low, high`` are variances, see :func:`privem.blocks.shrinkage.clean`.
        """
        # The square of a noisy mean has a bias as large as its noise, d deviations squared. What
        # noise leaves of it by chance is drawn to the origin, which it is not typically far from.
        mean = james_stein(self.mean[None], np.full(1, self.mean_noise**2))[0]
        mean = mean * (typical / (typical + self.mean_noise**2))
        covariance = self.second - np.outer(mean, mean)
        return mean, clean(covariance, self.noise, typical, low, high)
