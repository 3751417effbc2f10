"""Catoni and Giulini's smoothed truncation, against exact arithmetic and direct quadrature."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privem.kernels.robust import ERROR, TOP, robust_bound, robust_rows, smoothed_truncation
from privem.linalg import Scratch


def exact(a: float, b: float) -> float:
    """The moments of a truncated Gaussian, in so many digits that nothing cancels."""
    with mpmath.workdps(120):
        a, b, edge = mpmath.mpf(a), mpmath.mpf(b), mpmath.sqrt(2)
        top = 2 * edge / 3
        if b < 1e-30:
            inside = a - a**3 / 6
            return float(inside if abs(a) <= edge else mpmath.sign(a) * top)
        low, high = (-edge - a) / b, (edge - a) / b

        def below(z):
            return mpmath.erfc(-z / mpmath.sqrt(2)) / 2

        def density(z):
            return mpmath.exp(-z * z / 2) / mpmath.sqrt(2 * mpmath.pi)

        mass = below(high) - below(low)
        first = density(low) - density(high)
        second = low * density(low) - high * density(high) + mass
        third = (low**2 + 2) * density(low) - (high**2 + 2) * density(high)
        cube = a**3 * mass + 3 * a * a * b * first + 3 * a * b * b * second + b**3 * third
        return float(top * (below(-high) - below(low)) + a * mass + b * first - cube / 6)


def quadrature(a: float, b: float) -> float:
    """Nothing but the definition: phi times the density, integrated piece by piece."""
    with mpmath.workdps(30):

        def integrand(z):
            x = a + b * z
            if abs(x) > mpmath.sqrt(2):
                return mpmath.sign(x) * 2 * mpmath.sqrt(2) / 3 * mpmath.npdf(z)
            return (x - x**3 / 6) * mpmath.npdf(z)

        cuts = [(s * mpmath.sqrt(2) - a) / b for s in (-1, 1)]
        return float(mpmath.quad(integrand, [-mpmath.inf, *cuts, mpmath.inf]))


@pytest.mark.parametrize(("a", "b"), [(0.3, 0.2), (1.3, 0.4), (2.0, 1.5), (0.0, 1.0), (-5.0, 3.0)])
def test_against_the_definition(a, b):
    assert exact(a, b) == pytest.approx(quadrature(a, b), abs=1e-13)
    assert float(smoothed_truncation(np.array(a), np.array(b))) == pytest.approx(
        quadrature(a, b), abs=1e-13
    )


sizes = st.one_of(
    st.floats(0, 6), st.floats(-8, 8).map(lambda e: 10.0**e), st.just(math.sqrt(2)), st.just(0.0)
)


@settings(max_examples=300)
@given(
    a=sizes,
    sign=st.sampled_from([-1.0, 1.0]),
    b=st.one_of(sizes, st.floats(-12, 9).map(lambda e: 10.0**e)),
)
def test_any_a_and_b(a, sign, b):
    found = float(smoothed_truncation(np.array(sign * a), np.array(b)))
    assert abs(found - exact(sign * a, b)) < 1e-12
    assert abs(found - exact(sign * a, b)) < ERROR / 3
    assert abs(found) <= TOP


@settings(max_examples=200)
@given(
    a=st.floats(-6, 6) | st.floats(-9, 8).map(lambda e: 10.0**e),
    gap=st.floats(5, 12),
    ratio=st.floats(0.1, 100),
)
def test_where_one_way_hands_over_to_another(a, gap, ratio):
    for b in (abs(math.sqrt(2) - abs(a)) / gap, abs(a) / math.sqrt(ratio)):
        assert abs(float(smoothed_truncation(np.array(a), np.array(b))) - exact(a, b)) < 1e-12


@pytest.mark.parametrize("beta", [0.3, 1.73, 6.0, 40.0, math.inf])
def test_the_bound_is_the_supremum(beta):
    a = np.concatenate([np.linspace(0, 30, 2000), np.logspace(1.5, 12, 200)])
    values = smoothed_truncation(a, a / math.sqrt(beta))
    top = robust_bound(beta)
    assert (np.diff(values) >= -1e-13).all()
    assert values.max() <= top + ERROR
    assert values[-1] == pytest.approx(top, abs=1e-12)


@pytest.mark.parametrize("beta", [1.73, 6.0, math.inf])
@pytest.mark.parametrize("scale", [1e-3, 0.7, 20.0])
def test_rows(beta, scale):
    rng = np.random.default_rng(3)
    x = np.concatenate([rng.standard_t(1.2, 5000), [0.0, -0.0, 1e150, -1e150, 1e-300]])
    expected = scale * smoothed_truncation(x / scale, np.abs(x / scale) / math.sqrt(beta))
    scratch = Scratch()
    found = robust_rows(x.reshape(5, -1).copy(), scale, beta, scratch).ravel()
    np.testing.assert_allclose(found, expected, rtol=0, atol=2 * ERROR * scale)
    assert np.abs(found).max() <= scale * robust_bound(beta)
    # Alone or among others, in memory used before: the same to the promised error.
    alone = np.array([robust_rows(x[i : i + 1].copy(), scale, beta, scratch)[0] for i in range(99)])
    np.testing.assert_allclose(alone, found[:99], rtol=0, atol=2 * ERROR * scale)


def test_the_papers_closed_form_fails_where_ours_does_not():
    """The printed form is right where nothing cancels, and 128 at a million."""
    with np.errstate(over="ignore"):
        a = 1e6
        b = a / math.sqrt(1.73)
    assert abs(float(smoothed_truncation(np.array(a), np.array(b))) - robust_bound(1.73)) < 1e-5
