"""A mixture of products fitted to noisy tables. Arithmetic on two releases: it costs nothing.

Nothing here can reach a record or ask for another release: :func:`fit_tables` is a function of what
two releases say and of a generator that only draws where a search begins. So many starts cost what
one does, and all of them see the same numbers.

*The likelihood.* Within a class columns are independent, so the table of columns i and j holds

    n sum_c w_c t_ci t_cj',

with weights w and the laws t of the columns' bins. Its noise has the same known deviation s in
every cell: the log-likelihood of the release is minus half the squared distance from it, over s^2.
Counts of bins, from the first release, come in with their own deviations. With a target, the tables
of two columns and the target hold n sum_c w_cv t_ci t_cj' for each of its values v, with joint
weights of class and value.

*The prior.* The log-odds of a class's laws are normal about those of all records; those of
neighbours in a column of numbers are alike (:mod:`.evidence`). The variance of each on its own is
2, so that classes are likely to differ by factors of some e^1.4 = 4 from what is usual; or less, if
the tables show less dependence than such classes have (:meth:`.evidence.Evidence.variance`). So
where noise is small the tables decide, where it is large classes are drawn towards the marginals,
and independent columns stay independent. Without the prior, bins that noise makes empty get no
probability in some classes, and records that fall there are next to impossible. The value 2 was
chosen on Adult; ``experiments/tables`` halves and doubles it on three other tables.

*How many classes.* As many as hold seven deviations of the noise each, at least two and at most a
hundred: with the prior, too many do little harm, and too few miss what could be seen.

*Several starts* end in different local optima that fit about as well. Their mean, one mixture of
all their classes, is nearer to the truth than any of them, as means of posterior draws are. The
more columns there are, the further apart are the optima: a start for every two columns, at least
eight and at most sixteen.

*How.* Adam (Kingma and Ba 2015) on log-odds and log-weights, a fixed number of steps, in single
precision: each step is two matrix products for each value of the target. Arrays hold several
starts, first axis first, as far as they are small.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from ...core import Release
from ...linalg import Array
from .bins import Bins
from .evidence import FAR, Evidence, Single, log_law, relative_to, shares_of
from .model import TableState, pooled
from .tables import CellCounts

Real = TypeVar("Real", NDArray[np.float32], NDArray[np.float64])

# Deviations of noise that a class of average size holds; the fewest and most classes of one start.
_CLASS, _FEWEST, _MOST = 7.0, 2, 100
_STARTS, _MOST_STARTS, _STEPS, _RATE = 8, 16, 500, 0.1
# Products and sums that all starts together may take, but for the first: seconds.
_WORK = 4e11
# Numbers of one table of all bins, of all starts that are taken together.
_TOGETHER = 2**18
# Deviations of the tables' noise that all records must be for pairs to be asked for; and of which
# counts of cells have the inverse as their share, within limits.
_PAY, _SHARE = 20.0, 40.0
# Where a search begins: log-odds this far from the marginals'.
_SPREAD = 0.7


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


def pairs_pay(count: float, deviation: float) -> bool:
    """Whether tables of pairs are worth a release, by forecast.

    Two columns of two bins each put at most a quarter of the records more into a cell than
    independent columns would. If all records are fewer than twenty deviations of the noise, that is
    five of them for columns that say the same, and two for those with a correlation of 0.4: seldom
    as much as counts of cells, and so all marginals, gain from the whole budget.

    Parameters
    ----------
    count : float
        Records.
    deviation : float
        Of the noise on the tables, had they the whole budget.

    Examples
    --------
    >>> pairs_pay(1_000, 45.0), pairs_pay(800, 45.0)
    (True, False)
    """
    return count >= _PAY * deviation


def cells_share(count: float, deviation: float) -> float:
    """What part of the budget counts of cells should have, the tables having the rest.

    A tenth. Where noise is large, tables say little, and bins and marginals come first: up to half.

    Parameters
    ----------
    count : float
        Records.
    deviation : float
        Of the noise on the tables, had they the whole budget.

    Examples
    --------
    >>> [cells_share(n, 45.0) for n in (32_561, 10_000, 1_000)]
    [0.1, 0.18, 0.5]
    """
    relative = deviation / max(count, 1.0)
    return round(min(max(_SHARE * relative, 0.1), 0.5), 4)


def fit_tables(
    evidence: Evidence,
    bins: Sequence[Bins],
    target: int | None,
    n_components: int,
    rng: np.random.Generator,
    n_starts: int | None = None,
) -> TableState:
    """The mixture that two releases speak for.

    Parameters
    ----------
    evidence : Evidence
        What they say.
    bins : sequence of Bins
        Of all columns, the target included.
    target : int or None
        Which column it is.
    n_components : int
        Classes of each start.
    rng : Generator
        Where searches begin.
    n_starts : int, optional
        ``None``: eight to sixteen, fewer if that would take long.
    """
    each = evidence.work * n_components * _STEPS
    wanted = min(max(len(bins) // 2, _STARTS), _MOST_STARTS)
    starts = n_starts or int(min(max(_WORK / each, 1), wanted))
    begun = [_begin(evidence, n_components, rng) for _ in range(starts)]
    odds, logs = (np.stack(each) for each in zip(*begun, strict=True))
    ends = descended(evidence, odds, logs, _STEPS)
    return pooled([state_of(bins, target, *end) for end in zip(*ends, strict=True)])


def independent(bins: Sequence[Bins], cells: Release[CellCounts], count: float) -> TableState:
    """One class: independent columns, from counts of cells alone."""
    shares = shares_of(cells.statistics.counts, max(count, 1.0))
    spread = relative_to(cells.spread, max(count, 1.0))
    parts = np.split(shares, np.cumsum([len(each.bin_of) for each in bins])[:-1])
    logs = [
        log_law(each.total(part), spread * np.sqrt(each.widths))
        for each, part in zip(bins, parts, strict=True)
    ]
    law, maps = _within(bins)
    return TableState(np.ones(1), np.exp(np.concatenate(logs))[None], law, maps)


def fit_once(
    evidence: Evidence, components: int, rng: np.random.Generator, steps: int = _STEPS
) -> tuple[Array, Array]:
    """From one start: laws of bins (K, p) and joint weights (K, v) of class and target."""
    odds, logs = _begin(evidence, components, rng)
    laws, weights = descended(evidence, odds[None], logs[None], steps)
    return laws[0], weights[0]


def _begin(evidence: Evidence, components: int, rng: np.random.Generator) -> tuple[Single, Single]:
    """Log-odds (K, p) and log-weights (K, v) where a search begins."""
    values, p = len(evidence.pairs), len(evidence.centre)
    odds = evidence.odds(np.float32(_SPREAD) * _normal(rng, (components, p)))
    share = np.maximum(evidence.target, np.float32(1e-4))
    logs = np.log(share / share.sum()) + np.float32(values > 1) * _normal(rng, (components, values))
    return odds, logs


def descended(
    evidence: Evidence, odds: Single, logs: Single, steps: int, rate: float = _RATE
) -> tuple[Array, Array]:
    """Laws (S, K, p) and joint weights (S, K, v) after so many steps from S starts.

    Starts know nothing of each other. Small ones are taken together: what a step costs is then not
    Python's but the machine's time.
    """
    at_once = max(_TOGETHER // evidence.pairs[0].size, 1)
    found = []
    # Products are small: several threads would wait for each other.
    with threadpool_limits(1, "blas"):
        for at in range(0, len(odds), at_once):
            some = slice(at, at + at_once)
            found.append(_descended(evidence, odds[some], logs[some].copy(), steps, rate))
    laws, weights = zip(*found, strict=True)
    return np.concatenate(laws), np.concatenate(weights)


def _descended(
    evidence: Evidence, odds: Single, logs: Single, steps: int, rate: float
) -> tuple[Array, Array]:
    free = evidence.free(odds)
    steppers = _Adam(free), _Adam(logs)
    for step in range(1, steps + 1):
        slopes = _slopes(evidence, free, logs)
        # The last two fifths slow down to a twentieth.
        size = rate * min(1.0, max(0.05, (1 - step / steps) / 0.4))
        for parameter, slope, stepper in zip((free, logs), slopes, steppers, strict=True):
            stepper.move(parameter, slope, size, step)
        np.clip(free, -FAR, FAR, out=free)
        logs -= logs.max(axis=(-2, -1), keepdims=True)
        np.maximum(logs, -FAR, out=logs)
    return _probabilities(evidence, evidence.odds(free).astype(float), logs.astype(float))


def _normal(rng: np.random.Generator, shape: tuple[int, int]) -> Single:
    return rng.standard_normal(shape).astype(np.float32)


def _slopes(evidence: Evidence, free: Single, logs: Single) -> tuple[Single, Single]:
    """Derivatives of minus the log posterior, times the square of the tables' deviation."""
    laws, weights = _probabilities(evidence, evidence.odds(free), logs)
    by_law, by_weight = np.zeros_like(laws), np.empty_like(weights)
    for v, table in enumerate(evidence.pairs):
        weighted = laws * weights[..., v, None]
        away = weighted.swapaxes(-1, -2) @ laws
        away -= table
        away *= evidence.measured
        pull = laws @ away
        # Each table stands twice in the symmetric matrix, and once in the likelihood.
        by_weight[..., v] = np.einsum("...kp,...kp->...k", pull, laws) / 2
        pull *= weights[..., v, None]
        by_law += pull
    whole = weights.sum(axis=-1, keepdims=True)
    away = evidence.precision * (whole.swapaxes(-1, -2) @ laws - evidence.margins)
    by_law += whole * away
    by_weight += laws @ away.swapaxes(-1, -2)
    target = weights.sum(axis=-2, keepdims=True) - evidence.target
    by_weight += np.float32(evidence.target_precision) * target
    inner = _per_column(evidence, by_law * laws)
    tight = evidence.relative**2 / evidence.variance(free.shape[-2])
    by_free = evidence.freed(laws * (by_law - inner)) + np.float32(tight) * free
    mean = np.sum(by_weight * weights, axis=(-2, -1), keepdims=True)
    by_logs = weights * (by_weight - mean)
    return by_free, by_logs.astype(np.float32, copy=False)


def _probabilities(evidence: Evidence, odds: Real, logs: Real) -> tuple[Real, Real]:
    """Laws of bins and joint weights, from log-odds and log-weights."""
    laws = np.exp(odds)
    laws /= _per_column(evidence, laws)
    weights = np.exp(logs - logs.max(axis=(-2, -1), keepdims=True))
    return laws, weights / weights.sum(axis=(-2, -1), keepdims=True)


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


def _within(bins: Sequence[Bins]) -> tuple[Array, tuple[tuple[int, ...], ...]]:
    law = np.concatenate([each.law for each in bins])
    return law, tuple(tuple(each.bin_of.tolist()) for each in bins)


def state_of(bins: Sequence[Bins], target: int | None, laws: Array, weights: Array) -> TableState:
    """A mixture of products of all columns: given the class, the target is one of them."""
    whole = weights.sum(axis=1)
    if target is not None:
        at = sum(each.count for each in bins[:target])
        given = weights / whole[:, None]
        laws = np.concatenate([laws[:, :at], given, laws[:, at:]], axis=1)
    law, maps = _within(bins)
    return TableState(whole, laws, law, maps)
