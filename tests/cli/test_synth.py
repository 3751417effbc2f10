"""``privem synth``, and a model with a schema in the other commands."""

import json

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner

import privem
from privem.cli import app

RNG = np.random.default_rng(0)


@pytest.fixture
def folder(tmp_path):
    n = 900
    age = RNG.integers(18, 90, n)
    people = pl.DataFrame(
        {"age": age, "city": RNG.choice(["Bonn", "Cork"], n), "retired": age > 65}
    )
    people.write_csv(tmp_path / "people.csv")
    people.write_parquet(tmp_path / "people.parquet")
    privem.Schema({"age": (int, 18, 90), "city": ["Bonn", "Cork"], "retired": bool}).write(
        tmp_path / "schema.toml"
    )
    return tmp_path


def run(folder, *words, code=0):
    words = [w if w.startswith("-") or "." not in w else str(folder / w) for w in words]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == code, result.output
    return result


def test_a_synthetic_table_and_its_report(folder):
    said = run(
        folder, "synth", "people.csv", "--header", "--schema", "schema.toml", "-o", "out.parquet",
        "--target", "retired", "--evaluate", "people.parquet", "--seed", "0",
    ).stdout  # fmt: skip
    assert "differentially private" in said
    assert "of noise alone" in said
    assert "auc" in said
    drawn = pl.read_parquet(folder / "out.parquet")
    assert drawn.columns == ["age", "city", "retired"]
    assert abs(drawn.height - 900) < 120


def test_as_json_with_a_model(folder):
    said = json.loads(
        run(
            folder, "synth", "people.parquet", "--schema", "schema.toml", "-o", "out.csv",
            "-n", "50", "--epsilon", "2", "--model-file", "model.json", "--json",
        ).stdout
    )  # fmt: skip
    assert said["privacy"]["epsilon"] == 2.0
    assert said["rows"] == 50 == pl.read_csv(folder / "out.csv").height
    assert set(said["quality"]["columns"]) == {"age", "city", "retired"}
    assert said["quality"]["pairs"]["tables"] == 3
    run(folder, "audit", "model.json")
    run(folder, "sample", "model.json", "-n", "5", "-o", "more.csv")
    assert "mean log-density" in run(folder, "score", "model.json", "people.parquet").stdout
    private = run(folder, "score", "model.json", "people.parquet", "--epsilon", "1").stdout
    assert "differentially private" in private


def test_an_exact_table_says_so(folder):
    said = run(
        folder, "synth", "people.parquet", "--schema", "schema.toml", "-o", "out.csv", "--exact"
    ).stdout
    assert "nothing here is private" in said


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["synth", "people.csv", "-o", "out.csv"], "--schema says what"),
        (["synth", "people.csv", "--schema", "schema.toml", "-o", "out.npy"], ".npy"),
        (["synth", "people.csv", "--schema", "none.toml", "-o", "out.csv"], "none.toml"),
        (["synth", "people.csv", "--schema", "schema.toml", "-o", "people.csv"], "overwrite"),
        (["fit", "people.csv", "-m", "table", "-o", "m.json"], "needs --schema"),
        (["fit", "people.csv", "-m", "table", "--schema", "schema.toml", "--columns", "age", "-o",
          "m.json"], "a schema says"),
    ],
)  # fmt: skip
def test_bad_usage_is_refused(folder, words, why):
    assert why in run(folder, *words, code=2).output


def test_noise_from_peoples_own_devices(folder):
    said = json.loads(
        run(
            folder, "fit", "people.csv", "-m", "table", "--header", "--schema", "schema.toml",
            "--trust", "local", "--target", "retired", "-o", "model.json", "--json",
        ).stdout
    )  # fmt: skip
    assert said["privacy"]["trust"] == "local"


def test_bounds_and_categories_that_a_schema_leaves_open(folder):
    n = 6000
    age = RNG.integers(18, 90, n)
    people = pl.DataFrame({"age": age, "city": RNG.choice(["Bonn", "Cork"], n)})
    people.write_parquet(folder / "more.parquet")
    draft = run(folder, "schema", "more.parquet").stdout
    assert "a private fit finds them, out of its budget" in draft
    open_ = draft.replace(', bounds = "?"', "").replace('categories = "?"', 'type = "str"')
    (folder / "open.toml").write_text(open_.replace('missing = "?"', "missing = false"))
    said = json.loads(
        run(
            folder, "synth", "more.parquet", "--schema", "open.toml", "-o", "out.csv", "--json",
            "--epsilon", "4", "--model-file", "model.json",
        ).stdout
    )  # fmt: skip
    assert said["quality"]["pairs"]["tables"] == 1
    assert "estimated from noisy histograms" in said["statement"]
    assert set(pl.read_csv(folder / "out.csv")["city"]) <= {"Bonn", "Cork", "other"}
    run(folder, "audit", "model.json")
    people.head(50).write_parquet(folder / "few.parquet")
    few = run(folder, "synth", "few.parquet", "--schema", "open.toml", "-o", "out.csv", code=3)
    assert "too few to find bounds of column age" in few.stderr
    assert "give bounds in the schema" in few.stderr
