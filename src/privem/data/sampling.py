"""Rows drawn at random: the cells of a partition, and rows that a rule selects."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..core import Block, Rows

_CHUNK = 8192


def fresh_key() -> bytes:
    """Secret bytes from the operating system: one partition."""
    return os.urandom(32)


def cells_of(key: bytes, start: int, stop: int, count: int) -> NDArray[np.int64]:
    """The cells of records (or persons) number ``start`` to ``stop``, each one of ``count``.

    32 bits per record of SHAKE-256, keyed: independent draws for whoever does not know the key, and
    the same ones whenever asked for. They depend on nothing but key and position, which is all that
    parallel composition needs; that 2^32 may not be a multiple of ``count`` makes cells unequal by
    a part in 2^32 / count, and touches nobody's privacy.
    """
    first = start // _CHUNK
    draws = [
        np.frombuffer(
            hashlib.shake_256(key + chunk.to_bytes(8, "little")).digest(4 * _CHUNK), dtype="<u4"
        )
        for chunk in range(first, -(-stop // _CHUNK))
    ]
    if not draws:
        return np.empty(0, dtype=np.int64)
    joined = np.concatenate(draws)[start - first * _CHUNK : stop - first * _CHUNK]
    return (joined.astype(np.uint64) * np.uint64(count) >> np.uint64(32)).astype(np.int64)


@dataclass(frozen=True)
class SelectedRows:
    """Those rows of others that a rule selects by their positions, the same in every pass.

    Examples
    --------
    >>> from privem.data.sums import ArrayRows
    >>> rows = ArrayRows(np.arange(5.0)[:, None])
    >>> even = SelectedRows(rows, lambda start, stop: np.arange(start, stop) % 2 == 0)
    >>> next(even.blocks(5)).X.ravel().tolist()
    [0.0, 2.0, 4.0]
    """

    rows: Rows
    selects: Callable[[int, int], NDArray[np.bool_]]
    """Whether each of the rows from one position to another is selected."""

    @property
    def names(self) -> Sequence[str] | None:
        """Column names."""
        return self.rows.names

    @property
    def n_features(self) -> int:
        """How many columns."""
        return self.rows.n_features

    def blocks(self, rows: int) -> Iterator[Block]:
        """The selected rows in order, at most ``rows`` at a time."""
        stop = 0  # counted here: a person's cell must not depend on what a block says of itself
        for block in self.rows.blocks(rows):
            start, stop = stop, stop + len(block.X)
            chosen = self.selects(start, stop)
            weight = None if block.weight is None else block.weight[chosen]
            yield Block(block.X[chosen], weight, start)


def cell_rows(
    rows: Rows, key: bytes, index: int, count: int, owner: NDArray[np.int64] | None = None
) -> SelectedRows:
    """The rows of one cell. All rows of a person (``owner``) lie in the person's cell."""
    if owner is None:
        return SelectedRows(rows, lambda a, b: cells_of(key, a, b, count) == index)
    return _marked(rows, (cells_of(key, 0, int(owner.max(initial=-1)) + 1, count) == index)[owner])


def picked_rows(rows: Rows, index: NDArray[np.int64]) -> SelectedRows:
    """The rows at these positions, in their own order; one mark per row is held, rows are not."""
    picked = np.zeros(int(index.max(initial=-1)) + 1, dtype=np.bool_)
    picked[index] = True
    return _marked(rows, picked)


def _marked(rows: Rows, marks: NDArray[np.bool_]) -> SelectedRows:
    """Rows with a mark; those beyond the last one, in a file that has grown, have none."""

    def selects(start: int, stop: int) -> NDArray[np.bool_]:
        known = marks[start:stop]
        return np.pad(known, (0, stop - start - len(known)))

    return SelectedRows(rows, selects)
