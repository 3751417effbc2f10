"""privem ledger, and --ledger of the commands that spend."""

import hashlib
import json
import shutil

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner

import privem
from privem.cli import app

BOUNDS = ["--bound", "a=-4:4", "--bound", "b=-4:4"]


def run(*arguments, code=0, env=None):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], env=env)
    assert result.exit_code == code, result.output
    return result.output


@pytest.fixture
def data(tmp_path):
    rows = np.random.default_rng(0).normal(size=(500, 2))
    path = tmp_path / "people.csv"
    pl.DataFrame(rows, schema=["a", "b"]).write_csv(path)
    return path


@pytest.fixture
def ledger(tmp_path):
    where = f"{tmp_path / 'budget.db'}#cohort"
    run("ledger", "init", where, "--epsilon", 3)
    return where


def test_from_the_first_budget_to_the_last_check(data, ledger, tmp_path):
    model, other = tmp_path / "model.json", tmp_path / "other.json"
    fit = ["fit", data, "-k", 1, *BOUNDS, "--ledger", ledger]
    assert "in the ledger of the data set 'cohort'" in " ".join(run(*fit, "-o", model).split())
    text = run(*fit, "--epsilon", 2.9, "-o", other, code=8)
    assert "too little left of 'cohort'" in text
    assert "would still fit" in text
    assert not other.exists()
    score = ["score", model, data, "--epsilon", 0.3, "--ledger", ledger]
    run(*score)
    shown = json.loads(run("ledger", "show", ledger, "--json"))
    assert 1 < shown["spent"] < shown["budget"]["epsilon"] == 3
    assert shown["runs"] == {"released": 2, "pending": 0, "void": 0, "abandoned": 0}
    text = run("ledger", "show", ledger)
    assert f"epsilon {shown['spent']:.4g} at delta 1e-06" in text
    assert "2 released" in text
    runs = json.loads(run("ledger", "history", ledger, "--json"))["runs"]
    assert [run["model"] for run in runs] == ["GaussianMixture", "private_scores"]
    text = run("ledger", "history", ledger)
    assert all(f" {run['model']} " in text for run in runs)
    assert max(map(len, text.splitlines())) <= 80
    assert " 1 rows" not in text
    assert "5 rows and 1 model verified" in run("ledger", "verify", ledger, model)
    assert run("ledger", "verify", model, env={"PRIVEM_LEDGER": ledger})
    found = json.loads(run("ledger", "verify", ledger, "--json"))
    assert (found["entries"], found["pending"], found["models"]) == (5, [], [])


def test_nobody_hides_entries_from_a_terminal(tmp_path):
    where = f"{tmp_path / 'b.db'}#x\x1b[2J"
    with privem.Ledger(where, None, privem.Budget(3, 1e-6), who="me\x1b[1A\r\n\u202e") as ledger:
        privem.private_mean(np.zeros((50, 1)), tau=1.0, ledger=ledger)
    for command in ("show", "history", "verify"):
        text = run("ledger", command, where)
        assert all(letter.isprintable() for line in text.split("\n") for letter in line)


def test_a_cut_or_restored_ledger_is_found_by_a_model(data, ledger, tmp_path):
    copy, place, model = tmp_path / "copy.db", tmp_path / "budget.db", tmp_path / "model.json"
    shutil.copy(place, copy)
    fit = ["fit", data, "-k", 1, *BOUNDS, "-q", "-o", model]
    run(*fit, env={"PRIVEM_LEDGER": ledger})
    run("ledger", "verify", ledger, model)
    shutil.copy(copy, place)
    run("ledger", "verify", ledger)
    text = run("ledger", "verify", ledger, model, "--json", code=8)
    error = json.loads(text.splitlines()[0])["error"]
    assert error["kind"] == "ledger"
    assert "older copy was restored" in error["message"]


def test_an_export_can_be_checked_without_privem(data, ledger, tmp_path):
    run("fit", data, "-k", 1, *BOUNDS, "-q", "--ledger", ledger, "-o", tmp_path / "model.json")
    text = run("ledger", "export", ledger)
    assert "Wrote 3 rows" in run("ledger", "export", ledger, "-o", tmp_path / "rows.jsonl")
    assert (tmp_path / "rows.jsonl").read_text() == text
    previous = ""
    for line in map(json.loads, text.splitlines()):
        assert hashlib.sha256(line["body"].encode()).hexdigest() == line["hash"]
        body = json.loads(line["body"])
        assert body["previous"] == previous
        previous = line["hash"]


def test_dead_runs_are_abandoned(data, ledger, monkeypatch, tmp_path):
    def settle(*args):
        raise privem.LedgerError("out of luck")

    with monkeypatch.context() as now:
        now.setattr(privem.Ledger, "settle", settle)
        out = tmp_path / "model.json"
        text = run("fit", data, "-k", 1, *BOUNDS, "--ledger", ledger, "-o", out)
        assert "Entry 1 of the ledger stays as it is" in " ".join(text.split())
    assert "pending: 1" in run("ledger", "verify", ledger)
    assert "entry 1: abandoned" in run("ledger", "abandon", ledger, 1)
    assert "1 abandoned" in run("ledger", "show", ledger)
    assert "abandoned already" in run("ledger", "abandon", ledger, 1, code=8)


def test_what_is_refused(data, ledger, tmp_path):
    where = tmp_path / "budget.db"
    said = run("ledger", "init", where, "--epsilon", 1, code=2)
    assert f"name a file and the data set, as in {where}#cohort-2026" in said
    (tmp_path / "a#b").mkdir()
    lost = tmp_path / "a#b" / "c.db"
    assert f"as in {lost}#cohort-2026" in run("ledger", "init", lost, "--epsilon", 1, code=2)
    assert "as in budget.db#x" in run("ledger", "init", "#x", "--epsilon", 1, code=2)
    assert "cannot be changed" in run("ledger", "init", ledger, "--epsilon", 1, code=2)
    assert "must be at most 30" in run("ledger", "init", f"{where}#x", "--epsilon", 99, code=2)
    assert "there is no ledger" in run("ledger", "show", tmp_path / "none.db", code=8)
    assert "Nothing has been spent on cohort" in run("ledger", "history", ledger)
    assert "name the ledger" in run("ledger", "verify", code=2)
    out = ["-o", tmp_path / "model.json"]
    fit = ["fit", data, "-k", 1, "--ledger", ledger, *out]
    assert "--ledger is for private fits" in run(*fit, "--exact", code=2)
    run("fit", data, "-k", 1, "--exact", "-q", *out)
    assert "fitted exactly" in run("ledger", "verify", ledger, tmp_path / "model.json", code=2)
    score = ["score", tmp_path / "model.json", data, "--ledger", ledger]
    assert "--ledger is for private scores" in run(*score, code=2)
    persons = f"{where}#persons"
    run("ledger", "init", persons, "--epsilon", 1, "--unit", "person")
    text = run("fit", data, "-k", 1, *BOUNDS, "--ledger", persons, *out, code=8)
    assert "with --groups COLUMN" in " ".join(text.split())
    elsewhere = ["fit", data, "-k", 1, *BOUNDS, "--ledger", "mysql://host/db", *out]
    assert "SQLite or PostgreSQL, not mysql" in " ".join(run(*elsewhere, code=2).split())


def test_a_history_has_room_for_everything(data, ledger, tmp_path):
    """Who ran something may be long, and nothing else is broken for it."""
    who = "anna.katharina@statistics.example"
    with privem.Ledger(ledger, who=who) as found:
        model = privem.MissingCovariateRegression(
            bounds=4.0, target_bounds=4.0, epsilon=0.5, ledger=found
        )
        rows = np.random.default_rng(0).normal(size=(500, 2))
        model.fit(rows, rows[:, 0])
    head, _, *lines = run("ledger", "history", ledger).splitlines()
    assert head.split() == ["no", "when", "(UTC)", "what", "epsilon", "state", "charged", "who"]
    at = head.index("who")
    assert "".join(line[at:].strip() for line in lines) == who
    assert " MissingCov" in lines[0]
    assert " released " in lines[0]
    assert max(map(len, [head, *lines])) <= 80
    run(
        "fit",
        data,
        "-k",
        1,
        *BOUNDS,
        "--ledger",
        ledger,
        "--delta",
        1e-7,
        "-q",
        "-o",
        tmp_path / "m.json",
    )
    assert "delta" in run("ledger", "history", ledger).splitlines()[0]


@pytest.mark.parametrize("command", ["show", "history", "verify", "export", "init"])
@pytest.mark.parametrize("name", ["mysql://host/x#y", "#cohort"])
def test_a_name_that_cannot_be_a_ledger_is_bad_usage(command, name):
    options = ["--epsilon", 1] if command == "init" else []
    said = " ".join(run("ledger", command, name, *options, code=2).split())
    assert "unexpected" not in said
    assert "not mysql" in said or "path" in said or "budget.db#cohort" in said


def test_a_report_with_such_a_name_is_bad_usage(data, tmp_path):
    run("fit", data, "-k", 1, *BOUNDS, "-q", "-o", tmp_path / "m.json")
    page = ["report", tmp_path / "m.json", "-o", tmp_path / "m.html", "--ledger", "mysql://h/x#y"]
    assert "not mysql" in run(*page, code=2)


def test_tables_are_charged(ledger, tmp_path):
    data, out = tmp_path / "table.csv", tmp_path / "synthetic.csv"
    pl.DataFrame({"pet": ["cat", "dog"] * 200}).write_csv(data)
    schema = tmp_path / "schema.toml"
    schema.write_text('[columns]\npet = {categories = ["cat", "dog"]}\n')
    run("synth", data, "--schema", schema, "-o", out, "--ledger", ledger, "-q")
    assert "1 released" in run("ledger", "show", ledger)
