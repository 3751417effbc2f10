"""The guide's commands, in the order of the guide, each in a process of its own."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from privem import load

from .conftest import Stage

GUIDE = Path(__file__).parents[3] / "docs" / "federation.md"


@pytest.fixture
def stage(tmp_path):
    """Commands as they are typed."""
    pytest.importorskip("flwr")
    found = Stage(tmp_path, None)
    yield found
    found.close()


def test_from_nothing_to_a_model(stage, monkeypatch):
    text = GUIDE.read_text()
    (data,) = (b for b in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if "savetxt" in b)
    monkeypatch.chdir(stage.folder)
    exec(compile(data, "federation.md", "exec"), {})
    commands = [
        line for b in re.findall(r"```sh\n(.*?)```", text, re.DOTALL) for line in b.split("\n")
    ]
    said = {}
    for command in filter(None, commands):
        verb = command.split()[2]
        if command.endswith("&"):
            stage.start(Path(command.split()[3]).name, command.removesuffix("&"))
            continue
        if verb == "run":
            command += " --n-iter 2 --json"  # shorter than the guide's
        if verb == "status" and command.endswith("server"):
            stage.connected()
        said[command.split()[2:4][0] + " " + command.split()[3]] = stage.do(command)

    assert said["status fed/server"].count("online") == 3
    summary = json.loads(said["run fed/server"])
    assert summary["private"]
    assert summary["epsilon"] == 1.0
    assert summary["parties"] == ["north", "west", "south"]
    assert "masked" in summary["statement"]
    model = load(stage.folder / "model.json")
    assert np.isfinite(model.means_).all()
    assert model.privacy_.epsilon == 1.0
    # What a party counted is what the fit promised, and within its own limit.
    spent = float(re.search(r"given away +epsilon (\S+)", said["status fed/north"])[1])
    assert 0.5 < spent <= 1.0
    # No code of the server's came near the rows, and nobody wrote to anybody's home.
    assert not (stage.folder / "fed" / "north" / "apps").exists()
    assert sorted(p.name for p in (stage.folder / "fed" / "north").iterdir()) == [
        ".lock",
        "card.json",
        "federation.json",
        "node",
        "node.key",
        "state",
    ]
