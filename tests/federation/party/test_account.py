"""A party's account: what it believes, what it adds up, and what it says of it."""

import dataclasses
import math

import numpy as np
import pytest

from privem import KMeans
from privem.accounting import Composed, Failure, Gaussian, Laplace, compose, epsilon
from privem.accounting.accountant import hockey_stick
from privem.blocks.histograms import CountQuery, OctaveQuery, OutsideQuery, PlaceQuery
from privem.blocks.krylov import ProductsQuery
from privem.blocks.moments import MomentsQuery, SumsQuery
from privem.blocks.profile import ColumnsQuery
from privem.blocks.sensitivity import MomentWeights
from privem.core import Group, Spent
from privem.federation import Federation, Party
from privem.federation.errors import FederationError
from privem.federation.party.account import Account, account_of, believe, chosen
from privem.federation.wire.codec import BadMessage
from privem.federation.wire.messages import Question
from privem.models.categorical_mixture.pairs import PairsQuery
from privem.models.factor_analysis.query import BoundedMomentsQuery
from privem.models.gaussian_mixture.frame import RadialQuery
from privem.models.gaussian_mixture.model import Mixture
from privem.models.kmeans.grid import GridQuery
from privem.noise.discrete import Discrete
from privem.noise.exact import Exact

from ..wire.test_forged import SOUND
from .test_party import NOISE, REGION, Server, asked, bounded, clusters, refused


@pytest.mark.parametrize("grid", [2.0**1023, 2.0**990, 2.0**984])
def test_noise_of_no_size_is_refused(grid):
    """Infinite multipliers cost nothing, and some of these are no numbers at all."""
    noise = dataclasses.replace(NOISE, multiplier=1e-3)
    prices = tuple(
        dataclasses.replace(s, grid=grid, steps=2**40) for s in NOISE.price(CountQuery())
    )
    with pytest.raises(BadMessage, match="no size"):
        believe(Question("x", CountQuery(), noise, prices), None)


HUGE = asked(CountQuery(), Discrete(1e-3, "add-remove", 1000.0))
ONE = Mixture("full", np.ones(1), np.zeros((1, 2)), np.eye(2)[None])
EVERY = SOUND | {
    "count": CountQuery(),
    "octaves": OctaveQuery(np.zeros(2)),
    "places": PlaceQuery(np.ones(2)),
    "outside": OutsideQuery((1, 1), np.zeros(2), np.ones(2)),
    "moments": BoundedMomentsQuery(REGION, MomentWeights.balanced(2, 2.0)),
    "heavy count": BoundedMomentsQuery(REGION, MomentWeights(1e6, 1.0, 1.0, 2.0)),
    "grid": GridQuery(REGION, np.zeros(2), np.eye(2), (np.array([-1.0, 0.0, 1.0]),)),
    "columns": ColumnsQuery(REGION),
    "radii": RadialQuery(ONE, REGION, np.array([0.0, 1.0, 4.0])),
    **{f"mixture {r}": bounded(r, 2.0) for r in ("joint", "ggg", "llg", "laplace")},
    **{f"clusters {r}": clusters(r) for r in ("joint", "gg", "ll", "dplloyd")},
}


@pytest.mark.parametrize("query", EVERY.values(), ids=EVERY)
def test_no_question_hides_less_than_a_record_more_or_less(query):
    noise = Discrete(8.0, "replace-one", 1000.0)
    found = believe(Question("x", query, noise, noise.price(query)), None)
    plain = dataclasses.replace(noise, neighbours="add-remove").price(query)
    assert all(f.sensitivity >= p.sensitivity for f, p in zip(found, plain, strict=True))


class Same(CountQuery):
    """Of a fixed number of records, a number that is the same for all is hardly a secret."""

    def groups(self, neighbours):
        return [Group("count", slice(0, 1), 1.0 if neighbours == "add-remove" else 1e-3)]


def test_neighbours_that_hide_less_are_refused():
    noise = Discrete(8.0, "replace-one", 1000.0)
    question = Question("x", Same(), noise, noise.price(Same()))
    with pytest.raises(BadMessage, match="more or less"):
        believe(question, None)


def test_a_laplace_release_is_dominated_by_the_gaussian_it_is_priced_as():
    """The worst of all eps-private pairs is randomised response: its curve is below."""
    for eps in np.geomspace(1e-3, 20.0, 60):
        mu = eps / 0.7978845
        for at in np.linspace(0.0, eps, 40):
            worst = -math.expm1(at - eps) * math.exp(eps) / (1 + math.exp(eps))
            assert worst <= hockey_stick(mu, at) * (1 + 1e-9)
    # And no Gaussian with much more noise would do.
    assert math.expm1(0.01) / (1 + math.exp(0.01)) > hockey_stick(0.01 / 0.81, 0.0)


def test_an_account_adds_up_what_a_server_may_choose_as_it_goes():
    budget = Account(None, 1e-6)
    gauss = Spent("g", "gaussian", 2, 1.0, 0.0, 2.0**-20, 2**24)
    laplace = dataclasses.replace(gauss, name="l", kind="laplace", grid=2.0**-18)
    assert budget.charge([gauss], 1e-9, 1)
    assert budget.charge([laplace], 0.0, 1)
    g, flat = Gaussian(gauss.multiplier, 2, 2**24), Laplace(laplace.multiplier, 2)
    assert budget.epsilon == chosen([g, flat, Failure(1e-9)], 1e-6)
    # Gaussian noise as plans price it; Laplace noise as if it were Gaussian, never by zCDP beside.
    assert chosen([g], 1e-6) == epsilon(g, 1e-6, "auto")
    as_one = Composed(((g, 1), (Gaussian(laplace.multiplier * math.sqrt(2 / math.pi)), 1)))
    assert chosen([g, flat], 1e-6) == pytest.approx(epsilon(as_one, 1e-6, "gdp"), rel=1e-6)
    assert chosen([flat] * 5, 1e-6) == epsilon(compose(*[flat] * 5), 1e-6, "linear")
    assert chosen([Laplace(300.0)] * 400, 1e-6) < 0.5  # many small ones: not by their sum


@pytest.mark.parametrize("limit", [1.0, None])
def test_values_that_were_not_declared_show_in_no_free_refusal(limit):
    """A party that answers no exact question refuses all of them in the same words."""
    clean, odd = [["yes"], ["no"], ["no"]], [["yes"], ["no"], ["other"]]
    answers = []
    for rows in (clean, odd):
        server = Server(np.array(rows, dtype=object), categories=["no", "yes"], epsilon=limit)
        assert server.begin()[0]
        answers.append(server.ask(asked(PairsQuery((2,)), Exact())))
        assert (server.party.spent == math.inf) == (limit is None)
    if limit is None:  # exact: its owner lets that be told, and it is on the account
        assert answers[0][0]
        assert refused(answers[1], "not among those agreed on")
    else:
        assert answers[0] == answers[1]
        assert refused(answers[0], "own budget")


@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
@pytest.mark.parametrize("protection", ["plain", "masked"])
def test_a_fit_costs_a_party_no_more_than_the_fit_says(protection, neighbours):
    """A party whose own limit is the fit's epsilon takes part; one with a little less does not."""
    rng = np.random.default_rng(0)

    def fit(limit):
        members = [
            Party(rng.normal(size=(200, 2)), name, epsilon=limit, delta=1e-6) for name in "abc"
        ]
        federation = Federation(members, protection=protection, rows=600, bounds=(-4.0, 4.0))
        model = KMeans(2, epsilon=1.0, delta=1e-6, bounds=(-4.0, 4.0), neighbours=neighbours)
        return model.fit(federation), members

    model, members = fit(1.0)
    assert model.privacy_.epsilon <= 1.0
    assert all(party.spent <= 1.0 for party in members)
    with pytest.raises(FederationError, match="budget"):
        fit(0.9)


def test_an_exact_question_names_the_limit_that_refuses_it():
    rows = np.random.default_rng(0).normal(size=(50, 2))
    members = [Party(rows, "a", epsilon=1.0), Party(rows, "b"), Party(rows, "c")]
    with pytest.raises(FederationError, match="exact answer has no finite cost"):
        KMeans(2, epsilon=None).fit(Federation(members, protection="plain"))


def test_exact_answers_are_on_the_account():
    """They were not: after an exact fit the account read 0, and a limit of 1 was believed."""
    server = Server(np.ones((4, 2)))
    assert server.begin()[0]
    assert server.party.account == "epsilon 0 at delta 1e-06"
    for number in (1, 2):
        assert server.ask(asked(SumsQuery(), Exact()), round=number)[0]
        assert server.ask(asked(SumsQuery(), Exact()), round=number)[0]  # the same again
    party = Party(np.ones((4, 2)), "party 0").restore(server.party.state())
    for one in (server.party, party):
        assert one.account == "exact answers: 2; no finite epsilon"
        assert one.spent == math.inf
    assert account_of(party.state()).exact == 2
    # Private answers do not make it finite again, and what is refused is not counted.
    assert server.ask(asked(CountQuery()), round=3)[0]
    assert not server.ask(asked(MomentsQuery(np.zeros(7)), Exact()), round=4)[0]
    assert server.party.account == "exact answers: 2; no finite epsilon"


def test_an_exact_question_that_is_refused_for_its_rows_is_on_the_account():
    """A server that scales its question asks by it whether somebody is there: that was free."""
    rows = np.random.default_rng(0).normal(size=(300, 1))
    person, zero = np.array([[6.2]]), np.zeros((1, 1))
    between = (rows**2).sum() + 0.5 * 6.2**2
    vectors = np.array([[[np.finfo(float).max / between]]])
    query = ProductsQuery(zero, zero, vectors)
    found = {}
    for present in (True, False):
        stored = []
        server = Server(np.vstack([rows, person]) if present else rows, store=stored.append)
        assert server.begin()[0]
        found[present], _ = server.ask(asked(query, Exact()))
        assert server.party.account == "exact answers: 1; no finite epsilon"
        assert account_of(stored[-1]).exact == 1
        with pytest.raises(ValueError, match="exact answers"):
            server.party.limit_to(1.0)
    assert found == {True: False, False: True}
    # What is refused before rows are looked at costs nothing.
    server = Server(rows)
    assert server.begin(private=True)[0]
    assert refused(server.ask(asked(query, Exact())), "other noise")
    assert server.party.spent == 0


def test_a_limit_after_exact_answers_is_acknowledged_or_refused():
    server = Server(np.ones((4, 2)))
    assert server.begin()[0]
    assert server.ask(asked(SumsQuery(), Exact()))[0]
    party = server.party
    with pytest.raises(ValueError, match="exact answers: 1; no finite epsilon"):
        party.limit_to(1.0, 1e-6)
    assert party.limit is None
    party.limit_to(1.0, 1e-6, despite_exact_answers=True)
    assert party.limit == 1.0
    party.limit_to(1.0, 1e-7)  # the same again: it was acknowledged
    with pytest.raises(ValueError, match="exact answers"):
        party.limit_to(2.0, 1e-6)
    # It is a limit on private answers from then on, and the account says what it said.
    assert refused(server.ask(asked(SumsQuery(), Exact()), round=2), "own budget")
    noise = Discrete(40.0, "add-remove", 1000.0)
    assert server.ask(asked(CountQuery(), noise), round=2)[0]
    assert refused(server.ask(HUGE, round=3), "own budget")
    assert party.account == "exact answers: 1; no finite epsilon"
    stored = []
    party.store = stored.append
    party.limit_to(None, 1e-6)
    assert account_of(stored[-1]).limit is None
    with pytest.raises(ValueError, match="exact answers"):
        party.limit_to(1.0, 1e-6)


def test_a_limit_that_is_said_holds_whatever_state_is_restored(blobs):
    """It was dropped in silence for that of the state, which may be none."""
    free, bound = Party(blobs, "p").state(), Party(blobs, "p", epsilon=1.0).state()
    for state in (free, bound):
        again = Party(blobs, "p", epsilon=0.5, delta=1e-7).restore(state)
        assert (again.limit, again._budget.delta) == (0.5, 1e-7)
    assert Party(blobs, "p").restore(bound).limit == 1.0
    party = Party(blobs, "p", epsilon=0.5)
    party.limit_to(None)
    assert party.restore(bound).limit == 1.0
    party._budget.exact, party._budget.limit = 1, None
    with pytest.raises(ValueError, match="exact answers: 1; no finite epsilon"):
        Party(blobs, "p", epsilon=0.5).restore(party.state())
