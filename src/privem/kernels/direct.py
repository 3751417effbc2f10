"""Mixture statistics from centred and whitened differences: slower, exact to the last digits.

Quadratic features about one origin lose ``(|mean|/sd)^2`` times the rounding unit. Where a
component lies far from the origin, measured in its own standard deviations, this kernel takes its
place: it subtracts each component's mean first and sums about those means.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg.blas import dtrmm

from ..tree import Array
from .scratch import Scratch, short_buffers
from .softmax import softmax

__all__ = ["direct_block_rows", "log_joint_direct", "responsibility_sums_direct", "whiten"]


def direct_block_rows(d: int) -> int:
    """Rows per block."""
    return 4088 if d <= 16 else 1496


def _centre(x: Array, mean: Array, out: Array) -> Array:
    return np.subtract(x, mean[:, None], out=out)


def whiten(whitener: Array, x: Array) -> Array:
    """Whiten (d, b) in place; a matrix is lower triangular, a vector scales the axes."""
    if whitener.ndim == 1:
        x *= whitener[:, None]
        return x
    # x' is Fortran-ordered, so BLAS overwrites it without a copy: x' <- x' W'.
    return np.asarray(dtrmm(1.0, whitener, x.T, side=1, lower=1, trans_a=1, overwrite_b=1)).T


def log_joint_direct(
    rows: Array, means: Array, whiteners: Array, constants: Array, scratch: Scratch
) -> Array:
    """Log joint densities (K, b): ``constants_k - |W_k (x - mean_k)|^2 / 2``."""
    x = scratch.take("x", rows.T.shape)
    x[:] = rows.T
    with short_buffers():
        return _joint(x, means, whiteners, constants, scratch)


def _joint(x: Array, means: Array, whiteners: Array, constants: Array, scratch: Scratch) -> Array:
    joint = scratch.take("log_joint", (len(means), x.shape[1]))
    for k, mean in enumerate(means):
        z = whiten(whiteners[k], _centre(x, mean, scratch.take("z", x.shape)))
        np.einsum("ij,ij->j", z, z, out=joint[k])
    joint *= -0.5
    joint += constants[:, None]
    return joint


def responsibility_sums_direct(
    rows: Array,
    means: Array,
    whiteners: Array,
    constants: Array,
    weight: Array | None,
    kind: str,
    scratch: Scratch,
) -> tuple[Array, Array, Array, float]:
    """Counts (K,), sums (K, d) and second moments about each mean, and the log-likelihood.

    The second moments follow ``kind``: ``"full"`` (K, d, d), ``"square"`` (K, d), ``"norm"`` (K,).
    """
    with short_buffers():
        return _sums(rows, means, whiteners, constants, weight, kind, scratch)


def _sums(
    rows: Array,
    means: Array,
    whiteners: Array,
    constants: Array,
    weight: Array | None,
    kind: str,
    scratch: Scratch,
) -> tuple[Array, Array, Array, float]:
    x = scratch.take("x", rows.T.shape)
    x[:] = rows.T
    joint = _joint(x, means, whiteners, constants, scratch)
    likelihood = softmax(joint, weight, scratch)
    components, d = means.shape
    shape = {"full": (components, d, d), "square": (components, d), "norm": (components,)}[kind]
    count, total, second = joint.sum(axis=1), np.empty((components, d)), np.empty(shape)
    for k, mean in enumerate(means):
        z = _centre(x, mean, scratch.take("z", x.shape))
        total[k] = z @ joint[k]
        if kind == "full":
            np.sqrt(joint[k], out=joint[k])
            z *= joint[k]
            second[k] = z @ z.T
        else:
            z *= z
            moments = z @ joint[k]
            second[k] = moments if kind == "square" else moments.sum()
    return count, total, second, likelihood
