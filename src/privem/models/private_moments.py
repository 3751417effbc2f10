"""Sum and second moment of all records about the region's centre: one bounded release.

One record contributes (w1 y, w2 svec(y y')) with |y| <= the region's reach: the statistic of
:mod:`privem.models.sensitivity` with one component and w0 = 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ..core import Block, Group, Scratch
from ..linalg import svec
from ..tree import Array
from .region import Region
from .rounding import gamma
from .sensitivity import MomentWeights, capped

__all__ = ["BoundedMoments", "BoundedMomentsQuery"]


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

    @property
    def block_rows(self) -> int:
        """Blocks of about a megabyte."""
        return int(np.clip(2**17 // self.region.d, 64, 8184)) // 8 * 8

    def __call__(self, block: Block, scratch: Scratch) -> BoundedMoments:
        """Sum a block."""
        y = self.region.to_unit(block.X, scratch)
        w = self.weights
        weight = capped(block.weight, self.cap_weight, len(y))
        if weight is None:
            return BoundedMoments(w.w1 * y.sum(axis=0), w.w2 * svec(y.T @ y))
        total = weight @ y
        y *= np.sqrt(weight)[:, None]
        return BoundedMoments(w.w1 * total, w.w2 * svec(y.T @ y))

    def groups(self, neighbours: str) -> list[Group]:
        """One group; see :mod:`privem.models.sensitivity`."""
        d = self.region.d
        size = d + d * (d + 1) // 2
        return [Group("moments", slice(0, size), self.weights.l2(neighbours) * self.cap_weight)]

    def rounding(self, rows: float) -> float:
        """Unit coordinates are what they are; sums err by a rounding per row of a block."""
        return rows * gamma(self.block_rows + 32) * math.sqrt(self.weights.bound)
