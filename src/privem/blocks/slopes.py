"""What clipping does to Gaussian residuals, and where it is best done: numbers, no data.

If residuals are clipped at a radius c, moving their centre by a small v moves the mean of the
clipped ones by ``slope`` v. Dividing by it makes a clipped step as long as an unclipped one; the
point at which steps vanish is the same. The clipped residuals' mean square per coordinate is their
``energy``: of n records, the step then has variance (energy/n + noise^2)/slope^2 in each
coordinate, and noise is proportional to c. :func:`best_radius` minimises that.

Residuals are standard Gaussian vectors of d dimensions (:data:`VECTOR`), or x r with x such a
vector and r standard normal (:data:`PRODUCT`), as in a regression.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from scipy.special import ndtr
from scipy.stats import chi

__all__ = ["PRODUCT", "VECTOR", "best_radius", "energy", "slope"]

VECTOR, PRODUCT = "vector", "product"
_ROOT = 1 / math.sqrt(2 * math.pi)
# Radii tried, in units of the typical length sqrt(d).
_RADII = (0.3, 0.4, 0.5, 0.65, 0.8, 1.0, 1.2, 1.4)


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
