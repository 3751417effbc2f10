"""From noisy counts of fine cells to bins, and the law of the cells within each bin.

All of this is arithmetic on a release: it costs nothing and needs no look at the records.

*How many bins.* The cells of a table of two columns with b bins each hold n/b^2 of n records on
average, and their noise has a deviation s. Where cells hold fewer than a few s, finer bins add
numbers that say nothing. So b = sqrt(n/(3 s)), whatever the data.

*Ordered columns.* A cell that alone holds as much as a bin should stays alone: an atom, such as a
zero or a round number. The others share what is left in equal parts, so that atoms do not use up
the bins of the rest. No such bin holds fewer than 4 s records, or no cell of its tables would stand
out.

*Categories.* Those whose count does not stand out of its noise share one bin.

*Missing* is a bin of its own, so that what is missing may depend on everything else.

*Within bins* noisy counts are made a law. Counts of ordered cells are taken for constant between
some borders, and these are found by least squares with a price on each border: a spike that is no
noise has borders on both sides, and a stretch of noise has none. Tails fall outwards. Many smaller
spikes are common too: people give round numbers. How many times its level a cell holds is taken to
have one law for the whole column, whatever it is; the likeliest is found by EM (Kiefer and
Wolfowitz 1956), and each cell has its mean given its noisy count. Rare categories are shrunk
towards their mean by what noise explains (James and Stein). Every cell keeps some probability.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

from ...blocks.shrinkage import kept_share, multiples
from ...linalg import Array

# Deviations of noise that the mean cell of a table of two columns holds, and a bin of its column.
_CELL, _BIN = 3.0, 4.0
_FEWEST, _MOST = 2, 32
# A cell with so much of an equal share is a bin of its own.
_HEAVY = 0.8
# A category whose count is so many deviations of its noise stands out; at most so many do.
_STANDS_OUT, _MOST_LABELS = 3.0, 64
# Cells that noise leaves without records have this part of its deviation.
_UNSEEN = 0.1
# How many times its level a cell may hold: nothing, or 1/16 to 256 times. At first, mostly once.
_TIMES = np.concatenate([[0.0], 2.0 ** (np.arange(-16, 33) / 4)])
_FIRST = np.where(_TIMES == 1.0, 0.9, 0.0) + 0.1 / len(_TIMES)
_STEPS = 50
# Numbers of all tables together, about.
_NUMBERS = 2**22
_FAR = 1e15  # beyond any count


class Column(Protocol):
    """What a column's cells are. Public."""

    @property
    def cells(self) -> int:
        """How many there are."""

    @property
    def ordered(self) -> bool:
        """Whether neighbours are alike."""

    @property
    def missing(self) -> bool:
        """Whether the last cell stands for a missing value."""


@dataclass(frozen=True)
class Bins:
    """How the cells of one column are binned.

    Parameters
    ----------
    bin_of : array of shape (cells,)
        The bin of each cell.
    law : array of shape (cells,)
        The probability of each cell within its bin.
    ordered : int
        How many bins, the first ones, are in the order of their values.
    """

    bin_of: NDArray[np.int64]
    law: Array
    ordered: int = 0

    @property
    def count(self) -> int:
        """How many bins."""
        return int(self.bin_of.max()) + 1

    @property
    def widths(self) -> Array:
        """How many cells each bin has."""
        return np.bincount(self.bin_of).astype(float)

    def total(self, counts: Array) -> Array:
        """Counts of cells as counts of bins."""
        return np.bincount(self.bin_of, counts, self.count).astype(np.float64, copy=False)


def bins_for(count: float, deviation: float, tables: int = 1) -> int:
    """How many bins of a column tables of two columns can bear.

    Parameters
    ----------
    count : float
        Records.
    deviation : float
        Of the noise on each number of the tables.
    tables : int
        How many there are, times the values of a target: all their numbers must be held.

    Examples
    --------
    >>> bins_for(32_561, 45.0), bins_for(3_000, 45.0), bins_for(200, 45.0)
    (16, 5, 2)
    """
    wanted = math.sqrt(max(count, 1.0) / (_CELL * max(deviation, 1e-9)))
    return round(min(max(wanted, _FEWEST), _MOST, _most_labels(tables) / 2))


def _most_labels(tables: int) -> int:
    """Categories that may have bins of their own."""
    return int(min(max(math.sqrt(_NUMBERS / max(tables, 1)), 2 * _FEWEST), _MOST_LABELS))


@dataclass(frozen=True)
class _Rule:
    """What becomes of cells, in records."""

    bins: int
    heavy: float
    """A cell with so many is an atom."""
    least: float
    """A bin of ordered cells has no fewer."""
    stands_out: float
    """A category with so many has a bin of its own."""
    labels: int
    """No more than so many have."""


def bin_columns(
    columns: Sequence[Column],
    counts: Array,
    deviation: float,
    count: float,
    coming: float,
    tables: int = 1,
) -> list[Bins]:
    """Bins of all columns.

    Parameters
    ----------
    columns : sequence of Column
    counts : array
        Noisy counts of the cells of all columns, column after column.
    deviation : float
        Of their noise; zero: there is none.
    count : float
        Records.
    coming : float
        The deviation of the noise on the tables of two columns that are asked for next.
    tables : int
        How many these are, times the values of a target.

    Examples
    --------
    >>> import numpy as np
    >>> from types import SimpleNamespace
    >>> age = SimpleNamespace(cells=5, ordered=True, missing=True)
    >>> found, = bin_columns([age], np.array([10.0, 900, 40, 60, 20]), 1.0, 1030, 90.0)
    >>> found.bin_of
    array([0, 1, 0, 0, 2])
    """
    counts = np.clip(np.nan_to_num(counts), -_FAR, _FAR)
    parts = np.split(counts, np.cumsum([column.cells for column in columns])[:-1])
    count, bins = max(count, 1.0), bins_for(count, coming, tables)
    heavy = max(_HEAVY * count / bins, 2 * deviation)
    rule = _Rule(bins, heavy, _BIN * coming, _STANDS_OUT * deviation, _most_labels(tables))
    # All cells of a column together hold all records: what noise adds to that is taken off again.
    return [
        _bin_column(column, part + (count - part.sum()) / column.cells, deviation, rule)
        for column, part in zip(columns, parts, strict=True)
    ]


def _bin_column(column: Column, counts: Array, deviation: float, rule: _Rule) -> Bins:
    core = column.cells - column.missing
    if core == 0:
        return Bins(np.zeros(1, dtype=np.int64), np.ones(1))
    if column.ordered:
        smooth = smoothed(counts[:core], deviation)
        bin_of = _ordered(smooth, rule)
    else:
        bin_of = _labels(counts[:core], rule)
        smooth = _shrunk(counts[:core], bin_of, deviation)
    ordered = int(bin_of.max()) + 1 if column.ordered else 0
    if column.missing:
        bin_of = np.append(bin_of, bin_of.max() + 1)
        smooth = np.append(smooth, 1.0)
    return Bins(bin_of, smooth / np.bincount(bin_of, smooth)[bin_of], ordered)


def _ordered(smooth: Array, rule: _Rule) -> NDArray[np.int64]:
    """Atoms, and equal parts of what they leave. Cells on both sides of an atom may share a bin."""
    heavy = smooth >= rule.heavy
    # Whatever noise did: records are enough for not much more atoms than bins.
    heavy[np.argsort(-smooth, kind="stable")[2 * rule.bins :]] = False
    part = max(float(smooth[~heavy].sum()) / rule.bins, rule.least)
    bin_of = np.zeros(len(smooth), dtype=np.int64)
    last, held, light = -1, math.inf, -1
    for cell, size in enumerate(smooth.tolist()):
        if heavy[cell]:
            last += 1
            bin_of[cell] = last
            # Begin anew behind an atom, unless what is before it is no bin yet.
            held = math.inf if held >= part / 2 else held
            continue
        if held + size / 2 > part:
            last += 1
            light, held = last, 0.0
        bin_of[cell] = light
        held += size
    return bin_of


def _labels(counts: Array, rule: _Rule) -> NDArray[np.int64]:
    """Categories that stand out, in order, and one bin for the others, if there are any."""
    alone = counts >= rule.stands_out
    alone[np.argsort(-counts)[rule.labels :]] = False
    if np.sum(~alone) == 1:
        alone[:] = True
    return np.where(alone, np.cumsum(alone) - 1, alone.sum())


def _shrunk(counts: Array, bin_of: NDArray[np.int64], deviation: float) -> Array:
    """Counts of categories, those of a shared bin shrunk towards their mean; all positive."""
    shrunk = counts.copy()
    for shared in np.flatnonzero(np.bincount(bin_of) > 1):
        inside = bin_of == shared
        mean = float(counts[inside].mean())
        away = counts[inside] - mean
        kept = kept_share(away, len(away) - 1, deviation)
        shrunk[inside] = max(mean, 0.0) + kept * away
    return np.maximum(shrunk, max(_UNSEEN * deviation, 1e-3))


def smoothed(counts: Array, deviation: float) -> Array:
    """Noisy counts of ordered cells, made constant where noise explains the differences.

    The borders are those that minimise the squared error over the noise's variance plus a price for
    each border, 2 log(cells): found exactly, by dynamic programming. Cells between them are then
    what their counts say, given how cells of the column differ from their levels.

    Examples
    --------
    >>> import numpy as np
    >>> smoothed(np.array([10.0, 10, 10, 300, 11, 9, 10, 300, 10, 10]), 2.0).round()
    array([ 10.,  10.,  10., 300.,  10.,  10.,  10., 300.,  10.,  10.])
    """
    size = len(counts)
    if deviation < 1e-6:
        return np.maximum(counts, 1e-3)
    scaled = counts / deviation
    sums = np.concatenate([[0.0], np.cumsum(scaled)])
    squares = np.concatenate([[0.0], np.cumsum(scaled**2)])
    price, best, came = 2 * math.log(size + 1), np.zeros(size + 1), np.zeros(size + 1, dtype=int)
    for end in range(1, size + 1):
        starts = np.arange(end)
        total = sums[end] - sums[:end]
        error = squares[end] - squares[:end] - total**2 / (end - starts)
        cost = best[:end] + error + price
        if end in (1, size):
            # Values pile up at bounds: a cell alone at an end costs half.
            cost[end - 1] -= price / 2
        came[end] = int(np.argmin(cost))
        best[end] = cost[came[end]]
    ends = [size]
    while ends[-1] > 0:
        ends.append(int(came[ends[-1]]))
    stretches = [slice(low, high) for low, high in pairwise(ends[::-1])]
    level = np.array([max(scaled[at].mean(), _unseen(at)) for at in stretches])
    smooth = np.repeat(level, [at.stop - at.start for at in stretches])
    # Tails are lower than what is next to them, and fall from there.
    if len(level) > 1 and level[0] < level[1]:
        smooth[stretches[0]] = _tail(scaled[stretches[0]][::-1], level[0], level[1])[::-1]
    if len(level) > 1 and level[-1] < level[-2]:
        smooth[stretches[-1]] = _tail(scaled[stretches[-1]], level[-1], level[-2])
    heaped = smooth * (multiples(scaled, smooth, _TIMES, _FIRST, _STEPS) @ _TIMES)
    return np.asarray(deviation * (heaped + _unseen(slice(0, size))))


def _unseen(at: slice) -> float:
    """The least mean of a stretch of counts, in deviations of their noise."""
    return _UNSEEN / math.sqrt(at.stop - at.start)


def _tail(counts: Array, level: float, most: float) -> Array:
    """Counts with this mean that fall outwards, from at most ``most``: by least squares."""
    falling = np.clip(isotonic_regression(counts, increasing=False).x, level * _UNSEEN, most)
    return np.asarray(falling * (level / falling.mean()))
