"""Masks hide everything, are never used twice, and come off exactly."""

import itertools
import types

import numpy as np
import pytest
from scipy.stats import chi2

from privem.federation.masked import party as party_module
from privem.federation.masked.masks import RoundKeys, add_pair_mask
from privem.federation.masked.messages import Phase
from privem.federation.masked.prg import expand
from privem.federation.masked.primitives import public_bytes

FALSE_ALARM = 1e-7


def seeded(monkeypatch, seed):
    """Round secrets from a seed, so that a statistical test always sees the same numbers."""
    rng = np.random.default_rng(seed)
    monkeypatch.setattr(party_module, "os", types.SimpleNamespace(urandom=rng.bytes))


def repeated(rounds):
    """What a mask used twice shows: a key, a commitment or a difference of inputs seen twice."""
    seen, twice = set(), []
    for keys in (replies[Phase.KEYS] for replies in rounds):
        for name, reply in keys.items():
            for part in (reply[42:74], reply[74:106], reply[106:138]):
                if part in seen:
                    twice.append(f"{name}: a key or commitment of another round")
                seen.add(part)
    last = [replies[Phase.INPUT] for replies in rounds]
    for before, after in itertools.pairwise(last):
        for name in before:
            if before[name][-104:-64] == after[name][-104:-64]:
                twice.append(f"{name}: the same masked words twice")
    return twice


def test_no_mask_is_used_twice(circle):
    ring = circle(5)
    rounds = []
    for number in range(4):
        ring.run(number)
        rounds.append(ring.replies)
    assert repeated(rounds) == []


def test_a_planted_stuck_generator_is_seen(circle, monkeypatch):
    monkeypatch.setattr(
        party_module, "os", types.SimpleNamespace(urandom=lambda n: b"planted bug".ljust(n))
    )
    ring = circle(5)
    ring.run(1)
    assert any("a key" in line for line in repeated([ring.replies]))  # All parties have the same.


def test_planted_masks_used_twice_are_seen(circle, monkeypatch):
    # A party's secret stays the same from round to round, and no round is told from another.
    stuck = types.SimpleNamespace(urandom=lambda n: b"planted bug".ljust(n))
    monkeypatch.setattr(party_module, "os", stuck)
    monkeypatch.setattr("privem.federation.masked.scheme.Scheme.context", lambda *_: bytes(32))
    rounds = []
    for _ in range(2):
        ring = circle(5)
        ring.run(1)
        rounds.append(ring.replies)
    assert any("masked words" in line for line in repeated(rounds))


def test_a_stuck_generator_alone_does_not_repeat_masks(circle, monkeypatch):
    # The context of the round is in every derived key: a second line of defence.
    stuck = types.SimpleNamespace(urandom=lambda n: b"planted bug".ljust(n))
    monkeypatch.setattr(party_module, "os", stuck)
    ring = circle(5)
    rounds = []
    for number in range(2):
        ring.run(number)
        rounds.append(ring.replies)
    assert not any("masked words" in line for line in repeated(rounds))


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
    return np.frombuffer(ring.replies[Phase.INPUT]["p0001"][-64 - 8 * ring.size : -64], dtype="<u8")


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
    secrets = {}

    def note(phase, name, reply):
        if phase is Phase.INPUT:
            now = ring.parties[name]._memory.round
            secrets[name] = RoundKeys(now.secret, now.context, ring.names.index(name))
        return reply

    ring.run(on_reply=note)
    words = np.frombuffer(ring.replies[Phase.INPUT]["p0001"][-64 - 8 * ring.size : -64], "<u8")
    left = words.astype(np.uint64)
    public = public_bytes(secrets["p0001"].masking)
    for name in ("p0000", "p0002", "p0003")[n_left:]:
        keys = secrets[name]
        add_pair_mask(left, keys.masking, public, keys.context, keys.me, 1)
    assert byte_p_value(left) > FALSE_ALARM


def test_masks_of_a_pair_cancel():
    context = bytes(32)
    low, high = RoundKeys(b"a" * 32, context, 2), RoundKeys(b"b" * 32, context, 7)
    total = np.zeros(9, dtype=np.uint64)
    add_pair_mask(total, low.masking, public_bytes(high.masking), context, 2, 7)
    assert total.all()
    add_pair_mask(total, high.masking, public_bytes(low.masking), context, 7, 2)
    assert not total.any()


def test_the_stream_is_chacha20():
    # RFC 7539, appendix A.1, test vector 1: key, nonce and counter zero.
    assert expand(bytes(32), 2).astype("<u8").tobytes().hex() == "76b8e0ada0f13d90405d6ae55386bd28"
