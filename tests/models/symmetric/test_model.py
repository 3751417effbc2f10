"""The symmetric models: contract of an EM model, gradients against numerical derivatives."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.special import logsumexp

from privem.blocks.bounding import best_radius, energy, slope
from privem.core import Block, Release, Scratch
from privem.data import LocalSource, read_rows
from privem.em import ExactEM
from privem.linalg import add, leaves, map_leaves, unravel
from privem.models.missing_regression.query import MissingCovariateGradient
from privem.models.symmetric.model import Symmetric, SymmetricModel, least_squares, log_cosh
from privem.models.symmetric.query import SymmetricGradient, SymmetricRegressionGradient
from privem.run import run

every_kind = pytest.mark.parametrize("regression", [False, True], ids=["mixture", "regression"])
seeds = st.integers(0, 2**32 - 1)


def made(regression, seed, n=80):
    rng = np.random.default_rng(seed)
    d = int(rng.integers(1, 6))
    beta = rng.normal(size=d) * 2
    sign = rng.choice([-1.0, 1.0], n)
    if regression:
        X = rng.normal(size=(n, d)) @ rng.normal(size=(d, d))
        X = np.column_stack([X, sign * (X @ beta) + rng.normal(size=n)])
    else:
        X = sign[:, None] * beta + rng.normal(size=(n, d))
    return X, Symmetric(rng.normal(size=d), float(rng.uniform(0.2, 3))), rng


def log_likelihood(X, state, regression):
    """Straight from the densities of the two components."""
    b, s = state.beta, state.variance
    if regression:
        X, y = X[:, :-1], X[:, -1]
        squares = np.stack([(y - z * (X @ b)) ** 2 for z in (1, -1)])
        return logsumexp(-squares / (2 * s), axis=0) - np.log(2) - 0.5 * np.log(2 * np.pi * s)
    squares = np.stack([np.sum((X - z * b) ** 2, axis=1) for z in (1, -1)])
    return logsumexp(-squares / (2 * s), axis=0) - np.log(2) - len(b) / 2 * np.log(2 * np.pi * s)


@every_kind
@settings(max_examples=20)
@given(seed=seeds)
def test_sums_add_up_and_weights_are_copies(regression, seed):
    X, state, rng = made(regression, seed)
    query, scratch = SymmetricModel(regression).query(state), Scratch()
    copies = rng.integers(0, 4, len(X))
    whole = query(Block(X, copies.astype(float)), scratch)
    order = rng.permutation(len(X))
    parts = [
        query(Block(X[i], copies[i].astype(float)), scratch)
        for i in np.split(order, np.sort(rng.integers(0, len(X), 3)))
    ]
    total = parts[0]
    for part in parts[1:]:
        total = add(total, part)
    repeated = query(Block(np.repeat(X, copies, axis=0)), scratch)
    for other in (total, repeated):
        for (name, a), b in zip(leaves(whole).items(), leaves(other).values(), strict=True):
            size = 1e-13 * (1 + np.abs(a).max())
            np.testing.assert_allclose(a, b, rtol=1e-11, atol=size * len(X), err_msg=name)


@every_kind
@settings(max_examples=20)
@given(seed=seeds)
def test_the_objective_is_the_mean_log_likelihood(regression, seed):
    X, state, _ = made(regression, seed)
    model = SymmetricModel(regression)
    release = Release(model.query(state), model.query(state)(Block(X), Scratch()))
    expected = log_likelihood(X, state, regression).mean()
    assert model.objective(state, release) == pytest.approx(expected, rel=1e-10)


anything = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False),
    st.floats(-10, 10),
    st.sampled_from([0.0, 5e-324, 1e-300, 1e150, -1e150, 1e300, -1e300]),
)


@every_kind
@settings(max_examples=200)
@given(seed=st.integers(0, 20), data=st.data(), known=st.booleans())
def test_the_m_step_is_total(regression, seed, data, known):
    X, state, _ = made(regression, seed)
    model = SymmetricModel(regression, 1.5 if known else None)
    query = model.query(state)
    like = query(Block(X[:1]), Scratch())
    size = sum(leaf.size for leaf in leaves(like).values())
    statistics = unravel(like, data.draw(arrays(float, size, elements=anything)))
    new = model.m_step(state, Release(query, statistics))
    assert np.isfinite(new.beta).all()
    assert 0 < new.variance < np.inf
    assert not known or new.variance in (1.5, state.variance)


@every_kind
@settings(max_examples=20)
@given(seed=seeds, known=st.booleans())
def test_exact_em_never_lowers_its_objective(regression, seed, known):
    X, state, _ = made(regression, seed, 150)
    model = SymmetricModel(regression, state.variance if known else None)
    em = ExactEM(model, state, 30, lambda change, old, new: False)
    fit = run(em, LocalSource(read_rows(X), 1))
    gains = np.diff(fit.history)
    assert gains.min() >= -1e-10 * np.max(np.abs(fit.history))


def numerical(function, beta, step=1e-6):
    shifts = step * np.eye(len(beta))
    return np.stack([(function(beta + h) - function(beta - h)) / (2 * step) for h in shifts])


@settings(max_examples=25)
@given(seed=seeds)
def test_gradients_are_those_of_the_log_likelihood(seed):
    """By Fisher's identity the gradient of Q at its own point is that of the likelihood."""
    for regression, kind in ((False, SymmetricGradient), (True, SymmetricRegressionGradient)):
        X, state, _ = made(regression, seed, 20)
        g, square = kind(state.beta, state.variance)(X.T.copy(), X, Scratch())
        expected = numerical(
            lambda b, X=X, s=state, r=regression: log_likelihood(X, Symmetric(b, s.variance), r),
            state.beta,
        )
        np.testing.assert_allclose(g / state.variance, expected, rtol=1e-5, atol=1e-5)
        # The squared residual is what the variance's own derivative wants.
        h = 1e-5 * state.variance
        up, down = (
            log_likelihood(X, Symmetric(state.beta, state.variance + e), regression)
            for e in (h, -h)
        )
        k = 1 if regression else len(state.beta)
        slope_ = square / (2 * state.variance**2) - k / (2 * state.variance)
        np.testing.assert_allclose((up - down) / (2 * h), slope_, rtol=1e-4, atol=1e-4)


@settings(max_examples=25)
@given(seed=seeds, share=st.sampled_from([0.0, 0.3, 1.0]))
def test_the_gradient_with_missing_covariates(seed, share):
    """Given what is observed, y is normal about <b_obs, x_obs>, x_mis standard normal."""
    X, state, rng = made(True, seed, 20)
    X[:, :-1][rng.random((len(X), X.shape[1] - 1)) < share] = np.nan

    def likelihood(beta):
        missing = np.isnan(X[:, :-1])
        mean = np.where(missing, 0, X[:, :-1]) @ beta
        variance = state.variance + missing @ beta**2
        return -((X[:, -1] - mean) ** 2) / (2 * variance) - 0.5 * np.log(variance)

    filled = np.nan_to_num(X, nan=-7.0).T.copy()
    g, _ = MissingCovariateGradient(state.beta, state.variance)(filled, X, Scratch())
    np.testing.assert_allclose(
        g / state.variance, numerical(likelihood, state.beta), rtol=1e-5, atol=1e-5
    )


def test_log_cosh_does_not_overflow():
    a = np.array([0.0, 1.0, -1.0, 800.0, -1e300])
    np.testing.assert_allclose(
        log_cosh(a), [0, np.log(np.cosh(1)), np.log(np.cosh(1)), 800 - np.log(2), 1e300]
    )


@pytest.mark.parametrize("kind", ["vector", "product"])
@pytest.mark.parametrize("d", [1, 4, 30])
@pytest.mark.parametrize("radius", [0.5, 2.0, 9.0])
def test_slopes_and_energies_against_draws(kind, d, radius):
    rng = np.random.default_rng(d)
    x, r = rng.normal(size=(60_000, d)), rng.normal(size=60_000)
    shift = np.zeros(d)
    shift[0] = 0.05

    def clipped(v):
        return v / np.maximum(np.linalg.norm(v, axis=1, keepdims=True) / radius, 1)

    if kind == "vector":
        centre, moved = clipped(x), clipped(x + shift)
    else:
        centre, moved = clipped(x * r[:, None]), clipped(x * (r + x @ shift)[:, None])
    # One draw for both, so that the difference is sharp.
    assert (moved - centre)[:, 0].mean() / 0.05 == pytest.approx(slope(kind, d, radius), abs=0.02)
    assert np.mean(centre**2) == pytest.approx(energy(kind, d, radius), rel=0.03)


def test_more_noise_clips_more():
    for kind in ("vector", "product"):
        radii = [best_radius(kind, 5, noise) for noise in (0.0, 0.1, 1.0, 30.0)]
        assert radii == sorted(radii, reverse=True)


def test_statistics_survive_noise():
    X, state, rng = made(True, 3)
    model = SymmetricModel(True)
    for _ in range(5):
        query = model.query(state)
        sums = query(Block(X), Scratch())
        noisy = map_leaves(lambda leaf: leaf + 1e4 * rng.normal(size=np.shape(leaf)), sums)
        state = model.m_step(state, Release(query, noisy))
        assert np.isfinite(state.beta).all()


@pytest.mark.parametrize("size", [1.0, 1e120, 6e234, 1e300])
def test_least_squares_of_numbers_of_any_size(size):
    """Beyond some 1e150 LAPACK's eigenvalues need not converge; found by hypothesis."""
    matrix, beta = size * np.array([[2.0, 1.0], [1.0, 3.0]]), np.array([1.0, 2.0])
    assert np.allclose(least_squares(matrix, matrix @ beta), beta)
