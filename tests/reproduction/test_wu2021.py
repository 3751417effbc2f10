"""Wu 2021: the leak of the printed version, and its formulas."""

from importlib import import_module

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm


@pytest.fixture
def printed(experiments):
    return import_module("wu2021.printed")


@pytest.fixture
def cells(experiments):
    return import_module("wu2021.cells")


def test_a_record_is_read_off_a_printed_release_and_off_no_other(cells, seeded):
    rows = [cells.attack(500, 4, 0.5, 10, repetition) for repetition in range(20)]
    plain, lattice = zip(*rows, strict=True)
    assert max(row["error"] for row in plain) < 1e-6
    assert all(row["right"] for row in plain)
    assert min(row["error"] for row in lattice) > 1


def test_the_bounded_gradients_are_those_of_the_symmetric_model(printed):
    """Finite differences of the log-density, where nothing is truncated."""
    rng = np.random.default_rng(0)
    X, theta = rng.normal(size=(5, 3)), rng.normal(size=3)

    def density(at):
        return np.logaddexp(*(norm.logpdf(X, s * at).sum(axis=1) for s in (1, -1)))

    step = 1e-6
    slopes = np.stack([density(theta + e) - density(theta - e) for e in step * np.eye(3)], axis=1)
    np.testing.assert_allclose(printed.gradients(X, theta), slopes / (2 * step), atol=1e-6)
    settings = printed.Settings(10**9, 3, 1.0, 1e-5, 1, 1.0)
    np.testing.assert_allclose(settings.robust(X, theta), slopes / (2 * step), atol=1e-5)


def test_equation_14_is_the_integral_with_the_right_signs_only(printed):
    def h(x):
        x = np.clip(x, -np.sqrt(2), np.sqrt(2))
        return x - x**3 / 6

    for a, b in ((0.3, 0.2), (1.0, 0.4), (2.0, 1.5), (5.0, 2.2)):
        mean = quad(lambda z, a=a, b=b: h(a + b * z) * norm.pdf(z), -12, 12, limit=400)[0]
        right = printed.equation_14(np.array([a]), np.array([b]), right=True)
        assert right[0] == pytest.approx(mean, abs=1e-8)
    assert abs(printed.equation_14(np.array([5.0]), np.array([2.2]))[0] - mean) > 0.1


def test_the_printed_sigma_is_half_of_what_its_own_argument_asks_for(printed):
    settings = printed.Settings(2_000, 10, 0.5, 1e-5, 10, 3.0)
    rho = settings.steps * settings.sensitivity() ** 2 / (2 * settings.variance)
    assert rho + 2 * np.sqrt(rho / 2 * np.log(1e5)) > 0.5  # even with half of it
    half = rho / 2
    assert half + 2 * np.sqrt(half * np.log(1e5)) == pytest.approx(0.5)
