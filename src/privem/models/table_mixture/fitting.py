"""A mixture of products fitted to noisy tables. Arithmetic on two releases: it costs nothing.

Nothing here can reach a record or ask for another release: :func:`fit_tables` is a function of two
releases and of a generator that only draws where a search begins. So many starts cost what one
does, and all of them see the same numbers.

*The likelihood.* Within a class columns are independent, so the table of columns i and j holds

    n sum_c w_c t_ci t_cj',

with weights w and the laws t of the columns' bins. Its noise has the same known deviation s in
every cell: the log-likelihood of the release is minus half the squared distance from it, over s^2.
Counts of bins, from the first release, come in with their own deviations. With a target, the tables
of two columns and the target hold n sum_c w_cv t_ci t_cj' for each of its values v, with joint
weights of class and value.

*The prior.* The log-odds of a class's laws are normal about those of all records, with variance 2:
classes are likely to differ by factors of some e^1.4 = 4 from what is usual. That says what classes
of people are like, and nothing about noise, which is in the likelihood. So where noise is small the
tables decide, and where it is large classes are drawn towards the marginals: independent columns.
Without the prior, bins that noise makes empty get no probability in some classes, and records that
fall there are next to impossible. The value was chosen on Adult; ``experiments/tables`` halves and
doubles it on three other tables.

*How many classes.* As many as hold seven deviations of the noise each, at least two and at most a
hundred: with the prior, too many do little harm, and too few miss what could be seen.

*Several starts* end in different local optima that fit about as well. Their mean, one mixture of
all their classes, is nearer to the truth than any of them, as means of posterior draws are.

*How.* Adam (Kingma and Ba 2015) on log-odds and log-weights, a fixed number of steps, in single
precision: each step is two matrix products for each value of the target.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

from ...core import Release
from ...tree import Array
from .bins import Bins
from .model import TableState, pooled
from .tables import CellCounts, Tables, TablesQuery

Single = NDArray[np.float32]
Real = TypeVar("Real", NDArray[np.float32], NDArray[np.float64])

# What classes are like: the variance of their log-odds about the marginals'.
_VARIANCE = 2.0
# Deviations of noise that a class of average size holds; the fewest and most classes of one start.
_CLASS, _FEWEST, _MOST = 7.0, 2, 100
_STARTS, _STEPS, _RATE = 8, 500, 0.1
# Products and sums that all starts together may take, but for the first: seconds.
_WORK = 4e11
# Where a search begins: log-odds this far from the marginals'.
_SPREAD = 0.7
_FAR = 30.0  # no log-odds are further out
_SURE = 1e6  # no number counts for more than so many of a table's


def classes_for(count: float, deviation: float) -> int:
    """How many classes noisy tables can tell apart.

    Parameters
    ----------
    count : float
        Records.
    deviation : float
        Of the noise on each number of the tables.

    Examples
    --------
    >>> classes_for(32_561, 45.0), classes_for(3_000, 45.0), classes_for(100, 45.0)
    (100, 10, 2)
    """
    wanted = max(count, 1.0) / (_CLASS * max(deviation, 1e-9))
    return round(min(max(wanted, _FEWEST), _MOST))


def cells_share(count: float, deviation: float) -> float:
    """What part of the budget counts of cells should have, the tables having the rest.

    A tenth. Where noise is large, tables say little, and bins and marginals come first: up to nine
    tenths.

    Parameters
    ----------
    count : float
        Records.
    deviation : float
        Of the noise on the tables, had they the whole budget.

    Examples
    --------
    >>> [cells_share(n, 45.0) for n in (32_561, 1_000, 100)]
    [0.1, 0.135, 0.9]
    """
    relative = deviation / max(count, 1.0)
    return round(min(max(3 * relative, 0.1), 0.9), 4)


@dataclass(frozen=True)
class Evidence:
    """What two releases say, as shares of the records: all that a fit sees.

    The p bins are those of all columns but the target, column after column.
    """

    bins: tuple[int, ...]
    pairs: Single
    """Tables (v, p, p), symmetric; v: values of the target, or one."""
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
        values = 1 if query.target is None else bins[query.target].count
        p = int(ends[-1])
        spread = _relative(tables.spread, count)
        pairs, measured = np.zeros((values, p, p), np.float32), np.zeros((p, p), np.float32)
        sums, weights = np.zeros((values, p)), np.zeros(p)
        for (i, j), table in zip(query.pairs, query.split(tables.statistics.counts), strict=True):
            a, b = where[place[i]], where[place[j]]
            shares = _shares(table, count).reshape(bins[i].count, bins[j].count, values)
            pairs[:, a, b] = shares.transpose(2, 0, 1)
            pairs[:, b, a] = shares.transpose(2, 1, 0)
            measured[a, b] = measured[b, a] = 1.0
            # Margins of a table, each as precise as the other column has few bins.
            for own, axis, other in ((a, 1, b), (b, 0, a)):
                much = 1.0 / (other.stop - other.start)
                sums[:, own] += much * shares.sum(axis=axis).T
                weights[own] += much
        shares = _shares(cells.statistics.counts, count)
        parts = np.split(shares, np.cumsum([len(each.bin_of) for each in bins])[:-1])
        margin = [each.total(part) for each, part in zip(bins, parts, strict=True)]
        relative = _relative(cells.spread, count)
        first = np.concatenate([margin[j] for j in columns])
        precision = 1 / (relative**2 * np.concatenate([bins[j].widths for j in columns]))
        # Both releases together; sums are already weighted by what is known from the tables.
        known = 1 / (spread**2 * values)
        certain = precision + known * weights
        both = (precision * first + known * sums.sum(axis=0)) / certain
        deviation = 1 / np.sqrt(certain)
        centre = [_log_law(both[at], deviation[at]) for at in where]
        target, target_precision = np.ones(1), 0.0
        if query.target is not None:
            target = margin[query.target]
            widths = float(bins[query.target].widths.mean())
            target_precision = min(spread**2 / (relative**2 * widths), _SURE)
        return cls(
            tuple(sizes),
            pairs,
            measured,
            first.astype(np.float32),
            np.minimum(precision * spread**2, _SURE).astype(np.float32),
            target.astype(np.float32),
            target_precision,
            np.concatenate(centre).astype(np.float32),
            spread,
        )

    @cached_property
    def columns(self) -> Single:
        """Which bins are of which column, (p, d)."""
        return np.repeat(np.eye(len(self.bins), dtype=np.float32), self.bins, axis=0)

    @property
    def work(self) -> float:
        """Products and sums of one step of one class."""
        return 4.0 * self.pairs.size


def fit_tables(
    bins: Sequence[Bins],
    cells: Release[CellCounts],
    tables: Release[Tables] | None,
    count: float,
    rng: np.random.Generator,
    n_components: int | None = None,
    n_starts: int | None = None,
) -> TableState:
    """The mixture that two releases speak for.

    Parameters
    ----------
    bins : sequence of Bins
        Of all columns, the target included.
    cells : Release of CellCounts
        Counts of the cells of all columns.
    tables : Release of Tables, optional
        Tables of pairs of bins; ``None``: columns are taken for independent.
    count : float
        The number of records, public or released.
    rng : Generator
        Where searches begin.
    n_components : int, optional
        Classes of each start; ``None``: by :func:`classes_for`.
    n_starts : int, optional
        ``None``: eight, fewer if that would take long.
    """
    if tables is None or n_components == 1:
        return independent(bins, cells, count)
    components = n_components or classes_for(count, tables.spread)
    evidence = Evidence.of(bins, cells, tables, count)
    each = evidence.work * components * _STEPS
    starts = n_starts or int(min(max(_WORK / each, 1), _STARTS))
    found = []
    for _ in range(starts):
        profiles, weights = fit_once(evidence, components, rng)
        found.append(_state(bins, tables.query.target, profiles, weights))
    return pooled(found)


def independent(bins: Sequence[Bins], cells: Release[CellCounts], count: float) -> TableState:
    """One class: independent columns, from counts of cells alone."""
    shares = _shares(cells.statistics.counts, max(count, 1.0))
    spread = _relative(cells.spread, max(count, 1.0))
    parts = np.split(shares, np.cumsum([len(each.bin_of) for each in bins])[:-1])
    logs = [
        _log_law(each.total(part), spread * np.sqrt(each.widths))
        for each, part in zip(bins, parts, strict=True)
    ]
    law, maps = _within(bins)
    return TableState(np.ones(1), np.exp(np.concatenate(logs))[None], law, maps)


def fit_once(
    evidence: Evidence, components: int, rng: np.random.Generator, steps: int = _STEPS
) -> tuple[Array, Array]:
    """From one start: laws of bins (K, p) and joint weights (K, v) of class and target."""
    values, p = len(evidence.pairs), len(evidence.centre)
    odds = evidence.centre + np.float32(_SPREAD) * _normal(rng, (components, p))
    share = np.maximum(evidence.target, np.float32(1e-4))
    logs = np.log(share / share.sum()) + np.float32(values > 1) * _normal(rng, (components, values))
    steppers = _Adam(odds), _Adam(logs)
    for step in range(1, steps + 1):
        slopes = _slopes(evidence, odds, logs)
        # The last two fifths slow down to a twentieth.
        rate = _RATE * min(1.0, max(0.05, (1 - step / steps) / 0.4))
        for parameter, slope, stepper in zip((odds, logs), slopes, steppers, strict=True):
            stepper.move(parameter, slope, rate, step)
        np.clip(odds, -_FAR, _FAR, out=odds)
        logs -= logs.max()
        np.maximum(logs, -_FAR, out=logs)
    return _probabilities(evidence, odds.astype(np.float64), logs.astype(np.float64))


def _normal(rng: np.random.Generator, shape: tuple[int, int]) -> Single:
    return rng.standard_normal(shape).astype(np.float32)


def _slopes(evidence: Evidence, odds: Single, logs: Single) -> tuple[Single, Single]:
    """Derivatives of minus the log posterior, times the square of the tables' deviation."""
    laws, weights = _probabilities(evidence, odds, logs)
    by_law, by_weight = np.zeros_like(laws), np.empty_like(weights)
    for v, table in enumerate(evidence.pairs):
        weighted = laws * weights[:, v, None]
        away = weighted.T @ laws
        away -= table
        away *= evidence.measured
        pull = laws @ away
        # Each table stands twice in the symmetric matrix, and once in the likelihood.
        by_weight[:, v] = np.einsum("kp,kp->k", pull, laws) / 2
        pull *= weights[:, v, None]
        by_law += pull
    whole = weights.sum(axis=1)
    away = evidence.precision * (whole @ laws - evidence.margins)
    by_law += whole[:, None] * away
    by_weight += (laws @ away)[:, None]
    by_weight += np.float32(evidence.target_precision) * (weights.sum(axis=0) - evidence.target)
    inner = _per_column(evidence, by_law * laws)
    by_odds = laws * (by_law - inner)
    by_odds += np.float32(evidence.relative**2 / _VARIANCE) * (odds - evidence.centre)
    by_logs = weights * (by_weight - np.sum(by_weight * weights))
    return by_odds, by_logs.astype(np.float32, copy=False)


def _probabilities(evidence: Evidence, odds: Real, logs: Real) -> tuple[Real, Real]:
    """Laws of bins and joint weights, from log-odds and log-weights."""
    laws = np.exp(odds)
    laws /= _per_column(evidence, laws)
    weights = np.exp(logs - logs.max())
    return laws, weights / weights.sum()


def _per_column(evidence: Evidence, table: NDArray[Any]) -> NDArray[Any]:
    """The sum over each column's bins, for each of them."""
    columns = evidence.columns.astype(table.dtype, copy=False)
    return np.asarray((table @ columns) @ columns.T)


class _Adam:
    """Running means of slopes and of their squares."""

    def __init__(self, like: Single) -> None:
        self._mean, self._square = np.zeros_like(like), np.zeros_like(like)

    def move(self, parameter: Single, slope: Single, rate: float, step: int) -> None:
        """Take one step, in place."""
        self._mean += np.float32(0.1) * (slope - self._mean)
        self._square += np.float32(0.01) * (slope * slope - self._square)
        size = rate * math.sqrt(1 - 0.99**step) / (1 - 0.9**step)
        parameter -= np.float32(size) * self._mean / (np.sqrt(self._square) + np.float32(1e-12))


def _relative(deviation: float, count: float) -> float:
    """A deviation over the records. Nothing is better known than to a tenth of a record.

    And noise of a thousand times all records is as good as any that is larger.
    """
    return min(max(deviation, 0.1) / count, 1e3)


def _shares(counts: Array, count: float) -> Array:
    """Counts over the number of records; whatever noise did, no more than a few times all."""
    return np.clip(np.nan_to_num(counts) / count, -10.0, 10.0)


def _log_law(shares: Array, deviation: Array) -> Array:
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


def _within(bins: Sequence[Bins]) -> tuple[Array, tuple[tuple[int, ...], ...]]:
    law = np.concatenate([each.law for each in bins])
    return law, tuple(tuple(each.bin_of.tolist()) for each in bins)


def _state(bins: Sequence[Bins], target: int | None, laws: Array, weights: Array) -> TableState:
    """A mixture of products of all columns: given the class, the target is one of them."""
    whole = weights.sum(axis=1)
    if target is not None:
        at = sum(each.count for each in bins[:target])
        given = weights / whole[:, None]
        laws = np.concatenate([laws[:, :at], given, laws[:, at:]], axis=1)
    law, maps = _within(bins)
    return TableState(whole, laws, law, maps)
