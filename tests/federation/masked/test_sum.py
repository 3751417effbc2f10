"""The sum is exact for whoever survives, and closed where too few do."""

import numpy as np
import pytest

from privem.federation.masked import MaskedParty, Refused, TooFewParties
from privem.federation.masked.messages import Phase


@pytest.mark.parametrize("n", [3, 4, 10, 31])
def test_the_sum_is_exact(circle, n):
    ring = circle(n, size=17)
    total, counted = ring.run()
    assert counted == ring.names
    np.testing.assert_array_equal(total, ring.expected(ring.names))
    assert set(ring.calls.values()) == {1}


@pytest.mark.parametrize("phase", list(Phase))
@pytest.mark.parametrize("seed", range(3))
def test_dropouts_in_every_phase(circle, dropping, phase, seed):
    ring = circle(10)
    rng = np.random.default_rng(seed)
    gone = set(rng.choice(ring.names, size=1 + seed, replace=False))
    total, counted = ring.run(silent=dropping(phase, gone))
    # Whoever has sent a masked input is counted, also if it is never heard of again.
    survivors = [x for x in ring.names if x not in gone or phase > Phase.INPUT]
    assert counted == survivors
    np.testing.assert_array_equal(total, ring.expected(survivors))


def test_dropouts_in_different_phases_of_many_rounds(circle):
    ring = circle(13, size=3)
    rng = np.random.default_rng(5)
    for number in range(12):
        leaves = dict(zip(rng.permutation(ring.names)[:4], rng.integers(0, 5, 4), strict=True))
        total, counted = ring.run(
            number, silent=lambda phase, name, leaves=leaves: phase >= leaves.get(name, 9)
        )
        survivors = [x for x in ring.names if leaves.get(x, 9) > Phase.INPUT]
        assert counted == survivors
        np.testing.assert_array_equal(total, ring.expected(survivors))


@pytest.mark.parametrize("phase", list(Phase))
def test_below_the_threshold_the_sum_stays_closed(circle, dropping, phase):
    ring = circle(10)
    gone = set(ring.names[:4])  # Six are left, seven are needed.
    with pytest.raises(TooFewParties, match=r"p0000: .*no answer"):
        ring.run(silent=dropping(phase, gone))
    # Nobody was even asked to open a share before the last phase.
    opened = [r for replies in ring.replies for r in replies.values() if r[5] == Phase.UNMASK]
    assert len(opened) == (6 if phase is Phase.UNMASK else 0)


def test_six_shares_of_seven_open_nothing(circle, dropping):
    ring = circle(10, size=50)
    with pytest.raises(TooFewParties):
        ring.run(silent=dropping(Phase.UNMASK, set(ring.names[:4])))
    # What the parties themselves refuse: another attempt, from those who have opened shares.
    with pytest.raises(TooFewParties):
        ring.run(attempt=1)
    assert set(ring.refusals) == set(ring.names[4:])
    assert all("no second sum" in why for why in ring.refusals.values())


def test_no_input_appears_in_any_message(circle, dropping):
    ring = circle(6, size=8)
    ring.run(silent=dropping(Phase.INPUT, {"p0003"}))
    everything = b"".join(
        m for side in (ring.requests, ring.replies) for d in side for m in d.values()
    )
    assert len(everything) > 10_000
    for x in ring.inputs.values():
        assert not any(word.tobytes() in everything for word in x)


def test_three_parties_tolerate_no_dropout(circle, dropping):
    ring = circle(3)
    with pytest.raises(TooFewParties):
        ring.run(silent=dropping(Phase.INPUT, {"p0001"}))


def test_another_attempt_sums_the_same_integers(circle, dropping):
    ring = circle(10)
    with pytest.raises(TooFewParties):
        ring.run(silent=dropping(Phase.SURVIVORS, set(ring.names[:4])))
    first = ring.replies[Phase.INPUT]
    ring.inputs = {name: x + 1 for name, x in ring.inputs.items()}  # Too late: it has been asked.
    total, counted = ring.run(attempt=1)
    assert counted == ring.names
    assert set(ring.calls.values()) == {1}
    before = {name: x - 1 for name, x in ring.inputs.items()}
    assert (total == sum(x.view(np.uint64) for x in before.values())).all()
    # Under new masks: nothing of the first attempt is repeated.
    again = ring.replies[Phase.INPUT]
    assert all(first[name] != again[name] for name in ring.names)


def test_patience_waits_for_a_late_party(circle):
    ring = circle(3)
    seen = []

    def late(phase, name):
        seen.append((phase, name))
        return name == "p0001" and seen.count((phase, name)) == 1

    total, _ = ring.run(patience=1, silent=late)
    np.testing.assert_array_equal(total, ring.expected(ring.names))


@pytest.mark.parametrize("when", list(Phase))
def test_a_party_killed_after_each_message_comes_back(circle, when):
    ring = circle(5)

    def kill(phase, name, reply):
        if phase >= when:
            state = ring.parties[name].state()
            ring.parties[name] = MaskedParty.from_state(ring.identities[name], ring.scheme, state)
            assert ring.parties[name].state() == state
        return reply

    for number in (1, 2):
        total, counted = ring.run(number, on_reply=kill)
        assert counted == ring.names
        np.testing.assert_array_equal(total, ring.expected(ring.names))
    assert set(ring.calls.values()) == {2}


def test_a_state_is_for_its_own_federation_only(circle):
    ring = circle(5)
    ring.run(silent=lambda phase, name: False)
    state = ring.parties["p0001"].state()
    other = circle(5, threshold=5)
    with pytest.raises(Refused, match="another federation"):
        MaskedParty.from_state(ring.identities["p0001"], other.scheme, state)
    for bad in (b"", state[:-1], state + b"\0", b"X" + state[1:]):
        with pytest.raises(Refused):
            MaskedParty.from_state(ring.identities["p0001"], ring.scheme, bad)


@pytest.mark.parametrize("bad", [np.zeros(4, np.int64), np.zeros(5), np.zeros(5, np.int32)])
def test_a_wrong_contribution_is_the_partys_own_error(circle, bad):
    ring = circle(3)
    ring.inputs["p0001"] = bad
    with pytest.raises(ValueError, match="a contribution is 5 integers"):
        ring.run()


def test_after_opening_a_party_has_forgotten_the_secrets(circle):
    ring = circle(5)
    secrets = set()

    def look(phase, name, reply):
        now = ring.parties[name]._memory.round
        if phase < Phase.UNMASK:
            secrets.add(now.secret)
        return reply

    ring.run(on_reply=look)
    assert len(secrets) == 5
    for name in ring.names:
        state = ring.parties[name].state()
        assert not any(secret in state for secret in secrets)
        assert ring.inputs[name].tobytes() not in state
