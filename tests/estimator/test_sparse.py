"""Sparse rows: k-means reads them block by block, as if they were dense."""

import tracemalloc

import numpy as np
import pytest
import scipy.sparse

from privem import KMeans
from privem.federation import Federation, Party

FORMS = ("csr_array", "csr_matrix", "csc_array", "coo_array")


def mostly_zero(n=600, d=7, seed=0):
    rng = np.random.default_rng(seed)
    heaps = 6.0 * rng.normal(size=(3, d))[rng.integers(0, 3, n)]
    return (heaps + rng.normal(size=(n, d))) * (rng.random((n, d)) < 0.4)


@pytest.mark.parametrize("form", FORMS)
def test_exact_fits_and_predictions_are_those_of_the_dense_rows(form):
    X, weight = mostly_zero(), np.random.default_rng(1).uniform(0.1, 2.0, 600)
    sparse = getattr(scipy.sparse, form)(X)
    ours = KMeans(4, epsilon=None).fit(sparse, None, weight)
    dense = KMeans(4, epsilon=None).fit(X, None, weight)
    np.testing.assert_array_equal(ours.cluster_centers_, dense.cluster_centers_)
    np.testing.assert_array_equal(ours.labels_, dense.labels_)
    assert ours.inertia_ == dense.inertia_
    new = getattr(scipy.sparse, form)(mostly_zero(seed=2))
    np.testing.assert_array_equal(ours.predict(new), dense.predict(new.toarray()))
    np.testing.assert_array_equal(ours.transform(new), dense.transform(new.toarray()))
    assert ours.score(new, None, weight) == dense.score(new.toarray(), None, weight)


@pytest.mark.parametrize("init", ["k-means++", "random"])
def test_starts_that_draw_rows(init):
    X = mostly_zero()
    parameters = {"init": init, "n_init": 3, "random_state": 0, "epsilon": None}
    ours = KMeans(4, **parameters).fit(scipy.sparse.csr_array(X))
    np.testing.assert_array_equal(ours.labels_, KMeans(4, **parameters).fit(X).labels_)


def test_no_dense_copy_is_ever_made():
    n, d = 30_000, 400  # 96 megabytes if it were dense
    rng = np.random.default_rng(0)
    cells = rng.integers(n, size=12_000), rng.integers(d, size=12_000)
    X = scipy.sparse.csr_array((rng.random(12_000), cells), shape=(n, d))
    model = KMeans(2, init=X[:2].toarray(), max_iter=2, tol=0.0, n_jobs=1, epsilon=None)
    tracemalloc.start()
    with pytest.warns(Warning, match="did not converge"):
        model.fit(X)
    model.transform(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 72 * 2**20


def test_a_party_may_hold_sparse_rows():
    X = mostly_zero()
    parts = [scipy.sparse.csr_matrix(X[:200]), scipy.sparse.coo_array(X[200:300]), X[300:]]
    parties = [Party(rows, name) for rows, name in zip(parts, "abc", strict=True)]
    federation = Federation(parties, protection="plain")
    ours, central = (KMeans(3, epsilon=None).fit(rows) for rows in (federation, X))
    np.testing.assert_allclose(ours.cluster_centers_, central.cluster_centers_, atol=1e-12)


@pytest.mark.parametrize("groups", [None, np.arange(20_000) // 2])
def test_private_fits_take_sparse_rows_and_pull_them_into_the_bounds(groups):
    rng = np.random.default_rng(3)
    X = 8.0 * np.eye(2)[rng.integers(0, 2, 20_000)]
    X[:10] = 1e300  # outside the bounds: pulled in, like any other
    X[10:20] = np.inf
    model = KMeans(2, bounds=(0, 9), epsilon=4.0).fit(scipy.sparse.csr_array(X), groups=groups)
    assert model.privacy_.epsilon == 4.0
    found = model.cluster_centers_[np.argsort(model.cluster_centers_[:, 0])]
    # Noise moves a centre of 10,000 records by far less; the shrinkage by less than 0.2.
    np.testing.assert_allclose(found, [[0, 8], [8, 0]], atol=0.5)


def test_a_private_fit_refuses_a_nan_before_it_spends_and_says_nothing_more():
    X = mostly_zero()
    X[3, 3] = np.nan
    with pytest.raises(ValueError, match="contains NaN") as error:
        KMeans(2, bounds=(-20, 20)).fit(scipy.sparse.csr_array(X))
    assert "row" not in str(error.value).replace("rows", "")
