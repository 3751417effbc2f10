"""Shamir's secret sharing over the integers modulo 2^255 - 19.

Written by hand: ``cryptography`` has none, and the packages that do share 128-bit secrets only
(PyCryptodome) or are no longer kept. It is a polynomial and Lagrange's formula. A secret is a field
element, so a share takes 32 bytes; keys are *derived* from the element (`masks.py`), never cut out
of it. Python's integers are fast enough: sharing with 40 peers takes half a millisecond, agreeing
with them three.

Python's integers do not run in constant time. A party splits only its own secrets, and the server
combines only what it is entitled to know; what is left is a party's machine timed from outside.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from ...errors import Refused

PRIME = 2**255 - 19
ELEMENT_BYTES = 32
_WIDE = 64  # 512 bits modulo a 255-bit prime: within 2^-257 of uniform.


def element(uniform: bytes) -> int:
    """Return a field element from 64 uniform bytes."""
    if len(uniform) != _WIDE:
        raise ValueError(f"an element takes {_WIDE} uniform bytes, got {len(uniform)}")
    return int.from_bytes(uniform, "little") % PRIME


def to_bytes(value: int) -> bytes:
    """Return the 32 bytes of an element."""
    return value.to_bytes(ELEMENT_BYTES, "little")


def from_bytes(data: bytes) -> int:
    """Return the element; refuse numbers that are none."""
    value = int.from_bytes(data, "little")
    if len(data) != ELEMENT_BYTES or value >= PRIME:
        raise Refused("a share is no element of the field")
    return value


def split(secret: int, coefficients: Sequence[int], points: Iterable[int]) -> list[int]:
    """Return the shares of ``secret`` at ``points``: values of a polynomial.

    Parameters
    ----------
    secret
        The polynomial at zero.
    coefficients
        The others, uniform field elements: one fewer than the shares needed to find the secret.
    points
        Who gets a share; distinct and none of them zero.
    """
    highest_first = [*reversed(coefficients), secret]
    shares = []
    for point in points:
        value = 0
        for coefficient in highest_first:
            value = (value * point + coefficient) % PRIME
        shares.append(value)
    return shares


@lru_cache(maxsize=64)
def _weights(points: tuple[int, ...]) -> tuple[int, ...]:
    """Lagrange's weights at zero: the product of x_j / (x_j - x_i) over the other points."""
    weights = []
    for i in points:
        above = below = 1
        for j in points:
            if j != i:
                above = above * j % PRIME
                below = below * (j - i) % PRIME
        weights.append(above * pow(below, -1, PRIME) % PRIME)
    return tuple(weights)


def combine(shares: Mapping[int, int]) -> int:
    """Return the secret of exactly as many shares (point: value) as were needed.

    Examples
    --------
    >>> three_of_five = split(42, [7, 11], [1, 2, 3, 4, 5])
    >>> combine({1: three_of_five[0], 5: three_of_five[4], 2: three_of_five[1]})
    42
    """
    points = tuple(sorted(shares))
    weights = _weights(points)
    return sum(w * shares[x] for w, x in zip(weights, points, strict=True)) % PRIME
