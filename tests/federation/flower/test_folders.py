"""Folders of a federation, and what init refuses."""

from __future__ import annotations

import json
import stat

import numpy as np
import pytest
from click.testing import CliRunner

from privem import Budget, Ledger
from privem.cli import app
from privem.federation.flower.folders import PartyFolder, Terms, _digest
from privem.federation.wire.queries import unpack

pytest.importorskip("flwr")
THREE = ["--party", "north", "--party", "west", "--party", "south"]


def run(*args, code=0):
    result = CliRunner().invoke(app, ["federate", *map(str, args)])
    assert result.exit_code == code, (result.stdout, result.stderr, result.exception)
    return result.stdout if code == 0 else result.stderr


def test_secrets_stay_where_they_belong(tmp_path):
    fed = tmp_path / "fed"
    run("init", fed, *THREE, "--bound", "x=0:1", "--bound", "y=0:2", "--rows", 9)
    public = (fed / "federation.json").read_bytes()
    for name in ("north", "west", "south"):
        keys = unpack((fed / name / "state").read_bytes(), "party")["keys"]
        secret = (fed / name / "node.key").read_text().splitlines()[1]
        shown = public + (fed / name / "card.json").read_bytes()
        assert (fed / name / "federation.json").read_bytes() == public
        for key in keys.values():
            assert len(key) == 32
            assert key.hex().encode() not in shown
        assert secret.encode() not in shown
    for path in fed.rglob("*"):
        assert path.is_dir() or stat.S_IMODE(path.stat().st_mode) == 0o600
    assert not list(fed.rglob("*ca.key"))
    agreement = Terms.load(fed).agreement
    assert (agreement.low, agreement.high, agreement.rows) == ((0.0, 0.0), (1.0, 2.0), 9.0)


def test_parties_with_their_own_keys(tmp_path):
    cards = []
    for name in ("a", "b", "c"):
        run("key", tmp_path / name, "--name", name)
        cards += ["--card", tmp_path / name / "card.json"]
    found = json.loads(run("init", tmp_path / "fed", *cards, "--columns", "x,y", "--json"))
    assert found["parties"] == ["a", "b", "c"]
    (tmp_path / "a" / "federation.json").write_bytes(
        (tmp_path / "fed" / "federation.json").read_bytes()
    )
    facts = json.loads(run("status", tmp_path / "a", "--json"))
    assert facts["agreement"] == found["agreement"]
    assert facts["epsilon_spent"] == 0
    assert "has keys already" in run("key", tmp_path / "a", "--name", "a", code=2)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (THREE[:4], "at least 3 must take part"),
        ([*THREE, "--party", "west"], "a different name each time"),
        ([*THREE, "--party", "../up"], "letters, digits"),
        ([*THREE, "--bound", "x=3:1"], "LOW below HIGH"),
        ([*THREE, "--bound", "x=1:3", "--columns", "y"], "leave out --columns"),
        ([*THREE, "--protection", "plain", "--dropouts", "1"], "fewer than minimum"),
        ([*THREE, "--party", "d", "--party", "e", "--dropouts", "2"], "third"),
        ([*THREE, "--address", "here"], "HOST:PORT"),
        ([*THREE, "--card", "nowhere.json"], "No such file"),
    ],
)
def test_init_refuses_before_it_writes(tmp_path, options, words):
    assert words in run("init", tmp_path / "fed", *options, code=2)
    assert not (tmp_path / "fed").exists()


def test_a_folder_is_used_once(tmp_path):
    run("init", tmp_path / "fed", *THREE)
    before = (tmp_path / "fed" / "north" / "state").read_bytes()
    assert "already" in run("init", tmp_path / "fed", *THREE, code=2)
    assert (tmp_path / "fed" / "north" / "state").read_bytes() == before


def test_wrong_folders(tmp_path):
    run("init", tmp_path / "fed", *THREE)
    (tmp_path / "x.csv").write_text("x,y\n1,2\n")
    assert "No such file" in run("status", tmp_path / "nowhere", code=2)
    assert "not the folder of a server" in run("server", tmp_path / "fed" / "north", code=2)
    said = run("party", tmp_path / "fed" / "server", tmp_path / "x.csv", code=2)
    assert "not the folder of a party" in said
    missing = run("party", tmp_path / "fed" / "north", tmp_path / "nowhere.csv", code=3)
    assert "nowhere.csv" in missing
    (tmp_path / "fed" / "north" / "federation.json").write_text("{}")
    assert "not a federation" in run("status", tmp_path / "fed" / "north", code=2)


def test_no_server(tmp_path):
    run("init", tmp_path / "fed", *THREE, "--address", "127.0.0.1:1")
    said = run(
        "run", tmp_path / "fed/server", "-k", 2, "-o", tmp_path / "m", "--patience", 1, code=7
    )
    assert "cannot be reached" in said
    facts = json.loads(run("status", tmp_path / "fed" / "server", "--json"))
    assert facts["server"] == "down"
    assert facts["fit"]["state"] == "stopped"


def test_a_party_goes_on_with_its_account_and_the_limits_set_now(tmp_path):
    run("init", tmp_path / "fed", *THREE)
    folder = PartyFolder(tmp_path / "fed" / "north")
    first = folder.party(np.zeros((4, 2)), 1.0, 1e-6)
    folder.keep(first.state())
    again = PartyFolder(tmp_path / "fed" / "north").party(np.zeros((4, 2)), 2.0, 1e-7)
    assert again.card("masked") == first.card("masked")
    assert (again._budget.limit, again._budget.delta) == (2.0, 1e-7)
    assert unpack(again.state(), "party")["memory"] == unpack(first.state(), "party")["memory"]


def test_status_counts_exact_answers(tmp_path):
    run("init", tmp_path / "fed", *THREE)
    place = tmp_path / "fed" / "north"
    rows = np.zeros((4, 2))
    party = PartyFolder(place).party(rows)
    party._budget.charge(())
    PartyFolder(place).keep(party.state())
    assert "given away             exact answers: 1; no finite epsilon" in run("status", place)
    facts = json.loads(run("status", place, "--json"))
    assert (facts["exact_answers"], facts["epsilon_spent"]) == (1, None)
    with pytest.raises(ValueError, match="exact answers: 1"):
        PartyFolder(place).party(rows, 1.0)
    (tmp_path / "x.csv").write_text("x,y\n1,2\n")
    said = run("party", place, tmp_path / "x.csv", "--epsilon", 1, code=2)
    assert "--despite-exact-answers" in said
    assert PartyFolder(place).party(rows, 1.0, despite_exact_answers=True).limit == 1.0
    assert "exact answers: 1; no finite epsilon" in run("status", place)


def test_a_limit_stays_until_another_is_set(tmp_path):
    """A party that was started again without --epsilon had none."""
    run("init", tmp_path / "fed", *THREE)
    place, rows = tmp_path / "fed" / "north", np.zeros((4, 2))

    def again(*limits):
        found = PartyFolder(place).party(rows, *limits)
        facts = json.loads(run("status", place, "--json"))
        assert (facts["epsilon_limit"], facts["delta"]) == (found.limit, found._budget.delta)
        return facts["epsilon_limit"], facts["delta"]

    assert again() == (None, 1e-6)
    assert again(1.0, 1e-8) == (1.0, 1e-8)
    assert again() == (1.0, 1e-8)
    assert again(2.0) == (2.0, 1e-8)
    assert again("none") == (None, 1e-8)
    (tmp_path / "x.csv").write_text("x,y\n1,2\n")
    for wrong in ("nothing", "0", "-1", "inf", "nan"):
        said = run("party", place, tmp_path / "x.csv", "--epsilon", wrong, code=2)
        assert "neither a number above 0 nor none" in " ".join(said.split())


def test_exact_fits_and_dropouts_exclude_each_other(tmp_path):
    said = run("init", tmp_path / "fed", *THREE, "--party", "east", "--dropouts", 1)
    assert "There are no exact fits" in " ".join(said.split())
    fit = ["run", tmp_path / "fed", "-k", 2, "--exact", "-o", tmp_path / "m"]
    assert "private fits only" in " ".join(run(*fit, code=2).split())
    assert not (tmp_path / "fed" / "server" / "runs").exists()


@pytest.fixture(scope="module")
def own_keys(tmp_path_factory):
    """Three parties' folders with keys of their own."""
    base = tmp_path_factory.mktemp("own")
    for name in "abc":
        run("key", base / name, "--name", name)
    return base


def given(base, cards):
    return [part for card in cards for part in ("--card", base / card / "card.json")]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda mine, other: {**mine, "signing": "00"}, "is broken"),
        (lambda mine, other: {**mine, "box": "zz" * 32}, "is broken"),
        (lambda mine, other: {**mine, "node": "-----BEGIN"}, "is broken"),
        (lambda mine, other: {**mine, "signing": 5}, "not a card"),
        (lambda mine, other: other, "have the same name"),
        (lambda mine, other: {**other, "name": "c"}, "cards of 'a' and 'c' have the same box"),
        (lambda mine, other: {**mine, "signing": other["signing"].upper()}, "the same signing"),
        (lambda mine, other: {**mine, "node": other["node"]}, "the same node"),
    ],
)
def test_broken_and_double_cards_are_refused(own_keys, tmp_path, change, words):
    other, mine = (json.loads((own_keys / n / "card.json").read_text()) for n in "ac")
    odd = tmp_path / "odd.json"
    odd.write_text(json.dumps(change(mine, other)))
    cards = [*given(own_keys, "ab"), "--card", odd]
    assert words in run("init", tmp_path / "fed", *cards, "--columns", "x", code=2)
    assert not (tmp_path / "fed").exists()


def test_the_hash_covers_all_that_was_agreed_on(own_keys, tmp_path):
    """Columns, keys of nodes, address and certificate: whoever changes one changes the hash."""
    run("init", tmp_path / "fed", *given(own_keys, "abc"), "--columns", "x,y")
    path = tmp_path / "fed" / "federation.json"
    body = json.loads(path.read_text())
    hashes = {Terms.load(path.parent).agreement.hash}
    nodes = dict(body["nodes"], a=body["nodes"]["b"])
    other = {"columns": ["y", "x"], "nodes": nodes, "address": "127.0.0.1:1", "ca": "another"}
    for word, value in other.items():
        path.write_text(json.dumps({**body, word: value}))
        with pytest.raises(ValueError, match="not those that were agreed on"):
            Terms.load(path.parent)
        beside = _digest(*({**body, word: value}[w] for w in ("nodes", "address", "ca", "columns")))
        changed = {**body, word: value, "agreement": {**body["agreement"], "beside": beside}}
        path.write_text(json.dumps(changed))
        hashes.add(Terms.load(path.parent).agreement.hash)
    assert len(hashes) == 5


def test_the_status_of_a_party_says_what_it_agreed_to(tmp_path):
    run("init", tmp_path / "fed", *THREE, "--columns", "age,weight")
    text = run("status", tmp_path / "fed" / "north")
    assert "columns                age, weight\n" in text
    assert "colluders              1\n" in text
    agreement = Terms.load(tmp_path / "fed").agreement
    assert agreement.trust() in text
    facts = json.loads(run("status", tmp_path / "fed" / "north", "--json"))
    assert facts["columns"] == ["age", "weight"]
    assert (facts["colluders"], facts["trust"]) == (1, agreement.trust())
    assert facts["agreement"] == agreement.hash


def test_a_party_without_a_limit_says_so_at_its_start(tmp_path, monkeypatch):
    from privem.federation.flower import node

    class Quiet:
        def __init__(self, *args):
            pass

        def serve(self):
            pass

    monkeypatch.setattr(node, "Node", Quiet)
    run("init", tmp_path / "fed", *THREE)
    (tmp_path / "x.csv").write_text("x,y\n1,2\n")

    def said(*options):
        words = ["federate", "party", tmp_path / "fed" / "north", tmp_path / "x.csv", *options]
        result = CliRunner().invoke(app, [*map(str, words)])
        assert result.exit_code == 0, result.output
        return " ".join(result.stderr.split())

    assert "it has no limit: it answers private questions of any epsilon, and exact ones" in said()
    assert "limit" not in said("--epsilon", 1)
    assert "limit" not in said()  # it stays
    assert "its limit is lifted" in said("--epsilon", "none")
    assert "it has no limit" in said()
    # A ledger is a limit too, also one that the environment names.
    budget = f"{tmp_path / 'budget.db'}#north"
    with Ledger(budget, budget=Budget(1.0, 1e-6)):
        assert "limit" not in said("--ledger", budget)
        monkeypatch.setenv("PRIVEM_LEDGER", budget)
        assert "limit" not in said()
    monkeypatch.setenv("PRIVEM_LEDGER", str(tmp_path / "lost.db"))
    words = ["federate", "party", tmp_path / "fed" / "north", tmp_path / "x.csv"]
    result = CliRunner().invoke(app, [*map(str, words)])
    assert result.exit_code == 8
    assert "there is no ledger" in result.stderr
