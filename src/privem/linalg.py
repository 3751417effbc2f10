"""Small dense linear algebra on symmetric matrices, total: finite input gives a valid answer."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy.linalg import solve_triangular

from .tree import Array

__all__ = ["floor_eigenvalues", "invert_cholesky", "smat", "svec", "symmetric_pairs"]


@lru_cache(maxsize=64)
def symmetric_pairs(d: int) -> tuple[np.ndarray, np.ndarray]:
    """The pairs (i, j) that name each entry of a symmetric d x d matrix once, by circular offset.

    Offset 0 is the diagonal, offset o the pairs (i, i + o mod d). Entries of one offset are the
    elementwise product of a vector with its own rotation, which is how the kernel makes them.
    """
    first, second = [], []
    for offset in range(d // 2 + 1):
        # With d even the last offset meets each pair twice: keep the first half.
        rows = d // 2 if offset and 2 * offset == d else d
        first.append(np.arange(rows))
        second.append((np.arange(rows) + offset) % d)
    i, j = np.concatenate(first), np.concatenate(second)
    i.flags.writeable = j.flags.writeable = False
    return i, j


def svec(matrix: Array) -> Array:
    """Stack the distinct entries of symmetric matrices, off-diagonals times sqrt 2.

    ``svec(A) @ svec(B)`` is the trace of A B, so the Euclidean norm of the vector is the Frobenius
    norm of the matrix: that is what a sensitivity is measured in.
    """
    i, j = symmetric_pairs(matrix.shape[-1])
    return np.asarray(matrix[..., i, j] * np.where(i == j, 1.0, np.sqrt(2.0)))


def smat(vector: Array, d: int) -> Array:
    """The symmetric matrices whose :func:`svec` is ``vector``."""
    i, j = symmetric_pairs(d)
    values = vector / np.where(i == j, 1.0, np.sqrt(2.0))
    matrix = np.empty((*vector.shape[:-1], d, d))
    matrix[..., i, j] = values
    matrix[..., j, i] = values
    return matrix


def floor_eigenvalues(matrix: Array, floor: float) -> Array:
    """Raise the eigenvalues of a symmetric matrix to ``floor``; leave it alone if they are there.

    The test is one Cholesky factorisation of ``matrix - floor/2 I``, so that well-behaved matrices
    keep every bit of theirs.
    """
    d = len(matrix)
    matrix = (matrix + matrix.T) / 2
    try:
        np.linalg.cholesky(matrix - 0.5 * floor * np.eye(d))
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(matrix)
        # The product below errs by eps * largest; the floor must survive that.
        floor = max(floor, 8 * d * np.finfo(float).eps * max(float(values[-1]), 0.0))
        matrix = (vectors * np.maximum(values, floor)) @ vectors.T
        matrix = (matrix + matrix.T) / 2
    return matrix


def invert_cholesky(matrix: Array) -> Array:
    """The lower triangular W with W A W' = I for positive definite A (W x whitens x)."""
    lower = np.linalg.cholesky(matrix)
    return np.asarray(solve_triangular(lower, np.eye(len(matrix)), lower=True))
