"""The bounded queries of regression with missing covariates: gradients, scales and moments.

*Gradients* are summed by :class:`privem.blocks.gradient.BoundedGradientQuery`, which bounds them.

For the other two, records are pulled into a public region and missing entries (NaN) set to zero; x,
y are then scaled by public radii, a = x/r_x and c = y/r_y, each pulled onto the unit ball.

*Scales.* A record contributes (o/sqrt(d), |a|^2, c^2), o being one for observed entries: norm at
most sqrt(3), and as entries lie in [0, 1/sqrt(d)] and [0, 1] replacing a record moves no more.

*Moments.* With v = (a, c)/sqrt(2), |v| <= 1, a record contributes svec(v v'): see
:class:`privem.blocks.bounded_sums.OuterSum`, with h = 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ...blocks.bounded_sums import BoundedSum, Cell, InRegion, OuterSum
from ...blocks.conditions import ordinary
from ...blocks.gradient import Gradient
from ...blocks.region import Region
from ...blocks.sensitivity import one_group
from ...core import Block, Group, Scratch
from ...linalg import Array, gamma


@dataclass(frozen=True)
class MissingCovariateGradient(Gradient):
    """y = <b, x> + noise, x standard normal with entries missing at random (NaN).

    With D = sigma^2 + |b_mis|^2 and r = y - <b_obs, x_obs>, the expectations reduce to
    r x_obs sigma^2/D on observed entries and b_mis (sigma^2/D)(r^2/D - 1) on missing ones: m (y -
    <m, b>) - V b with m = (x_obs, r b_mis/D) and V = diag(missing) - b_mis b_mis'/D.
    """

    travels = ("beta", "variance")
    target = missing = True

    def __call__(self, x: Array, raw: Array, scratch: Scratch) -> tuple[Array, Array]:
        """Gradients, and (r sigma^2/D)^2 + |b_mis|^2 sigma^2/D; the last row of x is y."""
        y, g = x[-1], scratch.take("gradient", (self.size, x.shape[1]))
        missing = np.isnan(raw[:, :-1].T)
        np.copyto(g, x[:-1])
        g[missing] = 0.0
        residual = y - self.beta @ g
        hidden = (self.beta**2) @ missing
        total = self.variance + hidden
        share = self.variance / total
        g *= residual * share
        factor = share * (residual**2 / total - 1)
        g += (self.beta[:, None] * missing) * factor
        return g, (residual * share) ** 2 + hidden * share

    def error(self, x: float, y: float) -> tuple[float, float]:
        """Sums of d terms, and D >= sigma^2 with relative error gamma_{d+4}."""
        b, d = float(np.linalg.norm(self.beta)), self.size
        r = y + b * x
        relative = gamma(4 * d + 48)
        return (
            relative * (r * x + b * (r * r / self.variance + 1) + b),
            relative * (r * r + b * b),
        )


@dataclass(frozen=True)
class ScaleSums:
    """How often entries are observed (d,), over sqrt(d); sums of |a|^2 and c^2 (2,)."""

    observed: Array
    squares: Array


@dataclass(frozen=True)
class _Records(InRegion):
    """What both queries below know. ``radii``: r_x and r_y."""

    region: Region
    target: Region
    radii: tuple[float, float]
    cap_weight: float = 1.0
    cell: Cell | None = None
    travels = ("region", "target", "radii", "cap_weight", "cell")

    def _scaled(self, block: Block, scratch: Scratch) -> tuple[Array, Array, Array]:
        """Observed (d, b), a (d, b) and c (b,)."""
        x = self.inside(block.X, scratch, missing=True)
        d = self.region.d
        observed = ~np.isnan(block.X[:, :d].T)
        a = np.where(observed, x[:d], 0.0) / self.radii[0]
        a /= np.maximum(np.sqrt(np.einsum("ij,ij->j", a, a)), 1.0)
        return observed.astype(np.float64), a, np.clip(x[d] / self.radii[1], -1.0, 1.0)

    def check(self, d: int, private: bool) -> None:
        """Regions of features and target, and a radius for each."""
        self.check_records(d, private)
        ordinary(*self.radii)


@dataclass(frozen=True)
class ScalesQuery(_Records, BoundedSum[ScaleSums]):
    """How often entries are observed, and how large records are."""

    @property
    def size(self) -> int:
        """How many numbers are released."""
        return self.region.d + 2

    def contributions(self, block: Block, scratch: Scratch) -> Array:
        """What each record of a block adds, (size, b), before weights."""
        observed, a, c = self._scaled(block, scratch)
        observed /= math.sqrt(self.region.d)
        squares = np.stack([np.minimum(np.einsum("ij,ij->j", a, a), 1.0), c * c])
        return np.concatenate([observed, squares])

    def unravel(self, vector: Array) -> ScaleSums:
        """The sums from the vector of their numbers."""
        return ScaleSums(vector[:-2], vector[-2:])

    def groups(self, neighbours: str) -> list[Group]:
        """One group; derived above."""
        return one_group(self, "scales", neighbours, math.sqrt(3.0), math.sqrt(3.0))

    def rounding(self, rows: float) -> float:
        """A few roundings of each entry, one per row of a block of the sums; all are positive."""
        return rows * 2 * (gamma(self.region.d + 16) + gamma(self.block_rows + 32))


@dataclass(frozen=True)
class ObservedMomentsQuery(_Records, OuterSum):
    """Second moments of what is observed."""

    @property
    def width(self) -> int:
        """One entry per feature, and the target."""
        return self.region.d + 1

    def vectors(self, block: Block, scratch: Scratch) -> tuple[Array, None]:
        """The vectors v (d + 1, b)."""
        _, a, c = self._scaled(block, scratch)
        return np.concatenate([a, c[None]]) * math.sqrt(0.5), None

    def groups(self, neighbours: str) -> list[Group]:
        """One group; derived above."""
        return one_group(self, "moments", neighbours, 1.0, math.sqrt(2.0))

    def rounding(self, rows: float) -> float:
        """Of v: gamma_{d+16}, twice that of v v'; of the sums: a rounding per row."""
        off = 2.5 * gamma(self.region.d + 16)
        return rows * (off + gamma(self.block_rows + 32) * (1 + off))
