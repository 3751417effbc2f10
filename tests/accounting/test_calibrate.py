"""Calibration: the smallest noise that fits, over the whole range of budgets."""

from __future__ import annotations

import math
import time

import pytest
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
    calibrate,
    compose,
    epsilon,
    mu_for,
)
from privem.accounting.accountant import hockey_stick

budgets = st.floats(math.log(1e-3), math.log(200)).map(math.exp)
deltas = st.floats(math.log(1e-15), math.log(0.5)).map(math.exp)


@pytest.mark.parametrize("name", ["auto", "gdp", "zcdp", "zcdp-loose", "moments", "linear"])
@settings(deadline=None, max_examples=25)
@given(eps=budgets, dlt=deltas, count=st.integers(1, 5000))
def test_round_trip(name: str, eps: float, dlt: float, count: int) -> None:
    def event(m: float) -> Event:
        return Composed(((Gaussian(m, 4, 2**24), count),))

    if name in ("gdp", "linear") and eps > 20:
        eps = 20.0  # e^eps times the total variation would pass the smallest deltas
    found = calibrate(event, eps, dlt, name)
    assert epsilon(event(found), dlt, name) <= eps
    assert epsilon(event(found * (1 - 1e-7)), dlt, name) > eps


@pytest.mark.parametrize(
    "name", ["rdp", "pld", "advanced", "advanced-classical", "linear-classical"]
)
def test_round_trip_slow_accountants(name: str) -> None:
    def event(m: float) -> Event:
        return Composed(((Gaussian(m, 4, 2**24), 30),))

    for eps, dlt in ((0.05, 1e-9), (2.0, 1e-5)):
        found = calibrate(event, eps, dlt, name)
        assert epsilon(event(found), dlt, name) <= eps
        assert epsilon(event(found * (1 - 1e-5)), dlt, name) > eps


@given(budgets, deltas)
def test_mu_for_is_the_largest(eps: float, dlt: float) -> None:
    mu = mu_for(eps, dlt)
    assert hockey_stick(mu, eps) <= dlt
    assert epsilon(Gaussian(1 / mu), dlt, "gdp") <= eps
    assert hockey_stick(mu * (1 + 1e-9), eps) > dlt


@pytest.mark.parametrize("name", ["gdp", "zcdp", "auto"])
def test_fast(name: str) -> None:
    def event(m: float) -> Event:
        return Composed(((Gaussian(m, 100, 2**24), 3000), (Gaussian(3 * m, 1, 2**24), 1)))

    calibrate(event, 1.0, 1e-6, name)
    times = []
    for _ in range(5):
        start = time.perf_counter()
        calibrate(event, 1.0, 1e-6, name)
        times.append(time.perf_counter() - start)
    assert min(times) < 0.05


def test_pure_laplace_at_delta_zero() -> None:
    for name in ("auto", "linear"):
        assert calibrate(lambda m: Composed(((Laplace(m), 40),)), 0.5, 0.0, name) == pytest.approx(
            80, rel=1e-8
        )


def test_mixed_noise() -> None:
    def event(m: float) -> Event:
        return Composed(((Gaussian(m, 10, 2**24), 60), (Laplace(m), 80)))

    found = calibrate(event, 1.0, 1e-6)
    assert epsilon(event(found), 1e-6) <= 1.0
    assert found > calibrate(event, 1.0, 1e-6, "pld")


def test_fixed_parts_are_paid_first() -> None:
    def event(m: float) -> Event:
        return compose(Gaussian(m, 1, 2**24), Gaussian(10.0, 1, 2**24), Failure(1e-7))

    found = calibrate(event, 1.0, 1e-6)
    assert found > calibrate(lambda m: Gaussian(m, 1, 2**24), 1.0, 1e-6)
    assert epsilon(event(found), 1e-6) <= 1.0


def test_impossible_budgets_say_why() -> None:
    with pytest.raises(
        ValueError, match=r"no noise reaches epsilon=1 .* does not depend on the noise"
    ):
        calibrate(lambda m: compose(Gaussian(m), Gaussian(1.0)), 1.0, 1e-6)
    with pytest.raises(ValueError, match="no noise reaches"):
        calibrate(lambda m: NoPrivacy(), 1.0, 1e-6)
    with pytest.raises(ValueError, match="no noise reaches"):
        calibrate(Gaussian, 1.0, 0.0)
    with pytest.raises(ValueError, match="nothing to calibrate"):
        calibrate(lambda m: Nothing(), 1.0, 1e-6)
    with pytest.raises(NotValid, match="Laplace"):
        calibrate(Laplace, 1.0, 1e-6, "gdp")


@pytest.mark.parametrize("bad", [0, -1.0, math.nan, math.inf, "x"])
def test_bad_epsilon(bad: float) -> None:
    with pytest.raises(ValueError, match="epsilon must be a finite number above 0"):
        calibrate(Gaussian, bad, 1e-6)
    with pytest.raises(ValueError, match="epsilon must be a finite number above 0"):
        mu_for(bad, 1e-6)


@pytest.mark.parametrize("bad", [-1e-9, 1.0, math.nan, math.inf])
def test_bad_delta(bad: float) -> None:
    with pytest.raises(ValueError, match="delta must be in"):
        calibrate(Gaussian, 1.0, bad)
    with pytest.raises(ValueError, match=r"delta must be in \(0, 1\)"):
        mu_for(1.0, 0.0)


def test_unknown_accountant() -> None:
    with pytest.raises(ValueError, match="unknown accountant 'best'"):
        calibrate(Gaussian, 1.0, 1e-6, "best")
    assert "best" not in ACCOUNTANTS
