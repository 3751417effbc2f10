"""What gradient fits make of their noisy steps: arithmetic on public numbers."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from privem.blocks.shrinkage import james_stein, stands_out


def test_without_noise_a_step_is_taken_whole():
    step = np.array([3.0, -4.0])
    np.testing.assert_array_equal(stands_out(step, 0.0, 1.0), step)
    np.testing.assert_array_equal(stands_out(np.zeros(2), 0.0, 1.0), np.zeros(2))


@given(st.integers(0, 1000), st.floats(1e-6, 1e3), st.floats(1e-6, 1e3))
def test_no_more_is_taken_than_james_and_stein_would(seed, variance, size):
    step = np.random.default_rng(seed).normal(size=7)
    taken = stands_out(step, variance, size)
    plain = james_stein(step[None], np.array([variance]))[0]
    assert np.linalg.norm(taken) <= np.linalg.norm(plain) * (1 + 1e-12)
    # Little noise, by the size of what is looked for: hardly less, either.
    if 7 * variance < 1e-3 * size:
        assert np.linalg.norm(taken) >= np.linalg.norm(plain) - 0.01


def test_noise_longer_than_anything_sensible_moves_nothing():
    """Two deviations beyond the noise's expected length: 40 (1 + 2 sqrt(2/40)) = 57.9."""
    step = np.full(40, np.sqrt(57.0 / 40))
    assert not stands_out(step, 1.0, 0.1).any()
    assert james_stein(step[None], np.array([1.0])).any()
