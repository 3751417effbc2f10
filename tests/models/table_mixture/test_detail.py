"""Draws within bins: no staircases, and nothing else changes."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privem import TableMixture
from privem.models.table_mixture.detail import Detail, smooth_ratio
from privem.models.table_mixture.model import TableState


def line(bins=8, cells=6, missing=False):
    """Two columns with equal bins of equal cells; a class for each bin, and one of gaps."""
    each = np.repeat(np.arange(bins), cells)
    law = np.full(bins * cells, 1 / cells)
    profiles = np.eye(bins)
    weights = np.full(bins, 1 / bins)
    if missing:
        each, law = np.append(each, bins), np.append(law, 1.0)
        profiles, weights = np.eye(bins + 1), np.append(0.9 * weights, 0.1)
        profiles[-1] = 1 / (bins + 1)
    maps = tuple(int(bin) for bin in each)
    both = np.concatenate([profiles, profiles], axis=1)
    return TableState(weights, both, np.concatenate([law, law]), (maps, maps))


def within(rows, state):
    """The correlation of places within bins, of rows in the same bin of both columns."""
    maps = np.array(state.maps[0])
    bins = maps[rows]
    first = np.searchsorted(maps, np.arange(maps.max() + 1))
    places = rows - first[bins]
    same = (bins[:, 0] == bins[:, 1]) & (bins[:, 0] < 8)
    return np.corrcoef(places[same].T)[0, 1]


@pytest.mark.parametrize("missing", [False, True])
def test_rows_exchange_cells_within_their_bins(missing):
    state, rng = line(missing=missing), np.random.default_rng(0)
    rows = state.draw(20_000, rng)
    before = rows.copy()
    assert abs(within(rows, state)) < 0.05
    detail = Detail(state, {0: 48, 1: 48})
    detail.arrange(rows, rng)
    assert within(rows, state) > 0.5
    maps = np.array(state.maps[0])
    assert (maps[rows] == maps[before]).all()
    for j in range(2):
        assert (np.sort(rows[:, j]) == np.sort(before[:, j])).all()


@pytest.mark.parametrize("missing", [False, True])
def test_what_is_known_says_where_within_a_bin(missing):
    state, rng = line(missing=missing), np.random.default_rng(0)
    known = rng.integers(0, 48, 20_000)
    rows = np.stack([known, np.full(20_000, -1)], axis=1)
    plain = state.complete(rows, rng)
    filled = state.complete(rows, rng, detail=Detail(state, {0: 48, 1: 48}))
    assert (filled[:, 0] == known).all()
    assert abs(within(plain, state)) < 0.05
    assert within(filled, state) > 0.5


def test_independent_columns_are_left_alone():
    maps = tuple(int(bin) for bin in np.repeat(np.arange(4), 5))
    state = TableState(np.ones(1), np.full((1, 8), 0.25), np.full(40, 0.2), (maps, maps))
    assert not Detail(state, {0: 20, 1: 20}).edges
    assert not Detail(line(), {0: 48}).edges


def test_the_smooth_law_has_the_given_margins():
    """Probabilities of cells exactly, of pairs of bins nearly; also with atoms and gaps in bins."""
    rng = np.random.default_rng(0)
    first, second = np.array([0, 0, 1, 0, 2, 2, 2, 3]), np.repeat(np.arange(5), 4)
    joint = rng.dirichlet(np.full(20, 0.7)).reshape(4, 5)
    laws = []
    for axis, bins in enumerate((first, second)):
        inside = rng.random(len(bins))
        inside /= np.bincount(bins, inside)[bins]
        laws.append(joint.sum(axis=1 - axis)[bins] * inside)
    found = smooth_ratio(joint, first, second, *laws) * np.outer(*laws)
    np.testing.assert_allclose(found.sum(axis=0), laws[1], rtol=1e-5)
    np.testing.assert_allclose(found.sum(axis=1), laws[0], rtol=0.02)
    bins = np.eye(4)[first].T @ found @ np.eye(5)[second]
    assert np.abs(bins - joint).sum() < 0.02


def test_trees_of_columns_are_drawn_exactly():
    """Three columns in a line: the first and the last agree through the one between."""
    state = line()
    three = TableState(
        state.weights,
        np.concatenate([state.tables[0]] * 3, axis=1),
        np.tile(state.law[:48], 3),
        (state.maps[0],) * 3,
    )
    rng = np.random.default_rng(0)
    detail = Detail(three, dict.fromkeys(range(3), 48))
    assert len(detail.edges) == 2
    rows = three.draw(40_000, rng, detail=detail)
    places = [(0, 1), (0, 2), (1, 2)]
    found = {pair: within(rows[:, list(pair)], three) for pair in places}
    joined = {(min(e.above, e.below), max(e.above, e.below)) for e in detail.edges}
    strong = [found.pop(pair) for pair in joined]
    assert min(strong) > 0.5
    (through,) = found.values()
    np.testing.assert_allclose(through, strong[0] * strong[1], atol=0.1)


def test_synthetic_rows_follow_a_line():
    """Of a private fit: residuals, 0.38 in the median if places within bins are independent."""
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 10, 20_000)
    frame = pl.DataFrame({"x": x, "y": 3 * x + rng.normal(0, 0.05, 20_000)})
    schema = {"x": (0.0, 10.0), "y": (-1.0, 31.0)}
    model = TableMixture(schema=schema, epsilon=2.0, random_state=0).fit(frame)
    drawn = model.sample_frame(20_000)
    away = np.abs(drawn["y"].to_numpy() - 3 * drawn["x"].to_numpy())
    assert np.median(away) < 0.32
    filled = model.impute(frame.with_columns(y=pl.lit(None, dtype=pl.Float64)))
    away = np.abs(filled["y"].to_numpy() - 3 * x)
    assert np.median(away) < 0.34


@settings(max_examples=40)
@given(seed=st.integers(0, 2**32 - 1), rows=st.sampled_from([1, 7, 300]), sharp=st.floats(0.01, 5))
def test_whatever_the_model_is_bins_and_values_stay(seed, rows, sharp):
    """Atoms, bins on both sides of an atom, gaps, empty bins, cells without probability."""
    rng = np.random.default_rng(seed)
    maps, laws, tables, present = [], [], [], {}
    for j in range(3):
        cells, bins = int(rng.integers(3, 12)), int(rng.integers(2, 4))
        bin_of = np.concatenate([np.arange(bins), rng.integers(0, bins, cells)])
        bin_of = rng.permutation(bin_of)
        present[j] = len(bin_of)
        inside = rng.random(len(bin_of)) * (rng.random(len(bin_of)) < 0.8) + 1e-12
        if rng.random() < 0.5:
            bin_of, inside = np.append(bin_of, bins), np.append(inside, 1.0)
        maps.append(tuple(bin_of.tolist()))
        laws.append(inside / np.bincount(bin_of, inside)[bin_of])
        tables.append(rng.dirichlet(np.full(bin_of.max() + 1, sharp), 4))
    state = TableState(
        rng.dirichlet(np.ones(4)),
        np.concatenate(tables, axis=1),
        np.concatenate(laws),
        tuple(maps),
    )
    drawn = state.draw(rows, rng)
    after = drawn.copy()
    detail = Detail(state, present)
    detail.arrange(after, rng)
    wanted = rng.random(drawn.shape) < 0.5
    filled = drawn.copy()
    detail.complete(filled, wanted, rng)
    for j, each in enumerate(np.array(m) for m in maps):
        assert (each[after[:, j]] == each[drawn[:, j]]).all()
        assert (np.sort(after[:, j]) == np.sort(drawn[:, j])).all()
        assert (each[filled[:, j]] == each[drawn[:, j]]).all()
        assert (filled[~wanted[:, j], j] == drawn[~wanted[:, j], j]).all()
