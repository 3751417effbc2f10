"""The bounded statistic of a Poisson mixture: what a record moves, and what rounding does."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privem.blocks.region import Region
from privem.blocks.sensitivity import MomentWeights
from privem.core import Block, Scratch
from privem.linalg import ravel
from privem.models.poisson_mixture.model import FLOOR, BoundedPoissonQuery, Poissons

BOTH = ("add-remove", "replace-one")
WEIGHTS = MomentWeights.with_square(2.0, 0.05)


def query_of(seed: int, k: int = 3, d: int = 2, cap: float = 1.0) -> BoundedPoissonQuery:
    rng = np.random.default_rng(seed)
    rates = np.maximum(rng.gamma(0.5, 10.0, (k, d)), FLOOR)
    rates[0, 0] = FLOOR
    region = Region.box(np.zeros(d), rng.uniform(1, 80, d))
    state = Poissons(rng.dirichlet(np.ones(k)), rates)
    return BoundedPoissonQuery(state, region, WEIGHTS, cap)


def one_by_one(query: BoundedPoissonQuery, X: np.ndarray, weight: np.ndarray) -> np.ndarray:
    rows = range(len(X))
    return np.stack([ravel(query(Block(X[i : i + 1], weight[i : i + 1]), Scratch())) for i in rows])


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(BOTH), st.sampled_from([0.3, 1.0, 4.0]))
def test_no_record_moves_the_sum_by_more_than_is_charged(seed, neighbours, cap):
    query, rng = query_of(seed, cap=cap), np.random.default_rng(seed)
    high = query.region.sides[1]
    odd = [[0, 0], high, [0, high[1]], 3 * high, -high, [np.nan, 1], [np.inf, -np.inf], [1e300, 0]]
    X = np.concatenate([odd, query.state.rates, rng.uniform(0, high, (8, 2))])
    weight = rng.choice([0.0, 0.5, 1.0, 99.0, np.nan, -1.0], len(X))
    moved = one_by_one(query, X, weight)
    apart = moved[:, None] - moved[None]
    limit = query.groups(neighbours)[0].sensitivity + 2 * query.rounding(cap)
    assert np.linalg.norm(moved, axis=-1).max() <= limit
    if neighbours == "replace-one":
        assert np.linalg.norm(apart, axis=-1).max() <= limit


@pytest.mark.parametrize("neighbours", BOTH)
def test_the_bound_is_attained(neighbours):
    """Records at the edge of the ball, of two components that have no doubt about theirs."""
    state = Poissons(np.full(2, 0.5), np.array([[20.0, 80.0], [80.0, 20.0]]))
    region = Region.box(np.zeros(2), np.full(2, 100.0))
    query = BoundedPoissonQuery(state, region, WEIGHTS)
    one, other = one_by_one(query, np.array([[0.0, 100.0], [100.0, 0.0]]), np.ones(2))
    moved = one if neighbours == "add-remove" else one - other
    share = np.linalg.norm(moved) / query.groups(neighbours)[0].sensitivity
    assert 0.99 < share <= 1


@pytest.mark.parametrize("seed", range(6))
def test_rounding_stays_below_its_bound(seed):
    """Against the same sums in long doubles, which are exact enough to see double's errors."""
    query = query_of(seed, k=4, d=5)
    s, w, rng = query.state, query.weights, np.random.default_rng(seed)
    X = rng.integers(0, 60, (2000, 5)).astype(float)
    found = ravel(query(Block(X), Scratch())).astype(np.longdouble)
    x = query.region.to_data(query.region.to_unit(X, Scratch())).astype(np.longdouble)
    rates = s.rates.astype(np.longdouble)
    joint = np.log(rates) @ x.T + (np.log(s.weights) - rates.sum(axis=1))[:, None]
    share = np.exp(joint - joint.max(axis=0))
    share /= share.sum(axis=0)
    v = (x - rates[:, None]) / np.sqrt(np.maximum(rates, 0.25))[:, None]
    length = np.sqrt((v**2).sum(axis=-1))
    v /= np.maximum(length / w.radius, 1)[..., None]
    total = w.w1 * np.einsum("kb,kbd->kd", share, v)
    square = w.w2 * np.einsum("kb,kb->k", share, np.minimum(length, w.radius) ** 2)
    exact = np.concatenate([w.w0 * share.sum(axis=1), total.ravel(), square])
    error = float(np.linalg.norm(found - exact))
    assert 0 < error <= query.rounding(len(X)) < 1e-6
