"""What is done to noisy moments after their release: free, and needed for valid parameters."""

from __future__ import annotations

import math

import numpy as np
from scipy.stats import chi2

from ..tree import Array

__all__ = [
    "clip_radius",
    "consistency",
    "james_stein",
    "operator_noise",
    "rounder",
    "soften",
    "soften_each",
]

_WIDEST = 1e4  # clip radius squared, over the least one


def clip_radius(
    d: int, tail: float = 3.0, noise: float = math.inf, tolerated: float = 0.0
) -> float:
    """How far whitened records may lie from their component.

    A Gaussian record lies further out with a probability of about exp(-tail). ``noise`` is the
    relative noise of the second moments at that radius; it grows with the radius squared, so where
    it is below what is ``tolerated`` the radius is widened until it is not, and with no noise at
    all nothing is clipped.
    """
    least = d + 2 * math.sqrt(tail * d) + 2 * tail
    return math.sqrt(least * min(max(1.0, tolerated / noise), _WIDEST))


def consistency(d: int, radius: float) -> float:
    """Mean squared coordinate of a standard Gaussian pulled onto a ball; at most one."""
    inside = chi2.cdf(radius**2, d + 2)
    return float(inside + radius**2 / d * chi2.sf(radius**2, d))


def james_stein(moves: Array, variance: Array) -> Array:
    """Shrink each row of ``moves`` (K, d) towards zero by what its noise explains.

    ``variance`` (K,): of the noise on each entry. Without this, noise moves the means a little in
    every iteration and low-epsilon fits collapse.
    """
    explained = moves.shape[1] * variance / np.maximum(np.sum(moves**2, axis=1), 1e-300)
    return np.asarray(moves * np.maximum(0.0, 1.0 - explained)[:, None])


def rounder(matrix: Array, deviation: float) -> tuple[Array, float]:
    """A symmetric matrix shrunk towards a multiple of the identity by what its noise explains.

    James' and Stein's estimator for what is left of it without its trace, which is an average and
    has the least noise. ``deviation``: of the noise on an svec entry. Also returns the part of the
    matrix, and so of its noise, that was kept.
    """
    d = len(matrix)
    level = np.trace(matrix) / d * np.eye(d)
    away = matrix - level
    noise = (d * (d + 1) / 2 - 1) * deviation**2
    kept = max(0.0, 1.0 - noise / max(float(np.sum(away**2)), 1e-300))
    return level + kept * away, kept


def operator_noise(d: int, deviation: Array | float) -> Array:
    """Typical operator norm of a symmetric noise matrix whose svec entries have this deviation."""
    return np.asarray(2 * math.sqrt(d / 2) * np.asarray(deviation))


def soften(matrix: Array, low: float, noise: float, high: float) -> Array:
    """Eigenvalues kept between bounds, and smoothly away from zero at the size of their noise."""
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    return np.asarray((vectors * soften_each(values, low, noise, high)) @ vectors.T)


def soften_each(values: Array, low: Array | float, noise: Array | float, high: float) -> Array:
    """As :func:`soften`, for variances."""
    return np.clip(0.5 * (values + np.sqrt(values**2 + np.square(noise))), low, high)
