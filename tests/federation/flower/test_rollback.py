"""A party's folder restored from a backup, or copied and run twice: the fit says whose."""

from __future__ import annotations

import os
import shutil
import signal

import pytest

pytestmark = pytest.mark.slow
RUN = "privem federate run fed/server -k 2 --epsilon 1 --n-iter 2 -o model.json --patience 20"
GONE_BACK = "'north' has answered more than it remembers"


def test_a_restored_backup_stops_the_next_fit(stage):
    stage.federation()
    shutil.copytree(stage.folder / "fed/north", stage.folder / "backup")
    stage.do(RUN)
    stage.kill("north")
    shutil.copy(stage.folder / "backup/state", stage.folder / "fed/north/state")
    stage.party("north")
    stage.connected()
    assert GONE_BACK in stage.do(RUN, code=7)


def test_a_copied_folder_stops_the_fit(stage):
    """The party is slow for a while, and the copy of it takes its place in the middle of a fit."""
    stage.federation()
    shutil.copytree(stage.folder / "fed/north", stage.folder / "copy")
    mark = stage.folder / "reached"
    slow = {"do": "sleep", "round": 2, "phase": "INPUT", "seconds": 5, "mark": str(mark)}
    stage.party("west", slow)
    stage.connected()
    fit = stage.start("run", RUN)
    stage.until(lambda: mark.exists() or fit.poll() is not None)
    os.kill(stage.running["north"].pid, signal.SIGSTOP)
    stage.start("copy", "privem federate party copy north.csv")
    assert fit.wait(120) == 7, stage.log("run")
    assert GONE_BACK in stage.log("run"), (stage.log("run"), stage.log("copy"), stage.log("north"))
