"""A mixture of products against brute force: densities, laws of columns, draws."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2

from privem.models.table_mixture.model import TableState, pooled

MAPS = ((0, 1, 1, 0), (0, 1, 2), (0, 1, 1))
ROWS = np.array(list(product(range(4), range(3), range(3))))


def state_of(seed: int, classes: int = 3, sharp: float = 1.0) -> TableState:
    rng = np.random.default_rng(seed)
    profiles = [rng.dirichlet(np.full(max(each) + 1, sharp), classes) for each in MAPS]
    law = []
    for each in MAPS:
        raw = rng.uniform(0.2, 1.0, len(each))
        law.append(raw / np.bincount(each, raw)[list(each)])
    return TableState(
        rng.dirichlet(np.ones(classes)), np.concatenate(profiles, axis=1), np.concatenate(law), MAPS
    )


def joint(state: TableState) -> np.ndarray:
    """All probabilities (4, 3, 3), as defined."""
    return np.einsum("c,ci,cj,ck->ijk", state.weights, *(state.cells(j) for j in range(3)))


seeds = st.integers(0, 2**32 - 1)


@settings(max_examples=25)
@given(seed=seeds, sharp=st.sampled_from([1.0, 0.02]))
def test_densities_and_laws(seed, sharp):
    state = state_of(seed, sharp=sharp)
    whole = joint(state)
    assert whole.sum() == pytest.approx(1)
    assert np.exp(state.log_density(ROWS)).reshape(4, 3, 3) == pytest.approx(whole, abs=1e-12)
    assert state.marginal(1) == pytest.approx(whole.sum(axis=(0, 2)))
    assert state.marginal(2, 0) == pytest.approx(whole.sum(axis=1).T)
    assert state.marginal(0, 1, 2) == pytest.approx(whole)
    # What is not known is summed over.
    some = ROWS.copy()
    some[:, 1] = -1
    expected = whole.sum(axis=1)[ROWS[:, 0], ROWS[:, 2]]
    assert np.exp(state.log_density(some)) == pytest.approx(expected, abs=1e-12)
    nothing = np.full((1, 3), -1)
    assert state.log_density(nothing) == pytest.approx(0)
    assert state.responsibilities(nothing)[0] == pytest.approx(state.weights)


def test_conditional_laws_are_exact():
    state = state_of(4)
    whole = joint(state)
    found = state.conditional(1, ROWS)
    expected = whole[ROWS[:, 0], :, ROWS[:, 2]]
    assert found == pytest.approx(expected / expected.sum(axis=1, keepdims=True))
    one = state.conditional(2, np.array([[3, -1, 0]]))
    assert one[0] == pytest.approx(whole[3].sum(axis=0) / whole[3].sum())
    with pytest.raises(ValueError, match="each column once"):
        state.marginal(1, 1)


def fits(rows: np.ndarray, law: np.ndarray) -> bool:
    """Whether independent draws have this law; false alarms: one in 10^7."""
    counts = np.bincount(np.ravel_multi_index(tuple(rows.T), law.shape), minlength=law.size)
    expected, there = len(rows) * law.ravel(), law.ravel() > 0
    if counts[~there].any():
        return False
    statistic = np.sum((counts[there] - expected[there]) ** 2 / expected[there])
    return bool(chi2.sf(statistic, there.sum() - 1) > 1e-7)


def test_draws_have_the_law():
    state, rng = state_of(8), np.random.default_rng(0)
    law = joint(state)
    rows = state.draw(50_000, rng, balanced=False)
    assert fits(rows, law)
    assert not fits(rows, joint(state_of(9)))
    allowed = {0: np.array([True, False, True, False]), 2: np.array([False, True, True])}
    given = law.copy()
    given[[1, 3]] = 0
    given[:, :, 0] = 0
    assert fits(state.draw(50_000, rng, allowed, balanced=False), given / given.sum())
    # In place of other cells, given the class: the classes stay as they are.
    cells = [state.cells(j) for j in range(3)]
    cells[2] = cells[2] * [1, 1, 0]
    cells[2] /= cells[2].sum(axis=1, keepdims=True)
    filled = np.einsum("c,ci,cj,ck->ijk", state.weights, *cells)
    instead = {2: np.array([True, True, False])}
    assert fits(state.draw(50_000, rng, instead=instead, balanced=False), filled)
    with pytest.raises(ValueError, match="no cell of column 1"):
        state.draw(5, rng, {1: np.zeros(3, bool)})
    assert state.draw(0, rng).shape == (0, 3)


def test_balanced_draws_are_nearer_to_the_law():
    state, rng, n = state_of(8), np.random.default_rng(1), 3_000
    for _ in range(3):
        rows = state.draw(n, rng)
        for j in range(3):
            counts = np.bincount(rows[:, j], minlength=state.sizes[j])
            # One more or less for each class and bin.
            assert np.abs(counts - n * state.marginal(j)).max() <= 6
    # Each single row still has the law of the mixture.
    first = np.concatenate([state.draw(3, rng)[:1] for _ in range(2_000)])
    assert fits(first, joint(state))


def test_unknown_values_are_drawn_given_the_rest():
    state, rng = state_of(8), np.random.default_rng(2)
    law = joint(state)
    rows = state.complete(np.tile([2, -1, -1], (50_000, 1)), rng)
    assert (rows[:, 0] == 2).all()
    assert fits(rows[:, 1:], law[2] / law[2].sum())
    # A missing value (cell 2 of column 2) says something about the class, and is then filled.
    instead = {2: np.array([True, True, False])}
    rows = state.complete(np.tile([2, 1, 2], (50_000, 1)), rng, instead)
    shares = state.responsibilities(np.array([[2, 1, 2]]))
    there = state.cells(2) * [1, 1, 0]
    expected = (shares @ (there / there.sum(axis=1, keepdims=True)))[0]
    assert (rows[:, :2] == [2, 1]).all()
    assert fits(rows[:, 2:], expected)
    kept = state.complete(ROWS, rng)
    assert np.array_equal(kept, ROWS)


def test_mixtures_pool():
    first, second = state_of(1), state_of(2, classes=2)
    second = TableState(second.weights, second.profiles, first.law, MAPS)
    both = pooled([first, second])
    assert both.weights.sum() == pytest.approx(1)
    assert joint(both) == pytest.approx((joint(first) + joint(second)) / 2)


def test_certain_mixtures_draw_nothing_impossible():
    law = np.ones(4)
    state = TableState(np.array([1.0, 0.0]), np.eye(4)[[1, 2]], law, ((0, 1, 2, 3),))
    assert (state.draw(1_000, np.random.default_rng(0)) == 1).all()
    assert np.isfinite(state.log_density(np.arange(4)[:, None])).all()
