"""How a range of numbers is cut into fine cells; the cells depend on the bounds alone.

Many columns are amounts: most values are far below the upper bound, which somebody chose to be on
the safe side. So cells are finer towards the lower bound, or towards zero where it is inside: they
are of one width from an eighth of the range on, and below that each halving of the distance has as
many cells as the one before. Dates and times are cut into equal parts.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

# Between the bounds; single values have more.
MOST_CELLS = 256
# How often the range is halved, and the part of the cells that a halving has at least.
_HALVINGS, _PART = 16, 26


def number_starts(low: float, high: float) -> NDArray[np.float64]:
    """The smallest number of each cell: the lower bound and zero alone, and parts of the rest."""
    if low < 0 <= high:
        below = MOST_CELLS if high == 0 else _share(-low, high)
        sides = [_below_zero(low, below), _above(0.0, high, MOST_CELLS - below)]
    else:
        sides = [_above(low, high, MOST_CELLS)]
    # Bounds that are a few roundings apart hold fewer numbers than cells.
    return np.unique(np.concatenate(sides))


def _above(low: float, high: float, count: int) -> NDArray[np.float64]:
    """A cell for ``low`` alone, and parts of what is above it."""
    edges = low + (high - low) * np.array([a / b for a, b in _parts(count)])
    edges = edges[(edges > low) & (edges < high)]
    return np.concatenate([[low, np.nextafter(low, np.inf)][: 1 + (count > 0)], edges])


def _below_zero(low: float, count: int) -> NDArray[np.float64]:
    """A cell for ``low`` alone, and parts of what is between it and zero."""
    edges = low * np.array([a / b for a, b in _parts(count)])
    edges = edges[(edges > low) & (edges < 0)]
    return np.concatenate([[low, np.nextafter(low, np.inf)], edges])


def _parts(count: int) -> list[tuple[int, int]]:
    """Where a range from zero to one is cut into about ``count`` parts, as fractions.

    Examples
    --------
    >>> _parts(4)
    [(0, 4), (1, 4), (2, 4), (3, 4)]
    >>> len(_parts(256)), _parts(256)[-9]
    (230, (9, 589824))
    """
    if count < _PART:
        return [(k, count) for k in range(count)]
    edges = [(0, 1)]
    for halving in range(_HALVINGS):
        # From one half of what is left to all of it.
        parts = max(count >> (halving + 2), count // _PART)
        edges += [(parts + k, parts << (halving + 1)) for k in range(parts)]
    return edges


def _share(below: float, above: float) -> int:
    """How many of all cells lie below zero: in proportion, and at least one on either side."""
    return min(max(1, round(MOST_CELLS * (below / (below + above)))), MOST_CELLS - 1)


def whole_starts(low: int, high: int, zero: bool) -> list[int]:
    """The smallest whole number of each cell; ``zero``: whether they are amounts, as above."""
    if high - low < MOST_CELLS:
        return list(range(low, high + 1))
    if not zero:
        values = high - low
        return [low, *(low + 1 + k * values // MOST_CELLS for k in range(MOST_CELLS))]
    if not low < 0 <= high:
        return [low, *_whole_above(low + 1, high, MOST_CELLS)]
    below = MOST_CELLS if high == 0 else _share(-low, high)
    mirrored = _whole_above(1, -low - 1, below)
    # The last of each cell, mirrored, is the first.
    ends = [*(start - 1 for start in mirrored[1:]), -low - 1] if mirrored else []
    return [low, *(-end for end in reversed(ends)), 0, *_whole_above(1, high, MOST_CELLS - below)]


def _whole_above(first: int, last: int, count: int) -> list[int]:
    """The first numbers of at most ``count`` parts of a range, both ends included.

    Next to its start parts would hold less than one number: so the others may be finer.

    Examples
    --------
    >>> starts = _whole_above(1, 500, 256)
    >>> len(starts), starts[:4], starts[-3:]
    (251, [1, 2, 3, 4], [494, 496, 498])
    """
    values, found, finer = last - first + 1, list[int](), count
    while count > 0 and len(found) < values and finer <= 4 * count:
        starts = sorted({first + values * a // b for a, b in _parts(finer)})
        if len(starts) > count:
            break
        found, finer = starts, finer + max(finer // 16, 1)
    return found
