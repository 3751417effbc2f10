"""The papers' folders can be imported."""

import sys
from pathlib import Path

import pytest


@pytest.fixture
def experiments(monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the papers' folders."""
    folder = Path(__file__).resolve().parents[2] / "experiments"
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])
    return folder
