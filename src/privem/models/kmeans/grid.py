"""How many records lie in each cell of a public grid.

The grid stands in a public frame: along some orthonormal axes, from a public middle, cells between
given edges. A record beyond the last edge counts in the last cell, so every record counts once.

Sensitivity: a record adds its weight (one, or at most the cap) to one cell, so L2 is 1 for adding
or removing it; replacing it moves one count down and another up, at most sqrt(2) as contributions
are not negative. Which cell is a function of the record alone: unit coordinates are (see
:class:`~privem.blocks.region.Region`), and what follows is elementwise, feature after feature, in a
fixed order, so neither the block nor a record's place in it can move it to another cell. What is
summed is *defined* by that computed cell; the only rounding left is that of adding weights.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ...blocks import conditions
from ...blocks.region import Region
from ...blocks.rounding import gamma
from ...blocks.sensitivity import capped
from ...core import Block, Group, Scratch
from ...tree import Array

_UP = 1 + 2.0**-40
# More than any plan asks for, and few enough to hold.
_MOST_CELLS = 2**20


@dataclass(frozen=True)
class CellCounts:
    """Records (or their weights) per cell, raveled in C order."""

    counts: Array


@dataclass(frozen=True)
class GridQuery:
    """Counts of the cells of a grid in unit coordinates.

    Parameters
    ----------
    region : Region
    middle : array of shape (d,)
        Edges are measured from here.
    axes : array of shape (m, d)
        Orthonormal directions, one per row; cells are cut along the first of them.
    edges : tuple of arrays
        Ends of the cells along each axis that is cut, increasing.
    cap_weight : float
    """

    region: Region
    middle: Array
    axes: Array
    edges: tuple[Array, ...]
    cap_weight: float = 1.0
    block_rows: int = 16_384
    travels = ("region", "middle", "axes", "edges", "cap_weight")

    @property
    def shape(self) -> tuple[int, ...]:
        """How many cells along each axis."""
        return tuple(len(edges) - 1 for edges in self.edges)

    @property
    def size(self) -> int:
        """How many cells."""
        return math.prod(self.shape)

    def __call__(self, block: Block, scratch: Scratch) -> CellCounts:
        """Count a block."""
        y = self.region.to_unit(block.X, scratch).T
        along, term = scratch.take("along", (2, y.shape[1]))
        cell = np.zeros(y.shape[1], dtype=np.int64)
        for axis, edges in zip(self.axes, self.edges, strict=False):
            along[:] = 0.0
            for component, feature, origin in zip(axis, y, self.middle, strict=True):
                if component == 0.0:  # it would add zero; public, and the same for every record
                    continue
                np.subtract(feature, origin, out=term)
                term *= component
                along += term  # a fixed order of summation
            cell *= len(edges) - 1
            cell += np.searchsorted(edges[1:-1], along, side="right")
        weight = capped(block.weight, self.cap_weight, len(cell))
        return CellCounts(np.bincount(cell, weight, minlength=self.size).astype(np.float64))

    def groups(self, neighbours: str) -> list[Group]:
        """One group; the bound is derived above."""
        one = math.sqrt(2.0) if neighbours == "replace-one" else 1.0
        return [Group("cells", slice(0, self.size), one * self.cap_weight * _UP)]

    def rounding(self, rows: float) -> float:
        """Sums of weights, one after the other within a block; whole numbers do not err."""
        return rows * gamma(self.block_rows + 64)

    def check(self, d: int, private: bool) -> None:
        """Whatever the axes and edges, a record counts in one cell: only their form matters."""
        self.region.check(d)
        conditions.shaped((d,), self.middle)
        conditions.table(self.axes, d)
        conditions.ordinary(self.cap_weight)
        conditions.need(0 < len(self.edges) <= len(self.axes))
        for ends in self.edges:
            conditions.need(ends.ndim == 1 and len(ends) > 1 and (np.diff(ends) > 0).all())
        conditions.need(self.size <= _MOST_CELLS)
