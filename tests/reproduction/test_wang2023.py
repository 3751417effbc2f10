"""Formulas of experiments/wang2023 in which a mistake would not show."""

import math
import sys
from importlib import import_module

import numpy as np
import pytest
from scipy.optimize import approx_fprime

from privem.blocks.robust_mean import papers_scale
from privem.kernels.robust import smoothed_truncation


@pytest.fixture(scope="module")
def paper(root):
    """Its modules."""
    sys.path.insert(0, str(root / "experiments"))
    try:
        yield {name: import_module(f"wang2023.{name}") for name in ("printed", "problems", "judge")}
    finally:
        sys.path.remove(str(root / "experiments"))


def log_likelihood(kind, data, beta):
    """Of the observed data, noise of variance one, up to a constant."""
    if kind == "GMM":
        return np.log(np.cosh(data[0] @ beta)) - beta @ beta / 2
    X, y = data
    if kind == "MRM":
        fitted = X @ beta
        return np.log(np.cosh(y * fitted)) - fitted**2 / 2
    total = 1 + np.isnan(X) @ beta**2
    return -((y - np.nansum(X * beta, axis=1)) ** 2) / (2 * total) - np.log(total) / 2


@pytest.mark.parametrize("kind", ["GMM", "MRM", "RMC"])
def test_gradients_are_those_of_the_likelihood(paper, kind):
    # Fisher: the gradient of Q at the current parameters is that of the log-likelihood.
    data, _, beta = paper["problems"].draw(kind, 40, 3, 2.0, "near", 0)
    found = paper["problems"].gradients(kind, data, beta)
    slopes = approx_fprime(beta, lambda b: log_likelihood(kind, data, b), 1e-7)
    np.testing.assert_allclose(found, slopes, rtol=1e-3, atol=1e-4)


def test_the_closed_form_is_the_paper_s(paper):
    for a, b in [(0.1, 0.01), (1.0, 0.7), (2.0, 1.5), (-3.0, 0.5), (1.4, 0.05), (-40.0, 30.0)]:
        exact = float(smoothed_truncation(np.array([a]), np.array([b]))[0])
        assert paper["printed"].closed_form(a, b) == pytest.approx(exact, abs=1e-9)


def test_algorithm_2_has_the_noise_that_its_proof_asks_for(paper):
    m, d, tau, epsilon, delta, failure = 700, 6, 1.7, 0.4, 1e-5, 0.05
    s, beta = paper["printed"].scale(m, tau, epsilon, delta, failure)
    same = papers_scale("algorithm 2", tau, m, epsilon, delta, failure)
    assert (s, beta) == pytest.approx((same.scale, same.beta))
    # A record moves each coordinate by twice the bound of phi, over m: rho-zCDP at that sigma,
    # and rho + 2 sqrt(rho log(1/delta)) is epsilon.
    distance = 2 * s * (2 * math.sqrt(2) / 3) * math.sqrt(d) / m
    rho = distance**2 / (2 * paper["printed"].variances(m, d, tau, epsilon, delta, failure)[0])
    assert rho + 2 * math.sqrt(rho * math.log(1 / delta)) == pytest.approx(epsilon)


@pytest.mark.parametrize(
    ("printed", "repaired", "verdict"),
    [(0.9, 0.9, "holds"), (2.0, 0.9, "holds repaired"), (2.0, 2.0, "does not hold")],
)
def test_verdicts_are_about_algorithm_2_and_not_about_the_default(
    paper, printed, repaired, verdict
):
    judge = paper["judge"]
    errors = {"clipped": 1.0, "exact EM": 1.0, "as printed": printed, "repaired": repaired}
    rows = judge.Rows(
        {**judge.MIDDLE, "start": "near", "repetition": i, "method": m, "steps": 5, "error": e}
        for i in range(10)
        for m, e in {**errors, "privem": 0.1}.items()
    )
    assert judge.ahead(rows, "settings").verdict == verdict
    assert judge._converges(rows).verdict == verdict


def test_the_steps_of_algorithm_2_see_every_record_once(paper):
    seen = []

    def gradients(rows, beta):
        seen.extend(rows)
        return np.zeros((len(rows), 2))

    rng = np.random.default_rng(0)
    path = paper["printed"].robust(gradients, 100, np.zeros(2), 1.0, 5, 1.0, 1e-6, 0.05, rng)
    assert len(path) == 6
    assert sorted(seen) == list(range(100))
