"""Synthetic clusters, written into place so that making them needs no second copy."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

__all__ = ["clusters", "start_values"]

_PIECE = 100_000


def clusters(n: int, d: int, k: int, seed: int = 0) -> Array:
    """Rows of k overlapping Gaussian clusters with unequal sizes and correlated columns."""
    rng = np.random.default_rng(seed)
    means = rng.normal(size=(k, d)) * 6 / np.sqrt(d) ** 0.5
    mixing = np.eye(d) + 0.4 * rng.normal(size=(k, d, d)) / np.sqrt(d)
    weights = rng.dirichlet(np.full(k, 5.0))
    X = np.empty((n, d))
    for start in range(0, n, _PIECE):
        part = X[start : start + _PIECE]
        rng.standard_normal(out=part)
        edges = np.cumsum(rng.multinomial(len(part), weights))
        for j, (low, high) in enumerate(zip([0, *edges[:-1]], edges, strict=True)):
            part[low:high] = part[low:high] @ mixing[j] + means[j]
        rng.shuffle(part)
    return X


def start_values(X: Array, k: int, covariance_type: str) -> dict[str, Array]:
    """The same beginning for both libraries: random rows, equal weights, a common covariance."""
    rng = np.random.default_rng(1)
    some = X[rng.choice(len(X), size=min(len(X), 20_000), replace=False)]
    precision = np.linalg.inv(np.atleast_2d(np.cov(some.T)) / 2)
    precisions = {
        "full": np.stack([precision] * k),
        "tied": precision,
        "diag": np.stack([np.diag(precision)] * k),
        "spherical": np.full(k, np.trace(precision) / X.shape[1]),
    }[covariance_type]
    return {
        "weights_init": np.full(k, 1 / k),
        "means_init": some[:k].copy(),
        "precisions_init": precisions,
    }
