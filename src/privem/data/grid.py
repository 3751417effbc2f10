"""How a range of numbers is cut into fine cells; the cells depend on the bounds alone."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

# Between the bounds; single values have more.
MOST_CELLS = 256


def number_starts(low: float, high: float) -> NDArray[np.float64]:
    """The smallest number of each cell: the lower bound alone, then equal parts, zero alone."""
    if low < 0 <= high:
        below = MOST_CELLS if high == 0 else _share(-low, high)
        parts = [_parts(low, 0.0, below), _parts(0.0, high, MOST_CELLS - below)]
    else:
        parts = [_parts(low, high, MOST_CELLS)]
    # Bounds that are a few roundings apart hold fewer numbers than cells.
    return np.unique(np.concatenate(parts))


def _parts(low: float, high: float, count: int) -> NDArray[np.float64]:
    """A cell for ``low`` alone, and equal parts of what is above it."""
    edges = np.linspace(low, high, count + 1)[:-1] if count else np.empty(0)
    edges[:1] = np.nextafter(low, np.inf)
    return np.concatenate([[low], edges])


def _share(below: float, above: float) -> int:
    """How many of all cells lie below zero: in proportion, and at least one on either side."""
    return min(max(1, round(MOST_CELLS * (below / (below + above)))), MOST_CELLS - 1)


def whole_starts(low: int, high: int, zero: bool) -> list[int]:
    """The smallest whole number of each cell; ``zero``: whether zero has one of its own."""
    if high - low < MOST_CELLS:
        return list(range(low, high + 1))
    if not (zero and low < 0 <= high):
        return [low, *_whole_parts(low + 1, high, MOST_CELLS)]
    below = MOST_CELLS if high == 0 else _share(-low, high)
    return [
        low,
        *_whole_parts(low + 1, -1, below),
        0,
        *_whole_parts(1, high, MOST_CELLS - below),
    ]


def _whole_parts(first: int, last: int, count: int) -> list[int]:
    """The first numbers of at most ``count`` nearly equal parts of a range, both ends included."""
    values = last - first + 1
    count = min(count, values)
    return [first + k * values // count for k in range(count)]
