"""A refusal is a dropout where dropouts were declared; a statement says who took part."""

import numpy as np
import pytest

from privem import GaussianMixture, KMeans, private_mean
from privem.federation import (
    Federation,
    InProcess,
    Journal,
    Party,
    PartyRefused,
    TooFewParties,
)
from privem.federation.agreement import took_part
from privem.federation.party.account import Account

NAMES = "abcde"
WAYS = ["plain", "masked", "encrypted"]


def parties(blobs, **limits):
    return [Party(blobs[i::5], name, epsilon=limits.get(name, 2.0)) for i, name in enumerate(NAMES)]


def model():
    return KMeans(2, epsilon=1.0, n_iter=2, bounds=(-20.0, 20.0), random_state=0)


@pytest.fixture
def generous(monkeypatch):
    """Parties that find out only in the middle of a run that it exceeds their budget."""
    monkeypatch.setattr(Account, "grants", lambda *args: True)


@pytest.mark.parametrize("protection", WAYS)
def test_who_refuses_at_the_beginning_is_left_out(blobs, protection):
    """One party's limit was a veto over everybody's fit."""
    members = parties(blobs, c=0.5)
    federation = Federation(members, protection=protection, dropouts=1)
    fitted = model().fit(federation)
    assert federation.attendance == {"took part": list("abde"), "refused": ["c"], "lost": []}
    for text in (fitted.privacy_.parties, str(fitted.privacy_)):
        assert "In every sum: a, b, d, e. Refused: c." in text
        assert "own budget" not in text  # its reasons are nobody's business
    assert [party.spent > 0 for party in members] == [True, True, False, True, True]


@pytest.mark.parametrize("protection", WAYS)
@pytest.mark.usefixtures("generous")
def test_who_refuses_in_the_middle_drops_out(blobs, protection):
    members = parties(blobs, c=0.5)
    federation = Federation(members, protection=protection, dropouts=1)
    fitted = model().fit(federation)
    assert "In every sum: a, b, d, e. Refused: c." in fitted.privacy_.parties
    assert 0 < members[2].spent <= 0.5 < members[0].spent
    assert np.isfinite(fitted.cluster_centers_).all()


@pytest.mark.parametrize("protection", WAYS)
@pytest.mark.parametrize("middle", [False, True], ids=["beginning", "middle"])
def test_more_refusals_than_dropouts_end_the_fit(blobs, protection, middle, request):
    if middle:
        request.getfixturevalue("generous")
    federation = Federation(parties(blobs, c=0.5, d=0.5), protection=protection, dropouts=1)
    with pytest.raises(PartyRefused, match=r"'c' refused: .*'d' refused: .*own budget"):
        model().fit(federation)
    with pytest.raises(PartyRefused, match="'c' refused"):
        model().fit(Federation(parties(blobs, c=0.5), protection=protection))


def test_a_refusal_ends_an_exact_fit(blobs):
    federation = Federation(parties(blobs, a=None, b=None, d=None, e=None), protection="plain")
    with pytest.raises(PartyRefused, match=r"'c' refused: .*no finite cost"):
        KMeans(2, epsilon=None).fit(federation)


class Losing(InProcess):
    """One party never answers, and one no more after some exchanges."""

    turns = 0

    def exchange(self, mail):
        self.turns += 1
        replies = super().exchange(mail)
        gone = {"b"} | ({"e"} if self.turns > 3 else set())
        return {name: reply for name, reply in replies.items() if name not in gone}


def test_who_was_lost_is_in_the_statement(blobs):
    members = parties(blobs, c=0.5)
    federation = Federation(members, protection="plain", dropouts=3, minimum=2)
    federation.transport = Losing(members)
    fitted = model().fit(federation)
    assert "In every sum: a, d. Refused: c. Did not answer: b, e." in str(fitted.privacy_)
    others = parties(blobs)
    fewer = Federation(others, protection="plain", dropouts=1)
    fewer.transport = Losing(others)
    with pytest.raises(TooFewParties, match="missing: b, e"):
        model().fit(fewer)


def test_a_run_after_it_asks_everybody_again(blobs):
    members = parties(blobs, c=0.5)
    federation = Federation(members, protection="masked", dropouts=1)
    model().fit(federation)
    half = model().set_params(epsilon=0.4)
    assert "Refused" not in half.fit(federation).privacy_.parties
    assert federation.attendance["took part"] == list(NAMES)


def test_means_say_it_too(blobs):
    federation = Federation(parties(blobs, c=0.5), protection="plain", dropouts=1)
    assert "Refused: c." in private_mean(federation, epsilon=1.0, tau=9.0).privacy.parties


@pytest.mark.usefixtures("generous")
@pytest.mark.parametrize("protection", WAYS)
@pytest.mark.parametrize("limit", [1e-6, 0.5], ids=["first round", "later"])
def test_a_fit_that_is_continued_knows_who_refused(blobs, tmp_path, protection, limit):
    members = parties(blobs, c=limit)
    agreement = Federation(members, protection=protection, dropouts=1).agreement

    class Killed(Exception):
        pass

    class Stopping(InProcess):
        left = 4 if protection == "plain" else 8

        def exchange(self, mail):
            self.left -= 1
            if self.left < 0:
                raise Killed
            return super().exchange(mail)

    def again(transport):
        return Federation.over(agreement, transport, Journal(tmp_path / "run"))

    em = GaussianMixture(2, epsilon=1.0, n_iter=3, bounds=(-20.0, 20.0), random_state=0)
    with pytest.raises(Killed):
        em.fit(again(Stopping(members)))
    fitted = em.fit(again(InProcess(members)))
    assert "In every sum: a, b, d, e. Refused: c." in fitted.privacy_.parties


def test_nobody_absent_is_not_mentioned():
    everybody = {"took part": ["a", "b"], "refused": [], "lost": []}
    assert took_part(everybody) == "In every sum: a, b."
