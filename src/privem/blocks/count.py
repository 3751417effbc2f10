"""How many records there are: under add-remove neighbours that is private too."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ..core import Block, Group, Scratch
from ..tree import Array
from . import conditions
from .rounding import U
from .sensitivity import capped

__all__ = ["MOST_ROWS", "Count", "CountQuery"]

# The number of records is taken to be below this: public knowledge about any data set there is.
MOST_ROWS = 2.0**36
_BITS = 36


@dataclass(frozen=True)
class Count:
    """Number of records, or sum of their weights."""

    count: Array


@dataclass(frozen=True)
class CountQuery:
    """Counts records; one record counts at most ``cap_weight``.

    Weights are rounded down to multiples of q = 2^-36 of the power of two above the cap. A block's
    sum is then exact in any order (16 + 36 bits), and so are the carries of the running total: all
    that is ever rounded is the final sum, once. At most ``MOST_ROWS`` q <= 2 caps are lost.
    """

    cap_weight: float = 1.0
    block_rows: int = 65_536
    kind: str = "gaussian"
    travels = ("cap_weight",)

    def __call__(self, block: Block, scratch: Scratch) -> Count:
        """Sum a block."""
        weight = capped(block.weight, self.cap_weight, len(block.X))
        if weight is None:
            return Count(np.asarray(float(len(block.X))))
        step = math.ldexp(1.0, math.frexp(self.cap_weight)[1] - _BITS)
        return Count(np.asarray(np.floor(weight / step).sum() * step))

    def groups(self, neighbours: str) -> list[Group]:
        """A record adds a weight in [0, cap]; replacing one moves the sum by at most the cap.

        It is one number, so the norms of both kinds of noise agree.
        """
        return [Group("count", slice(0, 1), self.cap_weight * (1 + 2.0**-40), self.kind)]

    def rounding(self, rows: float) -> float:
        """One rounding of the total, which is at most ``rows`` caps."""
        return rows * self.cap_weight * 2 * U

    def check(self, d: int, private: bool) -> None:
        """A weight has a cap."""
        conditions.ordinary(self.cap_weight)
