"""The bounded queries of the symmetric models: gradients, and what a private start is made from.

*Gradients* are summed by :class:`privem.blocks.gradient.BoundedGradientQuery`, which bounds them.

*Directions* (:class:`DirectionsQuery`), for a spectral start. A record x is whitened (``whitener``;
``None``: as it is), pulled onto the ball of radius ``radius`` and divided by it: v, |v| <= 1. It
contributes h svec(v v') with |h| <= 1: h = 1, or, where there is a target y, h = (y^2 - c)/(y^2 +
c) with a public c. For records that are symmetric about b (a mixture at +-b; covariates that
explain y by <b, x>, weighted by how large y is) b is the top eigenvector of its expectation,
whatever the radius; a ball well inside the data takes the noise down with it and makes outliers
harmless. Sensitivity: :class:`privem.blocks.bounded_sums.OuterSum`.

*Squares* (:class:`SquaresQuery`), for the size of records. With public radii r, sum |x|^2/r^2 for
the features and for the target, each within [0, 1]: sqrt(parts), for either relation, as no entry
moves by more than one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ...blocks import conditions
from ...blocks.bounded_sums import BoundedSum, Cell, InRegion, OuterSum
from ...blocks.bounding import Clip
from ...blocks.gradient import Gradient
from ...blocks.region import Region
from ...blocks.sensitivity import one_group
from ...core import Block, Group, Scratch
from ...linalg import Array, U, gamma


@dataclass(frozen=True)
class SymmetricGradient(Gradient):
    """y = z b + noise, z = +-1 alike: (2w - 1) y - b with 2w - 1 = tanh(<b, y>/sigma^2)."""

    travels = ("beta", "variance")
    target = False

    def __call__(self, x: Array, raw: Array, scratch: Scratch) -> tuple[Array, Array]:
        """Gradients, and |y|^2 - 2 (2w - 1) <y, b> + |b|^2."""
        along = self.beta @ x
        sign = np.tanh(along / self.variance)
        square = np.einsum("ij,ij->j", x, x) - 2 * sign * along + self.beta @ self.beta
        g = scratch.take("gradient", x.shape)
        np.multiply(x, sign, out=g)
        g -= self.beta[:, None]
        return g, square

    def error(self, x: float, y: float) -> tuple[float, float]:
        """With a = <b, y>/sigma^2 off by gamma_{d+4} |b| x/sigma^2, tanh no steeper than one."""
        b, d = float(np.linalg.norm(self.beta)), self.size
        sign = gamma(d + 4) * b * x / self.variance + 16 * U
        return (
            sign * x + 4 * U * (x + b),
            gamma(d + 8) * (x + b) ** 2 + 2 * sign * x * b,
        )


@dataclass(frozen=True)
class SymmetricRegressionGradient(Gradient):
    """y = z <b, x> + noise: ((2w - 1) y - <x, b>) x with 2w - 1 = tanh(y <x, b>/sigma^2).

    Taken in the coordinates ``whitener @ x``, in which ``beta`` is given; ``None`` is x itself.
    """

    whitener: Array | None = None
    travels = ("beta", "variance", "whitener")
    target = True

    def __call__(self, x: Array, raw: Array, scratch: Scratch) -> tuple[Array, Array]:
        """Gradients, and y^2 - 2 (2w - 1) y <x, b> + <x, b>^2; the last row of x is y."""
        y, g = x[-1], scratch.take("gradient", (self.size, x.shape[1]))
        if self.whitener is None:
            g[:] = x[:-1]
        else:
            np.matmul(self.whitener, x[:-1], out=g)
        fitted = self.beta @ g
        sign = np.tanh(y * fitted / self.variance)
        square = y * y - 2 * sign * y * fitted + fitted * fitted
        g *= sign * y - fitted
        return g, square

    def error(self, x: float, y: float) -> tuple[float, float]:
        """The whitened x errs by gamma_d |W| x; all else follows from it."""
        b, d = float(np.linalg.norm(self.beta)), self.size
        stretch = 1.0 if self.whitener is None else float(np.linalg.norm(self.whitener))
        size = stretch * x
        moved = 0.0 if self.whitener is None else gamma(d + 1) * size
        f, f_off = b * size, gamma(2 * d + 4) * b * size
        sign = (y * f_off + gamma(4) * y * f) / self.variance + 16 * U
        residual = sign * y + f_off + 4 * U * (y + f)
        return (
            residual * (size + moved) + (y + f) * (moved + 4 * U * size),
            2 * sign * y * f + 2 * (y + f) * f_off + f_off**2 + 16 * U * (y + f) ** 2,
        )

    def check(self, d: int, target: bool) -> None:
        """Of a target and d features, whitened or not."""
        super().check(d, target)
        if self.whitener is not None:
            conditions.shaped((d, d), self.whitener)
            conditions.magnitudes(self.whitener)


@dataclass(frozen=True)
class DirectionsQuery(InRegion, OuterSum):
    """Second moments of bounded directions. ``square``: the constant c of records with a target."""

    region: Region
    radius: float
    whitener: Array | None = None
    target: Region | None = None
    square: float = 1.0
    cap_weight: float = 1.0
    cell: Cell | None = None
    travels = ("region", "radius", "whitener", "target", "square", "cap_weight", "cell")

    @property
    def width(self) -> int:
        """One entry per feature."""
        return self.region.d

    def vectors(self, block: Block, scratch: Scratch) -> tuple[Array, Array | None]:
        """Directions v (d, b), and h (b,) or None where it is one."""
        x = self.inside(block.X, scratch)
        d = self.region.d
        v = scratch.take("directions", (d, x.shape[1]))
        if self.whitener is None:
            v[:] = x[:d]
        else:
            np.matmul(self.whitener, x[:d], out=v)
        Clip(self.radius).apply(v, scratch)
        v /= self.radius
        if self.target is None:
            return v, None
        square = x[d] * x[d]
        return v, (square - self.square) / (square + self.square)

    def groups(self, neighbours: str) -> list[Group]:
        """One group; h is signed where there is a target."""
        replaced = 2.0 if self.target is not None else math.sqrt(2.0)
        return one_group(self, "directions", neighbours, 1.0, replaced)

    def rounding(self, rows: float) -> float:
        """Each v errs by its own rounding over the radius; h by a few units; v v' by twice that."""
        d, x = self.region.d, self.region.radius
        given = 0.0
        if self.whitener is not None:
            given = gamma(d + 1) * float(np.linalg.norm(self.whitener)) * x
        off = Clip(self.radius).error(d, given) / self.radius + 4 * U
        moved = 2 * off + off * off + 32 * U
        return rows * (moved + gamma(self.block_rows + 32) * (1 + moved))

    def check(self, d: int, private: bool) -> None:
        """Of the features alone, it leaves a target aside."""
        aside = self.target is None and self.region.d == d - 1
        self.check_records(d - aside, private)
        conditions.ordinary(self.radius)
        conditions.need(0.0 < self.square < math.inf)
        if private:
            conditions.ordinary(self.square)
        if self.whitener is not None:
            conditions.shaped((self.region.d, self.region.d), self.whitener)
            conditions.magnitudes(self.whitener)


@dataclass(frozen=True)
class SquareSums:
    """Sum of squared norms per part, in units of the squared radius."""

    squares: Array


@dataclass(frozen=True)
class SquaresQuery(InRegion, BoundedSum[SquareSums]):
    """Squares of records pulled onto balls of public ``radii`` (after their regions)."""

    region: Region
    radii: tuple[float, ...]
    target: Region | None = None
    cap_weight: float = 1.0
    cell: Cell | None = None
    travels = ("region", "radii", "target", "cap_weight", "cell")

    @property
    def size(self) -> int:
        """How many numbers are released."""
        return len(self.radii)

    def contributions(self, block: Block, scratch: Scratch) -> Array:
        """What each record of a block adds, (parts, b), before weights."""
        x = self.inside(block.X, scratch)
        d = self.region.d
        parts = [x[:d]] if self.target is None else [x[:d], x[d:]]
        squares = [np.einsum("ij,ij->j", part, part) for part in parts]
        return np.stack(
            [np.minimum(s / r**2, 1.0) for s, r in zip(squares, self.radii, strict=True)]
        )

    def unravel(self, vector: Array) -> SquareSums:
        """The sums from the vector of their numbers."""
        return SquareSums(vector)

    def groups(self, neighbours: str) -> list[Group]:
        """One group; derived above."""
        moved = math.sqrt(self.size)
        return one_group(self, "squares", neighbours, moved, moved)

    def rounding(self, rows: float) -> float:
        """Squares to d roundings, sums to one per row of a block; all terms are positive."""
        relative = gamma(self.region.d + 16) + gamma(self.block_rows + 32)
        return rows * 2 * math.sqrt(self.size) * relative

    def check(self, d: int, private: bool) -> None:
        """A radius for each part."""
        self.check_records(d, private)
        conditions.need(len(self.radii) == 1 + (self.target is not None))
        conditions.ordinary(*self.radii)
