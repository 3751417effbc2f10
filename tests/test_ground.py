"""Columns that are mostly one value, like a capital gain, still have a scale."""

import numpy as np
import pytest

from privem import KMeans


@pytest.mark.parametrize("share", [0.7, 0.9])
def test_mostly_zero_columns_get_bounds_that_hold_the_rest(share: float) -> None:
    """The scale comes from the values that differ; false-alarm rate below 1e-6."""
    rng = np.random.default_rng(0)
    X = rng.normal(50.0, 10.0, size=(30_000, 2))
    X[:, 1] = np.where(rng.random(len(X)) < share, 0.0, rng.normal(5_000.0, 1_000.0, len(X)))
    low, high = KMeans(2, epsilon=2.0, n_iter=1).fit(X).bounds_
    inside = np.mean((low <= X) & (high >= X), axis=0)
    assert (inside > 0.99).all()
    assert (high - low < 1e6).all()
