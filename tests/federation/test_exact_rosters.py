"""Exact sums are over all parties and always the same ones: two of them cannot be subtracted."""

import dataclasses
import hashlib

import numpy as np
import pytest

from privem import KMeans
from privem.blocks.moments import SumsQuery
from privem.federation import (
    Federation,
    InProcess,
    Party,
    PartyRefused,
    TooFewParties,
)
from privem.federation.agreement import Agreement, Card
from privem.federation.protections.encrypted import shared_key
from privem.federation.protections.masked import Identity
from privem.federation.protections.masked.exchanges import Exchanges
from privem.federation.protections.masked.messages import Phase, read_request
from privem.federation.protections.masked.protection import scheme_of
from privem.noise.exact import Exact

from .party.test_party import Server, asked, refused
from .party.test_refusals import Cheat

TERMS = {"bounds": (-30.0, 30.0), "rows": 1000}
EXACT = KMeans(2, epsilon=None, max_iter=1, tol=1e30)


def members(X, names):
    return {name: Party(X[i :: len(names)], name) for i, name in enumerate(names)}


class Silent(InProcess):
    """Hands nothing over."""

    def exchange(self, mail):
        raise AssertionError("somebody was asked")


@pytest.mark.parametrize("protection", ["plain", "masked"])
def test_exact_fits_with_dropouts_are_refused_before_anybody_is_asked(blobs, protection):
    """The attack: fit, let one party be away, fit again, subtract."""
    parties = members(blobs, "abcde")
    federation = Federation(list(parties.values()), protection=protection, dropouts=1, **TERMS)
    federation.transport = Silent(())
    with pytest.raises(ValueError, match="private fits only"):
        EXACT.fit(federation)
    assert "There are no exact fits" in federation.trust()
    assert "There are no exact fits" not in federation.trust(private=True)
    assert all(party.account.startswith("epsilon 0 ") for party in parties.values())
    assert KMeans(2, epsilon=4.0, bounds=(-30.0, 30.0)).fit(
        Federation(list(parties.values()), protection=protection, dropouts=1, **TERMS)
    )


def test_a_protection_without_private_fits_has_no_dropouts():
    cards = tuple(Card(name) for name in "abcd")
    with pytest.raises(ValueError, match="has exact fits only"):
        Agreement(cards, "ckks", dropouts=1)


def test_a_party_refuses_exact_questions_where_dropouts_are_declared(blobs):
    server = Server(blobs)
    agreement = dataclasses.replace(server.agreement, dropouts=1, minimum=2)
    server.party.join(agreement)
    server.agreement = agreement
    assert refused(server.begin(private=False), "private fits only")
    assert server.begin()[0]
    before = server.party.state()
    assert refused(server.ask(asked(SumsQuery(), Exact())), "private fits only")
    assert server.party.state() == before


@pytest.mark.parametrize("private", [False, True], ids=["exact", "private"])
def test_masked_parties_open_no_exact_sum_without_one_of_them(monkeypatch, private):
    """A server that breaks the protocol leaves one party out of a sum, and so out of a round."""
    monkeypatch.setattr(Exchanges, "_carries", lambda *args: True)
    cheat = Cheat(private, dropouts=2 if private else 0)
    cheat.begin()
    question = cheat.question.to_bytes()
    protocol = cheat.server.sum(1, cheat.size, hashlib.sha256(question).digest(), patience=0)
    mail, step, opened, refusals = next(protocol), 0, None, set()
    while mail:
        step += 1
        phase = read_request(next(iter(mail.values())))[0]
        replies = {n: cheat.send(n, 1, step, question, m) for n, m in mail.items()}
        refusals |= {(phase, reason) for answered, reason in replies.values() if not answered}
        found = {n: content for n, (answered, content) in replies.items() if answered}
        if phase >= Phase.INPUT:
            found.pop("p3", None)
        try:
            mail = protocol.send(found)
        except StopIteration as end:
            mail, opened = {}, end.value[1]
    fewer = (Phase.SURVIVORS, "masked sum: the survivors are fewer than the threshold")
    assert opened == (["p0", "p1", "p2", "p4", "p5", "p6"] if private else None)
    assert refusals == (set() if private else {fewer})


@pytest.mark.filterwarnings("ignore:protection='ckks'")
@pytest.mark.parametrize(
    ("protection", "counted"),
    [
        ("encrypted", "abcd"),
        ("encrypted", "abcdd"),
        ("encrypted", [1, 2, 3, 4, 5]),
        ("encrypted", "abcde"),
        ("ckks", "abcd"),
    ],
)
def test_no_party_decrypts_an_exact_sum_over_fewer(blobs, monkeypatch, protection, counted):
    """As far as it can know: a server that lies can have anything opened, and trust() says so."""
    written = shared_key.open_message

    def message(epoch, sealed, size, parties):
        return written(epoch, sealed, size, counted)

    monkeypatch.setattr(shared_key, "open_message", message)
    federation = Federation(list(members(blobs, "abcde").values()), protection=protection)
    if counted == "abcde":
        EXACT.fit(federation)
        return
    with pytest.raises(PartyRefused, match="fewer parties than were agreed on"):
        EXACT.fit(federation)


@pytest.mark.parametrize("protection", ["plain", "masked"])
def test_a_second_exact_fit_over_other_parties_is_refused(blobs, protection):
    parties = members(blobs, "abcde")

    def fit(names, model=EXACT):
        some = [parties[name] for name in names]
        return model.fit(Federation(some, protection=protection, **TERMS))

    whole = fit("abcde")
    counted = [party._budget.exact for party in parties.values()]
    for others in ("abcd", "abce", "cde"):
        with pytest.raises(PartyRefused, match="together with other parties"):
            fit(others)
    assert [party._budget.exact for party in parties.values()] == counted
    # The same ones may fit again, also under another agreement, and anybody may privately.
    assert np.array_equal(fit("edcba").cluster_centers_, whole.cluster_centers_)
    fit("abcd", KMeans(2, epsilon=4.0, bounds=(-30.0, 30.0)))
    # It is in the state, whatever the rows are now.
    parties = {
        name: Party(np.zeros((3, 2)), name).restore(party.state())
        for name, party in parties.items()
    }
    with pytest.raises(PartyRefused, match="together with other parties"):
        fit("abcd")


def test_a_name_under_another_key_is_another_party(blobs):
    parties = members(blobs, "abcd")
    EXACT.fit(Federation(list(parties.values()), protection="masked", **TERMS))
    parties["d"] = Party(np.zeros((3, 2)), "d")
    with pytest.raises(PartyRefused, match="under other keys"):
        EXACT.fit(Federation(list(parties.values()), protection="masked", **TERMS))


def test_whoever_is_away_ends_an_exact_fit(blobs):
    federation = Federation(list(members(blobs, "abcde").values()), protection="plain")
    turns = 0

    class Losing(InProcess):
        def exchange(self, mail):
            nonlocal turns
            turns += 1
            replies = super().exchange(mail)
            return {k: v for k, v in replies.items() if k != "c" or turns < 3}

    federation.transport = Losing(federation.transport.parties.values())
    with pytest.raises(TooFewParties, match="missing: c"):
        EXACT.fit(federation)


@pytest.mark.parametrize("dropouts", [0, 1])
def test_on_a_sparse_graph_nobody_is_left_out_by_its_peers(dropouts):
    """Above 64 parties a neighbourhood of 0.8 would do: a server could then leave one party out."""
    cards = tuple(
        Card(f"{i:02d}", signing=Identity(bytes([i + 1] * 32)).public.hex()) for i in range(65)
    )
    agreement = Agreement(cards, "masked", dropouts=dropouts, seed="00" * 32)
    scheme = scheme_of(agreement)
    assert not scheme.all_pairs
    assert (scheme.quorum == scheme.degree + 1) == (dropouts == 0)
    if not dropouts:
        assert agreement.cohort == 64  # all of them, but for the one that is reckoned with
        assert scheme.honest_cohort(3) == 62
