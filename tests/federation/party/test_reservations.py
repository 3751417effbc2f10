"""Budget is spent when something computed from rows may have left, and at no other time."""

import pytest

from privem import GaussianMixture, KMeans
from privem.blocks.histograms import CountQuery
from privem.blocks.moments import SumsQuery
from privem.core import Stage
from privem.federation import Federation, Party, PartyRefused
from privem.federation.party import party as partying
from privem.federation.party.account import account_of
from privem.federation.wire.messages import RunTerms
from privem.noise.discrete import Discrete
from privem.noise.exact import Exact

from .test_party import Server, asked, refused

LITTLE = Discrete(40.0, "add-remove", 1000.0)


def three(blobs, limits, **terms):
    parties = [
        Party(blobs[i::3], name, epsilon=limit)
        for i, (name, limit) in enumerate(zip("abc", limits, strict=True))
    ]
    return parties, Federation(parties, protection="masked", **terms)


def test_fits_that_a_party_refuses_cost_the_others_nothing(blobs):
    """They did: a hundred of them used up a budget of 1."""
    parties, federation = three(blobs, (1.0, 1.0, 0.5))
    for _ in range(100):
        with pytest.raises(PartyRefused, match=r"'c' refused: .*what is left"):
            KMeans(2, epsilon=1.0, bounds=(-20.0, 20.0)).fit(federation)
    assert [party.spent for party in parties] == [0.0, 0.0, 0.0]
    KMeans(2, epsilon=0.5, bounds=(-20.0, 20.0)).fit(federation)
    assert all(0.49 < party.spent <= 0.5 for party in parties)
    # What is left is not enough for the same again, and that is said before anybody pays.
    before = [party.spent for party in parties]
    with pytest.raises(PartyRefused, match="what is left"):
        KMeans(2, epsilon=0.5, bounds=(-20.0, 20.0)).fit(federation)
    assert [party.spent for party in parties] == before


def test_a_masked_question_costs_nothing_before_rows_are_in_it(blobs):
    """A refusal in the phases before that leaves the others' accounts as they were."""
    parties, federation = three(blobs, (1.0, 1.0, 0.1))
    for _ in range(3):
        federation.begin({})
        with pytest.raises(PartyRefused, match="'c' refused"):
            federation.release(Stage(CountQuery(), Discrete(10.0, "add-remove", 1000.0)))
    assert [party.spent for party in parties] == [0.0, 0.0, 0.0]
    federation.begin({})
    federation.release(Stage(CountQuery(), Discrete(200.0, "add-remove", 1000.0)))
    assert all(0 < party.spent <= 0.1 for party in parties)


@pytest.mark.parametrize("noise", [LITTLE, Exact()], ids=["private", "exact"])
@pytest.mark.parametrize("protection", ["plain", "masked", "encrypted"])
def test_the_cost_is_stored_before_a_row_is_read(blobs, monkeypatch, protection, noise):
    query = CountQuery() if noise.private else SumsQuery()
    parties = [Party(blobs[i::3], name) for i, name in enumerate("abc")]
    federation = Federation(parties, protection=protection, bounds=(-30.0, 30.0), rows=1000)
    stored, summed = [], 0
    parties[0].store = stored.append
    honest = partying.answer

    def summing(question, source, *rest):
        nonlocal summed
        if len(source.rows.X) == len(parties[0]._rows.X) and source.rows.X is parties[0]._rows.X:
            account = account_of(stored[-1])
            assert account.reserved
            assert (account.exact, len(account.spent)) == ((0, 1) if noise.private else (1, 0))
            summed += 1
        return honest(question, source, *rest)

    monkeypatch.setattr(partying, "answer", summing)
    federation.begin({})
    assert account_of(stored[-1]).reserved == b""
    federation.release(Stage(query, noise))
    assert summed == 1
    # What left was stored too, and nothing is reserved any more.
    assert stored[-1] == parties[0].state()
    assert account_of(stored[-1]).reserved == b""


def test_what_a_party_refuses_is_void_and_that_is_stored(blobs, monkeypatch):
    stored = []
    server = Server(blobs, epsilon=1.0, store=stored.append)
    assert server.begin()[0]
    before = server.party.state()

    def fails(*args):
        assert account_of(stored[-1]).spent
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(partying, "answer", fails)
        for _ in range(30):
            assert refused(server.ask(asked(CountQuery(), LITTLE)), "could not be answered")
            assert stored[-1] == server.party.state() == before
    assert server.party.spent == 0
    assert server.ask(asked(CountQuery(), LITTLE))[0]


class Killed(BaseException):
    """As SIGKILL would: nothing of what comes after is stored."""


def test_after_a_crash_the_cost_stays_spent_and_pays_for_that_answer_alone(blobs, monkeypatch):
    stored = []
    server = Server(blobs, epsilon=0.3, store=stored.append)
    assert server.begin()[0]
    question = asked(CountQuery(), LITTLE)

    def crashes(*args):
        raise Killed

    def again():
        return Party(blobs, "party 0", store=stored.append).restore(stored[-1])

    with monkeypatch.context() as patch:
        patch.setattr(partying, "answer", crashes)
        for _ in range(5):  # killed again and again over the same question: one cost
            with pytest.raises(Killed):
                server.ask(question)
            server.party = again()
            assert 0 < server.party.spent < 0.2
    once = server.party.spent
    assert server.ask(question)[0]
    assert server.party.spent == once
    # Its next question, crashed over and never asked again, is abandoned: it stays spent.
    with monkeypatch.context() as patch:
        patch.setattr(partying, "answer", crashes)
        with pytest.raises(Killed):
            server.ask(question, round=2)
    server.party = again()
    twice = server.party.spent
    assert twice > once
    assert server.ask(asked(CountQuery(2.0), LITTLE), round=2)[0]
    assert server.party.spent > twice
    # The same words in another round, or another run, are another answer.
    with monkeypatch.context() as patch:
        patch.setattr(partying, "answer", crashes)
        with pytest.raises(Killed):
            server.ask(question, round=3)
    server.party = again()
    before = server.party.spent
    assert server.ask(question, round=4)[0]
    assert server.party.spent > before


def test_a_run_crashed_in_keeps_its_number(blobs, monkeypatch):
    """Its cost is not taken for one of the next run's, whose failure would then not be charged."""
    stored = []
    server = Server(blobs, store=stored.append)
    assert server.begin(failure=1e-9)[0]

    def crashes(*args):
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(partying, "answer", crashes)
        with pytest.raises(Killed):
            server.ask(asked(CountQuery(), LITTLE))
    server.party = Party(blobs, "party 0", store=stored.append).restore(stored[-1])
    server.run = "run 2"
    assert server.begin(failure=1e-8)[0]
    assert server.ask(asked(CountQuery(), LITTLE))[0]
    account = account_of(stored[-1])
    assert account.failures == (1e-9, 1e-8)
    assert [run for run, _ in account.spent] == [1, 2]


def test_a_run_asks_for_no_more_than_its_terms_say(blobs):
    server = Server(blobs)
    assert server.begin(private=True, budget=(0.3, 1e-6, "auto"))[0]
    answers = [server.ask(asked(CountQuery(), LITTLE), round=r) for r in range(1, 20)]
    assert answers[0][0]
    assert refused(answers[-1], "the run's terms")
    assert 0.2 < server.party.spent <= 0.3
    # A party without a limit begins another run, which has terms of its own.
    server.run = "run 2"
    assert server.begin(private=True, budget=(0.3, 1e-6, "auto"))[0]
    assert server.ask(asked(CountQuery(), LITTLE))[0]


@pytest.mark.parametrize(
    "budget",
    [
        None,
        (1.0, 1e-6),
        (1, 1e-6, "auto"),
        (0.0, 1e-6, "auto"),
        (-1.0, 1e-6, "auto"),
        (1.0, 1.0, "auto"),
        (1.0, 1e-10, "auto"),
        (1.0, 1e-6, "none"),
        (1.0, 1e-6, ("auto",)),
        {"epsilon": 1.0},
    ],
)
def test_terms_without_a_budget_are_malformed(blobs, budget):
    server = Server(blobs)
    opening = {"terms": {}, "failure": 1e-9, "private": True, "budget": budget}
    request = server.request(round=0, step=0, plan="?", payload=partying.pack("terms", opening))
    assert refused(server.send(request), "malformed")


@pytest.mark.parametrize(
    ("limit", "budget", "granted"),
    [
        (1.0, (1.0, 1e-6), True),
        (1.0, (1.001, 1e-6), False),
        (1.0, (1.0, 1e-5), False),  # at the party's delta that is more
        (1.0, (1.0, 1e-8), True),
        (1.0, (0.8, 1e-5), True),
        (None, (1e6, 0.5), True),
    ],
)
@pytest.mark.parametrize("failure", [0.0, 1e-9])
def test_a_budget_that_is_too_small_refuses_at_the_beginning(
    blobs, limit, budget, granted, failure
):
    server = Server(blobs, epsilon=limit, delta=1e-6)
    answer = server.begin(private=True, failure=failure, budget=(*budget, "auto"))
    assert answer[0] == granted
    assert granted or refused(answer, "what is left of this party's own budget")


def test_an_exact_run_is_refused_at_the_beginning_by_a_limit(blobs):
    server = Server(blobs, epsilon=1.0)
    assert refused(server.begin(private=False), "an exact answer has no finite cost")


@pytest.mark.parametrize(
    ("mechanism", "accountant"),
    [
        ("auto", "auto"),
        ("auto", "rdp"),
        pytest.param("auto", "pld", marks=pytest.mark.slow),
        ("llg", "auto"),
        ("llg", "rdp"),
        pytest.param("llg", "pld", marks=pytest.mark.slow),
    ],
)
def test_honest_fits_stay_within_their_terms(blobs, mechanism, accountant):
    federation = Federation(
        [Party(blobs[i::3], name) for i, name in enumerate("abc")], protection="plain"
    )
    model = GaussianMixture(2, epsilon=2.0, bounds=(-20.0, 20.0), mechanism=mechanism, n_iter=2)
    model.set_params(accountant=accountant).fit(federation)
    assert model.privacy_.spent > 1.9


def test_laplace_budgets_add_up(blobs):
    """Where all noise is Laplace epsilons add up, and a run that fits is not refused."""
    parties, federation = three(blobs, (1.5, 1.5, 1.5), rows=600, bounds=(-20.0, 20.0))
    for epsilon in (0.5, 1.0):
        KMeans(
            2,
            epsilon=epsilon,
            bounds=(-20.0, 20.0),
            mechanism="ll",
            n_iter=2,
            neighbours="replace-one",
            accountant="linear",
        ).fit(federation)
    assert all(1.2 < party.spent <= 1.5 for party in parties)


def test_the_budget_is_part_of_the_plan():
    hashes = {
        RunTerms({}, 0.0, True, budget).hash
        for budget in ((1.0, 1e-6, "auto"), (2.0, 1e-6, "auto"), (1.0, 1e-7, "auto"))
    }
    assert len(hashes) == 3
