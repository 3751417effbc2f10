"""Histograms that find where the data lie, in any unit, without a hint.

*Scale.* Differences of random disjoint pairs of records do not depend on where the data lie. Their
octaves, floor(log2 |x - x'|), are counted per feature, 80 of them from 2^-40 on.

*Place.* With the scale s (a power of two) known, records fall into bins of width 4 s. Bins are
counted by their index modulo 4096: a fixed number of cells, every one of which gets noise, whatever
the data. That gives the place up to multiples of 4096 bins; two more rounds, each 4096 times as
coarse and centred on what is known, give the rest.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ..core import Block, Group, Scratch
from ..tree import Array

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
    flat = cells.astype(np.int64) + np.arange(d) * size
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


@dataclass(frozen=True)
class PlaceQuery:
    """Bins of a given width, counted modulo ``CELLS``.

    Parameters
    ----------
    width : array of shape (d,)
        Powers of two.
    centre : array of shape (d,)
        The middle of bin 0, so that what was found in an earlier round does not straddle two.

    Sensitivity. A record adds one to one cell per feature: sqrt(d). Replacing it moves one count
    per feature: sqrt(2 d).
    """

    width: Array
    centre: Array
    view: str = "persons"
    block_rows: int = 65_536

    def __call__(self, block: Block, scratch: Scratch) -> Histogram:
        """Count a block."""
        with np.errstate(over="ignore", invalid="ignore"):
            index = np.rint((block.X - self.centre) / self.width)
            cell = np.mod(np.nan_to_num(index, nan=0.0, posinf=0.0, neginf=0.0), CELLS)
        # mod of a huge negative number may round up to CELLS itself.
        return _histogram(np.mod(cell + CELLS // 2, CELLS) % CELLS, CELLS)

    def groups(self, neighbours: str) -> list[Group]:
        """One group; the bound is derived above."""
        d = len(self.width)
        bound = math.sqrt(2 * d if neighbours == "replace-one" else d) * _UP
        return [Group("places", slice(0, d * CELLS), bound)]

    def rounding(self, rows: float) -> float:
        """Whole numbers: no rounding error."""
        return 0.0
