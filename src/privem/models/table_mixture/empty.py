"""Parts of a noisy table that hold nobody, and what a fit is told about them.

A probability is never negative. So where a table is empty, a fit follows its noise upwards and not
downwards. Each cell gains little by it, but empty cells may be many: of two columns that nearly
determine each other, one record in 27 was drawn far from the line (30,000 records, epsilon 1).

So empty cells are looked for first. A cell holds r times what it would if columns were independent.
The law of r over the cells of one table is found by maximum likelihood (Kiefer and Wolfowitz 1956;
on a grid, by EM): it says how many cells are empty, and by Bayes which are likely to be, if that
can be seen at all. Where noise hides it, no cell is taken for empty. The same is asked of blocks of
neighbours, which noise hides less: if a block is empty, so are all of its cells, but for those that
stand out of their own noise.

From cells that are empty so much is subtracted that noise seldom looks like records.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import maximum_filter1d

from ...blocks.shrinkage import multiples
from ...linalg import Array

# What a cell may hold, over what it would if columns were independent: what counts as nobody, of a
# cell and of a block, which may hold one cell that is not empty; and the rest.
_NOBODY = {1: 0.1, 3: 0.02, 5: 0.01}
_RATIOS = np.array(
    [0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 1, 1.4, 2, 3, 4, 6, 8, 12, 16, 24, 32]
)
_FIRST = np.full(len(_RATIOS), 1 / len(_RATIOS))
# Deviations of noise above which a cell is not empty, whatever its neighbours are.
_STANDS_OUT = 3.0
# Cells that hold what is usual, which are counted before any other: few cells say little.
_BEFORE = np.where(_RATIOS == 1, 2.0, 0.0)
_ROUNDS = 20
# Deviations of noise that are subtracted from cells that are empty.
_OFF = 2.5


def emptied(
    table: NDArray[np.float32], expected: Array, deviation: float, ordered: tuple[int, int]
) -> Array:
    """A noisy table from which noise in empty cells is subtracted.

    Parameters
    ----------
    table : array of shape (v, i, j)
        For each value of the target, or one. A cell is empty if it is for all of them: a value of
        the target that is rare somewhere is what a model is to predict.
    expected : array of shape (i, j)
        What their sum would be if columns were independent.
    deviation : float
        Of the noise on each number.
    ordered : (int, int)
        How many bins of either column, the first ones, are in order.

    Examples
    --------
    Of ten values of two equal columns, all cells but those on the diagonal are empty.

    >>> import numpy as np
    >>> noise = np.random.default_rng(0).normal(size=(1, 10, 10))
    >>> table = 40 * np.eye(10) + noise
    >>> found = emptied(table, np.full((10, 10), 4.0), 1.0, (10, 10))
    >>> bool((found[0][~np.eye(10, dtype=bool)] < 0.5).all())
    True
    >>> np.allclose(np.diag(found[0]), np.diag(table[0]))
    True
    """
    noise = deviation * math.sqrt(len(table))
    counts, usual = table.sum(axis=0) / noise, expected / noise
    empty = np.zeros(counts.shape)
    for size, nobody in _NOBODY.items():
        if size > 1 and max(ordered) < size:
            break
        scale = np.sqrt(_summed(np.ones(counts.shape), ordered, size))
        wanted = _summed(usual, ordered, size) / scale
        if not wanted.max() > 1.0:
            continue  # noise hides whether any is empty
        seen = _summed(counts, ordered, size) / scale
        ratios = multiples(seen.ravel(), wanted.ravel(), _RATIOS, _FIRST, _ROUNDS, _BEFORE)
        found = ratios[:, nobody >= _RATIOS].sum(axis=1).reshape(counts.shape)
        for axis, many in enumerate(ordered):
            some = _first(axis, many)
            found[some] = maximum_filter1d(found[some], size, axis=axis, mode="nearest")
        np.maximum(empty, found, out=empty)
    empty[counts > _STANDS_OUT] = 0.0
    return np.asarray(table - _OFF * deviation * empty)


def _first(axis: int, many: int) -> tuple[slice, ...]:
    return tuple(slice(many) if each == axis else slice(None) for each in range(2))


def _summed(table: Array, ordered: tuple[int, int], size: int) -> Array:
    """Sums over blocks of ordered bins, about each cell."""
    found = table.copy()
    for axis, many in enumerate(ordered):
        some = _first(axis, many)
        sums = np.cumsum(found[some], axis=axis)
        sums = np.concatenate([np.zeros_like(sums.take([0], axis)), sums], axis) if many else sums
        at = np.arange(many)
        high, low = np.minimum(at + size // 2 + 1, many), np.maximum(at - size // 2, 0)
        if many:
            found[some] = sums.take(high, axis) - sums.take(low, axis)
    return found
