"""Rosters and schemes: what may be agreed on, and that it survives writing."""

import pytest

from privem.federation.protections.masked import (
    Identity,
    MaskedParty,
    MaskedSums,
    Roster,
    Scheme,
)
from privem.federation.protections.masked.scheme import round_context, sum_context

KEYS = {f"p{i}": Identity(bytes([i + 1] * 32)).public for i in range(70)}


def roster(n, seed=b""):
    return Roster("test", dict(list(KEYS.items())[:n]), seed)


def test_an_identity_round_trips_and_shows_no_secret():
    me = Identity.new()
    assert Identity(me.private_bytes()).public == me.public
    assert me.private_bytes().hex()[:8] not in repr(me)
    with pytest.raises(ValueError, match="32"):
        Identity(bytes(31))


def test_the_order_of_the_parties_does_not_matter():
    backwards = Roster("test", dict(reversed(list(KEYS.items()))))
    assert backwards == Roster("test", KEYS)
    assert backwards.digest == Roster("test", KEYS).digest


@pytest.mark.parametrize(
    "change",
    [
        {"federation": ""},
        {"federation": "x" * 201},
        {"parties": {}},
        {"parties": {"": bytes(32)}},
        {"parties": {"a": bytes(31)}},
        {"parties": {"a": bytes(32), "b": bytes(32)}},
        {"seed": b"short"},
    ],
)
def test_bad_rosters(change):
    with pytest.raises(ValueError, match=r"characters|parties|bytes|same key"):
        Roster(**{"federation": "test", "parties": KEYS, "seed": b""} | change)


@pytest.mark.parametrize(
    ("n", "least"), [(3, 3), (4, 3), (5, 4), (6, 5), (9, 7), (10, 7), (64, 43)]
)
def test_the_threshold_is_two_thirds_and_one_more(n, least):
    assert Scheme.of(roster(n)).threshold == least
    for threshold in (least - 1, n + 1):
        with pytest.raises(ValueError, match="threshold"):
            Scheme.of(roster(n), threshold=threshold)


def test_bad_schemes():
    with pytest.raises(ValueError, match="3 parties or more"):
        Scheme.of(roster(2))
    with pytest.raises(ValueError, match="needs a roster with a seed"):
        Scheme.of(roster(70))
    seeded = roster(70, bytes(32))
    with pytest.raises(ValueError, match="even number"):
        Scheme.of(seeded, degree=27)
    with pytest.raises(ValueError, match="quorum"):
        Scheme.of(seeded, degree=28, quorum=18)
    with pytest.raises(ValueError, match="quorum is the threshold"):
        Scheme.of(roster(5), quorum=5)
    assert Scheme.of(roster(70), degree=69).all_pairs  # All pairs need no seed.


def test_bad_sums_are_refused_before_anything_is_sent():
    scheme = Scheme.of(roster(3))
    for run, number, size in ((b"", 0, 1), (b"x" * 65, 0, 1), (b"x", -1, 1), (b"x", 0, 0)):
        with pytest.raises(ValueError, match=r"bytes|counted|entries"):
            MaskedSums(scheme, run).sum(number, size)
    with pytest.raises(ValueError, match="run"):
        MaskedParty(Identity(bytes([1] * 32)), scheme, b"")


def test_the_context_tells_everything_apart():
    three, four = roster(3), roster(4)
    contexts = set()
    for scheme_roster, threshold in ((three, 3), (four, 3), (four, 4)):
        for run in (b"a", b"b"):
            session = Scheme.of(scheme_roster, threshold=threshold).session(run)
            rounds = {round_context(session, number) for number in (0, 1)}
            sums = {
                sum_context(one, size, about)
                for one in rounds
                for size in (1, 2)
                for about in (b"", b"x")
            }
            contexts |= {session, *rounds, *sums}
    assert len(contexts) == 3 * 2 * (1 + 2 + 2 * 4)
