"""Orthogonal rotations of factor loadings towards simple structure."""

from __future__ import annotations

import numpy as np

from ...tree import Array


def rotate(components: Array, method: str, tol: float = 1e-6, max_iter: int = 100) -> Array:
    """Rotate loadings (q, d) by varimax or quartimax (Kaiser 1958), by repeated polar factors.

    The criterion is the sum of fourth powers; varimax subtracts the squared means of squares.
    """
    loadings = components.T
    rotation = np.eye(loadings.shape[1])
    reached = 0.0
    for _ in range(max_iter):
        turned = loadings @ rotation
        gradient = turned**3
        if method == "varimax":
            gradient -= turned * np.mean(turned**2, axis=0)
        left, values, right = np.linalg.svd(loadings.T @ gradient)
        rotation = left @ right
        before, reached = reached, float(values.sum())
        if before and reached < before * (1 + tol):
            break
    return np.asarray((loadings @ rotation).T)
