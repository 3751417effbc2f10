"""How one record's vector is bounded before it is summed: by clipping or by smoothed truncation.

Wang et al. 2023 use the first in Algorithm 1 and the second in Algorithm 2.

Both map a vector g of p numbers to one of bounded length:

- :class:`Clip`: g C/max(C, |g|). Its norm is at most C; two of them are at most 2 C apart, and
  opposite ones that far.
- :class:`Robust`: coordinate by coordinate s E phi(g_j (1 + Z/sqrt(beta))/s), which lies within
  +-s B, B = (2 sqrt(2)/3)(2 Phi(sqrt(beta)) - 1), the exact supremum
  (:func:`privem.kernels.robust.robust_bound`). Norm at most s B sqrt(p), distances at most twice
  that, and opposite corners that far.

``neighbours``: one record is added or removed (the norm), or replaced (the distance). A bound on a
norm and one on a distance serve weights and persons as well, multiplied by the cap on weights
(:mod:`privem.blocks.sensitivity`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ..core import Scratch
from ..kernels.robust import ERROR, robust_bound, robust_rows
from ..tree import Array
from . import conditions
from .rounding import gamma

__all__ = ["Bounding", "Clip", "Robust"]


@dataclass(frozen=True)
class Clip:
    """Pull vectors onto the ball of radius ``radius``."""

    radius: float
    travels = ("radius",)

    def apply(self, g: Array, scratch: Scratch) -> Array:
        """Bound the columns of g (p, b), in place."""
        norm = np.sqrt(np.einsum("ij,ij->j", g, g))
        if not np.isfinite(norm.max(initial=0.0)):
            # Squares overflow, or not, by the order of a sum; lengths must not.
            over = ~np.isfinite(norm)
            size = np.abs(g[:, over]).max(axis=0)
            norm[over] = size * np.sqrt(np.einsum("ij,ij->j", g[:, over] / size, g[:, over] / size))
        g /= np.maximum(norm / self.radius, 1.0)
        return g

    def norm(self, p: int) -> float:
        """The largest norm of one record's vector."""
        return self.radius

    def error(self, p: int, given: float) -> float:
        """How far the computed vector may be off, if what it was given was off by ``given``.

        Clipping is a projection; the norm, the quotient and the product round p + 8 times, and
        beyond the radius a relative error t of the factor moves the vector by t times the radius.
        """
        return given + gamma(p + 16) * self.radius

    def check(self) -> None:
        """The quotient and its powers are numbers."""
        conditions.ordinary(self.radius)


@dataclass(frozen=True)
class Robust:
    """Catoni and Giulini's smoothed truncation of each coordinate; ``beta`` may be infinite."""

    scale: float
    beta: float
    travels = ("scale", "beta")

    def apply(self, g: Array, scratch: Scratch) -> Array:
        """Bound the entries of g (p, b), in place."""
        return robust_rows(g, self.scale, self.beta, scratch)

    def norm(self, p: int) -> float:
        """The largest norm of one record's vector."""
        return self.scale * robust_bound(self.beta) * math.sqrt(p)

    def error(self, p: int, given: float) -> float:
        """How far the computed vector may be off, if what it was given was off by ``given``.

        The derivative is E u phi'(a u) <= E |u| <= sqrt(1 + 1/beta) for u = 1 + Z/sqrt(beta).
        """
        slope = math.sqrt(1 + 1 / self.beta)
        return slope * given + math.sqrt(p) * self.scale * (ERROR + 16 * 2.0**-53)

    def check(self) -> None:
        """Smoothing is between next to nothing and next to everything."""
        conditions.ordinary(self.scale)
        conditions.need(2.0**-30 <= self.beta <= 2.0**100)


Bounding = Clip | Robust
