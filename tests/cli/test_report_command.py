"""privem report: one page, two compared, and what is refused."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

import privem
from privem.cli import app
from privem.report import Comparison, Report


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X = np.random.default_rng(0).normal(size=(400, 2))
    (tmp_path / "old").mkdir()
    privem.KMeans(2, bounds=4.0).fit(X).save("model.json")
    privem.KMeans(2, epsilon=None).fit(X).save("exact.json")
    privem.KMeans(2, bounds=4.0).fit(X).save("old/model.json")
    with privem.Ledger("budget.db", "cohort", privem.Budget(3, 1e-6)) as ledger:
        privem.KMeans(2, bounds=4.0, ledger=ledger).fit(X).save("charged.json")
    return tmp_path


def run(*words, **more):
    return CliRunner().invoke(app, ["report", *words], **more)


def test_a_page_is_that_of_the_library(files):
    result = run("model.json", "-o", "page.html", "--json")
    assert result.exit_code == 0, result.output
    summary = json.loads(result.stdout)
    digest = summary["models"]["model.json"]
    expected = Report(privem.load("model.json"), "model.json", digest).html
    assert (files / "page.html").read_text("utf-8") == expected
    assert digest in expected
    assert run("exact.json", "-o", "page.html").stdout == "Wrote page.html\n"
    assert "carries no promise" in (files / "page.html").read_text("utf-8")


def test_two_models_are_compared(files):
    result = run("--compare", "model.json", "exact.json", "-o", "page.html", "--json")
    assert result.exit_code == 0, result.output
    models = {name: privem.load(name) for name in ("model.json", "exact.json")}
    expected = Comparison(models, json.loads(result.stdout)["models"]).html
    assert (files / "page.html").read_text("utf-8") == expected
    # Two files of one name are told apart by their folders; otherwise these are left out.
    assert run("--compare", "model.json", "old/model.json", "-o", "page.html").exit_code == 0
    assert "old/model.json" in (files / "page.html").read_text("utf-8")
    assert run("old/model.json", "-o", "page.html").exit_code == 0
    assert "old/" not in (files / "page.html").read_text("utf-8")


def test_the_ledger_is_named_or_in_the_environment(files):
    for words, env in (
        [["--ledger", "budget.db#cohort"], {}],
        [[], {"PRIVEM_LEDGER": "budget.db"}],
    ):
        assert run("charged.json", "-o", "page.html", *words, env=env).exit_code == 0
        assert "has the entry of this model" in (files / "page.html").read_text("utf-8")
    result = run("charged.json", "-o", "other.html", "--ledger", "none.db")
    assert result.exit_code == 8
    assert not (files / "other.html").exists()


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["model.json"], 2, "--output"),
        (["model.json", "exact.json", "-o", "a.html"], 2, "with --compare about two"),
        (["--compare", "model.json", "-o", "a.html"], 2, "--compare takes two models"),
        (["--compare", "model.json", "./model.json", "-o", "a.html"], 2, "not one of them twice"),
        (["model.json", "-o", "model.json"], 2, "would overwrite the model"),
        (["missing.json", "-o", "a.html"], 4, "missing.json"),
        (["budget.db", "-o", "a.html"], 4, "is not a privem model"),
        (["model.json", "-o", "nowhere/a.html"], 5, "nowhere"),
    ],
)
def test_what_is_refused(files, words, code, message):
    result = run(*words)
    assert result.exit_code == code, result.output
    assert message in result.output
    assert not (files / "a.html").exists()
