"""Bounded sums over records with missing entries: how often, how large, and their moments.

Records are pulled into a public region and missing entries (NaN) set to zero; x, y are then scaled
by public radii, a = x/r_x and c = y/r_y, each pulled onto the unit ball.

*Scales.* A record contributes (o/sqrt(d), |a|^2, c^2), o being one for observed entries: norm at
most sqrt(3), and as entries lie in [0, 1/sqrt(d)] and [0, 1] replacing a record moves no more.

*Moments.* With v = (a, c)/sqrt(2), |v| <= 1, a record contributes svec(v v'), of norm |v|^2 <= 1;
<v v', u u'> = <v, u>^2 >= 0, so replacing one moves the sum by at most sqrt(2).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ...blocks.cells import Cell
from ...blocks.conditions import ordinary
from ...blocks.gradient import check_records, in_region
from ...blocks.region import Region
from ...blocks.rounding import gamma
from ...blocks.sensitivity import capped
from ...core import Block, Group, Scratch
from ...linalg import svec, symmetric_pairs, symmetric_scale
from ...tree import Array

__all__ = ["ObservedMoments", "ObservedMomentsQuery", "ScaleSums", "ScalesQuery"]

_UP = 1 + 2.0**-40


@dataclass(frozen=True)
class ScaleSums:
    """How often entries are observed (d,), over sqrt(d); sums of |a|^2 and c^2 (2,)."""

    observed: Array
    squares: Array


@dataclass(frozen=True)
class ObservedMoments:
    """Packed sum of v v'."""

    second: Array


@dataclass(frozen=True)
class _Records:
    """What both queries know. ``radii``: r_x and r_y."""

    region: Region
    target: Region
    radii: tuple[float, float]
    cap_weight: float = 1.0
    cell: Cell | None = None
    travels = ("region", "target", "radii", "cap_weight", "cell")

    @property
    def block_rows(self) -> int:
        """Blocks of about half a megabyte."""
        return int(np.clip(2**16 // (self.region.d + 2), 64, 8184)) // 8 * 8

    def _scaled(self, block: Block, scratch: Scratch) -> tuple[Array, Array, Array]:
        """Observed (d, b), a (d, b) and c (b,)."""
        x = in_region(block.X, self.region, self.target, scratch, masks=True)
        d = self.region.d
        observed = ~np.isnan(block.X[:, :d].T)
        a = np.where(observed, x[:d], 0.0) / self.radii[0]
        a /= np.maximum(np.sqrt(np.einsum("ij,ij->j", a, a)), 1.0)
        return observed.astype(np.float64), a, np.clip(x[d] / self.radii[1], -1.0, 1.0)

    def check(self, d: int, private: bool) -> None:
        """Regions of features and target, and a radius for each."""
        check_records(self, d, private)
        ordinary(*self.radii)


@dataclass(frozen=True)
class ScalesQuery(_Records):
    """How often entries are observed, and how large records are."""

    @property
    def size(self) -> int:
        """How many numbers are released."""
        return self.region.d + 2

    def contributions(self, block: Block, scratch: Scratch) -> Array:
        """What each record of a block adds, (size, b), before weights."""
        observed, a, c = self._scaled(block, scratch)
        observed /= math.sqrt(self.region.d)
        squares = np.stack([np.minimum(np.einsum("ij,ij->j", a, a), 1.0), c * c])
        return np.concatenate([observed, squares])

    def __call__(self, block: Block, scratch: Scratch) -> ScaleSums:
        """Sum a block."""
        f = self.contributions(block, scratch)
        weight = capped(block.weight, self.cap_weight, f.shape[1])
        return self.unravel(f.sum(axis=1) if weight is None else f @ weight)

    def unravel(self, vector: Array) -> ScaleSums:
        """The sums from the vector of their numbers."""
        return ScaleSums(vector[:-2], vector[-2:])

    def groups(self, neighbours: str) -> list[Group]:
        """One group; derived above."""
        return [Group("scales", slice(0, self.size), math.sqrt(3.0) * self.cap_weight * _UP)]

    def rounding(self, rows: float) -> float:
        """A few roundings of each entry, one per row of a block of the sums; all are positive."""
        return rows * 2 * (gamma(self.region.d + 16) + gamma(self.block_rows + 32))


@dataclass(frozen=True)
class ObservedMomentsQuery(_Records):
    """Second moments of what is observed."""

    @property
    def size(self) -> int:
        """How many numbers are released."""
        q = self.region.d + 1
        return q * (q + 1) // 2

    def _v(self, block: Block, scratch: Scratch) -> Array:
        _, a, c = self._scaled(block, scratch)
        return np.concatenate([a, c[None]]) * math.sqrt(0.5)

    def contributions(self, block: Block, scratch: Scratch) -> Array:
        """What each record of a block adds, (size, b), before weights."""
        v = self._v(block, scratch)
        i, j = symmetric_pairs(len(v))
        return np.asarray(v[i] * v[j] * symmetric_scale(len(v))[:, None])

    def __call__(self, block: Block, scratch: Scratch) -> ObservedMoments:
        """Sum a block."""
        v = self._v(block, scratch)
        weight = capped(block.weight, self.cap_weight, v.shape[1])
        return ObservedMoments(svec((v if weight is None else v * weight) @ v.T))

    def unravel(self, vector: Array) -> ObservedMoments:
        """The sums from the vector of their numbers."""
        return ObservedMoments(vector)

    def groups(self, neighbours: str) -> list[Group]:
        """One group; derived above."""
        moved = {"add-remove": 1.0, "replace-one": math.sqrt(2.0)}[neighbours]
        return [Group("moments", slice(0, self.size), moved * self.cap_weight * _UP)]

    def rounding(self, rows: float) -> float:
        """Of v: gamma_{d+16}, twice that of v v'; of the sums: a rounding per row."""
        off = 2.5 * gamma(self.region.d + 16)
        return rows * (off + gamma(self.block_rows + 32) * (1 + off))
