"""What is done to noisy moments after their release: free, and needed for valid parameters."""

from __future__ import annotations

import math

import numpy as np
from scipy.stats import chi2

from ..tree import Array

__all__ = ["clip_radius", "consistency", "james_stein", "operator_noise", "soften", "soften_each"]


def clip_radius(d: int) -> float:
    """How far whitened records may lie from their component: almost all Gaussian ones do."""
    return math.sqrt(d + 2 * math.sqrt(3 * d) + 6)


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


def operator_noise(d: int, deviation: Array | float) -> Array:
    """Typical operator norm of a symmetric noise matrix whose svec entries have this deviation."""
    return np.asarray(2 * math.sqrt(d / 2) * np.asarray(deviation))


def soften(matrix: Array, low: float, noise: float, high: float) -> Array:
    """Eigenvalues kept between bounds, and smoothly away from zero at the size of their noise."""
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    return np.asarray((vectors * soften_each(values, low, noise, high)) @ vectors.T)


def soften_each(values: Array, low: float, noise: Array | float, high: float) -> Array:
    """As :func:`soften`, for variances."""
    return np.clip(0.5 * (values + np.sqrt(values**2 + np.square(noise))), low, high)
