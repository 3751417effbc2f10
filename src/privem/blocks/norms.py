"""How large records are: histograms of norms, for bounds nobody gave, and bounded squares.

*Norms.* Columns come in parts (all features; the target). Per part one cell of 160 is counted: the
half octave of the norm, from 2^-40 to 2^40. A record adds one to one cell per part: sqrt(parts);
replacing it moves one count per part: sqrt(2 parts).

*Squares.* With public radii r, sum |x|^2/r^2 per part, each within [0, 1]: sqrt(parts), for either
relation, as no entry moves by more than one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ..core import Block, Group, Scratch
from ..tree import Array
from .bounds import Histogram
from .cells import Cell
from .conditions import need, ordinary
from .gradient import check_records, in_region
from .region import Region
from .rounding import gamma
from .sensitivity import capped

__all__ = ["HALF_OCTAVES", "NormQuery", "SquareSums", "SquaresQuery", "upper_edge"]

HALF_OCTAVES, _LOWEST = 160, -80
_UP = 1 + 2.0**-40
_HUGE = 1e150


def upper_edge(cell: int) -> float:
    """The norm at which a cell ends."""
    return float(2.0 ** ((cell + 1 + _LOWEST) / 2))


@dataclass(frozen=True)
class NormQuery:
    """Histograms of norms; ``widths``: how many columns each part has."""

    widths: tuple[int, ...]
    view: str = "persons"
    block_rows: int = 16_384
    travels = ("widths",)

    def __call__(self, block: Block, scratch: Scratch) -> Histogram:
        """Count a block. NaN counts as nothing, infinity as huge: fixed public rules."""
        counts, at = np.zeros((len(self.widths), HALF_OCTAVES)), 0
        for part, width in enumerate(self.widths):
            square = np.zeros(len(block.X))
            for column in range(at, at + width):  # one after the other: the same in every block
                value = np.asarray(block.X[:, column], dtype=np.float64)
                size = np.fmin(np.abs(np.nan_to_num(value, nan=0.0)), _HUGE)
                square += size * size
            # frexp is exact: square = m 2^e, 1/2 <= m < 1, so floor(log2 square) = e - 1.
            _, exponent = np.frexp(np.fmin(square, _HUGE**2))
            cell = np.where(square == 0, 0, exponent - 1 - _LOWEST)
            cell = np.clip(cell, 0, HALF_OCTAVES - 1)
            counts[part] = np.bincount(cell, minlength=HALF_OCTAVES)
            at += width
        return Histogram(counts)

    def groups(self, neighbours: str) -> list[Group]:
        """One group; derived above."""
        parts = len(self.widths)
        moved = math.sqrt(2 * parts if neighbours == "replace-one" else parts)
        return [Group("norms", slice(0, parts * HALF_OCTAVES), moved * _UP)]

    def rounding(self, rows: float) -> float:
        """Whole numbers: no rounding error."""
        return 0.0

    def check(self, d: int, private: bool) -> None:
        """One or two parts, which are all columns."""
        need(0 < len(self.widths) <= 2 and min(self.widths) > 0 and sum(self.widths) == d)


@dataclass(frozen=True)
class SquareSums:
    """Sum of squared norms per part, in units of the squared radius."""

    squares: Array


@dataclass(frozen=True)
class SquaresQuery:
    """Squares of records pulled onto balls of public ``radii`` (after their regions)."""

    region: Region
    radii: tuple[float, ...]
    target: Region | None = None
    cap_weight: float = 1.0
    cell: Cell | None = None
    travels = ("region", "radii", "target", "cap_weight", "cell")

    @property
    def block_rows(self) -> int:
        """Blocks of about half a megabyte."""
        return int(np.clip(2**16 // (self.region.d + 2), 64, 8184)) // 8 * 8

    @property
    def size(self) -> int:
        """How many numbers are released."""
        return len(self.radii)

    def contributions(self, block: Block, scratch: Scratch) -> Array:
        """What each record of a block adds, (parts, b), before weights."""
        x = in_region(block.X, self.region, self.target, scratch)
        d = self.region.d
        parts = [x[:d]] if self.target is None else [x[:d], x[d:]]
        squares = [np.einsum("ij,ij->j", part, part) for part in parts]
        return np.stack(
            [np.minimum(s / r**2, 1.0) for s, r in zip(squares, self.radii, strict=True)]
        )

    def __call__(self, block: Block, scratch: Scratch) -> SquareSums:
        """Sum a block."""
        f = self.contributions(block, scratch)
        weight = capped(block.weight, self.cap_weight, f.shape[1])
        return SquareSums(f.sum(axis=1) if weight is None else f @ weight)

    def unravel(self, vector: Array) -> SquareSums:
        """The sums from the vector of their numbers."""
        return SquareSums(vector)

    def groups(self, neighbours: str) -> list[Group]:
        """One group; derived above."""
        moved = math.sqrt(self.size) * self.cap_weight * _UP
        return [Group("squares", slice(0, self.size), moved)]

    def rounding(self, rows: float) -> float:
        """Squares to d roundings, sums to one per row of a block; all terms are positive."""
        relative = gamma(self.region.d + 16) + gamma(self.block_rows + 32)
        return rows * 2 * math.sqrt(self.size) * relative

    def check(self, d: int, private: bool) -> None:
        """A radius for each part."""
        check_records(self, d, private)
        need(len(self.radii) == 1 + (self.target is not None))
        ordinary(*self.radii)
