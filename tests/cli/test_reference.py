"""The reference of the command line: what ``docs/cli.md`` says is what commands do."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import click
import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner

import privem
from privem.cli import app
from privem.cli.failures import EXIT_CODES, ExitCode
from privem.cli.reference import JSON, MARK, commands, reference

PAGE = Path(__file__).resolve().parents[2] / "docs" / "cli.md"
COMMANDS = {" ".join(words): command for words, command in commands(app)}


def run(*words, code=0):
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == code, (result.output, result.exception)
    return result


# The page


def test_the_page_is_what_the_commands_say():
    _, _, made = PAGE.read_text("utf-8").partition(MARK)
    assert made == f"\n{reference(app)}", "run python -m privem.cli.reference docs/cli.md"
    assert set(JSON) == set(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_json_and_is_explained(name):
    command = COMMANDS[name]
    context = click.Context(command)
    flags = {flag for option in command.get_params(context) for flag in option.opts}
    assert "--json" in flags
    assert "Exit codes:" in command.get_help(context)
    section = PAGE.read_text("utf-8").partition(f"### privem {name}\n")[2].partition("\n### ")[0]
    shown = {flag for flag in flags if flag.startswith("-")} - {"--help", "-h"}
    assert [flag for flag in shown if f"`{flag}`" not in section] == []


def test_exit_codes_are_listed_in_the_page_and_in_help():
    rows = re.findall(r"^\| (\d+) \| (?:`(\w+)`)? ?\|", PAGE.read_text("utf-8"), re.MULTILINE)
    assert {int(code): kind for code, kind in rows} == {
        int(code): "" if code is ExitCode.OK else code.name.lower() for code in ExitCode
    }
    helped = {int(code) for code in re.findall(r"^  (\d+)  ", EXIT_CODES, re.MULTILINE)}
    assert helped == {int(code) for code in ExitCode if code is not ExitCode.INTERRUPTED}


# Shapes


def keys(name):
    """The keys that an object always has, those that it may have, and whether it may have more."""
    told = [key for text in JSON[name] for key in text.split(", ")]
    always = {key for key in told if not key.endswith("?") and key != "*"}
    return always, always | {key.rstrip("?") for key in told if key != "*"}, "*" in told


def check(name, *words):
    found = json.loads(run(*name.split(), *words, "--json").stdout)
    always, known, more = keys(name)
    assert always <= set(found), always - set(found)
    assert more or set(found) <= known, set(found) - known
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder, rng = tmp_path_factory.mktemp("shapes"), np.random.default_rng(0)
    people = pl.DataFrame({"age": rng.normal(40, 9, 300), "height": rng.normal(170, 9, 300)})
    people.write_parquet(folder / "x.parquet")
    privem.Schema({"age": (0.0, 120.0), "height": (100.0, 230.0)}).write(folder / "s.toml")
    return folder


def test_shapes_of_models(folder, tmp_path):
    data, model = folder / "x.parquet", tmp_path / "m.json"
    bounds = ["--bound", "age=0:120", "--bound", "height=100:230"]
    check("fit", data, "-k", 1, "-o", model, "--exact")
    check("score", model, data)
    check("fit", data, "-m", "kmeans", "-k", 2, "-o", tmp_path / "k.json", *bounds)
    check("score", tmp_path / "k.json", data)
    assert check("fit", data, "-k", 1, "-o", model, *bounds)["private"] is True
    check("score", model, data, "--epsilon", 1)
    check("score", model, data, "--epsilon", 1, "--against", model)
    check("sample", model, "-n", 3, "-o", tmp_path / "s.csv")
    check("predict", model, data, "-o", tmp_path / "l.csv")
    assert check("audit", model)["passed"] is True
    check("schema", data)
    assert check("schema", data, "-o", tmp_path / "new.toml")["output"]
    check("synth", data, "--schema", folder / "s.toml", "-o", tmp_path / "t.csv")
    check("synth", data, "--schema", folder / "s.toml", "-o", tmp_path / "t.csv", "--exact")
    check("plan", "--rows", 2000, "--features", 2, "-k", 2, "--bounded", "--rehearsals", 1)
    check("config")
    assert "--json needs --output" in run("sample", model, "-n", 3, "--json", code=2).stdout


def test_shape_of_the_demo(tmp_path):
    found = check("demo", "--rows", 100, "--out", tmp_path / "demo")
    assert all(Path(path).exists() for path in found["files"].values())


def test_shapes_of_ledgers(folder, tmp_path):
    pytest.importorskip("sqlalchemy")
    ledger, model = f"{tmp_path / 'b.db'}#cohort", tmp_path / "m.json"
    check("ledger init", ledger, "--epsilon", 3)
    bounds = ["--bound", "age=0:120", "--bound", "height=100:230"]
    run("fit", folder / "x.parquet", "-k", 1, "-o", model, *bounds, "--ledger", ledger, "-q")
    check("ledger show", ledger)
    assert len(check("ledger history", ledger)["runs"]) == 1
    check("ledger verify", ledger, model)
    whole = check("ledger export", ledger)
    assert len(whole["entries"]) == whole["rows"]
    assert "entries" not in check("ledger export", ledger, "-o", tmp_path / "rows.jsonl")
    failed = json.loads(run("ledger", "abandon", ledger, 1, "--json", code=8).stdout)
    assert failed["error"]["kind"] == "ledger"


def test_shapes_of_federations(tmp_path, monkeypatch):
    pytest.importorskip("cryptography")
    check("federate key", tmp_path / "alone", "--name", "alone")
    parties = [word for name in "abc" for word in ("--party", name)]
    bounds = ["--bound", "x=0:1"]
    check("federate init", tmp_path / "all", *parties, *bounds)
    check("federate status", tmp_path / "all" / "server")
    link = pytest.importorskip("privem.federation.flower.superlink")
    monkeypatch.setattr(link, "serve_link", lambda *args: None)
    found = check("federate server", tmp_path / "all" / "server", "--listen", "127.0.0.1")
    assert found["parties"] == ["a", "b", "c"]


# Completion


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script(shell):
    script = run("completion", shell).stdout
    assert f"_PRIVEM_COMPLETE={shell}_complete" in script
    assert check("completion", shell)["script"] == script


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("pre", ["predict"]),
        ("fit --excl", ["--exclude"]),
        ("fit -m reg", ["regression-mixture"]),
        ("ledger ver", ["verify"]),
        ("federate init --protection mask", ["masked"]),
    ],
)
def test_bash_completes(tmp_path, typed, expected):
    program = tmp_path / "privem"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m privem.cli "$@"\n')
    program.chmod(0o755)
    words = ["privem", *typed.split()]
    code = f"""
        eval "$(privem completion bash)"
        complete -p privem >&2
        COMP_WORDS=({" ".join(words)})
        COMP_CWORD={len(words) - 1}
        _privem_completion privem {words[-1]} {words[-2]}
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    result = subprocess.run(
        ["bash", "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env=os.environ | {"PATH": path},
    )
    assert result.stdout.split() == expected
    assert "-F _privem_completion privem" in result.stderr


# Audits


def test_an_audit_of_privem_says_first_what_it_will_do(monkeypatch):
    from privem import audit
    from privem.audit import AuditReport, Finding

    asked = []

    def self_audit(
        estimators=None, draws: int = 5000, fits: int = 300, *, alpha: float = 1e-6, d: int = 1
    ):
        asked.append((*estimators, alpha))
        return AuditReport("", (Finding(f"{estimators[0]}: lattice", True, ""),), alpha)

    monkeypatch.setattr(audit, "self_audit", self_audit)
    result = run("audit")
    said = " ".join(result.stderr.split())
    assert "every release is drawn 5,000 times" in said
    assert re.search(r"about \d+ minutes on one core", said)
    assert "Audit of the library: passed" in result.stdout
    # One after the other they are as strict as together.
    assert len(asked) == len({name for name, _ in asked}) > 5
    assert sum(alpha for _, alpha in asked) == pytest.approx(1e-6)
    assert json.loads(run("audit", "--json").stdout)["passed"] is True
