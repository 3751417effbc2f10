"""A random partition of the records, the same in every pass, in memory that does not grow."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..core import Block, Rows

__all__ = ["CellRows", "cells_of", "fresh_bytes", "fresh_key"]

_CHUNK = 8192


def fresh_bytes(count: int) -> bytes:
    """Secret bytes from the operating system, looked up at each call: tests put a seed there."""
    return os.urandom(count)


def fresh_key() -> bytes:
    """Secret bytes from the operating system: one partition."""
    return fresh_bytes(32)


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
class CellRows:
    """The rows of one cell. All rows of a person (``owner``) lie in the person's cell."""

    rows: Rows
    key: bytes
    index: int
    count: int
    owner: NDArray[np.int64] | None = None

    @property
    def names(self) -> Sequence[str] | None:
        """Column names."""
        return self.rows.names

    @property
    def n_features(self) -> int:
        """How many columns."""
        return self.rows.n_features

    def blocks(self, rows: int) -> Iterator[Block]:
        """The cell's rows in order, at most ``rows`` at a time."""
        persons = None
        if self.owner is not None:
            persons = cells_of(self.key, 0, int(self.owner.max(initial=-1)) + 1, self.count)
        stop = 0  # counted here: a person's cell must not hang on what a block says of itself
        for block in self.rows.blocks(rows):
            start, stop = stop, stop + len(block.X)
            if persons is None:
                cells = cells_of(self.key, start, stop, self.count)
            else:
                assert self.owner is not None
                cells = persons[self.owner[start:stop]]
            chosen = cells == self.index
            weight = None if block.weight is None else block.weight[chosen]
            yield Block(block.X[chosen], weight, start)
