"""Shrinking noisy moments: limits known in closed form, totality, and that it helps."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from privem.blocks.shrinkage import (
    clean,
    clean_eigenvalues,
    james_stein,
    operator_noise,
    rounder,
    soften,
    stands_out,
)
from privem.linalg import smat


def noise(d, deviation, seed):
    """A symmetric matrix whose svec entries are independent with this deviation."""
    rng = np.random.default_rng(seed)
    return smat(rng.normal(scale=deviation, size=d * (d + 1) // 2), d)


def test_without_noise_nothing_changes():
    values = np.array([0.1, 0.5, 0.50001, 3.0, 70.0])
    cleaned, error = clean_eigenvalues(values, 1e-9)
    np.testing.assert_allclose(cleaned, values, atol=1e-12)
    assert error.max() <= 1e-9
    matrix = np.diag(values)
    np.testing.assert_allclose(clean(matrix, 1e-9, 1.0, 1e-6, 100.0), matrix, atol=1e-8)


@pytest.mark.parametrize("strength", [1.5, 3.0, 6.0])
def test_a_single_signal_comes_out_at_its_variance_along_the_noisy_eigenvector(strength):
    """The spiked model: x = v + t/v, and v' S v = v - t/v = sqrt(x^2 - 4 t)."""
    d, deviation = 400, 0.3
    t = d * deviation**2 / 2
    size = strength * math.sqrt(t)
    direction = np.full(d, d**-0.5)
    noisy = size * np.outer(direction, direction) + noise(d, deviation, 3)
    values, vectors = np.linalg.eigh(noisy)
    cleaned, _ = clean_eigenvalues(values, deviation)
    true = size * float(direction @ vectors[:, -1]) ** 2
    assert abs(values[-1] - true) > 4 * deviation  # what the eigenvalue itself would be off by
    assert abs(cleaned[-1] - true) < 4 * deviation
    assert abs(cleaned[-1] - math.sqrt(values[-1] ** 2 - 4 * t)) < deviation


def test_the_total_variance_is_kept():
    values = np.linalg.eigvalsh(np.diag(np.arange(30.0)) + noise(30, 0.7, 4))
    cleaned, _ = clean_eigenvalues(values, 0.7)
    assert abs(cleaned.sum() - values.sum()) < 1e-9
    assert (np.diff(cleaned) >= 0).all()


def kullback_leibler(true, estimate):
    """Of N(0, true) from N(0, estimate): what the estimate costs in log-likelihood."""
    ratio = np.linalg.solve(estimate, true)
    return 0.5 * (np.trace(ratio) - len(true) - np.linalg.slogdet(ratio)[1])


@pytest.mark.parametrize("deviation", [0.003, 0.03, 0.3, 3.0])
@pytest.mark.parametrize("d", [20, 100])
def test_it_is_better_than_softening_at_the_size_of_the_noise(d, deviation):
    """At every size of the noise; by far where it is large."""
    rng = np.random.default_rng(d)
    loadings = rng.normal(size=(d, 3))
    true = 0.1 * loadings @ loadings.T / 3 + 0.05 * np.eye(d)
    costs = []
    for seed in range(5):
        noisy = true + noise(d, deviation, seed)
        plain = soften(noisy, 1e-6, float(operator_noise(d, deviation)), float(d))
        costs.append(
            [kullback_leibler(true, m) for m in (clean(noisy, deviation, 1 / 3, 1e-6, d), plain)]
        )
    ours, before = np.mean(costs, axis=0)
    assert ours < before


def test_noise_beyond_everything_leaves_what_is_typical():
    d = 50
    covariance = clean(noise(d, 1e6, 5), 1e6, 1 / 3, 1e-9, float(d))
    assert np.abs(np.linalg.eigvalsh(covariance) - 1 / 3).max() < 0.5


@settings(max_examples=60, deadline=None)
@given(
    arrays(np.float64, (4, 4), elements=st.floats(-1e9, 1e9)),
    st.floats(1e-12, 1e9),
    st.floats(1e-3, 1e3),
)
def test_any_matrix_gives_a_valid_covariance(matrix, deviation, typical):
    values = np.linalg.eigvalsh(clean(matrix, deviation, typical, 1e-3, 1e4))
    assert np.isfinite(values).all()
    assert values[0] > 0.9e-3 - 1e-10
    assert values[-1] < 1.1e4


@pytest.mark.parametrize("d", [1, 2, 7])
def test_without_noise_a_matrix_stays(d):
    root = np.random.default_rng(d).normal(size=(d, d))
    kept, share = rounder(root @ root.T, 0.0)
    np.testing.assert_allclose(kept, root @ root.T, rtol=1e-12, atol=1e-12)
    assert share == 1.0


@pytest.mark.parametrize("d", [2, 5, 20])
@pytest.mark.parametrize("deviation", [0.03, 0.3, 3.0])
def test_it_is_hardly_further_off_and_much_nearer_where_noise_is_large(d, deviation):
    """Mean squared errors of 300 matrices with seeded noise; nothing here is left to chance."""
    rng = np.random.default_rng(0)
    truth = np.diag(np.linspace(0.5, 1.5, d))
    noise = smat(rng.normal(0, deviation, (300, d * (d + 1) // 2)), d)
    raw = np.mean([np.sum(n**2) for n in noise])
    shrunk = [rounder(truth + n, deviation)[0] for n in noise]
    off = np.mean([np.sum((s - truth) ** 2) for s in shrunk])
    assert off < 1.1 * raw
    if deviation == 3.0:
        assert off < (0.8 if d == 2 else 0.3) * raw
    np.testing.assert_allclose(
        [np.trace(s) for s in shrunk], [np.trace(truth + n) for n in noise], rtol=1e-9, atol=1e-9
    )


def test_without_noise_a_step_stands_out_whole():
    step = np.array([3.0, -4.0])
    np.testing.assert_array_equal(stands_out(step, 0.0, 1.0), step)
    np.testing.assert_array_equal(stands_out(np.zeros(2), 0.0, 1.0), np.zeros(2))


@given(st.integers(0, 1000), st.floats(1e-6, 1e3), st.floats(1e-6, 1e3))
def test_no_more_is_taken_than_james_and_stein_would(seed, variance, size):
    step = np.random.default_rng(seed).normal(size=7)
    taken = stands_out(step, variance, size)
    plain = james_stein(step[None], np.array([variance]))[0]
    assert np.linalg.norm(taken) <= np.linalg.norm(plain) * (1 + 1e-12)
    # Little noise, by the size of what is looked for: hardly less, either.
    if 7 * variance < 1e-3 * size:
        assert np.linalg.norm(taken) >= np.linalg.norm(plain) - 0.01


def test_noise_longer_than_anything_sensible_moves_nothing():
    """Two deviations beyond the noise's expected length: 40 (1 + 2 sqrt(2/40)) = 57.9."""
    step = np.full(40, np.sqrt(57.0 / 40))
    assert not stands_out(step, 1.0, 0.1).any()
    assert james_stein(step[None], np.array([1.0])).any()
