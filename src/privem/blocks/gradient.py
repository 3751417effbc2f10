"""Sums of bounded gradients: gradient EM is another query and another M-step.

A record contributes f = (bounded gradient, and optionally w min(q, cap)) with q its expected
squared residual. The gradient has norm at most C (``bounding.norm``), q lies in [0, cap].

*Adding or removing* a record moves the sum by at most sqrt(C^2 + w^2 cap^2). *Replacing* one moves
the gradients by at most 2 C and the squares, both in [0, w cap], by at most w cap:
sqrt(4 C^2 + w^2 cap^2). Opposite gradients with squares 0 and cap attain it. Records are pulled
into a public region first, so that rounding has a bound; nothing else rests on the region.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..core import Block, Group, Scratch
from ..linalg import Array, gamma
from . import conditions
from .bounded_sums import BoundedSum, Cell, InRegion
from .bounding import Bounding
from .region import Region
from .sensitivity import one_group

# A gradient's own rounding is bounded by 2^-51 times its size or more (docs/proofs/gradient.md,
# section 2): below this, squares of sizes are numbers, and no record ever becomes infinite.
_MOST_ERROR = 2.0**400


@dataclass(frozen=True)
class Gradient(ABC):
    """Abstract base of gradients of the expected log-likelihood times the variance, per record.

    A gradient maps bounded records, features along the first axis (c, b), to gradients (p, b) and
    the expected squared residual (b,) that the variance's M-step wants. All are derived from Q(b;
    b) = -E |residual|^2/(2 sigma^2) under the current parameters (Wang et al. 2023); the factor
    1/sigma^2 is left out, so that b + mean gradient is the M-step itself where the covariates have
    unit second moment. Derivations of rounding errors: ``docs/proofs/gradient.md``, section 2.

    ``beta`` (p,) and ``variance``: the current parameters. Public.
    """

    beta: Array
    variance: float

    target: ClassVar[bool]
    """Whether records have a target, as their last row."""
    missing: ClassVar[bool] = False
    """Whether NaN among the features means missing."""

    @property
    def size(self) -> int:
        """How many parameters."""
        return len(self.beta)

    @abstractmethod
    def __call__(self, x: Array, raw: Array, scratch: Scratch) -> tuple[Array, Array]:
        """Gradients and squared residuals of bounded records; ``raw`` (b, c) shows the missing."""

    @abstractmethod
    def error(self, x: float, y: float) -> tuple[float, float]:
        """What rounding does to a gradient, in L2, and to a squared residual.

        Of features of norm at most x and a target of size at most y; tanh is taken to be within
        4 ulp.
        """

    def check(self, d: int, target: bool) -> None:
        """It is about d features, and about a target or not; refuses what would overflow."""
        conditions.need(target == self.target)
        conditions.shaped((d,), self.beta)
        conditions.magnitudes(self.beta)
        conditions.ordinary(self.variance)


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
class BoundedGradientQuery(InRegion, BoundedSum[GradientSums]):
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
    def size(self) -> int:
        """How many numbers are released."""
        return self.model.size + (self.squares is not None)

    def contributions(self, block: Block, scratch: Scratch) -> Array:
        """What each record of a block adds, (size, b), before weights; in working memory."""
        x = self.inside(block.X, scratch, self.model.missing)
        g, square = self.model(x, block.X, scratch)
        self.bounding.apply(g, scratch)
        if self.squares is None:
            return g
        joint = scratch.take("contributions", (self.size, g.shape[1]))
        joint[:-1] = g
        joint[-1] = self.squares.weight * np.clip(square, 0.0, self.squares.cap)
        return joint

    def unravel(self, vector: Array) -> GradientSums:
        """The sums from the vector of their numbers."""
        if self.squares is None:
            return GradientSums(vector)
        return GradientSums(vector[:-1], vector[-1:])

    def groups(self, neighbours: str) -> list[Group]:
        """One group; derived above."""
        c = self.bounding.norm(self.model.size)
        cap = 0.0 if self.squares is None else self.squares.weight * self.squares.cap
        moved = math.hypot(c, cap), math.hypot(2 * c, cap)
        return one_group(self, "gradient", neighbours, *moved)

    def rounding(self, rows: float) -> float:
        """Per record: the gradient's own error, the bounding's, and its part of the sums."""
        g, q = self._errors()
        p = self.model.size
        moved = self.bounding.error(p, g)
        norm = self.bounding.norm(p)
        if self.squares is not None:
            moved += self.squares.weight * (q + 4 * 2.0**-53 * self.squares.cap)
            norm = math.hypot(norm, self.squares.weight * self.squares.cap)
        return rows * (moved + gamma(self.block_rows + 32) * (norm + moved))

    def _errors(self) -> tuple[float, float]:
        """What rounding does to the gradient and the squared residual of any record."""
        return self.model.error(self.region.radius, self.target.radius if self.target else 0.0)

    def check(self, d: int, private: bool) -> None:
        """The gradient fits the records, and none of them overflows before it is bounded.

        What is not a number would be published as zero, and whoever made it so could be seen.
        """
        self.check_records(d, private)
        self.model.check(self.region.d, self.target is not None)
        self.bounding.check()
        if self.squares is not None:
            conditions.ordinary(self.squares.weight, self.squares.cap)
        conditions.need(all(error < _MOST_ERROR for error in self._errors()))
