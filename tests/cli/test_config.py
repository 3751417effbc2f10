"""``privem.toml`` at the command line, and ``privem config``: real commands."""

import json
import os
import re
import subprocess
import sys

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner

import privem
from privem.cli import app
from privem.cli.config import _TAKEN, defaults
from privem.settings import KEYS, Settings

TOML = """\
epsilon = 0.5
delta = 1e-7
exclude = ["id"]
groups = "person"

[bounds]
age = [0, 120]
height = [100, 230]
elsewhere = [0, 1]

[categories]
site = ["a", "b, or c"]
"""


@pytest.fixture
def project(tmp_path, monkeypatch):
    (tmp_path / ".git").mkdir()
    (tmp_path / "sub").mkdir()
    (tmp_path / "privem.toml").write_text(TOML)
    rng, n = np.random.default_rng(0), 600
    people = pl.DataFrame(
        {
            "id": np.arange(n),
            "person": np.arange(n) // 2,
            "age": rng.normal(40, 9, n),
            "height": rng.normal(170, 9, n),
        }
    )
    people.write_parquet(tmp_path / "people.parquet")
    sites = pl.DataFrame({"id": np.arange(n), "person": np.arange(n)})
    sites = sites.with_columns(site=pl.Series(rng.choice(["a", "b, or c"], n)))
    sites.write_parquet(tmp_path / "sites.parquet")
    for name in ("PRIVEM_CONFIG", "PRIVEM_LEDGER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path / "sub")
    return tmp_path


def run(*words, code=0, env=None):
    result = CliRunner().invoke(app, [str(word) for word in words], env=env)
    assert result.exit_code == code, (result.output, result.exception)
    return result


def spawn(*words, env=None):
    result = subprocess.run(
        [sys.executable, "-m", "privem.cli", *map(str, words)],
        text=True,
        timeout=120,
        env=os.environ | (env or {}),
        capture_output=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_a_fit_takes_defaults_from_the_file(project):
    fit = ["fit", project / "people.parquet", "-k", 1, "-o", project / "m.json"]
    # At this epsilon noise may make the count so small that the forecast would refuse.
    said = json.loads(spawn(*fit, "--json", "--yes"))
    assert (said["epsilon"], said["delta"]) == (0.5, 1e-7)
    assert said["columns"] == ["age", "height"]
    assert said["privacy"]["unit"] == "person"
    assert "[0, 120]" in said["privacy"]["public"]["bounds"]
    # An option goes first.
    assert json.loads(run(*fit, "--json", "--epsilon", 2).stdout)["epsilon"] == 2
    # What does not go with a fit is left alone; what is missing is said.
    assert json.loads(run(*fit, "--json", "--exact").stdout)["epsilon"] is None
    run(*fit[:2], "-m", "kmeans", *fit[2:], "-q")
    classes = ["fit", project / "sites.parquet", "-m", "categorical", "-k", 1]
    run(*classes, "-o", project / "c.json", "-q")
    assert privem.load(project / "c.json").categories_[0].tolist() == ["a", "b, or c"]


def test_other_files_by_option_or_variable(project):
    other = project / "other.toml"
    other.write_text("epsilon = 3\n")
    config = json.loads(run("--config", other, "config", "--json").stdout)
    assert config["file"] == str(other)
    assert config["settings"]["epsilon"] == {"value": 3, "from": "file"}
    assert config["settings"]["delta"] == {"value": 1e-6, "from": "default"}
    assert "PRIVEM_CONFIG" not in os.environ  # it was for that command alone
    found = json.loads(spawn("config", "--json", env={"PRIVEM_CONFIG": str(other)}))
    assert found == config
    none = run("config", env={"PRIVEM_CONFIG": ""}).stdout
    assert none.startswith("There is no privem.toml here.")
    lost = run("--config", project / "lost.toml", "config", code=2).stderr
    assert "cannot be read" in lost


def test_what_is_in_force_is_shown_without_passwords(project):
    said = spawn("config")
    assert str(project / "privem.toml") in said
    assert "epsilon     0.5  (file)" in said
    assert "neighbours" in said
    secret = {"PRIVEM_LEDGER": "postgresql://me:se/c@ret@host/db?password=hidden#cohort"}
    shown = run("config", env=secret).stdout
    assert "postgresql://me:***@host/db?password=***#cohort" in shown
    assert "PRIVEM_LEDGER" in shown


def test_a_file_that_nobody_understands_is_2_but_help_works(project):
    (project / "privem.toml").write_text("epsilonn = 1\n")
    said = " ".join(run("config", code=2).stderr.split())
    assert "unknown key 'epsilonn': did you mean 'epsilon'" in said
    fit = ["fit", project / "people.parquet", "-k", 1, "-o", project / "m.json"]
    run(*fit, code=2)
    assert not (project / "m.json").exists()
    run("fit", "--help")
    assert "Usage" in run("--help").stdout


@pytest.mark.parametrize(
    ("toml", "words"),
    [
        ('model = "gm"', "'gm' is not one of .* \\(this is from '.*privem.toml': privem config\\)"),
        ("epsilon = -1", "epsilon must be above 0.* \\(some options are from '.*privem.toml'"),
        ("[bounds]\nage = [0, 120]", "without one: column number 2 of those fitted .*privem.toml"),
        ("[bounds]\nage = [120, 0]", "bounds is a table of columns, .* with low below high"),
        ('components = "2-3"', "components is a whole number, or a range like"),
    ],
)
def test_an_error_names_the_file_that_it_is_from(project, toml, words):
    (project / "privem.toml").write_text(f"{toml}\n")
    count = [] if "components" in toml else ["-k", 1]
    columns = ["--columns", "age,height"]
    fit = ["fit", project / "people.parquet", *columns, *count, "-o", project / "m.json"]
    assert re.search(words, " ".join(run(*fit, code=2).stderr.split()))
    # What is on the command line alone is not blamed on the file.
    said = run(*fit, "--epsilom", 1, code=2).stderr
    assert "No such option" in said
    assert "privem.toml" not in said


@pytest.mark.parametrize(
    ("toml", "words"),
    [
        ('model = "gm"', "model: 'gm' is not one of '"),
        ('neighbours = "both"', "neighbours: 'both' is not one of 'add-remove'"),
        ("components = 0", "components: 0: numbers are at least 1"),
        ("max-rows = 0", "max_rows: 0 is not in the range"),
        ("seed = -1", "seed: -1 is not in the range"),
    ],
)
def test_config_refuses_what_the_options_would(project, toml, words):
    (project / "privem.toml").write_text(f"{toml}\n")
    assert f"privem.toml': {words}" in " ".join(run("config", code=2).stderr.split())


def test_a_range_of_components_may_be_in_the_file(project):
    (project / "privem.toml").write_text('components = "1..2"\n')
    fit = ["fit", project / "people.parquet", "--columns", "age", "--bound", "age=0:120"]
    said = json.loads(run(*fit, "-o", project / "m.json", "--json", "--yes").stdout)
    assert [each["name"] for each in said["candidates"]] == ["1", "2"]


def test_the_ledger_of_the_file(project):
    pytest.importorskip("sqlalchemy")
    with (project / "privem.toml").open("w") as file:
        file.write('ledger = "budget.db#cohort"\nepsilon = 0.5\n')
    run("ledger", "init", "--epsilon", 2)
    assert (project / "budget.db").exists()
    fit = ["fit", project / "people.parquet", "--columns", "age", "-k", 1]
    run(*fit, "-o", project / "m.json", "--bound", "age=0:120", "-q")
    assert json.loads(run("ledger", "show", "--json").stdout)["runs"]["released"] == 1
    run("ledger", "verify", project / "m.json")
    # A score that is not asked to be private spends nothing; one that is does.
    score = ["score", project / "m.json", project / "people.parquet"]
    run(*score)
    run(*score, "--epsilon", 0.1)
    assert json.loads(run("ledger", "show", "--json").stdout)["runs"]["released"] == 2
    # The environment goes first.
    own = f"{project / 'own.db'}#own"
    run("ledger", "init", "--epsilon", 1, env={"PRIVEM_LEDGER": own})
    assert json.loads(run("ledger", "show", own, "--json").stdout)["budget"]["epsilon"] == 1


def test_synth_and_scores_take_what_they_need(project):
    (project / "privem.toml").write_text('schema = "s.toml"\ngroups = "person"\nexclude = ["id"]\n')
    columns = {"age": (0.0, 120.0), "height": (100.0, 230.0), "id": None}
    privem.Schema(columns).write(project / "s.toml")
    out = project / "out.csv"
    said = json.loads(run("synth", project / "people.parquet", "-o", out, "--json").stdout)
    assert said["privacy"]["unit"] == "person"
    assert pl.read_csv(out).columns == ["age", "height"]


def test_every_key_is_taken_by_a_command_under_a_name_that_it_knows():
    taken = {key for keys in _TAKEN.values() for key in keys}
    assert taken == set(KEYS)
    values = {key: {} if key in ("bounds", "categories") else "x" for key in KEYS}
    for words in _TAKEN:
        command, found = app, defaults(Settings(None, values))
        for word in words:
            command, found = command.commands[word], found[word]
        context = command.make_context(words[-1], [], resilient_parsing=True)
        assert set(found) <= {parameter.name for parameter in command.get_params(context)}
