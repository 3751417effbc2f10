"""Counts of cells and tables of pairs: what they are, what one record moves, what is refused."""

import math
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privem.blocks.conditions import Unsound
from privem.core import Block, Scratch, Stage
from privem.data import ArrayRows, LocalSource
from privem.linalg import RunningSum, ravel
from privem.models.table_mixture.tables import CellCountsQuery, TablesQuery, all_pairs
from privem.noise.discrete import Discrete

NEIGHBOURS = ("add-remove", "replace-one")
seeds = st.integers(0, 2**32 - 1)
sizes_of = st.lists(st.integers(1, 6), min_size=3, max_size=5).map(tuple)


def maps_of(sizes: tuple[int, ...], rng: np.random.Generator) -> tuple[tuple[int, ...], ...]:
    """Bins of random cells, all of which are used."""
    maps = []
    for size in sizes:
        count = int(rng.integers(1, size + 1))
        each = np.concatenate([np.arange(count), rng.integers(0, count, size - count)])
        maps.append(tuple(rng.permutation(each).tolist()))
    return tuple(maps)


def queries(sizes: tuple[int, ...], cap: float | None, rng: np.random.Generator) -> list[Any]:
    maps, d = maps_of(sizes, rng), len(sizes)
    some = all_pairs(d)[: int(rng.integers(1, d + 1))]
    return [
        CellCountsQuery(sizes, cap),
        TablesQuery(maps, all_pairs(d), None, cap),
        TablesQuery(maps, some, None, cap),
        TablesQuery(maps, all_pairs(d, d - 1), d - 1, cap),
    ]


def rows_of(sizes: tuple[int, ...], n: int, rng: np.random.Generator) -> np.ndarray:
    """Cells, and what is none: negative, too large, fractions, NaN, infinities."""
    X = np.stack([rng.integers(0, m, n) for m in sizes], axis=1).astype(float)
    odd = rng.choice([-1.0, 0.5, 99.0, 1e300, np.nan, np.inf, -np.inf], X.shape)
    return np.where(rng.random(X.shape) < 0.2, odd, X)


def vector(query: Any, X: np.ndarray, weight: np.ndarray | None = None) -> np.ndarray:
    with np.errstate(all="raise"):
        return ravel(query(Block(X, weight), Scratch()))


@pytest.mark.parametrize("neighbours", NEIGHBOURS)
@settings(max_examples=60)
@given(seed=seeds, sizes=sizes_of)
def test_nobody_moves_a_sum_by_more_than_is_charged(neighbours, seed, sizes):
    rng = np.random.default_rng(seed)
    cap = float(rng.choice([1.0, 0.3, 3.0]))
    X = rows_of(sizes, 12, rng)
    wild = rng.choice([0.0, cap, cap / 3, 1e300, np.inf, -1.0, np.nan], len(X))
    for query in queries(sizes, cap, rng):
        (group,) = query.groups(neighbours)
        one = np.stack([vector(query, X[i : i + 1], wild[i : i + 1]) for i in range(len(X))])
        plain = np.stack([vector(query, X[i : i + 1]) for i in range(len(X))])
        # A person's rows share one weight.
        shares = cap * rng.dirichlet(np.ones(4), 6)
        persons = [vector(query, X[rng.integers(0, len(X), 4)], share) for share in shares]
        found = np.concatenate([one, plain, persons])
        assert found.shape[1] == group.dimension
        assert (found >= 0).all()
        moved = np.linalg.norm(found, axis=1)
        if neighbours == "replace-one":
            moved = np.linalg.norm(found[:, None] - found, axis=2)
        assert moved.max() <= group.sensitivity + 2 * query.rounding(cap + 1)


@pytest.mark.parametrize("neighbours", NEIGHBOURS)
def test_the_bounds_are_attained(neighbours):
    sizes, rng = (2, 3, 4, 2), np.random.default_rng(0)
    maps = tuple(tuple(range(size)) for size in sizes)
    for query in (
        CellCountsQuery(sizes, 2.0),
        TablesQuery(maps, all_pairs(4), None, 2.0),
        TablesQuery(maps, all_pairs(4, 3), 3, 2.0),
    ):
        (group,) = query.groups(neighbours)
        first, second = (vector(query, np.full((1, 4), c), np.full(1, 9.0)) for c in (0, 1))
        moved = np.linalg.norm(first - second if neighbours == "replace-one" else first)
        assert moved == pytest.approx(group.sensitivity, rel=1e-9)
    with pytest.raises(ValueError, match="neighbours"):
        queries(sizes, 1.0, rng)[0].groups("friends")


@settings(max_examples=40)
@given(seed=seeds, sizes=sizes_of)
def test_sums_do_not_depend_on_places_or_blocks(seed, sizes):
    rng = np.random.default_rng(seed)
    cap, n = float(rng.choice([1.0, 0.3, 3.0])), 200
    X, weight = rows_of(sizes, n, rng), rng.uniform(-0.1, 1.2 * cap, n)
    cuts = [0, *sorted(rng.integers(0, n, 3).tolist()), n]
    order = rng.permutation(n)
    for query in queries(sizes, cap, rng):
        whole = vector(query, X, weight)
        assert np.array_equal(whole, vector(query, X[order], weight[order]))
        running: RunningSum[Any] = RunningSum()
        for low, high in pairwise(cuts):
            running.add(query(Block(X[low:high], weight[low:high]), Scratch()))
        assert np.array_equal(whole, ravel(running.value()))
        # Weights lose less than 2^-35 of the cap each, and never gain.
        exact = sum(np.clip(weight, 0, cap))
        tables = len(sizes) if isinstance(query, CellCountsQuery) else len(query.pairs)
        assert exact - n * cap * 2.0**-35 <= whole.sum() / tables <= exact * (1 + 1e-12)


def test_the_rounding_of_a_total_is_bounded():
    rng, n = np.random.default_rng(3), 30_000
    X, weight = rng.integers(0, 3, (n, 3)), rng.uniform(0, 0.7, n)
    query = TablesQuery(((0, 1, 1),) * 3, all_pairs(3), None, 0.7)
    total = LocalSource(ArrayRows(X.astype(float), weight)).total(query, private=True)
    step = 2.0**-36  # the power of two above 0.7 is 1
    exact = np.zeros(query.size, dtype=np.longdouble)
    bins = np.minimum(X, 1)
    for t, (i, j) in enumerate(query.pairs):
        place = 4 * t + 2 * bins[:, i] + bins[:, j]
        np.add.at(exact, place, (np.floor(weight / step) * step).astype(np.longdouble))
    error = float(np.linalg.norm((ravel(total) - exact).astype(float)))
    assert error <= query.rounding(0.7 * n) < 1e-8


def test_counts_are_what_they_say():
    rng, sizes = np.random.default_rng(1), (4, 3, 5, 2)
    X = np.stack([rng.integers(0, m, 500) for m in sizes], axis=1)
    maps = maps_of(sizes, rng)
    counts = vector(CellCountsQuery(sizes), X)
    at = 0
    for j, size in enumerate(sizes):
        assert np.array_equal(counts[at : at + size], np.bincount(X[:, j], minlength=size))
        at += size
    bins = np.stack([np.asarray(each)[X[:, j]] for j, each in enumerate(maps)], axis=1)
    query = TablesQuery(maps, all_pairs(4, 1), 1)
    for (i, j), table in zip(query.pairs, query.split(vector(query, X)), strict=True):
        for a, b, c in product(*map(range, table.shape)):
            assert table[a, b, c] == np.sum((bins[:, [i, j, 1]] == [a, b, c]).all(axis=1))


def test_what_is_no_cell_is_one_by_rule():
    odd = np.array([[-5.0], [np.nan], [-np.inf], [0.9], [2.5], [7.0], [np.inf], [1e300]])
    assert vector(CellCountsQuery((3,), 1.0), odd).tolist() == [4, 0, 4]
    # Any real type of cells will do.
    for kind in (np.int8, np.uint16, np.int64, np.float32):
        assert vector(CellCountsQuery((3,), 1.0), np.array([[2], [1]], kind)).tolist() == [0, 1, 1]
    assert vector(CellCountsQuery((3,), 1.0), np.empty((0, 1))).tolist() == [0, 0, 0]


def test_a_release_has_the_noise_it_says():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 8, (2_000, 12)).astype(float)
    query = TablesQuery(((*range(8),),) * 12, all_pairs(12), None, 1.0)
    source = LocalSource(ArrayRows(X))
    release = source.release(Stage(query, Discrete(3.0, "add-remove", 2_000)))
    away = ravel(release.statistics) - ravel(source.total(query, private=True))
    assert release.spread == pytest.approx(3 * math.sqrt(66), rel=0.01)
    # The mean square of 4,224 normal numbers is within 11% but for once in 10^6 times.
    assert np.mean(away**2) / release.spread**2 == pytest.approx(1, abs=0.12)


MAPS = ((0, 1, 1), (0, 1), (0, 0))


@pytest.mark.parametrize(
    "query",
    [
        CellCountsQuery((3, 2), 1.0),
        CellCountsQuery((3, 0, 2), 1.0),
        CellCountsQuery((3, 2, 2), None),
        CellCountsQuery((3, 2, 2), 1e300),
        CellCountsQuery((3, 2, 2), math.nan),
        CellCountsQuery((2**22, 2, 2), 1.0),
        TablesQuery(MAPS, ((0, 1),), None, None),
        TablesQuery(MAPS, (), None, 1.0),
        TablesQuery(MAPS, ((0, 1), (0, 1)), None, 1.0),
        TablesQuery(MAPS, ((1, 0),), None, 1.0),
        TablesQuery(MAPS, ((1, 1),), None, 1.0),
        TablesQuery(MAPS, ((0, 3),), None, 1.0),
        TablesQuery(MAPS, ((-1, 0),), None, 1.0),
        TablesQuery(MAPS, ((0, 1),), 1, 1.0),
        TablesQuery(MAPS, ((0, 1),), 3, 1.0),
        TablesQuery(((0, 3, 1), (0, 1), (0, 0)), ((0, 1),), None, 1.0),
        TablesQuery(((0, -1, 1), (0, 1), (0, 0)), ((0, 1),), None, 1.0),
        TablesQuery(((), (0, 1), (0, 0)), ((0, 1),), None, 1.0),
        TablesQuery(((*range(3000),),) * 3, ((0, 1),), None, 1.0),
    ],
)
def test_a_forged_question_is_refused(query):
    with pytest.raises(Unsound):
        query.check(3, private=True)


def test_an_honest_question_is_answered():
    for cap in (None, 1.0):
        for query in (
            CellCountsQuery((3, 2, 2), cap),
            TablesQuery(MAPS, all_pairs(3), None, cap),
            TablesQuery(MAPS, ((0, 1),), 2, cap),
        ):
            query.check(3, private=cap is not None)
            largest = query.largest(np.zeros(3), np.ones(3))
            assert (vector(query, np.zeros((1, 3))) <= largest).all()
