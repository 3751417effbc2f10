"""Bit for bit: the samplers decide as infinitely precise arithmetic would.

The oracle is the standard library's `decimal`, which shares no code with the samplers. Nothing here
is statistical.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import lru_cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from privem.noise import sampler
from privem.noise.sampler import Entropy, discrete_gaussian, discrete_laplace

Ints = NDArray[np.int64]


class Scripted:
    """Answers from a list, then raises (or repeats one filler byte)."""

    def __init__(self, *answers: bytes, filler: int | None = None) -> None:
        self._answers: Iterator[bytes] = iter(answers)
        self._filler = filler
        self.calls = 0

    def bits(self, n_bytes: int) -> bytes:
        self.calls += 1
        answer = next(self._answers, None)
        if answer is None:
            if self._filler is None:
                raise EOFError("the script asks for no more bits")
            return bytes([self._filler]) * n_bytes
        return answer


def decimal(x: Fraction) -> Decimal:
    return Decimal(x.numerator) / Decimal(x.denominator)


rationals = st.fractions(min_value=0, max_value=300, max_denominator=10**40)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(x=rationals, bits=st.integers(1, 260))
def test_exp_bounds_enclose_and_are_sharp(x: Fraction, bits: int) -> None:
    low, high = sampler.exp_bounds(x, bits)
    with localcontext() as context:
        context.prec = 250
        true = (-decimal(x)).exp() * 2**bits
        assert low <= true <= high
    assert high - low <= 2


GAMMAS = [
    Fraction(0),
    Fraction(1, 10**30),
    Fraction(1, 3),
    Fraction(1),
    Fraction(2**100 + 1, 2**99),
    Fraction(12345678901234567890123, 10**22),
    Fraction(7),
    Fraction(40),
]


@pytest.mark.parametrize("gamma", GAMMAS)
def test_bernoulli_exp_on_every_prefix(gamma: Fraction) -> None:
    """Of all 12-bit prefixes floor(2^12 p) accept, at most one asks for more, the rest reject."""
    bits = 12
    with localcontext() as context:
        context.prec = 120
        p = (-decimal(gamma)).exp()
        threshold, wide_threshold = int(p * 2**bits), int(p * 2 ** (bits + 64))
    outcomes: list[bool | None] = []
    for prefix in range(2**bits):
        try:
            outcomes.append(sampler.below_exp(gamma, prefix, bits, Scripted()))
        except EOFError:
            outcomes.append(None)
    assert outcomes[:threshold] == [True] * threshold
    assert outcomes[threshold + 1 :] == [False] * (2**bits - threshold - 1)
    if gamma == 0:
        return
    # The undecided prefix, driven across the threshold by its next 64 bits.
    assert outcomes[threshold] is None
    boundary = wide_threshold - (threshold << 64)
    for offset, expected in ((-1, True), (1, False)):
        if 0 <= boundary + offset < 2**64:
            more = (boundary + offset).to_bytes(8, "little")
            assert sampler.below_exp(gamma, threshold, bits, Scripted(more)) is expected
    with pytest.raises(EOFError):
        sampler.below_exp(gamma, threshold, bits, Scripted(boundary.to_bytes(8, "little")))


@pytest.mark.parametrize(
    ("first", "second"), [(1, 0), (Fraction(1, 8), 0), (0, Fraction(1, 128)), (0, 50), (2, 3)]
)
@pytest.mark.parametrize("bits", [1, 64, 128])
def test_edge_bounds_enclose_and_are_sharp(first: Fraction, second: Fraction, bits: int) -> None:
    low, high = sampler.edge_bounds(Fraction(first), Fraction(second), bits)
    with localcontext() as context:
        context.prec = 100
        weights = [
            (-decimal(first * Fraction(k) + second * Fraction(k * k))).exp()
            for k in range(len(low) + 800)
        ]
        total, partial = sum(weights), Decimal(0)
        for k in range(len(low)):
            assert low[k] <= partial / total * 2**bits <= high[k]
            partial += weights[k]
    assert max(h - lo for lo, h in zip(low, high, strict=True)) <= 2
    assert 2**bits - low[-1] <= 3  # nothing of note lies beyond the lists


SPECS: list[tuple[str, Fraction]] = [
    ("gaussian", Fraction(2**48)),
    ("gaussian", Fraction(2**48, 7)),
    ("gaussian", Fraction(2**80)),
    ("gaussian", Fraction(64)),
    ("gaussian", Fraction(255)),
    ("gaussian", Fraction(1)),
    ("laplace", Fraction(2**24)),
    ("laplace", Fraction(2**40)),
    ("laplace", Fraction(31)),
    ("laplace", Fraction(5, 2)),
]


def stairs_of(kind: str, parameter: Fraction) -> sampler._Staircase:
    """The tables the public functions use: the latest entry they asked the cache for."""
    seen: list[sampler._Staircase] = []
    original = sampler._sample

    def spy(stairs: sampler._Staircase, size: int, entropy: Entropy) -> Ints:
        seen.append(stairs)
        return original(stairs, size, entropy)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sampler, "_sample", spy)
        (discrete_gaussian if kind == "gaussian" else discrete_laplace)(parameter, 0)
    return seen[0]


@lru_cache
def partial_sums(stairs: sampler._Staircase) -> list[Decimal]:
    """Sums of the first 1, 2, ... stairs' weights, to 80 digits."""
    t, sums, k = 2**stairs.log2_width, [Decimal(0)], 0
    with localcontext() as context:
        context.prec = 80
        while k == 0 or sums[-1] - sums[-2] > Decimal("1e-70"):
            phi = stairs.quadratic * (k * t) ** 2 + stairs.linear * k * t
            sums.append(sums[-1] + (-decimal(phi)).exp())
            k += 1
    return sums[1:]


def reference(stairs: sampler._Staircase, w: Fraction, u: int, a: Fraction) -> tuple[int, bool]:
    """What infinitely precise arithmetic does with the reals w, a and the offset u; 80 digits."""
    t = 2**stairs.log2_width
    with localcontext() as context:
        context.prec = 80
        sums = partial_sums(stairs)
        k = bisect_right(sums, decimal(w) * sums[-1])
        m = k * t + u
        gamma = stairs.quadratic * (m * m - (k * t) ** 2) + stairs.linear * u
        return m, decimal(a) < (-decimal(gamma)).exp()


@pytest.mark.parametrize(("kind", "parameter"), SPECS)
@pytest.mark.parametrize("filler", [0x00, 0x5A])
def test_proposals_match_infinite_precision(kind: str, parameter: Fraction, filler: int) -> None:
    """Adversarial and random bits: both paths decide as reals that continue with `filler` do."""
    stairs = stairs_of(kind, parameter)
    rng = np.random.default_rng(10)
    last = stairs.edges.size - 1
    words: list[int] = [0, 1, 2, 3, 2**64 - 1, 2**64 - 2]
    for k in {0, 1, 2, last // 2, last - 1, last} & set(range(last + 1)):
        words += [max(0, min(2**64 - 1, int(stairs.edges[k]) + d)) for d in range(-3, 6)]
    words += [int(x) for x in rng.integers(0, 2**64, 40, dtype=np.uint64)]
    w = np.repeat(np.array(words, np.uint64), 3)
    low = rng.integers(0, 2**64, w.size, dtype=np.uint64)
    low[::3] |= np.uint64(2**64 - 2)  # the largest offset: the smallest chance to be kept
    u = (low >> np.uint64(1)) & np.uint64(2**stairs.log2_width - 1)
    a = rng.integers(0, 2**32, w.size, dtype=np.uint32)
    if stairs.log2_width:  # most sit on, or a few units from, the threshold of being kept
        k_of_w = np.searchsorted(stairs.edges, w, side="right") - 1
        near = stairs.keep_probability(k_of_w, u) + rng.integers(-140, 141, w.size)
        a[: 2 * w.size // 3] = np.clip(near, 0, 2**32 - 1)[: 2 * w.size // 3].astype(np.uint32)

    raw = w.tobytes() + low.tobytes() + a.tobytes()
    entropy = Scripted(raw, filler=filler)
    got = stairs.propose(w.size, entropy)
    assert entropy.calls > 1, "the exact path was not asked for further bits"

    rest = Fraction(int.from_bytes(bytes([filler]) * 64), 2**512)
    expected = []
    for i in range(w.size):
        wi, ai = (int(w[i]) + rest) / 2**64, (int(a[i]) + rest) / 2**32
        m, keep = reference(stairs, wi, int(u[i]), ai)
        settled = stairs.settle(int(w[i]), int(u[i]), int(a[i]), Scripted(filler=filler))
        assert settled == (m, keep)
        negative = bool(low[i] & np.uint64(1))
        if keep and not (negative and m == 0):
            expected.append(-m if negative else m)
    assert got.tolist() == expected


def test_a_stair_beyond_the_table_is_reached_and_right() -> None:
    stairs = stairs_of("gaussian", Fraction(2**48))
    top = (2**64 - 1).to_bytes(8, "little")
    raw = top + (0b10).to_bytes(8, "little") + bytes(4)
    entropy = Scripted(raw, top[::-1], bytes(8), filler=0)
    (value,) = stairs.propose(1, entropy)
    w = Fraction((2**64 - 1) * 2**64 + 2**64 - 1, 2**128)
    assert (value, True) == reference(stairs, w, 1, Fraction(0))
    assert value > 12 * 2**24  # beyond 12 sigma, the table ends near 9


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    kind=st.sampled_from(["gaussian", "laplace"]),
    exponent=st.integers(-30, 39),
    mantissa=st.fractions(min_value=1, max_value=2, max_denominator=10**12),
    seed=st.integers(0, 2**32),
)
def test_vectorised_bounds_hold(kind: str, exponent: int, mantissa: Fraction, seed: int) -> None:
    """At any scale the tables pass their checks, and keep_probability is within its 73 units."""
    assert sampler._KEEP_SLACK > 73
    scale = mantissa * Fraction(2) ** exponent
    stairs = stairs_of(kind, scale**2 if kind == "gaussian" else scale)
    if stairs.log2_width == 0:
        return
    t = 2**stairs.log2_width
    rng = np.random.default_rng(seed)
    k = rng.integers(0, stairs.edges.size, 40)
    u = rng.integers(0, t, k.size, dtype=np.uint64)
    k[:2], u[:2], u[2] = stairs.edges.size - 1, t - 1, 0
    for ki, ui, got in zip(k, u, stairs.keep_probability(k, u), strict=True):
        base, offset = int(ki) * t, int(ui)
        gamma = stairs.quadratic * offset * (2 * base + offset) + stairs.linear * offset
        with localcontext() as context:
            context.prec = 40
            assert abs((-decimal(gamma)).exp() * 2**32 - int(got)) < 73
