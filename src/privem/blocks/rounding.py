"""Bounds on floating-point error, from public numbers alone (``docs/proofs/release.md``).

They hold as long as nothing overflows. Every number that a private fit is given, and every one that
a party is asked with, is therefore zero or of a size between ``SMALLEST`` and ``LARGEST``: what
queries and plans compute are products of a few of them.
"""

from __future__ import annotations

import math

U = 2.0**-53
SMALLEST, LARGEST = 2.0**-100, 2.0**100


def gamma(k: float) -> float:
    """Relative error of a sum or product of k rounded terms, in any order (Higham 2002, 3.1)."""
    if k * U >= 0.5:
        return math.inf
    return k * U / (1 - k * U)
