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

*What clipping does to Gaussian residuals.* If residuals are clipped at a radius c, moving their
centre by a small v moves the mean of the clipped ones by :func:`slope` v. Dividing by it makes a
clipped step as long as an unclipped one; the point at which steps vanish is the same. The clipped
residuals' mean square per coordinate is their :func:`energy`: of n records, the step then has
variance (energy/n + noise^2)/slope^2 in each coordinate, and noise is proportional to c.
:func:`best_radius` minimises that. Residuals are standard Gaussian vectors of d dimensions
(:data:`VECTOR`), or x r with x such a vector and r standard normal (:data:`PRODUCT`), as in a
regression.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import ndtr
from scipy.stats import chi

from ..core import Scratch
from ..kernels.robust import ERROR, robust_bound, robust_rows
from ..linalg import Array, gamma
from . import conditions

VECTOR, PRODUCT = "vector", "product"
_ROOT = 1 / math.sqrt(2 * math.pi)
# Radii tried, in units of the typical length sqrt(d).
_RADII = (0.3, 0.4, 0.5, 0.65, 0.8, 1.0, 1.2, 1.4)


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


def _grid(d: int) -> tuple[np.ndarray, np.ndarray]:
    """Lengths of a Gaussian vector, and their probabilities."""
    x = np.linspace(max(1e-9, math.sqrt(d) - 10), math.sqrt(d) + 10, 4001)
    density = chi.pdf(x, d)
    density[[0, -1]] /= 2  # the trapezoidal rule
    return x, density / density.sum()


@lru_cache(maxsize=1024)
def slope(kind: str, d: int, radius: float) -> float:
    """What is left of a small shift.

    Vectors: inside the ball all of it, outside the part across the direction, scaled. Products: a
    shift moves r by <x, v>; inside all of it passes, outside nothing.

    Examples
    --------
    >>> round(slope("vector", 1, 1.0), 3), round(slope("vector", 100, 100.0), 3)
    (0.683, 1.0)
    >>> round(slope("product", 1, 1e3), 3)
    1.0
    """
    x, p = _grid(d)
    if kind == PRODUCT:
        return float(p @ (x**2 / d * (1 - 2 * ndtr(-radius / x))))
    return float(p @ np.where(x <= radius, 1.0, (1 - 1 / d) * radius / x))


@lru_cache(maxsize=1024)
def energy(kind: str, d: int, radius: float) -> float:
    """Mean square of a coordinate after clipping.

    Examples
    --------
    >>> round(energy("vector", 3, 100.0), 3), round(energy("product", 3, 1e3), 3)
    (1.0, 1.0)
    """
    x, p = _grid(d)
    if kind == VECTOR:
        return float(p @ np.minimum(x, radius) ** 2) / d
    c = radius / x  # E min(r^2, c^2) of a standard normal
    inside = 1 - 2 * ndtr(-c) - 2 * c * _ROOT * np.exp(-c * c / 2)
    return float(p @ (x**2 * (inside + c * c * 2 * ndtr(-c)))) / d


def best_radius(kind: str, d: int, noise: float) -> float:
    """Where to clip, in deviations, if the noise on a sum of n records is ``noise`` c sqrt(n).

    Examples
    --------
    >>> best_radius("product", 9, 0.0) > best_radius("product", 9, 1.0)
    True
    """

    def variance(radius: float) -> float:
        return (energy(kind, d, radius) + (noise * radius) ** 2) / slope(kind, d, radius) ** 2

    return min((r * math.sqrt(d) for r in _RADII), key=variance)
