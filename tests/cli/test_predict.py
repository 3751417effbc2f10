"""``privem predict``, and ``--exclude``: the real commands, in processes of their own."""

import json
import os
import subprocess
import sys

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner

import privem
from privem.cli import app
from privem.declaration import declarations

MODELS = {each.command: each for each in declarations()}
PREDICTING = [name for name, each in MODELS.items() if hasattr(each.estimator, "predict")]


def spawn(*words, code=0):
    """Run in a process of its own, as a person would."""
    result = subprocess.run(
        [sys.executable, "-m", "privem.cli", *map(str, words)],
        text=True,
        timeout=120,
        env=os.environ | {"COLUMNS": "80"},
        capture_output=True,
        check=False,
    )
    assert result.returncode == code, result.stderr
    return result


def run(*words, code=0):
    """Run in this process, which is quicker."""
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == code, (result.output, result.exception)
    return result


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Exact models of every kind that predicts, and their rows."""
    folder = tmp_path_factory.mktemp("predict")
    for name in PREDICTING:
        example = MODELS[name].example()
        X, *y = example.data
        frame = X if isinstance(X, pl.DataFrame) else None
        if frame is None and hasattr(X, "iloc"):
            frame = pl.DataFrame({column: X[column].to_list() for column in X})
        if frame is None:
            frame = pl.DataFrame({f"c{j}": column for j, column in enumerate(np.asarray(X).T)})
        arguments = dict(example.arguments) | {"epsilon": None}
        model = MODELS[name].estimator(**arguments).fit(frame, *y)
        model.save(folder / f"{name}.json")
        frame.write_parquet(folder / f"{name}.parquet")
    return folder


@pytest.mark.parametrize("name", PREDICTING)
def test_every_model_that_predicts_writes_its_predictions(folder, tmp_path, name):
    model, data, out = folder / f"{name}.json", folder / f"{name}.parquet", tmp_path / "x.csv"
    said = run("predict", model, data, "-o", out)
    assert said.stdout.startswith("Wrote ")
    assert "not private" in said.stderr
    rows, fitted = pl.read_parquet(data), privem.load(model)
    expected = fitted.predict(rows)
    found = pl.read_csv(out)
    np.testing.assert_allclose(found.to_series(0).to_numpy(), expected, rtol=1e-12)
    words = ["predict", model, data, "-o", tmp_path / "p.parquet", "--proba"]
    if not hasattr(fitted, "predict_proba"):
        assert "predict probabilities" in run(*words, code=2).stderr
        return
    assert json.loads(run(*words, "--json").stdout)["private"] is False
    each = pl.read_parquet(tmp_path / "p.parquet")
    assert each.columns == ["label", *(f"p{k}" for k in range(each.width - 1))]
    np.testing.assert_allclose(each.drop("label").to_numpy(), fitted.predict_proba(rows))


def test_models_that_do_not_predict_say_so(tmp_path):
    X = np.random.default_rng(0).normal(size=(50, 3))
    privem.FactorAnalysis(1, epsilon=None).fit(X).save(tmp_path / "fa.json")
    np.save(tmp_path / "x.npy", X)
    said = run("predict", tmp_path / "fa.json", tmp_path / "x.npy", code=2).stderr
    assert "models predict labels; a fa model does not" in " ".join(said.split())


def test_labels_go_to_standard_output_and_remarks_do_not(folder):
    data = folder / "gmm.parquet"
    result = spawn("predict", folder / "gmm.json", data)
    header, *labels = result.stdout.splitlines()
    assert header == "label"
    assert len(labels) == len(pl.read_parquet(data))
    assert "not private" in " ".join(result.stderr.split())
    assert "--json needs --output" in spawn(
        "predict", folder / "gmm.json", data, "--json", code=2
    ).stdout  # fmt: skip


def test_a_table_model_predicts_a_column(tmp_path):
    rng = np.random.default_rng(0)
    age = rng.integers(18, 90, 2000)
    people = pl.DataFrame({"age": age, "city": rng.choice(["Bonn", "Cork"], 2000)})
    people = people.with_columns(retired=pl.Series(age > 65))
    people.write_csv(tmp_path / "people.csv")
    schema = {"age": (int, 18, 90), "city": ["Bonn", "Cork"], "retired": bool}
    model = privem.TableMixture(schema=schema, target="retired", epsilon=8.0, random_state=0)
    model.fit(people).save(tmp_path / "m.json")
    # The column itself need not be there.
    people.drop("retired").write_csv(tmp_path / "new.csv")
    predict = ["predict", tmp_path / "m.json", tmp_path / "new.csv", "--header", "-o"]
    spawn(*predict, tmp_path / "y.parquet", "--proba")
    found = pl.read_parquet(tmp_path / "y.parquet")
    assert found.columns == ["retired", "retired=False", "retired=True"]
    assert found.schema["retired"] == pl.Boolean
    assert (found["retired"] == people["retired"]).mean() > 0.9
    run(*predict, tmp_path / "z.csv", "--target", "city")
    assert set(pl.read_csv(tmp_path / "z.csv")["city"]) <= {"Bonn", "Cork"}
    assert "is no column" in run(*predict, tmp_path / "z.csv", "--target", "x", code=2).stderr


@pytest.mark.parametrize("output", ["gmm.parquet", "gmm.json"])
def test_nothing_that_is_read_is_overwritten(folder, output):
    words = ["predict", folder / "gmm.json", folder / "gmm.parquet", "-o", folder / output]
    assert run(*words, code=2).stderr


# --exclude


@pytest.fixture
def people(tmp_path):
    rng = np.random.default_rng(1)
    frame = pl.DataFrame(
        {
            "id": [f"p{i}" for i in range(300)],
            "age": rng.normal(40, 9, 300),
            "height": rng.normal(170, 9, 300),
            "site": rng.choice(["a", "b"], 300),
        }
    )
    frame.write_csv(tmp_path / "people.csv")
    frame.write_parquet(tmp_path / "people.parquet")
    return tmp_path


@pytest.mark.parametrize("name", ["people.csv", "people.parquet"])
def test_columns_are_left_out(people, name):
    out = people / "m.json"
    words = ["fit", people / name, "-k", 1, "-o", out, "-q", "--exclude", "id", "--exclude", "site"]
    spawn(*words, "--bound", "age=0:120", "--bound", "height=100:230")
    assert privem.load(out).feature_names_in_.tolist() == ["age", "height"]
    run(*words, "--exact")


def test_categories_are_left_out(people):
    out = people / "m.json"
    left_out = [word for name in ("id", "age", "height") for word in ("--exclude", name)]
    words = ["fit", people / "people.csv", "-m", "categorical", "-k", 1, "-o", out, "-q"]
    run(*words, *left_out, "--category", "site=a,b")
    assert privem.load(out).feature_names_in_.tolist() == ["site"]


def test_columns_of_a_schema_are_left_out(people):
    columns = {"age": (0.0, 120.0), "height": (100.0, 230.0), "site": ["a", "b"], "id": None}
    privem.Schema(columns).write(people / "schema.toml")
    words = ["synth", people / "people.parquet", "--schema", people / "schema.toml", "-q"]
    spawn(*words, "-o", people / "out.csv", "--exclude", "height")
    assert pl.read_csv(people / "out.csv").columns == ["age", "site"]
    # An exact fit may have no schema.
    fit = ["fit", people / "people.parquet", "-m", "table", "--exact", "-o", people / "m.json"]
    run(*fit, "-q", "--exclude", "id", "--exclude", "id")
    assert privem.load(people / "m.json").schema_.names == ["age", "height", "site"]


@pytest.mark.parametrize(
    ("words", "code", "why"),
    [
        (["--exclude", "wage"], 3, "no column 'wage'"),
        (["--exclude", "id", "--columns", "age"], 2, "leave out --exclude"),
        (["--exclude", "id", "--groups", "id"], 2, "is also --weight, --target or --groups"),
    ],
)
def test_what_cannot_be_left_out(people, words, code, why):
    fit = ["fit", people / "people.parquet", "-k", 1, "-o", people / "m.json", *words]
    assert why in " ".join(run(*fit, code=code).stderr.split())


def test_what_cannot_be_left_out_of_a_schema(people):
    privem.Schema({"age": (0.0, 120.0)}).write(people / "schema.toml")
    words = ["synth", people / "people.parquet", "--schema", people / "schema.toml"]
    words += ["-o", people / "out.csv", "--exclude"]
    assert "is no column of the schema" in run(*words, "wage", code=2).stderr
    assert "leaves no column" in run(*words, "age", code=2).stderr


# --components A..B


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["-k", "3..x"], "neither a number nor a range"),
        (["-k", "4..2"], "ranges go upwards"),
        (["-k", "0"], "at least 1"),
        (["-k", "1..3", "--exact"], "give one number with --exact"),
        (["-m", "kmeans", "-k", "1..3"], "takes one number of --components"),
    ],
)
def test_numbers_of_components_that_cannot_be(people, words, why):
    fit = ["fit", people / "people.parquet", "-o", people / "m.json", *words]
    assert why in " ".join(run(*fit, code=2).stderr.split())


def test_the_number_of_components_is_chosen_within_one_budget(people):
    ledger = f"{people / 'budget.db'}#people"
    run("ledger", "init", ledger, "--epsilon", 3, "--delta", "1e-6")
    fit = ["fit", people / "people.parquet", "--columns", "age,height", "-k", "1..3", "--epsilon"]
    fit += [2, "--bound", "age=0:120", "--bound", "height=100:230", "--ledger", ledger]
    said = json.loads(run(*fit, "-o", people / "m.json", "--json").stdout)
    names = [each["name"] for each in said["candidates"]]
    chosen = [each["name"] for each in said["candidates"] if each["status"] == "chosen"]
    assert names == ["1", "2", "3"]
    assert chosen == [str(said["components"])]
    model = privem.load(people / "m.json")
    assert model.n_components == said["components"]
    assert model.privacy_.epsilon == 2.0
    # The noise of differences is said too, and all of it is in the file and on its page.
    noise = said["difference_deviation"]
    assert model.selection_ == {"candidates": said["candidates"], "difference_deviation": noise}
    run("report", people / "m.json", "-o", people / "r.html")
    assert "Chosen from" in (people / "r.html").read_text()
    assert [run.what.model for run in privem.Ledger(ledger).history()] == ["select"]
