"""Bounds on floating-point error, from public numbers alone (``docs/proofs/release.md``)."""

from __future__ import annotations

import math

__all__ = ["U", "gamma"]

U = 2.0**-53


def gamma(k: float) -> float:
    """Relative error of a sum or product of k rounded terms, in any order (Higham 2002, 3.1)."""
    if k * U >= 0.5:
        return math.inf
    return k * U / (1 - k * U)
