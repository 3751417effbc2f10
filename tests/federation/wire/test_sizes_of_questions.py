"""No question makes a party hold more than it bears, and what is refused costs nothing."""

import tracemalloc

import numpy as np
import pytest

from privem.blocks.conditions import MOST_AT_A_TIME, MOST_SUMS
from privem.blocks.krylov import ProductsQuery
from privem.blocks.moments import MomentsQuery
from privem.blocks.region import Region
from privem.blocks.sensitivity import MomentWeights
from privem.core import Stage
from privem.federation import PartyRefused
from privem.federation.party import party as partying
from privem.federation.sums import sizes
from privem.federation.wire.codec import MAX_BYTES, MAX_HEADER, BadMessage, decode
from privem.federation.wire.messages import Question, Request, RunTerms
from privem.federation.wire.queries import check_query
from privem.models.categorical_mixture.model import Classes, ClassQuery
from privem.models.factor_analysis.query import BoundedMomentsQuery
from privem.models.gaussian_mixture.model import (
    COVARIANCE_TYPES,
    AssignedQuery,
    Mixture,
    MixtureQuery,
    most_sums,
)
from privem.models.gaussian_mixture.query import BoundedQuery
from privem.models.kmeans.model import Clusters, NearestQuery
from privem.models.kmeans.query import BoundedClusterQuery
from privem.models.regression_mixture.model import RegressionQuery, Regressions
from privem.noise.discrete import Discrete
from privem.noise.exact import Exact

from ..conftest import federate


def mixture(k, d, shape="spherical"):
    covariances = {
        "full": np.stack([np.eye(d)] * min(k, 9)),
        "tied": np.eye(d),
        "diag": np.ones((k, d)),
        "spherical": np.ones(k),
    }[shape]
    means = np.linspace(-1, 1, k * d).reshape(k, d)
    return Mixture(shape, np.full(k, 1 / k), means, covariances)


def regressions(k, d):
    flat = np.zeros((k, d))
    return Regressions(np.full(k, 1 / k), flat, np.ones(k), np.eye(d - 1), np.zeros(d - 1))


BOX, WEIGHTS = Region(np.zeros(2), np.ones(2), np.ones(2)), MomentWeights(1.0, 1.0, 1.0, 3.0)
HUGE = {  # each of some ten megabytes, or less
    "mixture": (MixtureQuery(mixture(400_000, 2), np.zeros(2)), 2),
    "differences": (MixtureQuery(mixture(400_000, 2), np.zeros(2), True), 2),
    "nearest": (NearestQuery(Clusters(np.zeros((500_000, 2))), np.zeros(2), False), 2),
    "assigned": (AssignedQuery("full", np.zeros(2), np.zeros((500_000, 2))), 2),
    "moments of clusters": (NearestQuery(Clusters(np.zeros((900, 900))), np.zeros(900), True), 900),
    "wide": (AssignedQuery("full", np.zeros(900), np.zeros((900, 900))), 900),
    "products": (ProductsQuery(np.zeros((1, 1)), np.zeros((1, 1)), np.ones((1, 1_200_000, 1))), 1),
    "products of clusters": (
        ProductsQuery(np.zeros((200_000, 2)), np.zeros((200_000, 2)), np.ones((200_000, 1, 2))),
        2,
    ),
    "regressions": (RegressionQuery(regressions(400_000, 2), None), 2),
    "classes": (
        ClassQuery(Classes(np.full(500_000, 1e-3), np.full((500_000, 4), 0.5)), (2, 2), None),
        2,
    ),
    "bounded": (BoundedQuery(mixture(300_000, 2), BOX, WEIGHTS, "whitened", 100.0, 1.0), 2),
    "bounded clusters": (
        BoundedClusterQuery(np.zeros((500_000, 2)), BOX, WEIGHTS, 1.0, "joint", 1.0),
        2,
    ),
}


@pytest.mark.parametrize("name", HUGE)
def test_what_no_party_could_hold_is_refused_before_it_is_made(name):
    query, d = HUGE[name]
    private = name.startswith("bounded")
    tracemalloc.start()
    try:
        with pytest.raises(BadMessage, match="more than a party computes at a time"):
            check_query(query, d, private)
        assert tracemalloc.get_traced_memory()[1] < 100 * 2**20
    finally:
        tracemalloc.stop()


def test_a_forged_question_of_ten_megabytes_is_refused_by_the_party(blobs):
    """It took 4.9 GB."""
    party = federate([blobs[i::3] for i in range(3)]).transport.parties["party 0"]
    terms, federation = RunTerms({"a": "b"}, private=False), party._agreement.hash
    plan = terms.hash
    party.handle(Request(federation, "run", plan, 0, 0, b"", terms.to_bytes()).to_bytes())
    question = Question("E-step", HUGE["mixture"][0], Exact(), ()).to_bytes()
    assert len(question) > 9 * 2**20
    before = party.state()
    tracemalloc.start()
    kind, answer = decode(
        party.handle(Request(federation, "run", plan, 1, 1, question, b"").to_bytes())
    )
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert kind == "refusal"
    assert "more than a party computes at a time" in answer["reason"]
    assert peak < 100 * 2**20
    assert party.state() == before


def test_the_most_that_is_answered_fits_the_bound():
    """25 bytes for each component of each row of a block, as the limit reckons."""
    from privem.core import Block, Scratch

    rows = np.random.default_rng(0).normal(size=(6000, 2))
    k = 700
    for query in (
        MixtureQuery(mixture(k, 2), np.zeros(2)),
        NearestQuery(Clusters(np.zeros((k, 2))), np.zeros(2), True),
        AssignedQuery("full", np.zeros(2), np.zeros((k, 2))),
        RegressionQuery(regressions(k, 2), None),
        BoundedQuery(mixture(k, 2), BOX, WEIGHTS, "joint", 100.0, 1.0),
        ProductsQuery(np.zeros((k - 9, 2)), np.zeros((k - 9, 2)), np.ones((k - 9, 9, 2))),
        ProductsQuery(np.zeros((1, 2)), np.zeros((1, 2)), np.ones((1, k - 1, 2))),
    ):
        block = Block(rows[: query.block_rows])
        tracemalloc.start()
        query(block, Scratch())
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 26 * k * query.block_rows + 2**22, type(query).__name__
    assert 26 * MOST_AT_A_TIME < 420 * 2**20
    assert 8 * MOST_SUMS + MAX_HEADER <= MAX_BYTES


@pytest.mark.parametrize("shape", COVARIANCE_TYPES)
def test_the_reckoning_of_sums_is_no_less_than_what_comes(shape):
    k, d = 4, 5
    box = Region(np.zeros(d), np.ones(d), np.ones(d))
    for query in (
        MixtureQuery(mixture(k, d, shape), np.zeros(d)),
        AssignedQuery(shape, np.zeros(d), np.zeros((k, d))),
        BoundedQuery(mixture(k, d, shape), box, WEIGHTS, "joint", 100.0, 1.0),
    ):
        check_query(query, d, isinstance(query, BoundedQuery))
        assert sum(size for _, size in sizes(query, d)) <= most_sums(k, d, shape)


def test_ordinary_questions_are_far_from_the_limits():
    check_query(MixtureQuery(mixture(2000, 2), np.zeros(2)), 2, False)
    check_query(NearestQuery(Clusters(np.zeros((10_000, 2))), np.zeros(2), True), 2, False)
    check_query(RegressionQuery(regressions(1000, 9), None), 9, False)
    wide = np.zeros((1, 5000))
    check_query(ProductsQuery(wide, wide, np.ones((1, 64, 5000))), 5000, False)


@pytest.mark.parametrize("private", [True, False])
def test_moments_that_fit_no_message_are_refused_before_anybody_pays(private):
    """A party paid for an answer that no server reads."""

    def moments(d):
        if not private:
            return MomentsQuery(np.zeros(d), False)
        flat = np.zeros(d), np.ones(d), np.ones(d)
        return BoundedMomentsQuery(Region(*flat), MomentWeights(1.0, 1.0, 1.0, 100.0))

    with pytest.raises(BadMessage, match="more than a party computes at a time"):
        check_query(moments(4200), 4200, private)
    check_query(moments(4000), 4000, private)


@pytest.mark.parametrize("protection", ["plain", "encrypted"])
def test_an_answer_that_fits_no_message_is_not_paid_for(blobs, monkeypatch, protection):
    federation = federate([blobs[i::3] for i in range(3)], protection)
    parties = federation.transport.parties.values()
    region = Region.box(np.full(2, -20.0), np.full(2, 20.0))
    query = BoundedMomentsQuery(region, MomentWeights.balanced(2, 3.0))
    federation.begin({})
    monkeypatch.setattr(partying, "MAX_BYTES", 300)
    with pytest.raises(PartyRefused, match="larger than a message may be"):
        federation.release(Stage(query, Discrete(10.0, "add-remove", 1000.0)))
    assert [party.spent for party in parties] == [0.0, 0.0, 0.0]
