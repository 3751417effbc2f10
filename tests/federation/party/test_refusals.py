"""A refused message changes nothing: no account, no memory, no key, no vote of a masked sum."""

import dataclasses
import hashlib
import uuid

import numpy as np
import pytest

from privem import KMeans
from privem.blocks.histograms import CountQuery
from privem.blocks.moments import MomentsQuery, SumsQuery
from privem.federation import Federation, InProcess, Party
from privem.federation.party import party as partying
from privem.federation.protections.encrypted.shared_key import open_message
from privem.federation.protections.masked import MaskedSums, TooFewParties
from privem.federation.protections.masked.protection import scheme_of, session_of
from privem.federation.wire.codec import BadMessage, decode, encode
from privem.federation.wire.messages import (
    Question,
    Request,
    RunTerms,
    read_reply,
)
from privem.federation.wire.queries import pack
from privem.noise.discrete import Discrete
from privem.noise.exact import Exact

from ..conftest import federate, split
from .test_party import Server, asked

TERMS = {"terms": {}, "failure": 0.0, "private": None, "budget": None}
HUGE = asked(CountQuery(), Discrete(1e-3, "add-remove", 1000.0))
SEALED = (b"", b"not a ciphertext")


def payloads(honest):
    """What could stand in the place of an honest payload."""
    yield b"nonsense"
    yield honest + b"x"
    yield honest[:-1]
    for at in {0, 4, len(honest) // 3, len(honest) // 2, len(honest) - 1}:
        if 0 <= at < len(honest):
            yield honest[:at] + bytes([honest[at] ^ 1]) + honest[at + 1 :]
    for epoch in (-1, 0, 1, 2, "9", 2**62):
        if epoch != 2**62:  # accepted, and slow
            yield encode("make keys", {"epoch": epoch})
        for keeper in ("party 0", "party 1", "nobody"):
            yield encode("upload", {"epoch": epoch, "keeper": keeper, "box": b"no box"})
        for sealed in SEALED:
            yield encode("open", {"epoch": epoch, "sealed": (sealed,), "size": 1})
            yield open_message(epoch, (sealed,), 1, ["party 0", "party 1", "party 2"])


def spoiled(message):
    """Requests that are like an honest one, and are not it."""
    request = Request.from_bytes(message)
    asking = request.question or asked(CountQuery())
    if request.round:
        for payload in payloads(request.payload):
            yield dataclasses.replace(request, payload=payload)
            later = dataclasses.replace(request, round=request.round + 1, question=asking)
            yield dataclasses.replace(later, payload=payload)
        for round in (request.round, request.round + 1):
            for question in (HUGE, b"", b"?", asked(MomentsQuery(np.zeros(7)), Exact())):
                yield dataclasses.replace(request, round=round, question=question, step=9999)
    yield dataclasses.replace(request, run="another")
    yield dataclasses.replace(request, plan="another")
    yield dataclasses.replace(request, federation="another")
    yield dataclasses.replace(request, round=0, step=0, question=b"", payload=pack("terms", TERMS))
    yield dataclasses.replace(request, round=0, step=0, question=b"", payload=b"")
    yield dataclasses.replace(request, round=0, run="new", payload=pack("terms", {}))


class Spoiling(InProcess):
    """Sends parties, in turn, all manner of other messages before honest ones of early rounds."""

    def __init__(self, parties):
        super().__init__(parties)
        self.refused = self.exchanges = 0

    def exchange(self, mail):
        self.exchanges += 1
        name = sorted(mail)[self.exchanges % len(mail)]
        party = self.parties[name]
        if Request.from_bytes(mail[name]).round <= 2:
            for other in spoiled(mail[name]):
                before = party.state()
                kind, body = decode(party.handle(other.to_bytes()))
                if kind == "refusal":
                    assert party.state() == before, (other, body["reason"])
                    self.refused += 1
                else:  # It was an honest one, of some server's: as if it had never been sent.
                    party.restore(before)
        return super().exchange(mail)


WAYS = {
    "plain": {"protection": "plain"},
    "encrypted": {"protection": "encrypted"},
    "encrypted with bounds": {"protection": "encrypted", "bounds": (-20.0, 20.0), "rows": 1000},
    "ckks": {"protection": "ckks"},
    "masked": {"protection": "masked", "bounds": (-20.0, 20.0), "rows": 1000},
}


@pytest.mark.parametrize("way", WAYS)
def test_exact_fits_come_out_the_same_between_refusals(blobs, way):
    X = blobs[:60]
    federation = federate(split(X, "unequal"), transport=Spoiling, **WAYS[way])
    model = KMeans(2, epsilon=None, max_iter=2).fit(federation)
    assert federation.transport.refused > 80
    plain = KMeans(2, epsilon=None, max_iter=2).fit(federate(split(X, "unequal"), **WAYS[way]))
    np.testing.assert_allclose(model.cluster_centers_, plain.cluster_centers_, atol=1e-6)


@pytest.mark.parametrize("way", ["plain", "encrypted", "masked"])
def test_private_fits_cost_the_same_between_refusals(blobs, way):
    federation = federate(
        split(blobs[:60], "unequal"), way, transport=Spoiling, party={"epsilon": 1.0}
    )
    model = KMeans(2, epsilon=1.0, n_iter=1, bounds=(-20.0, 20.0)).fit(federation)
    assert federation.transport.refused > 80
    for party in federation.transport.parties.values():
        assert party.spent == pytest.approx(model.privacy_.spent, rel=1e-6)


class Copying(InProcess):
    """Looks whether what a party would go back to changes while it answers."""

    def exchange(self, mail):
        sides = {name: self.parties[name]._side for name in mail}
        copies = [(side.copy(), side.state()) for side in sides.values()]
        replies = super().exchange(mail)
        assert all(copied.state() == state for copied, state in copies)
        return replies


@pytest.mark.parametrize("way", WAYS)
def test_copies_of_sides_stay_as_they_were(blobs, way):
    federation = federate(split(blobs[:60], "unequal"), transport=Copying, **WAYS[way])
    KMeans(2, epsilon=None, max_iter=2).fit(federation)


@pytest.mark.parametrize("problem", [ValueError, MemoryError, KeyboardInterrupt, SystemExit])
def test_whatever_goes_wrong_inside_changes_nothing(blobs, monkeypatch, problem):
    server = Server(blobs, epsilon=1.0)
    assert server.begin()[0]
    before = server.party.state()

    def fails(*args):
        raise problem

    with monkeypatch.context() as patch:
        patch.setattr(partying, "answer", fails)
        if issubclass(problem, Exception):
            assert not server.ask(asked(CountQuery()))[0]
        else:
            with pytest.raises(problem):
                server.ask(asked(CountQuery()))
    assert server.party.state() == before
    assert server.ask(asked(CountQuery(), Discrete(40.0, "add-remove", 1000.0)))[0]


class Cheat:
    """A server of masked sums that goes back to rounds that are over."""

    def __init__(self, private, **terms):
        rng = np.random.default_rng(1)
        self.parties = {
            f"p{i}": Party(
                rng.uniform(-1, 1, (20 + i, 2)), f"p{i}", epsilon=1.0 if private else None
            )
            for i in range(7)
        }
        more = {"bounds": (-1, 1), "rows": 1000, **terms}
        federation = Federation(list(self.parties.values()), protection="masked", **more)
        self.agreements = dict.fromkeys(self.parties, federation.agreement)
        self.agreement = federation.agreement
        opening = RunTerms({}, 0.0, private, (1.0, 1e-6, "auto") if private else None)
        self.run, self.plan, self.terms = uuid.uuid4().hex, opening.hash, opening.to_bytes()
        if private:
            noise, query = Discrete(8.0, "add-remove", 1000.0), CountQuery()
            self.question = Question("x", query, noise, noise.price(query))
        else:
            self.question = Question("x", SumsQuery(), Exact(), ())
        self.size = 1 if private else 4
        session = session_of(self.agreement, self.run)
        self.server = MaskedSums(scheme_of(self.agreement), session)
        self.before = self.server.state()

    def send(self, name, round, step, question, payload):
        federation = self.agreements[name].hash
        request = Request(federation, self.run, self.plan, round, step, question, payload)
        return read_reply(self.parties[name].handle(request.to_bytes()), request, name)

    def begin(self):
        for name in self.parties:
            assert self.send(name, 0, 0, b"", self.terms)[0]

    def sum(self, names, step, fresh=False):
        question = self.question.to_bytes()
        if fresh:
            session = session_of(self.agreement, self.run)
            self.server = MaskedSums(scheme_of(self.agreement), session, self.before)
        protocol = self.server.sum(1, self.size, hashlib.sha256(question).digest())
        mail = next(protocol)
        try:
            while True:
                step += 1
                replies = {n: self.send(n, 1, step, question, m) for n, m in mail.items()}
                mail = protocol.send({n: c for n, (ok, c) in replies.items() if ok and n in names})
        except StopIteration as end:
            return end.value


@pytest.mark.parametrize("private", [False, True], ids=["exact", "private"])
@pytest.mark.parametrize("reborn", [False, True], ids=["", "from its state"])
def test_a_refused_later_round_does_not_open_this_one_again(private, reborn):
    """Of two sums over different survivors the difference is one party's own numbers."""
    cheat = Cheat(private, dropouts=2 if private else 0)
    cheat.begin()
    assert len(cheat.sum(list(cheat.parties), 0)[1]) == 7
    spent = [party.spent for party in cheat.parties.values()]
    other = dataclasses.replace(cheat.question, name="y").to_bytes()
    for name in cheat.parties:
        assert not cheat.send(name, 2, 1, other, b"nonsense")[0]
    if reborn:
        for name, party in cheat.parties.items():
            cheat.parties[name] = Party(party._rows, name).restore(party.state())
    for again, fresh in enumerate((False, True), start=1):
        with pytest.raises(TooFewParties):
            cheat.sum(list(cheat.parties)[1:], 100 * again, fresh)
    assert [party.spent for party in cheat.parties.values()] == spent


def test_parties_of_two_agreements_are_never_added_up():
    """One counts on colluders and the others do not: the others' noise would be too little."""
    cheat = Cheat(True, dropouts=2)
    unlike = dataclasses.replace(cheat.agreement, colluders=2)
    assert scheme_of(unlike) == scheme_of(cheat.agreement)
    cheat.parties["p0"].join(unlike)
    cheat.agreements["p0"] = unlike
    cheat.begin()
    assert cheat.sum(list(cheat.parties), 0)[1] == [f"p{i}" for i in range(1, 7)]


def test_a_malformed_state_is_not_taken_for_a_message():
    with pytest.raises(BadMessage, match="expected a message"):
        Request.from_bytes(Party(np.zeros((3, 2)), "a").state())
