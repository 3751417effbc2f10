"""A backup restored, a folder copied, a state stolen: what a party then says, and what it tells."""

import dataclasses
import hashlib
import itertools
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privem import GaussianMixture, KMeans, SymmetricMixture
from privem.blocks.histograms import CountQuery
from privem.core import Spent
from privem.data import ArrayRows
from privem.federation import InProcess, Party
from privem.federation import sums as answering
from privem.federation.party import memory as remembering
from privem.federation.party.memory import Memory, Stream, derive, fingerprint, framed, noise_key
from privem.federation.protections.masked import MaskedSums
from privem.federation.protections.masked.protection import scheme_of, session_of
from privem.federation.wire.codec import decode
from privem.federation.wire.messages import Request, RunTerms
from privem.noise.discrete import Discrete, draw, lattice

from ..conftest import federate, split
from .test_party import NOISE, TERMS, Server, asked, bounded, refused

MOMENTS = bounded("joint", radius=2.0)
BEGIN = RunTerms(TERMS).to_bytes()


class Kept(InProcess):
    """Keeps each party's first state, and every request with its reply and its state after."""

    def __init__(self, parties):
        super().__init__(parties)
        self.first = {name: party.state() for name, party in self.parties.items()}
        self.seen = {name: [] for name in self.parties}

    def exchange(self, mail):
        replies = super().exchange(mail)
        for name, reply in replies.items():
            party = self.parties[name]
            self.seen[name].append((mail[name], reply, party.state(), party._memory.numbers))
        return replies


def fitted(model, parts, protection, party=None, **terms):
    federation = federate(parts, protection, transport=Kept, party=party, **terms)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(federation)
    return federation.transport


MODELS = {
    "estimated bounds": KMeans(2, epsilon=4.0, n_iter=2, random_state=0),
    "Laplace": GaussianMixture(2, epsilon=4.0, n_iter=2, bounds=(-20.0, 20.0), mechanism="llg"),
    "cells": SymmetricMixture(epsilon=4.0, method="gradient", batch="partition", bounds=(-9, 9)),
}


@pytest.mark.parametrize("protection", ["plain", "masked", "encrypted"])
@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS.keys())
def test_a_party_restored_from_a_backup_repeats_itself(blobs, protection, model):
    """From before the run, and from every state within it; ciphertexts are fresh, not numbers."""
    parts = split(np.tile(blobs, (10, 1)), "even")
    transport = fitted(model, parts, protection)
    name, story = "party 1", transport.seen["party 1"]
    assert len({kept.tobytes() for *_, kept in story if kept is not None}) > 2
    states = [transport.first[name], *(state for _, _, state, _ in story[:-1])]
    starts = range(len(story)) if protection == "plain" else (0, len(story) // 2)
    for start in starts:
        party = Party(parts[1], name).restore(states[start])
        for message, reply, state, kept in story[start:]:
            again = party.handle(message)
            assert np.array_equal(party._memory.numbers, kept)
            if protection != "encrypted":
                assert again == reply
                assert party.state() == state
            assert decode(again)[0] == "reply"


def test_the_rows_that_stand_for_persons_are_drawn_again_as_they_were(blobs):
    parts = split(np.tile(blobs, (50, 1)), "even")
    owners = np.arange(7500) // 5
    model = KMeans(2, epsilon=4.0, n_iter=1, random_state=0)
    transport = fitted(model, parts, "plain", party={"groups": owners})
    party = Party(parts[1], "party 1", groups=owners).restore(transport.first["party 1"])
    for message, reply, *_ in transport.seen["party 1"]:
        assert party.handle(message) == reply


def test_a_copy_that_is_started_elsewhere_says_the_same(blobs):
    """Ten copies of a folder, asked the same: one answer, not ten to take the mean of."""
    server = Server(blobs)
    copies = [Party(blobs, "party 0").restore(server.party.state()) for _ in range(10)]
    body = server.request(round=0, step=0, payload=BEGIN)
    question = server.request(round=1, question=asked(CountQuery()))
    replies = set()
    for copy in copies:
        assert decode(copy.handle(body.to_bytes()))[0] == "reply"
        replies.add(copy.handle(question.to_bytes()))
    assert len(replies) == 1


def numbers(party, server, question, round=1, run="run 1"):
    """What a party says to one question of a run."""
    begin = server.request(run=run, round=0, step=0, payload=BEGIN)
    assert decode(party.handle(begin.to_bytes()))[0] == "reply"
    ask = server.request(run=run, round=round, question=question)
    assert decode(party.handle(ask.to_bytes()))[0] == "reply"
    return party._memory.numbers.view(np.int64)


def spied(monkeypatch):
    """Every sum before noise, as it is encoded."""
    sums = []
    real = answering._noisy

    def noisy(total, question, share, noise):
        groups = question.query.groups(question.noise.neighbours)
        pieces = zip(groups, question.prices, strict=True)
        sums.append(np.concatenate([lattice(total[g.where], s) for g, s in pieces]))
        return real(total, question, share, noise)

    monkeypatch.setattr(answering, "_noisy", noisy)
    return sums


def shared_noise(monkeypatch, rows, others, question):
    """Of one state asked the same about other rows: how many numbers have the same noise."""
    server = Server(rows)
    state = server.party.state()
    sums = spied(monkeypatch)
    said = [
        numbers(Party(part, "party 0").restore(state), server, question) for part in (rows, others)
    ]
    return int(((said[0] - said[1]) == (sums[0] - sums[1])).sum())


def altered(blobs):
    others = blobs.copy()
    others[17] += 0.5
    return others


def test_noise_on_other_rows_is_other_noise(blobs, monkeypatch):
    """By chance one of twelve numbers' noise agrees in five million tests."""
    question = asked(MOMENTS)
    assert shared_noise(monkeypatch, blobs, altered(blobs), question) == 0
    # Also where the sum is the same: the number of records.
    assert shared_noise(monkeypatch, blobs, altered(blobs), asked(CountQuery())) == 0


@pytest.mark.parametrize("without", ["the rows", "the sum"])
def test_either_rows_or_sum_tells_noise_apart(blobs, monkeypatch, without):
    if without == "the rows":
        monkeypatch.setattr(Party, "_know_rows", lambda *_: None)
        monkeypatch.setattr("privem.federation.party.rows.fingerprint", lambda *_: bytes(32))
    else:
        monkeypatch.setattr(remembering, "noise_key", lambda key, encoded: derive(key, "noise"))
    assert shared_noise(monkeypatch, blobs, altered(blobs), asked(MOMENTS)) == 0


def test_planted_noise_without_the_sum_is_seen(blobs, monkeypatch):
    """Noise that hangs on the question alone shows what one record adds, to the last digit."""
    monkeypatch.setattr("privem.federation.party.rows.fingerprint", lambda *_: bytes(32))
    monkeypatch.setattr(remembering, "noise_key", lambda key, encoded: derive(key, "noise"))
    assert shared_noise(monkeypatch, blobs, altered(blobs), asked(MOMENTS)) > 5


def test_another_question_gets_other_noise(blobs, monkeypatch):
    """Other noise, lattice, round or run: from one state, the noise never is the same.

    By chance a number's is once in 2^25; two of twelve in one of thirty comparisons, in 10^11.
    """
    server = Server(blobs)
    state = server.party.state()
    sums = spied(monkeypatch)
    wider = Discrete(20.0, "add-remove", 1000.0)
    finer = tuple(
        dataclasses.replace(s, grid=s.grid / 2, steps=2 * s.steps) for s in NOISE.price(MOMENTS)
    )
    ways = [
        (asked(MOMENTS), 1, "run 1"),
        (asked(MOMENTS), 2, "run 1"),
        (asked(MOMENTS), 1, "run 2"),
        (asked(MOMENTS, wider), 1, "run 1"),
        (asked(MOMENTS, prices=finer), 1, "run 1"),
    ]
    found = []
    for question, round, run in ways:
        party = Party(blobs, "party 0").restore(state)
        found.append(numbers(party, server, question, round, run) - sums[-1])
    for one, other in itertools.combinations(found, 2):
        for a, b in ((one, other), (one, 2 * other), (2 * one, other)):
            assert (a == b).sum() < 2


def test_a_run_does_not_go_on_about_other_rows(blobs):
    """Under the same masks two sums would show their difference."""
    server = Server(blobs, "masked")
    assert server.begin()[0]
    other = altered(blobs)
    for rows, words in ((other, "the question could not be answered"), (blobs, "masked sum")):
        server.party = Party(rows, "party 0").restore(server.party.state())
        assert refused(server.ask(asked(CountQuery())), words)
        # That its rows have changed is for the party's owner alone to hear.
        assert ("rows are not those" in str(server.party.problem)) == (rows is other)
    # The owner may change rows between runs.
    server.party = Party(other, "party 0").restore(server.party.state())
    server.run, server.round = "run 2", 0
    assert server.begin()[0]


def test_masks_hang_on_rows(blobs):
    """Other rows: no key, so no mask, of a run is one that was used before."""
    server = Server(blobs, "masked")
    state, question = server.party.state(), asked(CountQuery())
    sums = MaskedSums(scheme_of(server.agreement), session_of(server.agreement, "run 1"))
    payload = next(sums.sum(1, 1, hashlib.sha256(question).digest()))["party 0"]
    begin = server.request(round=0, step=0, payload=BEGIN)
    first = server.request(round=1, question=question, payload=payload)
    keys = []
    for rows in (blobs, blobs.copy(), altered(blobs)):
        party = Party(rows, "party 0").restore(state)
        assert decode(party.handle(begin.to_bytes()))[0] == "reply"
        kind, body = decode(party.handle(first.to_bytes()))
        assert kind == "reply"
        keys.append(body["payload"][-128:-96])
    assert keys[0] == keys[1] != keys[2]


@given(st.lists(st.binary(max_size=6), max_size=4), st.lists(st.binary(max_size=6), max_size=4))
def test_no_two_inputs_are_written_alike(one, other):
    assert (framed(*one) == framed(*other)) == (one == other)
    assert (derive(b"k", "x", *one) == derive(b"k", "x", *other)) == (one == other)


CONTEXT = {
    "federation": ("agreement", "agreement 2"),
    "run": ("run", "ru", ""),
    "plan": ("plan", "nplan"),
    "round": (1, 256),
    "question": (b"question", b"uestion", b""),
}


def test_every_part_of_the_context_is_in_the_key():
    """Run, round, agreement, plan, question, rows and sum: each alone makes other noise."""
    found = {}
    for values in itertools.product(*CONTEXT.values()):
        context = dict(zip(CONTEXT, values, strict=True))
        request = Request(**context, step=1, payload=b"")
        for rows, total in itertools.product((b"r" * 32, b"s" * 32), ([1, 2], [1, 3], [2], [])):
            memory, masks = Memory(secret=b"0" * 32).begun(request, RunTerms({}), rows, False)
            stream = memory.asked(request).noise(np.array(total, dtype=np.int64))
            inputs = (*values, rows, *total)
            assert found.setdefault(stream.bits(16), inputs) == inputs
            assert masks != memory.chain != memory.secret
    assert len(found) == 2 * 3 * 2 * 2 * 3 * 2 * 4


def test_streams_do_not_hang_on_how_they_are_read():
    sizes = [0, 1, 4095, 4096, 4097, 20_000, 3]
    stream = Stream(b"k" * 32)
    parts = b"".join(stream.bits(n) for n in sizes)
    assert parts == Stream(b"k" * 32).bits(sum(sizes))


def test_noise_from_streams_is_the_noise_that_was_promised():
    """Fixed keys: the same draws in every run, so no false alarm."""
    for kind, deviation in (("gaussian", 2.0**24), ("laplace", 2.0**24.5)):
        spent = Spent("x", kind, 1, 1.0, 0.0, 1.0, 2**24)
        one, other = (
            draw(spent, 30_000, Stream(noise_key(b"k" * 32, np.array([z])))).astype(float)
            for z in (5, 6)
        )
        assert abs(np.std(one) / deviation - 1) < 0.02
        assert abs(np.corrcoef(one, other)[0, 1]) < 0.03
        assert np.array_equal(
            one, draw(spent, 30_000, Stream(noise_key(b"k" * 32, np.array([5])))).astype(float)
        )


def test_fingerprints_are_of_values_weights_and_owners(blobs):
    class Cut(ArrayRows):
        def blocks(self, rows):
            return super().blocks(7)

    marks = {
        fingerprint(ArrayRows(blobs)),
        fingerprint(ArrayRows(blobs[::-1])),
        fingerprint(ArrayRows(blobs[:-1])),
        fingerprint(ArrayRows(blobs.reshape(-1, 4))),
        fingerprint(ArrayRows(blobs, np.ones(600))),
        fingerprint(ArrayRows(blobs, np.full(600, 2.0))),
        fingerprint(ArrayRows(blobs), np.arange(600)),
        fingerprint(ArrayRows(blobs), np.arange(600) // 2),
        fingerprint(ArrayRows(blobs[:0])),
    }
    assert len(marks) == 9
    assert fingerprint(Cut(blobs)) == fingerprint(ArrayRows(blobs)) in marks


def keys_used(monkeypatch):
    """Every key, as it is made: (kind, key)."""
    made = []
    begun, entered = Memory.begun, Memory.asked

    def begin(self, *args):
        memory, masks = begun(self, *args)
        made.extend([("secret", self.secret), ("masks", masks), ("draws", self.draws)])
        return memory, masks

    def enter(self, request):
        memory = entered(self, request)
        made.extend([("chain", self.chain), ("round", memory.key)])
        return memory

    monkeypatch.setattr(Memory, "begun", begin)
    monkeypatch.setattr(Memory, "asked", enter)
    return made


def left_over(made, states):
    """Kinds of keys that are in a state although they have done their work."""
    return {kind for kind, key in made for state in states if key and key in state}


@pytest.mark.parametrize("protection", ["plain", "masked"])
def test_a_stolen_state_opens_no_noise_of_the_past(blobs, monkeypatch, protection):
    made = keys_used(monkeypatch)
    parts = split(blobs, "even")
    federation = federate(parts, protection)
    model = GaussianMixture(2, epsilon=4.0, n_iter=1, bounds=(-20.0, 20.0))
    for _ in range(2):
        model.fit(federation)
    assert {kind for kind, _ in made} == {"secret", "masks", "draws", "chain", "round"}
    states = [party.state() for party in federation.transport.parties.values()]
    assert left_over(made, states) == set()
    # Nor does it lead back to them: what it holds only leads on.
    past = {key for _, key in made}
    for party in federation.transport.parties.values():
        memory = party._memory
        for key in (memory.secret, memory.chain, memory.draws):
            for _ in range(50):
                assert key not in past
                key = derive(key, "next")


def test_planted_keys_that_are_kept_are_seen(blobs, monkeypatch):
    made = keys_used(monkeypatch)
    monkeypatch.setattr(
        Memory, "said", lambda self, numbers: dataclasses.replace(self, numbers=numbers)
    )
    monkeypatch.setattr(remembering, "after", lambda key: key)
    server = Server(blobs)
    assert server.begin()[0]
    assert server.ask(asked(CountQuery()))[0]
    assert left_over(made, [server.party.state()]) == {"secret", "chain", "round"}


def test_the_statement_says_that_the_promise_is_computational(blobs):
    federation = federate(split(blobs, "even"), "plain")
    model = KMeans(2, epsilon=1.0, n_iter=1, bounds=(-20.0, 20.0)).fit(federation)
    assert "the promise is computational" in str(model.privacy_)
    assert "computational" not in federation.trust(private=False)
    assert "computational" not in str(KMeans(2, bounds=(-20.0, 20.0)).fit(blobs).privacy_)
