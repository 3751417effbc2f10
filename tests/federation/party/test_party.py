"""What a party refuses, and that it never says two things to one question."""

import dataclasses

import numpy as np
import pytest

from privem import GaussianMixture, KMeans
from privem.blocks.histograms import CountQuery, OctaveQuery, OutsideQuery, PlaceQuery
from privem.blocks.krylov import ProductsQuery
from privem.blocks.moments import MomentsQuery, SumsQuery
from privem.blocks.region import Region
from privem.blocks.sensitivity import MomentWeights
from privem.core import Spent
from privem.federation import Federation, Party, PartyRefused
from privem.federation.wire.codec import MAX_BYTES, BadMessage, decode
from privem.federation.wire.messages import (
    Question,
    Request,
    RunTerms,
    read_reply,
)
from privem.federation.wire.queries import check_query
from privem.models.factor_analysis.query import BoundedMomentsQuery
from privem.models.gaussian_mixture.model import Mixture, MixtureQuery
from privem.models.gaussian_mixture.query import BoundedQuery
from privem.models.kmeans.query import BoundedClusterQuery
from privem.noise.discrete import Discrete
from privem.noise.exact import Exact

from ..conftest import federate, split

NOISE = Discrete(10.0, "add-remove", 1000.0)
REGION = Region.box(np.full(2, -20.0), np.full(2, 20.0))
TERMS = {"estimator": "KMeans"}


def asked(query, noise=NOISE, prices=None):
    if prices is None:
        prices = noise.price(query) if noise.private else ()
    return Question("q", query, noise, tuple(prices)).to_bytes()


class Server:
    """Writes requests to one party by hand."""

    def __init__(self, X, protection="plain", **party):
        self.party = Party(X, "party 0", **party)
        like = {"categories": party["categories"]} if "categories" in party else {}
        like |= {"y": party["y"][:2]} if "y" in party else {}
        like |= {"groups": [1, 2]} if party.get("groups") is not None else {}
        others = [Party(X[:2], f"party {i}", **like) for i in (1, 2)]
        self.federation = Federation([self.party, *others], protection=protection)
        self.agreement = self.federation.agreement
        self.run, self.round, self.plan = "run 1", 0, RunTerms(TERMS).hash

    def request(self, **changes):
        base = Request(self.agreement.hash, self.run, self.plan, self.round, 1, b"", b"")
        return dataclasses.replace(base, **changes)

    def begin(self, terms=None, failure=0.0, private=None, budget=None, **changes):
        budget = (100.0, 1e-6, "auto") if private and budget is None else budget
        opening = RunTerms(terms or TERMS, failure, private, budget)
        if terms is None:
            self.plan = opening.hash
        request = self.request(round=0, step=0, payload=opening.to_bytes())
        answer = self.send(dataclasses.replace(request, **changes))
        self.round = 1
        return answer

    def send(self, request):
        return read_reply(self.party.handle(request.to_bytes()), request, "party 0")

    def ask(self, question, **changes):
        return self.send(self.request(question=question, **changes))


@pytest.fixture
def server(blobs):
    server = Server(blobs)
    assert server.begin()[0]
    return server


def refused(answer, words):
    accepted, reason = answer
    assert not accepted
    assert words in reason
    return True


def test_an_honest_question_is_answered(server):
    accepted, payload = server.ask(asked(CountQuery()))
    assert accepted
    assert decode(payload)[1]["numbers"].shape == (1,)


def test_the_same_request_gets_the_same_bytes(server):
    request = server.request(question=asked(CountQuery())).to_bytes()
    first = server.party.handle(request)
    assert server.party.handle(request) == first
    spent = server.party.spent
    assert server.party.handle(request) == first
    assert server.party.spent == spent


def test_the_same_question_again_gets_the_same_numbers(server, blobs):
    """A server started anew asks again in the same round: no fresh noise, no second charge."""
    question = asked(CountQuery())
    _, first = server.ask(question)
    spent = server.party.spent
    accepted, second = server.ask(question, step=1025)
    assert accepted
    assert second == first
    assert server.party.spent == spent
    # A process started anew knows too.
    again = Party(blobs, "party 0").restore(server.party.state())
    request = server.request(step=2049)
    assert read_reply(again.handle(request.to_bytes()), request, "party 0") == (True, first)


def test_rounds_only_go_forward(server):
    assert server.ask(asked(CountQuery()), round=5)[0]
    assert refused(server.ask(asked(CountQuery()), round=4), "replay")
    assert refused(server.ask(asked(CountQuery(2.0)), round=5), "replay")
    assert refused(server.ask(b"", round=5, step=0), "replay")
    assert refused(server.ask(asked(CountQuery(2.0)), round=5, step=2), "one question")
    assert refused(server.ask(b"", round=6), "without a question")
    assert server.ask(asked(CountQuery()), round=6)[0]


def test_a_run_is_begun_once(server):
    assert server.ask(asked(CountQuery()))[0]
    server.run = "run 2"
    assert server.begin()[0]
    server.run = "run 1"
    assert refused(server.begin(failure=1e-9), "replay")
    assert refused(server.ask(asked(CountQuery())), "no run")


def test_plans_are_known_by_their_hash(blobs):
    server = Server(blobs)
    assert refused(server.begin(plan="0" * 64), "hash")
    assert server.begin()[0]
    assert refused(server.ask(asked(CountQuery()), plan="0" * 64), "no run")
    choosy = Server(blobs, plans=[RunTerms({"estimator": "other"}).hash])
    assert refused(choosy.begin(), "no part in such a plan")
    assert Server(blobs, plans=[RunTerms(TERMS).hash]).begin()[0]


def test_another_federation_is_refused(server, blobs):
    other = Server(blobs, "encrypted").agreement.hash
    assert refused(server.ask(asked(CountQuery()), federation=other), "another federation")
    lonely = Party(blobs, "party 0")
    message = lonely.handle(server.request().to_bytes())
    assert decode(message)[1]["reason"] == "this party has joined no federation"


def test_own_budget(blobs):
    server = Server(blobs, epsilon=0.5, delta=1e-6)
    assert server.begin(failure=1e-9)[0]
    noise = Discrete(40.0, "add-remove", 1000.0)
    assert server.ask(asked(CountQuery(), noise))[0]
    first = server.party.spent
    assert 0.05 < first < 0.25
    answers = [server.ask(asked(CountQuery(), noise), round=r)[0] for r in range(2, 60)]
    assert answers[0]
    assert not answers[-1]
    assert server.party.spent <= 0.5
    # A new run brings no new budget.
    server.run = "run 2"
    assert server.begin()[0]
    assert refused(server.ask(asked(CountQuery())), "own budget")
    exact = asked(SumsQuery(), Exact())
    assert refused(server.ask(exact, round=2), "own budget")


def test_a_private_run_has_no_exact_question(blobs):
    server = Server(blobs)
    assert server.begin(private=True)[0]
    assert refused(server.ask(asked(SumsQuery(), Exact())), "other noise")
    assert server.ask(asked(CountQuery()))[0]


def weights(radius):
    return MomentWeights.balanced(2, radius)


def mixture(**changes):
    parts = {
        "covariance_type": "full",
        "weights": np.array([0.5, 0.5]),
        "means": np.zeros((2, 2)),
        "covariances": np.stack([np.eye(2)] * 2),
    }
    return Mixture(**{**parts, **changes})


def bounded(recipe="whitened", radius=4.0, region=REGION, mix=None):
    return BoundedQuery(mix or mixture(), region, weights(radius), recipe, 1000.0)


def clusters(recipe="joint", radius=2.0, region=REGION, **changes):
    parts = {"centres": np.zeros((2, 2)), "spread": 1.0, **changes}
    return BoundedClusterQuery(parts["centres"], region, weights(radius), parts["spread"], recipe)


FORGED = {
    "radius below the region": bounded("joint", radius=0.5),
    "moments, radius below the region": BoundedMomentsQuery(REGION, weights(0.5)),
    "clusters, radius below the region": clusters(radius=0.5),
    "recipe unknown": dataclasses.replace(clusters(), recipe="other"),
    "negative scale": bounded(region=dataclasses.replace(REGION, scale=np.array([1.0, -1.0]))),
    "ball with other limits": bounded(
        region=Region(np.zeros(2), np.ones(2), np.full(2, 9.0), ball=True), radius=99.0
    ),
    "limits beyond one": clusters(
        region=dataclasses.replace(REGION, limit=np.full(2, 3.0)), radius=9.0
    ),
    "wrong number of features": bounded(
        mix=mixture(means=np.zeros((2, 3)), covariances=np.stack([np.eye(3)] * 2))
    ),
    "scalar where a vector belongs": PlaceQuery(np.array(1.0)),
    "widths not positive": PlaceQuery(np.zeros(2)),
    "octaves of too few columns": OctaveQuery(np.zeros(1)),
    "outside in too few parts": OutsideQuery((1,), np.zeros(2), np.ones(1)),
    "outside in an empty part": OutsideQuery((2, 0), np.zeros(2), np.ones(2)),
    "outside without a centre": OutsideQuery((1, 1), np.zeros(1), np.ones(2)),
    "outside without a radius": OutsideQuery((1, 1), np.zeros(2), np.ones(1)),
    "indefinite covariance": bounded(mix=mixture(covariances=np.stack([-np.eye(2)] * 2))),
    "weights not positive": bounded(mix=mixture(weights=np.array([0.0, 1.0]))),
    "no cap": CountQuery(0.0),
    "spread zero": clusters(spread=0.0),
}


@pytest.mark.parametrize("query", FORGED.values(), ids=FORGED.keys())
def test_a_question_that_breaks_its_own_proof_is_refused(server, query):
    good = CountQuery()
    question = asked(query, NOISE, NOISE.price(good))
    accepted, reason = server.ask(question)
    assert not accepted
    assert "own proof" in reason


@pytest.mark.parametrize("query", [bounded(), bounded("joint", 2.0), clusters()], ids=str)
def test_sound_questions_of_the_same_kinds_pass(server, query):
    assert server.ask(asked(query))[0]


def test_exact_questions_are_checked_too(server):
    assert refused(server.ask(asked(MomentsQuery(np.zeros(3)), Exact())), "own proof")
    query = MixtureQuery(mixture(), np.zeros(3))
    assert refused(server.ask(asked(query, Exact())), "own proof")
    assert server.ask(asked(MomentsQuery(np.zeros(2)), Exact()))[0]


def test_products_of_any_other_shape_are_refused():
    two, vectors = np.zeros((3, 2)), np.ones((3, 1, 2))
    wrong = (vectors[:2], vectors[:, :, :1], vectors[:, :0], vectors[:, 0])
    forged = [ProductsQuery(two, two, shape) for shape in wrong]
    for query in (*forged, ProductsQuery(two, two[:2], vectors), MomentsQuery(np.zeros(2), 1)):
        with pytest.raises(BadMessage, match="own proof"):
            check_query(query, 2, private=False)
    with pytest.raises(BadMessage, match="own proof"):
        check_query(ProductsQuery(two, two, vectors), 2, private=True)
    check_query(ProductsQuery(two, two, vectors), 2, private=False)


def change(**fields):
    (spent,) = NOISE.price(CountQuery())
    return (dataclasses.replace(spent, **fields),)


@pytest.mark.parametrize(
    "prices",
    [
        change(steps=2**20),
        change(steps=2**41),
        change(grid=NOISE.price(CountQuery())[0].grid / 8),
        change(grid=0.3),
        change(kind="laplace"),
        change(dimension=2),
        change(name="other"),
        change(grid=1),
        (*NOISE.price(CountQuery()), *NOISE.price(CountQuery())),
    ],
    ids=str,
)
def test_less_noise_than_promised_is_refused(server, prices):
    accepted, reason = server.ask(asked(CountQuery(), prices=prices))
    assert not accepted
    assert "prices" in reason or "noise" in reason
    assert server.party.spent == 0.0


def test_a_lie_about_the_number_of_records_is_no_bargain(blobs):
    """Products of narrow components err hugely; few claimed records would hide that."""
    narrow = mixture(covariances=np.stack([np.eye(2) * 1e-12] * 2))
    query = BoundedQuery(narrow, REGION, weights(4.0), "whitened", 1e-9)
    assert not query.direct
    server = Server(blobs)
    assert server.begin()[0]
    noise = Discrete(10.0, "add-remove", 1e-9)
    assert noise.price(query)[0].slack < 1e-3
    assert not server.ask(asked(query, noise))[0]


def test_noise_without_prices_and_prices_without_noise(server):
    assert refused(server.ask(asked(CountQuery(), NOISE, ())), "noise is malformed")
    assert refused(server.ask(asked(CountQuery(), Exact(), NOISE.price(CountQuery()))), "noise")


def tamper(message, at, what):
    return message[:at] + what + message[at + len(what) :]


def test_malformed_messages_are_refused_and_change_nothing(server):
    message = server.request(question=asked(bounded())).to_bytes()
    before = server.party.state()
    raw = np.float64(20.0).tobytes()
    at = message.index(raw)
    bad = [
        b"",
        b"hello",
        message[:-1],
        message + b"x",
        tamper(message, 4, b"\x01"),
        tamper(message, at, np.float64("nan").tobytes()),
        tamper(message, at, np.float64("inf").tobytes()),
        message.replace(b'"round":1', b'"round":1.5'),
        message.replace(b'"round":1', b'"round":-1'),
        message.replace(b'"kind":"request"', b'"kind":"requesT"'),
        message + bytes(MAX_BYTES),
    ]
    for other in bad:
        kind, body = decode(server.party.handle(other))
        assert kind == "refusal"
        assert set(body) <= {"party", "reason", "count", "federation", "run", "round", "step"}
    assert server.party.state() == before


def test_what_goes_wrong_inside_is_not_told(blobs, monkeypatch):
    server = Server(blobs)
    assert server.begin()[0]

    def fails(*args):
        raise ValueError(f"row 17 is {blobs[17]}")

    from privem.federation.party import party as partying

    monkeypatch.setattr(partying, "answer", fails)
    spent = server.party.spent
    assert server.ask(asked(CountQuery())) == (False, "the question could not be answered")
    assert "row 17" in str(server.party.problem)
    assert server.party.spent == spent


def test_joining_is_a_party_own_act(blobs):
    server = Server(blobs, "encrypted")
    stranger = Party(blobs, "stranger")
    with pytest.raises(ValueError, match="does not name"):
        stranger.join(server.agreement)
    impostor = Party(blobs, "party 0")
    with pytest.raises(ValueError, match="other keys"):
        impostor.join(server.agreement)
    with pytest.raises(ValueError, match="the same name"):
        Federation([Party(blobs, "a"), Party(blobs, "a"), Party(blobs, "b")], protection="plain")


@pytest.mark.parametrize("protection", ["plain", "encrypted", "masked"])
def test_parties_go_on_from_their_state_after_every_message(blobs, protection):
    """A process per message: state out, state in, the same fit."""
    rows = split(blobs, "even")
    federation = federate(rows, protection)

    class Reborn(type(federation.transport)):
        def exchange(self, mail):
            replies = super().exchange(mail)
            for i, (name, party) in enumerate(sorted(self.parties.items())):
                self.parties[name] = Party(rows[i], name).restore(party.state())
            return replies

    federation.transport = Reborn(federation.transport.parties.values())
    model = GaussianMixture(2, epsilon=4.0, n_iter=2, bounds=(-20.0, 20.0)).fit(federation)
    spent = [party.spent for party in federation.transport.parties.values()]
    assert spent == pytest.approx([model.privacy_.spent] * 4, rel=1e-6)


def test_a_refusal_ends_the_fit_with_its_reason(blobs):
    federation = federate(split(blobs, "even"), "masked", party={"epsilon": 0.1})
    with pytest.raises(PartyRefused, match="own budget"):
        KMeans(2, epsilon=1.0).fit(federation)


def test_a_plan_says_whether_there_is_noise(blobs):
    """The same terms without noise are another plan, which the party has not agreed to."""
    choosy = Server(blobs, plans=[RunTerms(TERMS, 0.0, True, (100.0, 1e-6, "auto")).hash])
    refused(choosy.begin(private=False), "takes no part in such a plan")
    assert choosy.begin(private=True)[0]


@pytest.mark.parametrize("w1", [2.0**-664, 1e-200])
def test_a_sensitivity_that_underflows_is_refused(server, w1):
    """Exact sums would leave at no charge: their sensitivity is reckoned to be zero."""
    d = 2
    region = Region.around_origin(10.0, d)
    query = BoundedMomentsQuery(region, MomentWeights(0.0, w1, 0.0, 10.1))
    refused(server.ask(asked(query)), "")


def test_a_spread_that_overflows_is_refused(server):
    query = BoundedClusterQuery(
        np.zeros((1, 2)),
        Region.around_origin(1.0, 2),
        MomentWeights(0.0, 1e-76, 0.0, 1e76),
        1e-310,
        "whitened",
    )
    noise = Discrete(1.0, "add-remove", 1e6)
    prices = (Spent("moments", "gaussian", 4, 1.0, 0.0, 2.0**-24, 2**24),)
    refused(server.ask(asked(query, noise, prices)), "")
