"""Many columns, few rows: nothing of the size d x d, and the same answers."""

import tracemalloc
import warnings
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.decomposition import FactorAnalysis as Reference
from sklearn.exceptions import ConvergenceWarning

from privem import FactorAnalysis, GaussianMixture, KMeans
from privem.blocks.krylov import ProductsQuery, krylov
from privem.blocks.moments import MANY_COLUMNS
from privem.core import Block
from privem.data import LocalSource, read_rows
from privem.linalg import Scratch
from privem.models.factor_analysis.plan import CovariancePlan
from privem.models.gaussian_mixture import plan as mixture_plan
from privem.models.kmeans import plan as kmeans_plan
from privem.models.kmeans.plan import KMeansPlan
from privem.run import Record, Recorded, run

MB = 2**20
WIDE = 3 * MANY_COLUMNS


def clustered(seed, n=120, d=WIDE, k=5):
    """Rows around k centres that are far apart."""
    rng = np.random.default_rng(seed)
    label = rng.integers(0, k, n)
    return rng.normal(size=(k, d))[label] * 2 + rng.normal(size=(n, d)), label


@pytest.mark.parametrize(
    "model",
    [
        KMeans(6, epsilon=None),
        KMeans(6, epsilon=None, n_init=2, random_state=0),
        GaussianMixture(6, epsilon=None, covariance_type="diag", max_iter=3),
        GaussianMixture(6, epsilon=None, covariance_type="spherical", max_iter=3),
        FactorAnalysis(2, epsilon=None, max_iter=3),
    ],
    ids=repr,
)
def test_memory_grows_with_the_columns_and_not_with_their_square(model):
    """At 3,000 columns one d x d matrix is 69 MB, the rows are 1.4 MB."""
    X = np.random.default_rng(0).normal(size=(60, 3000))
    model.set_params(n_jobs=2)
    tracemalloc.start()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X).score(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 24 * MB


def test_blocks_of_wide_rows_hold_fewer_of_them():
    X = np.zeros((3000, 4000), dtype=np.float32)
    X[::2] = 1.0
    weight = np.ones(len(X))
    tracemalloc.start()
    KMeans(2, epsilon=None, n_jobs=1, max_iter=1, tol=1.0).fit(X, sample_weight=weight)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 40 * MB  # 96 MB as doubles


@pytest.mark.parametrize("kind", ["k-means", "diag", "spherical"])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_wide_fit_is_what_the_covariance_matrices_would_give(monkeypatch, kind, seed):
    X, _ = clustered(seed)
    if kind == "k-means":
        model, names = KMeans(5, epsilon=None), ("cluster_centers_", "inertia_")
    else:
        model = GaussianMixture(5, epsilon=None, covariance_type=kind)
        names = ("means_", "covariances_", "lower_bound_")
    wide = {name: np.atleast_1d(getattr(model.fit(X), name)) for name in names}
    for module in (kmeans_plan, mixture_plan):
        monkeypatch.setattr(module, "MANY_COLUMNS", X.shape[1])
    model.fit(X)
    for name in names:  # in some order: which of two equal clusters is split first is chance
        both = [
            np.sort(found, axis=0) for found in (wide[name], np.atleast_1d(getattr(model, name)))
        ]
        np.testing.assert_allclose(*both, rtol=1e-9, atol=1e-9)


def test_far_clusters_are_found():
    X, label = clustered(4, n=200, d=1000, k=8)
    found = KMeans(8, epsilon=None).fit(X).labels_
    assert len(set(zip(label, found, strict=True))) == 8


def test_order_and_repetition_of_rows_change_nothing():
    """The start is a function of sums: also a wide one."""
    X, _ = clustered(5)
    weight = np.random.default_rng(0).integers(1, 4, len(X))
    twice = np.repeat(X, weight, axis=0)[::-1]
    weighted = KMeans(5, epsilon=None, max_iter=1).fit(X, sample_weight=weight)
    repeated = KMeans(5, epsilon=None, max_iter=1).fit(twice)
    np.testing.assert_allclose(
        weighted.cluster_centers_, repeated.cluster_centers_, rtol=1e-9, atol=1e-9
    )


@pytest.mark.parametrize("scale", [0.0, 1.0, 1e150])
def test_any_finite_rows_give_a_start(scale):
    """Copies of one record, and sums of products that overflow, included."""
    X = np.full((9, WIDE), scale) * (1 + 1e-3 * np.random.default_rng(0).random((9, 1)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        assert np.isfinite(KMeans(4, epsilon=None).fit(X).cluster_centers_).all()


def test_random_directions_have_the_covariance_of_the_records():
    """sqrt(A) z as the eigenvectors give it, once there are as many steps as the rank."""
    X = np.random.default_rng(1).normal(size=(5, 200))
    mean = X.mean(axis=0)[None]
    begin = np.random.default_rng(2).normal(size=(1, 200))
    stages = partial(krylov, mean, mean, np.array([5.0]), begin, steps=6)
    known = run(SimpleNamespace(stages=stages), LocalSource(read_rows(X)))
    values, vectors = np.linalg.eigh(known.projected[0])
    root = (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T
    found = np.linalg.norm(begin) * root[0] @ known.basis[0]
    true, turn = np.linalg.eigh(np.cov(X.T, bias=True))
    np.testing.assert_allclose(
        found, (turn * np.sqrt(np.maximum(true, 0))) @ turn.T @ begin[0], atol=1e-6
    )


@pytest.mark.parametrize("plan", ["k-means", "factors"])
def test_a_recording_gives_the_same_result_with_the_data_gone(plan):
    X, _ = clustered(6)
    names = [str(i) for i in range(WIDE)]
    plans = {
        "k-means": lambda: KMeansPlan(names, 5, 20, 1e-4, [None, np.random.default_rng(1)]),
        "factors": lambda: CovariancePlan(names),
    }
    record = Record()
    fits = [run(plans[plan](), LocalSource(read_rows(X)), record)]
    fits.append(run(plans[plan](), Recorded(record.releases)))
    first, second = (fit[1].state.centres if plan == "k-means" else fit[1].factor for fit in fits)
    assert first.tobytes() == second.tobytes()


@pytest.mark.parametrize("clusters", [1, 3])
def test_products_are_those_of_the_second_moments_within_their_public_bound(clusters):
    rng = np.random.default_rng(clusters)
    X, weight = rng.uniform(-3, 5, size=(50, 7)), rng.random(50)
    centres, means = rng.normal(size=(2, clusters, 7))
    vectors = rng.normal(size=(clusters, 2, 7))
    query = ProductsQuery(centres, means, vectors)
    label = ((X[:, None] - centres) ** 2).sum(axis=2).argmin(axis=1)
    for w in (None, weight):
        found = query(Block(X, w), Scratch()).products
        for k in range(clusters):
            away = X[label == k] - means[k]
            heavy = away if w is None else away * w[label == k, None]
            np.testing.assert_allclose(found[k], vectors[k] @ heavy.T @ away, atol=1e-10)
    bound = query.largest(np.full(7, -3.0), np.full(7, 5.0))
    for row in X:
        assert (np.abs(query(Block(row[None]), Scratch()).products).ravel() <= bound).all()


def wide_factors(seed, n=40, d=80, q=3):
    rng = np.random.default_rng(seed)
    units = 10.0 ** rng.uniform(-4, 4, d)
    X = rng.normal(size=(n, q)) @ rng.normal(size=(q, d)) * 2 + rng.normal(size=(n, d))
    return (X + rng.normal(size=d) * 5) * units, units


@pytest.mark.parametrize("n", [20, 71, 72, 79])
def test_factors_of_few_rows_are_scikit_learns(n):
    X, units = wide_factors(n, n)
    common = {"n_components": 3, "noise_variance_init": units**2}
    ours = FactorAnalysis(epsilon=None, **common).fit(X)
    theirs = Reference(svd_method="lapack", **common).fit(X)
    assert ours.n_iter_ == theirs.n_iter_
    np.testing.assert_allclose(ours.noise_variance_, theirs.noise_variance_, rtol=1e-6)
    size = np.outer(units, units)
    both = [(model.components_.T @ model.components_) / size for model in (ours, theirs)]
    np.testing.assert_allclose(*both, atol=1e-6)
    np.testing.assert_allclose(ours.loglike_, theirs.loglike_, rtol=1e-9)
    assert ours.score(X) == pytest.approx(theirs.score(X), rel=1e-9)
    np.testing.assert_allclose(ours.score_samples(X), theirs.score_samples(X), rtol=1e-8)


def test_both_updates_and_weights_agree_where_rows_are_few():
    X, units = wide_factors(1)
    init = units**2
    eigen = FactorAnalysis(2, epsilon=None, tol=1e-6, noise_variance_init=init).fit(X)
    em = FactorAnalysis(2, epsilon=None, tol=1e-6, noise_variance_init=init, update="em")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        em.fit(X)
    assert em.loglike_[-1] == pytest.approx(eigen.loglike_[-1], abs=0.1)
    repeated = FactorAnalysis(2, epsilon=None, noise_variance_init=init).fit(
        np.repeat(X, 3, axis=0)[:110]
    )
    weight = np.repeat([3.0, 2.0, 0.0], [36, 1, 3])
    weighted = FactorAnalysis(2, epsilon=None, noise_variance_init=init).fit(
        X, sample_weight=weight
    )
    np.testing.assert_allclose(weighted.noise_variance_, repeated.noise_variance_, rtol=1e-8)


def test_more_factors_than_rows_have_directions():
    """As many factors as columns by default: those that no row supports have no loadings."""
    X = np.random.default_rng(0).normal(size=(10, 60))
    X[:, 7] = 4.0  # a constant column
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = FactorAnalysis(epsilon=None, max_iter=5).fit(X)
    assert model.components_.shape == (60, 60)
    assert np.isfinite(model.score(X))
    assert (np.linalg.norm(model.components_, axis=1) > 0).sum() <= 9


def test_the_density_keeps_its_digits_where_factors_explain_nearly_everything():
    X = np.random.default_rng(0).normal(size=(200, 6))
    model = FactorAnalysis(2, epsilon=None).fit(X)
    model.noise_variance_ = np.full(6, 1e-10)
    model.mean_ = np.zeros(6)
    drawn = model.sample(50)
    covariance = model.get_covariance()
    expected = -0.5 * (
        np.einsum("ij,ij->i", drawn, np.linalg.solve(covariance, drawn.T).T)
        + np.linalg.slogdet(2 * np.pi * covariance)[1]
    )
    np.testing.assert_allclose(model.score_samples(drawn), expected, rtol=1e-6)
