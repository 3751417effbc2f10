"""Counts of records: how many there are, and histograms that find where they lie, in any unit.

*Count.* Under add-remove neighbours the number of records is private too.

*Octaves.* How far each feature lies from a public centre, in half octaves below and above it: 384
on each side, from 2^-96 to 2^96, and one cell for what is nearer.

*Place.* Six grids at once, the cells of each a 32nd of the last one's, counted modulo 64. A fixed
number of cells, all of which get noise, whatever the data: together they give the place of a bulk
to a part in 2^29 of the coarsest grid.

*Norms.* Columns come in parts (all features; the target). Per part the half octave of the norm.

*Outside.* How many records lie outside of bounds.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..core import Block, Group, Scratch
from ..linalg import Array, U
from . import conditions
from .conditions import need, shaped
from .sensitivity import UP, capped, moved

# The number of records is taken to be below this: public knowledge about any data set there is.
MOST_ROWS = 2.0**36
_BITS = 36
# Half octaves, from 2^LOWEST on; cells of a signed histogram, the nearest in the middle.
HALF_OCTAVES, LOWEST = 384, -96
CELLS = 2 * HALF_OCTAVES + 1
# Grids of the place: how many, cells of each, and how much finer each is than the last, and the
# finest than the coarsest.
LEVELS, LEVEL_CELLS, FINER = 6, 64, 32
FINEST = float(FINER) ** (LEVELS - 1)
_LEVEL_BITS = 5
_HUGE = 1e150
_HALF = math.sqrt(0.5)


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


def _counted(cells: NDArray[np.int64], size: int) -> Array:
    """How many of (b, d) integers have each value below ``size``: (d, size)."""
    d = cells.shape[1]
    flat = cells + np.arange(d) * size
    return np.bincount(flat.ravel(), minlength=d * size).reshape(d, size).astype(float)


def edge(position: float) -> float:
    """How far from the centre a (fraction of a) half octave begins."""
    return float(2.0 ** (position / 2 + LOWEST))


@dataclass(frozen=True)
class OctaveQuery(_Counts):
    """Half octaves of x - centre, those below the centre first.

    Cell ``HALF_OCTAVES`` holds what is within 2^LOWEST of the centre. Above it, cell k holds the
    distances in (2^(k/2), 2^((k + 1)/2)] times 2^LOWEST; the last one has no end.

    Sensitivity. A record adds one to one cell per feature: sqrt(d). Replacing it moves one count
    per feature: sqrt(2 d).
    """

    centre: Array
    view: str = "persons"
    block_rows: int = 16_384
    least_rows: int = 4 * CELLS
    travels = ("centre",)

    def __call__(self, block: Block, scratch: Scratch) -> Histogram:
        """Count a block. NaN counts as the centre, infinity as far away: fixed public rules."""
        x = scratch.take("octaves", block.X.shape)
        with np.errstate(over="ignore", invalid="ignore"):
            np.subtract(block.X, self.centre, out=x)
        side = np.where(x < 0, -1, 1)
        size = np.nan_to_num(np.abs(x, out=x), copy=False, nan=0.0, posinf=_HUGE)
        # frexp is exact: size = m 2^e with 1/2 <= m < 1.
        m, e = np.frexp(size)
        cell = 2 * (e - LOWEST) - 2 + (m > _HALF) - (m == 0.5)
        cell[size == 0] = -1
        cell = np.clip(cell, -1, HALF_OCTAVES - 1) + 1
        return Histogram(_counted(HALF_OCTAVES + side * cell, CELLS))

    def groups(self, neighbours: str) -> list[Group]:
        """One group; the bound is derived above."""
        d = len(self.centre)
        bound = math.sqrt(moved(neighbours, d, 2 * d)) * UP
        return [Group("octaves", slice(0, d * CELLS), bound)]

    def check(self, d: int, private: bool) -> None:
        """A centre for each column."""
        shaped((d,), self.centre)


@dataclass(frozen=True)
class PlaceQuery(_Counts):
    """Cells of six grids, counted modulo 64: (d, 6, 64), the coarsest grid first.

    Cell i of a grid of width w holds what is nearest to i w, modulo 64 w. The finest grid has the
    given width, every other is 32 times as coarse as the next.

    Parameters
    ----------
    width : array of shape (d,)
        Of the finest cells; powers of two.

    Sensitivity. A record adds at most one to one cell of each grid of each feature: sqrt(6 d).
    Replacing it moves two counts in each: sqrt(12 d).
    """

    width: Array
    view: str = "persons"
    block_rows: int = 16_384
    least_rows: int = 4 * LEVELS * LEVEL_CELLS
    travels = ("width",)

    def __call__(self, block: Block, scratch: Scratch) -> Histogram:
        """Count a block. NaN counts nowhere, and infinity or what is too far off as zero.

        So values that are missing do not make up a bulk.
        """
        x = scratch.take("place", block.X.shape)
        with np.errstate(over="ignore", invalid="ignore"):
            np.divide(block.X, self.width, out=x)
        gap = np.isnan(x)
        np.rint(x, out=x)
        x[~(np.abs(x) < 2.0**62)] = 0.0
        fine = x.astype(np.int64)
        counts = np.empty((len(self.width), LEVELS, LEVEL_CELLS))
        for level in range(LEVELS):
            shift = _LEVEL_BITS * (LEVELS - 1 - level)
            cell = (fine + ((1 << shift) >> 1)) >> shift
            cell = np.where(gap, LEVEL_CELLS, cell & (LEVEL_CELLS - 1))
            counts[:, level] = _counted(cell, LEVEL_CELLS + 1)[:, :-1]
        return Histogram(counts)

    def groups(self, neighbours: str) -> list[Group]:
        """One group; the bound is derived above."""
        cells = len(self.width) * LEVELS
        bound = math.sqrt(moved(neighbours, cells, 2 * cells)) * UP
        return [Group("places", slice(0, cells * LEVEL_CELLS), bound)]

    def check(self, d: int, private: bool) -> None:
        """Cells have a width."""
        shaped((d,), self.width)
        need((self.width > 0).all())


@dataclass(frozen=True)
class NormQuery(_Counts):
    """Half octaves of norms; ``widths``: how many columns each part has.

    The first cell holds norms up to 2^LOWEST, the others are those of one side of
    :class:`OctaveQuery`.

    Sensitivity. A record adds one to one cell per part: sqrt(parts). Replacing it moves one count
    per part: sqrt(2 parts).
    """

    widths: tuple[int, ...]
    view: str = "persons"
    block_rows: int = 16_384
    travels = ("widths",)

    def __call__(self, block: Block, scratch: Scratch) -> Histogram:
        """Count a block."""
        cells = [_octave(square) for square in _squares(block.X, self.widths)]
        return Histogram(_counted(np.stack(cells, axis=1), HALF_OCTAVES + 1))

    def groups(self, neighbours: str) -> list[Group]:
        """One group; the bound is derived above."""
        parts = len(self.widths)
        bound = math.sqrt(moved(neighbours, parts, 2 * parts)) * UP
        return [Group("norms", slice(0, parts * (HALF_OCTAVES + 1)), bound)]

    def check(self, d: int, private: bool) -> None:
        """One or two parts, which are all columns."""
        need(0 < len(self.widths) <= 2 and min(self.widths) > 0 and sum(self.widths) == d)


@dataclass(frozen=True)
class OutsideQuery(_Counts):
    """How many records are further from the centre than the radius, in each part of the columns.

    Parameters
    ----------
    widths : tuple of int
        How many columns each part has: one each for a box, all of them for a ball.
    centre : array of shape (d,)
    radius : array of shape (parts,)

    Sensitivity. A record adds at most one to each part, and replacing it moves each count by at
    most one: sqrt(parts) either way.
    """

    widths: tuple[int, ...]
    centre: Array
    radius: Array
    view: str = "persons"
    block_rows: int = 16_384
    travels = ("widths", "centre", "radius")

    def __call__(self, block: Block, scratch: Scratch) -> Histogram:
        """Count a block."""
        squares = _squares(block.X, self.widths, self.centre)
        limits = np.square(self.radius)
        outside = [np.sum(one > limit) for one, limit in zip(squares, limits, strict=True)]
        return Histogram(np.array(outside, dtype=float))

    def groups(self, neighbours: str) -> list[Group]:
        """One group; the bound is derived above."""
        parts = len(self.widths)
        return [Group("outside", slice(0, parts), math.sqrt(parts) * UP)]

    def check(self, d: int, private: bool) -> None:
        """Parts, which are all columns; a centre for each column, a radius for each part."""
        need(len(self.widths) > 0 and min(self.widths) > 0 and sum(self.widths) == d)
        shaped((d,), self.centre)
        shaped((len(self.widths),), self.radius)


def _squares(rows: Array, widths: tuple[int, ...], centre: Array | None = None) -> Iterator[Array]:
    """Squared distances of records (b, d) from the centre, (b,) for each part of the columns.

    NaN counts as the centre, infinity as huge: fixed public rules. Columns are added one after the
    other, so that it is the same in every block.
    """
    at = 0
    for width in widths:
        square = np.zeros(len(rows))
        for column in range(at, at + width):
            value = np.asarray(rows[:, column], dtype=np.float64)
            if centre is not None:
                value = value - centre[column]
            size = np.fmin(np.abs(np.nan_to_num(value, nan=0.0)), _HUGE)
            square += size * size
        yield square
        at += width


def _octave(square: Array) -> NDArray[np.int64]:
    """The cell of a norm: 0 for up to 2^LOWEST, k + 1 for (2^(k/2), 2^((k + 1)/2)] times that."""
    # frexp is exact: square = m 2^e with 1/2 <= m < 1.
    m, e = np.frexp(np.fmin(square, _HUGE**2))
    cell = e - 2 * LOWEST - (m == 0.5)
    return np.where(square == 0, 0, np.clip(cell, 0, HALF_OCTAVES))
