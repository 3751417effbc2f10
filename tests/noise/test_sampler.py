"""The samplers against exact probabilities; `test_exact` compares them bit for bit.

Every statistical check has a false-alarm rate of at most ``ALARM`` = 1e-8, so the whole file stays
below 1e-6, and draws from a seeded stream: it passes always or never.
"""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Callable
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import special, stats

from privem.noise import sampler
from privem.noise.sampler import (
    Entropy,
    InsecureEntropyWarning,
    discrete_gaussian,
    discrete_laplace,
    insecure_seeded_entropy_for_tests,
)

ALARM = 1e-8
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Sampler = Callable[[Fraction, int, Entropy], Ints]


def seeded(seed: int) -> Entropy:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InsecureEntropyWarning)
        return insecure_seeded_entropy_for_tests(seed)


class Broken:
    """Never answers with more than three bytes."""

    def __init__(self) -> None:
        self.calls = 0

    def bits(self, n_bytes: int) -> bytes:
        self.calls += 1
        return b"abc"[:n_bytes]


# ---------------------------------------------------------------- oracles


def decimal(x: Fraction) -> Decimal:
    return Decimal(x.numerator) / Decimal(x.denominator)


def gaussian_phi(variance: Fraction, m: int) -> Fraction:
    return Fraction(m * m) / (2 * variance)


def laplace_phi(scale: Fraction, m: int) -> Fraction:
    return Fraction(m) / scale


def mass(phi: Callable[[Fraction, int], Fraction], parameter: Fraction) -> Floats:
    """Probabilities of 0, 1, 2, ... (negative values mirror them), from 50-digit decimals."""
    with localcontext() as context:
        context.prec = 50
        weights = [Decimal(1)]
        while weights[-1] > Decimal("1e-25"):
            weights.append((-decimal(phi(parameter, len(weights)))).exp())
        total = 2 * sum(weights) - 1
        return np.array([float(w / total) for w in weights])


def chi_square(observed: NDArray[np.int64], probabilities: Floats) -> float:
    """P-value of a chi-square test; neighbouring cells are pooled until 20 draws are expected."""
    expected = observed.sum() * probabilities / probabilities.sum()
    cells: list[tuple[float, float]] = []
    o = e = 0.0
    for oi, ei in zip(observed, expected, strict=True):
        o, e = o + float(oi), e + float(ei)
        if e >= 20:
            cells.append((o, e))
            o = e = 0.0
    if cells:
        cells[-1] = (cells[-1][0] + o, cells[-1][1] + e)
    if len(cells) < 2:
        return 1.0
    table = np.array(cells)
    statistic = float(((table[:, 0] - table[:, 1]) ** 2 / table[:, 1]).sum())
    return float(stats.chi2.sf(statistic, len(cells) - 1))


def fit_of(draws: Ints, half: Floats) -> float:
    """P-value of integer draws under the symmetric distribution with these one-sided masses."""
    reach = half.size - 1
    probabilities = np.concatenate([half[:0:-1], half])
    inside = draws[np.abs(draws) <= reach]
    assert inside.size == draws.size, "a draw of probability below 1e-24"
    return chi_square(np.bincount(inside + reach, minlength=2 * reach + 1), probabilities)


def gaussian_cdf(variance: Fraction, m: Ints) -> Floats:
    # Midpoint rule: relative error about 1/(24 sigma^2), below 1e-6 for the sigmas it is used for.
    return np.asarray(special.ndtr((m + 0.5) / float(variance) ** 0.5))


def laplace_cdf(scale: Fraction, m: Ints) -> Floats:
    s = float(scale)
    upper = np.exp(-(np.where(m >= 0, m + 1, -m)) / s) / (1 + np.exp(-1 / s))
    return np.asarray(np.where(m >= 0, 1 - upper, upper), np.float64)


def binned_fit(draws: Ints, cdf: Callable[[Ints], Floats], reach: float) -> float:
    edges = np.unique(np.linspace(-reach, reach, 401).astype(np.int64))
    below = np.concatenate([[0.0], cdf(edges), [1.0]])
    cells = np.bincount(np.searchsorted(edges, draws), minlength=edges.size + 1)
    return chi_square(cells, np.diff(below))


# ---------------------------------------------------------------- the distribution

SMALL_VARIANCES = [
    "1/100",
    "9/100",
    "1",
    "25/4",
    "100",
    "49/3",
    "63",
    "64",
    "65",
    "1000",
    "10007/3",
]
SMALL_SCALES = ["1/9", "1/3", "1", "5/2", "7", "8", "10", "33", "100/7", "64"]


@pytest.mark.parametrize("variance", SMALL_VARIANCES)
def test_gaussian_matches_its_mass_function(variance: str) -> None:
    exact_variance = Fraction(variance)
    draws = discrete_gaussian(exact_variance, 300_000, seeded(1))
    assert fit_of(draws, mass(gaussian_phi, exact_variance)) > ALARM


@pytest.mark.parametrize("scale", SMALL_SCALES)
def test_laplace_matches_its_mass_function(scale: str) -> None:
    draws = discrete_laplace(Fraction(scale), 300_000, seeded(2))
    assert fit_of(draws, mass(laplace_phi, Fraction(scale))) > ALARM


BIG_VARIANCES = [
    Fraction(2**48),
    Fraction(2**48, 7),
    Fraction((2**24 - 1) ** 2),
    Fraction(2**79 + 1, 3),
    Fraction(2**80),
    Fraction(10**9 + 7, 11),
]


@pytest.mark.parametrize("variance", BIG_VARIANCES)
def test_wide_gaussian(variance: Fraction) -> None:
    n = 1_000_000
    draws = discrete_gaussian(variance, n, seeded(3))
    sigma = float(variance) ** 0.5
    assert binned_fit(draws, lambda m: gaussian_cdf(variance, m), 5 * sigma) > ALARM
    # The low bits are uniform to within exp(-2 pi^2 sigma^2/4096): float noise would show here.
    assert chi_square(np.bincount(draws & 63, minlength=64), np.full(64, 1 / 64)) > ALARM
    # Moments, within 6 standard errors (two-sided rate 2e-9).
    z = draws / sigma
    assert abs(z.mean()) < 6 / n**0.5
    assert abs((z**2).mean() - 1) < 6 * (2 / n) ** 0.5
    assert abs((z**3).mean()) < 6 * (15 / n) ** 0.5
    assert abs((z**4).mean() - 3) < 6 * (96 / n) ** 0.5
    assert abs((z[1:] * z[:-1]).mean()) < 6 / n**0.5
    # Signs and tails.
    positive = int((draws > 0).sum())
    assert stats.binomtest(positive, positive + int((draws < 0).sum())).pvalue > ALARM
    for reach in (3, 4):
        beyond = int((np.abs(draws) > reach * sigma).sum())
        assert stats.binomtest(beyond, n, 2 * special.ndtr(-reach)).pvalue > ALARM


@pytest.mark.parametrize(
    "scale", [Fraction(2**24), Fraction(2**40), Fraction(2**39 + 1, 3), Fraction(10**6, 7)]
)
def test_wide_laplace(scale: Fraction) -> None:
    n = 1_000_000
    draws = discrete_laplace(scale, n, seeded(4))
    s = float(scale)
    assert binned_fit(draws, lambda m: laplace_cdf(scale, m), 12 * s) > ALARM
    assert chi_square(np.bincount(draws & 63, minlength=64), np.full(64, 1 / 64)) > ALARM
    assert abs((draws / s).mean()) < 6 * (2 / n) ** 0.5
    assert abs(np.abs(draws / s).mean() - 1) < 6 / n**0.5
    positive = int((draws > 0).sum())
    assert stats.binomtest(positive, positive + int((draws < 0).sum())).pvalue > ALARM
    beyond = int((np.abs(draws) > 7 * s).sum())
    assert stats.binomtest(beyond, n, float(np.exp(-7))).pvalue > ALARM


@pytest.mark.slow
def test_ten_million_draws() -> None:
    for seed, variance in enumerate([Fraction(2**48), Fraction(2**48, 7), Fraction(300)]):
        draws = discrete_gaussian(variance, 10_000_000, seeded(seed))
        sigma = float(variance) ** 0.5
        if variance < 1000:
            assert fit_of(draws, mass(gaussian_phi, variance)) > ALARM
            continue
        assert binned_fit(draws, lambda m, v=variance: gaussian_cdf(v, m), 5 * sigma) > ALARM  # type: ignore[misc]
        for shift in (0, 6, 12):
            digits = np.bincount((draws >> shift) & 63, minlength=64)
            assert chi_square(digits, np.full(64, 1 / 64)) > ALARM
    draws = discrete_laplace(20, 10_000_000, seeded(9))
    assert fit_of(draws, mass(laplace_phi, Fraction(20))) > ALARM


@pytest.mark.parametrize("scale", [2.5, 2.0**24])
@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
def test_agrees_with_opendp(kind: str, scale: float) -> None:
    dp = pytest.importorskip("opendp.prelude")
    dp.enable_features("contrib")
    domain = dp.vector_domain(dp.atom_domain(T=int))
    n = 40_000
    if kind == "gaussian":
        theirs = dp.m.make_gaussian(domain, dp.l2_distance(T=float), scale=scale)([0] * n)
        ours = discrete_gaussian(Fraction(scale) ** 2, n, seeded(5))
    else:
        theirs = dp.m.make_laplace(domain, dp.l1_distance(T=float), scale=scale)([0] * n)
        ours = discrete_laplace(Fraction(scale), n, seeded(5))
    # Theirs cannot be seeded: this one check may fail by chance, with probability ALARM.
    width = max(1, int(scale / 4))
    both = [np.clip(np.asarray(x) // width, -25, 25) + 25 for x in (ours, theirs)]
    table = np.array([np.bincount(x, minlength=51) for x in both])
    table = table[:, table.sum(axis=0) >= 40]
    assert stats.chi2_contingency(table).pvalue > ALARM


# ---------------------------------------------------------------- planted bugs


def test_the_chi_square_test_catches_planted_bugs() -> None:
    n = 300_000
    rng = np.random.default_rng(6)
    one = mass(gaussian_phi, Fraction(1))
    honest = discrete_gaussian(1, n, seeded(6))
    assert fit_of(honest, one) > ALARM

    rounded = np.rint(rng.normal(size=n)).astype(np.int64)  # a continuous Gaussian, rounded
    assert fit_of(rounded, one) < ALARM
    truncated = rng.normal(scale=10, size=n).astype(np.int64)  # rounded towards zero
    assert fit_of(truncated, mass(gaussian_phi, Fraction(100))) < ALARM
    wide = discrete_gaussian(Fraction(102, 100) ** 2 * 100, n, seeded(7))  # sigma off by 2%
    assert fit_of(wide, mass(gaussian_phi, Fraction(100))) < ALARM
    one_sided = np.abs(honest)
    assert fit_of(one_sided, one) < ALARM

    double_zero = mass(laplace_phi, Fraction(10))  # -0 not rejected
    weights = np.concatenate([double_zero[:0:-1], double_zero])
    weights[double_zero.size - 1] *= 2
    values = np.arange(weights.size) - (double_zero.size - 1)
    buggy = rng.choice(values, size=n, p=weights / weights.sum())
    assert fit_of(buggy, double_zero) < ALARM


def test_low_bits_catch_float_noise_on_a_wide_grid() -> None:
    rng = np.random.default_rng(8)
    coarse = np.rint(rng.normal(size=300_000).astype(np.float32) * 2.0**30).astype(np.int64)
    assert chi_square(np.bincount(coarse & 63, minlength=64), np.full(64, 1 / 64)) < ALARM


# ---------------------------------------------------------------- sources of bytes


def test_default_noise_is_fresh_in_every_call() -> None:
    assert not np.array_equal(discrete_gaussian(2**48, 50), discrete_gaussian(2**48, 50))


def test_seeded_entropy_repeats_and_warns() -> None:
    with pytest.warns(InsecureEntropyWarning, match="no privacy"):
        entropy = insecure_seeded_entropy_for_tests(1)
    again = discrete_gaussian(2**48, 1000, seeded(1))
    assert np.array_equal(discrete_gaussian(2**48, 1000, entropy), again)
    assert not np.array_equal(discrete_gaussian(2**48, 1000, seeded(2)), again)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
def test_forked_children_draw_different_noise() -> None:
    discrete_gaussian(2**48, 100)  # whatever state there could be exists before the fork
    draws = [discrete_gaussian(2**48, 20).tobytes()]
    for _ in range(2):
        reader, writer = os.pipe()
        with warnings.catch_warnings():  # Python 3.12 warns if other tests left threads behind
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
        if child == 0:
            try:
                os.write(writer, discrete_gaussian(2**48, 20).tobytes())
            finally:
                os._exit(0)
        os.close(writer)
        with os.fdopen(reader, "rb") as pipe:
            draws.append(pipe.read())
        os.waitpid(child, 0)
    assert [len(d) for d in draws] == [160] * 3
    assert len(set(draws)) == 3
    values = np.concatenate([np.frombuffer(d, np.int64) for d in draws])
    assert np.unique(values).size > 55  # not even single draws are shared (repeats: 60^2/2^26)


def test_threads_draw_different_noise() -> None:
    sampler._staircase.cache_clear()  # let the threads race for the tables as well
    draws: list[Ints] = []
    threads = [
        threading.Thread(target=lambda: draws.append(discrete_gaussian(2**48, 5000)))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({d.tobytes() for d in draws}) == 8
    z = np.concatenate(draws) / 2.0**24
    assert abs((z**2).mean() - 1) < 6 * (2 / z.size) ** 0.5  # unseeded; two-sided rate 2e-9


def test_a_source_of_too_few_bytes_is_refused() -> None:
    with pytest.raises(ValueError, match="entropy returned 3 bytes"):
        discrete_gaussian(2**48, 10, Broken())


# ---------------------------------------------------------------- arguments


@pytest.mark.parametrize("draw", [discrete_gaussian, discrete_laplace])
def test_sizes(draw: Sampler) -> None:
    for size in (0, 1, 7, sampler._CHUNK - 1, sampler._CHUNK, 2 * sampler._CHUNK + 1):
        draws = draw(Fraction(2**20), size, seeded(0))
        assert draws.shape == (size,)
        assert draws.dtype == np.int64
    assert draw(Fraction(3), np.int64(4), seeded(0)).shape == (4,)  # type: ignore[arg-type]


@pytest.mark.parametrize("draw", [discrete_gaussian, discrete_laplace])
def test_bad_arguments(draw: Sampler) -> None:
    entropy = Broken()  # refused before any byte is drawn
    for value in (0, -1, Fraction(-1, 3), 2**80 + 1):
        with pytest.raises(ValueError, match="must be above 0 and at most"):
            draw(value, 1, entropy)  # type: ignore[arg-type]
    for wrong in (1.5, "1", None, True, float("nan"), Decimal(1), 1j):
        with pytest.raises(TypeError, match="must be an int or a fractions"):
            draw(wrong, 1, entropy)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="size must not be negative, got -1"):
        draw(Fraction(1), -1, entropy)
    for wrong in (1.0, "1", None, True):
        with pytest.raises(TypeError, match="size must be an int"):
            draw(Fraction(1), wrong, entropy)  # type: ignore[arg-type]
    assert entropy.calls == 0


def test_numpy_integers_do_not_overflow() -> None:
    as_numpy = discrete_gaussian(np.int64(2**48), 1000, seeded(3))  # type: ignore[arg-type]
    assert np.array_equal(as_numpy, discrete_gaussian(2**48, 1000, seeded(3)))


def test_a_tiny_scale_gives_zeros() -> None:
    assert not discrete_gaussian(Fraction(1, 10**12), 1000).any()
    assert not discrete_laplace(Fraction(1, 10**12), 1000).any()
