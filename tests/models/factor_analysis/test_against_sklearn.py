"""FactorAnalysis against scikit-learn's, step by step."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.decomposition import FactorAnalysis as Reference
from sklearn.exceptions import ConvergenceWarning

from privem import FactorAnalysis
from privem.models.factor_analysis.model import Whole, eigen_updates, em_updates, initial_factors


def factors(rng, n, d, q):
    return rng.normal(size=(n, q)) @ rng.normal(size=(q, d)) * 2 + rng.normal(
        size=(n, d)
    ) * rng.uniform(0.5, 1.5, d)


def fit(estimator, X, **parameters):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return estimator(**parameters).fit(X)


def covariance(model):
    return model.components_.T @ model.components_


@settings(max_examples=20)
@given(
    seed=st.integers(0, 2**32 - 1), q=st.integers(1, 3), more=st.integers(1, 5), t=st.integers(1, 8)
)
def test_every_step_agrees(seed, q, more, t):
    rng = np.random.default_rng(seed)
    X = factors(rng, 300, q + more, q) + rng.normal(size=q + more) * 10
    common = {"n_components": q, "max_iter": t, "tol": 0.0}
    ours, theirs = (
        fit(FactorAnalysis, X, epsilon=None, **common),
        fit(Reference, X, svd_method="lapack", **common),
    )
    size = np.var(X, axis=0).max()
    np.testing.assert_allclose(covariance(ours), covariance(theirs), rtol=0, atol=1e-8 * size)
    np.testing.assert_allclose(
        ours.noise_variance_, theirs.noise_variance_, rtol=1e-8, atol=1e-9 * size
    )
    assert ours.n_iter_ == theirs.n_iter_
    np.testing.assert_allclose(ours.mean_, theirs.mean_, rtol=1e-12)
    # Where a factor explains less than the noise variance of one it starts with, scikit-learn's
    # figure is off (see the next test).
    if np.linalg.eigvalsh(np.cov(X.T, bias=True))[-q] > 1:
        np.testing.assert_allclose(ours.loglike_[0], theirs.loglike_[0], rtol=1e-9)


def test_the_reported_likelihood_is_that_of_the_loadings_with_the_noise_they_were_found_for():
    """Also with more factors than the data have, where scikit-learn's figure is off."""
    rng = np.random.default_rng(1)
    X = factors(rng, 400, 6, 1)
    start = np.full(6, 2.5)  # most directions have less variance than this
    model = fit(
        FactorAnalysis,
        X,
        n_components=4,
        max_iter=1,
        tol=0.0,
        noise_variance_init=start,
        epsilon=None,
    )
    model.noise_variance_ = start
    assert model.loglike_[0] == pytest.approx(model.score_samples(X).sum(), rel=1e-12)


@pytest.mark.parametrize("update", ["eigen", "em"])
@settings(max_examples=15)
@given(seed=st.integers(0, 2**32 - 1))
def test_the_likelihood_never_falls(update, seed):
    rng = np.random.default_rng(seed)
    d = int(rng.integers(2, 8))
    X = factors(rng, 150, d, 2)
    model = fit(
        FactorAnalysis,
        X,
        n_components=int(rng.integers(1, d + 1)),
        update=update,
        tol=1e-9,
        max_iter=60,
        noise_variance_init=rng.uniform(0.1, 5, d),
        epsilon=None,
    )
    gains = np.diff(model.loglike_)
    assert gains.min(initial=0.0) >= -1e-10 * abs(model.loglike_[-1])


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_papers_update_converges_to_the_same_model(seed):
    """Followed until the noise variances stand still: likelihoods are flat long before that."""
    X = factors(np.random.default_rng(seed), 500, 7, 2)
    moment = Whole(np.cov(X.T, bias=True))

    def limit(updates):
        before = np.zeros(7)
        for step in updates(moment, initial_factors(7, 2, None)):
            if np.max(np.abs(step.noise_variance - before)) < 1e-11:
                return step
            before = step.noise_variance

    eigen, em = limit(eigen_updates), limit(em_updates)
    np.testing.assert_allclose(em.noise_variance, eigen.noise_variance, rtol=0, atol=1e-6)
    np.testing.assert_allclose(
        em.components.T @ em.components, eigen.components.T @ eigen.components, rtol=0, atol=1e-6
    )
    model = FactorAnalysis(2, update="em", tol=1e-9, max_iter=20_000, epsilon=None).fit(X)
    assert model.loglike_[-1] == pytest.approx(len(X) * eigen.log_likelihood, rel=1e-9)


@pytest.mark.parametrize("rotation", ["varimax", "quartimax"])
def test_rotations_agree_up_to_sign_and_order(rotation):
    X = factors(np.random.default_rng(2), 800, 8, 3)
    common = {"n_components": 3, "tol": 1e-8, "max_iter": 5000, "rotation": rotation}
    ours = FactorAnalysis(epsilon=None, **common).fit(X).components_
    theirs = Reference(svd_method="lapack", **common).fit(X).components_
    unit = [c / np.linalg.norm(c, axis=1)[:, None] for c in (ours, theirs)]
    match = np.abs(unit[0] @ unit[1].T)
    order = match.argmax(axis=0)
    assert sorted(order) == [0, 1, 2]
    signs = np.sign((ours[order] * theirs).sum(axis=1))[:, None]
    np.testing.assert_allclose(ours[order] * signs, theirs, atol=1e-4)
    plain = FactorAnalysis(epsilon=None, **{**common, "rotation": None}).fit(X)
    np.testing.assert_allclose(ours.T @ ours, covariance(plain), atol=1e-8)


def test_methods_agree_given_the_same_parameters():
    rng = np.random.default_rng(3)
    X, new = factors(rng, 300, 5, 2) + 100, factors(rng, 6000, 5, 2) + 100
    ours, theirs = FactorAnalysis(2, epsilon=None).fit(X), Reference(2, svd_method="lapack").fit(X)
    for name in ("components_", "noise_variance_", "mean_"):
        setattr(theirs, name, getattr(ours, name))
    np.testing.assert_allclose(ours.transform(new), theirs.transform(new), rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(ours.get_covariance(), theirs.get_covariance(), rtol=1e-12)
    np.testing.assert_allclose(ours.get_precision(), theirs.get_precision(), rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(ours.score_samples(new), theirs.score_samples(new), rtol=1e-9)
    assert ours.score(new) == pytest.approx(theirs.score(new), rel=1e-10)
    assert list(ours.get_feature_names_out()) == list(theirs.get_feature_names_out())


def test_stopping_agrees():
    X = factors(np.random.default_rng(4), 400, 6, 2)
    ours, theirs = FactorAnalysis(2, epsilon=None).fit(X), Reference(2, svd_method="lapack").fit(X)
    assert ours.n_iter_ == theirs.n_iter_
    np.testing.assert_allclose(ours.noise_variance_, theirs.noise_variance_, rtol=1e-8)
    np.testing.assert_allclose(ours.loglike_, theirs.loglike_, rtol=1e-9)


def test_real_data_agree(life_sciences):
    common = {"n_components": 3, "max_iter": 15}
    ours = fit(FactorAnalysis, life_sciences, epsilon=None, **common)
    theirs = fit(Reference, life_sciences, svd_method="lapack", **common)
    np.testing.assert_allclose(covariance(ours), covariance(theirs), atol=1e-8)
    np.testing.assert_allclose(ours.noise_variance_, theirs.noise_variance_, atol=1e-8)


def test_samples_have_the_moments_of_the_model():
    """Draws have the model's covariance: whitened second moments within 6 standard errors.

    36 comparisons at 6 sigma: a false alarm in fewer than 1 of 1e6 seeds.
    """
    X = factors(np.random.default_rng(5), 500, 8, 2)
    model = FactorAnalysis(2, random_state=0, epsilon=None).fit(X)
    n = 20_000
    draws = model.sample(n) - model.mean_
    w = np.linalg.inv(np.linalg.cholesky(model.get_covariance()))
    white = draws @ w.T
    error = (white.T @ white / n - np.eye(8)) * np.sqrt(n)
    error[np.diag_indices(8)] /= np.sqrt(2)
    assert np.max(np.abs(error)) < 6
    assert np.max(np.abs(white.mean(axis=0))) * np.sqrt(n) < 6
    np.testing.assert_array_equal(model.sample(5), model.sample(5))


@pytest.mark.parametrize("more", [{}, {"update": "em"}, {"rotation": "varimax"}], ids=str)
def test_no_factors_leave_independent_features(more):
    X = factors(np.random.default_rng(5), 300, 4, 2)
    theirs = Reference(0, svd_method="lapack").fit(X)
    ours = FactorAnalysis(0, epsilon=None, **more).fit(X)
    np.testing.assert_allclose(ours.noise_variance_, theirs.noise_variance_, rtol=1e-12)
    np.testing.assert_allclose(ours.noise_variance_, X.var(axis=0), rtol=1e-12)
    assert ours.score(X) == pytest.approx(theirs.score(X), rel=1e-12)
    assert ours.transform(X).shape == theirs.transform(X).shape == (300, 0)
    assert FactorAnalysis(0, bounds=(-30, 30)).fit(X).components_.shape == (0, 4)
