"""Discrete noise: the total variation bounds and whole mechanisms, against exact summation."""

from __future__ import annotations

import functools
import math

import mpmath as mp
import pytest

from privem.accounting import ACCOUNTANTS, Gaussian, Laplace, NotValid, delta, epsilon
from privem.accounting import accountant as gdp_module

NUMBERS = ["auto", "gdp", "zcdp", "zcdp-loose", "rdp", "pld", "moments", "linear", "advanced"]


@functools.cache
def masses(sigma: float, digits: int = 40) -> dict[int, mp.mpf]:
    """Probabilities of the discrete Gaussian of scale `sigma`, out to 40 standard deviations."""
    with mp.workdps(digits):
        reach = int(40 * sigma) + 1
        weight = {
            k: mp.exp(-(mp.mpf(k) ** 2) / (2 * mp.mpf(sigma) ** 2))
            for k in range(-reach, reach + 1)
        }
        total = mp.fsum(weight.values())
        return {k: w / total for k, w in weight.items()}


def rounded_masses(variance: mp.mpf, reach: int, digits: int = 40) -> dict[int, mp.mpf]:
    """Probabilities of a continuous Gaussian rounded to the nearest integer."""
    with mp.workdps(digits):
        scale = mp.sqrt(variance)
        half = {}
        for k in range(reach + 1):
            low, high = (k - mp.mpf("0.5")) / scale, (k + mp.mpf("0.5")) / scale
            # Differences of upper tails: no cancellation against 1 far out.
            half[k] = (mp.erfc(low / mp.sqrt(2)) - mp.erfc(high / mp.sqrt(2))) / 2
        return {k: half[abs(k)] for k in range(-reach, reach + 1)}


def total_variation(sigma: float, variance: mp.mpf) -> float:
    """Total variation between the discrete Gaussian and a rounded continuous one."""
    exact = masses(sigma)
    reach = max(exact)
    rounded = rounded_masses(variance, reach)
    with mp.workdps(40):
        return float(mp.fsum(abs(exact[k] - rounded[k]) for k in exact) / 2)


def shift_delta(sigma: float, shift: int, epsilon: float) -> float:
    """Exact delta of one integer that moves by `shift` under discrete Gaussian noise."""
    exact = masses(sigma)
    with mp.workdps(40):
        factor = mp.exp(mp.mpf(epsilon))
        zero = mp.mpf(0)
        gaps = (mass - factor * exact.get(k - shift, zero) for k, mass in exact.items())
        return float(mp.fsum(gap for gap in gaps if gap > 0))


def product_delta(sigma: float, shifts: tuple[int, ...], epsilon: float) -> float:
    """Exact delta of several coordinates moving together, by the distribution of the privacy loss.

    The loss of a coordinate at k is ((k - shift)^2 - k^2)/(2 sigma^2), a multiple of 1/(2 sigma^2).
    """
    exact = masses(sigma, digits=30)
    losses: dict[int, float] = {0: 1.0}
    for shift in shifts:
        single: dict[int, float] = {}
        for k, mass in exact.items():
            loss = (k - shift) ** 2 - k * k
            single[loss] = single.get(loss, 0.0) + float(mass)
        joined: dict[int, float] = {}
        for one, weight in losses.items():
            for two, mass in single.items():
                joined[one + two] = joined.get(one + two, 0.0) + weight * mass
        losses = {
            loss: mass for loss, mass in joined.items() if mass > 1e-30
        }  # below any delta tested
    scale = 2 * sigma * sigma
    terms = (
        m * -mp.expm1(epsilon - loss / scale)
        for loss, m in losses.items()
        if loss / scale > epsilon
    )
    return float(mp.fsum(terms))


@pytest.mark.parametrize("sigma", [8, 9.5, 16, 64])
def test_variance_matched_total_variation(sigma: float) -> None:
    exact = total_variation(sigma, mp.mpf(sigma) ** 2 - mp.mpf(1) / 12)
    bound = gdp_module.total_variation(sigma)
    assert exact <= bound
    # The proof loses a factor of about eight (it bounds two remainders apart); the order sigma^-4
    # is right.
    assert exact >= bound / 12


@pytest.mark.parametrize("sigma", [8, 16, 64])
def test_plain_total_variation_of_privacy_math(sigma: float) -> None:
    """The simpler bound 1/(40 sigma^2) at equal variance holds; limit is phi(1)/12 = 1/49.6."""
    exact = total_variation(sigma, mp.mpf(sigma) ** 2)
    assert exact <= 1 / (40 * sigma**2)
    assert exact * sigma**2 == pytest.approx(math.exp(-0.5) / math.sqrt(2 * math.pi) / 12, rel=0.01)


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize(("sigma", "shift"), [(8, 1), (8, 4), (16, 8), (8, 16), (64, 64)])
def test_no_accountant_is_below_the_mechanism(name: str, sigma: int, shift: int) -> None:
    event = Gaussian(sigma / shift, 1, sigma)
    for eps in (0.01, 0.1, 0.5, 1.0, 2.0, 4.0):
        exact = shift_delta(sigma, shift, eps)
        assert delta(event, eps, name) >= exact
        if 1e-12 < exact < 0.9:
            assert epsilon(event, exact, name) >= eps


@pytest.mark.parametrize("name", ["gdp", "zcdp", "pld", "rdp"])
def test_several_coordinates(name: str) -> None:
    shifts = (3, 2, 1)
    event = Gaussian(8 / math.sqrt(14), 3, 8)
    for eps in (0.2, 1.0, 2.0):
        assert delta(event, eps, name) >= product_delta(8.0, shifts, eps)


def test_the_bound_is_also_close() -> None:
    event = Gaussian(2.0, 1, 64)
    for eps in (0.5, 1.0, 2.0):
        assert delta(event, eps, "gdp") == pytest.approx(shift_delta(64, 32, eps), rel=0.02)


def test_pure_gdp_without_the_correction_would_be_wrong() -> None:
    """Why discrete noise is not priced as continuous: on a coarse lattice it is less private."""
    worse = [
        eps / 10
        for eps in range(1, 40)
        if shift_delta(8, 1, eps / 10) > gdp_module.hockey_stick(1 / 8, eps / 10)
    ]
    assert worse


def test_coarse_lattices_are_refused_by_gdp_and_left_to_zcdp() -> None:
    event = Gaussian(1.0, 1, 2.0)
    for name in ("gdp", "pld", "linear", "advanced", "linear-classical"):
        with pytest.raises(NotValid, match="at least 8 lattice steps"):
            ACCOUNTANTS[name].epsilon(event, 1e-6)
    assert epsilon(event, 1e-6) == epsilon(event, 1e-6, "zcdp")
    assert delta(event, 1.0) >= shift_delta(2, 2, 1.0)


@pytest.mark.parametrize("name", ["auto", "zcdp", "rdp", "pld", "moments", "linear", "advanced"])
@pytest.mark.parametrize(("scale", "shift"), [(1, 1), (4, 2), (10, 5)])
def test_discrete_laplace(name: str, scale: int, shift: int) -> None:
    decay = math.exp(-1 / scale)
    masses = {
        k: (1 - decay) / (1 + decay) * decay ** abs(k) for k in range(-60 * scale, 60 * scale)
    }
    for eps in (0.1, 0.3, 0.45):
        factor = math.exp(eps)
        gaps = (m - factor * masses.get(k - shift, 0.0) for k, m in masses.items())
        exact = math.fsum(gap for gap in gaps if gap > 1e-18)
        assert delta(Laplace(scale / shift), eps, name) >= exact * (1 - 1e-12)


def test_moments_of_continuous_laplace_do_not_cover_discrete_laplace() -> None:
    """Park et al. 2017, equation 20, is below the true moment at one step of sensitivity."""
    eps, order = 1.0, 2
    paper = math.log(
        (order + 1) / (2 * order + 1) * math.exp(order * eps)
        + order / (2 * order + 1) * math.exp(-eps * (order + 1))
    )
    p, q = math.exp(eps) / (1 + math.exp(eps)), 1 / (1 + math.exp(eps))
    true = math.log(p * (p / q) ** order + q * (q / p) ** order)
    assert paper < true
