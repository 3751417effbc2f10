"""The sum is exact for whoever survives, and closed where too few do."""

import numpy as np
import pytest

from privem.federation.protections.masked import MaskedParty, MaskedSums, Refused, TooFewParties
from privem.federation.protections.masked.messages import Phase


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
        # Whoever has no key of the run stays away; everybody else may come back.
        leaves = dict(zip(rng.permutation(ring.names)[:4], rng.integers(1, 5, 4), strict=True))
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
    assert len(ring.replies.get(Phase.UNMASK, ())) == (6 if phase is Phase.UNMASK else 0)


def test_six_shares_of_seven_open_nothing(circle, dropping):
    ring = circle(10, size=50)
    with pytest.raises(TooFewParties):
        ring.run(silent=dropping(Phase.UNMASK, set(ring.names[:4])))
    asked = ring.requests
    # Trying again is asking the same again: who has opened its shares has no other answer.
    total, counted = ring.run()
    assert counted == ring.names
    np.testing.assert_array_equal(total, ring.expected(ring.names))
    assert ring.requests[Phase.INPUT] == asked[Phase.INPUT]
    assert set(ring.calls.values()) == {1}
    # And over other survivors there is none.
    ring = circle(10)
    with pytest.raises(TooFewParties):
        ring.run(silent=dropping(Phase.UNMASK, set(ring.names[:4])))
    with pytest.raises(TooFewParties):
        ring.run(silent=dropping(Phase.INPUT, set(ring.names[:1])))
    assert set(ring.refusals) == set(ring.names[1:])
    assert all("another message in phase SURVIVORS" in why for why in ring.refusals.values())


def test_no_input_appears_in_any_message(circle, dropping):
    ring = circle(6, size=8)
    ring.run(silent=dropping(Phase.INPUT, {"p0003"}))
    everything = b"".join(
        m for side in (ring.requests, ring.replies) for d in side.values() for m in d.values()
    )
    assert len(everything) > 10_000
    for x in ring.inputs.values():
        assert not any(word.tobytes() in everything for word in x)


def test_three_parties_tolerate_no_dropout(circle, dropping):
    ring = circle(3)
    with pytest.raises(TooFewParties):
        ring.run(silent=dropping(Phase.INPUT, {"p0001"}))


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
        memory = ring.parties[name]._memory
        now = memory.round or memory.ahead
        if phase is Phase.KEYS:
            secrets.add(memory.session.secret)
        if phase is Phase.SHARES:
            secrets.update(memory.session.chains.values())
        if Phase.KEYS < phase < Phase.UNMASK:
            secrets.add(now.secret)
            for pair in now.pairs.values():
                secrets.update({pair.mask, pair.box, pair.votes})
            secrets.update(now.held.values())
        return reply

    for number in (1, 2):
        ring.run(number, on_reply=look)
    # Of each: the run's; its own chain and those with peers; two rounds' own, of pairs, and held.
    assert len(secrets) == 5 + (5 + 10) + 2 * (5 + 3 * 10 + 20)
    for name in ring.names:
        state = ring.parties[name].state()
        assert not any(secret in state for secret in secrets)
        assert ring.inputs[name].tobytes() not in state


@pytest.mark.parametrize("rounds", [0, 1, 2])
def test_a_server_killed_between_rounds_goes_on(circle, dropping, rounds):
    ring = circle(5)
    for number in range(rounds):
        ring.run(number, silent=dropping(Phase.UNMASK, {ring.names[number]}))
    state = ring.server.state()
    ring.server = MaskedSums(ring.scheme, b"run 1", state)
    assert ring.server.state() == state
    total, counted = ring.run(rounds)
    assert counted == ring.names
    np.testing.assert_array_equal(total, ring.expected(ring.names))
    for bad in (state[:-1], b"X" + state[1:]):
        with pytest.raises(Refused):
            MaskedSums(ring.scheme, b"run 1", bad)
    with pytest.raises(Refused, match="not the state"):
        MaskedSums(ring.scheme, b"run 2", state)
