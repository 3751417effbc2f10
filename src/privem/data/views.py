"""Other ways to look at rows: one per person, and absolute differences of random pairs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ..core import Rows
from .array import ArrayRows
from .cells import fresh_bytes

__all__ = ["pairs"]

# Differences of this many records tell the scale of the data as well as all of them.
_MOST = 2**16


def pairs(rows: Rows, draw: Callable[[int], bytes] = fresh_bytes) -> ArrayRows:
    """Absolute differences of uniformly random disjoint pairs of records, one row per pair.

    Every record draws a key (from the operating system, if not told otherwise); up to 2**16 of them
    with the smallest keys, in the order of their keys, are paired: the first half with the second.
    Two equal keys, where the order would not be random, mean drawing all of them again. So the
    matching is exactly uniform, independent of the data, and nobody's to know: the privacy of what
    is counted on pairs rests on that (:class:`privem.blocks.bounds.OctaveQuery`). The NaN a stream
    may hold stays NaN.
    """
    while True:
        keys, kept = _smallest(rows, _MOST + 1, draw)
        if (keys[1:] > keys[:-1]).all():
            break
    half = min(len(kept), _MOST) // 2
    with np.errstate(over="ignore", invalid="ignore"):
        return ArrayRows(np.abs(kept[:half] - kept[half : 2 * half]))


def _smallest(
    rows: Rows, most: int, draw: Callable[[int], bytes]
) -> tuple[NDArray[np.uint64], NDArray[np.float64]]:
    """The rows with the smallest random keys, in their order, and the keys."""
    keys = np.empty(0, dtype=np.uint64)
    kept = np.empty((0, rows.n_features))
    for block in rows.blocks(65_536):
        fresh = np.frombuffer(draw(8 * len(block.X)), dtype=np.uint64)
        keys = np.concatenate([keys, fresh])
        kept = np.concatenate([kept, np.asarray(block.X, dtype=np.float64)])
        if len(keys) > most:
            order = np.argpartition(keys, most)[:most]
            keys, kept = keys[order], kept[order]
    order = np.argsort(keys)
    return keys[order], kept[order]
