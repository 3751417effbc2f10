"""privem plan, and the forecast of privem fit."""

import json
from dataclasses import replace

import click
import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner

import privem
from privem.cli import app, planning

# Forecasts are switched off for other tests of the command line.
FORECASTS = True
BOUNDS = ["--bound", "a=-20:20", "--bound", "b=-20:20"]


def run(*arguments, code=0):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == code, result.output
    return result


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(c, 1, (2000, 2)) for c in (-5, 5)])
    many = pl.DataFrame(X, schema=["a", "b"])
    many.write_csv(folder / "many.csv")
    many[:60].write_csv(folder / "few.csv")
    np.save(folder / "few.npy", X[:60])
    return folder


@pytest.fixture
def ledger(tmp_path):
    ledger = privem.Ledger(tmp_path / "b.db", dataset="x", budget=privem.Budget(3.0, 1e-5))
    yield ledger
    ledger.close()


def test_a_plan_is_the_librarys(tmp_path):
    asked = ["plan", "--rows", 5000, "--features", 2, "-k", 2, "--epsilon", 0.5, "--bounded"]
    asked += ["--rehearsals", 1]
    found = json.loads(run(*asked, "-m", "kmeans", "--json").stdout)
    model = privem.KMeans(2, epsilon=0.5, bounds=1.0)
    assert found == json.loads(json.dumps(privem.plan(model, 5000, 2, rehearsals=1).to_dict()))


def test_a_plan_is_printed_and_drawn(tmp_path):
    pytest.importorskip("matplotlib")
    picture = tmp_path / "plan.png"
    asked = ["plan", "-n", 500, "-d", 2, "-m", "symmetric", "--bounded", "--picture", picture]
    asked += ["--rehearsals", 1]
    said = run(*asked).stdout
    assert "loss against exact EM" in said
    assert "From 1 rehearsal on made-up records" in said
    assert said.endswith(f"Drew {picture}\n")
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["-n", 100, "-d", 2], "needs --components"),
        (["-n", 100, "-k", 2], "--features"),
        (["-d", 2, "-k", 2], "--rows"),
        (["-n", 100, "-d", 2, "-m", "symmetric", "-k", 2], "not for --model symmetric"),
        (["-n", 100, "-d", 2, "-k", 2, "--epsilon", -1], "epsilon"),
        (["-n", 100, "-d", 2, "-k", 2, "--picture", "a.txt"], "must end in .png"),
    ],
)
def test_what_makes_no_sense_is_refused(options, words):
    assert words in run("plan", *options, code=2).stderr


def test_a_fit_is_forecast_in_one_line(folder, tmp_path):
    result = run("fit", folder / "many.csv", "-o", tmp_path / "m.json", "-k", 2, *BOUNDS)
    (line,) = [line for line in result.stderr.splitlines() if "forecast" in line]
    assert line.startswith("note: forecast for about ")
    assert "worse than exact EM" in line
    assert "about less" not in line
    assert privem.load(tmp_path / "m.json").structure_ == "full"


@pytest.mark.parametrize("quiet", ["--json", "--quiet"])
def test_a_program_is_told_nothing_of_it(folder, tmp_path, quiet):
    model = tmp_path / "m.json"
    result = run("fit", folder / "many.csv", "-o", model, "-k", 2, *BOUNDS, quiet)
    assert "forecast" not in result.stderr
    assert model.exists()


def test_what_is_useless_needs_a_yes_and_costs_the_count_alone(folder, tmp_path, ledger):
    model = tmp_path / "m.json"
    # However far noise may lead the count astray, they are too few for eight components.
    asked = ["fit", folder / "few.csv", "-o", model, "-k", 8, *BOUNDS]
    asked += ["--ledger", f"{tmp_path / 'b.db'}#x"]
    said = run(*asked, code=2).stderr
    assert "not fitted, only the count has been spent (epsilon " in said
    assert "--yes" in said
    assert not model.exists()
    (entry,) = ledger.history()
    assert entry.statement is None
    run(*asked, "--yes")
    assert privem.load(model).structure_ == "single"
    whole = ledger.history()[1]
    assert 0 < entry.part < 0.02 * whole.part  # a hundredth is for the count
    # What the message says of the count is what a statement would.
    statement = privem.load(model).privacy_
    alone = replace(statement, releases=statement.releases[:1])
    assert statement.releases[0].name == "count"
    assert f"(epsilon {alone.recount():.2g} at delta 1e-06)" in said


def test_with_rows_nothing_is_spent(folder, tmp_path, ledger):
    asked = ["fit", folder / "few.csv", "-o", tmp_path / "m.json", "-k", 2, *BOUNDS]
    said = run(*asked, "--rows", 60, "--ledger", f"{tmp_path / 'b.db'}#x", code=2).stderr
    assert "not fitted, nothing has been spent" in said
    assert not ledger.history()


def test_of_several_numbers_the_fewest_is_forecast(folder, tmp_path, ledger):
    model = tmp_path / "m.json"
    result = run("fit", folder / "many.csv", "-o", model, "-k", "1..2", *BOUNDS)
    assert "note: with the fewest, 1: forecast for about " in result.stderr
    few = ["fit", folder / "few.csv", "-o", tmp_path / "few.json", "-k", "6..8", *BOUNDS]
    few += ["--ledger", f"{tmp_path / 'b.db'}#x"]
    assert "not fitted, nothing has been spent" in run(*few, "--rows", 60, code=2).stderr
    assert not ledger.history()
    assert "not fitted, only the count has been spent" in run(*few, code=2).stderr
    (entry,) = ledger.history()
    assert entry.state == "released"
    assert entry.what.releases[0] == "count"
    assert 0 < entry.part < 0.02


def test_a_public_number_of_records_is_used(folder, tmp_path):
    asked = ["fit", folder / "few.npy", "-o", tmp_path / "m.json", "-k", 2]
    said = run(*asked, "--neighbours", "replace-one", code=2).stderr
    assert "not fitted, nothing has been spent" in said
    assert "forecast for about 60 records" in said


@pytest.mark.parametrize("answer", [True, False])
def test_a_terminal_is_asked(folder, tmp_path, monkeypatch, answer):
    monkeypatch.setattr(planning, "_asks", lambda: True)
    monkeypatch.setattr(click, "confirm", lambda *words, **more: answer)
    model = tmp_path / "m.json"
    asked = ["fit", folder / "few.csv", "-o", model, "-k", 2, *BOUNDS, "--rows", 60]
    result = run(*asked, code=0 if answer else 2)
    assert model.exists() == answer
    assert ("not fitted, nothing has been spent" in result.stderr) != answer


def test_an_exact_fit_has_no_forecast(folder, tmp_path):
    asked = ["fit", folder / "few.csv", "-o", tmp_path / "m.json", "-k", 2, "--exact"]
    assert "forecast" not in run(*asked).stderr
    assert "for the forecast of private fits" in run(*asked, "--yes", code=2).stderr


def test_a_fit_is_not_lost_over_a_forecast_that_fails(folder, tmp_path, monkeypatch):
    def fails(*arguments, **more):
        raise RuntimeError("out of luck")

    monkeypatch.setattr(planning, "plan", fails)
    asked = ["fit", folder / "few.csv", "-o", tmp_path / "m.json", "-k", 2, *BOUNDS]
    assert "no forecast: out of luck" in run(*asked).stderr
    assert (tmp_path / "m.json").exists()
