"""Any bounded query, asked of one person at a time.

What a device computes is the query itself, called on a block of its one record: nothing has to be
written anew for a model to be fitted under local privacy, and what it sends cannot depend on
anybody else. :mod:`privem.local` turns it into messages.

*Sensitivity.* Any two records are neighbours in the sense of replace-one in data of one record:
the query's own bound for ``"replace-one"``, and its ``rounding(1)``, hold for the message.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core import Block, Group, Scratch
from ..tree import Array, ravel, unravel
from .cells import Cell

__all__ = ["Personal"]


@dataclass(frozen=True)
class Personal:
    """``query``, for the people of a cell, each on a device of their own.

    Parameters
    ----------
    query : PrivateQuery
        Of one group of numbers.
    n_features : int
        Columns of a record.
    cell : Cell, optional
        Whose round it is; ``None``: everyone's.
    """

    query: Any
    n_features: int
    cell: Cell | None = None

    @property
    def block_rows(self) -> int:
        """People at a time."""
        return int(self.query.block_rows)

    @property
    def size(self) -> int:
        """How many numbers a message has."""
        return int(self.query.groups("replace-one")[-1].where.stop)

    def contributions(self, block: Block, scratch: Scratch) -> Array:
        """What each record adds, (size, b): the query of it alone, bit for bit."""
        found = np.empty((self.size, len(block.X)))
        for i in range(len(block.X)):
            found[:, i] = ravel(self.query(Block(block.X[i : i + 1]), scratch))
        return found

    def __call__(self, block: Block, scratch: Scratch) -> Any:
        """The sum over a block, as for any query."""
        return self.query(block, scratch)

    def unravel(self, vector: Array) -> Any:
        """Numbers as the query's statistics."""
        return unravel(self.query(Block(np.empty((0, self.n_features))), Scratch()), vector)

    def groups(self, neighbours: str) -> list[Group]:
        """The query's own."""
        return list(self.query.groups(neighbours))

    def rounding(self, rows: float) -> float:
        """The query's own."""
        return float(self.query.rounding(rows))
