"""Starting points spread out without looking at data."""

from __future__ import annotations

import math

import numpy as np
from scipy.spatial.distance import pdist

from ..tree import Array
from .region import Region


def filled(region: Region) -> tuple[Array, Array]:
    """Mean and covariance, in unit coordinates, of records spread evenly over a region."""
    d = region.d
    variances = np.full(d, 1.0 / (d + 2)) if region.ball else region.limit**2 / 3
    return np.zeros(d), np.diag(variances)


def pack(
    centre: Array, covariance: Array, k: int, rng: np.random.Generator, width: float = 0.8
) -> Array:
    """K points far apart on the ellipsoid of a Gaussian: the best of many random sets.

    ``covariance`` is a matrix, or its diagonal.
    """
    d = len(centre)
    best, spread = np.zeros((k, d)), -1.0
    for _ in range(300 if d <= 10 else 20):
        points = rng.standard_normal((k, d))
        points *= math.sqrt(d) / np.maximum(np.linalg.norm(points, axis=1, keepdims=True), 1e-12)
        if k > 2 * d:  # too many for a sphere: fill the ball
            points *= rng.random((k, 1)) ** (1.0 / d) * 1.5
        gap = float(pdist(points).min(initial=math.inf))
        if gap > spread:
            best, spread = points, gap
    if covariance.ndim == 1:
        return np.asarray(centre + width * best * np.sqrt(covariance))
    return np.asarray(centre + width * best @ np.linalg.cholesky(covariance).T)
