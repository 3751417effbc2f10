"""Tries to move the sums of classes, regressions and missing covariates beyond what is charged."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privem.blocks.log_density import ContestQuery
from privem.blocks.region import Region
from privem.blocks.sensitivity import MomentWeights
from privem.blocks.shrinkage import clip_radius
from privem.core import Block, Scratch
from privem.linalg import ravel
from privem.models.categorical_mixture.model import Classes, ClassLogDensity, ClassQuery
from privem.models.categorical_mixture.pairs import PairsQuery
from privem.models.missing_regression.query import ObservedMomentsQuery, ScalesQuery
from privem.models.regression_mixture.directions import ResidualDirections
from privem.models.regression_mixture.model import (
    _CAP,
    Bounded,
    RegressionMixtureModel,
    RegressionQuery,
    Regressions,
)

from .test_sensitivity import NEIGHBOURS, nasty, region_of, seeds, vectors, worst

LONG = np.longdouble


def classes_of(sizes, k, rng, sharp=1.0):
    tables = [rng.dirichlet(np.full(m, sharp), size=k) + 1e-10 for m in sizes]
    profiles = np.concatenate([t / t.sum(axis=1, keepdims=True) for t in tables], axis=1)
    return Classes(rng.dirichlet(np.ones(k)) + 1e-12, profiles)


def codes_of(sizes, n, rng):
    """Codes, and what is none: negative, too large, fractions, NaN, infinity."""
    X = np.stack([rng.integers(0, m, n) for m in sizes], axis=1).astype(float)
    odd = rng.choice([-1.0, 0.5, 99.0, np.nan, np.inf], X.shape)
    return np.where(rng.random(X.shape) < 0.2, odd, X)


def regressions_of(region, k, rng, narrow):
    d = region.d - 1
    return Regressions(
        rng.dirichlet(np.ones(k)) + 1e-9,
        rng.normal(size=(k, d + 1)) * rng.choice([0.1, 1.0, 5.0]),
        rng.uniform(0.1, 1.0, k) * narrow,
        np.tril(rng.normal(size=(d, d))) + 2 * np.eye(d),
        rng.uniform(-0.5, 0.5, d),
    )


shapes = st.sampled_from([(1, 1), (1, 3), (2, 2), (3, 1), (4, 3)])
sizes_of = st.lists(st.integers(1, 5), min_size=1, max_size=5).map(tuple)


@pytest.mark.parametrize("neighbours", NEIGHBOURS)
@settings(max_examples=60)
@given(seed=seeds, sizes=sizes_of, k=st.integers(1, 4), sharp=st.sampled_from([1.0, 0.01]))
def test_classes(neighbours, seed, sizes, k, sharp):
    rng = np.random.default_rng(seed)
    cap = float(rng.choice([1.0, 0.25, 3.0]))
    X = codes_of(sizes, 25, rng)
    weight = rng.choice([0.0, cap, cap / 3, 1e300, np.inf, -1.0, np.nan], len(X))
    classes, one = classes_of(sizes, k, rng, sharp), classes_of(sizes, 1, rng, sharp)
    both = (ClassLogDensity(state, sizes) for state in (classes, one))
    contest = ContestQuery(*both, float(rng.choice([0.1, 1.0, 30.0])), cap)
    for query in (ClassQuery(classes, sizes, cap), PairsQuery(sizes, cap), contest):
        found = np.concatenate([vectors(query, X, weight), vectors(query, X)])
        assert np.isfinite(found).all()
        worst(query, found, neighbours, rows=cap + 1)


def test_the_bounds_of_classes_are_attained():
    sizes = (2, 2, 2)
    sure = np.repeat([[1 - 1e-12, 1e-12], [1e-12, 1 - 1e-12]], 3, axis=0).reshape(2, 6)
    query = ClassQuery(Classes(np.full(2, 0.5), sure), sizes, 1.0)
    X = np.array([[0.0, 0, 0], [1, 1, 1]])
    for neighbours in NEIGHBOURS:
        assert worst(query, vectors(query, X), neighbours) > 0.999
        assert worst(PairsQuery(sizes, 1.0), vectors(PairsQuery(sizes, 1.0), X), neighbours) > 0.999
        sides = (ClassLogDensity(Classes(np.ones(1), part[None]), sizes) for part in sure)
        contest = ContestQuery(*sides, 5.0)
        assert worst(contest, vectors(contest, X), neighbours) > 0.999


@settings(max_examples=25)
@given(seed=seeds, sizes=sizes_of, k=st.integers(1, 4))
def test_the_rounding_of_classes(seed, sizes, k):
    rng = np.random.default_rng(seed)
    state = classes_of(sizes, k, rng, 0.05)
    query, X = ClassQuery(state, sizes, 1.0), codes_of(sizes, 300, rng)
    e = np.concatenate([X[:, [j]] == np.arange(m) for j, m in enumerate(sizes)], axis=1)
    weights, profiles = (part.astype(LONG) for part in query.logs)
    joint = e.astype(LONG) @ profiles.T + weights
    share = np.exp(np.maximum(joint - joint.max(axis=1, keepdims=True), -600))
    share /= share.sum(axis=1, keepdims=True)
    exact = np.concatenate([share.sum(axis=0), (share.T @ e.astype(LONG)).ravel()])
    found = ravel(query(Block(X), Scratch()))
    error = float(np.linalg.norm((found - exact).astype(float)))
    assert error <= query.rounding(len(X)) < 1e-6
    # One of two states that differ only in their order gains nothing but roundings.
    turned = Classes(state.weights[::-1], state.profiles[::-1])
    contest = ContestQuery(*(ClassLogDensity(s, sizes) for s in (state, turned)), 0.5)
    assert abs(float(contest(Block(X), Scratch()).total[0])) <= contest.rounding(len(X)) < 1e-4


@pytest.mark.parametrize("neighbours", NEIGHBOURS)
@settings(max_examples=60)
@given(
    seed=seeds,
    shape=shapes,
    where=st.sampled_from(["box", "isotropic"]),
    narrow=st.sampled_from([1.0, 1e-2, 1e-5]),
)
def test_regressions(neighbours, seed, shape, where, narrow):
    rng = np.random.default_rng(seed)
    d, k = shape
    region = region_of(where, d + 1)
    state = regressions_of(region, k, rng, narrow)
    w = MomentWeights.balanced(d + 1, clip_radius(d + 1))
    if seed % 3 == 0:
        w = MomentWeights(*rng.uniform(0, 2, 3) / w.radius ** np.arange(3), w.radius)
    cap = float(rng.choice([1.0, 0.25, 3.0]))
    X = nasty(region, rng.uniform(-1, 1, (2, d + 1)), rng)
    weight = rng.choice([0.0, cap, cap / 3, 1e300, np.inf, -1.0, np.nan], len(X))
    one = Regressions(
        np.ones(1), state.coefficients[:1], state.variances[:1], state.whitener, state.centre
    )
    queries = [
        RegressionQuery(state, Bounded(region, w, cap)),
        ResidualDirections(one, region, cap),
    ]
    for query in queries:
        found = np.concatenate([vectors(query, X, weight), vectors(query, X)])
        assert np.isfinite(found).all()
        worst(query, found, neighbours, rows=cap + 1)


def test_the_bounds_of_regressions_are_attained():
    region = Region.box(-np.ones(2), np.ones(2))
    r = clip_radius(2)
    far = Regressions(
        np.full(2, 0.5),
        np.array([[1.0, 0.0], [-1.0, 0.0]]),
        np.full(2, 1e-3),
        10 * np.eye(1),
        np.zeros(1),
    )
    query = RegressionQuery(far, Bounded(region, MomentWeights(1.0, 1 / r, 1 / r**2, r)))
    X = np.array([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0]])
    assert worst(query, vectors(query, X), "add-remove") > 0.99
    assert worst(query, vectors(query, X), "replace-one") > 0.99


@settings(max_examples=40)
@given(seed=seeds, shape=shapes, narrow=st.sampled_from([1.0, 1e-2, 1e-4]))
def test_the_rounding_of_regressions(seed, shape, narrow):
    """Against 80-bit arithmetic, from the records' (defining) unit coordinates."""
    rng = np.random.default_rng(seed)
    d, k = shape
    region = region_of("box", d + 1)
    s = regressions_of(region, k, rng, narrow)
    w = MomentWeights.balanced(d + 1, clip_radius(d + 1))
    query = RegressionQuery(s, Bounded(region, w))
    X = region.to_data(rng.uniform(-1.2, 1.2, (200, d + 1)))
    y = region.to_unit(X, Scratch()).astype(LONG)
    white = (y[:, :-1] - s.centre.astype(LONG)) @ s.whitener.astype(LONG).T
    c = s.coefficients.astype(LONG)
    residual = (y[:, -1:] - c[:, 0] - white @ c[:, 1:].T) / np.sqrt(s.variances.astype(LONG))
    joint = s.constants.astype(LONG) - np.minimum(residual**2, LONG(_CAP)) / 2
    share = np.exp(np.maximum(joint - joint.max(axis=1, keepdims=True), -600))
    share /= share.sum(axis=1, keepdims=True)
    u = np.concatenate(
        [np.repeat(white[:, None], k, axis=1), residual[:, :, None]], axis=2
    )  # (n, K, q)
    u /= np.maximum(np.sqrt(np.sum(u * u, axis=2, keepdims=True)) / LONG(w.radius), 1)
    from privem.linalg import symmetric_pairs

    i, j = symmetric_pairs(d + 1)
    second = np.einsum("nk,nki,nkj->kij", share, u, u)[:, i, j]
    second = second * np.where(i == j, LONG(1), np.sqrt(LONG(2)))
    total = np.einsum("nk,nki->ki", share, u)
    exact = [w.w0 * share.sum(axis=0), w.w1 * total.ravel(), w.w2 * second.ravel()]
    found = ravel(query(Block(X), Scratch()))
    error = float(np.linalg.norm((found - np.concatenate(exact)).astype(float)))
    assert error <= query.rounding(len(X)) < 1e-3 * math.sqrt(w.bound)


@settings(max_examples=60)
@given(seed=seeds, steep=st.sampled_from([1.0, 1e3, 1e6]))
def test_a_fit_asks_only_what_arithmetic_can_answer(seed, steep):
    """Noise may lead to steep and narrow lines: what is asked next has a small rounding error."""
    rng = np.random.default_rng(seed)
    region = region_of("box", 4)
    state = regressions_of(region, 3, rng, narrow=1e-8)
    state = replace(state, coefficients=steep * state.coefficients)
    bounded = Bounded(region, MomentWeights.balanced(4, 4.0))
    asked = RegressionMixtureModel(1e-9, bounded).query(state)
    assert asked.rounding(1.0) < 1e-2
    assert (asked.state.variances >= state.variances).all()
    if steep == 1e6:
        assert RegressionQuery(state, bounded).rounding(1.0) > asked.rounding(1.0)


@pytest.mark.parametrize("neighbours", NEIGHBOURS)
@settings(max_examples=60)
@given(seed=seeds, d=st.integers(1, 5), where=st.sampled_from(["box", "ball", "isotropic"]))
def test_missing_covariates(neighbours, seed, d, where):
    rng = np.random.default_rng(seed)
    region, target = region_of(where, d), region_of("box", 1)
    X = nasty(region, rng.uniform(-1, 1, (2, d)), rng)
    X = np.where(rng.random(X.shape) < 0.3, np.nan, X)
    y = rng.choice([-5.0, 5.0, 0.0, 1e308, -1e308, np.inf, -np.inf, np.nan, 0.7], len(X))
    joined = np.column_stack([X, y])
    radii = (float(rng.uniform(0.1, 3)), float(rng.uniform(0.1, 3)))
    for kind in (ScalesQuery, ObservedMomentsQuery):
        query = kind(region, target, radii)
        found = vectors(query, joined)
        assert np.isfinite(found).all()
        worst(query, found, neighbours)
        each = query.contributions(Block(joined), Scratch())
        np.testing.assert_allclose(each.sum(axis=1), found.sum(axis=0), atol=1e-12)
        assert each.shape[0] == query.size


def test_the_bounds_of_missing_covariates_are_attained():
    side = Region.box(-np.ones(1), np.ones(1))
    X = np.array([[1.0, 1.0], [1.0, -1.0], [np.nan, 0.0], [-1.0, -1.0], [1.0, 0.0], [0.0, 1.0]])
    for kind in (ScalesQuery, ObservedMomentsQuery):
        query = kind(side, side, (1.0, 1.0))
        for neighbours in NEIGHBOURS:
            assert worst(query, vectors(query, X), neighbours) > 0.99


def test_what_is_missing_pulls_on_nothing():
    """A ball of radius 2: the entry beside a missing one stays where it is."""
    ball, side = Region.around_origin(2.0, 2), Region.around_origin(9.0, 1)
    query = ScalesQuery(ball, side, (2.0, 9.0))
    sums = query(Block(np.array([[1.5, np.nan, 3.0]])), Scratch())
    np.testing.assert_allclose(sums.squares, [(1.5 / 2) ** 2, (3.0 / 9) ** 2])
    np.testing.assert_allclose(sums.observed, np.array([1.0, 0.0]) / math.sqrt(2))
