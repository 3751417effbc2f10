"""Clipped, whitened mixture statistics: what a private fit sums.

Per component k, with whitener W_k and mean m_k: ``u = W_k (x - m_k)`` and ``s = min(1, r^2 /
|u|^2)``. The sums of ``g_k``, ``g_k s u`` and ``g_k s u u'``, which are bounded: |s u| <= r and |s
u u'| <= r^2. One factor for both saves a root and a matrix product. Two ways to the same sums:

``by_products`` never forms u. With s from the log-density at hand, the sums of ``g s (1, x, x x')``
are one matrix product, and whitening them afterwards gives the same. ``by_differences`` forms u. It
costs more and errs less; the query's error bound says which.
"""

from __future__ import annotations

import numpy as np

from ..tree import Array
from .direct import whiten
from .quadratic import Features, Place, Tiles
from .scratch import Scratch, short_buffers
from .softmax import responsibilities

__all__ = ["PIECE", "by_differences", "by_products", "differences_block_rows"]

# One matrix product sums at most this many records: the error bound grows with them.
PIECE = 512


def by_products(
    features: Features,
    coefficients: Array,
    constants: Array,
    rows: Array,
    place: Place,
    radius: float,
    weight: Array | None,
    scratch: Scratch,
) -> tuple[Array, Array]:
    """Sums (K,) of g and (K, p) of g s phi(x).

    ``constants`` are the log joint densities at the means, so that ``-2 (L - constants)`` is the
    squared distance. ``place`` lays records out within the region. ``radius`` may be infinite.
    """
    components = len(coefficients)
    tiles = Tiles(features, coefficients, scratch, place)
    count, sums = np.zeros(components), tiles.zeros()
    clipped, half = np.isfinite(radius), 0.5 * radius**2
    size = features.tile_rows(components)
    with short_buffers(), np.errstate(over="ignore", invalid="ignore"):
        for start in range(0, len(rows), size):
            joint = tiles.log_joint(rows[start : start + size])
            here = None if weight is None else weight[start : start + size]
            if clipped:
                far = scratch.take("far", joint.shape)
                np.subtract(constants[:, None], joint, out=far)  # |u|^2 / 2
                np.clip(far, half, np.inf, out=far)  # measured: np.maximum takes twice as long
            responsibilities(joint, here, scratch)
            count += np.add.reduce(joint, axis=1)
            if clipped:
                joint /= far  # g s, but for a factor
            tiles.gather(joint, sums, PIECE)
    everything = np.concatenate(sums, axis=1)
    if clipped:
        everything *= half
    return count, everything


def differences_block_rows(d: int) -> int:
    """Rows per block of :func:`by_differences`."""
    return 4088 if d <= 16 else 1496


def by_differences(
    means: Array,
    whiteners: Array,
    constants: Array,
    rows: Array,
    place: Place,
    radius: float,
    cap: float,
    weight: Array | None,
    kind: str,
    scratch: Scratch,
) -> tuple[Array, Array, Array]:
    """Sums of g (K,), of g s u (K, d) and of g s u u'.

    The last by ``kind``: ``"full"`` (K, d, d), ``"square"`` its diagonals (K, d), ``"norm"`` their
    sums (K,). Squared distances enter the responsibilities capped at ``cap``, so that rounding
    errors of far records stay small. ``whiteners``: (K, d, d), or (K, d) if diagonal.
    """
    components, d = means.shape
    shape = {"full": (components, d, d), "square": (components, d), "norm": (components,)}[kind]
    total, second = np.empty((components, d)), np.empty(shape)
    x = scratch.take("x", (d, len(rows)))
    white = scratch.take("white", (components, d, len(rows)))
    joint = scratch.take("log_joint", (components, len(rows)))
    shrink = scratch.take("shrink", joint.shape)
    with short_buffers(), np.errstate(over="ignore", invalid="ignore"):
        place(rows, x)
        for k in range(components):
            np.subtract(x, means[k][:, None], out=white[k])
            whiten(whiteners[k], white[k])
            np.einsum("ij,ij->j", white[k], white[k], out=joint[k])
        np.clip(joint, radius**2, np.inf, out=shrink)
        np.divide(radius**2, shrink, out=shrink)
        np.clip(joint, 0.0, cap, out=joint)
        joint *= -0.5
        joint += constants[:, None]
        responsibilities(joint, weight, scratch)
        count = np.add.reduce(joint, axis=1)
        joint *= shrink
        for k in range(components):
            u, share = white[k], joint[k]
            total[k] = u @ share
            if kind == "full":
                u *= np.sqrt(share, out=share)
                second[k] = u @ u.T
            else:
                u *= u
                squares = u @ share
                second[k] = squares if kind == "square" else squares.sum()
    return count, total, second
