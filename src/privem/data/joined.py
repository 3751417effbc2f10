"""Rows with a target: features and, as the last column, what they are to explain."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..core import Block
from .array import ArrayRows
from .frame import FrameRows

__all__ = ["JoinedRows"]


@dataclass(frozen=True)
class JoinedRows:
    """Rows of an array or a frame, each followed by its target; joined a block at a time.

    Files need no joining: ``read_file`` takes their columns in any order, the target last.

    Examples
    --------
    >>> rows = JoinedRows(ArrayRows(np.arange(6.0).reshape(3, 2)), np.array([7.0, 8.0, 9.0]))
    >>> next(rows.blocks(2)).X.tolist()
    [[0.0, 1.0, 7.0], [2.0, 3.0, 8.0]]
    """

    rows: ArrayRows | FrameRows
    target: NDArray[np.float64]
    weight: NDArray[np.float64] | None = None
    name: str = "target"

    @property
    def names(self) -> Sequence[str] | None:
        """Column names, the target's last."""
        return None if self.rows.names is None else [*self.rows.names, self.name]

    @property
    def n_features(self) -> int:
        """How many columns, the target included."""
        return self.rows.n_features + 1

    def take(self, index: NDArray[np.int64]) -> JoinedRows:
        """Some of the rows, unweighted."""
        return JoinedRows(self.rows.take(index), self.target[index], None, self.name)

    def blocks(self, rows: int) -> Iterator[Block]:
        """All rows in order, at most ``rows`` at a time."""
        stop = 0
        for block in self.rows.blocks(rows):
            X = np.empty((len(block.X), self.n_features))
            start, stop = stop, stop + len(X)
            where = slice(start, stop)
            X[:, :-1], X[:, -1] = block.X, self.target[where]
            yield Block(X, None if self.weight is None else self.weight[where], start)
