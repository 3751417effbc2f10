"""Responsibilities from log joint densities, in place."""

from __future__ import annotations

import numpy as np

from ..tree import Array
from .scratch import Scratch

__all__ = ["log_normaliser", "responsibilities", "softmax"]

# exp(-600) is 1e-261: far below what a sum in double precision can see, yet far enough from the
# smallest normal number that no later product becomes subnormal, which would cost 100 cycles each.
_LOWEST = -600.0


def _exponentiate(joint: Array, scratch: Scratch) -> tuple[Array, Array]:
    """Subtract each column's maximum, exponentiate in place; return the maxima and the sums."""
    top = scratch.take("softmax.top", joint.shape[1:])
    total = scratch.take("softmax.total", joint.shape[1:])
    np.maximum.reduce(joint, axis=0, out=top)
    joint -= top
    np.clip(joint, _LOWEST, 0.0, out=joint)  # measured: np.maximum takes twice as long
    np.exp(joint, out=joint)
    np.add.reduce(joint, axis=0, out=total)
    return top, total


def responsibilities(joint: Array, weight: Array | None, scratch: Scratch) -> None:
    """Turn (K, b) log joint densities into responsibilities times the records' weights in place."""
    _, total = _exponentiate(joint, scratch)
    np.divide(1.0 if weight is None else weight, total, out=total)
    joint *= total


def log_normaliser(joint: Array, scratch: Scratch) -> Array:
    """Turn (K, b) log joint densities into responsibilities in place; return the (b,) log sums."""
    top, total = _exponentiate(joint, scratch)
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
