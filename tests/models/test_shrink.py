"""What is done to noisy moments: nothing without noise, little harm with it."""

import numpy as np
import pytest

from privem.blocks.shrink import rounder
from privem.linalg import smat


@pytest.mark.parametrize("d", [1, 2, 7])
def test_without_noise_a_matrix_stays(d):
    root = np.random.default_rng(d).normal(size=(d, d))
    kept, share = rounder(root @ root.T, 0.0)
    np.testing.assert_allclose(kept, root @ root.T, rtol=1e-12, atol=1e-12)
    assert share == 1.0


@pytest.mark.parametrize("d", [2, 5, 20])
@pytest.mark.parametrize("deviation", [0.03, 0.3, 3.0])
def test_it_is_hardly_further_off_and_much_nearer_where_noise_is_large(d, deviation):
    """Mean squared errors of 300 matrices with seeded noise; nothing here is left to chance."""
    rng = np.random.default_rng(0)
    truth = np.diag(np.linspace(0.5, 1.5, d))
    noise = smat(rng.normal(0, deviation, (300, d * (d + 1) // 2)), d)
    raw = np.mean([np.sum(n**2) for n in noise])
    shrunk = [rounder(truth + n, deviation)[0] for n in noise]
    off = np.mean([np.sum((s - truth) ** 2) for s in shrunk])
    assert off < 1.1 * raw
    if deviation == 3.0:
        assert off < (0.8 if d == 2 else 0.3) * raw
    np.testing.assert_allclose(
        [np.trace(s) for s in shrunk], [np.trace(truth + n) for n in noise], rtol=1e-9, atol=1e-9
    )
