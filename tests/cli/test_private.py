"""Private fits at the command line: the statement is shown and saved, and nothing unpaid is."""

from __future__ import annotations

import json
import re

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import privem
from privem.cli import app

BOUNDS = ["--bound", "age=0:110", "--bound", "income=0:400"]


@pytest.fixture
def people(tmp_path):
    rng = np.random.default_rng(0)
    old = np.column_stack([rng.normal(70, 5, 700), rng.normal(30, 5, 700)])
    young = np.column_stack([rng.normal(30, 5, 1321), rng.normal(50, 9, 1321)])
    path = tmp_path / "people.parquet"
    pl.DataFrame(np.vstack([old, young]), schema=["age", "income"]).write_parquet(path)
    return path


def run(*arguments, code=0):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == code, result.output
    return result.output


@pytest.mark.parametrize("kind", ["gmm", "kmeans", "fa"])
def test_a_private_fit_says_and_saves_its_statement(people, tmp_path, kind):
    model = tmp_path / "m.json"
    fit = ["fit", people, "-m", kind, "-k", 2, "-o", model, "--epsilon", 2, "--delta", 1e-5]
    text = " ".join(run(*fit, *BOUNDS).split())
    loaded = privem.load(model)
    assert "(2, 1e-05)-differentially private" in text
    assert "[0, 110]" in text
    assert "nothing here is private" not in text
    assert str(loaded.privacy_) in text
    assert loaded.privacy_.recount() <= 2.0
    # The number of rows, exact results and times are not in what was released.
    assert not re.search(r"(?<![\d.])2,?021(?![\d.])", text)
    summary = json.loads(run(*fit, *BOUNDS, "--json"))
    assert summary["private"] is True
    assert summary["privacy"]["epsilon"] == 2.0
    unpaid = {"rows", "total_weight", "seconds", "converged", "inertia", "shares"}
    assert not unpaid & set(summary)
    assert not any(key.startswith("mean_log") for key in summary)


@pytest.mark.parametrize("kind", ["gmm", "kmeans", "fa"])
def test_nothing_said_is_epsilon_one(people, tmp_path, kind):
    model = tmp_path / "m.json"
    fit = ["fit", people, "-m", kind, "-k", 2, "-o", model]
    text = " ".join(run(*fit).split())
    statement = privem.load(model).privacy_
    assert (statement.epsilon, statement.delta, statement.neighbours) == (1.0, 1e-6, "add-remove")
    assert str(statement) in text
    summary = json.loads(run(*fit, "--json"))
    assert (summary["private"], summary["epsilon"], summary["delta"]) == (True, 1.0, 1e-6)
    assert summary["statement"] == str(privem.load(model).privacy_)
    run("audit", model)


@pytest.mark.parametrize("kind", ["gmm", "kmeans", "fa"])
def test_exact_has_to_be_asked_for_and_says_what_it_is(people, tmp_path, kind):
    model = tmp_path / "m.json"
    fit = ["fit", people, "-m", kind, "-k", 2, "-o", model, "--exact"]
    assert "exact fit: nothing here is private" in run(*fit)
    assert not hasattr(privem.load(model), "privacy_")
    assert privem.load(model).epsilon is None
    summary = json.loads(run(*fit, "--json"))
    assert summary["private"] is False
    assert summary["statement"].startswith("exact fit: nothing here is private")
    assert "privacy" not in summary


def test_bounds_of_columns_without_names(people, tmp_path):
    np.save(tmp_path / "x.npy", pl.read_parquet(people).to_numpy())
    model = tmp_path / "m.json"
    fit = ["fit", tmp_path / "x.npy", "-k", 2, "-o", model]
    run(*fit, "--bound", "x0=0:110", "--bound", "x1=0:400", "-q")
    np.testing.assert_array_equal(privem.load(model).bounds_, [[0, 0], [110, 400]])
    run(*fit, "--bound", "age=0:110", code=2)


def test_a_single_gaussian_is_called_one(people, tmp_path):
    fit = ["fit", people, "-k", 2, "-o", tmp_path / "m.json", *BOUNDS]
    assert "no more than one Gaussian" in run(*fit, "--epsilon", 0.001)
    assert "structure              full" in run(*fit, "--epsilon", 50)


def test_missing_values_in_a_file_pass_silently(tmp_path):
    values = np.random.default_rng(1).normal(size=(500, 2))
    values[7, 1], values[9, 0] = np.nan, np.inf
    pl.DataFrame(values, schema=["a", "b"]).write_parquet(tmp_path / "x.parquet")
    fit = ["fit", tmp_path / "x.parquet", "-k", 2, "-o", tmp_path / "m.json"]
    assert "NaN" not in run(*fit, "--epsilon", 1, "--bound", "a=-5:5", "--bound", "b=-5:5")
    assert "row 7" in run(*fit, "--exact", code=3)  # an exact fit says so


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--epsilon", 0], "epsilon must be above 0"),
        (["--epsilon", "nan"], "epsilon must be above 0"),
        (["--epsilon", 1, "--delta", 2], "delta must be below 1"),
        (["--epsilon", 1, "--bound", "age=0:110"], "every column fitted or for none"),
        (["--epsilon", 1, "--bound", "age=9:1", "--bound", "income=0:1"], "LOW below HIGH"),
        (["--epsilon", 1, "--bound", "age"], "COLUMN=LOW:HIGH"),
        (["--n-init", 3], "n_init"),
        (["--exact", "--epsilon", 1], "leave one of them out"),
        (["--exact", "--delta", 1e-6], "--delta is for private fits"),
        (["--exact", "--bound", "age=0:110"], "--bound is for private fits"),
        (["--exact", "--neighbours", "add-remove"], "--neighbours is for private fits"),
        (["--exact", "--n-iter", 3], "--n-iter is for private fits"),
        (["--max-iter", 3, "--n-iter", 4], "n_iter=4 is above max_iter=3"),
        (["--tol", 0.1, "-m", "kmeans"], "--tol is for exact fits"),
        (["-m", "fa", "--n-iter", 3], "--n-iter is for gmm, kmeans, symmetric"),
    ],
)
def test_bad_terms_are_refused(people, tmp_path, options, words):
    model = tmp_path / "m.json"
    assert words in " ".join(run("fit", people, "-k", 2, "-o", model, *options, code=2).split())
    assert not model.exists()


def test_audit_recounts_a_model_file(people, tmp_path):
    model = tmp_path / "m.json"
    run("fit", people, "-k", 2, "-o", model, "--epsilon", 1, *BOUNDS, "-q")
    report = json.loads(run("audit", model, "--json"))
    assert report["passed"] is True
    # A statement that claims less than its releases cost does not pass.
    loaded = privem.load(model)
    fields = loaded.privacy_.to_dict()
    loaded.privacy_ = type(loaded.privacy_).from_dict(fields | {"epsilon": 0.5, "spent": 0.5})
    loaded.save(model)
    assert json.loads(run("audit", model, "--json", code=6))["passed"] is False


def test_audit_of_an_exact_model_fails(people, tmp_path):
    model = tmp_path / "m.json"
    run("fit", people, "-k", 2, "-o", model, "-q", "--exact")
    run("audit", model, code=6)
    run("audit", tmp_path / "absent.json", code=4)


def test_a_private_fit_neither_counts_its_rows_nor_minds_having_none(people, tmp_path, monkeypatch):
    def refuse(self, rows):
        raise AssertionError(f"{rows} rows were about to be shown")

    monkeypatch.setattr("privem.cli.progress.FitProgress.seen", refuse)
    model = tmp_path / "m.json"
    run("fit", people, "-k", 2, "-o", model, "--epsilon", 1, *BOUNDS)
    pl.read_parquet(people).clear().write_parquet(tmp_path / "none.parquet")
    run("fit", tmp_path / "none.parquet", "-k", 2, "-o", model, "--epsilon", 1, *BOUNDS)
    run("fit", tmp_path / "none.parquet", "-k", 2, "-o", model, "--exact", code=3)  # minds
