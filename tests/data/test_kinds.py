"""What X may be: numbers in any disguise, lazy frames, masked arrays; what it may not, clearly."""

from decimal import Decimal

import numpy as np
import polars as pl
import pytest

from privem import (
    CategoricalMixture,
    FactorAnalysis,
    GaussianMixture,
    KMeans,
    MissingCovariateRegression,
    RegressionMixture,
    private_mean,
)
from privem.data import read_file, read_rows
from privem.federation import Party

pandas = pytest.importorskip("pandas")

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 2)).round(6)
PRIVATE = {"bounds": 9.0}


def everywhere(X):
    """Every way in."""
    yield lambda: KMeans(2, epsilon=None).fit(X)
    yield lambda: KMeans(2, **PRIVATE).fit(X)
    yield lambda: GaussianMixture(1, epsilon=None).fit(np.eye(2)).predict(X)
    yield lambda: CategoricalMixture(1, epsilon=None).fit(X)
    yield lambda: RegressionMixture(1, epsilon=None).fit(X, np.ones(300))
    yield lambda: private_mean(X, tau=1.0)
    yield lambda: read_rows(X)
    yield lambda: Party(X, "north")
    yield lambda: Party(X, "north", categories=["a", "b"])


class Blocks:
    """What looks like ours and is not: a dask array has ``blocks``, which is no method."""

    @property
    def blocks(self):
        return self

    def __array__(self, dtype=None, copy=None):
        return X.astype(dtype or float)


def test_rows_are_told_by_their_type():
    assert read_rows(read_rows(X)).n_features == 2
    exact = KMeans(2, epsilon=None).fit(X)
    np.testing.assert_allclose(
        KMeans(2, epsilon=None).fit(Blocks()).cluster_centers_, exact.cluster_centers_
    )
    assert np.isfinite(KMeans(2, **PRIVATE).fit(Blocks()).cluster_centers_).all()


def stand_in(kind):
    return type(kind, (Blocks,), {"__module__": "dask.array.core", "compute": lambda self: X})()


@pytest.mark.parametrize("attempt", range(9))
def test_dask_is_refused_with_advice(attempt):
    with pytest.raises(TypeError, match=r"dask Array.*X\.compute\(\)"):
        list(everywhere(stand_in("Array")))[attempt]()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: {"a": [1.0] * 300, "b": [2.0] * 300}, r"dict.*DataFrame\(X\)"),
        (lambda: (row for row in X), r"generator.*only once"),
        (lambda: iter(X.tolist()), r"only once.*list\(X\)"),
        (lambda: {1.0, 2.0}, "set, which has no order"),
    ],
)
def test_dicts_generators_and_sets_are_refused_with_advice(make, words):
    for i in range(9):
        with pytest.raises(TypeError, match=words):
            list(everywhere(make()))[i]()


def disguises():
    """The same numbers, as a frame may hold them."""
    first, second = X.T.tolist()
    whole = (X[:, 0] * 10).round().astype(int)
    yield "objects", pandas.DataFrame({"a": first, "b": second}, dtype=object), X
    decimals = [Decimal(str(v)) for v in second]
    yield "decimals", pandas.DataFrame({"a": first, "b": decimals}), X
    yield "text", pandas.DataFrame({"a": first, "b": [str(v) for v in second]}), X
    words = pandas.array([str(v) for v in second], dtype="string")
    yield "pandas' strings", pandas.DataFrame({"a": first, "b": words}), X
    codes = pandas.DataFrame({"a": pandas.Categorical(whole), "b": second})
    yield "categories", codes, np.column_stack([whole, second])
    yield "polars' decimals", pl.DataFrame({"a": first, "b": decimals}), X
    yield "polars' text", pl.DataFrame({"a": first, "b": [str(v) for v in second]}), X
    yield (
        "polars' objects",
        pl.DataFrame({"a": first, "b": pl.Series(decimals, dtype=pl.Object)}),
        X,
    )
    texts = pl.Series([str(v) for v in whole])
    coded = pl.DataFrame({"a": texts.cast(pl.Categorical), "b": second})
    yield "polars' categories", coded, np.column_stack([whole, second])
    named = pl.DataFrame({"a": texts.cast(pl.Enum(texts.unique())), "b": second})
    yield "polars' enum", named, np.column_stack([whole, second])


DISGUISES = list(disguises())


@pytest.mark.parametrize(
    ("name", "frame", "numbers"), DISGUISES, ids=[disguise[0] for disguise in DISGUISES]
)
def test_numbers_in_frames_are_taken_as_in_arrays(name, frame, numbers):
    before = frame.copy() if isinstance(frame, pandas.DataFrame) else frame.clone()
    expected = GaussianMixture(2, epsilon=None).fit(numbers)
    model = GaussianMixture(2, epsilon=None).fit(frame)
    np.testing.assert_allclose(model.means_, expected.means_)
    np.testing.assert_array_equal(model.predict(frame), expected.predict(numbers))
    assert np.isfinite(GaussianMixture(2, **PRIVATE).fit(frame).means_).all()
    assert Party(frame, "north").columns == ("a", "b")
    assert list(before.dtypes) == list(frame.dtypes)
    kinds = model.sample_frame(3, library="polars").schema
    assert kinds["b"] == pl.Float64
    assert kinds["a"] == pl.Float64
    with_target = RegressionMixture(1, epsilon=None).fit(frame, "b")
    np.testing.assert_allclose(
        with_target.coef_,
        RegressionMixture(1, epsilon=None).fit(numbers[:, :1], numbers[:, 1]).coef_,
    )


@pytest.mark.parametrize(
    "column",
    [["1", "secret"], [1.0, "secret"], [Decimal(1), None, "secret"], [10**400, 1]],
)
def test_a_word_among_them_is_refused_and_not_quoted(column):
    frame = pandas.DataFrame({"a": pandas.Series(column, dtype=object)})
    for model in (KMeans(1, epsilon=None), KMeans(1, **PRIVATE)):
        with pytest.raises(ValueError, match="could not convert column 'a'") as error:
            model.fit(frame)
        assert "secret" not in str(error.value)
    if isinstance(column[0], str):
        for frame in (pl.DataFrame({"a": column}), pl.LazyFrame({"a": column})):
            with pytest.raises(ValueError, match="column 'a'") as error:
                KMeans(1, **PRIVATE).fit(frame)
            assert "secret" not in str(error.value)


def test_missing_ones_among_them_are_missing():
    for column in (
        ["1", None, "3"],
        [Decimal(1), float("nan"), 2],
        pandas.Categorical([1, None, 2]),
    ):
        for frame in (
            pandas.DataFrame({"a": column}),
            pandas.DataFrame({"a": column}).astype(object),
        ):
            for model in (KMeans(1, epsilon=None), KMeans(1, **PRIVATE)):
                with pytest.raises(ValueError, match="contains NaN"):
                    model.fit(frame)


def test_lazy_frames_are_collected_once(tmp_path):
    table = pl.DataFrame(X, schema=["a", "b"]).with_columns(
        who=pl.Series(np.arange(300) // 3).cast(pl.String),
        w=pl.lit(0.5),
        text=pl.col("b").cast(pl.String),
    )
    table.write_parquet(tmp_path / "x.parquet")
    lazy = pl.scan_parquet(tmp_path / "x.parquet")
    ab = lazy.select("a", "b")
    # Each fit collects what it uses, once: another pass might have another order.
    held, real = [], pl.LazyFrame.collect

    def collect(self, *words, **more):
        found = real(self, *words, **more)
        held.append(len(found))
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pl.LazyFrame, "collect", collect)
        model = GaussianMixture(2, epsilon=None).fit(ab)
        GaussianMixture(1, **PRIVATE).fit(ab)
    assert [rows for rows in held if rows > 1] == [300, 300]
    expected = GaussianMixture(2, epsilon=None).fit(X)
    np.testing.assert_allclose(model.means_, expected.means_)
    np.testing.assert_array_equal(model.predict(lazy), expected.predict(X))  # by name
    assert model.feature_names_in_.tolist() == ["a", "b"]
    persons = GaussianMixture(1, **PRIVATE).fit(lazy.select("a", "b", "who"), groups="who")
    assert persons.privacy_.unit == "person"
    weighted = KMeans(2, epsilon=None).fit(lazy.select("a", "b", "w"), sample_weight="w")
    assert weighted.n_features_in_ == 2
    line = RegressionMixture(1, epsilon=None).fit(ab, "b")
    np.testing.assert_allclose(
        line.coef_, RegressionMixture(1, epsilon=None).fit(X[:, :1], X[:, 1]).coef_
    )
    assert len(line.log_likelihood(ab, "b")) == 300
    assert MissingCovariateRegression(epsilon=None).fit(ab, "b").predict(ab.select("a")).shape == (
        300,
    )
    assert float(private_mean(ab, tau=1.0)["a"]) < 9
    assert FactorAnalysis(1, epsilon=None).fit(lazy.select("a", "text")).n_features_in_ == 2
    assert Party(ab, "north", "a").columns == ("b", "a")
    classes = CategoricalMixture(1, categories=[["x"], ["y"]])
    words = pl.LazyFrame({"a": ["x"] * 9, "b": ["y"] * 9})
    assert classes.fit(words).feature_names_in_.tolist() == ["a", "b"]
    assert Party(words, "north", categories=[["x"], ["y"]]).columns == ("a", "b")
    with pytest.raises(ValueError, match="has no column 'z'; it has a, b"):
        read_file(ab, ["z"])
    with pytest.raises(TypeError, match="header= is for CSV files"):
        read_file(ab, header=True)


def test_a_mask_means_missing():
    masked = np.ma.array(X, mask=np.zeros_like(X, dtype=bool))
    np.testing.assert_allclose(
        GaussianMixture(epsilon=None).fit(masked).means_,
        GaussianMixture(epsilon=None).fit(X).means_,
    )
    masked[7, 1] = np.ma.masked
    for array in (masked, masked.astype(np.float32), (masked * 10).astype(int)):
        for attempt in list(everywhere(array))[:6]:
            with pytest.raises(ValueError, match="NaN"):
                attempt()
    whole = np.ma.array(np.arange(20, dtype=np.int8).reshape(10, 2))
    assert KMeans(2, epsilon=None).fit(whole).feature_types_in_ == ["int8", "int8"]
    some = np.ma.array(np.ones(300), mask=np.arange(300) == 5)
    for model in (GaussianMixture(epsilon=None), GaussianMixture(**PRIVATE)):
        with pytest.raises(ValueError, match="sample_weight"):
            model.fit(X, sample_weight=some)
    with pytest.raises(ValueError, match="groups contains missing values"):
        GaussianMixture(**PRIVATE).fit(
            X, groups=np.ma.array(np.arange(300), mask=np.arange(300) == 5)
        )
    for model in (RegressionMixture(1, epsilon=None), RegressionMixture(1)):
        with pytest.raises(ValueError, match="y contains NaN"):
            model.fit(X, some)
    gaps = MissingCovariateRegression(epsilon=None)
    np.testing.assert_allclose(
        gaps.fit(masked, X[:, 0]).coef_, gaps.fit(masked.filled(np.nan), X[:, 0]).coef_
    )
    party = Party(masked, "north")
    assert np.isnan(next(party._rows.blocks(9)).X[7, 1])


@pytest.mark.parametrize("values", [[1, 2, 3], [1, 2, 2.5]])
def test_the_type_of_pandas_categories_says_nothing_of_values(values):
    frame = pandas.DataFrame({"a": pandas.Series(values * 40, dtype=object).astype("category")})
    model = GaussianMixture(1, bounds=5.0).fit(frame)
    assert model.feature_types_in_ == ["float64"]
    assert model.sample_frame(3, library="polars").schema["a"] == pl.Float64


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_target_is_named_when_rows_are_opened(kind, tmp_path):
    """Else the last feature would be explained, or the target taken for a feature."""
    path = tmp_path / f"x.{kind}"
    frame = pl.DataFrame(X, schema=["a", "b"])
    frame.write_csv(path) if kind == "csv" else frame.write_parquet(path)
    line = RegressionMixture(1, epsilon=None)
    with pytest.raises(ValueError, match="RegressionMixture needs a target, and the rows were"):
        line.fit(read_file(path))
    with pytest.raises(TypeError, match="target when opening the rows"):
        line.fit(read_file(path), "b")
    rows = read_file(path, target="b")
    assert line.fit(rows).coef_.shape == (1, 1)
    assert read_rows(rows) is rows
    for model in (GaussianMixture(1, epsilon=None), KMeans(1, **PRIVATE)):
        with pytest.raises(ValueError, match=r"target 'b', and .* takes none.*without='b'"):
            model.fit(rows)
    assert len(line.predict(read_file(path, without="b"))) == 300
    assert len(line.log_likelihood(rows, None)) == 300
