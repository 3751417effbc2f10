"""Processes killed in the middle of a fit, and processes that do not belong."""

from __future__ import annotations

import json
import shutil
import time
import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from privem import KMeans, load

RUN = "privem federate run fed/server -m kmeans -k 3 --exact --max-iter 3 --seed 1 -o model.json"
pytestmark = pytest.mark.slow


def same_as_central(stage):
    """The exact fit over the parties is the one on all rows."""
    model = load(stage.folder / "model.json")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        central = KMeans(3, max_iter=3, random_state=1).fit(stage.pooled())
    np.testing.assert_allclose(
        np.sort(model.cluster_centers_, axis=0),
        np.sort(central.cluster_centers_, axis=0),
        atol=1e-6,
    )


def test_a_party_killed_in_a_round_and_started_again(stage):
    stage.federation()
    fit = stage.start("run", RUN)
    for done, victim in ((1, "west"), (3, "north")):
        stage.until(lambda done=done: stage.rounds() >= done or fit.poll() is not None)
        time.sleep(0.3 * done)  # somewhere in the round's five exchanges
        stage.kill(victim)
        assert fit.poll() is None, stage.log("run")
        stage.party(victim)
    assert fit.wait(180) == 0, stage.log("run")
    same_as_central(stage)


def test_a_party_that_stays_away_stops_the_fit_which_goes_on_later(stage):
    stage.federation(epsilon="--epsilon 1")
    run = "privem federate run fed/server -k 2 --epsilon 1 --n-iter 2 -o model.json --patience 4"
    fit = stage.start("run", run)
    stage.until(lambda: stage.rounds() >= 1 or fit.poll() is not None)
    stage.kill("south")
    assert fit.wait(120) == 7
    assert "missing" in stage.log("run") or "parties" in stage.log("run")
    assert json.loads(stage.do("privem federate status fed/server --json"))["fit"]["state"] == (
        "stopped"
    )
    assert "other parameters" in stage.do(run.replace("-k 2", "-k 3"), code=2)
    stage.party("south", "--epsilon 1")
    summary = json.loads(stage.do(f"{run} --json --patience 60"))
    assert summary["privacy"]["epsilon"] == 1.0
    # Whatever happened was paid for once: within the budget at which the party would refuse.
    for name in ("north", "south"):
        facts = json.loads(stage.do(f"privem federate status fed/{name} --json"))
        assert 0.5 < facts["epsilon_spent"] <= 1.0
    # And now it does refuse.
    again = stage.do(run, code=7)
    assert "own budget" in again


def test_a_server_killed_and_started_again(stage):
    stage.federation()
    fit = stage.start("run", RUN)
    stage.until(lambda: stage.rounds() >= 2 or fit.poll() is not None)
    stage.kill("server")
    time.sleep(1)
    assert fit.poll() is None, stage.log("run")
    stage.start("server", "privem federate server fed/server")
    assert fit.wait(180) == 0, stage.log("run")
    assert "going on after round" in stage.log("run")
    same_as_central(stage)


def test_a_fit_killed_and_started_again(stage):
    stage.federation()
    fit = stage.start("run", RUN)
    stage.until(lambda: stage.rounds() >= 2 or fit.poll() is not None)
    stage.kill("run")
    again = stage.start("run", RUN)
    assert again.wait(180) == 0, stage.log("run")
    assert "going on after round" in stage.log("run")
    assert "round 1:" not in stage.log("run")
    same_as_central(stage)


def test_who_does_not_belong_is_not_let_in(stage):
    stage.federation()
    # A party with a node key that nobody agreed on.
    stage.kill("west")
    stage.do("privem federate key stranger --name west")
    (stage.folder / "fed/west/node").unlink()
    shutil.copy(stage.folder / "stranger/node.key", stage.folder / "fed/west/node.key")
    said = stage.do("privem federate party fed/west west.csv", code=7)
    assert "does not know this node's key" in said
    # One with its own signing keys in the place of the agreed ones.
    shutil.copy(stage.folder / "stranger/state", stage.folder / "fed/west/state")
    said = stage.do("privem federate party fed/west west.csv", code=2)
    assert "other keys" in said
    # One that the agreement does not name.
    stage.do("privem federate key east --name east")
    shutil.copy(stage.folder / "fed/federation.json", stage.folder / "east/federation.json")
    said = stage.do("privem federate party east west.csv", code=2)
    assert "does not name 'east'" in said
    # A party of another federation meets a server that is not its own.
    names = "--party north --party west --party south"
    stage.do(f"privem federate init other {names}")
    said = stage.do("privem federate party other/north north.csv", code=7)
    assert "not the one of this federation" in said
    # And the fit says who is missing.
    said = stage.do(f"{RUN} --patience 3", code=7)
    assert "west" in said
    # Two processes for one party would say two things.
    said = stage.do("privem federate party fed/north north.csv", code=7)
    assert "runs already" in said
