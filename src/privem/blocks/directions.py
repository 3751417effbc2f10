"""Where records point: the second moment of bounded directions, for a spectral start.

A record x is whitened (``whitener``; ``None``: as it is), pulled onto the ball of radius ``radius``
and divided by it: v, |v| <= 1. It contributes h svec(v v') with |h| <= 1: h = 1, or, where there is
a target y, h = (y^2 - c)/(y^2 + c) with a public c. For records that are symmetric about b (a
mixture at +-b; covariates that explain y by <b, x>, weighted by how large y is) b is the top
eigenvector of its expectation, whatever the radius; a ball well inside the data takes the noise
down with it and makes outliers harmless.

*Sensitivity.* |h svec(v v')| <= |v|^2 <= 1: adding or removing a record moves the sum by at most 1.
<svec v v', svec u u'> = <v, u>^2 >= 0, so with h = 1 replacing one moves it by at most sqrt(2);
with signed h by at most 2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ..core import Block, Group, Scratch
from ..linalg import svec, symmetric_pairs, symmetric_scale
from ..tree import Array
from . import conditions
from .bounding import Clip
from .cells import Cell
from .gradient import check_records, in_region, reach
from .region import Region
from .rounding import U, gamma
from .sensitivity import capped

__all__ = ["DirectionSums", "DirectionsQuery"]

_UP = 1 + 2.0**-40


@dataclass(frozen=True)
class DirectionSums:
    """Packed second moment of directions."""

    second: Array


@dataclass(frozen=True)
class DirectionsQuery:
    """See above. ``square``: the constant c of records with a target."""

    region: Region
    radius: float
    whitener: Array | None = None
    target: Region | None = None
    square: float = 1.0
    cap_weight: float = 1.0
    cell: Cell | None = None
    travels = ("region", "radius", "whitener", "target", "square", "cap_weight", "cell")

    @property
    def block_rows(self) -> int:
        """Blocks of about half a megabyte."""
        return int(np.clip(2**16 // (self.region.d + 2), 64, 8184)) // 8 * 8

    @property
    def size(self) -> int:
        """How many numbers are released."""
        d = self.region.d
        return d * (d + 1) // 2

    def _directions(self, block: Block, scratch: Scratch) -> tuple[Array, Array | None]:
        """Directions v (d, b), and h (b,) or None where it is one."""
        x = in_region(block.X, self.region, self.target, scratch)
        d = self.region.d
        v = scratch.take("directions", (d, x.shape[1]))
        if self.whitener is None:
            v[:] = x[:d]
        else:
            np.matmul(self.whitener, x[:d], out=v)
        Clip(self.radius).apply(v, scratch)
        v /= self.radius
        if self.target is None:
            return v, None
        square = x[d] * x[d]
        return v, (square - self.square) / (square + self.square)

    def contributions(self, block: Block, scratch: Scratch) -> Array:
        """What each record of a block adds, (size, b), before weights."""
        v, h = self._directions(block, scratch)
        i, j = symmetric_pairs(len(v))
        f = v[i] * v[j] * symmetric_scale(len(v))[:, None]
        return np.asarray(f if h is None else f * h)

    def __call__(self, block: Block, scratch: Scratch) -> DirectionSums:
        """Sum a block."""
        v, h = self._directions(block, scratch)
        weight = capped(block.weight, self.cap_weight, v.shape[1])
        factor = h if weight is None else (weight if h is None else weight * h)
        return DirectionSums(svec((v if factor is None else v * factor) @ v.T))

    def unravel(self, vector: Array) -> DirectionSums:
        """The sums from the vector of their numbers."""
        return DirectionSums(vector)

    def groups(self, neighbours: str) -> list[Group]:
        """One group; derived above."""
        replaced = 2.0 if self.target is not None else math.sqrt(2.0)
        moved = {"add-remove": 1.0, "replace-one": replaced}[neighbours]
        return [Group("directions", slice(0, self.size), moved * self.cap_weight * _UP)]

    def rounding(self, rows: float) -> float:
        """Each v errs by its own rounding over the radius; h by a few units; v v' by twice that."""
        d, x = self.region.d, reach(self.region)
        given = 0.0
        if self.whitener is not None:
            given = gamma(d + 1) * float(np.linalg.norm(self.whitener)) * x
        off = Clip(self.radius).error(d, given) / self.radius + 4 * U
        moved = 2 * off + off * off + 32 * U
        return rows * (moved + gamma(self.block_rows + 32) * (1 + moved))

    def check(self, d: int, private: bool) -> None:
        """Of the features alone, it leaves a target aside."""
        aside = self.target is None and self.region.d == d - 1
        check_records(self, d - aside, private)
        conditions.ordinary(self.radius)
        conditions.need(0.0 < self.square < math.inf)
        if private:
            conditions.ordinary(self.square)
        if self.whitener is not None:
            conditions.shaped((self.region.d, self.region.d), self.whitener)
            conditions.magnitudes(self.whitener)

    def largest(self, low: Array, high: Array) -> Array:
        """No entry of v v' is beyond one; off the diagonal it is packed times sqrt(2)."""
        return np.full(self.size, 1.5)
