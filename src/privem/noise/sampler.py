"""Exact samplers of integer noise: the discrete Gaussian and the discrete Laplace.

Both have ``P(x)`` proportional to ``exp(-phi(|x|))`` on the integers, where ``phi(m)`` is
``quadratic m^2 + linear m``: the discrete Gaussian (Canonne, Kamath and Steinke 2020) has
``quadratic = 1/(2 sigma^2)``, the discrete Laplace ``linear = 1/scale``. One rejection sampler
serves both. Cut 0, 1, 2, ... into stairs of width ``t = 2**j``, write ``m = k t + u``, and

1. draw a stair ``k`` with probability proportional to ``exp(-phi(k t))``, from a uniform real;
2. draw ``u`` uniform on ``0 .. t-1``: exactly ``j`` random bits;
3. keep ``m`` with probability ``exp(-gamma)``, where ``gamma = phi(k t + u) - phi(k t) >= 0``;
4. draw a sign, rejecting -0 so that zero does not count twice.

So ``m`` is kept with weight ``exp(-phi(k t)) exp(-gamma) = exp(-phi(m))``, the target's.

Irrational numbers enter only in 1 and 3, where a uniform real is compared with one. We draw the
real's first bits (64 in step 1, 32 in step 3) and bound the number by integers. Mostly that settles
the comparison, vectorised in uint64; the rest, about one proposal in 2**24, are settled in Python
integers: further bits of the same real are drawn (`extend`) and the bounds sharpened (`exp_bounds`,
`edge_bounds`). Every comparison comes out as with infinitely many bits, so the distribution is
exact. There is no floating point. Proof: ``docs/proofs/sampler.md``.

There is no state: each batch asks for fresh bytes; forks and threads share only tables of public
constants. How many proposals are made is independent of the values returned; the rare exact path is
slower, so timing is not constant in the strict sense.
"""

from __future__ import annotations

import operator
import os
import warnings
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from numbers import Rational
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "Entropy",
    "InsecureEntropyWarning",
    "discrete_gaussian",
    "discrete_laplace",
    "insecure_seeded_entropy_for_tests",
    "os_entropy",
]

_MAX_SCALE: Final = 2**40  # of sigma and of scale: stairs are then at most 2**38 wide
_MAX_STAIRS: Final = 512  # so that magnitudes stay below 2**47 in the vectorised path
_CHUNK: Final = 2**14  # proposals per batch: scratch of about 2 MB, whatever the size asked for
_EDGE_SLACK: Final = 2  # edges are known within 2 units of 2**-64
_KEEP_SLACK: Final = 128  # exp(-gamma) is known within 73 units of 2**-32, see keep_probability
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


def discrete_gaussian(
    sigma_squared: int | Fraction, size: int, entropy: Entropy = os_entropy
) -> NDArray[np.int64]:
    """Draw from the discrete Gaussian: ``P(x)`` proportional to ``exp(-x**2 / (2 sigma_squared))``.

    Parameters
    ----------
    sigma_squared : int or Fraction
        The parameter sigma^2, ``0 < sigma_squared <= 2**80``. (The variance is a little smaller,
        negligibly so once sigma exceeds 2.)
    size : int
        How many independent draws.
    entropy : Entropy
        Where the random bytes come from. Anything but the default is for tests.

    Returns
    -------
    NDArray[np.int64]
        The draws, shape ``(size,)``; distributed exactly as stated if the bytes are uniform.

    Examples
    --------
    >>> noise = discrete_gaussian(2**48, 1000)  # sigma = 2**24
    >>> noise.shape, noise.dtype, bool(abs(noise).max() < 10 * 2**24)
    ((1000,), dtype('int64'), True)
    >>> share = discrete_gaussian(Fraction(2**48, 7), 1000)  # a seventh of the variance
    """
    variance = _positive_rational("sigma_squared", sigma_squared, _MAX_SCALE**2)
    # The largest power of two t <= sigma/4, or 1: then at least 90% of the proposals pass step 3.
    log2_width = max(0, (int(variance / 16).bit_length() - 1) // 2)
    return _sample(_staircase(1 / (2 * variance), Fraction(0), log2_width), size, entropy)


def discrete_laplace(
    scale: int | Fraction, size: int, entropy: Entropy = os_entropy
) -> NDArray[np.int64]:
    """Draw from the discrete Laplace distribution: ``P(x)`` proportional to ``exp(-|x| / scale)``.

    Parameters
    ----------
    scale : int or Fraction
        The scale, ``0 < scale <= 2**40``.
    size : int
        How many independent draws.
    entropy : Entropy
        Where the random bytes come from. Anything but the default is for tests.

    Returns
    -------
    NDArray[np.int64]
        The draws, shape ``(size,)``; distributed exactly as stated if the bytes are uniform.

    Examples
    --------
    >>> discrete_laplace(Fraction(5, 2), 1000).shape
    (1000,)
    """
    exact = _positive_rational("scale", scale, _MAX_SCALE)
    # The largest power of two t <= scale/4, or 1: then at least 88% of the proposals pass step 3.
    log2_width = max(0, int(exact / 4).bit_length() - 1)
    return _sample(_staircase(Fraction(0), 1 / exact, log2_width), size, entropy)


def _positive_rational(name: str, value: object, maximum: int) -> Fraction:
    if isinstance(value, bool) or not isinstance(value, Rational):
        raise TypeError(
            f"{name} must be an int or a fractions.Fraction, got {type(value).__name__}; "
            "pass a float x as Fraction(x)"
        )
    # int(): a NumPy integer inside a Fraction would overflow silently later on.
    exact = Fraction(int(value.numerator), int(value.denominator))
    if not 0 < exact <= maximum:
        raise ValueError(f"{name} must be above 0 and at most {maximum}, got {value}")
    return exact


def _sample(stairs: _Staircase, size: int, entropy: Entropy) -> NDArray[np.int64]:
    if isinstance(size, bool) or not hasattr(size, "__index__"):
        raise TypeError(f"size must be an int, got {type(size).__name__}")
    count = operator.index(size)
    if count < 0:
        raise ValueError(f"size must not be negative, got {count}")
    out = np.empty(count, dtype=np.int64)
    filled = 0
    # Kept proposals, in order, are independent and identically distributed, and the size of a batch
    # depends on how many were kept, never on their values: the first `count` are a plain sample.
    while filled < count:
        missing = count - filled
        kept = stairs.propose(min(_CHUNK, missing + missing // 4 + 16), entropy)[:missing]
        out[filled : filled + kept.size] = kept
        filled += kept.size
    return out


@dataclass(frozen=True, eq=False)
class _Staircase:
    """The tables of one distribution, all public constants; symbols as in the module docstring."""

    quadratic: Fraction
    linear: Fraction
    log2_width: int
    edges: NDArray[np.uint64]  # edges[k] <= 2**64 P(stair < k) <= edges[k] + 2
    slope: NDArray[np.uint64]  # floor(2**32 (2 k t^2 quadratic + t linear))
    bend: int  # floor(2**32 t^2 quadratic)

    def propose(self, n: int, entropy: Entropy) -> NDArray[np.int64]:
        """Make ``n`` proposals and return, in order, those that are kept."""
        raw = draw(20 * n, entropy)
        stair_bits, low_bits = np.frombuffer(raw, "<u8", 2 * n).reshape(2, n)
        keep_bits = np.frombuffer(raw, "<u4", n, offset=16 * n)

        k = np.searchsorted(self.edges, stair_bits, side="right") - 1
        unsure = stair_bits - self.edges[k] <= _EDGE_SLACK  # cannot wrap: edges[k] <= stair_bits
        unsure |= k == self.edges.size - 1  # at or beyond the end of the table
        u = (low_bits >> 1) & (2**self.log2_width - 1)
        magnitude: NDArray[np.int64] = (k << self.log2_width) + u.astype(np.int64)  # < 512 * 2**38
        if self.log2_width == 0:
            keep = np.ones(n, dtype=np.bool_)  # u = 0, hence gamma = 0
        else:
            excess = keep_bits.astype(np.int64) - self.keep_probability(k, u)
            keep = excess < 0
            unsure |= np.abs(excess) <= _KEEP_SLACK
        for i in np.flatnonzero(unsure):
            bits = int(stair_bits[i]), int(u[i]), int(keep_bits[i])
            # NumPy raises OverflowError beyond int64, which has probability below exp(-2**22).
            magnitude[i], keep[i] = self.settle(*bits, entropy)

        negative = (low_bits & 1).astype(np.bool_)
        keep &= ~(negative & (magnitude == 0))
        signed: NDArray[np.int64] = np.where(negative, -magnitude, magnitude)
        return signed[keep]

    def keep_probability(self, k: NDArray[np.intp], u: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return ``exp(-gamma)`` in units of 2**-32, less than 73 units off.

        With ``f = u/t``, ``gamma = slope[k] f + bend f^2``. `_staircase` has checked that
        slope + 2 bend <= 4 and bend <= 1/16. Range: f < 2**28 (in units of 2**-28) and
        slope + bend <= 2**34, so the sum of products is below 2**62 and gamma below 2**34; a table
        entry (below 2**32) times the series (at most 2**32) is below 2**64.

        Errors in units of 2**-32: cutting f costs 16 (slope + 2 bend) <= 64; the floors of slope,
        bend, f^2 and gamma at most 1 each, and exp(-gamma) moves no more than gamma does; then the
        table entry, its cap, the floors of r^2/2 and of the result at most 1 each, and the missing
        r^3/6 at most 0.7 as r < 2**-10. Together less than 64 + 4 + 4.7 < 73.
        """
        shift = self.log2_width - 28
        f = u >> shift if shift > 0 else u << -shift
        gamma = (f * self.slope[k] + ((f * f) >> 28) * self.bend) >> 28
        r = gamma & (2**22 - 1)
        series = (2**32 - r) + ((r * r) >> 33)  # 1 - r + r^2/2
        product: NDArray[np.uint64] = _EXP_TABLE[gamma >> 22] * series
        return (product >> 32).astype(np.int64)

    def settle(self, stair_bits: int, u: int, keep_bits: int, entropy: Entropy) -> tuple[int, bool]:
        """Settle one proposal from its bits so far: return its magnitude and whether to keep it."""
        t, bits = 2**self.log2_width, 64
        while True:
            low, high = edge_bounds(t * self.linear, t * t * self.quadratic, bits)
            k = bisect_right(high, stair_bits) - 1  # so edge k <= the uniform real
            if k + 1 < len(low) and stair_bits + 1 <= low[k + 1]:  # and the real < edge k + 1
                break
            stair_bits, bits = extend(stair_bits, bits, entropy)
        gamma = self.quadratic * u * (2 * k * t + u) + self.linear * u
        return k * t + u, below_exp(gamma, keep_bits, 32, entropy)


@lru_cache(maxsize=64)
def _staircase(quadratic: Fraction, linear: Fraction, log2_width: int) -> _Staircase:
    t = 2**log2_width
    low, high = edge_bounds(t * linear, t * t * quadratic, 64)
    stairs = bisect_left(low, 2**64 - 2**8) + 1  # later ones have probability below 2**-55
    slope, bend = [0] * stairs, 0  # with t = 1 gamma is 0, and these might not fit 64 bits
    if log2_width > 0:
        # Over one denominator: a new Fraction for every stair would take most of the time here.
        first, rise = 2**32 * t * linear, 2**32 * 2 * t * t * quadratic
        below = first.denominator * rise.denominator
        at, by = first.numerator * rise.denominator, rise.numerator * first.denominator
        slope = [(at + k * by) // below for k in range(stairs)]
        bend = int(2**32 * t * t * quadratic)
    # What the vectorised path relies on. Checked rather than trusted; once per distribution.
    sharp = all(h - lo <= _EDGE_SLACK for lo, h in zip(low, high, strict=True))
    narrow = slope[-1] + 2 * bend < 2**34 - 3 and bend < 2**28  # floors hide less than 3 units
    if not (sharp and narrow and stairs <= _MAX_STAIRS):
        raise AssertionError("the tables of this distribution break a bound of the proof")
    edges, slopes = np.array(low[:stairs], np.uint64), np.array(slope, np.uint64)
    edges.flags.writeable = slopes.flags.writeable = False  # shared between threads
    return _Staircase(quadratic, linear, log2_width, edges, slopes, bend)


def _exp_table() -> NDArray[np.uint64]:
    # floor(2**32 exp(-i/1024)), i < 4096, capped below 2**32; by products rounded down at 192 bits.
    step, _ = exp_bounds(Fraction(1, 1024), 192)
    values = [2**192]
    while len(values) < 4096:
        values.append((values[-1] * step) >> 192)
    table = np.array([min(v >> 160, 2**32 - 1) for v in values], np.uint64)
    table.flags.writeable = False
    return table


_EXP_TABLE: Final = _exp_table()
