"""Latent classes: what may be a category, what comes out, exactly and privately."""

import itertools

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.optimize import minimize

import privem
from privem import CategoricalMixture
from privem.run import run

SIZES = (2, 3, 4, 2, 3)


def drawn(n, seed=0, k=2):
    rng = np.random.default_rng(seed)
    tables = [rng.dirichlet(np.full(m, 0.5), size=k) for m in SIZES]
    z = rng.choice(k, n, p=[0.6, 0.4] if k == 2 else None)
    codes = [(rng.random((n, 1)) > np.cumsum(t, axis=1)[z]).sum(axis=1) for t in tables]
    return np.stack(codes, axis=1), tables, z


def best_order(model, tables):
    """Largest error of a probability, classes matched in the best order."""
    k = len(model.weights_)
    return min(
        max(
            np.abs(found[list(order)] - true).max()
            for found, true in zip(model.category_probs_, tables, strict=True)
        )
        for order in itertools.permutations(range(k))
    )


def test_an_exact_fit_maximises_the_likelihood():
    X, tables, z = drawn(3000)
    model = CategoricalMixture(2, epsilon=None, tol=1e-12, random_state=0, max_iter=5000).fit(X)
    assert best_order(model, tables) < 0.08
    edges = np.cumsum([0, *SIZES])

    def loss(t):
        logits = np.split(t[1:].reshape(2, -1), edges[1:-1], axis=1)
        logs = [v - np.logaddexp.reduce(v, axis=1, keepdims=True) for v in logits]
        joint = sum(log[:, X[:, j]] for j, log in enumerate(logs))
        w = np.array([-np.logaddexp(0, -t[0]), -np.logaddexp(0, t[0])])
        return -np.logaddexp.reduce(joint + w[:, None], axis=0).mean()

    logs = np.log(np.concatenate(model.category_probs_, axis=1) + 1e-6)
    start = np.concatenate([[np.log(model.weights_[0] / model.weights_[1])], logs.ravel()])
    direct = minimize(loss, start + 0.05, method="L-BFGS-B", options={"maxiter": 2000})
    assert model.score(X) == pytest.approx(-direct.fun, abs=1e-5)
    assert model.score(X) >= -direct.fun - 1e-8
    assert model.lower_bound_ == pytest.approx(model.score(X), abs=1e-8)
    assert (model.predict(X) == z).mean() > 0.8 or (model.predict(X) != z).mean() > 0.8


@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
def test_a_private_fit_finds_the_classes(neighbours):
    X, tables, _ = drawn(40_000)
    model = CategoricalMixture(
        2, categories=[list(range(m)) for m in SIZES], neighbours=neighbours, random_state=0
    ).fit(X)
    assert best_order(model, tables) < 0.08
    exact = CategoricalMixture(2, epsilon=None).fit(X)
    assert model.score(X) > exact.score(X) - 0.01
    assert not hasattr(model, "lower_bound_")
    assert model.privacy_.epsilon == 1.0
    assert model.privacy_.spent <= 1.0
    assert "categories" in model.privacy_.public


def test_values_of_any_kind_mean_the_same():
    X, _, _ = drawn(400)
    words = np.array(["a", "b", "c", "d"])
    kinds = {
        "ints": X,
        "floats": X.astype(float),
        "strings": words[X],
        "objects": words[X].astype(object),
        "pandas": pd.DataFrame(words[X], columns=list("vwxyz")).astype("category"),
        "polars": pl.DataFrame(words[X], schema=list("vwxyz")),
        "polars categorical": pl.DataFrame(words[X], schema=list("vwxyz")).cast(pl.Categorical),
        "bytes": words[X].astype("S"),
    }
    scores = {}
    for name, values in kinds.items():
        model = CategoricalMixture(2, epsilon=None, random_state=0).fit(values)
        scores[name] = model.score(values)
        assert model.predict_proba(values).shape == (400, 2)
        np.testing.assert_allclose(model.predict_proba(values).sum(axis=1), 1)
    assert np.ptp(list(scores.values())) < 1e-12
    flags = X > 0
    model = CategoricalMixture(2, epsilon=None, random_state=0).fit(flags)
    assert model.categories_[0].dtype == bool
    assert model.score(flags) == pytest.approx(model.score(flags.astype(int)), abs=1e-12)


def test_files_hold_words_too(tmp_path):
    X, _, _ = drawn(300)
    frame = pl.DataFrame(np.array(["a", "b", "c", "d"])[X], schema=list("vwxyz"))
    frame = frame.with_columns(label=pl.lit(7), share=pl.lit(2.0))
    frame.write_csv(tmp_path / "t.csv")
    frame.write_parquet(tmp_path / "t.parquet")
    np.save(tmp_path / "t.npy", X)
    plain = CategoricalMixture(2, epsilon=None, random_state=0).fit(X)
    for name in ("t.csv", "t.parquet"):
        model = CategoricalMixture(2, epsilon=None, random_state=0)
        model.fit(tmp_path / name, "label", sample_weight="share")
        assert model.score(tmp_path / name) == pytest.approx(plain.score(X), abs=1e-12)
        with pytest.raises(ValueError, match="no column 'wage'"):
            model.fit(tmp_path / name, "wage")
    model = CategoricalMixture(2, epsilon=None, random_state=0).fit(tmp_path / "t.npy")
    assert model.score(X) == pytest.approx(plain.score(X), abs=1e-12)
    private = CategoricalMixture(2, categories=list("abcd")).fit(tmp_path / "t.csv", "label")
    assert private.privacy_.spent <= 1
    with pytest.raises(FileNotFoundError):
        model.fit(tmp_path / "absent.csv")


def test_samples_look_like_the_data():
    X, _, _ = drawn(5000)
    words = np.array(["a", "b", "c", "d"])[X]
    model = CategoricalMixture(2, epsilon=None, random_state=0).fit(words)
    new, label = model.sample(20_000)
    assert new.shape == (20_000, 5)
    assert set(label) == {0, 1}
    for j in range(5):
        shares = [(new[:, j] == c).mean() - (words[:, j] == c).mean() for c in "abcd"]
        assert np.abs(shares).max() < 0.04
    assert model.score(new) == pytest.approx(model.score(words), abs=0.1)


@pytest.mark.parametrize("kind", ["words", "numbers", "flags"])
def test_a_round_trip_keeps_every_bit(kind, tmp_path):
    X, _, _ = drawn(500)
    X = {"words": np.array(["é", "b\n", "c", "d"])[X], "numbers": X * 1.5, "flags": X > 0}[kind]
    declared = [np.unique(X).tolist()] * 5
    for model in (
        CategoricalMixture(2, epsilon=None, random_state=0),
        CategoricalMixture(2, categories=declared, random_state=0),
    ):
        model.fit(X)
        again = privem.load(model.save(tmp_path / "m.json") and tmp_path / "m.json")
        np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
        np.testing.assert_array_equal(again.sample(9)[0], model.sample(9)[0])
        for a, b in zip(again.categories_, model.categories_, strict=True):
            assert a.dtype == b.dtype
            assert a.tolist() == b.tolist()
        if model.epsilon:
            assert again.privacy_ == model.privacy_


def untouched(*args, **kwargs):
    raise AssertionError("data were asked for")


@pytest.mark.parametrize(
    ("parameters", "error", "words"),
    [
        ({}, ValueError, "a private fit needs categories="),
        ({"categories": [[0, 1]] * 3}, ValueError, "3 lists, but there are 5 columns"),
        ({"categories": [[0, 0, 1]] * 5}, ValueError, "each of them once"),
        ({"categories": [[]] * 5}, ValueError, "at least one"),
        ({"categories": []}, ValueError, "list of lists"),
        ({"categories": [[0, 1], 2]}, ValueError, "list of lists"),
        ({"categories": [0, 1], "n_init": 3}, ValueError, "n_init > 1"),
        ({"categories": [0, 1], "epsilon": 0}, ValueError, "epsilon must be above 0"),
        ({"categories": [0, 1], "mechanism": "ggg"}, ValueError, "mechanism must be one of"),
        ({"categories": [0, 1], "n_components": 0}, ValueError, "n_components must be at least"),
        ({"categories": [0, 1], "n_iter": 0}, ValueError, "n_iter must be at least 1"),
    ],
)
def test_errors_come_before_anything_is_asked(parameters, error, words, monkeypatch):
    monkeypatch.setattr("privem.fit.run", untouched)
    with pytest.raises(error, match=words):
        CategoricalMixture(**{"n_components": 2, **parameters}).fit(drawn(50)[0])
    assert run is not untouched


def test_values_outside_the_categories():
    X, _, _ = drawn(3000)
    declared = [list(range(m)) for m in SIZES]
    odd = X.copy()
    odd[0, 2] = 9
    with pytest.raises(ValueError, match=r"column '2' holds .*9.*not among its categories"):
        CategoricalMixture(2, categories=declared, epsilon=None).fit(odd)
    model = CategoricalMixture(2, categories=declared, random_state=0).fit(odd)  # silently
    with pytest.raises(ValueError, match="not among its categories"):
        model.predict(odd)
    everything_else = np.full((100, 5), "what")
    model = CategoricalMixture(2, categories=declared).fit(everything_else)
    assert all(np.isfinite(table).all() for table in model.category_probs_)


@pytest.mark.parametrize("epsilon", [None, 1.0])
def test_missing_values_are_refused(epsilon):
    model = CategoricalMixture(2, categories=[0, 1, 2, 3], epsilon=epsilon)
    X = drawn(50)[0].astype(float)
    X[3, 1] = np.nan
    for values in (X, X.astype(object), pd.DataFrame(X), np.where(np.isnan(X), None, X)):
        with pytest.raises(ValueError, match="contains NaN"):
            model.fit(values)


def test_small_and_degenerate_data_give_valid_models():
    with pytest.raises(ValueError, match="n_samples=1"):
        CategoricalMixture(2, epsilon=None).fit([["a", "b"]])
    for X in (np.zeros((20, 1), dtype=int), np.zeros((20, 3), dtype=int)):
        for model in (
            CategoricalMixture(3, epsilon=None),
            CategoricalMixture(3, categories=[0, 1]),
            CategoricalMixture(3, categories=[5]),
        ):
            model.fit(X)
            assert all((table > 0).all() for table in model.category_probs_)
            assert np.isfinite(model.weights_).all()
    # A private fit of nearly no records is all noise, and valid.
    model = CategoricalMixture(4, categories=["a", "b"], epsilon=0.01).fit([["a", "b"]])
    for table in model.category_probs_:
        np.testing.assert_allclose(table.sum(axis=1), 1)


def test_weights_mean_repetition():
    X, _, _ = drawn(300)
    copies = np.random.default_rng(0).integers(0, 3, 300)
    one = CategoricalMixture(2, epsilon=None, random_state=0).fit(X, sample_weight=copies)
    two = CategoricalMixture(2, epsilon=None, random_state=0, categories=one.categories_)
    two.fit(np.repeat(X, copies, axis=0))
    np.testing.assert_allclose(one.weights_, two.weights_, rtol=1e-6)


def test_one_odd_record_changes_nobody_elses_code(tmp_path):
    """A word among numbers makes lists and CSV columns words: the others must not notice."""
    model = CategoricalMixture(2, categories=[[0, 1], [True, False], [0.5, 2.0]])
    rows = [[0, True, 0.5], [1, False, 2.0], [1, True, 2]]
    odd = ["what", "odd", "word"]
    plain = model._open_table(rows).rows.X
    np.testing.assert_array_equal(plain, [[0, 0, 0], [1, 1, 1], [1, 0, 1]])
    for data in ([*rows, odd], pd.DataFrame([*rows, odd]), np.array([*rows, odd], dtype=object)):
        codes = model._open_table(data).rows.X
        np.testing.assert_array_equal(codes, [*plain, [-1, -1, -1]])
    lines = ["a,b,c", "0,true,0.5", "1,false,2.0", "1,true,2"]
    for extra in ([], ["what,odd,word"]):
        (tmp_path / "t.csv").write_text("\n".join([*lines, *extra]) + "\n")
        codes = model._open_table(tmp_path / "t.csv").rows.X
        np.testing.assert_array_equal(codes[:3], plain)
    with pytest.raises(ValueError, match="each of them once"):
        CategoricalMixture(2, categories=["1", 1]).fit(rows)
