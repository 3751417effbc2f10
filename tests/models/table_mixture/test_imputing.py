"""Filled gaps: of the type and in the spelling that a frame's columns have."""

from datetime import date, timedelta

import numpy as np
import polars as pl
import pytest

from privem import Schema, TableMixture

N = 600
SCHEMA = Schema(
    {
        "count": (int, 0, 300),
        "size": (0.0, 1.0),
        "letter": ["x", "y", "z"],
        "sure": bool,
        "day": {"type": "date", "bounds": ["2020-01-01", "2020-12-31"], "format": "%m/%d/%Y"},
        "night": ("2020-01-01", "2020-12-31"),
    },
    missing=True,
)


@pytest.fixture(scope="module")
def model():
    rng = np.random.default_rng(5)
    days = [date(2020, 1, 1) + timedelta(int(k)) for k in rng.integers(0, 366, N)]
    frame = pl.DataFrame(
        {
            "count": rng.integers(200, 300, N),
            "size": rng.random(N),
            "letter": rng.choice(["y", "z"], N),
            "sure": rng.random(N) < 0.5,
            "day": [day.strftime("%m/%d/%Y") for day in days],
            "night": days,
        }
    )
    return TableMixture(schema=SCHEMA, epsilon=2.0, random_state=0).fit(frame)


def test_columns_that_cannot_hold_what_is_drawn_get_a_type_that_can(model):
    holes = pl.DataFrame(
        {
            "count": pl.Series([None] * 9 + [7], dtype=pl.Int8),
            "size": pl.Series([None] * 9 + [1], dtype=pl.Int64),
            "letter": pl.Series([None] * 9 + ["x"], dtype=pl.Enum(["x"])),
            "sure": [None] * 10,
        }
    )
    filled = model.impute(holes)
    types = [pl.Int64, pl.Float64, pl.Enum(["x", "y", "z"]), pl.Boolean]
    assert filled.dtypes == types
    assert filled.null_count().row(0) == (0,) * 4
    assert filled.row(9)[:3] == (7, 1.0, "x")
    assert filled["count"][:9].min() > 127
    assert 0 < filled["size"][0] < 1
    wide = holes.with_columns(count=pl.col("count").cast(pl.Int16))
    assert model.impute(wide)["count"].dtype == pl.Int16


def test_pandas_columns_that_cannot_hold_what_is_drawn(model):
    pandas = pytest.importorskip("pandas")
    holes = pandas.DataFrame(
        {
            "count": pandas.array([None] * 9 + [7], dtype="Int8"),
            "size": pandas.array([None] * 9 + [1], dtype="Int64"),
            "letter": pandas.Categorical([None] * 9 + ["x"]),
            "sure": [None] * 10,
        }
    )
    filled = model.impute(holes)
    assert not filled.isna().any().any()
    assert filled["count"].iloc[0] > 127
    assert filled["count"].iloc[9] == 7
    assert 0 < filled["size"].iloc[0] < 1
    assert filled["letter"].dtype == "category"
    assert isinstance(filled["sure"].iloc[0], bool | np.bool_)


def test_columns_that_pandas_numbers_are_filled():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(np.random.default_rng(0).random((N, 2)))
    schema = Schema({"0": (0, 1), "1": (0, 1)}, missing=True)
    model = TableMixture(schema=schema, epsilon=2.0, random_state=0).fit(frame)
    frame.iloc[0, 0] = np.nan
    filled = model.impute(frame)
    assert not filled.isna().any().any()
    assert list(filled.columns) == [0, 1]


@pytest.mark.parametrize("library", ["polars", "pandas"])
def test_text_is_filled_in_its_own_spelling(model, library):
    holes = pl.DataFrame(
        {
            "sure": [None, None, "Y", "N"],
            "day": [None, None, "02/01/2020", "02/13/2020"],
            "night": [None, None, "31.01.2020", "01.02.2020"],
        }
    )
    if library == "pandas":
        pandas = pytest.importorskip("pandas")
        filled = model.impute(pandas.DataFrame(holes.to_dict(as_series=False)))
        filled = pl.DataFrame({name: filled[name].tolist() for name in filled})
    else:
        filled = model.impute(holes)
    assert set(filled["sure"]) <= {"Y", "N"}
    assert filled["day"].str.to_date("%m/%d/%Y", strict=False).null_count() == 0
    assert filled["night"].str.to_date("%d.%m.%Y", strict=False).null_count() == 0
    alone = model.impute(pl.DataFrame({"sure": pl.Series([None], dtype=pl.String)}))
    assert alone["sure"][0] in ("no", "yes")
