"""Accountants against each other, against dp_accounting and against their own promises."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable

import mpmath as mp
import pytest
from dp_accounting import gaussian_mechanism
from hypothesis import given, settings
from hypothesis import strategies as st

from privem.accounting import (
    ACCOUNTANTS,
    Composed,
    Event,
    Failure,
    Gaussian,
    Laplace,
    NoPrivacy,
    Nothing,
    NotValid,
    compose,
    delta,
    epsilon,
    which,
)
from privem.accounting.accountant import hockey_stick
from privem.accounting.rdp import log_moment

multipliers = st.floats(0.2, 200.0)
epsilons = st.floats(0.01, 20.0)
deltas = st.floats(-30.0, -0.7).map(math.exp)
FAST = ["gdp", "zcdp", "zcdp-loose", "moments", "linear", "advanced"]
GAUSSIAN_ORDER = ["gdp", "zcdp", "zcdp-loose", "moments"]


@given(multipliers, epsilons)
def test_gdp_agrees_with_dp_accounting(multiplier: float, eps: float) -> None:
    theirs = gaussian_mechanism.get_epsilon_gaussian(multiplier, 1e-5)
    assert epsilon(Gaussian(multiplier), 1e-5, "gdp") == pytest.approx(theirs, rel=1e-6, abs=1e-9)


@settings(deadline=None, max_examples=40)
@given(st.floats(1e-4, 50.0), st.floats(0.0, 200.0))
def test_hockey_stick_is_an_upper_bound_and_tight(mu: float, eps: float) -> None:
    with mp.workdps(60 + int(4 * (eps / mu) ** 0.5)):
        m, e = mp.mpf(mu), mp.mpf(eps)
        a, b = e / m - m / 2, e / m + m / 2
        exact = mp.erfc(a / mp.sqrt(2)) / 2 - mp.exp(e) * mp.erfc(b / mp.sqrt(2)) / 2
        found = mp.mpf(hockey_stick(mu, eps))
        assert found >= exact
        if exact > mp.mpf("1e-290"):
            assert found <= exact * (1 + mp.mpf("1e-7"))


@given(multipliers, st.integers(1, 2000), deltas)
def test_order_for_gaussian_noise(multiplier: float, count: int, dlt: float) -> None:
    event = Composed(((Gaussian(multiplier, 20, 2**24), count),))
    spent = [epsilon(event, dlt, name) for name in GAUSSIAN_ORDER]
    # Where e^eps * total variation passes delta gdp has nothing to say; zcdp goes on.
    drift = count * 20 / (250 * 2.0**96)
    if spent[1] + math.log(drift) < math.log(dlt) - 15:
        assert spent[0] <= spent[1] * (1 + 1e-9)
    # The loose bounds never beat the tight one; moments never beat the loose zCDP they discretise
    # by more than rounding.
    assert spent[1] <= spent[2] * (1 + 1e-9)
    assert spent[2] <= spent[3] * (1 + 1e-9)
    assert epsilon(event, dlt) == min(spent[0], spent[1])


@pytest.mark.parametrize("multiplier", [0.7, 3.0, 40.0])
@pytest.mark.parametrize("count", [1, 100])
def test_library_accountants_agree_with_closed_forms(multiplier: float, count: int) -> None:
    event = Composed(((Gaussian(multiplier), count),))
    for dlt in (1e-2, 1e-5, 1e-9):
        exact, tight = epsilon(event, dlt, "gdp"), epsilon(event, dlt, "zcdp")
        assert exact <= epsilon(event, dlt, "pld") <= exact * (1 + 1e-4) + 1e-6
        assert epsilon(event, dlt, "rdp") == pytest.approx(tight, rel=5e-3)
        assert epsilon(event, dlt, "rdp") >= exact


def test_rdp_agrees_with_the_librarys_own_accountant() -> None:
    import dp_accounting
    from dp_accounting import rdp

    accountant = rdp.RdpAccountant()
    accountant.compose(dp_accounting.GaussianDpEvent(5.0), 10)
    theirs = accountant.get_epsilon(1e-6)
    assert epsilon(Composed(((Gaussian(5.0), 10),)), 1e-6, "rdp") == pytest.approx(theirs, rel=1e-3)


@given(st.floats(0.02, 1.0), st.integers(1, 60), st.floats(0.05, 0.9))
def test_pure_composition_against_exact_binomial(eps: float, count: int, part: float) -> None:
    """Composed randomized response has a closed form; every accountant must stay above it."""
    event, target = Composed(((Laplace(1 / eps), count),)), part * eps * count
    p = 1 / (1 + math.exp(-eps))
    exact = math.fsum(
        math.comb(count, i) * p**i * (1 - p) ** (count - i) * -math.expm1(target - loss)
        for i in range(count + 1)
        if (loss := (2 * i - count) * eps) > target
    )
    for name in ("zcdp", "rdp", "moments", "linear", "advanced"):
        assert delta(event, target, name) >= exact * (1 - 1e-9)


@pytest.mark.parametrize(("eps", "count"), [(0.5, 10), (0.05, 400), (1.7, 3)])
def test_pld_is_tight_for_pure_composition(eps: float, count: int) -> None:
    target = 0.4 * min(eps * count, 5.0)
    p = 1 / (1 + math.exp(-eps))
    with mp.workdps(30):
        terms = (
            mp.binomial(count, i)
            * mp.mpf(p) ** i
            * mp.mpf(1 - p) ** (count - i)
            * -mp.expm1(target - loss)
            for i in range(count + 1)
            if (loss := (2 * i - count) * eps) > target
        )
        exact = float(mp.fsum(terms))
    event = Composed(((Laplace(1 / eps), count),))
    assert exact <= delta(event, target, "pld") <= exact * 1.01 + 1e-9


def test_mixed_noise_stays_with_what_is_proved() -> None:
    event = Composed(((Gaussian(30.0, 10, 2**24), 60), (Laplace(50.0), 40)))
    assert which(event, 1e-6) == "zcdp"
    pld, rdp, zcdp = (epsilon(event, 1e-6, name) for name in ("pld", "rdp", "zcdp"))
    assert pld < rdp <= zcdp == epsilon(event, 1e-6)


@given(st.floats(1e-9, 10.0), st.integers(1, 10_000))
def test_randomized_response_moments(eps: float, order: int) -> None:
    found = log_moment(order, eps)
    assert 0 < found <= min(order * eps, order * (order + 1) * eps * eps / 2) * (1 + 1e-12)
    with mp.workdps(40):
        exact = mp.log(mp.cosh((order + mp.mpf("0.5")) * mp.mpf(eps)) / mp.cosh(mp.mpf(eps) / 2))
    assert found == pytest.approx(float(exact), rel=1e-12)


@pytest.mark.parametrize("name", FAST)
@settings(deadline=None, max_examples=25)
@given(multiplier=st.floats(1.0, 100.0), count=st.integers(1, 300), factor=st.floats(1.01, 3.0))
def test_monotone(name: str, multiplier: float, count: int, factor: float) -> None:
    def event(m: float, k: int) -> Event:
        return Composed(((Gaussian(m, 5, 2**24), k),))

    eps = epsilon(event(multiplier, count), 1e-6, name)
    assert epsilon(event(multiplier * factor, count), 1e-6, name) <= eps * (1 + 1e-9)
    assert epsilon(event(multiplier, count + 1), 1e-6, name) >= eps * (1 - 1e-9)
    assert epsilon(event(multiplier, count), 1e-6 * factor, name) <= eps * (1 + 1e-9)
    if name not in ("linear", "advanced"):
        spent = delta(event(multiplier, count), 1.0, name)
        assert delta(event(multiplier, count), factor, name) <= spent * (1 + 1e-9)


@pytest.mark.parametrize("name", [name for name in ACCOUNTANTS if "classical" not in name])
@pytest.mark.parametrize("dlt", [1e-8, 1e-3])
def test_verbs_are_inverse_on_the_safe_side(name: str, dlt: float) -> None:
    event = Composed(((Gaussian(20.0, 5, 2**24), 12),))
    eps = epsilon(event, dlt, name)
    # Twice rounded up: delta at the reported epsilon is the asked one, but for margins.
    assert delta(event, eps, name) <= dlt * (1 + 1e-4)
    assert delta(event, eps * (1 - 1e-3), name) > dlt


def test_delta_never_rises_with_epsilon_on_a_coarse_lattice() -> None:
    event = Gaussian(4.0, 50, 8)
    values = [delta(event, eps / 4, "gdp") for eps in range(1, 80)]
    assert values == sorted(values, reverse=True)
    assert epsilon(event, values[-1] / 2, "gdp") == math.inf


@pytest.mark.parametrize("name", ACCOUNTANTS)
def test_exact_and_empty_events(name: str) -> None:
    assert epsilon(NoPrivacy(), 1e-6, name) == math.inf
    assert epsilon(compose(NoPrivacy(), Gaussian(9.0)), 0.5, name) == math.inf
    assert delta(NoPrivacy(), 3.0, name) == 1.0
    assert epsilon(Nothing(), 0.0, name) == 0.0
    assert delta(Nothing(), 0.0, name) == 0.0


@pytest.mark.parametrize("name", [name for name in ACCOUNTANTS if "classical" not in name])
def test_failures_come_off_delta(name: str) -> None:
    noise = Gaussian(5.0, 3, 2**24)
    event = compose(noise, Failure(4e-7))
    assert epsilon(event, 1e-6, name) == pytest.approx(epsilon(noise, 6e-7, name), rel=1e-6)
    assert epsilon(event, 3e-7, name) == math.inf
    assert delta(event, 1.0, name) == pytest.approx(delta(noise, 1.0, name) + 4e-7, rel=1e-6)


def test_pure_differential_privacy_at_delta_zero() -> None:
    event = Composed(((Laplace(10.0), 5), (Laplace(4.0), 2)))
    for name in ("linear", "auto"):
        assert epsilon(event, 0.0, name) == pytest.approx(1.0, rel=1e-9)
        assert delta(event, 1.0 + 1e-9, name) == 0.0
    assert which(event, 0.0) == "linear"
    assert epsilon(compose(event, Gaussian(9.0)), 0.0) == math.inf
    for name in ("zcdp", "rdp", "pld", "moments", "advanced"):
        assert epsilon(event, 0.0, name) == math.inf


@pytest.mark.parametrize("verb", [epsilon, delta])
def test_gdp_refuses_laplace(verb: Callable[..., float]) -> None:
    with pytest.raises(NotValid, match="Laplace") as caught:
        verb(compose(Gaussian(2.0), Laplace(2.0)), 0.5, "gdp")
    assert isinstance(caught.value, ValueError)


def test_classical_gaussian_is_refused_from_epsilon_one() -> None:
    for name in ("linear-classical", "advanced-classical"):
        with pytest.raises(NotValid, match="epsilon below 1"):
            epsilon(Gaussian(1.0), 1e-6, name)
    assert epsilon(Gaussian(10.0, 1, 64), 1e-2, "linear-classical") < 1


@pytest.mark.parametrize("name", ACCOUNTANTS)
def test_bad_numbers(name: str) -> None:
    event = Gaussian(50.0)
    for bad in (-1e-9, 1.0, 2.0, math.nan, math.inf, "a", None):
        with pytest.raises(ValueError, match=r"delta must be in \[0, 1\)"):
            epsilon(event, bad, name)  # type: ignore[arg-type]
    for bad in (-1e-9, math.nan, math.inf, -math.inf, "a", None):
        with pytest.raises(ValueError, match="epsilon must be a finite number at least 0"):
            delta(event, bad, name)  # type: ignore[arg-type]


def test_unknown_accountant_and_event() -> None:
    with pytest.raises(
        ValueError, match="unknown accountant 'renyi'; choose one of auto, gdp, zcdp"
    ):
        epsilon(Gaussian(1.0), 0.1, "renyi")
    with pytest.raises(TypeError, match="expected a privacy event"):
        epsilon("gaussian", 0.1)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", [n for n in ACCOUNTANTS if "classical" not in n])
def test_extreme_noise_neither_overflows_nor_turns_negative(name: str) -> None:
    for multiplier in (1e-200, 1e-8, 1e-3, 1e8, 1e200):
        event = Gaussian(multiplier)
        for dlt in (1e-300, 1e-15, 0.5):
            assert epsilon(event, dlt, name) >= 0
        for eps in (0.0, 1e-6, 200.0, 1e6):
            assert 0 < delta(event, eps, name) <= 1


@pytest.mark.parametrize("name", ["auto", "zcdp", "rdp", "pld", "moments", "advanced"])
def test_extreme_laplace_noise(name: str) -> None:
    for multiplier in (1e-200, 1e-8, 1e-3, 1e8, 1e200):
        event = compose(Laplace(multiplier), Gaussian(5.0, 1, 2**24))
        for dlt in (1e-300, 1e-15, 0.5):
            assert epsilon(event, dlt, name) >= 0
        for eps in (0.0, 1e-6, 200.0, 1e6):
            assert 0 < delta(event, eps, name) <= 1


def test_importing_accounting_does_not_import_the_library() -> None:
    code = (
        "import sys, privem.accounting as a; a.epsilon(a.Gaussian(5.0), 1e-6); "
        "assert 'dp_accounting' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": ":".join(sys.path)})
