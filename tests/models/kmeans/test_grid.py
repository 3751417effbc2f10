"""The noisy grid k-means starts from: its query, and what is done with the counts."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.cluster import KMeans as Peer

from privem.blocks.region import Region
from privem.core import Block, Scratch
from privem.models.kmeans.grid import _CORE, GridQuery, _cut, to_simplex, weighted_kmeans

NEIGHBOURS = {"add-remove": 1.0, "replace-one": np.sqrt(2.0)}
UP = 1 + 2.0**-39


def query_of(d: int, rng: np.random.Generator, ball: bool, cap: float = 1.0) -> GridQuery:
    low = -np.linspace(1, 3, d)
    region = (
        Region.around_origin(2.0, d)
        if ball
        else Region.box(low, low + np.linspace(2, 7.3, d), isotropic=True)
    )
    axes = np.linalg.qr(rng.standard_normal((d, d)))[0] if rng.random() < 0.5 else np.eye(d)
    cut = [np.sort(rng.uniform(-1, 1, rng.integers(2, 7))) for _ in range(min(d, 3))]
    axes = axes[: rng.integers(len(cut), d + 1)]
    middle = region.inside(rng.uniform(-1, 1, (1, d)))[0]
    return GridQuery(region, middle, axes, tuple(cut), cap)


def nasty(query: GridQuery, n: int, rng: np.random.Generator) -> np.ndarray:
    """Records on the edges of cells to the last bit, outside the region, infinite, NaN."""
    along = rng.uniform(-1, 1, (n, len(query.axes)))
    for axis, edges in enumerate(query.edges):
        on = rng.random(n) < 0.5
        along[on, axis] = rng.choice(edges, on.sum())
    X = query.region.to_data(query.middle + along @ query.axes)
    X[:4] = np.array([1e308, -1e308, np.inf, -np.inf])[:, None]
    X[4] = np.nan
    return X


@settings(max_examples=40)
@given(seed=st.integers(0, 2**32), d=st.sampled_from([1, 2, 3, 7, 30]), ball=st.booleans())
def test_every_record_counts_once_wherever_it_stands(seed: int, d: int, ball: bool) -> None:
    rng = np.random.default_rng(seed)
    query = query_of(d, rng, ball)
    X = nasty(query, 150, rng)
    whole = query(Block(X), Scratch()).counts
    assert whole.shape == (query.size,)
    one_by_one = [query(Block(X[i : i + 1]), Scratch()).counts for i in range(len(X))]
    assert all(sorted(c)[-1] == 1.0 == c.sum() for c in one_by_one)
    np.testing.assert_array_equal(np.sum(one_by_one, axis=0), whole)
    scratch = Scratch()
    order = rng.permutation(len(X))
    parts = [query(Block(part), scratch).counts for part in np.array_split(X[order], 4)]
    np.testing.assert_array_equal(np.sum(parts, axis=0), whole)


@settings(max_examples=30)
@given(seed=st.integers(0, 2**32), cap=st.sampled_from([1.0, 0.25, 3.0]))
def test_sensitivity_is_not_exceeded_and_is_reached(seed: int, cap: float) -> None:
    rng = np.random.default_rng(seed)
    query = query_of(2, rng, ball=False, cap=cap)
    X = nasty(query, 60, rng)
    weight = rng.choice([0.0, cap, cap / 3, 1e300, np.inf, -1.0, np.nan], len(X))
    weight[-1] = cap
    one = np.stack(
        [query(Block(X[i : i + 1], weight[i : i + 1]), Scratch()).counts for i in range(len(X))]
    )
    assert np.isfinite(one).all()
    moved = {"add-remove": one, "replace-one": one[:, None] - one[None]}
    for neighbours, bound in NEIGHBOURS.items():
        (group,) = query.groups(neighbours)
        assert (group.where.start, group.where.stop) == (0, query.size)
        assert bound * cap <= group.sensitivity <= bound * cap * UP
        found = np.linalg.norm(moved[neighbours], axis=-1).max()
        assert found <= group.sensitivity + 2 * query.rounding(2 * cap)
    assert np.linalg.norm(one, axis=1).max() == cap


def test_rounding_bounds_the_sum_of_many_weights() -> None:
    rng = np.random.default_rng(0)
    query = query_of(2, rng, ball=False)
    weight = rng.random(query.block_rows)
    X = query.region.to_data(np.zeros((len(weight), 2)))
    counts = query(Block(X, weight), Scratch()).counts
    exact = float(np.sum(weight.astype(np.longdouble)))
    assert abs(counts.max() - exact) <= query.rounding(exact)
    assert query.rounding(exact) < 1e-7


@settings(max_examples=60)
@given(
    low=st.floats(-8, 0), high=st.floats(0.01, 8), s=st.floats(1e-3, 3), width=st.floats(1e-3, 3)
)
def test_cells_reach_from_end_to_end(low: float, high: float, s: float, width: float) -> None:
    width = max(width, 0.02 * s)
    edges = _cut(np.array([low, high]), s, width)
    assert (np.diff(edges) > 0).all()
    assert len(edges) < 2 * _CORE * s / width + 60
    # The ends are met up to half a cell.
    step = np.diff(edges).min()
    assert low <= edges[0] <= low + 0.51 * step or edges[0] == pytest.approx(low)
    assert high >= edges[-1] >= high - 0.51 * step or edges[-1] == pytest.approx(high)


def test_nearest_probabilities() -> None:
    rng = np.random.default_rng(3)
    for size in (1, 2, 50):
        values = rng.standard_normal(size)
        found = to_simplex(values)
        assert found.min() >= 0
        assert found.sum() == pytest.approx(1.0)
        other = rng.dirichlet(np.ones(size), 2000)
        assert (
            np.sum((other - values) ** 2, axis=1) >= np.sum((found - values) ** 2) - 1e-12
        ).all()


def test_weighted_kmeans_is_as_good_as_a_peer() -> None:
    rng = np.random.default_rng(1)
    means = rng.uniform(-1, 1, (12, 2))
    points = np.concatenate([m + 0.05 * rng.standard_normal((80, 2)) for m in means])
    weights = rng.random(len(points))
    centres, cost = weighted_kmeans(points, weights, 12, rng, tries=6)
    peer = Peer(12, n_init=10, random_state=0).fit(points, sample_weight=weights)
    assert cost <= 1.05 * peer.inertia_ / weights.sum()
    away = ((points[:, None] - centres) ** 2).sum(axis=2).min(axis=1)
    assert cost == pytest.approx(weights @ away / weights.sum(), rel=1e-3)


def test_weighted_kmeans_of_few_points() -> None:
    centres, cost = weighted_kmeans(np.zeros((3, 2)), np.ones(3), 5, np.random.default_rng(0), 2)
    assert centres.shape == (5, 2)
    assert cost == 0
