"""Sums of bounded gradients: gradient EM is another query and another update.

A record contributes f = (bounded gradient, and optionally w min(q, cap)) with q its expected
squared residual. The gradient has norm at most C (``bounding.norm``), q lies in [0, cap].

*Adding or removing* a record moves the sum by at most sqrt(C^2 + w^2 cap^2). *Replacing* one moves
the gradients by at most 2 C and the squares, both in [0, w cap], by at most w cap:
sqrt(4 C^2 + w^2 cap^2). Opposite gradients with squares 0 and cap attain it. Records are pulled
into a public region first, so that rounding has a bound; nothing else rests on the region.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core import Block, Group, Scratch
from ..tree import Array
from . import conditions
from .bounding import Bounding
from .cells import Cell
from .gradients import Gradient, MissingCovariateGradient
from .region import Region
from .rounding import gamma
from .sensitivity import capped

__all__ = ["BoundedGradientQuery", "GradientSums", "Squares"]

_UP = 1 + 2.0**-40
# A gradient's own rounding is bounded by 2^-51 times its size or more (docs/proofs/gradient.md,
# section 2): below this, squares of sizes are numbers, and no record ever becomes infinite.
_MOST_ERROR = 2.0**400


@dataclass(frozen=True)
class GradientSums:
    """Sum of bounded gradients (p,), and (where asked for) of weighted squared residuals (1,)."""

    total: Array
    square: Array | None = None


@dataclass(frozen=True)
class Squares:
    """Ask for squared residuals too: their weight in the release, and the cap on each."""

    weight: float
    cap: float
    travels = ("weight", "cap")


@dataclass(frozen=True)
class BoundedGradientQuery:
    """The sum of bounded gradients over the records of a cell, or over all.

    Parameters
    ----------
    model : Gradient
        With the current parameters.
    bounding : Clip or Robust
    region : Region
        Of the features.
    target : Region, optional
        Of the target, which is then the last column.
    squares : Squares, optional
    cap_weight : float
    cell : Cell, optional
    """

    model: Gradient
    bounding: Bounding
    region: Region
    target: Region | None = None
    squares: Squares | None = None
    cap_weight: float = 1.0
    cell: Cell | None = None
    travels = ("model", "bounding", "region", "target", "squares", "cap_weight", "cell")

    @property
    def block_rows(self) -> int:
        """Blocks of about half a megabyte: a handful of passes over each stay in the cache."""
        return int(np.clip(2**16 // (self.region.d + 2), 64, 8184)) // 8 * 8

    @property
    def size(self) -> int:
        """How many numbers are released."""
        return self.model.size + (self.squares is not None)

    def contributions(self, block: Block, scratch: Scratch) -> Array:
        """What each record of a block adds, (size, b), before weights; in working memory."""
        masks = isinstance(self.model, MissingCovariateGradient)
        x = in_region(block.X, self.region, self.target, scratch, masks)
        g, square = self.model(x, block.X, scratch)
        self.bounding.apply(g, scratch)
        if self.squares is None:
            return g
        joint = scratch.take("contributions", (self.size, g.shape[1]))
        joint[:-1] = g
        joint[-1] = self.squares.weight * np.clip(square, 0.0, self.squares.cap)
        return joint

    def __call__(self, block: Block, scratch: Scratch) -> GradientSums:
        """Sum a block."""
        f = self.contributions(block, scratch)
        weight = capped(block.weight, self.cap_weight, f.shape[1])
        total = f.sum(axis=1) if weight is None else f @ weight
        if self.squares is None:
            return GradientSums(total)
        return GradientSums(total[:-1], total[-1:])

    def unravel(self, vector: Array) -> GradientSums:
        """The sums from the vector of their numbers."""
        if self.squares is None:
            return GradientSums(vector)
        return GradientSums(vector[:-1], vector[-1:])

    def groups(self, neighbours: str) -> list[Group]:
        """One group; derived above."""
        c = self.bounding.norm(self.model.size)
        cap = 0.0 if self.squares is None else self.squares.weight * self.squares.cap
        match neighbours:
            case "add-remove":
                moved = math.hypot(c, cap)
            case "replace-one":
                moved = math.hypot(2 * c, cap)
            case _:
                raise ValueError(
                    f"neighbours must be 'add-remove' or 'replace-one', got {neighbours!r}"
                )
        return [Group("gradient", slice(0, self.size), moved * self.cap_weight * _UP)]

    def rounding(self, rows: float) -> float:
        """Per record: the gradient's own error, the bounding's, and its part of the sums."""
        x = reach(self.region)
        y = 0.0 if self.target is None else reach(self.target)
        g, q = self.model.error(x, y)
        p = self.model.size
        moved = self.bounding.error(p, g)
        norm = self.bounding.norm(p)
        if self.squares is not None:
            moved += self.squares.weight * (q + 4 * 2.0**-53 * self.squares.cap)
            norm = math.hypot(norm, self.squares.weight * self.squares.cap)
        return rows * (moved + gamma(self.block_rows + 32) * (norm + moved))

    def check(self, d: int, private: bool) -> None:
        """The gradient fits the records, and none of them overflows before it is bounded.

        What is not a number would be published as zero, and whoever made it so could be seen.
        """
        check_records(self, d, private)
        self.model.check(self.region.d, self.target is not None)
        self.bounding.check()
        if self.squares is not None:
            conditions.ordinary(self.squares.weight, self.squares.cap)
        y = 0.0 if self.target is None else reach(self.target)
        errors = self.model.error(reach(self.region), y)
        conditions.need(all(error < _MOST_ERROR for error in errors))


def check_records(query: Any, d: int, private: bool) -> None:
    """Regions of the features and of a target, which is then the last column; weights and cell."""
    features = d - (query.target is not None)
    conditions.need(features > 0)
    query.region.check(features, data=private)
    if query.target is not None:
        query.target.check(1, data=private)
    conditions.ordinary(query.cap_weight)
    if query.cell is not None:
        query.cell.check(private)


def reach(region: Region) -> float:
    """The largest norm of a record in the data's own coordinates, rounded up."""
    if region.ball:
        size = float(np.linalg.norm(region.centre) + region.scale.max())
    else:
        size = float(np.linalg.norm(np.abs(region.centre) + region.limit * region.scale))
    return size * (1 + 2.0**-36)


def in_region(
    rows: Array, region: Region, target: Region | None, scratch: Scratch, masks: bool = False
) -> Array:
    """Records pulled into their region, in the data's coordinates, (c, b), in working memory.

    ``masks``: NaN among the features means missing, and is put at the region's centre, where it
    pulls on nothing else.

    Elementwise and correctly rounded, like :meth:`Region.to_unit`: what comes out is a function of
    the record, wherever in a block it stands.
    """
    x = scratch.take("bounded", rows.T.shape)
    d = region.d
    features = rows[:, :d]
    if masks:
        features = np.where(np.isnan(features), region.centre, features)
    inside = region.to_unit(features, scratch).T
    np.multiply(inside, region.scale[:, None], out=x[:d])
    x[:d] += region.centre[:, None]
    if target is not None:
        inside = target.to_unit(rows[:, d:], scratch).T
        np.multiply(inside, target.scale[:, None], out=x[d:])
        x[d:] += target.centre[:, None]
    return x
