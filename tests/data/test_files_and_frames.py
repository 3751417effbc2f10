"""Rows from files and frames: the same fit as from the array, batch by batch."""

import numpy as np
import polars as pl
import pytest

from privem import FactorAnalysis, GaussianMixture, KMeans
from privem.data import read_file, read_rows, read_table
from privem.data.lazy import BATCH

NAMES = ["age", "height", "weight"]
N = 2 * BATCH + 977  # more than two batches, and a rest


def heaps(n):
    rng = np.random.default_rng(0)
    return rng.normal(size=(n, 3)) * [1, 2, 3] + 8 * rng.integers(0, 3, size=(n, 1))


def as_frame(X):
    return pl.DataFrame(dict(zip(NAMES, np.ascontiguousarray(X.T), strict=True)))


def in_every_form(X, folder):
    frame = as_frame(X)
    np.save(folder / "x.npy", X)
    frame.write_csv(folder / "x.csv")
    frame.write_parquet(folder / "x.parquet", row_group_size=10_000)
    for kind in ("parquet", "csv"):
        parts = folder / kind
        parts.mkdir()
        for i, at in enumerate(range(0, len(X), len(X) // 3)):
            part = frame[at : at + len(X) // 3]
            getattr(part, f"write_{kind}")(parts / f"part-{i}.{kind}")
    pandas = pytest.importorskip("pandas")
    return {
        "npy": folder / "x.npy",
        "csv": str(folder / "x.csv"),
        "parquet": folder / "x.parquet",
        "folder of parquet": folder / "parquet",
        "folder of csv": folder / "csv",
        "polars": frame,
        "pandas": pandas.DataFrame(X, columns=NAMES),
        "rows": read_file(folder / "x.parquet"),
    }


def same(a, b, rtol=1e-12):
    np.testing.assert_allclose(a, b, rtol=0, atol=rtol * np.max(np.abs(b)))


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    X = heaps(N)
    return X, in_every_form(X, tmp_path_factory.mktemp("large"))


@pytest.mark.parametrize(
    "form",
    ["npy", "csv", "parquet", "folder of parquet", "folder of csv", "polars", "pandas", "rows"],
)
def test_the_same_fit_from_every_form_of_more_than_one_batch(form, large):
    X, forms = large
    other = forms[form]
    mixture, expected = (
        GaussianMixture(3, tol=1e-2, epsilon=None).fit(rows) for rows in (other, X)
    )
    assert mixture.n_iter_ == expected.n_iter_
    for name in ("weights_", "means_", "covariances_", "lower_bounds_"):
        same(getattr(mixture, name), getattr(expected, name))
    same(
        KMeans(3, epsilon=None).fit(other).cluster_centers_,
        KMeans(3, epsilon=None).fit(X).cluster_centers_,
    )
    same(
        FactorAnalysis(1, epsilon=None).fit(other).components_,
        FactorAnalysis(1, epsilon=None).fit(X).components_,
    )
    if form != "npy":
        assert mixture.feature_names_in_.tolist() == NAMES


def test_random_starts_do_not_depend_on_the_batches(large):
    X, forms = large
    common = {"n_components": 2, "init_params": "random", "random_state": 0, "tol": 1e-2}
    fits = [GaussianMixture(epsilon=None, **common).fit(rows) for rows in (X, forms["parquet"])]
    same(fits[1].means_, fits[0].means_, 1e-10)


def test_predictions_from_every_form(tmp_path):
    X = heaps(5000)
    forms = in_every_form(X, tmp_path)
    model = GaussianMixture(3, epsilon=None).fit(forms["polars"])
    expected = model.predict(forms["polars"]), model.score_samples(forms["polars"])
    for form, rows in forms.items():
        np.testing.assert_array_equal(model.predict(rows), expected[0], err_msg=form)
        same(model.score_samples(rows), expected[1])


def test_columns_are_found_by_name_when_predicting(tmp_path):
    X = heaps(500)
    model = KMeans(3, epsilon=None).fit(as_frame(X))
    path = tmp_path / "more.csv"
    as_frame(X).select("weight", "age", pl.lit("x").alias("note"), "height").write_csv(path)
    np.testing.assert_array_equal(model.predict(path), model.labels_)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_weight_column_and_a_target_column(suffix, tmp_path):
    X, weight = heaps(2000), np.random.default_rng(1).integers(0, 3, 2000).astype(float)
    frame = as_frame(X).with_columns(w=weight)
    path = tmp_path / f"x.{suffix}"
    getattr(frame, f"write_{suffix}")(path)
    expected = GaussianMixture(2, epsilon=None).fit(X, sample_weight=weight)
    same(GaussianMixture(2, epsilon=None).fit(path, sample_weight="w").means_, expected.means_)
    without = GaussianMixture(2, epsilon=None).fit(path, "w")
    same(without.means_, GaussianMixture(2, epsilon=None).fit(X).means_)
    same(GaussianMixture(2, epsilon=None).fit(read_file(path, weight="w")).means_, expected.means_)
    chosen = GaussianMixture(2, epsilon=None).fit(read_file(path, columns=["weight", "age"]))
    assert chosen.feature_names_in_.tolist() == ["weight", "age"]
    same(chosen.means_, GaussianMixture(2, epsilon=None).fit(X[:, [2, 0]]).means_)
    given = GaussianMixture(2, epsilon=None).fit(read_file(path, NAMES, weight))
    same(given.means_, expected.means_)


def test_number_columns_of_every_type(tmp_path):
    frame = pl.DataFrame(
        {
            "small": pl.Series([1, 2, 3, 4], dtype=pl.UInt8),
            "long": [2**40, 2, 3, 4],
            "yes": [True, False, True, True],
            "single": pl.Series([0.5, 1.5, 2.5, 0], dtype=pl.Float32),
            "money": pl.Series(["1.25", "2.50", "3", "4"]).cast(pl.Decimal(10, 2)),
        }
    )
    frame.write_parquet(tmp_path / "x.parquet")
    expected = [[2.5, (2**40 + 9) / 4, 0.75, 1.125, 2.6875]]
    for rows in (frame, tmp_path / "x.parquet"):
        np.testing.assert_allclose(GaussianMixture(epsilon=None).fit(rows).means_, expected)
    pandas = pytest.importorskip("pandas")
    nullable = pandas.DataFrame({"a": pandas.array([1, 2], dtype="Int64"), "b": [True, False]})
    np.testing.assert_allclose(GaussianMixture(epsilon=None).fit(nullable).means_, [[1.5, 0.5]])


def test_whole_numbers_may_turn_into_fractions_far_down(tmp_path):
    """The type of a CSV column is guessed from its first rows; numbers below may differ."""
    path = tmp_path / "x.csv"
    path.write_text("a,b\n" + "1,2\n" * 5000 + "2.5,1e3\n")
    same(GaussianMixture(epsilon=None).fit(path).means_, [[5002.5 / 5001, 11000 / 5001]])


def test_folders_are_read_in_the_order_of_names(tmp_path):
    for i in (2, 1, 10):
        as_frame(np.full((1, 3), float(i))).write_parquet(tmp_path / f"{i:03}.parquet")
    rows = np.concatenate([block.X for block in read_rows(tmp_path).blocks(2)])
    assert rows[:, 0].tolist() == [1, 2, 10]


def test_blocks_are_numbered_and_no_larger_than_asked(large):
    for rows in (
        read_rows(large[0]),
        read_rows(large[1]["parquet"]),
        read_rows(large[1]["polars"]),
    ):
        at = 0
        for block in rows.blocks(5000):
            assert block.start == at
            assert 0 < len(block.X) <= 5000
            at += len(block.X)
        assert at == N


def test_a_pandas_index_does_not_matter():
    pandas = pytest.importorskip("pandas")
    X = heaps(3000)
    frame = pandas.DataFrame(X, columns=NAMES, index=np.arange(3000)[::-1] * 7)
    same(
        GaussianMixture(2, epsilon=None).fit(frame).means_,
        GaussianMixture(2, epsilon=None).fit(X).means_,
    )


def test_a_file_name_is_no_pattern(tmp_path):
    """``people[1].parquet`` was once read as ``people1.parquet``, which is somebody else's."""
    for name, value in (("people[1]", 1.0), ("people1", 2.0), ("p*", 3.0)):
        frame = pl.DataFrame({"age": [value, value]})
        frame.write_csv(tmp_path / f"{name}.csv")
        frame.write_parquet(tmp_path / f"{name}.parquet")
    for suffix in ("csv", "parquet"):
        for name, value in (("people[1]", 1.0), ("people1", 2.0), ("p*", 3.0)):
            path = tmp_path / f"{name}.{suffix}"
            (block,) = read_file(path).blocks(9)
            assert block.X.tolist() == [[value], [value]]
            assert [float(v) for v in read_table(path)["age"]] == [value, value]
