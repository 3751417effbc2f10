"""Responsibilities from log joint densities, in place."""

from __future__ import annotations

import numpy as np

from ..tree import Array
from .scratch import Scratch

__all__ = ["log_normaliser", "softmax"]

# exp(-600) is 1e-261: far below what a sum in double precision can see, yet far enough from the
# smallest normal number that no later product becomes subnormal, which would cost 100 cycles each.
_LOWEST = -600.0


def log_normaliser(joint: Array, scratch: Scratch) -> Array:
    """Turn (K, b) log joint densities into responsibilities in place; return the (b,) log sums."""
    top = scratch.take("softmax.top", joint.shape[1:])
    total = scratch.take("softmax.total", joint.shape[1:])
    np.maximum.reduce(joint, axis=0, out=top)
    joint -= top
    np.maximum(joint, _LOWEST, out=joint)
    np.exp(joint, out=joint)
    np.add.reduce(joint, axis=0, out=total)
    inverse = scratch.take("softmax.inverse", joint.shape[1:])
    np.divide(1.0, total, out=inverse)
    joint *= inverse
    np.log(total, out=total)
    top += total
    return top


def softmax(joint: Array, weight: Array | None, scratch: Scratch) -> float:
    """As :func:`log_normaliser`, times the records' weights; return the weighted log-likelihood."""
    evidence = log_normaliser(joint, scratch)
    if weight is None:
        return float(np.add.reduce(evidence))
    joint *= weight
    return float(evidence @ weight)
