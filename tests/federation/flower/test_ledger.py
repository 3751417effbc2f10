"""Parties with a ledger, as real processes that are killed and started again."""

from __future__ import annotations

import shutil

import pytest

from privem import Budget, Ledger

from .conftest import PARTIES
from .test_killed import kill

pytestmark = pytest.mark.slow
RUN = "privem federate run fed/server -k 2 --epsilon 0.5 --n-iter 2 -o model.json --patience 300"


def test_killed_parties_go_on_with_their_entries(stage):
    """All three spend from one data set, and are killed before and after everything they write."""
    ledger = Ledger(stage.folder / "budget.db", "all", Budget(6.0, 1e-6))
    stage.federation(epsilon="--ledger budget.db#all")
    moments = dict(zip(PARTIES, ("asked", "answered", "stored"), strict=True))
    left = {
        name: [kill((number, "INPUT"), moment) for number in (1, 2)]
        for name, moment in moments.items()
    }
    left["north"].append(kill((3, "INPUT"), "reserved"))
    for name in PARTIES:
        stage.party(name, *left[name])
    stage.connected()
    fit = stage.start("run", RUN)

    def over():
        for name in PARTIES:
            if stage.running[name].poll() is not None:
                assert stage.running[name].returncode == -9, stage.log(name)
                left[name].pop(0)
                stage.party(name, *left[name])
        return fit.poll() is not None

    stage.until(over, 600)
    assert fit.returncode == 0, stage.log("run")
    assert left == {name: [] for name in PARTIES}
    # One entry each, though "answered" is between the reservation and the stored reply.
    assert [run.state for run in ledger.history()] == ["pending"] * 3
    ledger.verify()
    stage.do(RUN)
    assert [run.state for run in ledger.history()] == ["released"] * 3 + ["pending"] * 3
    assert {run.what.model for run in ledger.history()} == {"GaussianMixture"}
    assert ledger.verify().pending == tuple(run.entry for run in ledger.history()[3:])
    exact = RUN.replace("--epsilon 0.5 --n-iter 2", "--exact")
    said = stage.do(exact, code=7)
    assert "has a ledger" in said
    ledger.close()


def test_a_copied_folder_spends_from_the_same_budget(stage):
    """Without a ledger each copy has a budget of its own."""
    ledger = Ledger(stage.folder / "budget.db", "all", Budget(3.0, 1e-6))
    stage.federation(epsilon="--ledger budget.db#all")
    stage.do(RUN)
    stage.kill("north")
    shutil.copytree(stage.folder / "fed/north", stage.folder / "copy")
    stage.party("north")
    stage.connected()
    stage.do(RUN)
    spent = ledger.spent
    stage.kill("north")
    shutil.copy(stage.folder / "copy/state", stage.folder / "fed/north/state")
    stage.party("north")
    stage.connected()
    # The server notices; and whatever it does, the entry that the copy knows is settled.
    assert "has answered more than it remembers" in stage.do(RUN, code=7)
    assert ledger.spent >= spent
    ledger.verify()
    ledger.close()
