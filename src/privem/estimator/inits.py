"""Given starting values, and starts that look at single rows (exact fits only)."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.cluster import kmeans_plusplus

from ..core import Rows
from ..linalg import Array
from ..parameters import check_array_shape, check_numbers

# k-means++ runs on at most this many rows per cluster, drawn uniformly.
_ROWS_PER_CLUSTER = 1000


def given_weights(weights: Any, k: int) -> Array:
    """Checked ``weights_init``."""
    name = "weights_init: The parameter 'weights'"
    array = check_array_shape(name, weights, (k,))
    if (array < 0).any() or (array > 1).any():
        raise ValueError(
            f"{name} should be in the range [0, 1], but got values from {array.min():.5f} to "
            f"{array.max():.5f}"
        )
    if abs(array.sum() - 1) > 1e-6:
        raise ValueError(f"{name} should be normalized, but got sum(weights) = {array.sum():.5f}")
    return np.maximum(array, np.finfo(float).tiny)


def given_centres(centres: Any, k: int, d: int) -> Array:
    """Checked centres of k-means: an ``init`` array, or what a callable returned."""
    array = check_numbers("init", centres)
    for axis, size, what in ((0, k, "clusters"), (1, d, "features of the data")):
        if array.ndim == 2 and array.shape[axis] != size:
            raise ValueError(
                f"The shape of the initial centers {array.shape} does not match the number of "
                f"{what} {size}."
            )
    return check_array_shape("init", array, (k, d))


def given_means(means: Any, k: int, d: int) -> Array:
    """Checked ``means_init``."""
    return check_array_shape("means_init: The parameter 'means'", means, (k, d))


def given_covariances(precisions: Any, covariance_type: str, k: int, d: int) -> Array:
    """Covariances from checked ``precisions_init``."""
    shape = {"full": (k, d, d), "tied": (d, d), "diag": (k, d), "spherical": (k,)}[covariance_type]
    name = f"precisions_init: The parameter '{covariance_type} precision'"
    array = check_array_shape(name, precisions, shape)
    if covariance_type in ("diag", "spherical"):
        if (array <= 0).any():
            raise ValueError(f"{name} should be positive")
        return 1.0 / array
    matrices = array if covariance_type == "full" else array[None]
    for matrix in matrices:
        if not np.allclose(matrix, matrix.T) or np.linalg.eigvalsh(matrix)[0] <= 0:
            raise ValueError(f"{name} should be symmetric, positive-definite")
    inverse = np.linalg.inv(matrices)
    inverse = (inverse + np.swapaxes(inverse, 1, 2)) / 2
    return inverse if covariance_type == "full" else np.asarray(inverse[0])


def sample_rows(
    rows: Rows, size: int, rng: np.random.Generator, by_weight: bool = False
) -> tuple[Array, Array]:
    """Up to ``size`` rows and their weights, in one pass: keeps those with the smallest keys.

    Rows of positive weight are drawn uniformly, or one after the other in proportion to their
    weights (Efraimidis and Spirakis 2006: exponential keys divided by the weights).
    """
    kept = [np.empty(0), np.empty((0, rows.n_features)), np.empty(0)]
    for block in rows.blocks(8184):
        keys = -np.log1p(-rng.random(len(block.X)))
        weight = np.ones(len(block.X)) if block.weight is None else block.weight
        usable = weight > 0
        keys = keys[usable] / weight[usable] if by_weight else keys[usable]
        fresh = (keys, np.asarray(block.X, dtype=np.float64)[usable], weight[usable])
        kept = [np.concatenate(both) for both in zip(kept, fresh, strict=True)]
        if len(kept[0]) > size:
            order = np.argsort(kept[0])[:size]
            kept = [part[order] for part in kept]
    return kept[1], kept[2]


def row_centres(rows: Rows, k: int, how: str, rng: np.random.Generator) -> Array:
    """K rows as centres: drawn by k-means++ from a sample of rows, or by weight alone."""
    alone = how in ("random", "random_from_data")
    sample, weight = sample_rows(rows, k if alone else _ROWS_PER_CLUSTER * k, rng, alone)
    if len(sample) < k:
        raise ValueError(f"n_samples={len(sample)} should be >= n_components={k}")
    if alone:
        return sample
    seed = int(rng.integers(2**31))
    return np.asarray(kmeans_plusplus(sample, k, sample_weight=weight, random_state=seed)[0])
