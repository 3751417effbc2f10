"""Random bytes, from the operating system, and exact comparisons of uniform real numbers.

A uniform real is drawn bit by bit, the irrational number it is compared with is enclosed between
integers, and both are refined until the comparison is settled. It then comes out as it would with
infinitely many bits. All of it is arithmetic on Python integers.
"""

from __future__ import annotations

import os
import warnings
from fractions import Fraction
from typing import Final, Protocol

import numpy as np

_GUARD: Final = 64  # working bits beyond those asked for


class Entropy(Protocol):
    """A source of independent uniform random bytes."""

    def bits(self, n_bytes: int) -> bytes:
        """Return ``n_bytes`` fresh bytes."""
        ...  # pragma: no cover


class _OperatingSystemEntropy:
    """The operating system's generator; no buffer, so nothing is shared across fork or threads."""

    def bits(self, n_bytes: int) -> bytes:
        return os.urandom(n_bytes)


os_entropy: Final[Entropy] = _OperatingSystemEntropy()


class InsecureEntropyWarning(UserWarning):
    """Noise is drawn from a seed: anyone who knows the seed can remove the noise."""


class _SeededEntropy:
    def __init__(self, seed: int) -> None:
        self._generator = np.random.default_rng(seed)

    def bits(self, n_bytes: int) -> bytes:
        return self._generator.bytes(n_bytes)


def insecure_seeded_entropy_for_tests(seed: int) -> Entropy:
    """Return a reproducible stream of bytes for tests only. It gives NO privacy, and warns.

    Examples
    --------
    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore", InsecureEntropyWarning)
    ...     entropy = insecure_seeded_entropy_for_tests(0)
    >>> len(entropy.bits(5))
    5
    """
    message = "noise from a seeded generator gives no privacy; use it in tests only"
    warnings.warn(message, InsecureEntropyWarning, stacklevel=2)
    return _SeededEntropy(seed)


def exp_bounds(x: Fraction, bits: int) -> tuple[int, int]:
    """Return integers ``low <= 2**bits exp(-x) <= high``, at most 2 apart, for rational ``x >= 0``.

    Examples
    --------
    >>> exp_bounds(Fraction(1), 8)  # 256/e = 94.2
    (94, 95)
    """
    if x >= bits:
        return 0, 1  # exp(-x) < 2**-bits
    work = bits + _GUARD
    low = high = term_low = term_high = 2**work
    n = 0
    # exp(x) by its series, all terms positive: each rounded down for `low`, up for `high`. From
    # n >= 2 x on, terms at least halve, so what is left out sums to at most the last one.
    while term_high > 1 or n < 2 * x:
        n += 1
        term_low = term_low * x.numerator // (x.denominator * n)
        term_high = -(-term_high * x.numerator // (x.denominator * n))
        low += term_low
        high += term_high
    high += term_high
    return 2 ** (bits + work) // high, -(-(2 ** (bits + work)) // low)


def edge_bounds(first: Fraction, second: Fraction, bits: int) -> tuple[list[int], list[int]]:
    """Return integers ``low[k] <= 2**bits P(K < k) <= high[k]`` for k = 0, 1, ...

    K has ``P(K = k)`` proportional to ``exp(-first * k - second * k * k)``, with ``first`` and
    ``second`` not negative and their sum at least 2**-10. The ratio of successive weights starts at
    exp(-first - second) and shrinks by exp(-2 second). Lower bounds are rounded down, upper bounds
    up. The lists end where the remaining weights, at most geometric, are far below 2**-bits.

    Examples
    --------
    >>> low, high = edge_bounds(Fraction(1), Fraction(0), 8)  # P(K < k) = 1 - exp(-k)
    >>> low[:4], high[:4]
    ([0, 161, 221, 243], [0, 162, 222, 244])
    """
    work = bits + _GUARD
    ratio_low, ratio_high = exp_bounds(first + second, work)
    shrink_low, shrink_high = exp_bounds(2 * second, work)
    weight_low = weight_high = 2**work
    sums_low, sums_high = [0], [0]
    while weight_high >= 2 ** (_GUARD // 2):
        sums_low.append(sums_low[-1] + weight_low)
        sums_high.append(sums_high[-1] + weight_high)
        weight_low = (weight_low * ratio_low) >> work
        weight_high = -((-weight_high * ratio_high) >> work)
        ratio_low = (ratio_low * shrink_low) >> work
        ratio_high = -((-ratio_high * shrink_high) >> work)
    tail = -((-weight_high << work) // (2**work - ratio_high))
    total_low, total_high = sums_low[-1], sums_high[-1] + tail
    low = [(s << bits) // total_high for s in sums_low]
    high = [-((-s << bits) // total_low) for s in sums_high]
    return low, high


def below_exp(gamma: Fraction, prefix: int, bits: int, entropy: Entropy) -> bool:
    """Decide whether a uniform real is below ``exp(-gamma)``: a Bernoulli draw, exactly.

    ``prefix`` holds the first ``bits`` bits of the real; more are drawn as long as they are needed.

    Examples
    --------
    >>> from privem.noise.entropy import os_entropy
    >>> below_exp(Fraction(1), 93, 8, os_entropy), below_exp(Fraction(1), 95, 8, os_entropy)
    (True, False)
    """
    while True:
        low, high = exp_bounds(gamma, bits)
        if prefix + 1 <= low:
            return True
        if prefix >= high:
            return False
        prefix, bits = extend(prefix, bits, entropy)


def extend(prefix: int, bits: int, entropy: Entropy) -> tuple[int, int]:
    """Draw 64 more bits of a uniform real."""
    return prefix << 64 | int.from_bytes(draw(8, entropy), "little"), bits + 64


def draw(n_bytes: int, entropy: Entropy) -> bytes:
    """Draw bytes, refusing a source that returns fewer or more than it was asked for."""
    raw = entropy.bits(n_bytes)
    if len(raw) != n_bytes:
        raise ValueError(f"entropy returned {len(raw)} bytes where {n_bytes} were asked for")
    return raw
