"""Counts of records: how many there are, and histograms that find where they lie, in any unit.

*Count.* Under add-remove neighbours the number of records is private too.

*Scale.* Differences of random disjoint pairs of records do not depend on where the data lie. Their
octaves, floor(log2 |x - x'|), are counted per feature, 80 of them from 2^-40 on.

*Place.* With the scale s (a power of two) known, records fall into bins of width 4 s. Bins are
counted by their index modulo 4096: a fixed number of cells, every one of which gets noise, whatever
the data. That gives the place up to multiples of 4096 bins; two more rounds, each 4096 times as
coarse and centred on what is known, give the rest. With many columns there are 64 cells instead of
4096, and six rounds instead of three: a twentieth of the numbers.

*Norms.* Columns come in parts (all features; the target). Per part one cell of 160 is counted: the
half octave of the norm, from 2^-40 to 2^40.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ..core import Block, Group, Scratch
from ..linalg import U
from ..tree import Array
from . import conditions
from .conditions import need, shaped
from .sensitivity import UP, capped, moved

# The number of records is taken to be below this: public knowledge about any data set there is.
MOST_ROWS = 2.0**36
_BITS = 36
OCTAVES, LOWEST_OCTAVE = 80, -40
CELLS = 4096
HALF_OCTAVES, _LOWEST = 160, -80
_HUGE = 1e150


@dataclass(frozen=True)
class Count:
    """Number of records, or sum of their weights."""

    count: Array


@dataclass(frozen=True)
class CountQuery:
    """Counts records; one record counts at most ``cap_weight``.

    Weights are rounded down to multiples of q = 2^-36 of the power of two above the cap. A block's
    sum is then exact in any order (16 + 36 bits), and so are the carries of the running total: all
    that is ever rounded is the final sum, once. At most ``MOST_ROWS`` q <= 2 caps are lost.
    """

    cap_weight: float = 1.0
    block_rows: int = 65_536
    kind: str = "gaussian"
    travels = ("cap_weight",)

    def __call__(self, block: Block, scratch: Scratch) -> Count:
        """Sum a block."""
        weight = capped(block.weight, self.cap_weight, len(block.X))
        if weight is None:
            return Count(np.asarray(float(len(block.X))))
        step = math.ldexp(1.0, math.frexp(self.cap_weight)[1] - _BITS)
        return Count(np.asarray(np.floor(weight / step).sum() * step))

    def groups(self, neighbours: str) -> list[Group]:
        """A record adds a weight in [0, cap]; replacing one moves the sum by at most the cap.

        It is one number, so the norms of both kinds of noise agree.
        """
        return [Group("count", slice(0, 1), self.cap_weight * UP, self.kind)]

    def rounding(self, rows: float) -> float:
        """One rounding of the total, which is at most ``rows`` caps."""
        return rows * self.cap_weight * 2 * U

    def check(self, d: int, private: bool) -> None:
        """A weight has a cap."""
        conditions.ordinary(self.cap_weight)


@dataclass(frozen=True)
class Histogram:
    """Counts per feature and cell, (d, cells)."""

    counts: Array


class _Counts:
    """What the queries that count records in cells share."""

    def rounding(self, rows: float) -> float:
        """Whole numbers: no rounding error."""
        return 0.0


def _histogram(cells: Array, size: int) -> Histogram:
    """Count (b, d) integer cells."""
    d = cells.shape[1]
    flat = (cells + np.arange(d) * float(size)).astype(np.intp)  # whole numbers: nothing is rounded
    return Histogram(np.bincount(flat.ravel(), minlength=d * size).reshape(d, size).astype(float))


@dataclass(frozen=True)
class OctaveQuery(_Counts):
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
        return [Group("octaves", slice(0, self.d * OCTAVES), math.sqrt(2 * self.d) * UP)]

    def check(self, d: int, private: bool) -> None:
        """Of all columns."""
        need(self.d == d)


@dataclass(frozen=True)
class PlaceQuery(_Counts):
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
        bound = math.sqrt(moved(neighbours, d, 2 * d)) * UP
        return [Group("places", slice(0, d * self.cells), bound)]

    def check(self, d: int, private: bool) -> None:
        """Bins have a width, and the number of cells is a power of two."""
        need(self.cells & (self.cells - 1) == 0 and 2 <= self.cells <= CELLS)
        shaped((d,), self.width, self.centre)
        need((self.width > 0).all())


def upper_edge(cell: int) -> float:
    """The norm at which a cell ends."""
    return float(2.0 ** ((cell + 1 + _LOWEST) / 2))


@dataclass(frozen=True)
class NormQuery(_Counts):
    """Half octaves of norms; ``widths``: how many columns each part has.

    Sensitivity. A record adds one to one cell per part: sqrt(parts). Replacing it moves one count
    per part: sqrt(2 parts).
    """

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
        """One group; the bound is derived above."""
        parts = len(self.widths)
        bound = math.sqrt(moved(neighbours, parts, 2 * parts)) * UP
        return [Group("norms", slice(0, parts * HALF_OCTAVES), bound)]

    def check(self, d: int, private: bool) -> None:
        """One or two parts, which are all columns."""
        need(0 < len(self.widths) <= 2 and min(self.widths) > 0 and sum(self.widths) == d)
