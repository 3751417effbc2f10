"""Private fits at the command line: the statement is shown and saved, and nothing unpaid is."""

from __future__ import annotations

import json
import re

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner

import privem
from privem.accounting import ACCOUNTANTS
from privem.audit.report import AuditReport, Finding
from privem.cli import app
from privem.cli.console import numbers, show
from privem.cli.summary import audit_text
from privem.estimator.measured import rounded

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
    fit = ["fit", people, "-m", kind, "-k", 2, "-o", model, *BOUNDS]
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
    assert "single: one component in place of all" in run(*fit, "--epsilon", 0.001)
    assert "structure              full" in run(*fit, "--epsilon", 50)


@pytest.mark.parametrize("kind", ["gmm", "kmeans"])
def test_delta_zero_is_pure(people, tmp_path, kind):
    model = tmp_path / "pure.json"
    fit = ["fit", people, "-m", kind, "-k", 2, "-o", model, "--epsilon", 4, "--delta", 0]
    summary = json.loads(run(*fit, "--max-rows", 100_000, *BOUNDS, "--json"))
    assert summary["delta"] == 0
    assert "(4, 0)-differentially private" in summary["statement"]
    groups = [group for release in summary["privacy"]["releases"] for group in release["groups"]]
    assert {group["kind"] for group in groups} == {"laplace"}
    assert "passed" in run("audit", model)
    assert "--max-rows is for gmm and kmeans" in run(
        "fit", people, "-m", "fa", "-k", 1, "-o", model, "--max-rows", 9, code=2
    )


def test_missing_values_in_a_file_are_refused_without_a_word_where(tmp_path):
    values = np.random.default_rng(1).normal(size=(500, 2))
    values[7, 1], values[9, 0] = np.nan, np.inf
    pl.DataFrame(values, schema=["a", "b"]).write_parquet(tmp_path / "x.parquet")
    fit = ["fit", tmp_path / "x.parquet", "-k", 2, "-o", tmp_path / "m.json"]
    text = run(*fit, "--bound", "a=-5:5", "--bound", "b=-5:5", code=3)
    assert "Input X contains NaN" in text
    assert not re.search(r"\d", text)
    assert "row 7" in run(*fit, "--exact", code=3)  # an exact fit says so


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--epsilon", 0], "epsilon must be above 0"),
        (["--epsilon", "nan"], "epsilon must be above 0"),
        (["--epsilon", 1, "--delta", 2], "delta must be below 1"),
        (["--delta", 0, "--max-rows", 5000], "--delta 0 needs --bound for every column"),
        (["--delta", 0, "--neighbours", "replace-one", *BOUNDS], "and --max-rows"),
        (["--delta", 0, *BOUNDS], "delta=0 needs max_rows here"),
        (["--delta", 0, "--mechanism", "ggg", *BOUNDS], "Gaussian noise needs a delta above 0"),
        (["--epsilon", 1, "--bound", "age=0:110"], "every column fitted or for none"),
        (["--epsilon", 1, "--bound", "age=9:1", "--bound", "income=0:1"], "LOW below HIGH"),
        (["--epsilon", 1, "--bound", "age"], "COLUMN=LOW:HIGH"),
        (["--bound", "age=0:110", "--bound", "age=0:99"], "there is a bound of 'age' already"),
        (["--epsilon", 1e9], "epsilon is too large"),
        (["--mechanism", "laplace", "--accountant", "gdp"], "does not fit mechanism='laplace'"),
        (["--n-init", 3], "n_init"),
        (["--exact", "--epsilon", 1], "leave one of them out"),
        (["--exact", "--delta", 1e-6], "--delta is for private fits"),
        (["--exact", "--bound", "age=0:110"], "--bound is for private fits"),
        (["--exact", "--neighbours", "add-remove"], "--neighbours is for private fits"),
        (["--exact", "--n-iter", 3], "--n-iter is for private fits"),
        (["--max-iter", 3, "--n-iter", 4], "n_iter=4 is above max_iter=3"),
        (["--tol", 0.1, "-m", "kmeans"], "--tol is for exact fits"),
        (["-m", "fa", "--n-iter", 3], "--n-iter is for categorical, gmm, kmeans, missing"),
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


def test_releases_that_are_alike_take_one_line(people, tmp_path):
    model = tmp_path / "m.json"
    run("fit", people, "-k", 2, "-o", model, "--n-iter", 7, *BOUNDS, "-q")
    text = run("audit", model)
    assert text.count("release EM") == 1
    assert "release EM 1 / moments to EM 7 / moments: 7 releases, multipliers" in text
    names = [finding["name"] for finding in json.loads(run("audit", model, "--json"))["findings"]]
    assert sum(name.startswith("release EM ") for name in names) == 7


def test_what_an_audit_finds_wrong_keeps_its_line():
    releases = [
        Finding(f"release EM {i} / sums", i != 3, "so", {"multiplier": i}) for i in range(5)
    ]
    text = audit_text(AuditReport("m.json", [*releases, Finding("terms", False, "odd")]))
    assert "FAILED (2 of 6 checks)" in text
    assert "FAIL  release EM 3 / sums: so" in text
    assert "EM 0 / sums to EM 4 / sums: 4 releases, multipliers 0 to 4" in text
    assert "FAIL  terms: odd" in text


def test_warnings_are_notes_in_the_words_of_the_command_line(people, tmp_path, recwarn):
    fit = ["fit", people, "-k", 2, "-o", tmp_path / "m.json"]
    text = run(*fit, "--delta", 0.1, *BOUNDS)
    assert text.count("note: delta=0.1 is large") == 1
    text = " ".join(run(*fit, "--epsilon", 0.001, *BOUNDS).split())
    assert "all of them are one Gaussian; use more" in text
    assert not recwarn.list


def test_bounds_that_are_not_found_end_the_command(people, tmp_path):
    fit = ["fit", people, "-k", 2, "-o", tmp_path / "m.json", "--epsilon", 0.1]
    text = " ".join(run(*fit, code=3).split())
    assert "too few to find bounds of columns age, income" in text
    assert "give --bound COLUMN=LOW:HIGH" in text
    assert "cost epsilon = 0.0" in text
    assert not (tmp_path / "m.json").exists()


def test_too_many_components_for_the_memory_are_no_bug_of_ours(people, tmp_path, monkeypatch):
    def full(*_):
        raise MemoryError

    monkeypatch.setattr("privem.cli.fit.fit_file", full)
    text = run("fit", people, "-k", 2, "-o", tmp_path / "m.json", code=2)
    assert "not enough memory: fewer components" in text


def test_a_weight_of_nothing_is_shown_as_0(capsys):
    show(*numbers("k", ["0", "1"], ["weight", "tiny"], [[1.0, 3e-200], [1.839e-257, 1e-200]]))
    shown = capsys.readouterr().out
    assert "1.839e-257" not in shown
    assert re.search(r"^1 +0 +1e-200$", shown, re.MULTILINE)


def test_numbers_have_the_digits_that_mean_something(people, tmp_path, capsys):
    values, errors = [[0.123456, 48353.91], [0.5, -3.0]], [[0.0123, 1743.0], [0.0, 1e308]]
    show(*numbers("k", ["0", "1"], ["weight", "income"], values, errors))
    shown = capsys.readouterr().out
    assert re.search(r"^0 +0\.123 ± 0\.012 +48,400 ± 1,700$", shown, re.MULTILINE)
    assert re.search(r"^1 +0\.5 +-3 ± 1e\+308$", shown, re.MULTILINE)
    fit = ["fit", people, "-m", "kmeans", "-k", 2, "-o", tmp_path / "m.json"]
    text = run(*fit, *BOUNDS)
    model = privem.load(tmp_path / "m.json")
    one = rounded(model.cluster_centers_[0, 0], model.uncertainty()["cluster_centers_"][0, 0])
    assert " ± ".join(one) in text
    assert "±" not in run(*fit, "--exact")


def test_help_names_every_accountant():
    text = re.sub(r"\s+", " ", run("fit", "--help").replace("-\n", "-"))
    text = text.replace("- ", "-")
    assert all(name in text for name in ACCOUNTANTS)


@pytest.mark.parametrize("kind", ["gmm", "fa"])
def test_a_private_score(people, tmp_path, kind):
    model = tmp_path / "m.json"
    run("fit", people, "-m", kind, "-k", 1, "-o", model, "-q", *BOUNDS)
    score = ["score", model, people, "--epsilon", 5]
    found = json.loads(run(*score, "--delta", 1e-5, "--json"))
    assert found["private"] is True
    assert (found["privacy"]["epsilon"], found["privacy"]["delta"]) == (5.0, 1e-5)
    # Noise of this deviation leaves 8 of them with a probability below 1e-14; clipping at the
    # limits moves a mean by little.
    exact = privem.load(model).score(people)
    assert abs(found["mean_log_density"] - exact) < 8 * found["deviation"] + 0.1
    assert not {"rows", "total_weight"} & set(found)
    text = " ".join(run(*score).split())
    assert "deviation of its noise" in text
    assert "(5, 1e-06)-differentially private" in text
    assert "exact" not in text.split("exact discrete noise")[0]
    assert not re.search(r"(?<![\d.])2,?021(?![\d.])", text)


def test_private_scores_of_several_models(people, tmp_path):
    files = [tmp_path / "one.json", tmp_path / "two.json"]
    for k, file in enumerate(files, start=1):
        run("fit", people, "-k", k, "-o", file, "-q", *BOUNDS)
    score = ["score", files[0], people, "--epsilon", 5, "--against", files[1]]
    found = json.loads(run(*score, "--json"))
    assert found["privacy"]["epsilon"] == 5.0
    assert list(found["scores"]) == [str(file) for file in files]
    assert set(found["ranking"]) == set(found["scores"])
    assert found["scores"][str(files[0])]["model"] == "gmm"
    text = " ".join(run(*score).split())
    assert "a difference has noise of deviation" in text
    assert "This set of scores is (5, 1e-06)-differentially private" in text


def test_a_private_score_of_categories(tmp_path):
    words = np.where(np.random.default_rng(0).random((500, 2)) < 0.7, "yes", "no")
    pl.DataFrame(words, ["a", "b"], orient="row").write_csv(tmp_path / "w.csv")
    known = [part for name in "ab" for part in ("--category", f"{name}=no,yes")]
    fit = ["fit", tmp_path / "w.csv", "-m", "categorical", "-k", 1, "-q", *known]
    run(*fit, "-o", tmp_path / "m.json")
    score = ["score", tmp_path / "m.json", tmp_path / "w.csv", "--epsilon", 5, "--json"]
    found = json.loads(run(*score))
    exact = privem.load(tmp_path / "m.json").score(pl.read_csv(tmp_path / "w.csv"))
    assert abs(found["mean_log_density"] - exact) < 8 * found["deviation"] + 0.1


def test_what_a_private_score_cannot_do(people, tmp_path):
    model = tmp_path / "m.json"
    run("fit", people, "-m", "kmeans", "-k", 1, "-o", model, "-q", *BOUNDS)
    score = ["score", model, people]
    assert "scores categorical, fa, gmm, poisson and table models" in run(
        *score, "--epsilon", 1, code=2
    )
    assert "give --epsilon too" in run(*score, "--against", model, code=2)
    assert "give --epsilon too" in run(*score, "--delta", 1e-6, code=2)
    assert "give --epsilon too" in run(*score, "--groups", "who", code=2)
    run("fit", people, "-k", 1, "-o", model, "-q", "--exact")
    assert "fitted privately" in run(*score, "--epsilon", 1, code=2)
    run("fit", people, "-k", 1, "-o", model, "-q", *BOUNDS)
    assert "must lie between 0 and" in run(*score, "--epsilon", -1, code=2)
    assert "must lie between 0 and" in run(*score, "--epsilon", 1, "--delta", 1, code=2)
    assert "--target is for regressions" in run(*score, "--epsilon", 1, "--target", "y", code=2)


def test_a_private_score_of_persons(people, tmp_path):
    table = pl.read_parquet(people)
    table.with_columns(who=pl.Series(np.arange(len(table)) // 2)).write_csv(tmp_path / "who.csv")
    data, model = tmp_path / "who.csv", tmp_path / "m.json"
    run("fit", data, "-k", 1, "--groups", "who", "-o", model, "-q", *BOUNDS)
    score = ["score", model, data, "--epsilon", 1]
    assert "removing one person" in " ".join(run(*score, "--groups", "who").split())
    assert "with --groups COLUMN" in run(*score)  # or it says that single records are hidden
