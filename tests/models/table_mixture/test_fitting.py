"""A mixture from noisy tables: its slopes, what it finds, and that any release will do."""

import inspect
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privem.core import Block, Release, Scratch
from privem.linalg import map_leaves
from privem.models.table_mixture import fitting
from privem.models.table_mixture.bins import Bins
from privem.models.table_mixture.evidence import Evidence
from privem.models.table_mixture.fitting import (
    cells_share,
    classes_for,
    fit_once,
    fit_tables,
    independent,
    pairs_pay,
)
from privem.models.table_mixture.tables import (
    CellCounts,
    CellCountsQuery,
    Tables,
    TablesQuery,
    all_pairs,
)

SIZES = (4, 3, 3, 2, 4)


def records(n: int, seed: int) -> np.ndarray:
    """Of three classes that are easy to tell apart."""
    rng = np.random.default_rng(seed)
    classes = np.random.default_rng(42)
    laws = [classes.dirichlet(np.full(m, 0.4), 3) for m in SIZES]
    z = rng.choice(3, n, p=[0.5, 0.3, 0.2])
    return np.stack([(rng.random((n, 1)) > law[z].cumsum(1)[:, :-1]).sum(1) for law in laws], 1)


def releases(X, spread, seed=0, target=None, ordered=False):
    """Noisy counts and tables. Numpy's noise: not private."""
    rng = np.random.default_rng(seed)
    bins = [Bins(np.arange(m), np.ones(m), ordered * (m - 1)) for m in SIZES]
    maps = tuple(tuple(range(m)) for m in SIZES)
    found = []
    for query in (CellCountsQuery(SIZES), TablesQuery(maps, all_pairs(5, target), target)):
        exact = query(Block(X), Scratch())
        noisy = map_leaves(lambda a: a + spread * rng.normal(size=a.shape), exact)
        found.append(Release(query, noisy, map_leaves(lambda a: np.full(a.shape, spread), exact)))
    return bins, *found


def fitted(bins, cells, tables, count, seed, classes=None, n_starts=None):
    evidence = Evidence.of(bins, cells, tables, count)
    classes = classes or classes_for(count, tables.spread)
    rng = np.random.default_rng(seed)
    return fit_tables(evidence, bins, tables.query.target, classes, rng, n_starts)


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("target", [None, 3])
def test_slopes_are_those_of_the_posterior(target, ordered):
    bins, cells, tables = releases(records(500, 0), 5.0, target=target, ordered=ordered)
    evidence = Evidence.of(bins, cells, tables, 500.0)
    # In double precision.
    wide = {
        name: value.astype(float)
        for name, value in vars(evidence).items()
        if isinstance(value, np.ndarray)
    }
    evidence = replace(evidence, **wide)
    assert len(evidence.roots) == ordered * (len(SIZES) - (target is not None))
    rng = np.random.default_rng(1)
    free = rng.normal(size=(3, len(evidence.centre)))
    logs = rng.normal(size=(3, len(evidence.pairs)))

    def minus_log_posterior(free, logs):
        laws, weights = fitting._probabilities(evidence, evidence.odds(free), logs)
        away = np.einsum("kv,kp,kq->vpq", weights, laws, laws) - evidence.pairs
        total = np.sum(evidence.measured * away**2) / 4
        margin = weights.sum(1) @ laws - evidence.margins
        total += np.sum(evidence.precision * margin**2) / 2
        aim = weights.sum(0) - evidence.target
        total += evidence.target_precision * np.sum(aim**2) / 2
        tight = evidence.relative**2 / evidence.variance(3)
        return total + tight / 2 * np.sum(free**2)

    assert evidence.free(evidence.odds(free)) == pytest.approx(free, abs=1e-5)
    found = fitting._slopes(evidence, free, logs)
    for which, parameter in enumerate((free, logs)):
        for place in [(0, 0), (1, 1 % parameter.shape[1]), (2, parameter.shape[1] - 1)]:
            step = np.zeros_like(parameter)
            step[place] = 1e-5
            ends = [
                (free + s * step, logs) if which == 0 else (free, logs + s * step) for s in (1, -1)
            ]
            slope = (minus_log_posterior(*ends[0]) - minus_log_posterior(*ends[1])) / 2e-5
            assert found[which][place] == pytest.approx(slope, rel=1e-3, abs=1e-8)


@pytest.mark.parametrize("target", [None, 3])
def test_dependence_is_found_and_rivals_the_truth(target):
    X, test = records(20_000, 0), records(5_000, 1)
    bins, cells, tables = releases(X, 30.0, target=target)
    state = fitted(bins, cells, tables, 20_000.0, 0, n_starts=3)
    assert state.weights.sum() == pytest.approx(1)
    single = independent(bins, cells, 20_000.0)
    gain = state.log_density(test).mean() - single.log_density(test).mean()
    assert gain > 0.4
    for i, j in all_pairs(5):
        table = np.zeros((SIZES[i], SIZES[j]))
        np.add.at(table, (X[:, i], X[:, j]), 1 / len(X))
        assert np.abs(table - state.marginal(i, j)).sum() / 2 < 0.02


@pytest.mark.parametrize("rows", [100, 1_000])
def test_much_noise_leaves_no_less_than_independent_columns(rows):
    test = records(5_000, 1)
    for seed in range(3):
        bins, cells, tables = releases(records(rows, seed), rows / 8, seed)
        state = fitted(bins, cells, tables, float(rows), seed)
        single = independent(bins, cells, float(rows))
        assert state.log_density(test).mean() > single.log_density(test).mean()


def test_starts_see_the_same_release_and_nothing_else():
    bins, cells, tables = releases(records(2_000, 0), 20.0)
    # All that a fit is given: no source, no stage, no noise, by which more could be released.
    assert list(inspect.signature(fit_tables).parameters) == [
        "evidence",
        "bins",
        "target",
        "n_components",
        "rng",
        "n_starts",
    ]
    imported = set(vars(fitting))
    assert not imported & {"Stage", "Source", "LocalSource", "Discrete", "run", "Block"}
    first, again = (fitted(bins, cells, tables, 2_000.0, 5, 4, 2) for _ in range(2))
    assert np.array_equal(first.profiles, again.profiles)
    # Each start is the same function of the release: together they are the starts one by one.
    rng, evidence = np.random.default_rng(5), Evidence.of(bins, cells, tables, 2_000.0)
    laws = [fit_once(evidence, 4, rng)[0] for _ in range(2)]
    assert np.array_equal(first.profiles, np.concatenate(laws))
    assert first.weights[:4].sum() == pytest.approx(0.5)


def test_how_many_classes_and_what_share():
    assert classes_for(32_561, 45.0) == 100
    assert classes_for(3_000, 45.0) == 10
    assert classes_for(0.0, 0.0) >= 2
    assert classes_for(10, 1e9) == 2
    shares = [cells_share(n, 45.0) for n in (1, 100, 1_000, 10_000, 1e9)]
    assert shares == sorted(shares, reverse=True)
    assert shares[0] == 0.5
    assert shares[-1] == 0.1
    assert [pairs_pay(n, 45.0) for n in (0, 899, 900, 1e9)] == [False, False, True, True]


def test_one_class_is_independent_columns():
    bins, cells, _ = releases(records(2_000, 0), 1.0)
    state = independent(bins, cells, 2_000.0)
    assert len(state.weights) == 1
    assert state.marginal(0, 1) == pytest.approx(np.outer(state.marginal(0), state.marginal(1)))
    counted = np.bincount(records(2_000, 0)[:, 0]) / 2_000
    assert state.marginal(0) == pytest.approx(counted, abs=0.01)


numbers = st.floats(-1e18, 1e18) | st.sampled_from([0.0, 1e300, -1e300])


@settings(max_examples=25)
@given(
    seed=st.integers(0, 2**32 - 1),
    size=numbers,
    spread=st.sampled_from([0.0, 1e-6, 1.0, 1e6, 1e100]),
    count=st.sampled_from([-5.0, 0.0, 1.0, 1e3, 1e12]),
    target=st.sampled_from([None, 0, 3]),
)
def test_any_release_gives_a_mixture(seed, size, spread, count, target):
    rng = np.random.default_rng(seed)
    bins, cells, tables = releases(records(10, 0), 1.0, target=target)
    cells = Release(
        cells.query,
        CellCounts(size * rng.normal(size=cells.statistics.counts.shape)),
        CellCounts(np.full(cells.statistics.counts.shape, spread)),
    )
    tables = Release(
        tables.query,
        Tables(size * rng.normal(size=tables.statistics.counts.shape)),
        Tables(np.full(tables.statistics.counts.shape, spread)),
    )
    evidence = Evidence.of(bins, cells, tables, count)
    laws, weights = fit_once(evidence, 3, rng, steps=20)
    state = fitting.state_of(bins, target, laws, weights)
    for found in (state, independent(bins, cells, count)):
        assert np.isfinite(found.profiles).all()
        assert (found.profiles >= 0).all()
        assert found.weights.sum() == pytest.approx(1)
        for table in found.tables:
            assert table.sum(axis=1) == pytest.approx(1)
        assert np.isfinite(found.log_density(records(20, 1))).all()
