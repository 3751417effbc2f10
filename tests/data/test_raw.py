"""Columns read before their cells are known: cut later, they are in the cells of the others."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privem import Schema
from privem.data.cells import cell
from privem.data.columns import Category, Number
from privem.data.raw import Cut, as_texts, bounded, codes, raw

wild = st.one_of(
    st.floats(allow_nan=True, allow_infinity=True),
    st.integers(-300, 300).map(float),
    st.none(),
)
kinds = st.sampled_from([{"whole": True}, {"whole": False}, {"decimals": 1}, {"decimals": 3}])


@settings(max_examples=60)
@given(values=st.lists(wild, max_size=12), kind=kinds, missing=st.booleans(), text=st.booleans())
def test_numbers_get_the_cells_they_have_with_bounds_given(values, kind, missing, text):
    column = Number("x", missing=missing, **kind)
    series = pl.Series("x", values, pl.Float64)
    if text:
        series = pl.concat([series.cast(pl.String), pl.Series("x", ["soon", " 7 ", "n/a"])])
    frame = pl.DataFrame([series])
    found = bounded(column, -41.7, 260.2)
    numbers = frame.select(raw(column))["x"]
    expected = frame.select(cell(found))["x"]
    assert numbers.is_null().to_list() == expected.is_null().to_list()
    cells = Cut.of(found)(numbers.fill_null(0).to_numpy())
    assert cells[~numbers.is_null().to_numpy()].tolist() == expected.drop_nulls().to_list()


@settings(max_examples=40)
@given(
    values=st.lists(st.sampled_from(["a", " a", "b", "c", "", "NA", None, "7", "7.0", "d"])),
    missing=st.booleans(),
)
def test_texts_get_the_cells_they_have_with_categories_given(values, missing):
    column = Category("x", missing=missing)
    found = Category("x", ("7", "a", "b", "other"), missing, others=True)
    frame = pl.DataFrame({"x": pl.Series(values, dtype=pl.String)})
    numbers = frame.select(raw(column))["x"]
    expected = frame.select(cell(found))["x"]
    assert numbers.is_null().to_list() == expected.is_null().to_list()
    cut = Cut.of(found, {"7": 0, "7.0": 0, "a": 1, "b": 2})
    known = ~numbers.is_null().to_numpy()
    assert cut(numbers.fill_null(0).to_numpy())[known].tolist() == expected.drop_nulls().to_list()


def test_neighbouring_codes_are_told_apart(monkeypatch):
    monkeypatch.setattr("privem.data.raw.codes", lambda text: np.array([5.0, 6.0, 8.0]))
    column = Category("x", ("a", "b", "c", "other"), others=True)
    cut = Cut.of(column, {"a": 0, "b": 1, "c": 2})
    assert cut(np.arange(3.0, 11)).tolist() == [3, 3, 0, 1, 3, 2, 3, 3]


def test_codes_are_whole_and_fit_a_double():
    texts = pl.Series([f"town {k}" for k in range(1000)])
    found = codes(texts)
    assert len(set(found)) == 1000
    assert (found == found.astype(np.int64)).all()
    assert ((found >= 0) & (found < 2**48)).all()
    # Of a text alone, wherever it stands.
    assert [codes(texts[k : k + 1]).item() for k in (3, 700)] == [found[3], found[700]]
    assert codes(pl.concat([texts[5:6], texts[:2]], rechunk=False))[0] == found[5]


@pytest.mark.parametrize(
    ("series", "texts"),
    [
        (pl.Series([1, None, 2], dtype=pl.Int8), ["1", None, "2"]),
        (pl.Series([1.5, float("nan"), None]), ["1.5", None, None]),
        (pl.Series([True, None]), ["true", None]),
        (pl.Series(["a", None], dtype=pl.Categorical), ["a", None]),
        (pl.Series([None, None]), [None, None]),
        (pl.Series([], dtype=pl.String), []),
    ],
)
def test_texts_of_columns_of_any_type(series, texts):
    assert as_texts(series).to_list() == texts


@pytest.mark.parametrize(
    ("column", "sides", "bounds"),
    [
        (Number("x", whole=True, dtype="uint8"), (-7.0, 300.0), (0, 255)),
        (Number("x", whole=True, dtype="uint8"), (400.0, 500.0), (254, 255)),
        (Number("x", whole=True, dtype="int64"), (-1e30, 1e30), (-(2**53), 2**53)),
        (Number("x", decimals=2), (0.111, 0.112), (0.11, 0.12)),
        (Number("x", decimals=15), (-5e90, 5e90), (-(2**52) / 1e15, 2**52 / 1e15)),
        (Number("x", whole=False), (0.1, 0.7), (0.1, 0.7)),
    ],
)
def test_bounds_suit_the_resolution_and_the_type(column, sides, bounds):
    found = bounded(column, *sides)
    assert (found.low, found.high) == bounds
    assert found.size > 1


def test_bounds_of_single_precision_hold_what_was_found():
    found = bounded(Number("x", whole=False, dtype="float32"), 0.1, 0.7)
    for bound, least in ((-found.low, -0.1), (found.high, 0.7)):
        assert bound >= least
        assert np.float32(bound) == bound


def test_the_last_category_may_stand_for_all_others():
    schema = Schema({"x": {"categories": ["a", "b", "other"], "others": True}}, missing=["x"])
    assert Schema.from_dict(schema.to_dict()) == schema
    frame = pl.DataFrame({"x": ["b", "zzz", "", "other", None]})
    assert frame.select(cell(schema["x"]))["x"].to_list() == [1, 2, 3, 2, 3]
    assert schema.find("x", "other").tolist() == [2]
    with pytest.raises(ValueError, match="'zzz' is not one of its values, 'a', 'b' or 'other'"):
        schema.find("x", "zzz")
    for wrong in ({"type": "str", "others": True}, {"categories": ["a", "b"], "others": "c"}):
        with pytest.raises(ValueError, match="others"):
            Schema({"x": wrong})
