"""Profiles: each record is spread over two points of a public grid."""

import math
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privem.blocks.conditions import Unsound
from privem.blocks.profile import (
    PIECES,
    ColumnsQuery,
    Profile,
    ProfileQuery,
    _grid,
    add_hats,
    believed,
    hats,
    read_columns,
)
from privem.blocks.region import Region
from privem.core import Block, Scratch
from privem.linalg import Array
from privem.models.gaussian_mixture.frame import RadialQuery
from privem.models.gaussian_mixture.model import Mixture

NEIGHBOURS = {"add-remove": 1.0, "replace-one": math.sqrt(2.0)}


@dataclass(frozen=True)
class FirstColumn(ProfileQuery):
    """The first column, which may be off by so much."""

    grid: Array
    off: float = 0.0
    cap_weight: float = 1.0

    @property
    def block_rows(self) -> int:
        return 4088

    def values(self, block: Block, scratch: Scratch) -> Array:
        return np.asarray(block.X[:, 0] + self.off)

    @property
    def value_error(self) -> float:
        return abs(self.off)


def grid_of(rng: np.random.Generator) -> Array:
    steps = rng.choice([1e-12, 1e-3, 1.0, 1e9], rng.integers(1, 9)) * rng.uniform(0.5, 2)
    points = np.concatenate([[0.0], np.cumsum(steps)]) + rng.choice([0.0, -3.0, 1e6])
    return np.unique([*points, points[-1] + 1.0])


def values_of(grid: Array, n: int, rng: np.random.Generator) -> Array:
    """On the points to the last bit, beside them, between and beyond them, infinite, NaN."""
    v = rng.uniform(grid[0] - 1, grid[-1] + 1, n)
    on = rng.random(n) < 0.5
    v[on] = np.nextafter(rng.choice(grid, on.sum()), rng.choice([-1e300, 0.0, 1e300], on.sum()))
    v[:4] = grid[0], np.nan, np.inf, -np.inf
    return v


@settings(max_examples=60)
@given(seed=st.integers(0, 2**32), cap=st.sampled_from([1.0, 0.25, 3.0]))
def test_sensitivity_is_not_exceeded_and_is_reached(seed: int, cap: float) -> None:
    rng = np.random.default_rng(seed)
    query = FirstColumn(grid_of(rng), cap_weight=cap)
    v = values_of(query.grid, 60, rng)
    weight = rng.choice([0.0, cap, cap / 3, 1e300, np.inf, -1.0, np.nan], len(v))
    weight[0] = cap
    one = np.stack(
        [query(Block(v[i, None, None], weight[i, None]), Scratch()).counts for i in range(60)]
    )
    assert (one >= 0).all()
    moved = {"add-remove": one, "replace-one": one[:, None] - one[None]}
    for neighbours, bound in NEIGHBOURS.items():
        (group,) = query.groups(neighbours)
        assert (group.where.start, group.where.stop) == (0, query.size)
        assert bound * cap <= group.sensitivity <= bound * cap * (1 + 2.0**-39)
        found = np.linalg.norm(moved[neighbours], axis=-1).max()
        assert found <= group.sensitivity + 2 * query.rounding(2 * cap)
    assert np.linalg.norm(one, axis=1).max() == pytest.approx(cap)


@settings(max_examples=60)
@given(seed=st.integers(0, 2**32))
def test_piecewise_linear_sums_are_exact(seed: int) -> None:
    rng = np.random.default_rng(seed)
    grid = np.concatenate([[0.0], np.cumsum(rng.uniform(0.1, 3.0, 7))])
    v = values_of(grid, 300, rng)
    weight = rng.random(300)
    profile = Profile(add_hats(v, grid, weight))
    clamped = np.clip(np.where(np.isnan(v), grid[0], v), grid[0], grid[-1])
    for function in (np.ones(8), grid, np.minimum(grid, grid[3]), rng.normal(size=8)):
        wanted = weight @ np.interp(clamped, grid, function)
        assert profile.total(function) == pytest.approx(wanted, abs=1e-9)


@settings(max_examples=60)
@given(seed=st.integers(0, 2**32), size=st.floats(-14, 1))
def test_a_value_that_is_off_moves_the_sum_within_the_rounding(seed: int, size: float) -> None:
    rng = np.random.default_rng(seed)
    grid = grid_of(rng)
    v, weight = values_of(grid, 200, rng)[:, None], rng.random(200)
    exact = FirstColumn(grid)(Block(v, weight), Scratch()).counts
    query = FirstColumn(grid, off=rng.choice([-1, 1]) * 10.0**size)
    off = query(Block(v, weight), Scratch()).counts
    # Adding the offset rounds too, by a unit in the last place of the largest point.
    last = 2.0**-52 * np.abs(grid).max() / np.diff(grid).min()
    assert np.linalg.norm(off - exact) <= query.rounding(weight.sum()) + 2 * weight.sum() * last


def test_rounding_bounds_the_sum_of_many_weights() -> None:
    rng = np.random.default_rng(0)
    query = FirstColumn(np.array([0.0, 0.3, 1.0]))
    v, weight = rng.random(query.block_rows), rng.random(query.block_rows)
    found = query(Block(v[:, None], weight), Scratch()).counts
    (low, middle, high), long = query.grid.astype(np.longdouble), v.astype(np.longdouble)
    first = np.maximum(0, (middle - long) / (middle - low))
    last = np.maximum(0, (long - middle) / (high - middle))
    hats = np.stack([first, 1 - first - last, last])
    exact = hats @ weight.astype(np.longdouble)
    assert np.linalg.norm((found - exact).astype(float)) <= query.rounding(float(weight.sum()))
    assert query.rounding(1e6) < 1e-3


@pytest.mark.parametrize(
    "grid", [[0.0], [[0.0, 1.0]], [0.0, 0.0], [1.0, 0.0], [0.0, math.inf], [0.0, 2.0**-101]]
)
def test_grids_that_are_none_are_refused(grid: list[float]) -> None:
    with pytest.raises(Unsound), np.errstate(invalid="ignore"):
        FirstColumn(np.array(grid)).check_profile()


@settings(max_examples=60)
@given(
    seed=st.integers(0, 2**32),
    d=st.sampled_from([1, 2, 3, 7, 30]),
    ball=st.booleans(),
    kind=st.sampled_from(["full", "diag"]),
    narrow=st.floats(0, 6),
)
def test_lengths_are_off_by_no_more_than_they_say(
    seed: int, d: int, ball: bool, kind: str, narrow: float
) -> None:
    """In blocks, alone and in another order, against numbers of 64 bits."""
    rng = np.random.default_rng(seed)
    low, high = -np.ones(d), np.arange(1.0, d + 1)
    region = Region.around_origin(2.0, d) if ball else Region.box(low, high)
    a, full = rng.normal(size=(d, d)) / 10**narrow, kind == "full"
    covariance = (
        a @ a.T + 1e-14 * np.eye(d) if kind == "full" else (rng.random(d) + 1e-9) * a[0] ** 2
    )
    mean = region.inside(rng.uniform(-1, 1, (1, d)))
    mixture = Mixture(kind, np.ones(1), mean, covariance[None])
    query = RadialQuery.all_of(mixture, region, 1.0)
    query.check(d, True)
    X = rng.normal(size=(157, d)) * 3
    X[:4] = np.array([1e308, np.nan, np.inf, -np.inf])[:, None]
    X[4:90] = region.to_data(
        mean + (X[4:90] @ a.T if kind == "full" else X[4:90] * np.sqrt(covariance))
    )
    order = rng.permutation(len(X))
    with np.errstate(all="ignore"):
        found = [query.values(Block(X), Scratch()).copy()]
        found.append(np.array([query.values(Block(x[None]), Scratch())[0] for x in X]))
        found.append(np.empty(len(X)))
        found[2][order] = query.values(Block(np.asfortranarray(X[order])), Scratch())
        y = region.to_unit(X, Scratch()).copy()
    w = query.mixture.whiteners[0].astype(np.longdouble)
    z = y.astype(np.longdouble) - mean.astype(np.longdouble)
    z = z @ w.T if full else z * w
    v = np.sum(z * z, axis=1) / d
    assert v.max() <= query.grid[-1] or query.size == 60
    inside = v <= query.grid[-1]
    piece = np.clip(np.searchsorted(query.grid, v.astype(float)) - 1, 0, query.size - 2)
    for values in found:
        assert (np.abs(values - v) <= query.value_error[piece] + 1e-18 * v)[inside].all()
    # And what is released by no more than that.
    one, two = (add_hats(values, query.grid, None) for values in found[1:])
    assert np.linalg.norm(one - two) <= 2 * query.rounding(len(X))
    with pytest.raises(Unsound):
        query.check(d + 1, True)


def test_lengths_without_a_bound_have_the_trivial_one() -> None:
    region = Region.box(-np.ones(2), np.ones(2))
    mixture = Mixture("diag", np.ones(1), np.zeros((1, 2)), np.full((1, 2), 1e-40))
    query = RadialQuery(mixture, region, np.array([0.0, 1.0, 4.0]))
    assert query.rounding(10.0) == pytest.approx(10 * math.sqrt(2))
    with pytest.raises(Unsound):
        RadialQuery(mixture, region, np.array([-1.0, 4.0])).check(2, True)


def region_of(d: int, ball: bool) -> Region:
    if ball:
        return Region.around_origin(2.0, d)
    return Region.box(-np.linspace(1, 3, d), np.linspace(2, 7, d), isotropic=d % 2 == 0)


@settings(max_examples=40)
@given(
    seed=st.integers(0, 2**32),
    d=st.sampled_from([1, 2, 3, 7]),
    ball=st.booleans(),
    cap=st.sampled_from([1.0, 0.25, 3.0]),
)
def test_columns_move_by_no_more_than_they_say(seed: int, d: int, ball: bool, cap: float) -> None:
    rng = np.random.default_rng(seed)
    query = ColumnsQuery(region_of(d, ball), cap)
    query.check(d, True)
    X = rng.normal(size=(40, d)) * 4
    X[:5] = np.array([1e308, np.nan, np.inf, -np.inf, 0.0])[:, None]
    weight = rng.choice([0.0, cap, cap / 3, 1e300, np.inf, -1.0, np.nan], len(X))
    weight[:4] = cap
    one = [query(Block(X[i : i + 1], weight[i : i + 1]), Scratch()).counts for i in range(40)]
    alone = np.stack(one).reshape(40, -1)
    assert (alone >= 0).all()
    moved = {"add-remove": alone, "replace-one": alone[:, None] - alone[None]}
    for neighbours, bound in NEIGHBOURS.items():
        (group,) = query.groups(neighbours)
        wanted = bound * math.sqrt(d) * cap
        assert (group.where.start, group.where.stop) == (0, query.size)
        assert wanted <= group.sensitivity <= wanted * (1 + 2.0**-39)
        found = np.linalg.norm(moved[neighbours], axis=-1).max()
        assert found <= group.sensitivity + 2 * query.rounding(2 * cap)
        if not ball:
            assert found == pytest.approx(wanted)
    order = rng.permutation(40)
    whole = query(Block(np.asfortranarray(X[order]), weight[order]), Scratch()).counts.ravel()
    total = np.nansum(np.minimum(np.fmax(weight, 0.0), cap))
    assert np.linalg.norm(whole - alone.sum(axis=0)) <= 2 * query.rounding(total)
    with pytest.raises(Unsound):
        query.check(d + 1, True)


def test_a_column_without_width_is_in_one_place() -> None:
    region = Region(np.zeros(2), np.ones(2), np.array([1.0, 0.0]))
    counts = ColumnsQuery(region)(Block(np.array([[0.5, 3.0], [-1.0, -3.0]])), Scratch()).counts
    assert counts[1, PIECES // 2] == 2.0


def test_without_noise_the_right_one_is_believed() -> None:
    grid = np.linspace(0.0, 4.0, 9)
    family = hats(np.minimum(grid, np.arange(1.0, 5.0)[:, None]), grid)
    found = believed(1000 * family, family, 1.0, 1000.0, 0.0)
    np.testing.assert_array_equal(found.argmax(axis=1), np.arange(4))
    # And with nothing but noise all are much alike.
    assert np.ptp(believed(np.zeros(9), family, 1e9, 1000.0, 0.0)) < 1e-3


def noisy_columns(y: np.ndarray, deviation: float, rng: np.random.Generator) -> np.ndarray:
    counts = np.stack([add_hats(v, _grid(), None) for v in y.T])
    return counts + deviation * rng.normal(size=counts.shape)


def test_columns_are_found_in_wide_bounds() -> None:
    rng = np.random.default_rng(1)
    y = np.array([0.0, -0.8, 0.3]) + np.array([0.02, 0.05, 0.2]) * rng.normal(size=(2000, 3))
    bulk = read_columns(noisy_columns(y, 20.0, rng), 20.0, 2000.0, 10.0)
    sd = y.std(axis=0)
    assert (np.abs(bulk.mean - y.mean(axis=0)) < 0.3 * sd).all()
    assert (np.abs(np.log(bulk.variance / sd**2)) < 0.5).all()
    # Outliers do not move them.
    y[:100] = 1.0
    far = read_columns(noisy_columns(y, 20.0, rng), 20.0, 2000.0, 10.0)
    assert (np.abs(far.mean - bulk.mean) < 0.3 * sd).all()
    assert (np.abs(np.log(far.variance / sd**2)) < 0.7).all()


def test_without_evidence_columns_fill_their_bounds() -> None:
    counts = np.zeros((5, PIECES + 1))
    bulk = read_columns(counts, 1e6, 100.0, 50.0)
    assert np.abs(bulk.mean).max() < 1e-6
    assert (bulk.variance + bulk.mean_doubt > 0.2).all()
    assert (bulk.variance + bulk.mean_doubt < 0.6).all()
    wide = read_columns(np.zeros((600, PIECES + 1)), 1e6, 100.0, 50.0)
    np.testing.assert_allclose(wide.variance, wide.variance[0])
