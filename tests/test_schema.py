"""Schemas: what may be declared, how it is written, read and drafted."""

import copy
import dataclasses
import datetime as dt
import json
import pickle
import tomllib

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privem import Schema, TableMixture
from privem.data import Policy, open_table

PEOPLE = {
    "age": (15, 95),
    "hours": (int, 0, 100),
    "height": (float, 0.4, 2.6),
    "sex": ["Female", "Male"],
    "grade": [1, 2, 2.5],
    "smoker": bool,
    "admitted": ("2019-01-01", "2025-12-31"),
    "seen": ("2019-01-01T00:00", "2025-12-31T23:59"),
    "income": float,
    "children": int,
    "city": str,
    "id": None,
}
SCHEMA = Schema(PEOPLE, missing=["hours", "city"])


def test_the_example_of_the_docs():
    schema = Schema(
        {
            "age": (15, 95),
            "hours": (0, 100),
            "sex": ["Female", "Male"],
            "smoker": bool,
            "admitted": ("2019-01-01", "2025-12-31"),
            "income": ["<=50K", ">50K"],
        },
        missing=["hours"],
    )
    assert [(c.cells, c.ordered, c.missing) for c in schema.cells] == [
        (231, True, False),
        (232, True, True),
        (2, False, False),
        (2, False, False),
        (257, True, False),
        (2, False, False),
    ]


def test_what_is_declared():
    assert SCHEMA.names == [name for name in PEOPLE if name != "id"]
    assert SCHEMA.skipped == ("id",)
    assert SCHEMA.missing == ["hours", "city"]
    assert SCHEMA.without_bounds == ["income", "children"]
    assert SCHEMA.without_categories == ["city"]
    assert Schema({"a": bool, "b": None}, missing=True).missing == ["a"]
    with pytest.raises(KeyError, match="no column 'agee'"):
        SCHEMA["agee"]
    assert SCHEMA.select(["sex", "age"]).names == ["sex", "age"]


def test_repr_can_be_evaluated():
    assert eval(repr(SCHEMA)) == SCHEMA
    assert repr(Schema({"a": (0, 1), "b": ["x", 1]}, missing=["b"])) == (
        "Schema({'a': (0, 1), 'b': ['x', 1]}, missing=['b'])"
    )
    formatted = Schema({"d": {"bounds": ["2019-01-01", "2020-01-01"], "format": "%m/%d/%Y"}})
    assert eval(repr(formatted)) == formatted


def test_schemas_are_values():
    again = Schema(PEOPLE, missing=("city", "hours"))
    assert again == SCHEMA
    assert hash(again) == hash(SCHEMA)
    assert Schema(PEOPLE) != SCHEMA
    assert copy.deepcopy(SCHEMA) == SCHEMA
    assert pickle.loads(pickle.dumps(SCHEMA)) == SCHEMA
    with pytest.raises(dataclasses.FrozenInstanceError):
        SCHEMA.columns = ()
    assert Schema.of(SCHEMA) is SCHEMA
    assert Schema.of({"a": bool}) == Schema({"a": bool})


@pytest.mark.parametrize("suffix", [".toml", ".json"])
def test_files_round_trip(tmp_path, suffix):
    path = tmp_path / f"schema{suffix}"
    names = {
        'quo"te\\': (0, 1),
        "a.b c": ["é\n", "\x7f\x00", "Zürich 😀", ""],
        "-x_1": (-1e30, 1e-7),
        "price": {"bounds": [0, 99.99], "decimals": 2},
    }
    schema = Schema({**PEOPLE, **names}, missing=True)
    schema.write(path)
    assert Schema.read(path) == schema
    typed = Schema({"age": (15, 95)}).for_types({"age": pl.Int16})
    typed.write(path)
    assert Schema.read(path) == typed
    assert Schema.of(str(path)) == typed
    assert Schema.from_dict(json.loads(json.dumps(schema.to_dict()))) == schema


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)


@given(st.dictionaries(TEXT.map("c{}".format), st.lists(TEXT, min_size=2, max_size=4), min_size=1))
def test_any_text_survives_a_toml_file(tmp_path, columns):
    # Numbered, so that no two are the same.
    schema = Schema({k: [f"c{j}{word}." for j, word in enumerate(v)] for k, v in columns.items()})
    schema.write(tmp_path / "schema.toml")
    assert Schema.read(tmp_path / "schema.toml") == schema


def test_a_file_as_a_person_writes_it(tmp_path):
    path = tmp_path / "schema.toml"
    path.write_text(
        "[columns]\n"
        'age = {type="int", bounds=[0, 90], missing=true}\n'
        'sex = {categories=["f", "m"]}\n'
        "admitted = {bounds=[2019-01-01, 2025-12-31]}\n"
        'seen = {type="datetime", bounds=["2019-01-01", "2025-12-31"]}\n'
        'income = {type="float"}\n'
        'id = {type="skip"}\n'
        "[columns.smoker]\n"
        'type = "bool"\n'
    )
    expected = {
        "age": (int, 0, 90),
        "sex": ["f", "m"],
        "admitted": (dt.date(2019, 1, 1), dt.date(2025, 12, 31)),
        "seen": ("2019-01-01T00:00:00", "2025-12-31T00:00:00"),
        "income": float,
        "id": None,
        "smoker": bool,
    }
    assert Schema.read(path) == Schema(expected, missing=["age"])


def test_times_are_as_fine_as_their_bounds():
    def unit(low, high):
        return Schema({"t": (low, high)})["t"].unit

    assert unit("2019-01-01", dt.date(2020, 1, 1)) == "day"
    assert unit("2019-01-01T10", "2020-01-01") == "hour"
    assert unit("2019-01-01T10:00", "2020-01-01T00:00") == "minute"
    assert unit("2019-01-01 10:00:00", "2020-01-01T00:00+02:00") == "second"
    assert unit("2019-01-01T10:00:00.000", "2020-01-01") == "millisecond"
    assert unit("2019-01-01T10:00:00.000000", "2020-01-01") == "microsecond"
    assert unit(dt.datetime(2019, 1, 1), dt.datetime(2020, 1, 1)) == "second"
    zoned = Schema({"t": ("2019-01-01T10:00+02:00", "2020-01-01T00:00Z")})
    assert repr(zoned) == "Schema({'t': ('2019-01-01T08:00Z', '2020-01-01T00:00Z')})"
    assert eval(repr(zoned)) == zoned


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ((95, 15), "lower bound, 95, must be below"),
        ((1, 1), "must be below"),
        ((float("inf"), 0), "finite"),
        ((0, float("nan")), "finite"),
        ((0, None, 9), "bounds are a pair"),
        ((None, None), "needs bounds, categories or a type"),
        ((0, float("inf")) * 2, "bounds are a pair"),
        ((int, 0.5, None), "whole"),
        ((None, "2020-01-01"), "dates or times, got None"),
        ((0, 10**400), "finite"),
        ((False, True), "two numbers"),
        ((0, "90"), "two numbers"),
        (("2025-01-01", "2019-01-01"), "must be before"),
        (("2019-02-30", "2020-01-01"), "are like '2025-01-31'"),
        (("low", "high"), "are like '2025-01-31'"),
        (("2019-01-01", 5), "dates or times, got 5"),
        ((1, 2, 3), "bounds are a pair"),
        ((int, 0.5, 9), "whole"),
        ((int, 0, 2**60), r"2\*\*53"),
        ((str, 0, 1), "str has no bounds"),
        ((list, 0, 1), "unknown type 'list'"),
        ({"bounds": [0, 9], "decimals": 0.5}, "decimals is a whole number"),
        ({"bounds": [0, 9], "decimals": -1}, "between 0 and 15"),
        ({"bounds": [0, 0.05], "decimals": 1}, "no two numbers of 1 decimals"),
        ({"bounds": [0, 1e9], "decimals": 12}, "too large for 12 decimals"),
        ({"type": "int", "bounds": [0, 9], "decimals": 1}, "only numbers that are not whole"),
        ({"categories": ["a", "b"], "decimals": 1}, "only numbers that are not whole"),
        (["only"], "at least two"),
        ([], "at least two"),
        (["a", "b", "a"], "'a' twice"),
        ([1, "1.0"], "mean the same"),
        (["a", " a"], "mean the same"),
        ([["a"], ["b"]], "text or a number"),
        ([None, "a"], "text or a number"),
        ([float("nan"), 1.0], "text or a number"),
        ([float("inf"), 1.0], "finite"),
        ([10**400, 1], "finite"),
        (["\ud800", "a"], "no valid text"),
        (list(range(10_001)), "at most 10,000"),
        (dict, "unknown type 'dict'"),
        (dt.date, "date needs bounds"),
        ("int", "expected a pair"),
        (5, "expected a pair"),
        ({"a", "b"}, "expected a pair"),
        ({}, "needs bounds, categories or a type"),
        ({"type": "money"}, "unknown type 'money'; types are int, float"),
        ({"type": "integer"}, r"unknown type 'integer' \(is 'int' meant\?\)"),
        ({"kind": "int"}, "unknown 'kind'; it may have type, bounds"),
        ({"type": "int", "bound": [0, 9]}, r"unknown 'bound' \(is 'bounds' meant\?\)"),
        ({"type": "int", "categories": ["a", "b"]}, "without type and bounds"),
        ({"type": "int", "missing": 1}, "true or false"),
        ({"categories": "ab"}, "categories are a list"),
        ({"bounds": ["2019-01-01", "2020-01-01"], "format": "dmy"}, "format is like"),
        ({"type": "date", "bounds": ["2019-01-01T10:00", "2020-01-01"]}, "no time of day"),
    ],
)
def test_a_bad_declaration_is_named(given, words):
    with pytest.raises(ValueError, match=words) as caught:
        Schema({"smoker": bool, "what": given})
    assert str(caught.value).startswith("column 'what': ")


@pytest.mark.parametrize(
    ("arguments", "kind", "words"),
    [
        (([("age", (0, 1))],), TypeError, "a mapping from column names"),
        (({},), ValueError, "at least one column"),
        (({"a": None},), ValueError, "at least one column"),
        (({1: bool},), TypeError, "names of columns are text, got 1"),
        (({"": bool},), ValueError, "without a name can only be left out"),
        (({"*": bool},), ValueError, "pattern"),
        (({"^a$": bool},), ValueError, "pattern"),
        (({"a": bool}, "a"), TypeError, "a list of column names"),
        (({"a": bool}, ["b"]), ValueError, "missing names 'b'"),
        (({"a": bool, "b": None}, ["b"]), ValueError, "missing names 'b'"),
    ],
)
def test_a_bad_schema_is_refused(arguments, kind, words):
    with pytest.raises(kind, match=words):
        Schema(*arguments)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[columns", r"schema.toml' is not valid TOML: Expected"),
        ("age = {type='int'}", r"one table, .*'age' is neither"),
        ("constraints = []", r"\[columns\] is not there"),
        ("[columns]\nage = [0, 90]", "column 'age': expected a table"),
        ("[columns]\nage = {typ='int'}", r"schema.toml': column 'age': unknown 'typ' \(is 'type'"),
        (
            "[columns]\nage = {type='int', bounds=[0, '?']}\nok = {type='bool'}\n"
            "pay = {type='?', missing='?'}\nw = {categories=['a', '?']}",
            r"draft: complete every \"\?\", of age \(bounds\), pay \(type, missing\)$",
        ),
    ],
)
def test_a_bad_file_is_named(tmp_path, text, words):
    path = tmp_path / "schema.toml"
    path.write_text(text)
    with pytest.raises(ValueError, match=words) as caught:
        Schema.read(path)
    assert str(path) in str(caught.value)
    with pytest.raises(ValueError, match=r"a \.toml or \.json file"):
        Schema.read("schema.yaml")
    with pytest.raises(FileNotFoundError):
        Schema.read(tmp_path / "none.toml")


def test_one_bound_may_be_given(tmp_path):
    dose = {"bounds": [0.25, np.inf], "decimals": 1}
    known = {"pay": (0, None), "debt": (float, None, 0.5), "dose": dose, "n": (int, 1, np.inf)}
    schema = Schema(known)
    assert schema.without_bounds == schema.names
    assert Schema.of(schema.to_dict()["columns"]) == schema
    assert "(0, None)" in repr(schema)
    for file in ("schema.toml", "schema.json"):
        schema.write(tmp_path / file)
        assert Schema.read(tmp_path / file) == schema
    found = schema.with_bounds(dict.fromkeys(schema.names, (-5.5, 9.25)))
    assert [(c.low, c.high) for c in found.columns] == [
        (0, 9.25),
        (-5.5, 0.5),
        (0.25, 9.3),
        (1, 10),
    ]
    # Where what was found contradicts what is known, that stays, and there are still two values.
    for low, high in ((-9.0, -8.0), (7.0, 8.0), (0.26, 0.27), (0.44, 0.49)):
        found = schema.with_bounds(dict.fromkeys(schema.names, (low, high)))
        assert [found["pay"].low, found["debt"].high, found["dose"].low] == [0, 0.5, 0.25]
        assert all(cells.cells > 1 for cells in found.cells)
    whole = schema.for_types(
        {"pay": pl.UInt8, "debt": pl.Float32, "dose": pl.Float64, "n": pl.Int8}
    )
    assert whole["pay"].spelled() == "(int, 0, None)"
    found = whole.with_bounds(dict.fromkeys(schema.names, (-1e9, 1e9)))
    assert (found["pay"].high, found["n"].high) == (255, 127)


def test_what_is_found_later_is_filled_in():
    with pytest.raises(ValueError, match="column 'income': its bounds are not known yet"):
        _ = SCHEMA.cells
    full = SCHEMA.with_bounds({"income": (0.5, 1e5), "children": (-0.2, 7.9)})
    with pytest.raises(ValueError, match="column 'city': its categories are not known yet"):
        _ = full.cells
    full = full.with_categories({"city": ["Bonn", "Cork"]})
    assert full["children"].spelled() == "(int, -1, 8)"
    assert len(full.cells) == 11
    for wrong in ({"age": (0, 1)}, {"city": (0, 1)}, {"none": (0, 1)}):
        with pytest.raises(ValueError, match="not one whose bounds are to be found"):
            SCHEMA.with_bounds(wrong)
    with pytest.raises(ValueError, match="not one whose categories are to be found"):
        SCHEMA.with_categories({"sex": ["a", "b"]})


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("sex", "male", "'male' is not one of its values, 'Female' or 'Male'"),
        ("hours", 101, "101 is not one of its values, from 0 to 100"),
        ("smoker", 2, "2 is not one of its values, yes or no"),
        ("admitted", "2030-01-01", "'2030-01-01' is not one of its values, from 2019-01-01 to 20"),
        ("letter", "z", "'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j' or 3 more"),
        ("hours", (200, 300), "none of its values, from 0 to 100, is between 200 and 300"),
    ],
)
def test_a_condition_that_is_no_value_says_what_is(name, value, allowed):
    with pytest.raises(ValueError, match=f"column '{name}': .*{allowed}"):
        Schema(PEOPLE | {"letter": list("abcdefghijklm")}).find(name, value)


def test_conditions_become_cells():
    schema = Schema(PEOPLE, missing=["smoker"])
    assert schema.find("hours", 7).tolist() == [7]
    assert schema.find("hours", (None, 2)).tolist() == [0, 1, 2]
    assert schema.find("hours", (98, 300)).tolist() == [98, 99, 100]
    assert schema.find("sex", ["Male", "Female"]).tolist() == [0, 1]
    assert schema.find("grade", 2.5).tolist() == [2]
    assert schema.find("smoker", True).tolist() == [1]
    assert schema.find("smoker", None).tolist() == [2]
    first = schema.find("admitted", (None, dt.date(2019, 1, 2)))
    assert first.tolist() == [0, 1]
    for name, value in [
        ("hours", 101),
        ("hours", (101, 200)),
        ("hours", (9, 3)),
        ("hours", "many"),
        ("sex", "other"),
        ("sex", None),
        ("sex", ("Female", "Male")),
        ("seen", "2030-01-01"),
    ]:
        with pytest.raises(ValueError, match=f"column '{name}'"):
            schema.find(name, value)


def test_conditions_on_dates_of_a_format_are_also_written_as_bounds_are():
    """Data must follow the format; a person who asks may write dates as in the schema."""
    bounds = ["2019-01-01", "2019-12-31"]
    schema = Schema({"day": {"type": "date", "bounds": bounds, "format": "%m/%d/%Y"}})
    second = dt.date(2019, 1, 2)
    for value in ("01/02/2019", "2019-01-02", second, dt.datetime(2019, 1, 2)):
        assert schema.find("day", value).tolist() == [1]
    assert schema.find("day", (None, "2019-01-02")).tolist() == [0, 1]
    with pytest.raises(ValueError, match="column 'day': 'soon' is not one of its values"):
        schema.find("day", "soon")


def test_a_condition_of_no_value_is_refused():
    with pytest.raises(ValueError, match="column 'sex': an empty list allows no value"):
        Schema(PEOPLE).find("sex", [])


def test_a_column_without_a_name_can_be_left_out(tmp_path):
    """As pandas and R write row numbers into files; a draft has a line for it."""
    path = tmp_path / "rows.csv"
    path.write_text(",v\n" + "".join(f"{k},{k % 7}\n" for k in range(50)))
    draft = Schema.draft(str(path), header=True)
    assert '"" = {type = "?"' in draft
    file = tmp_path / "schema.toml"
    file.write_text('[columns]\n"" = {type = "skip"}\nv = {type = "int", bounds = [0, 6]}\n')
    model = TableMixture(schema=Schema.read(file), epsilon=None).fit(path)
    assert model.sample_frame(3).columns == ["v"]


def test_the_first_value_of_each_cell():
    firsts = SCHEMA.firsts("admitted")
    assert (len(firsts), firsts[0]) == (257, dt.date(2019, 1, 1))
    assert SCHEMA.firsts("sex").to_list() == ["Female", "Male"]
    assert SCHEMA.firsts("hours").to_list() == [*range(101), None]


def drafts(frame, folder, pandas):
    """The drafts of one table, as all that it may come as."""
    folder.mkdir()
    frame.write_parquet(folder / "t.parquet")
    frame.write_csv(folder / "t.csv")
    yield Schema.draft(frame)
    yield Schema.draft(frame.lazy())
    yield Schema.draft(folder / "t.parquet")
    yield Schema.draft(folder / "t.csv", header=True)
    yield Schema.draft(folder / "t.csv", header=False)
    yield Schema.draft(pandas.DataFrame(frame.to_dict(as_series=False)))


def test_drafts_depend_on_names_and_types_alone(tmp_path):
    pandas = pytest.importorskip("pandas")
    types = {
        "n": pl.Int16,
        "x": pl.Float64,
        "flag": pl.Boolean,
        "word": pl.String,
        "kind": pl.Categorical,
        "day": pl.Date,
        "time": pl.Datetime("us"),
    }
    day, noon = dt.date(2020, 1, 1), dt.datetime(2020, 1, 1, 12)
    one = pl.DataFrame([[1], [0.5], [True], ["a"], ["b"], [day], [noon]], schema=types)
    two = pl.DataFrame(
        [
            [7, -7],
            [1e300, 2.0],
            [False, False],
            ["private", ""],
            ["X", "Y"],
            [dt.date(1900, 1, 1), day],
            [noon, dt.datetime(1, 1, 1)],
        ],
        schema=types,
    )
    found = [
        list(drafts(frame, tmp_path / name, pandas)) for name, frame in (("a", one), ("b", two))
    ]
    assert found[0] == found[1]
    polars, lazy, parquet, csv, headless, _ = found[0]
    assert polars == lazy == parquet
    drafted = tomllib.loads(parquet)["columns"]
    assert list(drafted) == list(types)
    assert drafted["n"] == {"type": "int", "bounds": "?", "missing": "?"}
    assert drafted["x"]["type"] == "float"
    assert drafted["flag"] == {"type": "bool", "missing": "?"}
    assert drafted["word"] == drafted["kind"] == {"categories": "?", "missing": "?"}
    assert (drafted["day"]["type"], drafted["time"]["type"]) == ("date", "datetime")
    assert all(
        each == {"type": "?", "missing": "?"} for each in tomllib.loads(csv)["columns"].values()
    )
    assert list(tomllib.loads(headless)["columns"]) == [f"x{j}" for j in range(7)]


def test_a_draft_is_no_schema_until_it_is_complete(tmp_path):
    path = tmp_path / "schema.toml"
    path.write_text(Schema.draft(pl.DataFrame({"age": [1], "tags": [["a"]]})))
    with pytest.raises(ValueError, match=r"of age \(bounds, missing\)"):
        Schema.read(path)
    path.write_text(path.read_text().replace('bounds = "?"', "bounds = [0, 90]"))
    path.write_text(path.read_text().replace('missing = "?"', "missing = false"))
    assert Schema.read(path) == Schema({"age": (int, 0, 90), "tags": None})


def test_types_that_no_schema_can_declare():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": [True], "wait": pandas.to_timedelta([1]), "z": [1j]})
    drafted = tomllib.loads(Schema.draft(frame))["columns"]
    assert drafted["wait"] == drafted["z"] == {"type": "skip"}
    with pytest.raises(ValueError, match="column 'wait' is declared as float, but the table holds"):
        open_table(
            frame, policy=Policy(schema=Schema({"a": bool, "wait": (float, 0, 1), "z": None}))
        )
    table = open_table(frame, policy=Policy(schema=Schema({"a": bool, "wait": None, "z": None})))
    assert table.rows.X.tolist() == [[1]]


def test_drafts_of_csv_files_ask_for_the_header(tmp_path):
    path = tmp_path / "people.csv"
    path.write_text("Ann,Cork\nBob,Bonn\n")
    with pytest.raises(ValueError, match="header=True") as caught:
        Schema.draft(path)
    assert "Ann" not in str(caught.value)
    path.write_text("31,Cork\n47,Bonn\n")
    with pytest.raises(ValueError, match="seems to have no header") as caught:
        Schema.draft(path)
    assert "31" not in str(caught.value)
    with pytest.raises(TypeError, match="header= is for files"):
        Schema.draft(pl.DataFrame({"a": [1]}), header=True)
    np.save(tmp_path / "a.npy", np.eye(2))
    with pytest.raises(ValueError, match="has no column names"):
        Schema.draft(tmp_path / "a.npy")
