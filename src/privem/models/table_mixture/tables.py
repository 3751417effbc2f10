"""How many records each cell of each column holds, and each cell of tables of two columns.

A record is d cells, one of each column: cell c of a column is the whole number c. Whatever else a
row holds is a cell too, by a fixed public rule: numbers are cut to whole ones and to the column's
first and last cell, and NaN is its first.

*Sensitivity.* Both queries fill m tables: one for each column (m = d), or one for each of m pairs
of columns (with a target, for each pair and the target). Of each table a record of weight w moves
one cell, by w. So it contributes a vector of m entries w and zeros else, of norm w sqrt(m): adding
or removing a record moves the sum by at most sqrt(m). Two records have an inner product that is not
negative, so that replacing one moves it by at most sqrt(2 m); two that share no cell attain it.
Weights and persons multiply both by the cap on weights (:mod:`privem.blocks.sensitivity`).

*Rounding.* Weights are cut to multiples of q = 2^-36 of the power of two above the cap, so that
what a record adds depends on the record alone, wherever it stands in a block. Sums over a block of
at most 2^16 records are multiples of q below 2^53 q, hence exact in any order; without weights they
are whole numbers. The running total carries what it rounds (:class:`privem.linalg.RunningSum`), so
that the final sum is rounded once, by a part in 2^53 of each number. Proof: docs/proofs/tables.md.

*How many pairs.* All of them by default. The noise on each number grows with sqrt(m), so what m
tables say together about how columns depend, the sum of squares of their cells' excess over the
noise's square, is the *mean* of what each would say alone: tables that are left out without a look
at the data gain the others nothing on average. (From 100 columns on it depends on the data: a part
is better where all columns depend alike, and worse where they depend in groups;
experiments/tables.) Nor does a choice of pairs that looks at the data (figures:
docs/proofs/tables.md, section 7). Wide data get fewer bins instead
(:func:`privem.models.table_mixture.bins.bins_for`), which also keeps the numbers few.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from ...blocks import conditions
from ...blocks.sensitivity import UP, capped, moved
from ...core import Block, Group, Scratch
from ...linalg import Array, U

Codes = NDArray[np.int64]

# Weights are multiples of 2^-36 of a power of two. Sums of up to 2^16 of them have 52 bits.
_BITS = 36


def all_pairs(d: int, target: int | None = None) -> tuple[tuple[int, int], ...]:
    """All pairs of d columns, without the target.

    Examples
    --------
    >>> all_pairs(4, target=2)
    ((0, 1), (0, 3), (1, 3))
    """
    return tuple(combinations([j for j in range(d) if j != target], 2))


@dataclass(frozen=True)
class CellCounts:
    """Records in each cell of each column, column after column."""

    counts: Array


@dataclass(frozen=True)
class CellCountsQuery:
    """Counts records in the cells of every column.

    Parameters
    ----------
    sizes : tuple of int
        Cells of each column.
    cap_weight : float or None
        The most that a record counts; ``None``: exact.

    Examples
    --------
    >>> import numpy as np
    >>> rows = Block(np.array([[0, 1], [2, 1], [2, 0]]))
    >>> CellCountsQuery((3, 2))(rows, Scratch()).counts
    array([1., 0., 2., 1., 2.])
    """

    sizes: tuple[int, ...]
    cap_weight: float | None = None
    block_rows = 2**14
    travels = ("sizes", "cap_weight")

    @property
    def least_rows(self) -> int:
        """Fewer rows at a time would cost more to add up than to count."""
        return min(4 * max(self.sizes), self.block_rows)

    def __call__(self, block: Block, scratch: Scratch) -> CellCounts:
        """Count a block."""
        weight = _weights(block, self.cap_weight)
        counts = [
            np.bincount(code, weight, size)
            for code, size in zip(_codes(block.X, self.sizes), self.sizes, strict=True)
        ]
        return CellCounts(np.concatenate(counts).astype(np.float64))

    def contributions(self, block: Block, scratch: Scratch) -> Array:
        """What each record adds where none has a weight, (size, b): a one for each column."""
        starts = np.cumsum([0, *self.sizes[:-1]])[:, None]
        return _ones(sum(self.sizes), starts + _codes(block.X, self.sizes))

    def groups(self, neighbours: str) -> list[Group]:
        """One group; derived above."""
        return _one_group("cells", sum(self.sizes), len(self.sizes), neighbours, self.cap_weight)

    def rounding(self, rows: float) -> float:
        """One rounding of each number of the total; derived above."""
        return _rounding(rows, len(self.sizes))

    def check(self, d: int, private: bool) -> None:
        """Cells of all columns; a cap, without which weights would have no bound."""
        _check_cells(self.sizes, self.cap_weight, d, private)
        conditions.held(1, self.block_rows, sum(self.sizes))

    def largest(self, low: Array, high: Array) -> Array:
        """Zeros and ones."""
        return np.ones(sum(self.sizes))


@dataclass(frozen=True)
class Tables:
    """Records in each cell of each table, one table after another, row by row."""

    counts: Array


@dataclass(frozen=True)
class TablesQuery:
    """Counts records in tables of the bins of two columns; with a target, of two and the target.

    Parameters
    ----------
    maps : tuple of tuple of int
        The bin of each cell, for each column. Bins are numbered from zero.
    pairs : tuple of (int, int)
        Columns of each table.
    target : int or None
        A column that is the last axis of every table.
    cap_weight : float or None
        The most that a record counts; ``None``: exact.

    Examples
    --------
    >>> import numpy as np
    >>> rows = Block(np.array([[0, 1], [2, 1], [2, 0]]))
    >>> query = TablesQuery(((0, 0, 1), (0, 1)), ((0, 1),))
    >>> query.split(query(rows, Scratch()).counts)[0]
    array([[0., 1.],
           [1., 1.]])
    """

    maps: tuple[tuple[int, ...], ...]
    pairs: tuple[tuple[int, int], ...]
    target: int | None = None
    cap_weight: float | None = None
    block_rows = 2**14
    travels = ("maps", "pairs", "target", "cap_weight")

    @cached_property
    def bins(self) -> tuple[int, ...]:
        """Bins of each column."""
        return tuple(max(each) + 1 for each in self.maps)

    @cached_property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """Of each table."""
        last = () if self.target is None else (self.bins[self.target],)
        return tuple((self.bins[i], self.bins[j], *last) for i, j in self.pairs)

    @property
    def size(self) -> int:
        """How many numbers."""
        return sum(math.prod(shape) for shape in self.shapes)

    @property
    def least_rows(self) -> int:
        """Fewer rows at a time would cost more to add up than to count."""
        return self.block_rows

    def split(self, counts: Array) -> list[Array]:
        """The tables that one vector holds."""
        tables, at = [], 0
        for shape in self.shapes:
            tables.append(counts[at : at + math.prod(shape)].reshape(shape))
            at += math.prod(shape)
        return tables

    def __call__(self, block: Block, scratch: Scratch) -> Tables:
        """Count a block: one table after the other, which fits the fastest memory there is."""
        weight = _weights(block, self.cap_weight)
        counts, at = np.empty(self.size), 0
        for size, place in self._places(block):
            counts[at : at + size] = np.bincount(place, weight, size)
            at += size
        return Tables(counts)

    def contributions(self, block: Block, scratch: Scratch) -> Array:
        """What each record adds where none has a weight, (size, b): a one for each table."""
        starts = np.cumsum([0, *map(math.prod, self.shapes)])[:-1, None]
        places = np.stack([place.copy() for _, place in self._places(block)])
        return _ones(self.size, starts + places)

    def _places(self, block: Block) -> Iterator[tuple[int, Codes]]:
        """The size of each table, and which of its cells each record is in, to be used at once."""
        cells = _codes(block.X, tuple(map(len, self.maps)))
        codes = [each[code] for each, code in zip(self._maps, cells, strict=True)]
        last, seconds = 1, codes
        if self.target is not None:
            last = self.bins[self.target]
            seconds = [code * last + codes[self.target] for code in codes]
        place = np.empty(len(block.X), dtype=np.int64)
        for (i, j), shape in zip(self.pairs, self.shapes, strict=True):
            np.multiply(codes[i], self.bins[j] * last, out=place)
            np.add(place, seconds[j], out=place)
            yield math.prod(shape), place

    @cached_property
    def _maps(self) -> list[Codes]:
        return [np.asarray(each, dtype=np.int64) for each in self.maps]

    def groups(self, neighbours: str) -> list[Group]:
        """One group; derived above."""
        return _one_group("tables", self.size, len(self.pairs), neighbours, self.cap_weight)

    def rounding(self, rows: float) -> float:
        """One rounding of each number of the total; derived above."""
        return _rounding(rows, len(self.pairs))

    def check(self, d: int, private: bool) -> None:
        """Bins for the cells of all columns, and tables of two different ones besides the target.

        No table may be asked for twice: each would be charged, but nobody needs it.
        """
        _check_cells(tuple(map(len, self.maps)), self.cap_weight, d, private)
        conditions.need(all(0 <= bin < len(each) for each in self.maps for bin in each))
        conditions.need(self.target is None or 0 <= self.target < d)
        conditions.need(len(self.pairs) > 0 and len(set(self.pairs)) == len(self.pairs))
        conditions.need(all(0 <= i < j < d for i, j in self.pairs))
        conditions.need(all(self.target not in pair for pair in self.pairs))
        conditions.held(1, self.block_rows, self.size)

    def largest(self, low: Array, high: Array) -> Array:
        """Zeros and ones."""
        return np.ones(self.size)


def _codes(X: Array, sizes: tuple[int, ...]) -> Codes:
    """Cells (d, b) of a block of rows; what is none is one by the rule above."""
    last = np.asarray(sizes, dtype=np.float64) - 1
    # Of NaN and zero, fmax takes zero.
    cells = np.fmin(np.fmax(np.asarray(X), 0.0), last)
    return np.ascontiguousarray(cells.T).astype(np.int64)


def _ones(size: int, places: Codes) -> Array:
    """Ones at these places of each record, and zeros else."""
    found = np.zeros((size, places.shape[1]))
    np.put_along_axis(found, places, 1.0, axis=0)
    return found


def _weights(block: Block, cap: float | None) -> Array | None:
    """What each record counts; private fits cut it to a multiple of q, as derived above."""
    if cap is None:
        return block.weight
    weight = capped(block.weight, cap, len(block.X))
    if weight is None:
        return None
    step = math.ldexp(1.0, math.frexp(cap)[1] - _BITS)
    return np.asarray(np.floor(weight / step) * step)


def _one_group(
    name: str, size: int, tables: int, neighbours: str, cap: float | None
) -> list[Group]:
    bound = math.sqrt(moved(neighbours, tables, 2 * tables)) * (cap or 1.0) * UP
    return [Group(name, slice(0, size), bound)]


def _rounding(rows: float, tables: int) -> float:
    """Each table's numbers sum to at most ``rows``, so their norm is no larger."""
    return rows * math.sqrt(tables) * 2 * U


def _check_cells(sizes: tuple[int, ...], cap: float | None, d: int, private: bool) -> None:
    conditions.need(len(sizes) == d)
    conditions.need(all(0 < size < conditions.MOST_NUMBERS for size in sizes))
    conditions.need((cap is not None) == private)
    if cap is not None:
        conditions.ordinary(cap)
