"""Frames in, frames out: the library and the types of the frame fitted, and few digits."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import privem
from privem import CategoricalMixture, FactorAnalysis, GaussianMixture, PoissonMixture, TableMixture
from privem.data.decode import uniform
from privem.estimator.synthetic import Columns, decimals_for

pandas = pytest.importorskip("pandas")


def numbers(n=400):
    rng = np.random.default_rng(0)
    return {"age": rng.integers(18, 90, n), "height": rng.normal(175, 9, n)}


def model(cls=GaussianMixture):
    return cls(1, epsilon=2.0, bounds=([0, 100], [110, 250]), random_state=0)


@pytest.mark.parametrize("cls", [GaussianMixture, FactorAnalysis])
def test_a_frame_is_returned_as_it_was_given(cls, tmp_path):
    polars, frame = pl.DataFrame(numbers()), pandas.DataFrame(numbers())
    fitted = model(cls).fit(frame)
    drawn = fitted.sample_frame(5)
    assert isinstance(drawn, pandas.DataFrame)
    assert drawn.dtypes.equals(frame.dtypes)
    assert fitted.sample_frame(5, "polars").schema == polars.schema
    # A file knows nothing of it; arrays, files and rows opened before have polars' frames.
    fitted.save(tmp_path / "m.json")
    polars.write_parquet(tmp_path / "x.parquet")
    assert isinstance(privem.load(tmp_path / "m.json").sample_frame(5), pl.DataFrame)
    for rows in (polars, polars.lazy(), frame.to_numpy(), tmp_path / "x.parquet"):
        assert isinstance(fitted.fit(rows).sample_frame(5), pl.DataFrame)
        assert isinstance(fitted.sample_frame(5, "pandas"), pandas.DataFrame)


def test_a_fit_that_fails_changes_nothing():
    fitted = model().fit(pandas.DataFrame(numbers()))
    with pytest.raises(ValueError, match="NaN"):
        fitted.fit(pl.DataFrame({"age": [1.0, None], "height": [1.0, 2.0]}))
    assert isinstance(fitted.sample_frame(5), pandas.DataFrame)


def test_nullable_types_of_pandas_come_back():
    frame = pandas.DataFrame(numbers()).astype({"age": "Int16", "height": "Float32"})
    assert model().fit(frame).sample_frame(5).dtypes.equals(frame.dtypes)
    counts = pandas.DataFrame({"n": pandas.array([1, 2, 3] * 50, dtype="UInt8")})
    drawn = PoissonMixture(1, epsilon=None).fit(counts).sample_frame(5)
    assert drawn.dtypes.equals(counts.dtypes)
    # Numbers that were written as text are numbers.
    text = pandas.DataFrame(numbers()).astype("string")
    assert (model().fit(text).sample_frame(5).dtypes == "float64").all()


def test_categories_come_back_with_all_that_were_declared():
    words = ["a", "b"] * 100
    declared = CategoricalMixture(1, epsilon=5.0, categories=[["a", "b", "rare"]])
    frame = pandas.DataFrame({"c": pandas.Categorical(words)})
    dtype = declared.fit(frame).sample_frame(9)["c"].dtype
    assert list(dtype.categories) == ["a", "b", "rare"]
    for kind in (pl.Categorical(), pl.Enum(["a", "b", "rare"]), pl.String()):
        given_ = pl.DataFrame({"c": pl.Series(words, dtype=kind)})
        assert declared.fit(given_).sample_frame(9).schema == given_.schema


@pytest.fixture(scope="module")
def mixed():
    """A pandas frame of every kind of column, and its schema."""
    rng, n = np.random.default_rng(0), 500
    days = pandas.Timestamp("2020-01-01") + pandas.to_timedelta(rng.integers(0, 300, n), "D")
    frame = pandas.DataFrame(
        {
            "whole": rng.integers(0, 9, n),
            "nullable": pandas.array(np.where(rng.random(n) < 0.1, None, 3), dtype="Int64"),
            "flag": rng.random(n) < 0.3,
            "category": pandas.Categorical(rng.choice(["x", "y"], n)),
            "text": pandas.array(rng.choice(["u", "v"], n), dtype="string"),
            "day": days,
            "zoned": days.tz_localize("Europe/Berlin"),
            "single": rng.normal(0, 1, n).astype("float32"),
            "price": rng.random(n).round(2),
        },
        index=np.arange(n) + 7,
    )
    schema = {
        "whole": (int, 0, 9),
        "nullable": {"type": "int", "bounds": [0, 9], "missing": True},
        "flag": bool,
        "category": ["x", "y"],
        "text": ["u", "v"],
        "day": {"type": "date", "bounds": ["2020-01-01", "2020-12-31"]},
        "zoned": {"type": "datetime", "bounds": ["2020-01-01", "2020-12-31"]},
        "single": (-4.0, 4.0),
        "price": {"type": "float", "bounds": [0, 1], "decimals": 2},
    }
    return frame, schema


def test_mixed_tables_come_back_as_they_were_given(mixed, tmp_path):
    frame, schema = mixed
    fitted = TableMixture(schema=schema, random_state=0).fit(frame)
    drawn = fitted.sample_frame(50)
    assert drawn.dtypes.equals(frame.dtypes)
    assert (drawn["price"].round(2) == drawn["price"]).all()
    laws = fitted.conditional("flag", frame.head(3))
    assert isinstance(laws, pandas.DataFrame)
    assert laws.index.tolist() == [7, 8, 9]
    both = fitted.marginal("flag", "nullable")
    assert isinstance(both, pandas.DataFrame)
    assert both["nullable"].dtype == frame["nullable"].dtype
    assert both["probability"].sum() == pytest.approx(1)
    assert isinstance(fitted.impute(frame.head(3)), pandas.DataFrame)
    # What is given decides for conditional and impute, what was fitted for the others.
    some = fitted.sample_frame(3, "polars")
    assert isinstance(fitted.conditional("flag", some), pl.DataFrame)
    assert isinstance(fitted.impute(some), pl.DataFrame)
    assert fitted.marginal("flag", library="polars").columns == ["flag", "probability"]
    fitted.save(tmp_path / "m.json")
    loaded = privem.load(tmp_path / "m.json")
    assert isinstance(loaded.sample_frame(3), pl.DataFrame)
    assert isinstance(loaded.marginal("flag"), pl.DataFrame)
    assert fitted.fit(some).sample_frame(3).schema == some.schema


# Digits


def digits(values, decimals):
    return (np.round(values, decimals) == values).all()


def test_numbers_have_the_digits_that_the_model_knows():
    rng = np.random.default_rng(1)
    # The second column is narrow, and nobody knew.
    X = np.column_stack([rng.normal(40, 9, 5000), rng.normal(0.5, 0.002, 5000)])
    fitted = GaussianMixture(1, epsilon=None, random_state=0).fit(X)
    drawn = fitted.sample_frame(5000)
    for name, spread, decimals in (("x0", 9, 3), ("x1", 0.002, 6)):
        values = drawn[name].to_numpy()
        assert digits(values, decimals)
        assert not digits(values, decimals - 1)
        assert values.std() == pytest.approx(spread, rel=0.1)
    # The model's own draws have all digits.
    assert not digits(fitted.sample(50)[0], 9)


def test_digits_do_not_depend_on_the_rows_but_through_the_model():
    fitted = model().fit(pl.DataFrame(numbers()))
    least = np.sqrt(fitted.covariances_[:, 1, 1].min())
    values = fitted.sample_frame(500)["height"].to_numpy()
    assert digits(values, decimals_for(least))


@given(
    st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=20),
    st.floats(-1e4, 1e4),
    st.floats(1e-3, 1e4),
    st.integers(-2, 6),
    st.sampled_from(["float32", "float64"]),
)
def test_rounded_values_stay_within_their_bounds(values, low, width, decimals, kind):
    bounds = np.array([low]), np.array([low + width])
    columns = Columns(["a"], [kind], bounds, decimals=[decimals])
    drawn = columns.table(np.array(values)[:, None])["a"]
    assert drawn.dtype == kind
    exact = drawn.astype(np.float64)
    assert ((exact >= low) & (exact <= low + width)).all()
    if width > 3 * 10.0**-decimals and (kind == "float64" or decimals <= 2):
        assert (exact.round(decimals).astype(kind) == drawn).all()


@given(
    st.lists(st.floats(-100, 100), min_size=2, max_size=2),
    st.floats(1e-3, 50),
    st.integers(0, 3),
    st.sampled_from(["float32", "float64"]),
)
def test_rounded_records_stay_in_their_ball(record, radius, decimals, kind):
    ball = (np.full(2, -radius), np.full(2, radius))
    columns = Columns(["a", "b"], [kind] * 2, ball, radius=radius, decimals=[decimals] * 2)
    drawn = columns.table(np.array([record]))
    exact = np.array([float(drawn[name][0]) for name in "ab"])
    assert np.linalg.norm(exact) <= radius * (1 + 1e-12)


@given(
    st.floats(-1e9, 1e9), st.floats(0, 1e9), st.floats(0, 1, exclude_max=True), st.integers(-300, 0)
)
def test_values_within_cells_have_few_digits(low, width, chance, power):
    low, width = (value * 10.0**power for value in (low, width))
    ends = np.array([low]), np.array([low + width])
    width = ends[1][0] - ends[0][0]  # as rounded: a power of ten may have become less

    class Fixed:
        def random(self, n):
            return np.full(n, chance)

    (value,) = uniform(*ends, Fixed())
    assert ends[0][0] <= value <= ends[1][0]
    if width > 1e-9 * abs(low) and width > 1e-290:
        decimals = int(2 - np.floor(np.log10(width)))
        step = 10.0**-decimals
        assert abs(value / step - round(value / step)) < 1e-3


def test_values_within_cells_are_equally_likely():
    low, high = np.full(100_000, 0.123456), np.full(100_000, 0.3337)
    values = uniform(low, high, np.random.default_rng(0))
    assert digits(values, 3)
    # Five standard errors, and half a step.
    assert abs(values.mean() - 0.228578) < 5 * 0.2102 / np.sqrt(12 * 100_000) + 5e-4
    assert values.min() == 0.124
    assert values.max() == 0.333
