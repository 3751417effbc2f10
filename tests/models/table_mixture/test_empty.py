"""Parts of noisy tables that hold nobody are seen, and none where noise hides them."""

import numpy as np
import pytest

from privem.models.table_mixture.empty import _OFF, emptied

rng_of = np.random.default_rng


def off(table, expected, deviation, ordered):
    """What is subtracted, in deviations."""
    return (table - emptied(table, expected, deviation, ordered)) / deviation


@pytest.mark.parametrize("values", [1, 2])
@pytest.mark.parametrize("extra", [0, 1])
def test_a_line(values, extra):
    """Empty cells are found, and none that is not; the last bin of either column has no order."""
    m, n = 20, 40_000
    size = m + extra
    true = np.zeros((values, size, size))
    at = np.arange(m)
    true[:, at, at] = 1
    true[:, at[1:], at[:-1]] = 0.5
    true[:, m:, m:] = 0.5
    true *= n / true.sum()
    both = true.sum(axis=0)
    expected = np.outer(both.sum(1), both.sum(0)) / n
    for seed in range(5):
        noisy = true + 30 * rng_of(seed).normal(size=true.shape)
        found = off(noisy, expected, 30.0, (m, m))
        assert (found[true > 0] < 0.2 * _OFF).all()
        assert found[true == 0].mean() > 0.8 * _OFF


def test_a_block_shows_what_cells_do_not():
    """Each cell should hold 1.5 deviations: too few to tell one empty cell, enough for many."""
    m, side = 24, np.arange(24) < 12
    expected = np.full((m, m), 1.5)
    empty = np.equal.outer(side, side)
    inner = np.zeros((m, m), bool)
    inner[2:10, 2:10] = inner[14:22, 14:22] = True
    noisy = np.where(empty, 0.0, 3.0)[None] + rng_of(0).normal(size=(1, m, m))
    in_order, in_none = (off(noisy, expected, 1.0, (k, k))[0] for k in (m, 0))
    assert in_order[inner].mean() > 0.8 * _OFF
    assert in_none[inner].mean() < 0.95 * in_order[inner].mean()
    assert in_order[~empty].mean() < 0.2 * _OFF


@pytest.mark.parametrize("usual", [0.0, 0.5, 3.0, 50.0])
def test_no_cell_of_independent_columns_is_empty(usual):
    """Or few, where noise hides most of what is there."""
    expected = np.full((16, 16), usual)
    found = []
    for seed in range(40):
        noisy = (expected + rng_of(seed).normal(size=(16, 16)))[None]
        found.append(off(noisy, expected, 1.0, (16, 16)).mean())
    assert np.mean(found) < 0.1 * _OFF


def test_a_rare_value_of_the_target_is_not_empty():
    """Where one value of the target is not there, and another is."""
    expected = np.full((8, 8), 40.0)
    noisy = np.stack([expected, np.zeros((8, 8))]) + rng_of(0).normal(size=(2, 8, 8))
    assert (off(noisy, expected, 1.0, (8, 8)) < 1e-6).all()


def test_any_numbers_will_do():
    """Whatever noise did: numbers stay finite, and no more is subtracted than is meant."""
    for seed in range(10):
        rng = rng_of(seed)
        noisy = rng.normal(size=(2, 5, 3)) * 10.0 ** rng.integers(-9, 9)
        expected = rng.random((5, 3)) * 10.0 ** rng.integers(-9, 9)
        found = emptied(noisy, expected, 1.0, (4, 0))
        assert np.isfinite(found).all()
        assert (noisy - found <= _OFF * (1 + 1e-9) + 1e-6 * np.abs(noisy)).all()
        assert (found <= noisy).all()
