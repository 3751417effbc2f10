"""Tries to move sums of bounded gradients, means, directions and squares beyond what is charged."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privem.blocks.bounding import Clip, Robust
from privem.blocks.gradient import BoundedGradientQuery, Squares
from privem.blocks.histograms import NormQuery
from privem.blocks.region import Region
from privem.blocks.robust_mean import RobustMeanQuery
from privem.core import Block, Scratch
from privem.linalg import ravel
from privem.models.missing_regression.query import MissingCovariateGradient
from privem.models.symmetric.query import (
    DirectionsQuery,
    SquaresQuery,
    SymmetricGradient,
    SymmetricRegressionGradient,
)

from ..models.test_sensitivity import (
    NEIGHBOURS,
    nasty,
    region_of,
    seeds,
    size,
    vectors,
    wheres,
    worst,
)

MODELS = ("mixture", "regression", "whitened", "missing")
BOUNDINGS = (Clip(1.0), Clip(30.0), Robust(0.5, 1.73), Robust(50.0, 3.0), Robust(2.0, math.inf))


def query_of(model, d, where, bounding, rng, squares=None, cap=1.0):
    beta = rng.normal(size=d) * rng.choice([0.1, 1.0, 10.0])
    variance = float(rng.choice([1e-3, 1.0, 30.0]))
    target = None if model == "mixture" else region_of("box", 1)
    gradient = {
        "mixture": SymmetricGradient(beta, variance),
        "regression": SymmetricRegressionGradient(beta, variance),
        "whitened": SymmetricRegressionGradient(beta, variance, rng.normal(size=(d, d))),
        "missing": MissingCovariateGradient(beta, variance),
    }[model]
    return BoundedGradientQuery(gradient, bounding, region_of(where, d), target, squares, cap)


def records(query, rng):
    """Nasty ones; with every kind of target, and (NaN in them) of missing entries."""
    region = query.region
    X = nasty(region, np.stack([region.centre, region.centre + 0.3 * region.scale]), rng)
    if query.target is None:
        return X
    y = rng.choice([-5.0, 5.0, 0.0, 1e308, -1e308, np.inf, -np.inf, np.nan, 0.7], len(X))
    if isinstance(query.model, MissingCovariateGradient):
        X = np.where(rng.random(X.shape) < 0.4, np.nan, X)
    return np.column_stack([X, y])


@pytest.mark.parametrize("neighbours", NEIGHBOURS)
@pytest.mark.parametrize("model", MODELS)
@settings(max_examples=40)
@given(
    seed=seeds,
    d=st.integers(1, 5),
    where=wheres,
    bounding=st.sampled_from(BOUNDINGS),
    squares=st.sampled_from([None, Squares(0.3, 2.0), Squares(5.0, 100.0)]),
)
def test_gradients(model, neighbours, seed, d, where, bounding, squares):
    rng = np.random.default_rng(seed)
    query = query_of(model, d, where, bounding, rng, squares)
    found = vectors(query, records(query, rng))
    assert np.isfinite(found).all()
    worst(query, found, neighbours)


@pytest.mark.parametrize("neighbours", NEIGHBOURS)
@settings(max_examples=60)
@given(seed=seeds, d=st.integers(1, 5), bounding=st.sampled_from(BOUNDINGS))
def test_means(neighbours, seed, d, bounding):
    rng = np.random.default_rng(seed)
    query = RobustMeanQuery(rng.normal(size=d), rng.uniform(0.1, 3, d), bounding)
    X = nasty(region_of("box", d), np.zeros((1, d)), rng)
    found = vectors(query, np.concatenate([X, X * 1e-3]))
    assert np.isfinite(found).all()
    worst(query, found, neighbours)


@pytest.mark.parametrize("neighbours", NEIGHBOURS)
@settings(max_examples=40)
@given(seed=seeds, d=st.integers(1, 5), where=wheres, regression=st.booleans())
def test_directions_squares_and_norms(neighbours, seed, d, where, regression):
    rng = np.random.default_rng(seed)
    region, target = region_of(where, d), region_of("box", 1) if regression else None
    X = nasty(region, np.zeros((1, d)), rng)
    if regression:
        X = np.column_stack([X, rng.choice([-5.0, 0.0, 1e308, np.nan, 0.3], len(X))])
    whitener = rng.normal(size=(d, d)) if seed % 2 else None
    directions = DirectionsQuery(region, 0.7, whitener, target, 0.5)
    radii = (0.8, 0.6) if regression else (0.8,)
    squares = SquaresQuery(region, radii, target)
    norms = NormQuery((d, 1) if regression else (d,))
    for query in (directions, squares, norms):
        found = vectors(query, X)
        assert np.isfinite(found).all()
        worst(query, found, neighbours)


@pytest.mark.parametrize("neighbours", NEIGHBOURS)
@pytest.mark.parametrize("cap", [1.0, 0.25, 3.0])
@settings(max_examples=15)
@given(seed=seeds, model=st.sampled_from(MODELS), bounding=st.sampled_from(BOUNDINGS))
def test_weights_and_persons(cap, neighbours, seed, model, bounding):
    rng = np.random.default_rng(seed)
    query = query_of(model, 2, "box", bounding, rng, Squares(0.3, 2.0), cap)
    X = records(query, rng)
    weight = rng.choice([0.0, cap, cap / 3, 1e300, np.inf, -1.0, np.nan], len(X))
    persons = []
    for _ in range(10):
        rows = rng.integers(len(X), size=rng.integers(1, 6))
        share = np.clip(np.nan_to_num(weight[rows], posinf=cap), 0, cap) / len(rows)
        persons.append(ravel(query(Block(X[rows], share), Scratch())))
    everything = np.concatenate([vectors(query, X, weight), np.stack(persons), vectors(query, X)])
    worst(query, everything, neighbours, rows=cap + 1)


@pytest.mark.parametrize("neighbours", NEIGHBOURS)
@settings(max_examples=25)
@given(seed=seeds, model=st.sampled_from(MODELS), bounding=st.sampled_from(BOUNDINGS))
def test_whole_data_sets(neighbours, seed, model, bounding):
    """Sums over neighbouring data sets: the record lands anywhere in a block and shifts others."""
    rng = np.random.default_rng(seed)
    d, n = 3, 300
    query = query_of(model, d, "box", bounding, rng, Squares(0.3, 2.0))
    odd = records(query, rng)
    X = rng.normal(size=(n, odd.shape[1]))
    with_one = np.insert(X, int(rng.integers(n)), odd[seed % len(odd)], axis=0)
    other = X
    if neighbours == "replace-one":
        other = np.insert(X, int(rng.integers(n)), odd[(seed // 7) % len(odd)], axis=0)
    moved = ravel(query(Block(with_one), Scratch())) - ravel(query(Block(other), Scratch()))
    (group,) = query.groups(neighbours)
    assert size(moved, "gaussian") <= group.sensitivity + 2 * query.rounding(n + 1)


def test_bounds_are_attained():
    """The attack is a real one: opposite records reach what they cannot pass."""
    d = 3
    region = Region.around_origin(100.0, d)
    corner = np.full(d, 40.0)
    rows = np.stack([corner, -corner])
    for bounding in BOUNDINGS[:3]:
        query = RobustMeanQuery(np.zeros(d), np.ones(d), bounding)
        for neighbours in NEIGHBOURS:
            assert worst(query, vectors(query, rows), neighbours) > 0.99
    # A mixture's gradient: records across the direction of b, far out, on either side.
    beta = np.array([1e-9, 0.0, 0.0])
    query = BoundedGradientQuery(SymmetricGradient(beta, 1e-14), Clip(2.0), region)
    across = np.array([[1e-3, 50.0, 0.0], [1e-3, -50.0, 0.0]])
    assert worst(query, vectors(query, across), "replace-one") > 0.99
    directions = DirectionsQuery(region, 1.0)
    assert worst(directions, vectors(directions, 90 * np.eye(d)), "replace-one") > 0.99
    signed = DirectionsQuery(region, 1.0, None, Region.around_origin(100.0, 1), 1.0)
    both = np.array([[9.0, 0, 0, 99.0], [9.0, 0, 0, 0.0]])
    assert worst(signed, vectors(signed, both), "replace-one") > 0.99


def test_unknown_relations_are_refused():
    query = RobustMeanQuery(np.zeros(1), np.ones(1), Clip(1.0))
    with pytest.raises(ValueError, match="neighbours must be"):
        query.groups("bounded")
    with pytest.raises(ValueError, match="neighbours must be"):
        query_of("mixture", 1, "box", Clip(1.0), np.random.default_rng(0)).groups("bounded")
