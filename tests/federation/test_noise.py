"""Noise of a federation: how much, who adds it, and that the statement accounts for it."""

import math
import warnings

import numpy as np
import pytest

from privem import FactorAnalysis, GaussianMixture, KMeans
from privem.blocks.histograms import CountQuery
from privem.core import Spent
from privem.federation import Agreement, Card, Federation, TooFewParties
from privem.federation import sums as answering
from privem.federation.sums import noise_of
from privem.meter import event_of
from privem.noise.discrete import Discrete, draw
from privem.run import Record

from .conftest import federate, split

ESTIMATORS = [
    GaussianMixture(2, epsilon=6.0, n_iter=3, bounds=(-20.0, 20.0)),
    GaussianMixture(2, epsilon=6.0, n_iter=2, bounds=(-20.0, 20.0), mechanism="llg"),
    KMeans(2, epsilon=6.0, n_iter=2),
    FactorAnalysis(1, epsilon=6.0, bounds=(-20.0, 20.0)),
]


def fit(model, federation):
    record = Record()
    model._watch = record
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(federation)
    del model._watch
    return model.privacy_, record.releases


def deviations(releases):
    """(deviation reported, deviation of central noise, kind) of every group of every release."""
    for release in releases:
        reported = np.concatenate(
            [np.ravel(v) for v in vars(release.deviation).values() if v is not None]
        )
        for group, spent in zip(release.query.groups("add-remove"), release.spent, strict=True):
            yield from ((value, spent.deviation, spent.kind) for value in reported[group.where])


def parts(X, parties):
    return [X[i::parties] for i in range(parties)]


def test_shared_noise_of_ten_honest_parties_is_central_noise(blobs):
    """From the statement: at the same epsilon and delta, within 10% of central noise."""
    _, releases = fit(ESTIMATORS[0], federate(parts(blobs, 10), "masked", colluders=0))
    central, _ = fit(ESTIMATORS[0], blobs)
    for reported, alone, _ in deviations(releases):
        assert alone <= reported <= 1.0001 * alone
    # The fit asks for no more noise because it is federated: the same multipliers, to the last
    # bits that the noisy count decides.
    federated = ESTIMATORS[0].fit(federate(parts(blobs, 10), "masked", colluders=0)).privacy_
    first = [group.multiplier for record in federated.releases[:1] for group in record.groups]
    assert first == [g.multiplier for record in central.releases[:1] for g in record.groups]
    # One of twelve may drop out and one collude: ten honest ones are left, and noise for twelve.
    _, releases = fit(ESTIMATORS[0], federate(parts(blobs, 12), "masked", dropouts=1, colluders=1))
    assert all(1.0 <= reported / alone <= 1.1 for reported, alone, _ in deviations(releases))


@pytest.mark.parametrize(
    ("terms", "shared"),
    [
        ({"protection": "plain"}, False),
        ({"protection": "encrypted"}, False),
        ({"protection": "encrypted", "collusion": "none"}, True),
        ({"protection": "masked"}, True),
    ],
    ids=repr,
)
@pytest.mark.parametrize("model", ESTIMATORS, ids=lambda m: f"{type(m).__name__}-{m.mechanism}")
def test_the_statement_accounts_for_every_estimator(blobs, model, terms, shared):
    federation = federate(split(np.tile(blobs, (10, 1)), "even"), **terms)
    statement, releases = fit(model, federation)
    assert statement.spent <= 6.0
    assert statement.recount() == statement.spent
    assert statement.parties == federation.statement()
    assert statement.parties in str(statement)
    assert type(statement).from_dict(statement.to_dict()) == statement
    for reported, alone, kind in deviations(releases):
        whole = not shared or kind == "laplace"
        # Shares are of a third each: what one of the four knows of it does not count.
        assert reported == pytest.approx(alone * (2.0 if whole else math.sqrt(4 / 3)), rel=1e-5)


def test_encrypted_shares_noise_only_where_nobody_colludes():
    cards = tuple(Card(name) for name in "abcd")
    assert Agreement(cards, "encrypted").share == 1
    assert Agreement(cards, "encrypted", collusion="none").share == 3
    with pytest.raises(ValueError, match="for protection='encrypted'"):
        Agreement(cards, "plain", collusion="none")


@pytest.mark.parametrize("steps", [2**24, 2**24 + 12345, 2**25 - 1])
@pytest.mark.parametrize("share", [1, 2, 3, 7, 10, 999, 10**6])
def test_shares_add_up_to_the_promise(steps, share):
    """Any ``share`` parties together have the variance that was charged, and hardly more."""
    one = -(-(steps**2) // share)
    assert share * one >= steps**2
    assert share * one <= steps**2 * (1 + 1e-6)
    assert one >= 25  # sums of discrete Gaussians are then one, to 1e-100
    spent = Spent("x", "gaussian", 1, 1.0, 0.0, 2.0**-20, steps)
    assert noise_of(spent, share, share) >= spent.deviation
    assert event_of(spent).steps == steps


def test_what_parties_draw_is_what_is_said():
    """Empirical deviation of shares; false alarms below 1e-9 (30,000 draws, 4%)."""
    spent = Spent("x", "gaussian", 1, 1.0, 0.0, 1.0, 2**24)
    total = sum(draw(spent, 30_000, share=5) for _ in range(5))
    assert abs(np.std(total.astype(float)) / 2**24 - 1) < 0.04
    alone = draw(spent, 30_000, share=5)
    assert abs(np.std(alone.astype(float)) / (2**24 / math.sqrt(5)) - 1) < 0.04
    laplace = Spent("x", "laplace", 1, 1.0, 0.0, 1.0, 2**24)
    noise = draw(laplace, 30_000, share=5).astype(float)
    assert abs(np.std(noise) / (math.sqrt(2) * 2**24) - 1) < 0.06


def test_each_party_rounds_and_noises_itself(blobs, monkeypatch):
    """With noise taken away what comes out is the sum of what each party rounded."""
    monkeypatch.setattr(
        "privem.noise.discrete.draw", lambda spent, size, *rest: np.zeros(size, np.int64)
    )
    _, releases = fit(ESTIMATORS[0], federate(split(blobs, "even"), "masked"))
    assert float(releases[0].statistics.count) == len(blobs)


def test_the_bound_on_records_covers_the_noise_of_all_parties():
    """The count's failure probability rests on the deviation of the total, not of one party."""
    noise = Discrete(50.0, "add-remove", 2.0**36)
    (spent,) = noise.price(CountQuery())
    assert noise_of(spent, 1, 9) >= 3 * spent.deviation
    assert noise_of(spent, 9, 9) >= spent.deviation
    # Half a step of rounding for each party on top.
    assert noise_of(spent, 9, 9) - spent.deviation >= 4.4 * spent.grid


def test_nobody_who_was_missing_once_is_asked_again(blobs):
    federation = federate(parts(blobs, 5), "plain", dropouts=1)
    asked = []

    class Losing(type(federation.transport)):
        def exchange(self, mail):
            asked.append(set(mail))
            replies = super().exchange(mail)
            return {k: v for k, v in replies.items() if len(asked) != 3 or k != "party 2"}

    federation.transport = Losing(federation.transport.parties.values())
    fit(ESTIMATORS[0], federation)
    assert all("party 2" in names for names in asked[:3])
    assert not any("party 2" in names for names in asked[3:])


@pytest.mark.parametrize("protection", ["plain", "encrypted", "masked"])
def test_too_few_parties_open_nothing(blobs, protection):
    federation = federate(parts(blobs, 5), protection)

    class Losing(type(federation.transport)):
        turn = 0

        def exchange(self, mail):
            Losing.turn += 1
            replies = super().exchange(mail)
            return {k: v for k, v in replies.items() if Losing.turn < 4 or k != "party 2"}

    federation.transport = Losing(federation.transport.parties.values())
    with pytest.raises(TooFewParties):
        fit(ESTIMATORS[0], federation)


def test_fewer_parties_than_the_least_cohort_are_refused(blobs):
    with pytest.raises(ValueError, match="at least 3 must take part"):
        federate(parts(blobs, 2), "plain")
    with pytest.raises(ValueError, match="fewer than minimum"):
        federate(parts(blobs, 4), "plain", dropouts=2)
    with pytest.raises(ValueError, match="nobody whose noise"):
        federate(parts(blobs, 3), "encrypted", colluders=0, dropouts=3, collusion="none", minimum=1)


def test_nan_is_mapped_and_not_mentioned(blobs):
    """A private fit over parties says nothing about bad values: it maps them."""
    bad = blobs.copy()
    bad[::7, 0] = np.nan
    statement, _ = fit(ESTIMATORS[0], federate(split(bad, "even"), "masked"))
    assert statement.spent <= 6.0


def test_every_number_that_is_sent_has_noise(blobs):
    """A query whose groups leave numbers out is not answered: they would leave as they are."""
    from privem.federation.wire.messages import Question

    noise = Discrete(10.0, "add-remove", 1000.0)
    question = Question("q", CountQuery(), noise, noise.price(CountQuery()))
    with pytest.raises(ValueError, match="cut its numbers"):
        answering._noisy(np.zeros(2), question, 1, None)


def test_rows_in_place_of_parties():
    with pytest.raises(TypeError, match=r"of parties, got ndarray: Federation\(\[Party"):
        Federation([np.zeros((5, 2))] * 3)


@pytest.mark.parametrize(("parties", "most"), [(3, 0), (4, 1), (10, 3)])
def test_a_masked_sum_says_how_many_may_drop_out(parties, most):
    cards = tuple(Card(str(i)) for i in range(parties))
    assert Agreement(cards, "masked", dropouts=most).opened_by == parties - most
    with pytest.raises(ValueError, match=f"dropouts={most + 1} .* at most {most} to drop out"):
        Agreement(cards, "masked", dropouts=most + 1, minimum=2)
