"""Nearest-centre statistics for k-means: hard assignments, then the same sums.

Sums over a block are made in pieces that stay in the cache, and the pieces are added, so that at
most :func:`nearest_block_rows` additions follow one another however large the block is. The
compiled pass (:mod:`privem.kernels.compiled`) takes pieces of 256 records, which is fewer.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array

from ..linalg import Array, Scratch, short_buffers

# Records with more columns than this are not transposed. Measured: transposing takes a tenth of the
# time of a k-means fit at 64 columns, a third at 256.
_LONG = 64
# Up to so many sums, products with vectors are faster than adding records one by one.
_FEW = 32
# So many rows are subtracted from at a time; every full piece has a multiple of them.
_AT_ONCE = 8
# A block of sums has about so many rows: what a block costs beside its rows is then a tenth.
_BLOCK, _PIECES = 2**16, 8


def nearest_block_rows(d: int, n_clusters: int) -> int:
    """Rows per block: centred rows and distances stay in the cache."""
    return min(max(2**17 // (d + n_clusters), 504), 8184) // 8 * 8


def piece_rows(d: int, n_clusters: int) -> int:
    """Rows per piece of a sum; with the additions of all pieces of a block, as many as above."""
    return nearest_block_rows(d, n_clusters) - _PIECES


def sums_block_rows(d: int, n_clusters: int) -> int:
    """Rows per block of a sum."""
    piece = piece_rows(d, n_clusters)
    return piece * min(max(_BLOCK // piece, 1), _PIECES)


def nearest_sums(
    rows: Array, origin: Array, centres: Array, weight: Array | None, scratch: Scratch
) -> tuple[Array, Array, float]:
    """Counts (K,), sums (K, d) and squared distances of the records nearest to each centre.

    ``centres`` are given about ``origin``, and so are sums. Ties go to the lowest index.
    """
    k, d = centres.shape
    summed = _by_products if k * (1 + d) <= _FEW else _by_labels
    with short_buffers():
        return summed(rows, origin, centres, weight, scratch)


def _by_products(
    rows: Array, origin: Array, centres: Array, weight: Array | None, scratch: Scratch
) -> tuple[Array, Array, float]:
    """Few sums: who belongs to whom as numbers (K, b), multiplied by ones and records."""
    k, d = centres.shape
    size, sums, square = piece_rows(d, k), np.zeros((1 + d, k)), 0.0
    linear = np.concatenate([-_halves(centres), centres], axis=1)
    for start in range(0, len(rows), size):
        here = rows[start : start + size]
        b = len(here)
        phi, score = scratch.take("features", (1 + d, b)), scratch.take("score", (k, b))
        phi[0] = 1.0
        np.subtract(here.T, origin[:, None], out=phi[1:])
        best = np.maximum.reduce(np.dot(linear, phi, out=score), axis=0)
        same, away = score == best, float(np.add.reduce(best))
        if np.count_nonzero(same) != b or not np.isfinite(away):  # ties, or no numbers
            same = np.arange(k)[:, None] == first_best(score, best)
        member, x = scratch.take("member", (k, b)), phi[1:]
        member[:] = same  # measured: faster than to compare into numbers
        if weight is None:
            square += max(float(np.vdot(x, x)) - 2.0 * away, 0.0)
        else:
            shares = weight[start : start + size]
            member *= shares
            square += float(np.dot(_distances(x, best), shares))
        sums += [np.dot(member, column) for column in phi]
    return sums[0], sums[1:].T, square


def _by_labels(
    rows: Array, origin: Array, centres: Array, weight: Array | None, scratch: Scratch
) -> tuple[Array, Array, float]:
    """Many sums: each record is added to the sum of its cluster."""
    k, d = centres.shape
    size = piece_rows(d, k)
    count, total, square = np.zeros(k), np.zeros((k, d)), 0.0
    find, add = _NearestCentre(centres), _ClusterSums(k)
    for start in range(0, len(rows), size):
        x = _centred(rows[start : start + size], origin, scratch)
        label, best = find(x.T, scratch)
        shares = None if weight is None else weight[start : start + size]
        if shares is None:
            square += max(float(np.vdot(x, x)) - 2.0 * float(np.add.reduce(best)), 0.0)
        else:
            square += float(np.dot(_distances(x.T, best), shares))
        counted, added = add(x, label, shares)
        count += counted
        total += added
    return count, total, square


def _centred(rows: Array, origin: Array, scratch: Scratch) -> Array:
    """Records about the origin, (b, d)."""
    x = scratch.take("x", rows.shape)
    if len(rows) % _AT_ONCE:
        return np.subtract(rows, origin, out=x)
    # Measured: NumPy takes twice as long if it goes over short rows one by one.
    several = (len(rows) // _AT_ONCE, _AT_ONCE * len(origin))
    origins = np.tile(origin, _AT_ONCE)
    np.subtract(rows.reshape(several), origins, out=x.reshape(several))
    return x


class _ClusterSums:
    """Counts (K,) and sums (K, d) of records (b, d), each added to its cluster.

    A sparse matrix says who belongs to whom: SciPy multiplies by it record by record, and adds
    nothing to other clusters. Measured: it takes half the time of a product of dense matrices at 10
    columns and 8 clusters, a fifth at 50 and 20.
    """

    def __init__(self, n_clusters: int) -> None:
        self._k = n_clusters
        self._member: Any = None

    def __call__(self, x: Array, label: NDArray[Any], weight: Array | None) -> tuple[Array, Array]:
        b = len(x)
        if self._member is None or self._member.shape[1] != b:
            index, ends = np.zeros(b, dtype=np.int32), np.arange(b + 1, dtype=np.int32)
            self._member = csc_array((np.ones(b), index, ends), shape=(self._k, b))
        self._member.indices[:] = label
        if weight is not None:
            self._member.data[:] = weight
        count = np.bincount(label, weight, self._k).astype(np.float64)
        return count, np.asarray(self._member.dot(x))


def nearest(
    rows: Array, origin: Array, centres: Array, scratch: Scratch
) -> tuple[Array, NDArray[Any], Array]:
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


def nearest_centre(x: Array, centres: Array, scratch: Scratch) -> tuple[NDArray[Any], Array]:
    """Index of the nearest centre, and its squared distance, of records (d, b)."""
    label, best = _NearestCentre(centres)(x, scratch)
    return label, _distances(x, best)


def _distances(x: Array, best: Array) -> Array:
    """Squared distances of records (d, b) from centres, given their scores."""
    distance: Array = np.einsum("ij,ij->j", x, x)
    distance -= 2.0 * best
    np.maximum(distance, 0.0, out=distance)
    return distance


def _halves(centres: Array) -> Array:
    return np.asarray(0.5 * np.einsum("ij,ij->i", centres, centres)[:, None])


class _NearestCentre:
    """The index of the nearest centre c of records (d, b), and their scores x.c - |c|^2/2.

    |x - c|^2 = |x|^2 - 2 (x.c - |c|^2/2): the nearest centre has the largest bracket.
    """

    def __init__(self, centres: Array) -> None:
        self._centres, self._halves = centres, _halves(centres)

    def __call__(self, x: Array, scratch: Scratch) -> tuple[NDArray[Any], Array]:
        score = scratch.take("score", (len(self._centres), x.shape[1]))
        np.dot(self._centres, x, out=score)
        score -= self._halves
        best = np.maximum.reduce(score, axis=0)
        return first_best(score, best), best


def first_best(score: Array, best: Array) -> NDArray[Any]:
    """The lowest index of the best score of each record; 0 where it is NaN.

    Indices are of the smallest type that holds them.
    """
    k = len(score)
    # The largest mark is that of the lowest index. Of numbers of one byte a vector holds many.
    marks = np.arange(k, 0, -1, dtype=np.min_scalar_type(k))[:, None]
    found: NDArray[Any] = np.maximum.reduce((score == best).view(np.uint8) * marks, axis=0)
    if not np.minimum.reduce(found, initial=1):
        found[found == 0] = k  # NaN
    np.subtract(k, found, out=found)
    return found
