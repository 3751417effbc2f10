"""A party with a ledger that is killed, started again, copied, or restored from a backup."""

import copy
import random
import shutil

import pytest

from privem import Budget, Ledger
from privem.blocks.histograms import CountQuery
from privem.blocks.moments import SumsQuery
from privem.federation import Party
from privem.federation.party import party as partying
from privem.ledger.filter import Cost, event_of_run
from privem.noise.discrete import Discrete
from privem.noise.exact import Exact

from .test_ledger import BUDGET, LITTLE, RUN, cost_of_account, ledger, states, totals
from .test_party import Server, asked, refused
from .test_reservations import Killed

__all__ = ["ledger"]  # a fixture


def instants(blobs, ledger, stop):
    """A server that asks the same two questions again until they are answered.

    At its ``stop``-th write, before it or after it, the party is killed, once.
    """
    stored, count = [], 0

    def at(write):
        def doing(*args):
            nonlocal count
            count += 1
            if count == stop:
                raise Killed
            found = write(*args)
            count += 1
            if count == stop:
                raise Killed
            return found

        return doing

    keep, append = at(stored.append), at(ledger.store.append)
    proxy = copy.copy(ledger)
    proxy.store = copy.copy(ledger.store)
    proxy.store.append = append
    server = Server(blobs, ledger=proxy, store=keep)
    stored.append(server.party.state())
    questions = [asked(CountQuery(float(i)), LITTLE) for i in (1, 2)]
    answers = []

    def insisting(ask, *args, **more):
        try:
            return ask(*args, **more)
        except Killed:
            server.party = Party(blobs, "party 0", ledger=proxy, store=keep).restore(stored[-1])
            return ask(*args, **more)

    for run in ("run 1", "run 2"):
        server.run = run
        server.round = 0
        begun = insisting(server.begin, **RUN)
        # A begun run is begun: its reply was stored before the party was killed.
        assert begun[0] or "begun before" in begun[1]
        for round, question in enumerate(questions, 1):
            answers.append(insisting(server.ask, question, round=round))
    return server.party, answers, count


def test_killed_at_any_instant_it_goes_on_with_the_same_entry(blobs, tmp_path):
    """Before and after every write, of the state and of the ledger."""
    clean = Ledger(tmp_path / "clean.db", "north", BUDGET)
    party, answers, writes = instants(blobs, clean, 0)
    assert all(answered for answered, _ in answers)
    assert states(clean) == ["released", "pending"]
    for stop in range(1, writes + 1):
        ledger = Ledger(tmp_path / f"{stop}.db", "north", BUDGET)
        party, answers, _ = instants(blobs, ledger, stop)
        assert all(answered for answered, _ in answers), (stop, answers)
        ledger.verify()
        # A reservation that the party was killed over stays pending. No other run has two.
        found = states(ledger)
        assert found in (
            ["released", "pending"],
            ["pending", "released", "pending"],
            ["released", "pending", "pending"],
        ), stop
        whole, own = totals(ledger), cost_of_account(party)
        assert own.squares <= whole.squares
        party._entries.claim.settle(ledger)
        if len(found) == 2:
            assert totals(ledger) == own
        ledger.close()
    clean.close()


def test_a_restored_state_neither_answers_nor_gives_back(blobs, ledger):
    stored = []
    server = Server(blobs, ledger=ledger, store=stored.append)
    assert server.begin(**RUN)[0]
    assert server.ask(asked(CountQuery(), LITTLE))[0]
    old = stored[-1]
    assert server.ask(asked(CountQuery(), LITTLE), round=2)[0]
    before = totals(ledger)
    server.party = Party(blobs, "party 0", ledger=ledger, store=stored.append).restore(old)
    for scale in (5.0, 1.0):  # another question, and the same
        question = asked(CountQuery(scale), LITTLE)
        assert refused(server.ask(question, round=2), "could not be answered")
        assert "does not know of" in str(server.party.problem)
    # The next run of a state that is behind leaves the entry as dear as it was reserved.
    server.party = Party(blobs, "party 0", ledger=ledger, store=stored.append).restore(old)
    server.run = "run 2"
    assert server.begin(**RUN)[0]
    assert server.ask(asked(CountQuery(), LITTLE))[0]
    assert states(ledger) == ["abandoned", "pending"]
    assert totals(ledger).squares == 2 * before.squares
    ledger.verify()


def test_a_restored_ledger_is_noticed(blobs, ledger, tmp_path):
    server = Server(blobs, ledger=ledger)
    assert server.begin(**RUN)[0]
    ledger.close()
    shutil.copy(tmp_path / "budget.db", tmp_path / "old.db")
    assert server.ask(asked(CountQuery(), LITTLE))[0]
    state = server.party.state()
    for round in (2, 3):
        old = Ledger(tmp_path / "old.db", "north")
        server.party = Party(blobs, "party 0", ledger=old).restore(state)
        assert refused(server.ask(asked(CountQuery(), LITTLE), round=round), "could not be")
        assert "older copy of the ledger" in str(server.party.problem)
        # A new run is refused too: what was spent would be forgotten.
        server.run = f"run {round}"
        assert refused(server.begin(**RUN), "could not be")
        server.run = "run 1"
        spent = Party(blobs, "p", ledger=old)  # somebody else goes on with the old copy
        assert spent.spent == 0
        old.close()


def test_a_state_with_an_entry_needs_its_ledger(blobs, ledger, tmp_path):
    server = Server(blobs, ledger=ledger)
    assert server.begin(**RUN)[0]
    assert server.ask(asked(CountQuery(), LITTLE))[0]
    state = server.party.state()
    with pytest.raises(ValueError, match="charged to the ledger of 'north'"):
        Party(blobs, "party 0").restore(state)
    with Ledger(tmp_path / "budget.db", "other", BUDGET) as other:
        server.party = Party(blobs, "party 0", ledger=other).restore(state)
        assert refused(
            server.ask(asked(CountQuery(), LITTLE), round=2), "under another ledger of this party"
        )
        server.run = "run 2"
        assert server.begin(**RUN)[0]
        assert server.ask(asked(CountQuery(), LITTLE))[0]
        assert (states(ledger), states(other)) == (["pending"], ["pending"])
    # Exact answers were given: a ledger would promise too much.
    plain = Server(blobs)
    assert plain.begin()[0]
    assert plain.ask(asked(SumsQuery(), Exact()))[0]
    with pytest.raises(ValueError, match="promises nothing about rows that were in exact"):
        Party(blobs, "party 0", ledger=ledger).restore(plain.party.state())


def test_an_entry_that_its_owner_has_abandoned_is_answered_under_no_more(blobs, ledger):
    server = Server(blobs, ledger=ledger)
    assert server.begin(**RUN)[0]
    assert server.ask(asked(CountQuery(), LITTLE))[0]
    ledger.abandon(1)
    assert refused(server.ask(asked(CountQuery(), LITTLE), round=2), "could not be answered")
    assert "abandoned already: its run is over" in str(server.party.problem)
    server.run = "run 2"
    assert server.begin(**RUN)[0]
    assert server.ask(asked(CountQuery(), LITTLE))[0]
    assert states(ledger) == ["abandoned", "pending"]


@pytest.mark.parametrize("seed", range(4))
def test_copies_of_a_party_spend_from_one_budget(blobs, tmp_path, monkeypatch, seed):
    """Whoever copies states and asks each copy other questions: everything is in the ledger.

    Without a ledger each copy has an account of its own (docs/proofs/federation.md, section 8).
    """
    dice, left, answered = random.Random(seed), {}, 0
    ledger = Ledger(tmp_path / "b.db", "north", Budget(1.0, 1e-6))
    server = Server(blobs[:30], ledger=ledger)
    kept, honest = [server.party.state()], partying.answer

    def summing(question, *rest):
        found = honest(question, *rest)
        # What leaves is one release, however often it is said with the same noise.
        left[found.tobytes()] = question.prices
        return found

    monkeypatch.setattr(partying, "answer", summing)
    for turn in range(100):
        party = server.party = Party(blobs[:30], "party 0", ledger=ledger)
        memory = party.restore(dice.choice(kept[-12:]))._memory
        if not memory.run or dice.random() < 0.15:
            server.run = f"run {turn}"
            done = server.begin(private=True, budget=(0.4, 1e-6, "auto"))
        else:
            server.run, server.plan = memory.run, memory.plan
            noise = Discrete(dice.choice([20.0, 40.0]), "add-remove", 1000.0)
            question = asked(CountQuery(float(dice.randint(1, 3))), noise)
            done = server.ask(question, round=memory.round + 1, step=turn)
            answered += done[0]
        if done[0]:
            kept.append(party.state())
    spent = [price for prices in left.values() for price in prices]
    assert answered > 5
    whole = Cost.of(event_of_run(spent), 1.0)
    assert whole.squares <= totals(ledger).squares <= ledger.state().limits.squares
    ledger.verify()
    ledger.close()
