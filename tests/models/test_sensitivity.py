"""Tries to move a sum by more than its sensitivity: corners, outliers, opposites, borders."""

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privem.blocks.histograms import LEVELS, CountQuery, OctaveQuery, OutsideQuery, PlaceQuery
from privem.blocks.region import Region
from privem.blocks.sensitivity import MomentWeights
from privem.blocks.shrinkage import clip_radius
from privem.core import Block, Scratch
from privem.linalg import ravel
from privem.models.factor_analysis.query import BoundedMomentsQuery
from privem.models.gaussian_mixture.model import Mixture
from privem.models.gaussian_mixture.query import RECIPES, BoundedQuery
from privem.models.kmeans.query import KMEANS_RECIPES, BoundedClusterQuery, whitened_weights

TYPES = ("full", "tied", "diag", "spherical")
NEIGHBOURS = ("add-remove", "replace-one")


def region_of(kind: str, d: int) -> Region:
    if kind == "ball":
        return Region.around_origin(2.0, d)
    low = -np.linspace(1, 3, d)
    return Region.box(low, low + np.linspace(2, 7.3, d), isotropic=kind == "isotropic")


def nasty(region: Region, centres: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Records made to exceed a bound: corners, opposites, outliers, borders, duplicates."""
    d, k = region.d, len(centres)
    corner = np.sign(rng.standard_normal(d))
    axis = np.eye(d)[rng.integers(d)]
    a, b = centres[rng.integers(k)], centres[rng.integers(k)]
    unit = np.stack(
        [
            corner,
            -corner,
            axis,
            -axis,
            5 * corner,
            a,
            a + 1e-9 * corner,
            a + 3 * (a - b),
            (a + b) / 2,
            np.nextafter((a + b) / 2, 2),
            *rng.uniform(-1, 1, (3, d)),
            np.zeros(d),
        ]
    )
    X = region.to_data(unit)
    far = np.where(corner > 0, 1e308, -1e308)
    extremes = np.stack([far, -far, far * np.inf, -far * np.inf, np.full(d, np.nan)])
    return np.concatenate([X, extremes, X[:2]])


def opposites(query: Any, rng: np.random.Generator) -> np.ndarray:
    """On either side of each mean at the clip radius: nearer or further, whitened sums are less."""
    m, found = query.mixture, []
    for mean, w in zip(m.means, m.whiteners, strict=True):
        u = rng.standard_normal(len(mean))
        u *= query.weights.radius / np.linalg.norm(u)
        step = np.linalg.solve(w, u) if w.ndim == 2 else u / w
        found += [mean + step, mean - step]
    return np.asarray(query.region.to_data(np.stack(found)))


def vectors(query: Any, X: np.ndarray, weight: np.ndarray | None = None) -> np.ndarray:
    """What each record contributes, one by one."""
    scratch = Scratch()
    return np.stack(
        [
            ravel(
                query(Block(X[i : i + 1], None if weight is None else weight[i : i + 1]), scratch)
            )
            for i in range(len(X))
        ]
    )


def size(difference: np.ndarray, kind: str) -> np.ndarray:
    return np.linalg.norm(difference, ord=2 if kind == "gaussian" else 1, axis=-1)


def worst(query: Any, contributions: np.ndarray, neighbours: str, rows: float = 1.0) -> float:
    """Largest ratio found of what a record moves to what is charged; fails above one."""
    ratio = 0.0
    groups = query.groups(neighbours)
    assert [g.where.start for g in groups] == [0, *(g.where.stop for g in groups[:-1])]
    assert groups[-1].where.stop == contributions.shape[1]
    for group in groups:
        part = contributions[:, group.where]
        moved = [part]
        if neighbours == "replace-one":
            moved.append((part[:, None] - part[None]).reshape(-1, part.shape[1]))
        stretch = 1.0 if group.kind == "gaussian" else np.sqrt(group.dimension)
        slack = 2 * query.rounding(rows) * stretch
        for difference in moved:
            found = size(difference, group.kind).max()
            assert found <= group.sensitivity + slack
            if group.sensitivity:
                ratio = max(ratio, float(found / group.sensitivity))
    return ratio


def mixture_of(kind: str, k: int, d: int, rng: np.random.Generator, narrow: float) -> Mixture:
    weights = rng.dirichlet(np.ones(k)) + 1e-9
    means = rng.uniform(-1, 1, (k, d))
    shapes = rng.standard_normal((k, d, d + 2)) * narrow
    full = np.einsum("kij,klj->kil", shapes, shapes) + 1e-5 * np.eye(d)
    covariances = {
        "full": full,
        "tied": full[0],
        "diag": np.diagonal(full, axis1=1, axis2=2).copy(),
        "spherical": np.trace(full, axis1=1, axis2=2) / d,
    }[kind]
    return Mixture(kind, weights / weights.sum(), means, covariances)


shapes = st.sampled_from([(1, 1), (1, 3), (2, 2), (3, 1), (4, 3), (7, 2)])
seeds = st.integers(0, 2**32)
wheres = st.sampled_from(["box", "ball", "isotropic"])


@pytest.mark.parametrize("neighbours", NEIGHBOURS)
@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("recipe", RECIPES)
@settings(max_examples=12)
@given(seed=seeds, shape=shapes, where=wheres, narrow=st.sampled_from([1.0, 0.1, 1e-3]))
def test_mixtures(
    recipe: str,
    kind: str,
    neighbours: str,
    seed: int,
    shape: tuple[int, int],
    where: str,
    narrow: float,
) -> None:
    rng = np.random.default_rng(seed)
    d, k = shape
    region = region_of(where, d)
    r = clip_radius(d) if recipe == "whitened" else region.reach
    if seed % 3 == 0:  # any weights at all, also where w1^2 > 2 w0 w2
        w = MomentWeights(*rng.uniform(0, 2, 3) / r ** np.arange(3), r)
    else:
        w = MomentWeights.balanced(d, r, count=seed % 3 == 1)
    if kind == "tied" and recipe == "whitened" and seed % 2:
        w = MomentWeights.without_second(r)
    query = BoundedQuery(mixture_of(kind, k, d, rng, narrow), region, w, recipe, 1e5)
    X = np.concatenate([nasty(region, query.mixture.means, rng), opposites(query, rng)])
    worst(query, vectors(query, X), neighbours)


@pytest.mark.parametrize("neighbours", NEIGHBOURS)
@pytest.mark.parametrize("recipe", KMEANS_RECIPES)
@settings(max_examples=30)
@given(seed=seeds, shape=shapes, where=wheres, spread=st.sampled_from([1.0, 0.1, 1e-3]))
def test_clusters(
    recipe: str, neighbours: str, seed: int, shape: tuple[int, int], where: str, spread: float
) -> None:
    rng = np.random.default_rng(seed)
    d, k = shape
    region = region_of(where, d)
    r = clip_radius(d) if recipe == "whitened" else region.reach
    w = whitened_weights(d, r) if recipe == "whitened" else MomentWeights(1.0, 1.0 / r, 0.0, r)
    query = BoundedClusterQuery(rng.uniform(-1, 1, (k, d)), region, w, spread, recipe)
    worst(query, vectors(query, nasty(region, query.centres, rng)), neighbours)


@pytest.mark.parametrize("neighbours", NEIGHBOURS)
@settings(max_examples=30)
@given(seed=seeds, d=st.integers(1, 6), where=wheres)
def test_moments(neighbours: str, seed: int, d: int, where: str) -> None:
    rng = np.random.default_rng(seed)
    region = region_of(where, d)
    query = BoundedMomentsQuery(region, MomentWeights.balanced(d, region.reach, count=False))
    worst(query, vectors(query, nasty(region, np.zeros((1, d)), rng)), neighbours)


@pytest.mark.parametrize("neighbours", NEIGHBOURS)
@settings(max_examples=8)
@given(seed=seeds, d=st.integers(1, 3))
def test_histograms(neighbours: str, seed: int, d: int) -> None:
    rng = np.random.default_rng(seed)
    X = nasty(region_of("box", d), np.zeros((1, d)), rng)
    X = np.concatenate([X[::2], X[:3] * 2.0**-45, X[:3] * 1e12])
    X[0] = 1e9  # far from the others
    place = PlaceQuery(2.0 ** rng.integers(-42, 20, d))
    there = (~np.isnan(X)).sum(axis=1)
    assert (vectors(place, X).sum(axis=1) == LEVELS * there).all()
    worst(place, vectors(place, X), neighbours)
    octave = OctaveQuery(rng.standard_normal(d) * 1e3)
    assert worst(octave, vectors(octave, X), neighbours) > 0.99
    assert (vectors(octave, X).sum(axis=1) == d).all()
    outside = OutsideQuery((1,) * d, rng.standard_normal(d), 2.0 ** rng.integers(-9, 9, d))
    assert worst(outside, vectors(outside, X), neighbours) > 0.99
    ball = OutsideQuery((d,), rng.standard_normal(d), 2.0 ** rng.integers(-9, 9, 1))
    worst(ball, vectors(ball, X), neighbours)


@pytest.mark.parametrize("neighbours", NEIGHBOURS)
@pytest.mark.parametrize("cap", [1.0, 0.25, 3.0])
@settings(max_examples=15)
@given(seed=seeds)
def test_weights_and_persons(cap: float, neighbours: str, seed: int) -> None:
    """Weights up to the cap, none at all, too large, negative or NaN; persons with many rows."""
    rng = np.random.default_rng(seed)
    d, k = 2, 2
    region = region_of("box", d)
    r = clip_radius(d)
    w = MomentWeights.balanced(d, r)
    centres = rng.uniform(-1, 1, (k, d))
    queries = [
        BoundedQuery(mixture_of("full", k, d, rng, 0.2), region, w, "whitened", 1e5, cap),
        BoundedClusterQuery(centres, region, whitened_weights(d, r), 0.3, "whitened", cap),
        BoundedClusterQuery(
            centres, region, MomentWeights(1, 1 / region.reach, 0, region.reach), 1, "ll", cap
        ),
        BoundedMomentsQuery(region, MomentWeights.balanced(d, region.reach, count=False), cap),
        CountQuery(cap),
    ]
    X = nasty(region, centres, rng)
    weight = rng.choice([0.0, cap, cap / 3, 1e300, np.inf, -1.0, np.nan], len(X))
    for query in queries:
        alone = vectors(query, X, weight)
        assert np.isfinite(alone).all()
        # Persons with up to five rows, each weighing w/m.
        persons = []
        for _ in range(10):
            rows = rng.integers(len(X), size=rng.integers(1, 6))
            share = np.clip(np.nan_to_num(weight[rows], posinf=cap), 0, cap) / len(rows)
            persons.append(ravel(query(Block(X[rows], share), Scratch())))
        unweighted = vectors(query, X)
        worst(
            query, np.concatenate([alone, np.stack(persons), unweighted]), neighbours, rows=cap + 1
        )


@pytest.mark.parametrize("neighbours", NEIGHBOURS)
@settings(max_examples=25)
@given(seed=seeds, recipe=st.sampled_from(["whitened", "joint", "ggg", "laplace"]))
def test_whole_data_sets(neighbours: str, seed: int, recipe: str) -> None:
    """Sums over neighbouring data sets: the record lands anywhere in a block and shifts others."""
    rng = np.random.default_rng(seed)
    d, k, n = 3, 3, 200
    region = region_of("box", d)
    r = clip_radius(d) if recipe == "whitened" else region.reach
    query = BoundedQuery(
        mixture_of("full", k, d, rng, 0.2), region, MomentWeights.balanced(d, r), recipe, n + 1
    )
    odd = nasty(region, query.mixture.means, rng)
    X = region.to_data(rng.uniform(-1, 1, (n, d)))
    at = int(rng.integers(n))
    with_one = np.insert(X, at, odd[seed % len(odd)], axis=0)
    other = X
    if neighbours == "replace-one":
        other = np.insert(X, int(rng.integers(n)), odd[(seed // 7) % len(odd)], axis=0)
    difference = ravel(query(Block(with_one), Scratch())) - ravel(query(Block(other), Scratch()))
    for group in query.groups(neighbours):
        stretch = 1.0 if group.kind == "gaussian" else np.sqrt(group.dimension)
        charged = group.sensitivity + 2 * query.rounding(n + 1) * stretch
        assert size(difference[group.where], group.kind) <= charged


def test_bounds_are_attained() -> None:
    """The attack above is a real one: it reaches the bounds it cannot pass."""
    d = 2
    region = region_of("ball", d)
    axis = np.eye(d)[0]
    X = region.to_data(np.stack([axis, -axis, np.eye(d)[1]]))
    means = np.stack([axis, -axis])
    two = Mixture("full", np.full(2, 0.5), means, np.stack([1e-3 * np.eye(d)] * 2))
    for neighbours, recipe in itertools.product(NEIGHBOURS, ("joint", "ggg")):
        query = BoundedQuery(two, region, MomentWeights(1.0, 1.0, 1.0, region.reach), recipe, 10)
        assert worst(query, vectors(query, X), neighbours) > 0.99
    one = Mixture("full", np.ones(1), np.zeros((1, d)), np.eye(d)[None])
    w = MomentWeights(0.0, 1.0, 0.1, region.reach)
    query = BoundedQuery(one, region, w, "joint", 10)
    # Opposite records: h is negative, and twice the add-remove bound is nearly reached.
    assert w.l2("replace-one") > 1.98 * w.l2("add-remove")
    assert worst(query, vectors(query, X), "replace-one") > 0.99


def test_the_plan_uses_weights_that_make_replacing_cheap() -> None:
    for d in (1, 2, 10, 50):
        w = whitened_weights(d, clip_radius(d))
        assert w.l2("replace-one") < 1.0001 * np.sqrt(2) * w.l2("add-remove")
