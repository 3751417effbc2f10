"""Histograms that find where the data lie, in any unit, without a hint.

*Scale.* Differences of random disjoint pairs of records do not depend on where the data lie. Their
octaves, floor(log2 |x - x'|), are counted per feature, 80 of them from 2^-40 on.

*Place.* With the scale s (a power of two) known, records fall into bins of width 4 s. Bins are
counted by their index modulo 4096: a fixed number of cells, every one of which gets noise, whatever
the data. That gives the place up to multiples of 4096 bins; two more rounds, each 4096 times as
coarse and centred on what is known, give the rest. With many columns there are 64 cells instead of
4096, and six rounds instead of three: a twentieth of the numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ..core import Block, Group, Scratch
from ..tree import Array
from .conditions import need, shaped

__all__ = ["CELLS", "LOWEST_OCTAVE", "OCTAVES", "Histogram", "OctaveQuery", "PlaceQuery"]

OCTAVES, LOWEST_OCTAVE = 80, -40
CELLS = 4096
_UP = 1 + 2.0**-40


@dataclass(frozen=True)
class Histogram:
    """Counts per feature and cell, (d, cells)."""

    counts: Array


def _histogram(cells: Array, size: int) -> Histogram:
    """Count (b, d) integer cells."""
    d = cells.shape[1]
    flat = (cells + np.arange(d) * float(size)).astype(np.intp)  # whole numbers: nothing is rounded
    return Histogram(np.bincount(flat.ravel(), minlength=d * size).reshape(d, size).astype(float))


@dataclass(frozen=True)
class OctaveQuery:
    """Octaves of differences. Blocks hold one row per *pair* of records (``view``).

    Sensitivity. The matching is uniformly random and secret. Replacing a record changes one pair:
    per feature one count falls and one rises, sqrt(2 d) over d features. Adding or removing one:
    couple the matchings of n and n - 1 records so that all other pairs are the same but at most one
    pair that is replaced; both matchings stay uniform, and privacy holds for each coupled pair,
    hence for the mixture. Again sqrt(2 d). Proof: docs/proofs/release.md, section 7.
    """

    d: int
    view: str = "pairs"
    block_rows: int = 65_536
    least_rows: int = 4 * OCTAVES
    travels = ("d",)

    def __call__(self, block: Block, scratch: Scratch) -> Histogram:
        """Count a block of absolute differences."""
        # frexp is exact: |x| = m 2^e with 1/2 <= m < 1, so floor(log2 |x|) = e - 1.
        _, exponent = np.frexp(np.nan_to_num(np.abs(block.X), nan=0.0, posinf=1e300))
        octave = np.where(block.X == 0, LOWEST_OCTAVE, exponent - 1)
        return _histogram(np.clip(octave - LOWEST_OCTAVE, 0, OCTAVES - 1), OCTAVES)

    def groups(self, neighbours: str) -> list[Group]:
        """One group; the bound is derived above."""
        return [Group("octaves", slice(0, self.d * OCTAVES), math.sqrt(2 * self.d) * _UP)]

    def rounding(self, rows: float) -> float:
        """Whole numbers: no rounding error."""
        return 0.0

    def check(self, d: int, private: bool) -> None:
        """Of all columns."""
        need(self.d == d)


@dataclass(frozen=True)
class PlaceQuery:
    """Bins of a given width, counted modulo ``cells``.

    Parameters
    ----------
    width : array of shape (d,)
        Powers of two.
    centre : array of shape (d,)
        The middle of bin 0, so that what was found in an earlier round does not straddle two.
    cells : int
        A power of two, at least 2.

    Sensitivity. A record adds one to one cell per feature: sqrt(d). Replacing it moves one count
    per feature: sqrt(2 d).
    """

    width: Array
    centre: Array
    cells: int = CELLS
    view: str = "persons"
    block_rows: int = 65_536
    travels = ("width", "centre", "cells")

    @property
    def least_rows(self) -> int:
        """Below so many rows in a block, adding its counts up would cost as much as counting."""
        return 4 * self.cells

    def __call__(self, block: Block, scratch: Scratch) -> Histogram:
        """Count a block."""
        index, turns = scratch.take("place", (2, *block.X.shape))
        with np.errstate(over="ignore", invalid="ignore"):
            np.subtract(block.X, self.centre, out=index)
            index /= self.width
        np.rint(index, out=index)
        np.copyto(index, 0.0, where=~np.isfinite(index))
        # Modulo a power of two, exactly: np.mod takes ten times as long.
        np.multiply(index, 1.0 / self.cells, out=turns)
        np.floor(turns, out=turns)
        turns *= self.cells
        index -= turns
        index += self.cells // 2
        np.subtract(index, self.cells, out=index, where=index >= self.cells)
        return _histogram(index, self.cells)

    def groups(self, neighbours: str) -> list[Group]:
        """One group; the bound is derived above."""
        d = len(self.width)
        bound = math.sqrt(2 * d if neighbours == "replace-one" else d) * _UP
        return [Group("places", slice(0, d * self.cells), bound)]

    def rounding(self, rows: float) -> float:
        """Whole numbers: no rounding error."""
        return 0.0

    def check(self, d: int, private: bool) -> None:
        """Bins have a width, and the number of cells is a power of two."""
        need(self.cells & (self.cells - 1) == 0 and 2 <= self.cells <= CELLS)
        shaped((d,), self.width, self.centre)
        need((self.width > 0).all())
