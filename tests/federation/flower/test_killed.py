"""Parties, server and fit killed (SIGKILL) in every phase of a round."""

from __future__ import annotations

import json

import pytest

from .conftest import EXACT, PARTIES

pytestmark = pytest.mark.slow
EVERY = [
    (0, "BEGIN"),
    (1, "KEYS"),
    (1, "SHARES"),
    (2, "INPUT"),
    (3, "SURVIVORS"),
    (4, "UNMASK"),
]


def kill(at, moment):
    return {"do": "kill", "round": at[0], "phase": at[1], "moment": moment}


def test_parties_killed_in_every_phase_and_started_again(shared):
    """All three in each: one as it is asked, one before it has stored, one before it has sent."""
    shared.honest()
    moments = dict(zip(PARTIES, ("asked", "answered", "stored"), strict=True))
    left = {name: [kill(at, moments[name]) for at in EVERY] for name in PARTIES}
    for name in PARTIES:
        shared.party(name, *left[name])
    shared.connected()
    fit = shared.start("run", EXACT)

    def over():
        for name in PARTIES:
            if shared.running[name].poll() is not None:
                assert shared.running[name].returncode == -9, shared.log(name)
                left[name].pop(0)
                shared.party(name, *left[name])
        return fit.poll() is not None

    shared.until(over, 180)
    assert fit.returncode == 0, shared.log("run")
    assert left == {name: [] for name in PARTIES}
    shared.same_as_central()


def test_the_server_killed_in_a_round_and_started_again(shared):
    shared.honest()
    marks = [shared.folder / f"reached {number}" for number in (2, 4)]
    slow = {"do": "sleep", "seconds": 1}
    shared.party(
        "west",
        slow | {"round": 2, "phase": "INPUT", "mark": str(marks[0])},
        slow | {"round": 4, "phase": "UNMASK", "mark": str(marks[1])},
    )
    fit = shared.start("run", EXACT)
    for mark in marks:
        shared.until(lambda mark=mark: mark.exists() or fit.poll() is not None)
        assert fit.poll() is None, shared.log("run")
        shared.kill("server")
        shared.start("server", "privem federate server fed/server")
    assert fit.wait(180) == 0, shared.log("run")
    assert shared.log("run").count("going on after round") == 2
    shared.same_as_central()


def test_a_fit_killed_in_every_phase_and_started_again(shared):
    shared.honest()
    at = iter(EVERY[1:])
    kills = [kill(next(at), moment) for moment in ("asked", "answered") * 2]
    kills.append(kill((5, "UNMASK"), "answered"))
    for deed in kills:
        shared.do(EXACT, deed, code=-9)
        assert shared.rounds() == deed["round"] - 1
    shared.do(EXACT)
    shared.same_as_central()


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
    stage.party("south")
    summary = json.loads(stage.do(f"{run} --json --patience 60"))
    assert summary["privacy"]["epsilon"] == 1.0
    # Whatever happened was paid for once: within the budget at which the party would refuse.
    for name in ("north", "south"):
        facts = json.loads(stage.do(f"privem federate status fed/{name} --json"))
        assert 0.5 < facts["epsilon_spent"] <= 1.0
    # And now it does refuse.
    again = stage.do(run, code=7)
    assert "own budget" in again
