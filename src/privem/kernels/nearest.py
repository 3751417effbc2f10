"""Nearest-centre statistics for k-means: hard assignments, then the same sums.

Sums over a block are made in pieces that stay in the cache, and the pieces are added, so that at
most :func:`nearest_block_rows` additions follow one another however large the block is. The
compiled pass (:mod:`privem.kernels.compiled`) takes pieces of 256 records, which is fewer.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..linalg import Array, Scratch, short_buffers

# Records with more columns than this are not transposed. Measured: transposing takes a tenth of the
# time of a k-means fit at 64 columns, a third at 256.
_LONG = 64
# A block of sums has about so many rows: what a block costs beside its rows is then a tenth.
_BLOCK, _PIECES = 2**15, 8


def nearest_block_rows(d: int, n_clusters: int) -> int:
    """Rows per block: centred rows and distances stay in the cache."""
    return int(np.clip(2**17 // (d + n_clusters), 504, 8184)) // 8 * 8


def piece_rows(d: int, n_clusters: int) -> int:
    """Rows per piece of a sum; with the additions of all pieces of a block, as many as above."""
    return nearest_block_rows(d, n_clusters) - _PIECES


def sums_block_rows(d: int, n_clusters: int) -> int:
    """Rows per block of a sum."""
    piece = piece_rows(d, n_clusters)
    return piece * int(np.clip(_BLOCK // piece, 1, _PIECES))


def nearest_sums(
    rows: Array, origin: Array, centres: Array, weight: Array | None, scratch: Scratch
) -> tuple[Array, Array, float]:
    """Counts (K,), sums (K, d) and squared distances of the records nearest to each centre.

    ``centres`` are given about ``origin``, and so are sums. Ties go to the lowest index.
    """
    k, d = centres.shape
    size, b = piece_rows(d, k), len(rows)
    sums, square = np.zeros((k, 1 + d)), 0.0
    # |x - c|^2 = |x|^2 - 2 (x.c - |c|^2/2): the nearest centre has the largest bracket.
    linear = np.concatenate([-0.5 * np.einsum("ij,ij->i", centres, centres)[:, None], centres], 1)
    with short_buffers():
        for start in range(0, b, size):
            here = rows[start : start + size]
            shares = None if weight is None else weight[start : start + size]
            phi = _features(here, origin, scratch)
            score = scratch.take("score", (k, len(here)))
            member = scratch.take("member", score.shape)
            best = scratch.take("best", (len(here),))
            np.dot(linear, phi, out=score)
            np.maximum.reduce(score, axis=0, out=best)
            np.equal(score, best, out=member, casting="unsafe")
            found = member @ phi.T
            if found[:, 0].sum() != len(here):  # ties, or no numbers
                label = first_best(score, best)
                np.equal(np.arange(k)[:, None], label, out=member, casting="unsafe")
                found = member @ phi.T
            x = phi[1:]
            if shares is None:
                square += max(float(np.vdot(x, x)) - 2.0 * float(np.add.reduce(best)), 0.0)
            else:
                member *= shares
                found = member @ phi.T
                distance = np.einsum("ij,ij->j", x, x) - 2.0 * best
                square += float(np.maximum(distance, 0.0) @ shares)
            sums += found
    return sums[:, 0], sums[:, 1:], square


def _features(rows: Array, origin: Array, scratch: Scratch) -> Array:
    """Ones and centred records, (1 + d, b)."""
    b, d = rows.shape
    if d > _LONG:
        phi = scratch.take("features", (b, 1 + d)).T
        np.subtract(rows, origin, out=phi.T[:, 1:])
    else:
        phi = scratch.take("features", (1 + d, b))
        np.subtract(rows.T, origin[:, None], out=phi[1:])
    phi[0] = 1.0
    return phi


def nearest(
    rows: Array, origin: Array, centres: Array, scratch: Scratch
) -> tuple[Array, NDArray[np.int64], Array]:
    """Centred records (d, b), the index of each one's nearest centre, and its squared distance.

    ``centres`` are given about ``origin``. Ties go to the lowest index.
    """
    if rows.shape[1] > _LONG:
        x = scratch.take("x", rows.shape)
        x = np.subtract(rows, origin, out=x).T
    else:
        x = scratch.take("x", (rows.shape[1], len(rows)))
        np.subtract(rows.T, origin[:, None], out=x)
    label, distance = nearest_centre(x, centres, scratch)
    return x, label, distance


def nearest_centre(x: Array, centres: Array, scratch: Scratch) -> tuple[NDArray[np.int64], Array]:
    """Index of the nearest centre, and its squared distance, of records (d, b)."""
    b = x.shape[1]
    # |x - c|^2 = |x|^2 - 2 (x.c - |c|^2/2): the nearest centre has the largest bracket.
    score = scratch.take("score", (len(centres), b))
    np.dot(centres, x, out=score)
    score -= 0.5 * np.einsum("ij,ij->i", centres, centres)[:, None]
    best = np.maximum.reduce(score, axis=0)
    label = first_best(score, best)
    distance = np.einsum("ij,ij->j", x, x) - 2.0 * best
    return label, np.maximum(distance, 0.0)


def first_best(score: Array, best: Array) -> NDArray[np.int64]:
    """The lowest index of the best score of each record; 0 where it is NaN."""
    if len(score) > 24:  # measured: one argmax over rows beats as many comparisons
        return np.asarray(np.ascontiguousarray(score.T).argmax(axis=1))
    label = np.zeros(len(best), dtype=np.int64)
    for k in range(len(score) - 1, -1, -1):
        np.copyto(label, k, where=score[k] == best)
    return label
