"""Private fits under faults: noise is drawn once, charged once, and nothing is seen without it.

Four parties of which one may drop out. Every message and every state is recorded as it passes, and
each party's sums before and after noise in a folder that is not searched.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict

import numpy as np
import pytest

from privem import load
from privem.federation import Journal
from privem.federation.protections.masked.messages import Phase
from privem.federation.wire.codec import decode
from privem.federation.wire.queries import unpack

from .conftest import EXACT, PARTIES, Stage
from .search import Search

pytestmark = pytest.mark.slow
FOUR = (*PARTIES, "east")
RUN = "privem federate run fed/server -k 2 --epsilon 1 --n-iter 2 -o model.json --json"


class Quartet(Stage):
    """Remembers what the parties of each fit said and knew."""

    def watched(self, fit: str, **deeds) -> None:
        """Start all parties anew, recording; with deeds by name."""
        self.fit = fit
        for name in FOUR:
            self.party(name, *deeds.get(name, ()))
        self.connected()

    def party(self, name, *deeds):
        messages, secrets = self.places(name)
        record = {"do": "record", "folder": str(messages)}
        return super().party(name, record, {"do": "secrets", "folder": str(secrets)}, *deeds)

    def places(self, name):
        hidden = self.folder.parent / "hidden"
        hidden.mkdir(exist_ok=True)
        return self.folder / f"{self.fit} {name}", hidden / f"{self.fit} {name}"

    def passed(self, name, what):
        """What went in or out of a party, or into its state, in the order of time."""
        folder = self.places(name)[0]
        return [p.read_bytes() for p in sorted(folder.glob(f"*-{what}"))]

    def secrets(self, name):
        """By question, every draw of a party's noise with the sums it was for."""
        found = defaultdict(list)
        for path in sorted(self.places(name)[1].iterdir()):
            body = decode(path.read_bytes())[1]
            found[body["question"]].append(body)
        return found

    def rounds_opened(self):
        """What the last fit opened: question, numbers, who was counted."""
        last = sorted((self.folder / "fed/server/runs").glob("0*"))[-1]
        return [(r["question"], r["numbers"], r["parties"]) for r in Journal(last)._rounds]

    def charges(self):
        """How many releases each party has charged itself with, by its file."""
        states = ((self.folder / f"fed/{name}/state").read_bytes() for name in FOUR)
        return np.array([len(unpack(state, "party")["account"]["spent"]) for state in states])


@pytest.fixture(scope="module")
def quartet(tmp_path_factory, zygote):
    found = Quartet(tmp_path_factory.mktemp("quartet") / "searched", zygote, FOUR)
    found.folder.mkdir()
    found.fit = "none"
    found.federation(terms="--dropouts 1")
    yield found
    found.close()


def adds_up(stage):
    """Every opened sum is that of what the counted parties said, each once."""
    secrets = {name: stage.secrets(name) for name in FOUR}
    opened = stage.rounds_opened()
    assert len(opened) > 3
    for question, numbers, counted in opened:
        said = [secrets[name][question][-1]["after"] for name in counted]
        assert np.array_equal(np.sum(said, axis=0), numbers.view(np.int64))
    return opened


def says_one_thing(stage):
    """The same request never got two answers."""
    for name in FOUR:
        known = {}
        asked, said = stage.passed(name, "in"), stage.passed(name, "out")
        assert len(said) > 10
        replies = {hashlib.sha256(r).digest(): r for r in said}
        for state in stage.passed(name, "state"):
            memory = unpack(state, "party")["memory"]
            if memory["last"]:
                reply = hashlib.sha256(memory["last_reply"]).digest()
                assert known.setdefault(memory["last"], reply) == reply
        # Whatever left had been stored, as the answer to what was asked.
        honest = {reply for request, reply in known.items()}
        refused = {key for key, r in replies.items() if decode(r)[0] == "refusal"}
        assert set(replies) - refused <= honest
        assert {hashlib.sha256(a).digest() for a in asked} >= set(known)


def kill(number, phase, moment):
    return {"do": "kill", "round": number, "phase": phase, "moment": moment}


@pytest.fixture(scope="module")
def killed(quartet):
    """A fit in which parties are killed: one had stored what it says, two its cost only."""
    quartet.watched(
        "killed",
        north=[kill(2, "INPUT", "stored")],
        west=[kill(3, "INPUT", "answered")],
        south=[kill(3, "INPUT", "reserved")],
    )
    fit = quartet.start("run", RUN, {"do": "record", "folder": str(quartet.folder / "killed fit")})
    states = {}

    def over():
        for name in ("north", "west", "south"):
            if quartet.running[name].poll() is not None:
                states[name] = (quartet.folder / f"fed/{name}/state").read_bytes()
                quartet.party(name)
        return fit.poll() is not None

    quartet.until(over, 180)
    assert fit.returncode == 0, quartet.log("run")
    facts = (quartet.do(f"privem federate status fed/{name} --json") for name in FOUR)
    return quartet, states, [json.loads(one)["epsilon_spent"] for one in facts]


def test_nothing_is_released_twice_with_other_noise(killed):
    stage, states, spent = killed
    assert set(states) == {"north", "west", "south"}
    assert all(counted == tuple(sorted(FOUR)) for _, _, counted in adds_up(stage))
    says_one_thing(stage)
    # North had stored its answer: it is what left after the restart, and no noise was drawn again.
    memory = unpack(states["north"], "party")["memory"]
    assert memory["round"] == 2
    assert stage.passed("north", "out").count(memory["last_reply"]) == 1
    assert [len(draws) for draws in stage.secrets("north").values()].count(1) == len(
        stage.rounds_opened()
    )
    # West had not: its first draw for round 3 never left, and the state knew nothing of it.
    # South had not drawn any. Both had stored that round 3 is paid for.
    for name in ("west", "south"):
        body = unpack(states[name], "party")
        assert body["memory"]["round"] == 2
        assert body["account"]["reserved"]
    assert {len(draws) for draws in stage.secrets("south").values()} == {1}
    assert sorted(len(draws) for draws in stage.secrets("west").values())[-2:] == [1, 2]
    # Accounts are in the files, and everybody was charged once.
    promised = load(stage.folder / "model.json").privacy_.spent
    assert spent == pytest.approx([promised] * 4, rel=1e-6)


def test_no_sum_without_its_noise_is_in_any_message_log_or_file(killed):
    stage = killed[0]
    secrets = {name: stage.secrets(name) for name in FOUR}
    draws = [d for every in secrets.values() for some in every.values() for d in some]
    before, doubles = [], []
    for draw in draws:
        before.append(draw["before"][draw["before"] != draw["after"]])  # noise may be zero
        doubles += [draw["sums"], draw["decoded"]]
    for question in secrets["south"]:
        every = [secrets[name][question][-1] for name in FOUR]
        before.append(np.sum([d["before"] for d in every], axis=0))
        doubles += [np.sum([d[what] for d in every], axis=0) for what in ("sums", "decoded")]
    search = Search(before, doubles)
    assert len(search) > 200
    files = [p for p in stage.folder.rglob("*") if p.is_file() and p.suffix != ".csv"]
    assert len([p for p in files if p.name.endswith(("-in", "-out", "-state"))]) > 100
    assert len([p for p in files if p.suffix == ".log"]) >= 6
    assert {"rounds", "progress.json", "state", "model.json"} <= {p.name for p in files}
    assert search.files(files) == {}
    # A party's own numbers, with their share of the noise, are in its own state and nowhere else.
    after = Search([d["after"] for d in draws], [])
    held = after.files(files)
    assert held
    assert all(path.name == "state" or path.name.endswith("-state") for path in held)


def test_a_late_reply_of_a_party_declared_dropped_counts_for_nothing(quartet):
    mark = quartet.folder / "late"
    late = {"do": "sleep", "seconds": 10, "round": 2, "phase": "INPUT", "mark": str(mark)}
    quartet.watched("late", east=[late])
    said = json.loads(quartet.do(f"{RUN} --patience 7"))
    assert mark.exists()
    assert said["attendance"] == {"took part": list(PARTIES), "refused": [], "lost": ["east"]}
    assert said["data"] == "3 of 4 parties (masked)"
    assert "Did not answer: east." in said["statement"]
    opened = adds_up(quartet)
    everybody, others = tuple(sorted(FOUR)), tuple(sorted(PARTIES))
    assert [counted for _, _, counted in opened] == [everybody] + [others] * (len(opened) - 1)

    def left():
        bodies = (unpack(m, "reply") for m in quartet.passed("east", "out"))
        return any(b["round"] == 2 and b["payload"][5] == Phase.INPUT for b in bodies)

    # Its masked numbers did leave, late; it was asked nothing about any later round.
    quartet.until(left)
    asked = [unpack(m, "request") for m in quartet.passed("east", "in")]
    assert {body["round"] for body in asked} == {0, 1, 2}
    assert {body["payload"][5] for body in asked if body["round"] == 2} == {Phase.INPUT}


def test_there_is_no_exact_fit_where_dropouts_are_declared(quartet):
    assert "private fits only" in " ".join(quartet.do(EXACT, code=2).split())


def test_a_round_tried_again_has_the_same_noise(quartet):
    """Two are away, more than may be: the fit stops in the middle of a round, and goes on."""
    quartet.watched(
        "again", south=[kill(2, "SURVIVORS", "asked")], east=[kill(2, "SURVIVORS", "asked")]
    )
    before = quartet.charges()
    said = quartet.do(f"{RUN} --patience 4", code=7)
    assert "in phase SURVIVORS" in said
    for name in ("south", "east"):
        quartet.party(name)
    quartet.connected()
    quartet.do(RUN)
    adds_up(quartet)
    says_one_thing(quartet)
    for name in FOUR:
        assert {len(draws) for draws in quartet.secrets(name).values()} == {1}
    charged = quartet.charges() - before
    assert charged[0] >= len(quartet.rounds_opened())
    assert (charged == charged[0]).all()
