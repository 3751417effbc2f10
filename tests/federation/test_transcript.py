"""What travels under epsilon: no sum without its noise, in any message, either way."""

import warnings

import numpy as np
import pytest

from privem import GaussianMixture
from privem.federation import sums as answering
from privem.federation.party import party as partying
from privem.noise.discrete import lattice

from .conftest import Watched, federate, split


def secrets_of(monkeypatch):
    """Every party's sums before and after noise, as they are computed."""
    before, after, doubles = [], [], []
    real = answering._noisy
    real_answer = partying.answer

    def noisy(sums, question, share, entropy):
        groups = question.query.groups(question.noise.neighbours)
        for group, spent in zip(groups, question.prices, strict=True):
            before.append(lattice(sums[group.where], spent))
        doubles.append(np.array(sums))
        return real(sums, question, share, entropy)

    def answer(*args):
        found = real_answer(*args)
        after.append(found.view(np.int64))
        return found

    monkeypatch.setattr(answering, "_noisy", noisy)
    monkeypatch.setattr(partying, "answer", answer)
    return before, after, doubles


def _long(number):
    """Of many digits, and no round number, as counts on a lattice are: any message has those."""
    return abs(number) >= 2**20 and abs(number) // (number & -number) >= 2**12


def appear(arrays, seen):
    """How many of the numbers (those of many digits) occur as eight bytes in any message."""
    found = 0
    for array in arrays:
        for number in array:
            if array.dtype == np.int64 and not _long(int(number)):
                continue
            if array.dtype == np.float64 and (number == 0 or float(number).is_integer()):
                continue
            raw = number.tobytes()
            holding = [message for message in seen if raw in message]
            for message in holding:  # shown where a test fails: is it chance, or a leak?
                at = message.index(raw)
                print(number, at, message[max(0, at - 16) : at + 24].hex(), message[:200])
            found += bool(holding)
    return found


def transcript(blobs, monkeypatch, epsilon, **terms):
    secrets = secrets_of(monkeypatch)
    federation = federate(split(blobs, "even"), transport=Watched, **terms)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        GaussianMixture(2, epsilon=epsilon, n_iter=2, bounds=(-20.0, 20.0)).fit(federation)
    assert len(federation.transport.seen) > 20
    return (*secrets, federation.transport.seen)


@pytest.mark.parametrize(
    "terms",
    [{"protection": "masked"}, {"protection": "encrypted", "collusion": "none"}],
    ids=["masked", "encrypted"],
)
def test_shared_noise_leaves_no_party_readable(blobs, monkeypatch, terms):
    before, after, doubles, seen = transcript(blobs, monkeypatch, 4.0, **terms)
    assert sum(map(len, before)) > 50
    assert appear(before, seen) == 0
    assert appear(doubles, seen) == 0
    # Each party's own numbers carry a share of the noise only: they do not travel either.
    assert appear(after, seen) == 0


def test_exact_totals_do_not_travel_under_epsilon(blobs, monkeypatch):
    """The sum over parties before noise appears nowhere: not even where it is opened."""
    federation = federate(split(blobs, "even"), "masked", transport=Watched)
    exact = []
    real = answering._noisy

    def noisy(sums, question, share, entropy):
        groups = question.query.groups(question.noise.neighbours)
        pieces = zip(groups, question.prices, strict=True)
        exact.append(np.concatenate([lattice(sums[g.where], s) for g, s in pieces]))
        return real(sums, question, share, entropy)

    monkeypatch.setattr(answering, "_noisy", noisy)
    model = GaussianMixture(2, epsilon=4.0, n_iter=2, bounds=(-20.0, 20.0))
    model.fit(federation)
    rounds = [sum(exact[at : at + 4]) for at in range(0, len(exact), 4)]
    assert len(exact) == 4 * len(model.privacy_.releases)
    assert appear(rounds, federation.transport.seen) == 0


def test_the_search_finds_what_does_travel(blobs, monkeypatch):
    """The control: with nothing in the way, noisy numbers are found, and exact ones if exact."""
    before, after, _, seen = transcript(blobs, monkeypatch, 4.0, protection="plain")
    assert appear(after, seen) == sum(_long(int(number)) for a in after for number in a)
    assert appear(before, seen) == 0
    monkeypatch.setattr(
        "privem.noise.discrete.draw", lambda spent, size, *rest: np.zeros(size, np.int64)
    )
    before, _, _, seen = transcript(blobs, monkeypatch, 4.0, protection="plain")
    assert appear(before, seen) > 50
