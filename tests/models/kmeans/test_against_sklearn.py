"""KMeans against scikit-learn's Lloyd, and the rules that are our own."""

import re

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.cluster import KMeans as Reference
from sklearn.exceptions import ConvergenceWarning

from privem import KMeans
from privem.data import ArrayRows
from privem.estimator.inits import row_centres

pd = pytest.importorskip("pandas")


def heaps(rng, n, d, k):
    return rng.normal(size=(n, d)) + 4.0 * rng.normal(size=(k, d))[rng.integers(0, k, n)]


def both(X, init, weight=None, **parameters):
    common = {"n_clusters": len(init), "init": init, "n_init": 1, "tol": 0.0, **parameters}
    theirs = Reference(algorithm="lloyd", **common).fit(X, sample_weight=weight)
    return KMeans(epsilon=None, **common).fit(X, sample_weight=weight), theirs


def assert_agree(ours, theirs):
    np.testing.assert_allclose(ours.cluster_centers_, theirs.cluster_centers_, atol=1e-10)
    np.testing.assert_array_equal(ours.labels_, theirs.labels_)
    assert ours.inertia_ == pytest.approx(theirs.inertia_, rel=1e-11)
    assert ours.n_iter_ == theirs.n_iter_


@settings(max_examples=40)
@given(
    seed=st.integers(0, 2**32 - 1),
    d=st.integers(1, 6),
    k=st.integers(1, 6),
    n=st.integers(60, 400),
    weighted=st.booleans(),
)
def test_lloyd_agrees(seed, d, k, n, weighted):
    rng = np.random.default_rng(seed)
    X = heaps(rng, n, d, k)
    # Rows as centres: none starts empty.
    init = X[rng.choice(n, k, replace=False)]
    assert_agree(*both(X, init, rng.uniform(0.1, 3, n) if weighted else None))


@pytest.mark.parametrize(("data", "k"), [("old_faithful", 2), ("gvhd", 6), ("life_sciences", 4)])
def test_real_data_agree(data, k, request):
    X = request.getfixturevalue(data)
    ours, theirs = both(X, X[:: len(X) // k][:k])
    np.testing.assert_allclose(ours.cluster_centers_, theirs.cluster_centers_, rtol=1e-9)
    np.testing.assert_array_equal(ours.labels_, theirs.labels_)
    assert ours.n_iter_ == theirs.n_iter_


def test_far_from_zero_agrees():
    rng = np.random.default_rng(6)
    shift = 2.0**20
    shifted = heaps(rng, 500, 3, 4) + shift
    X = shifted - shift
    ours, _ = both(shifted, shifted[:4])
    _, theirs = both(X, X[:4])
    ours.cluster_centers_ -= shift
    np.testing.assert_allclose(ours.cluster_centers_, theirs.cluster_centers_, atol=1e-8)
    np.testing.assert_array_equal(ours.labels_, theirs.labels_)


def test_methods_agree_given_the_same_centres():
    rng = np.random.default_rng(7)
    X, new = heaps(rng, 300, 3, 4), 3 * rng.normal(size=(9000, 3))
    ours, theirs = both(X, X[:4])
    np.testing.assert_array_equal(ours.predict(new), theirs.predict(new))
    np.testing.assert_allclose(ours.transform(new), theirs.transform(new), rtol=1e-9)
    assert ours.score(new) == pytest.approx(theirs.score(new), rel=1e-10)
    weight = rng.uniform(0, 2, len(new))
    assert ours.score(new, sample_weight=weight) == pytest.approx(
        theirs.score(new, sample_weight=weight), rel=1e-10
    )
    np.testing.assert_array_equal(ours.fit_predict(X), ours.labels_)
    np.testing.assert_allclose(ours.fit_transform(X), ours.transform(X))
    assert ours.labels_.dtype == theirs.labels_.dtype


def test_an_empty_cluster_keeps_its_centre():
    """Documented: scikit-learn moves it to a far record, which would hang on a single row."""
    rng = np.random.default_rng(8)
    X = heaps(rng, 200, 2, 2)
    nowhere = np.array([[1e6, 1e6]])
    with pytest.warns(ConvergenceWarning, match=r"distinct clusters \(2\)"):
        model = KMeans(3, init=np.vstack([X[:2], nowhere]), n_init=1, tol=0, epsilon=None).fit(X)
    without = KMeans(2, init=X[:2], n_init=1, tol=0, epsilon=None).fit(X)
    np.testing.assert_array_equal(model.cluster_centers_[2], nowhere[0])
    np.testing.assert_allclose(model.cluster_centers_[:2], without.cluster_centers_, atol=1e-12)
    np.testing.assert_array_equal(model.labels_, without.labels_)


def test_the_default_start_finds_separate_heaps():
    rng = np.random.default_rng(9)
    centres = 50.0 * np.array([[0, 0], [0, 1], [1, 0], [1, 1], [2, 0.5]])
    label = rng.integers(0, 5, 600)
    model = KMeans(5, epsilon=None).fit(centres[label] + rng.normal(size=(600, 2)))
    found = model.cluster_centers_[np.lexsort(model.cluster_centers_.round(-1).T[::-1])]
    np.testing.assert_allclose(found, centres, atol=1)
    # One cluster per heap, whatever the numbering.
    assert len(set(zip(label.tolist(), model.labels_.tolist(), strict=True))) == 5


@pytest.mark.parametrize("init", ["random", "k-means++"])
def test_starts_that_draw_rows_draw_them_by_weight(init):
    X = np.arange(20_000.0)[:, None]
    weight = np.where(X[:, 0] % 2, 1.0, 1e-12)
    weight[:10] = 0.0
    rows = ArrayRows(X, weight)
    # A row of small weight is drawn once in more than 1e10 times, if weights count.
    for seed in range(20):
        centres = row_centres(rows, 7, init, np.random.default_rng(seed))
        assert (centres % 2 == 1).all()
        assert len(np.unique(centres)) == 7


def test_ties_go_to_the_lower_index():
    model = KMeans(2, init=[[0.0], [2.0]], n_init=1, max_iter=1, epsilon=None)
    model.fit([[0.0], [2.0]])
    assert model.predict([[1.0]]).tolist() == [0]


@pytest.mark.parametrize("init", ["split", "k-means++", "random"])
def test_starts_are_reproducible_and_the_best_is_kept(init):
    rng = np.random.default_rng(10)
    X = heaps(rng, 400, 2, 9)
    fits = [KMeans(9, init=init, n_init=n, random_state=3, epsilon=None).fit(X) for n in (1, 8, 8)]
    assert fits[1].inertia_ <= fits[0].inertia_ * (1 + 1e-12)
    np.testing.assert_array_equal(fits[1].cluster_centers_, fits[2].cluster_centers_)
    same = KMeans(9, init=init, n_init=8, random_state=np.random.RandomState(3), epsilon=None).fit(
        X
    )
    np.testing.assert_array_equal(same.cluster_centers_, fits[1].cluster_centers_)


@pytest.mark.parametrize("form", ["list", "array", "float32", "pandas", "polars", "file"])
def test_a_callable_start_gets_an_array_of_the_rows_once_for_each_start(form, tmp_path):
    X = heaps(np.random.default_rng(11), 100, 2, 3).astype(np.float32)
    path = tmp_path / "rows.parquet"
    pl.DataFrame(X, schema=["a", "b"]).write_parquet(path)
    rows = {
        "list": X.tolist(),
        "array": X.astype(float),
        "float32": X,
        "pandas": pd.DataFrame(X, columns=["a", "b"]),
        "polars": pl.DataFrame(X, schema=["a", "b"]),
        "file": path,
    }[form]
    seen = []

    def init(X, n_clusters, random_state):
        seen.append((type(X), X.tolist(), n_clusters, type(random_state)))
        return X[random_state.permutation(len(X))[:n_clusters]]

    model = KMeans(3, init=init, n_init=4, random_state=0, tol=0, epsilon=None).fit(rows)
    assert seen == 4 * [(np.ndarray, X.tolist(), 3, np.random.RandomState)]
    # The same generator draws all starts, and the best is kept.
    random = np.random.RandomState(0)
    drawn = [init(X, 3, random) for _ in range(4)]
    alone = [KMeans(3, init=start, tol=0, epsilon=None).fit(X).inertia_ for start in drawn]
    assert model.inertia_ == min(alone)


def test_how_often_a_callable_start_is_asked_by_default():
    asked = []

    def init(X, n_clusters, random_state):
        asked.append(0)
        return X[:n_clusters]

    X = heaps(np.random.default_rng(11), 100, 2, 3)
    Reference(3, init=init).fit(X)
    theirs = len(asked)
    KMeans(3, init=init, epsilon=None).fit(X)
    assert len(asked) == 2 * theirs == 20


@pytest.mark.parametrize("init", [np.eye(2), lambda X, k, random_state: np.eye(2)])
@pytest.mark.parametrize(
    ("clusters", "features", "words"),
    [
        (3, 2, r"initial centers \(2, 2\) does not match the number of clusters 3"),
        (2, 3, r"initial centers \(2, 2\) does not match the number of features of the data 3"),
    ],
)
def test_centres_of_the_wrong_shape(init, clusters, features, words):
    with pytest.raises(ValueError, match=words):
        KMeans(clusters, init=init, epsilon=None).fit(np.eye(5, features))


def test_several_starts_from_given_centres_are_one():
    X = heaps(np.random.default_rng(12), 100, 2, 3)
    with pytest.warns(RuntimeWarning, match="performing only one init in KMeans instead of n_in"):
        KMeans(3, init=X[:3], n_init=2, epsilon=None).fit(X)


def test_fewer_distinct_rows_than_clusters():
    X = np.repeat([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0]], 1500, axis=0)
    with pytest.warns(ConvergenceWarning, match=r"distinct clusters \(3\) found smaller than n_cl"):
        exact = KMeans(5, epsilon=None).fit(X)
    assert exact.inertia_ < 1e-20
    # A private fit must not tell (warnings are errors in these tests).
    KMeans(5, bounds=(0, 1)).fit(X)
    # Enough of them, and there is nothing to say.
    KMeans(3, epsilon=None).fit(X)


@pytest.mark.parametrize("tol", [1e-2, 0.0])
def test_verbose_shows_the_inertia_and_why_it_stopped(tol, capsys):
    X = heaps(np.random.default_rng(13), 400, 2, 9)
    model = KMeans(9, init=X[:9], tol=tol, verbose=1, epsilon=None).fit(X)
    first, *steps, last = capsys.readouterr().out.splitlines()
    assert first == "Initialization complete"
    assert len(steps) == model.n_iter_
    inertia = [float(re.fullmatch(r"Iteration \d+, inertia (.+)\.", line)[1]) for line in steps]
    assert inertia == sorted(inertia, reverse=True)
    assert inertia[-1] >= model.inertia_ * (1 - 1e-5)
    why = r"center shift .* within tolerance .*\." if tol else r"strict convergence\."
    assert re.fullmatch(rf"Converged at iteration {model.n_iter_}: {why}", last)


def test_verbose_says_that_a_run_was_cut_short(capsys):
    X = heaps(np.random.default_rng(13), 400, 2, 9)
    with pytest.warns(ConvergenceWarning):
        KMeans(9, init=X[:9], max_iter=2, verbose=1, epsilon=None).fit(X)
    assert capsys.readouterr().out.endswith("Not converged after 2 iterations.\n")


def test_verbose_tells_no_sums_of_a_private_fit(capsys):
    X = heaps(np.random.default_rng(13), 400, 2, 9)
    KMeans(3, bounds=(-20, 20), n_iter=2, verbose=2).fit(X)
    out = capsys.readouterr().out
    assert "Iteration 2" in out
    assert "inertia" not in out
    assert "onverge" not in out
