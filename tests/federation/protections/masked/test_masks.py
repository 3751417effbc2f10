"""Masks hide everything, are never used twice, and come off exactly."""

import types

import numpy as np
import pytest
from scipy.stats import chi2

from privem.federation.primitives import expand, prf
from privem.federation.protections.masked import masks as masks_module
from privem.federation.protections.masked import party as party_module
from privem.federation.protections.masked import state as state_module
from privem.federation.protections.masked.masks import add_pair_mask, pad
from privem.federation.protections.masked.messages import Phase, Reader

from .conftest import body

FALSE_ALARM = 1e-7


def seeded(monkeypatch, seed):
    """Round secrets from a seed, so that a statistical test always sees the same numbers."""
    rng = np.random.default_rng(seed)
    monkeypatch.setattr(party_module, "os", types.SimpleNamespace(urandom=rng.bytes))


def repeated(rounds):
    """What a mask used twice shows: a key, commitment, box, pad or masked word seen twice."""
    seen, twice = set(), []
    for replies in rounds:
        for phase, of_phase in replies.items():
            for name, reply in of_phase.items():
                for part in drawn(phase, body(reply)):
                    if part in seen:
                        twice.append(f"{name}: {phase.name} of another party or round")
                    seen.add(part)
    return twice


def drawn(phase, body):
    """The parts of a reply that are different in all replies of all parties."""
    reader = Reader(body)
    if phase is Phase.KEYS:
        return [reader.take(32)]
    if phase is Phase.INPUT:
        rows = reader.table(16, range(100))
        return [*rows.values(), reader.rest()[:8]]
    if phase is Phase.SURVIVORS:
        reader.members(5)
        return reader.table(16, range(100)).values()
    if phase is Phase.UNMASK:
        reader.table(33, range(100))
    parts = [reader.take(32), reader.take(32)]
    for row in reader.table(112, range(100)).values():
        parts += [row[:80], row[80:]]
    return parts


def test_no_mask_is_used_twice(circle):
    ring = circle(5)
    rounds = []
    for number in range(4):
        ring.run(number)
        rounds.append(ring.replies)
    assert repeated(rounds) == []


def test_a_planted_stuck_generator_is_seen(circle, monkeypatch):
    stuck = types.SimpleNamespace(urandom=lambda n: b"planted bug".ljust(n))
    monkeypatch.setattr(party_module, "os", stuck)
    ring = circle(5)
    ring.run(1)
    assert any("KEYS" in line for line in repeated([ring.replies]))  # All parties have the same.


def test_planted_chains_that_stand_still_are_seen(circle, monkeypatch):
    # No round is told from another, and what was used is used again.
    monkeypatch.setattr(state_module, "next_on_chain", lambda place: place)
    monkeypatch.setattr(masks_module, "prf", lambda k, what, c=b"", n=32: prf(k, what, c[32:], n))
    ring = circle(5)
    rounds = []
    for number in range(2):
        ring.run(number)
        rounds.append(ring.replies)
    seen = " ".join(repeated(rounds))
    assert "INPUT" in seen
    assert "UNMASK" in seen


def test_chains_that_stand_still_alone_do_not_repeat_masks(circle, monkeypatch):
    # The context of the round is in every derived key: a second line of defence.
    monkeypatch.setattr(state_module, "next_on_chain", lambda place: place)
    ring = circle(5)
    rounds = []
    for number in range(2):
        ring.run(number)
        rounds.append(ring.replies)
    assert repeated(rounds) == []


def byte_p_value(words):
    """P-value of Pearson's statistic that all eight bytes of the words are uniform."""
    data = np.ascontiguousarray(words).view(np.uint8).reshape(-1, 8)
    statistic = 0.0
    for place in range(8):
        counts = np.bincount(data[:, place], minlength=256)
        expected = len(data) / 256
        statistic += float(((counts - expected) ** 2 / expected).sum())
    return chi2.sf(statistic, 8 * 255)


def one_partys_words(ring, number):
    ring.run(number)
    return np.frombuffer(ring.replies[Phase.INPUT]["p0001"][-16 - 8 * ring.size : -16], dtype="<u8")


def test_a_masked_input_looks_uniform(circle, monkeypatch):
    # Inputs that are anything but: zeros. False alarm 1e-7, and the seed is fixed.
    seeded(monkeypatch, 11)
    ring = circle(3, size=20_000)
    ring.inputs = dict.fromkeys(ring.names, np.zeros(ring.size, np.int64))
    words = np.concatenate([one_partys_words(ring, number) for number in range(3)])
    assert byte_p_value(words) > FALSE_ALARM
    # Neither place nor neighbour nor the next round tell anything: differences are uniform too.
    assert byte_p_value(np.diff(words)) > FALSE_ALARM
    assert byte_p_value(words[: ring.size] - words[ring.size : 2 * ring.size]) > FALSE_ALARM


def test_the_uniformity_test_sees_an_unmasked_input():
    sums = np.random.default_rng(0).normal(0, 2**40, 20_000).astype(np.int64)
    assert byte_p_value(sums) < FALSE_ALARM


@pytest.mark.parametrize("n_left", [1, 2])
def test_without_every_mask_the_input_still_looks_uniform(circle, monkeypatch, n_left):
    # The server and all but `n_left` peers: their masks come off, what is left still hides.
    seeded(monkeypatch, n_left)
    ring = circle(4, size=20_000)
    ring.inputs = dict.fromkeys(ring.names, np.zeros(ring.size, np.int64))
    pairs, context = {}, b""

    def note(phase, name, reply):
        nonlocal pairs, context
        if phase is Phase.INPUT and name == "p0001":
            now = ring.parties[name]._memory.round
            pairs, context = now.pairs, now.context
        return reply

    ring.run(on_reply=note)
    words = np.frombuffer(ring.replies[Phase.INPUT]["p0001"][-16 - 8 * ring.size : -16], "<u8")
    left = words.astype(np.uint64)
    for peer in (0, 2, 3)[n_left:]:
        add_pair_mask(left, pairs[peer].mask, context, peer, 1)
    assert byte_p_value(left) > FALSE_ALARM


def test_masks_of_a_pair_cancel():
    secret, context = b"a" * 32, bytes(32)
    total = np.zeros(9, dtype=np.uint64)
    add_pair_mask(total, secret, context, 2, 7)
    assert total.all()
    add_pair_mask(total, secret, context, 7, 2)
    assert not total.any()


def test_a_pad_hides_and_uncovers():
    secret, context = bytes(range(32)), bytes(32)
    hidden = pad(secret, 12345, context, 7)
    assert pad(hidden, 12345, context, 7) == secret
    others = {hidden, pad(secret, 12346, context, 7), pad(secret, 12345, context, 8)}
    assert len(others | {pad(secret, 12345, b"1" * 32, 7), secret}) == 5


def test_whatever_differs_is_independent():
    """Of a key, a label, data and a length; and it is BLAKE2b of RFC 7693 with a key."""
    key = bytes(range(32))
    values = [
        prf(key, b"label", b"data"),
        prf(key[::-1], b"label", b"data"),
        prf(key, b"labels", b"data"),
        prf(key, b"label", b"data "),
        prf(key, b"label", b"data", 64)[:32],
        prf(key, b"labeld", b"ata"),
    ]
    assert len(set(values)) == len(values)
    # The first of the reference implementation's own vectors: key 00..3f, no data.
    vector = "10ebb67700b1868efb4417987acf4690ae9d972fb7a590c2f02871799aaa4786"
    assert prf(bytes(range(64)), b"", b"", 64).hex().startswith(vector)


def test_the_stream_is_chacha20():
    # RFC 7539, appendix A.1, test vector 1: key, nonce and counter zero.
    assert expand(bytes(32), 2).astype("<u8").tobytes().hex() == "76b8e0ada0f13d90405d6ae55386bd28"
