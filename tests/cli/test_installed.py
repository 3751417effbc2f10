"""The wheel in a bare environment: the newest libraries there are, then the oldest typer."""

import json
import os
import re
import subprocess
import sys
import tomllib

import pytest

from privem.datasets import make_people

pytestmark = pytest.mark.slow

# Not the constraints that this project is developed with: whoever installs it has none.
PLAIN = {
    key: value
    for key, value in os.environ.items()
    if not key.startswith(("PIP_CONSTRAINT", "PIP_BUILD_CONSTRAINT", "PYTHONPATH"))
} | {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "COLUMNS": "80"}
COMMANDS = """
import typer.main
from privem.cli import app
def walk(command, words):
    print(" ".join(words))
    for name, inner in getattr(command, "commands", {}).items():
        walk(inner, [*words, name])
walk(typer.main.get_command(app), [])
"""


def call(*words, code=0, **keywords):
    run = subprocess.run(
        [*map(str, words)], env=PLAIN, capture_output=True, text=True, timeout=600, **keywords
    )
    assert run.returncode == code, (words, run.stdout, run.stderr)
    return run.stdout


@pytest.fixture(scope="module")
def environment(root, tmp_path_factory):
    """The folder of programs of an environment that holds privem's wheel and what it asks for."""
    place = tmp_path_factory.mktemp("bare")
    pip = [sys.executable, "-m", "pip", "-q"]
    reached = subprocess.run(
        [*pip, "download", "--no-deps", "-d", place / "trial", "typer"], env=PLAIN, check=False
    )
    if reached.returncode:
        pytest.skip("pip reaches no index of packages")
    call(*pip, "wheel", "--no-deps", "-w", place, root)
    call(sys.executable, "-m", "venv", place / "venv")
    call(place / "venv" / "bin" / "pip", "-q", "install", *place.glob("privem-*.whl"))
    return place / "venv" / "bin"


def lowest(root):
    needs = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]["dependencies"]
    return next(re.fullmatch(r"typer>=([\d.]+)", need)[1] for need in needs if "typer" in need)


@pytest.mark.parametrize("which", ["newest", "lowest"])
def test_every_command_works_where_it_is_installed(root, environment, tmp_path, which):
    wanted = ["-U", "typer"] if which == "newest" else [f"typer=={lowest(root)}"]
    call(environment / "pip", "-q", "install", *wanted)
    privem = environment / "privem"
    commands = call(environment / "python", "-c", COMMANDS).splitlines()
    assert {"", "fit", "federate init"} <= set(commands)
    for command in commands:
        text = call(privem, *command.split(), "--help")
        assert text.startswith("Usage: privem")
        assert "\\" not in text
        assert "Exit codes:" in text
    assert call(privem, "--version").startswith("privem ")
    make_people(400, 0).write_csv(tmp_path / "people.csv")
    fit = [privem, "fit", tmp_path / "people.csv", "-k", 2, "-o", tmp_path / "model.json"]
    assert json.loads(call(*fit, "--json"))["private"]
    call(privem, "audit", tmp_path / "model.json")
    assert len(call(privem, "sample", tmp_path / "model.json", "-n", 5).splitlines()) == 6
    for wrong, words in (("--nonsense", "--nonsense"), ("--n-jobs=0", "--n-jobs must not be 0")):
        error = json.loads(call(*fit, wrong, "--json", code=2))["error"]
        assert (error["code"], error["kind"]) == (2, "usage")
        assert words in error["message"]
    missing = [privem, "score", tmp_path / "none.json", tmp_path / "people.csv", "--json"]
    assert json.loads(call(*missing, code=4))["error"]["kind"] == "model"
