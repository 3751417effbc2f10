"""``privem sample``: files with the names, the types and the bounds of the data fitted."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner

import privem
from privem.cli import app
from privem.cli.progress import WatchedRows
from privem.data import read_file

SCHEMA = {"age": pl.UInt8, "member": pl.Boolean, "height": pl.Float32, "score": pl.Int64}
BOUNDS = ["age=0:110", "member=0:1", "height=140:210.5", "score=-3:2"]
LOW, HIGH = [0, 0, 140, -3], [110, 1, 210.5, 2]


def run(*arguments, code=0):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == code, result.output
    return " ".join(result.output.split())


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """People as Parquet and CSV, and private models of both."""
    folder, rng = tmp_path_factory.mktemp("people"), np.random.default_rng(0)
    people = pl.DataFrame(
        {
            "age": rng.integers(18, 90, 2000),
            "member": rng.random(2000) < 0.2,
            "height": rng.normal(175, 10, 2000),
            "score": rng.integers(-5, 6, 2000),
        }
    ).cast(SCHEMA)
    people.write_parquet(folder / "people.parquet")
    people.write_csv(folder / "people.csv")
    private = ["--epsilon", 2, *(word for bound in BOUNDS for word in ("--bound", bound)), "-q"]
    types = ["age=uint8", "member=bool", "height=float32", "score=int"]
    types = [word for declared in types for word in ("--type", declared)]
    for kind in ("gmm", "fa"):
        fit = ["fit", folder / "people.parquet", "-m", kind, "-k", 1, *private]
        run(*fit, "-o", folder / f"{kind}.json")
    csv = ["fit", folder / "people.csv", "-k", 1, *private]
    run(*csv, *types, "-o", folder / "declared.json")
    run(*csv, "-o", folder / "undeclared.json")
    return folder


@pytest.mark.parametrize("model", ["gmm", "fa", "declared"])
def test_parquet_has_names_types_and_bounds_of_the_original(folder, tmp_path, model):
    out = tmp_path / "synthetic.parquet"
    text = run("sample", folder / f"{model}.json", "-n", 70_000, "-o", out, "--seed", 1)
    assert text.startswith("Wrote 70,000 rows of 4 columns to")
    drawn = pl.read_parquet(out)
    assert drawn.schema == SCHEMA
    assert drawn.height == 70_000
    values = drawn.cast(pl.Float64).to_numpy()
    assert ((values >= LOW) & (values <= HIGH)).all()
    assert values.min(axis=0)[3] == -3  # the bounds are reached, and by whole numbers
    assert abs(drawn["member"].mean() - 0.2) < 0.13  # a Gaussian above a half, and background
    assert abs(drawn["height"].mean() - 175) < 2


def test_csv_and_standard_output_hold_the_same_records(folder, tmp_path):
    sample = ["sample", folder / "gmm.json", "-n", 500, "--seed", 3]
    for suffix in (".parquet", ".csv", ".npy"):
        run(*sample, "-o", tmp_path / f"x{suffix}")
    expected = pl.read_parquet(tmp_path / "x.parquet")
    drawn = pl.read_csv(tmp_path / "x.csv", schema_overrides=SCHEMA)
    assert drawn.equals(expected)
    header, first = (tmp_path / "x.csv").read_text().splitlines()[:2]
    assert header == "age,member,height,score"
    age, member, _, score = first.split(",")
    assert age.isdigit()
    assert member in ("true", "false")
    assert score.lstrip("-").isdigit()
    result = CliRunner().invoke(app, [str(word) for word in sample])
    assert result.stdout == (tmp_path / "x.csv").read_text()
    # A .npy file has one type: that which holds them all.
    array = np.load(tmp_path / "x.npy")
    assert array.dtype == np.float64
    np.testing.assert_array_equal(array, expected.cast(pl.Float64).to_numpy())
    # Round: what was drawn can be fitted, as the same columns.
    bounds = [word for bound in BOUNDS for word in ("--bound", bound)]
    run("fit", tmp_path / "x.parquet", "-k", 1, "-o", tmp_path / "m.json", "-q", *bounds)
    assert privem.load(tmp_path / "m.json").feature_types_in_ == [
        "uint8",
        "bool",
        "float32",
        "int64",
    ]


@pytest.mark.parametrize("kind", ["bool", "uint8", "int32", "uint64", "float32", "float64"])
def test_an_array_keeps_its_type(tmp_path, kind):
    values = np.random.default_rng(0).integers(0, 2, (300, 3)).astype(kind)
    np.save(tmp_path / "x.npy", values)
    bounded = privem.GaussianMixture(1, epsilon=5.0, bounds=(0, 1))
    bounded.fit(tmp_path / "x.npy").save(tmp_path / "m.json")
    for suffix in (".npy", ".parquet"):
        run("sample", tmp_path / "m.json", "-n", 400, "-o", tmp_path / f"y{suffix}")
    array = np.load(tmp_path / "y.npy")
    assert array.dtype == kind
    assert array.shape == (400, 3)
    assert array.min() >= 0
    assert array.max() <= 1
    frame = pl.read_parquet(tmp_path / "y.parquet")
    assert frame.columns == ["x0", "x1", "x2"]
    assert frame.to_numpy().dtype == kind


def test_a_csv_file_that_declares_nothing_gives_numbers(folder, tmp_path):
    run("sample", folder / "undeclared.json", "-n", 50, "-o", tmp_path / "x.parquet")
    drawn = pl.read_parquet(tmp_path / "x.parquet")
    assert drawn.schema == dict.fromkeys(SCHEMA, pl.Float64)


def test_numbers_in_a_csv_file_have_few_digits(folder, tmp_path):
    run("sample", folder / "undeclared.json", "-n", 200, "-o", tmp_path / "x.csv")
    _, *lines = (tmp_path / "x.csv").read_text().splitlines()
    assert len(lines) == 200
    assert max(len(value) for line in lines for value in line.split(",")) <= len("-123.4567")


def test_an_exact_model_has_types_too(folder, tmp_path):
    # As privem fit opens the file of an exact fit, to count its rows.
    rows = WatchedRows(read_file(folder / "people.parquet"))
    privem.GaussianMixture(2, epsilon=None).fit(rows).save(tmp_path / "m.json")
    run("sample", tmp_path / "m.json", "-n", 50, "-o", tmp_path / "x.parquet")
    assert pl.read_parquet(tmp_path / "x.parquet").schema == SCHEMA


@pytest.mark.parametrize(
    ("option", "code", "words"),
    [
        ("age", 2, "is not COLUMN=TYPE"),
        ("age=", 2, "there is no type ''"),
        ("age=date", 2, "there is no type 'date'; types are bool, int8"),
        ("wage=int", 3, "a type is given for 'wage', which is not one of the columns"),
    ],
)
def test_bad_types_are_refused(folder, tmp_path, option, code, words):
    out = tmp_path / "m.json"
    fit = ["fit", folder / "people.csv", "-k", 1, "-o", out, "--epsilon", 1]
    assert words in run(*fit, "--type", option, code=code)
    assert not out.exists()


def test_a_type_given_twice_is_refused(folder, tmp_path):
    fit = ["fit", folder / "people.csv", "-k", 1, "-o", tmp_path / "m.json", "--epsilon", 1]
    assert "once per column" in run(*fit, "--type", "age=int", "--type", "age=bool", code=2)


def test_categories_are_drawn_with_the_types_declared(tmp_path):
    table = pl.DataFrame({"grade": [1, 2, 3, 1] * 50, "pet": ["cat", "dog"] * 100})
    table = table.with_columns(pl.col("grade").cast(pl.Int8))
    table.write_parquet(tmp_path / "t.parquet")
    model = privem.CategoricalMixture(1, epsilon=None).fit(table)
    model.save(tmp_path / "m.json")
    run("sample", tmp_path / "m.json", "-n", 9, "-o", tmp_path / "s.parquet", "--seed", 0)
    drawn = pl.read_parquet(tmp_path / "s.parquet")
    assert drawn.schema == table.schema
    assert drawn.equals(model.set_params(random_state=0).sample_frame(9))
