"""Sealed boxes, and numbers under encryption: exact, and only for whom they are meant."""

import numpy as np
import pytest

from privem.federation import FederationError, primitives
from privem.federation.agreement import Agreement, Card
from privem.federation.errors import Refused
from privem.federation.protections.encrypted import bfv

from ..conftest import Watched, federate, split


def added(context, sizes, sealed):
    parts = enumerate(sealed)
    return bfv.add({str(i): bfv.read(context, sizes, part) for i, part in parts})


def test_a_box_opens_for_its_two_ends_and_its_purpose_only():
    ours, theirs, other = (primitives.new_key() for _ in range(3))
    box = primitives.seal(b"key", ours, primitives.public(theirs), b"run 1")
    assert primitives.unseal(box, theirs, primitives.public(ours), b"run 1") == b"key"
    assert primitives.seal(b"key", ours, primitives.public(theirs), b"run 1") != box
    bad = [
        (box, theirs, primitives.public(ours), b"run 2"),
        (box, theirs, primitives.public(other), b"run 1"),
        (box, other, primitives.public(ours), b"run 1"),
        (box[:-1], theirs, primitives.public(ours), b"run 1"),
        (box[:40] + bytes([box[40] ^ 1]) + box[41:], theirs, primitives.public(ours), b"run 1"),
        (b"", theirs, primitives.public(ours), b"run 1"),
    ]
    for args in bad:
        with pytest.raises(Refused):
            primitives.unseal(*args)


def test_a_stranger_cannot_make_a_box_in_a_partys_name():
    ours, theirs, server = (primitives.new_key() for _ in range(3))
    forged = primitives.seal(b"key the server knows", server, primitives.public(theirs), b"run")
    with pytest.raises(Refused):
        primitives.unseal(forged, theirs, primitives.public(ours), b"run")


@pytest.mark.parametrize("parties", [2, 10, 11, 12, 100])
def test_doubles_survive_to_the_last_digit(parties):
    """The hardest limbs: all ones, all zeros, both signs, many sizes."""
    rng = np.random.default_rng(parties)
    scheme = bfv.Limbs.of(parties)
    secret = scheme.keys()
    context, server = bfv.load(secret), bfv.load(bfv.public(secret))
    size = 40
    rows = [rng.standard_normal(size) * 10.0 ** rng.integers(-9, 9, size) for _ in range(parties)]
    for row in rows:
        row[:4] = (-(2.0**-56), 2.0**40 - 2.0**-12, -(2.0**40), 0.0)
    sealed = [scheme.encrypt(context, row) for row in rows]
    total = scheme.decrypt(context, added(server, scheme.sizes(size), sealed), size)
    # Exactly the sum of the parties' multiples of 2^-56, as integers of any length.
    exact = [sum(int(np.rint(np.ldexp(v, 56))) for v in column) for column in np.array(rows).T]
    assert total.tolist() == [float(np.ldexp(float(v), -56)) for v in exact]
    assert not server.is_private()


@pytest.mark.parametrize("parties", [2, 50, 300])
def test_integers_survive_exactly(parties):
    rng = np.random.default_rng(parties)
    scheme = bfv.Whole.of(parties)
    limit = scheme.ring.prime // (4 * parties)
    secret = scheme.keys()
    context, server = bfv.load(secret), bfv.load(bfv.public(secret))
    rows = [rng.integers(-limit, limit, 100) for _ in range(parties)]
    for row in rows:
        row[:2] = limit, -limit
    sealed = [scheme.encrypt(context, row.view(np.uint64)) for row in rows]
    total = scheme.decrypt(context, added(server, scheme.sizes(100), sealed), 100)
    assert np.array_equal(total.view(np.int64), sum(rows))


def test_more_parties_than_are_proved_are_refused():
    for scheme in (bfv.Limbs, bfv.Whole):
        assert scheme.of(47_109).ring.adds(47_109)
        with pytest.raises(ValueError, match="serves 47,109 parties, not 47110; use 'masked'"):
            scheme.of(47_110)


def test_another_key_does_not_open(blobs):
    scheme = bfv.Limbs.of(3)
    one, two = bfv.load(scheme.keys()), bfv.load(scheme.keys())
    sealed = scheme.encrypt(one, np.arange(5.0))
    with pytest.raises(FederationError, match="not under this key"):
        scheme.decrypt(two, sealed, 5)


@pytest.mark.parametrize("parties", [2, 3, 11, 12, 190, 47_109])
def test_limbs_neither_wrap_nor_run_out(parties):
    scheme = bfv.Limbs.of(parties)
    most = parties * (2**scheme.bits - 1)  # the largest sum of a limb
    assert most <= min(scheme.ring.prime // 2, 2**53)
    assert scheme.bits * scheme.count >= 56 + 70
    assert scheme.count == (3 if parties < 2000 else 4)
    assert sum(scheme.ring.moduli) <= 109  # the tables' bound at degree 4096


def test_the_noise_of_the_largest_sum_leaves_room():
    """Uniform plaintexts, as noisy as they come, from as many parties as the smaller ring takes."""
    for scheme in (bfv.Limbs.of(11), bfv.Whole.of(11)):
        ring = scheme.ring
        assert ring.adds(11)
        context = bfv.load(ring.keys())
        rng = np.random.default_rng(0)
        half = ring.prime // 2
        rows = [rng.integers(-half, half, 4096) for _ in range(11)]
        sealed = added(context, [4096], [ring.encrypt(context, row) for row in rows])
        total = ring.decrypt(context, sealed, 4096)
        exact = [
            (sum(int(v) for v in column) + half) % ring.prime - half
            for column in zip(*rows, strict=True)
        ]
        assert total.tolist() == exact


def test_many_numbers_share_few_ciphertexts():
    whole, limbs = bfv.Whole.of(10), bfv.Limbs.of(10)
    assert len(whole.encrypt(bfv.load(whole.keys()), np.zeros(4096, np.uint64))) == 1
    assert len(limbs.encrypt(bfv.load(limbs.keys()), np.zeros(1365))) == 1


def test_sums_too_large_are_refused_not_wrapped():
    scheme = bfv.Limbs.of(2)
    with pytest.raises(FederationError, match="too large"):
        scheme.encrypt(bfv.load(scheme.keys()), np.array([2.0**71]))


def test_the_server_never_holds_a_key(blobs):
    """No secret key that a party holds occurs in anything the server sent or heard."""
    from privem import KMeans

    federation = federate(split(blobs, "even"), "encrypted", transport=Watched)
    KMeans(2, epsilon=None).fit(federation)
    secrets = {p._side._secret for p in federation.transport.parties.values()}
    assert len(secrets) == 1
    (secret,) = secrets
    assert len(secret) > 10_000
    piece = secret[len(secret) // 2 :][:64]
    assert not any(piece in message for message in federation.transport.seen)
    assert not federation._server._context.is_private()


def test_fresh_keys_on_demand(blobs):
    from privem import KMeans

    federation = federate(split(blobs, "even"), "encrypted")
    party = federation.transport.parties["party 1"]
    KMeans(2, epsilon=None).fit(federation)
    first = party._side._secret
    federation.fresh_keys()
    from privem.blocks.moments import SumsQuery
    from privem.core import Stage
    from privem.noise.exact import Exact

    federation.release(Stage(SumsQuery(), Exact(), "sums"))
    assert party._side._secret not in (first, b"")


def test_keys_for_doubles_are_not_used_for_integers(blobs):
    """The rings differ: numbers of one would wrap unnoticed in the other."""
    from privem.blocks.moments import SumsQuery
    from privem.core import Stage
    from privem.noise.exact import Exact

    doubles = federate(split(blobs, "even"), "encrypted")
    integers = federate(split(blobs, "even"), "encrypted", bounds=(-30.0, 30.0), rows=1000)
    for federation, whole in ((doubles, False), (integers, True)):
        total = federation.release(Stage(SumsQuery(), Exact(), "sums")).statistics
        np.testing.assert_allclose(total.total, blobs.sum(axis=0), rtol=1e-9)
        server, party = federation._server, federation.transport.parties["party 1"]._side
        assert server._whole is party._whole is whole
        assert federation.agreement.kind.party_side(party.state())._whole is whole
        # As if the keys were of the other kind: the server asks for new ones, a party refuses.
        before = party._secret
        server._whole = not whole
        federation.release(Stage(SumsQuery(), Exact(), "sums"))
        assert party._secret != before
        assert server._whole is whole
        party._whole = not whole
        with pytest.raises(FederationError, match="for other numbers"):
            federation.release(Stage(SumsQuery(), Exact(), "sums"))


@pytest.mark.parametrize("extra", ["tenseal", "cryptography"])
def test_missing_libraries_name_the_extra(blobs, monkeypatch, extra):
    import sys

    monkeypatch.setitem(sys.modules, extra, None)
    from privem import KMeans

    KMeans(2, epsilon=None).fit(federate(split(blobs, "even"), "plain"))
    with pytest.raises(ImportError, match=r"privem\[federation\]"):
        federate(split(blobs, "even"), "encrypted")


def test_trust_says_who_can_learn_what():
    cards = tuple(Card(name) for name in "abcd")
    plain = Agreement(cards, "plain").trust()
    assert "sees each party's own numbers" in plain
    assert "all of the noise" in plain
    encrypted = Agreement(cards, "encrypted").trust()
    assert "together with any one party can open every upload" in encrypted
    none = Agreement(cards, "encrypted", collusion="none").trust(private=True)
    assert "1/3 of the noise" in none
    assert "nobody works with the server" in none
    assert "give the secret key away" in Agreement(cards, "ckks").trust(private=False)
    assert "exact" not in Agreement(cards, "plain").trust(private=True)
