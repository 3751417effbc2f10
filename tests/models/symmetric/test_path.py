"""What gradient fits make of their noisy steps: arithmetic on public numbers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privem.blocks.shrinkage import james_stein
from privem.models.symmetric.model import Symmetric
from privem.models.symmetric.path import WeightedSteps, shortened


def test_without_noise_a_step_is_taken_whole():
    step = np.array([3.0, -4.0])
    np.testing.assert_array_equal(shortened(step, 0.0, 1.0), step)
    np.testing.assert_array_equal(shortened(np.zeros(2), 0.0, 1.0), np.zeros(2))


@given(st.integers(0, 1000), st.floats(0.1, 10.0), st.floats(-12, 12))
def test_a_step_is_shortened_as_james_and_stein_or_as_wiener_would(seed, size, octaves):
    """Little noise: by what it explains of the step. Much: by what it explains of its size."""
    d = 7
    variance = size * 2.0**octaves
    step = np.random.default_rng(seed).normal(size=d) * np.sqrt(size / d + variance)
    taken = shortened(step, variance, size) / step
    assert np.ptp(taken) < 1e-12
    assert 0 <= taken[0] <= 1
    plain = james_stein(step[None], np.array([variance]))[0] / step
    wiener = size / (size + d * variance)
    assert min(plain[0], wiener) - 1e-9 <= taken[0] <= max(plain[0], wiener) + 1e-9
    if octaves < -10:
        assert taken[0] == pytest.approx(plain[0], abs=0.01)
    if octaves > 10:
        assert taken[0] == pytest.approx(wiener, abs=0.01)


@pytest.mark.parametrize("noise", [0.1, 1.0, 10.0, 1e3, 1e6])
@pytest.mark.parametrize("steps", [1, 6])
def test_noise_longer_than_the_start_s_distance_moves_it_little(noise, steps):
    """At most half of what the start is taken to miss, in the mean over the noise."""
    rng = np.random.default_rng(3)
    state, d = Symmetric(np.full(40, 0.5), 1.0), 40
    size = (state.beta @ state.beta + 1) / 16
    moved = []
    for _ in range(40):
        so_far = WeightedSteps.begin(state)
        for _ in range(steps):
            step = rng.normal(size=d) * np.sqrt(noise * size * steps / d)
            so_far = so_far.to(state.beta + step, noise * size * steps / d)
        moved.append(np.sum((so_far.estimate() - state.beta) ** 2))
    assert np.mean(moved) <= 0.25 * size * 1.2


def test_the_first_steps_count_where_noise_is_large_and_are_forgotten_where_it_is_small():
    state = Symmetric(np.array([3.0, 0.0]), 1.0)
    away, near = np.array([-0.5, 0.0]), np.array([0.1, 0.0])
    for variance, counts in ((1e3, 0.5), (1e-9, 0.0)):
        so_far = WeightedSteps.begin(state)
        so_far = so_far.to(state.beta + away, variance).to(state.beta + near, variance)
        mean = so_far.total / so_far.weight - state.beta
        share = (near - mean)[0] / (near - away)[0]
        assert share == pytest.approx(counts, abs=0.06)
        noise = (share**2 + (1 - share) ** 2) * variance
        assert so_far.blur / so_far.weight**2 == pytest.approx(noise)


def test_after_a_step_that_is_long_beyond_doubt_those_before_are_forgotten():
    """In two dimensions noise of variance one hardly exceeds 2 + 2 sqrt 4 = 6; twice that is 12."""
    first, second = (Symmetric(np.array([b, 0.0]), 1.0) for b in (3.0, 4.0))
    so_far = WeightedSteps.begin(first).to(first.beta + np.array([0.5, 0.0]), 1.0)
    assert so_far.believing(second.beta, second.beta + np.array([0.0, 3.4]), 1.0) is so_far
    forgetful = so_far.believing(second.beta, second.beta + np.array([0.0, 3.5]), 1.0)
    assert forgetful.start is second.beta
    assert forgetful.size == so_far.size
    assert forgetful.weight == 0


def test_where_the_start_may_be_anywhere_the_first_half_is_forgotten():
    states = [Symmetric(np.array([float(t), 1.0]), 1.0) for t in range(6)]
    so_far = WeightedSteps.begin(states[0], False)
    for t in range(1, 6):
        so_far = so_far.resumed(states[t], False, t, 6).to(states[t].beta + 1, 1.0)
        assert so_far.start[0] == min(t, 3)
    given = WeightedSteps.begin(states[0])
    assert given.resumed(states[2], True, 2, 6) is given


def test_many_steps_without_noise_overflow_nothing():
    state = Symmetric(np.ones(3), 0.0)
    so_far = WeightedSteps.begin(state)
    for _ in range(5000):
        so_far = so_far.to(state.beta, 0.0)
    np.testing.assert_allclose(so_far.estimate(), np.ones(3))
