"""What two releases say of a mixture of products: tables, margins, and how sure they are.

*How far columns depend* is seen in the tables before anything is fitted. What a table differs by
from independent columns has a sum of squares, of which noise and chance explain a known part. What
is left, over all tables, less one standard error, is what classes must account for. Classes whose
log-odds have the covariance t C about the marginals', K of them, give a table of columns i and j
the sum of squares t^2 v_i v_j/K on average, where v_i is the sum of p^2 (C_bb - 2 (C p)_b + p' C p)
over the column's bins b: their probabilities move by p (e - p' e) for log-odds of e. Both are equal
for one t: :meth:`Evidence.variance`.

*Neighbours are alike.* C is one for each bin of its own, and in ordered columns four more that
neighbours share, less and less over a quarter of the column. So a class of the old is likely, and
one of every second age is not. Were all bins on their own, narrow classes would be unlikely too: a
correlation of 0.95 came out as 0.83, not 0.88 (four columns, 20,000 records, epsilon 1).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

from ...core import Release
from ...linalg import Array
from .bins import Bins
from .empty import emptied
from .tables import CellCounts, Tables, TablesQuery

Single = NDArray[np.float32]

_SURE = 1e6  # no number counts for more than so many of a table's
# What classes of people are like: the variance of their log-odds about the marginals'.
_LEAST, _VARIANCE = 0.01, 2.0
# What neighbours share of it, over that of each bin; and how far, as a part of the column.
_SHARED, _REACH = 4.0, 0.25
FAR = 30.0  # no log-odds are further out


@dataclass(frozen=True)
class Evidence:
    """What two releases say, as shares of the records: all that a fit sees.

    The p bins are those of all columns but the target, column after column.
    """

    bins: tuple[int, ...]
    pairs: Single
    """Tables (v, p, p), symmetric, less noise in empty cells; v: values of the target, or one."""
    measured: Single
    """Ones where pairs were released, (p, p)."""
    margins: Single
    """From counts of cells, (p,)."""
    precision: Single
    """Theirs, over that of a number of the tables."""
    target: Single
    """Shares of the target's values, (v,)."""
    target_precision: float
    centre: Single
    """Log-odds of the marginals, (p,): what classes are drawn towards."""
    relative: float
    """The deviation of a number of the tables."""
    dependence: float
    """The square of the variance that one class's log-odds would have to have."""
    roots: tuple[tuple[slice, Single], ...]
    """Of C, for the bins of each ordered column."""

    @classmethod
    def of(
        cls,
        bins: Sequence[Bins],
        cells: Release[CellCounts],
        tables: Release[Tables],
        count: float,
    ) -> Evidence:
        """From the two releases; ``count``: the number of records, given or released."""
        query: TablesQuery = tables.query
        count = max(count, 1.0)
        columns = [j for j in range(len(bins)) if j != query.target]
        place = {j: at for at, j in enumerate(columns)}
        sizes = [bins[j].count for j in columns]
        ends = np.cumsum([0, *sizes])
        where = [slice(low, high) for low, high in pairwise(ends.tolist())]
        at_pairs = [(where[place[i]], where[place[j]]) for i, j in query.pairs]
        values = 1 if query.target is None else bins[query.target].count
        p = int(ends[-1])
        spread = relative_to(tables.spread, count)
        pairs, measured = np.zeros((values, p, p), np.float32), np.zeros((p, p), np.float32)
        sums, weights = np.zeros((values, p)), np.zeros(p)
        for (a, b), table in zip(at_pairs, query.split(tables.statistics.counts), strict=True):
            shape = (a.stop - a.start, b.stop - b.start, values)
            shares = shares_of(table, count).reshape(shape).transpose(2, 0, 1)
            pairs[:, a, b] = shares
            pairs[:, b, a] = shares.transpose(0, 2, 1)
            measured[a, b] = measured[b, a] = 1.0
            # Margins of a table, each as precise as the other column has few bins.
            for own, axis, other in ((a, 2, b), (b, 1, a)):
                much = 1.0 / (other.stop - other.start)
                sums[:, own] += much * shares.sum(axis=axis)
                weights[own] += much
        shares = shares_of(cells.statistics.counts, count)
        parts = np.split(shares, np.cumsum([len(each.bin_of) for each in bins])[:-1])
        margin = [each.total(part) for each, part in zip(bins, parts, strict=True)]
        relative = relative_to(cells.spread, count)
        first = np.concatenate([margin[j] for j in columns])
        precision = 1 / (relative**2 * np.concatenate([bins[j].widths for j in columns]))
        # Both releases together; sums are already weighted by what is known from the tables.
        known = 1 / (spread**2 * values)
        certain = precision + known * weights
        both = (precision * first + known * sums.sum(axis=0)) / certain
        deviation = 1 / np.sqrt(certain)
        centre = np.concatenate([log_law(both[at], deviation[at]) for at in where])
        target, target_precision, law = np.ones(1), 0.0, np.ones(1)
        if query.target is not None:
            target = margin[query.target]
            widths = bins[query.target].widths
            law = np.exp(log_law(target, relative * np.sqrt(widths)))
            target_precision = min(spread**2 / (relative**2 * float(widths.mean())), _SURE)
        alone = np.exp(centre)
        alike = [_alike(bins[j]) for j in columns]
        moves = {j: _moves(alone[where[at]], alike[at]) for j, at in place.items()}
        found = [
            _Excess.of(pairs[:, a, b], law, alone[a], alone[b], spread, count, moves[i] * moves[j])
            for (a, b), (i, j) in zip(at_pairs, query.pairs, strict=True)
        ]
        for (a, b), (i, j) in zip(at_pairs, query.pairs, strict=True):
            usual, ordered = np.outer(alone[a], alone[b]), (bins[i].ordered, bins[j].ordered)
            pairs[:, a, b] = emptied(pairs[:, a, b], usual, spread, ordered)
            pairs[:, b, a] = pairs[:, a, b].transpose(0, 2, 1)
        return cls(
            tuple(sizes),
            pairs,
            measured,
            first.astype(np.float32),
            np.minimum(precision * spread**2, _SURE).astype(np.float32),
            target.astype(np.float32),
            target_precision,
            centre.astype(np.float32),
            spread,
            _dependence(found),
            tuple(
                (at, np.linalg.cholesky(each).astype(np.float32))
                for at, each, j in zip(where, alike, columns, strict=True)
                if bins[j].ordered
            ),
        )

    @cached_property
    def columns(self) -> Single:
        """Which bins are of which column, (p, d)."""
        return np.repeat(np.eye(len(self.bins), dtype=np.float32), self.bins, axis=0)

    def odds(self, free: Single) -> Single:
        """Log-odds (..., K, p) of numbers that are independent a priori, all of one variance."""
        odds = self._rooted(free, transposed=True)
        odds += self.centre
        return np.clip(odds, -FAR, FAR, out=odds)

    def free(self, odds: Single) -> Single:
        """The numbers of which these are the log-odds."""
        away = odds - self.centre
        for at, root in self.roots:
            away[..., at] = np.linalg.solve(root, away[..., at].swapaxes(-1, -2)).swapaxes(-1, -2)
        return away

    def freed(self, slopes: Single) -> Single:
        """Slopes by these numbers, of slopes by log-odds."""
        return self._rooted(slopes, transposed=False)

    def _rooted(self, numbers: Single, transposed: bool) -> Single:
        found = numbers.copy()
        for at, root in self.roots:
            np.matmul(numbers[..., at], root.T if transposed else root, out=found[..., at])
        return found

    @property
    def work(self) -> float:
        """Products and sums of one step of one class."""
        return 4.0 * self.pairs.size

    def variance(self, components: int) -> float:
        """Of the log-odds of so many classes, a priori."""
        return min(max(math.sqrt(components * self.dependence), _LEAST), _VARIANCE)


@dataclass(frozen=True)
class _Excess:
    """The sum of squares by which a table differs from independent columns."""

    found: float
    """Less what noise and chance explain."""
    variance: float
    """Of ``found``, by noise and chance."""
    usual: float
    """What one class gives whose log-odds have variance one."""

    @classmethod
    def of(
        cls,
        table: Single,
        target: Array,
        first: Array,
        second: Array,
        spread: float,
        count: float,
        moves: float,
    ) -> _Excess:
        """Of a table (v, i, j) of columns that have these laws; ``moves``: v_i v_j."""
        away = table - target[:, None, None] * first[:, None] * second
        # Whatever the margins are: errors in them would look like dependence.
        for axis in range(3):
            others = tuple(other for other in range(3) if other != axis)
            away = away - away.mean(axis=others, keepdims=True)
        v, i, j = away.shape
        free = v * i * j - v - i - j + 2
        powers = [float(law @ law) for law in (target, first, second)]
        all_three = math.prod(powers)
        chance = (1 - all_three - sum((1 - each) * all_three / each for each in powers)) / count
        explained = free * spread**2 + max(chance, 0.0)
        return cls(
            float(np.sum(away**2)) - explained,
            2 * explained**2 / max(free, 1),
            powers[0] * moves,
        )


def _alike(bins: Bins) -> Array:
    """C of a column: how alike its bins are in a class, derived above."""
    found, m = np.eye(bins.count), bins.ordered
    away = np.abs(np.subtract.outer(np.arange(m), np.arange(m)))
    found[:m, :m] += _SHARED * np.exp(-away / (_REACH * max(m, 1)))
    return found


def _moves(law: Array, alike: Array) -> float:
    """The sum of squares by which probabilities move, on average: v of a column."""
    shared = alike @ law
    return float(np.sum(law**2 * (np.diag(alike) - 2 * shared + law @ shared)))


def _dependence(tables: Sequence[_Excess]) -> float:
    """The excess of all tables, less a standard error, over what one class gives."""
    found = sum(each.found for each in tables)
    error = math.sqrt(sum(each.variance for each in tables))
    usual = sum(each.usual for each in tables)
    return max(found - error, 0.0) / max(usual, 1e-12)


def relative_to(deviation: float, count: float) -> float:
    """A deviation over the records. Nothing is better known than to a tenth of a record.

    And noise of a thousand times all records is as good as any that is larger.
    """
    return min(max(deviation, 0.1) / count, 1e3)


def shares_of(counts: Array, count: float) -> Array:
    """Counts over the number of records; whatever noise did, no more than a few times all."""
    return np.clip(np.nan_to_num(counts) / count, -10.0, 10.0)


def log_law(shares: Array, deviation: Array) -> Array:
    """Log of the probabilities that noisy shares of bins speak for."""
    law = np.maximum(_likely(shares, deviation, 1 / len(shares)), 1e-9)
    return np.asarray(np.log(law / law.sum()))


def _likely(noisy: Array, deviation: Array | float, typical: float) -> Array:
    """What numbers that are not negative are, on average, given themselves with noise.

    They are taken to be exponential about what is ``typical``, of all laws with that mean the one
    that says least. Given x = number + noise they are normal about x - deviation^2 / typical, with
    the noise's deviation, as far as that is positive. So numbers far above the noise stay as they
    are, and what drowns in it comes near to what is typical.
    """
    deviation = np.maximum(deviation, 1e-300)
    centre = np.clip(noisy / deviation - deviation / typical, -1e6, 1e6)
    tail = np.exp(-(centre**2) / 2 - log_ndtr(centre)) / math.sqrt(2 * math.pi)
    # Far below zero the sum loses all digits, and is -1/centre.
    mean = np.where(centre < -50, -1 / np.minimum(centre, -1.0), centre + tail)
    return np.asarray(np.maximum(deviation * mean, 1e-12))
