"""Clipped, whitened mixture statistics: what a private fit sums.

Per component k, with whitener W_k and mean m_k: ``u = W_k (x - m_k)``, pulled back onto the ball of
radius r, and the sums of ``g_k``, ``g_k u`` and ``g_k u u'``. Two ways to the same sums:

``by_products`` never forms u. With ``s = min(1, r / |u|)`` from the log-density at hand, the sums
of ``g s (1, x)`` and ``g s^2 (1, x, x x')`` are matrix products, and whitening them afterwards
gives the same. ``by_differences`` forms u. It costs more and errs less; the query's error bound
says which.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg.blas import dtrmm

from ..tree import Array
from .quadratic import Features, Tiles
from .scratch import Scratch
from .softmax import softmax

__all__ = ["by_differences", "by_products", "differences_block_rows"]


def by_products(
    features: Features,
    coefficients: Array,
    constants: Array,
    x: Array,
    radius: float,
    weight: Array | None,
    scratch: Scratch,
) -> tuple[Array, Array, Array]:
    """Sums (K,) of g, (K, d+1) of g s (1, x) and (K, p) of g s^2 phi(x).

    ``constants`` are the log joint densities at the means, so that ``-2 (L - constants)`` is the
    squared distance. ``x``: (b, d), already within the region. ``radius`` may be infinite.
    """
    components = len(coefficients)
    d = features.d
    tiles = Tiles(features, coefficients, scratch)
    count = np.zeros(components)
    first = np.zeros((components, d + 1))
    second = tiles.zeros()
    size = features.tile_rows(components)
    for start in range(0, len(x), size):
        part = x[start : start + size]
        joint = tiles.log_joint(part)
        here = None if weight is None else weight[start : start + size]
        if np.isinf(radius):
            softmax(joint, here, scratch)
            count += np.add.reduce(joint, axis=1)
            first += joint @ tiles.linear.T
            tiles.gather(joint, second)
            continue
        # s = min(1, r / |u|) = 1 / max(1, |u| / r), and |u|^2 / r^2 from the log-density.
        shrink = scratch.take("shrink", joint.shape)
        np.subtract(constants[:, None], joint, out=shrink)
        shrink *= 2.0 / radius**2
        np.maximum(shrink, 1.0, out=shrink)
        softmax(joint, here, scratch)
        count += np.add.reduce(joint, axis=1)
        np.divide(1.0, shrink, out=shrink)  # s^2
        squared = scratch.take("squared", joint.shape)
        np.multiply(joint, shrink, out=squared)
        np.sqrt(shrink, out=shrink)
        joint *= shrink
        first += joint @ tiles.linear.T
        tiles.gather(squared, second)
    return count, first, np.concatenate(second, axis=1)


def differences_block_rows(d: int) -> int:
    """Rows per block of :func:`by_differences`."""
    return 4088 if d <= 16 else 1496


def by_differences(
    means: Array,
    whiteners: Array,
    constants: Array,
    x: Array,
    radius: float,
    cap: float,
    weight: Array | None,
    scratch: Scratch,
) -> tuple[Array, Array, Array]:
    """Sums of g (K,), of g u (K, d) and of g u u' (K, d, d).

    Squared distances enter the responsibilities capped at ``cap``, so that rounding errors of far
    records stay small.
    """
    components, d = means.shape
    rows = scratch.take("x", (d, len(x)))
    rows[:] = x.T
    white = scratch.take("white", (components, d, len(x)))
    joint = scratch.take("log_joint", (components, len(x)))
    for k in range(components):
        np.subtract(rows, means[k][:, None], out=white[k])
        # white[k].T is Fortran-ordered, so BLAS overwrites it without a copy.
        dtrmm(1.0, whiteners[k], white[k].T, side=1, lower=1, trans_a=1, overwrite_b=1)
        np.einsum("ij,ij->j", white[k], white[k], out=joint[k])
    if np.isfinite(radius):
        shrink = scratch.take("shrink", joint.shape)
        np.multiply(joint, 1.0 / radius**2, out=shrink)
        np.maximum(shrink, 1.0, out=shrink)
        np.sqrt(shrink, out=shrink)
        np.divide(1.0, shrink, out=shrink)
    np.minimum(joint, cap, out=joint)
    joint *= -0.5
    joint += constants[:, None]
    softmax(joint, weight, scratch)
    count = np.add.reduce(joint, axis=1)
    total, second = np.empty((components, d)), np.empty((components, d, d))
    for k in range(components):
        u = white[k]
        if np.isfinite(radius):
            u *= shrink[k]
        total[k] = u @ joint[k]
        np.sqrt(joint[k], out=joint[k])
        u *= joint[k]
        second[k] = u @ u.T
    return count, total, second
