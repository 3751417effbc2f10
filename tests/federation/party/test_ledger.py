"""A party with a ledger: one entry a run, and what it costs."""

import pytest

from privem import Budget, GaussianMixture, KMeans, Ledger, LedgerError, SymmetricMixture
from privem.blocks.histograms import CountQuery
from privem.blocks.moments import SumsQuery
from privem.core import Stage
from privem.federation import Federation, Party, PartyRefused
from privem.federation.party import party as partying
from privem.federation.party.entries import Entries
from privem.federation.wire.messages import RunTerms
from privem.ledger import WrongRelation
from privem.ledger.chain import cost_of
from privem.ledger.filter import Cost, event_of_run
from privem.noise.discrete import Discrete
from privem.noise.exact import Exact

from .test_party import Server, asked, refused

LITTLE = Discrete(40.0, "add-remove", 1000.0)
BUDGET = Budget(3.0, 1e-6)
RUN = {"private": True, "budget": (0.5, 1e-6, "auto")}


@pytest.fixture
def ledger(tmp_path):
    with Ledger(tmp_path / "budget.db", "north", BUDGET) as found:
        yield found


def states(ledger):
    return [run.state for run in ledger.history()]


def totals(ledger):
    return ledger.state().totals


def kinds(ledger):
    with ledger.store.reading(ledger.dataset) as rows:
        return [row.values["kind"] for row in rows]


def cost_of_account(party, budget=BUDGET, steps=1):
    """Of all runs, from the account alone."""
    account = party._budget
    runs = sorted({run for run, _ in account.spent})
    pairs = zip(runs, account.failures or [0.0] * len(runs), strict=True)
    costs = [
        Cost.of(event_of_run(account.of_run(run), failure), budget.epsilon, steps)
        for run, failure in pairs
    ]
    return sum(costs, Cost())


def federation_of(blobs, ledgers, protection="masked", **terms):
    parties = [Party(blobs[i::3], f"p{i}", ledger=each) for i, each in enumerate(ledgers)]
    return parties, Federation(parties, protection=protection, **terms)


@pytest.mark.parametrize("protection", ["plain", "masked", "encrypted"])
def test_each_run_has_one_entry_which_the_next_run_settles(blobs, tmp_path, protection):
    ledgers = [Ledger(tmp_path / f"{i}.db", f"site {i}", BUDGET) for i in range(3)]
    parties, federation = federation_of(blobs, ledgers, protection)
    for number in range(3):
        KMeans(2, epsilon=0.5, bounds=(-20.0, 20.0), n_iter=2).fit(federation)
        for party, ledger in zip(parties, ledgers, strict=True):
            assert states(ledger) == ["released"] * number + ["pending"]
            # As much as the account says; what is pending counts in full, which is hardly more.
            whole, own = totals(ledger), cost_of_account(party)
            assert own.squares <= whole.squares < own.squares * 1.001
            assert own.failure <= whole.failure
            assert party._entries.claim.spent.within(whole)
            what = ledger.history()[-1].what
            assert (what.model, what.epsilon, what.trust) == ("KMeans", 0.5, "party")
    for party, ledger in zip(parties, ledgers, strict=True):
        party._entries.claim.settle(ledger)
        assert totals(ledger) == cost_of_account(party)
        assert ledger.verify().pending == ()
        assert kinds(ledger).count("answer") == len(party._budget.spent)
        assert ledger.spent == pytest.approx(party.spent, rel=0.02)
        ledger.close()


def test_a_run_of_the_whole_budget_fits_once(blobs, tmp_path):
    ledger = Ledger(tmp_path / "b.db", "x", Budget(1.0, 1e-6))
    _, federation = federation_of(blobs, [ledger, None, None], "plain")
    KMeans(2, epsilon=1.0, bounds=(-20.0, 20.0), n_iter=2).fit(federation)
    with pytest.raises(PartyRefused, match=r"'p0' refused: .* what is left of this party's own"):
        KMeans(2, epsilon=0.5, bounds=(-20.0, 20.0), n_iter=2).fit(federation)
    assert ledger.spent <= 1.0
    ledger.close()


def test_a_ledger_without_room_refuses_at_the_beginning_and_tells_its_owner_why(blobs, ledger):
    parties, federation = federation_of(blobs, [ledger, None, None])
    for _ in range(3):
        with pytest.raises(PartyRefused, match="'p0' refused: the run's epsilon exceeds") as said:
            KMeans(2, epsilon=3.5, bounds=(-20.0, 20.0)).fit(federation)
        assert "3" not in str(said.value).replace("'p0'", "")
    assert "of epsilon 3 at delta 1e-06" in str(parties[0].problem)
    assert kinds(ledger) == ["open"]
    assert [party.spent for party in parties] == [0.0] * 3


def test_the_reservation_is_there_before_a_row_is_read(blobs, ledger, monkeypatch):
    stored, seen = [], []
    server = Server(blobs, ledger=ledger, store=stored.append)
    honest = partying.answer

    def summing(*args):
        seen.append((states(ledger), kinds(ledger)))
        return honest(*args)

    monkeypatch.setattr(partying, "answer", summing)
    assert server.begin(**RUN)[0]
    assert kinds(ledger) == ["open"]  # a run that asks nothing costs nothing
    for round in (1, 2):
        assert server.ask(asked(CountQuery(), LITTLE), round=round)[0]
    assert seen == [
        (["pending"], ["open", "reserve", "answer"]),
        (["pending"], ["open", "reserve", "answer", "answer"]),
    ]


def test_no_answer_without_its_row(blobs, ledger, monkeypatch):
    """Whatever is wrong with the ledger: nothing leaves, and the account is as it was."""
    server = Server(blobs, ledger=ledger)
    assert server.begin(**RUN)[0]
    question = asked(CountQuery(), LITTLE)

    def fails(self, *args):
        raise LedgerError("the ledger 'secret.db' could not be written: disk full")

    def reads(*args):
        raise AssertionError("a row was read")

    for name in ("enter", "answer"):
        with monkeypatch.context() as patch:
            patch.setattr(Entries, name, fails)
            patch.setattr(partying, "answer", reads)
            assert refused(server.ask(question), "could not be answered")
        assert "disk full" in str(server.party.problem)
        assert server.party.spent == 0
    assert server.ask(question)[0]
    assert states(ledger) == ["pending"]


def test_exact_questions_and_runs_without_terms_are_refused(blobs, ledger):
    server = Server(blobs, ledger=ledger)
    assert refused(server.begin(private=False), "it has a ledger, and an exact answer")
    assert server.begin()[0]
    assert refused(server.ask(asked(SumsQuery(), Exact())), "it has a ledger")
    assert refused(server.ask(asked(CountQuery(), LITTLE)), "terms must name its epsilon")
    assert kinds(ledger) == ["open"]


def test_what_was_refused_on_its_way_is_void(blobs, ledger, monkeypatch):
    server = Server(blobs, ledger=ledger)
    assert server.begin(**RUN)[0]

    def fails(*args):
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(partying, "answer", fails)
        for _ in range(2):
            assert refused(server.ask(asked(CountQuery(), LITTLE)), "could not be answered")
    assert states(ledger) == ["pending"]
    server.run = "run 2"
    assert server.begin(**RUN)[0]
    assert server.ask(asked(CountQuery(), LITTLE))[0]
    assert states(ledger) == ["void", "pending"]
    # Refused in a run that has answered: what has left stays counted.
    once = server.party._entries.claim.spent
    with monkeypatch.context() as patch:
        patch.setattr(partying, "answer", fails)
        assert refused(server.ask(asked(CountQuery(), LITTLE), round=2), "could not be answered")
    server.run = "run 3"
    assert server.begin(**RUN)[0]
    assert server.ask(asked(CountQuery(), LITTLE))[0]
    assert states(ledger) == ["void", "released", "pending"]
    with ledger.store.reading("north") as rows:
        assert cost_of(next(row for row in rows if row.values["kind"] == "released")) == once
    assert ledger.verify().pending == (ledger.history()[-1].entry,)


@pytest.mark.parametrize(
    ("budget", "noise", "steps"),
    [
        (Budget(3.0, 1e-6), "add-remove", 1),
        (Budget(3.0, 1e-6), "replace-one", 1),
        (Budget(3.0, 1e-6, "replace-one"), "add-remove", 2),
        (Budget(3.0, 1e-6, "replace-one"), "replace-one", 1),
    ],
)
def test_relations_are_converted(blobs, tmp_path, budget, noise, steps):
    with Ledger(tmp_path / "b.db", "x", budget) as ledger:
        server = Server(blobs, ledger=ledger)
        assert server.begin(**RUN)[0]
        assert server.ask(asked(CountQuery(), Discrete(40.0, noise, 1000.0)))[0]
        spent = server.party._entries.claim.spent
        assert spent == cost_of_account(server.party, budget, steps)
        # A later question of the run may not count for more than was reserved.
        answer = server.ask(asked(CountQuery(), LITTLE), round=2)
        if noise == "replace-one" == budget.neighbours:
            assert refused(answer, "neighbours are not those that the run began with")
        else:
            assert answer[0]


def test_persons_and_records(blobs, tmp_path):
    persons = Ledger(tmp_path / "p.db", "x", Budget(3.0, 1e-6, unit="person"))
    records = Ledger(tmp_path / "r.db", "x", BUDGET)
    with pytest.raises(WrongRelation, match="say whose the records are"):
        Party(blobs, "a", ledger=persons)
    groups = [i // 2 for i in range(len(blobs))]
    for ledger, steps in ((persons, 1), (records, 2)):
        server = Server(blobs, groups=groups, ledger=ledger)
        assert server.begin(**RUN)[0]
        assert server.ask(asked(CountQuery(), LITTLE))[0]
        assert server.party._entries.claim.steps == steps
        ledger.close()


@pytest.mark.parametrize(
    "model",
    [
        GaussianMixture(2, bounds=(-20.0, 20.0), n_iter=2, mechanism="llg"),
        GaussianMixture(2, bounds=(-20.0, 20.0), n_iter=2, mechanism="laplace", accountant="zcdp"),
        KMeans(2, bounds=(-20.0, 20.0), n_iter=2, mechanism="dplloyd"),
        GaussianMixture(2, bounds=(-20.0, 20.0), n_iter=2, accountant="pld"),
        SymmetricMixture(bounds=30.0, method="gradient", batch="partition", n_iter=3),
    ],
    ids=lambda model: f"{type(model).__name__} {model.get_params().get('mechanism')}",
)
def test_every_kind_of_run_stays_within_its_reservation(blobs, ledger, model):
    parties, federation = federation_of(blobs, [ledger, None, None], "plain")
    model.fit(federation)
    reserve, claim = totals(ledger), parties[0]._entries.claim
    claim.settle(ledger)
    spent = totals(ledger)
    assert spent == cost_of_account(parties[0])
    assert spent.within(reserve)
    assert 0.5 * reserve.squares < spent.squares
    ledger.verify()


def test_a_run_that_comes_to_cost_more_than_is_reserved_is_stopped(blobs, ledger, monkeypatch):
    """Laplace noise that its terms did not speak of costs a party more than they say."""
    monkeypatch.setattr(RunTerms, "mixed", False)
    parties, federation = federation_of(blobs, [ledger, None, None], "plain")
    with pytest.raises(PartyRefused, match="'p0' refused: the question could not be answered"):
        KMeans(2, bounds=(-20.0, 20.0), n_iter=2, mechanism="ll").fit(federation)
    assert "exceed what the ledger has reserved" in str(parties[0].problem)
    assert parties[0]._entries.claim.spent == cost_of_account(parties[0])
    assert parties[0]._entries.claim.spent.within(totals(ledger))


def test_the_partys_own_limit_holds_as_well(blobs, ledger):
    server = Server(blobs, epsilon=0.2, ledger=ledger)
    assert refused(server.begin(**RUN), "own budget")
    assert server.begin(private=True, budget=(0.19, 1e-6, "auto"))[0]
    answers = [server.ask(asked(CountQuery(), LITTLE), round=r) for r in range(1, 6)]
    assert answers[0][0]
    assert not answers[-1][0]
    assert server.party.spent <= 0.2


def test_names_of_models_are_a_servers_word(blobs, ledger):
    server = Server(blobs, ledger=ledger)
    server.plan = ""
    for run, name in (("run 1", "[red]" * 3), ("run 2", "KMeans"), ("run 3", "x" * 99)):
        server.run, server.round = run, 0
        terms = {"estimator": name}
        server.plan = RunTerms(terms, 0.0, True, (0.5, 1e-6, "auto")).hash
        assert server.begin(terms, **RUN)[0]
        assert server.ask(asked(CountQuery(), LITTLE))[0]
    assert [run.what.model for run in ledger.history()] == [
        *("federated run", "KMeans", "federated run")
    ]


def test_a_federation_without_ledgers_has_no_entries(blobs):
    parties, federation = federation_of(blobs, [None] * 3, "plain")
    federation.begin({})
    federation.release(Stage(CountQuery(), LITTLE))
    assert parties[0]._entries.state() is None
