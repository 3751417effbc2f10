"""Constraints as people write them: what is taken, what is refused and why."""

import pytest

from privem import Schema
from privem.data.constraints import AtMost, Determines

COLUMNS = {
    "age": (int, 15, 95),
    "years": (int, 0, 80),
    "height": (float, 0.0, 2.5),
    "education": ["HS", "BA"],
    "number": (int, 0, 16),
    "born": ("1900-01-01", "2025-12-31"),
    "seen": ("2020-01-01T00:00", "2025-12-31T23:59"),
    "a->b": (0, 1),
    "c": (0, 1),
    "adult": bool,
    "far": (int, 200, 300),
    "note": None,
}


def test_constraints_are_kept_in_files_and_by_other_schemas(tmp_path):
    held = ["years <= age", {"education -> number": {"HS": 9, "BA": 13}}, "c >= a->b"]
    schema = Schema(COLUMNS, constraints=held)
    assert schema.constraints == (
        AtMost("years", "age"),
        Determines("education", "number", (("HS", 9), ("BA", 13))),
        AtMost("a->b", "c"),
    )
    for name in ("schema.toml", "schema.json"):
        schema.write(tmp_path / name)
        assert Schema.read(tmp_path / name) == schema
    assert "constraints=['years <= age'" in repr(schema)
    assert Schema.from_dict(schema.to_dict()) == schema
    assert schema.select(["age", "years", "c"]).constraints == (AtMost("years", "age"),)
    assert "constraints" not in Schema(COLUMNS).to_dict()


def test_tables_by_flags_and_numbers_come_back_from_files(tmp_path):
    tables = [{"adult -> education": {False: "HS", True: "BA"}}]
    schema = Schema(COLUMNS, constraints=tables)
    schema.write(tmp_path / "schema.toml")
    assert Schema.read(tmp_path / "schema.toml") == schema


@pytest.mark.parametrize(
    ("held", "why"),
    [
        ("years <= age", "a list"),
        (["years <= agee"], "no column 'agee'"),
        (["years <= note"], "no column 'note'"),
        (["years < age"], "expected"),
        (["years"], "expected"),
        ([3], "a constraint is"),
        (["age <= age"], "one column only"),
        (["age <= education"], "numbers can be compared with numbers"),
        (["born <= age"], "numbers can be compared with numbers"),
        (["born <= seen"], "steps of a day"),
        (["years <= height"], "int"),
        (["far <= age"], "never holds"),
        (["years <= age", "years >= age"], "same columns"),
        (["years <= age", "age <= number", "years <= number"], "circle"),
        (["height -> education"], "of categories"),
        (["education -> born"], "of categories"),
        (["education -> number", "adult -> number"], "determines the second already"),
        (["education -> number", "number -> adult", "adult -> education"], "circle"),
        (["education -> number", "number <= age"], "cannot be compared as well"),
        ([{"education -> number": {"HS": 9}}], "nothing of 1 values"),
        ([{"education -> number": {"HS": 9, "BA": 99}}], "99"),
        ([{"education -> number": {"HS": 9, "PhD": 9}}], "PhD"),
        ([{"education -> number": {"HS": 9, "BA": 9, " HS": 9}}], "twice"),
        ([{"education -> number": 9}], "table of values"),
        ([{"years <= age": {"1": 2}}], "only a -> b"),
    ],
    ids=str,
)
def test_what_cannot_be_kept_is_refused(held, why):
    with pytest.raises((ValueError, TypeError), match=why):
        Schema(COLUMNS, constraints=held)


def test_what_is_known_later_is_checked_later():
    import polars as pl

    schema = Schema({"a": (0, 9), "b": (0, 9), "c": float}, constraints=["a <= b", "b <= c"])
    with pytest.raises(ValueError, match="declare both alike"):
        schema.for_types({"a": pl.Int64, "b": pl.Float64, "c": pl.Float64})
    assert len(schema.with_bounds({"c": (3.0, 4.0)}).constraints) == 2
    exact = Schema({"a": (0, 9), "b": ["x", "y"]}, constraints=["a -> b"])
    with pytest.raises(ValueError, match="of categories"):
        exact.for_types({"a": pl.Float64, "b": pl.String})
    assert exact.for_types({"a": pl.Int8, "b": pl.String}).constraints == exact.constraints
    with pytest.raises(ValueError, match="of categories"):
        Schema({"a": int, "b": ["x", "y"]}, constraints=["a -> b"])
    with pytest.raises(ValueError, match="needs the categories"):
        Schema({"a": str, "b": ["x", "y"]}, constraints=[{"a -> b": {"k": "x"}}])
