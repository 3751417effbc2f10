"""GaussianMixture against scikit-learn's, from the same weights, means and precisions."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture as Reference

from privem import GaussianMixture
from privem.models.gaussian_mixture.model import COVARIANCE_TYPES

every_kind = pytest.mark.parametrize("kind", COVARIANCE_TYPES)
PARAMETERS = ("weights_", "means_", "covariances_", "precisions_", "precisions_cholesky_")


def start(X, k, kind, rng):
    """A start any data can have: rows as means, the covariance of the whole."""
    d = X.shape[1]
    covariance = np.atleast_2d(np.cov(X.T)) + 1e-9 * np.trace(np.atleast_2d(np.cov(X.T))) * np.eye(
        d
    )
    precisions = {
        "full": np.stack([np.linalg.inv(covariance)] * k),
        "tied": np.linalg.inv(covariance),
        "diag": np.stack([1 / np.diag(covariance)] * k),
        "spherical": np.full(k, d / np.trace(covariance)),
    }[kind]
    means = X[rng.choice(len(X), k, replace=False)]
    return {
        "weights_init": rng.dirichlet(np.full(k, 5.0)),
        "means_init": means,
        "precisions_init": precisions,
    }


def both(X, k, kind, max_iter, **parameters):
    common = {
        "n_components": k,
        "covariance_type": kind,
        "max_iter": max_iter,
        "tol": 0.0,
        **parameters,
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return GaussianMixture(epsilon=None, **common).fit(X), Reference(**common).fit(X)


def assert_agree(ours, theirs, rtol=1e-8, names=PARAMETERS, shift=0.0):
    """Every parameter relative to its largest entry; each iteration's likelihood."""
    assert ours.n_iter_ == theirs.n_iter_
    np.testing.assert_allclose(ours.lower_bounds_, theirs.lower_bounds_, rtol=rtol, atol=rtol)
    assert ours.lower_bound_ == pytest.approx(theirs.lower_bound_, rel=rtol, abs=rtol)
    for name in names:
        a, b = getattr(ours, name), getattr(theirs, name)
        if name == "means_":
            a = a - shift
        assert a.shape == b.shape, name
        np.testing.assert_allclose(a, b, rtol=0, atol=rtol * np.max(np.abs(b)), err_msg=name)


def heaps(rng, n, d, k, apart=3.0):
    return rng.normal(size=(n, d)) * rng.uniform(0.5, 2, d) + apart * rng.integers(
        0, k, size=(n, 1)
    )


@every_kind
@settings(max_examples=25)
@given(seed=st.integers(0, 2**32 - 1), d=st.integers(1, 8), k=st.integers(1, 5), rows=st.data())
def test_every_parameter_and_every_iteration_agree(kind, seed, d, k, rows):
    # Enough rows for components that are not about to be singular: there digits are lost by both.
    n = rows.draw(st.integers(20 * k * (d + 1), 30 * k * (d + 1)))
    rng = np.random.default_rng(seed)
    X = heaps(rng, n, d, k)
    assert_agree(*both(X, k, kind, 6, **start(X, k, kind, rng)))


@every_kind
@pytest.mark.parametrize("shape", [(4000, 3, 2), (600, 33, 2), (500, 40, 8)])
def test_every_kernel_agrees(kind, shape):
    """Several tiles of rows; tiles of products (d > 31); few and many components."""
    n, d, k = shape
    rng = np.random.default_rng(d)
    X = heaps(rng, n, d, k)
    assert_agree(*both(X, k, kind, 4, reg_covar=1e-3, **start(X, k, kind, rng)))


@every_kind
@pytest.mark.parametrize(("data", "k"), [("old_faithful", 2), ("gvhd", 5), ("life_sciences", 3)])
def test_real_data_agree(kind, data, k, request):
    X = request.getfixturevalue(data)
    rng = np.random.default_rng(0)
    assert_agree(*both(X, k, kind, 10, **start(X, k, kind, rng)))


@every_kind
def test_columns_in_very_different_units_agree(kind):
    rng = np.random.default_rng(1)
    X = heaps(rng, 800, 3, 2) * [1e8, 1.0, 1e-2]
    ours, theirs = both(X, 2, kind, 8, reg_covar=1e-9, **start(X, 2, kind, rng))
    assert_agree(ours, theirs)
    # Entry by entry too: the largest entry says nothing about the small columns.
    size = np.sqrt(np.var(X, axis=0))
    np.testing.assert_allclose(ours.means_ / size, theirs.means_ / size, atol=1e-8)
    np.testing.assert_allclose(
        ours.precisions_cholesky_, theirs.precisions_cholesky_, rtol=1e-6, atol=1e-14
    )


@every_kind
@pytest.mark.parametrize("ratio", [1e2, 1e4, 1e6])
def test_far_from_zero_agrees_with_sklearn_at_zero(kind, ratio):
    """Sums about an origin: |mean|/sd of 1e4 costs nothing.

    Scikit-learn's own answer on shifted data loses digits (it uses raw moments), so its answer on
    the data moved back, exactly, is the reference.
    """
    rng = np.random.default_rng(2)
    shift = ratio * np.array([1.0, -1.0, 0.5])
    shifted = heaps(rng, 900, 3, 3) + shift
    X = shifted - shift
    np.testing.assert_array_equal(X + shift, shifted)
    given = start(X, 3, kind, rng)
    moved = {**given, "means_init": given["means_init"] + shift}
    theirs = both(X, 3, kind, 8, **given)[1]
    ours = both(shifted, 3, kind, 8, **moved)[0]
    # The start itself is rounded to eps * ratio when it is moved.
    assert_agree(ours, theirs, rtol=1e-8, shift=shift)


@every_kind
def test_clusters_far_from_each_other_agree(kind):
    """No single origin is near all of them: each is summed about its own mean."""
    rng = np.random.default_rng(3)
    centres = 1e4 * np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]])
    label = rng.integers(0, 4, 1200)
    spread = rng.normal(size=(1200, 3))
    X = centres[label] + spread
    precisions = {
        "full": np.stack([np.eye(3)] * 4),
        "tied": np.eye(3),
        "diag": np.ones((4, 3)),
        "spherical": np.ones(4),
    }[kind]
    ours, theirs = both(
        X, 4, kind, 3, weights_init=np.full(4, 0.25), means_init=centres, precisions_init=precisions
    )
    # Each cluster is pure, so the answer is known to the last digits.
    reg = ours.reg_covar
    covariances = []
    for k in range(4):
        inside = (X[label == k] - centres[k]).copy()
        about = inside - inside.mean(axis=0)
        covariances.append(about.T @ about / len(about))
        np.testing.assert_allclose(ours.means_[k] - centres[k], inside.mean(axis=0), atol=1e-11)
    covariances, counts = np.array(covariances), np.bincount(label)
    np.testing.assert_allclose(ours.weights_, counts / 1200, rtol=1e-12)
    exact = {
        "full": covariances + reg * np.eye(3),
        "tied": np.tensordot(counts / 1200, covariances, 1) + reg * np.eye(3),
        "diag": np.einsum("kii->ki", covariances) + reg,
        "spherical": np.einsum("kii->k", covariances) / 3 + reg,
    }[kind]
    np.testing.assert_allclose(ours.covariances_, exact, rtol=1e-9, atol=1e-10)
    if kind == "full":  # the one type where scikit-learn centres
        assert_agree(ours, theirs)


@every_kind
def test_densities_and_criteria_agree_given_the_same_parameters(kind):
    rng = np.random.default_rng(4)
    X = heaps(rng, 700, 4, 3)
    ours, theirs = both(X, 3, kind, 5, **start(X, 3, kind, rng))
    for name in (*PARAMETERS, "lower_bound_"):
        setattr(theirs, name, getattr(ours, name))
    new = heaps(rng, 5000, 4, 3) * 2
    np.testing.assert_allclose(ours.score_samples(new), theirs.score_samples(new), rtol=1e-9)
    np.testing.assert_allclose(ours.predict_proba(new), theirs.predict_proba(new), atol=1e-9)
    np.testing.assert_array_equal(ours.predict(new), theirs.predict(new))
    assert ours.score(new) == pytest.approx(theirs.score(new), rel=1e-11)
    assert ours.bic(new) == pytest.approx(theirs.bic(new), rel=1e-11)
    assert ours.aic(new) == pytest.approx(theirs.aic(new), rel=1e-11)


@every_kind
def test_stopping_agrees(kind, old_faithful):
    rng = np.random.default_rng(0)
    given = start(old_faithful, 2, kind, rng)
    ours, theirs = both(old_faithful, 2, kind, 200, **{**given, "tol": 1e-5})
    assert ours.converged_
    assert theirs.converged_
    assert_agree(ours, theirs)


def test_extreme_rows_have_the_right_density():
    """Rows a thousand deviations out: log-densities stay finite and right."""
    rng = np.random.default_rng(5)
    X = heaps(rng, 500, 2, 2)
    ours, theirs = both(X, 2, "full", 5, **start(X, 2, "full", rng))
    far = np.array([[1e3, -1e3], [1e6, 1e6], [0, -1e5]])
    np.testing.assert_allclose(ours.score_samples(far), theirs.score_samples(far), rtol=1e-8)
    assert np.isfinite(ours.predict_proba(far)).all()
    np.testing.assert_allclose(ours.predict_proba(far).sum(axis=1), 1.0, rtol=1e-12)
