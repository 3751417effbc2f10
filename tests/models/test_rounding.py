"""The floating-point error of a sum is below its bound, against 80-bit arithmetic."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privem.blocks.histograms import MOST_ROWS, CountQuery
from privem.blocks.region import Region
from privem.blocks.sensitivity import MomentWeights
from privem.blocks.shrinkage import clip_radius
from privem.core import Block, Scratch
from privem.kernels.whitened import raised
from privem.linalg import RunningSum, ravel, symmetric_pairs
from privem.models.factor_analysis.query import BoundedMomentsQuery
from privem.models.gaussian_mixture.model import Mixture
from privem.models.gaussian_mixture.query import BoundedQuery
from privem.models.gaussian_mixture.rounding import CAP
from privem.models.kmeans.query import BoundedClusterQuery

LONG = np.longdouble
TYPES = ("full", "tied", "diag", "spherical")


def total(query: Any, X: np.ndarray, weight: np.ndarray | None, cuts: list[int]) -> np.ndarray:
    """The sum as a source forms it, over blocks that end at ``cuts``."""
    running: RunningSum[Any] = RunningSum()
    scratch = Scratch()
    for low, high in zip([0, *cuts], [*cuts, len(X)], strict=True):
        part = None if weight is None else weight[low:high]
        running.add(query(Block(X[low:high], part, low), scratch))
    return ravel(running.value())


def region_of(kind: str, d: int) -> Region:
    if kind == "ball":
        return Region.around_origin(3.0, d)
    low = -np.linspace(1, 3, d)
    return Region.box(low, low + np.linspace(2, 7, d), isotropic=kind == "isotropic")


def mixture_of(kind: str, k: int, d: int, rng: np.random.Generator, narrow: float) -> Mixture:
    weights = rng.dirichlet(np.ones(k)) + 1e-12
    means = rng.uniform(-1.2, 1.2, (k, d))
    shapes = rng.standard_normal((k, d, d + 2)) * rng.uniform(1, 30, (k, d, 1))
    full = np.einsum("kij,klj->kil", shapes, shapes) / 900 * narrow + 1e-6 * narrow * np.eye(d)
    covariances = {
        "full": full,
        "tied": full[0],
        "diag": np.diagonal(full, axis1=1, axis2=2).copy(),
        "spherical": np.trace(full, axis1=1, axis2=2) / d,
    }[kind]
    return Mixture(kind, weights / weights.sum(), means, covariances)


def matrices(mixture: Mixture) -> np.ndarray:
    """W_k as matrices (K, d, d)."""
    w = mixture.whiteners
    return w if w.ndim == 3 else np.stack([np.diag(row) for row in w])


def svec_long(matrix: np.ndarray) -> np.ndarray:
    i, j = symmetric_pairs(matrix.shape[-1])
    return matrix[..., i, j] * np.where(i == j, LONG(1), np.sqrt(LONG(2)))


def shaped(kind: str, g: np.ndarray, u: np.ndarray) -> np.ndarray:
    """Second moments by covariance type from shares (n, K) and vectors (n, K, d)."""
    if kind in ("full", "tied"):
        outer = np.einsum("nk,nki,nkj->kij", g, u, u)
        return svec_long(outer.sum(axis=0) if kind == "tied" else outer)
    squares = np.einsum("nk,nki->ki", g, u * u)
    return squares if kind == "diag" else squares.sum(axis=1)


def reference(query: BoundedQuery, X: np.ndarray, weight: np.ndarray | None) -> np.ndarray:
    """The statistic as defined, in 80 bits, from the records' (defining) unit coordinates."""
    y = query.region.to_unit(X, Scratch()).astype(LONG)
    m, w = query.mixture, query.weights
    away = y[:, None, :] - m.means.astype(LONG)
    white = np.einsum("kij,nkj->nki", matrices(m).astype(LONG), away)
    q = np.sum(white * white, axis=2)
    q_capped = np.minimum(q, LONG(CAP)) if query.direct else q
    joint = m.constants.astype(LONG) - q_capped / 2
    joint -= joint.max(axis=1, keepdims=True)
    g = np.exp(np.maximum(joint, LONG(-600)))
    g /= g.sum(axis=1, keepdims=True)
    u, shrink = white, np.minimum(LONG(1), LONG(w.radius) ** 2 / np.maximum(q, LONG(1e-300)))
    if query._pooled and not query.direct:  # one factor per record
        p = m.weights.astype(LONG) / m.weights.astype(LONG).sum()
        g = p * np.exp(-np.minimum(q, LONG(1200)) / 2)
        t = g.sum(axis=1, keepdims=True)
        g /= t
        unlikely = -2 * np.log(t) + 2 * LONG(raised(query.errors.far)) / t
        assert (np.sum(g * q, axis=1) <= unlikely[:, 0] + LONG(1e-15)).all()
        shrink = np.minimum(LONG(1), LONG(w.radius) ** 2 / unlikely)
    if weight is not None:
        g *= np.clip(weight, 0, query.cap_weight).astype(LONG)[:, None]
    if not query.whitened:
        u, shrink = np.broadcast_to(y[:, None, :], white.shape), LONG(1)
    second = (LONG(w.w2) * shaped(m.covariance_type, g * shrink, u)).ravel()
    return np.concatenate(
        [
            LONG(w.w0) * g.sum(axis=0),
            (LONG(w.w1) * np.einsum("nk,nki->ki", g * shrink, u)).ravel(),
            *([second] if query.wants_second else []),
        ]
    )


def records(rng: np.random.Generator, n: int, region: Region, mixture: Mixture) -> np.ndarray:
    """Inside, at the corners, far out, at the means, and on the clipping sphere of a component."""
    d = region.d
    unit = rng.uniform(-1.3, 1.3, (n, d))
    unit[::5] = np.sign(unit[::5])
    near = mixture.means[rng.integers(len(mixture.means), size=len(unit[1::5]))]
    unit[1::5] = near + rng.standard_normal(near.shape) * 1e-3
    lower = np.linalg.inv(matrices(mixture)[0])
    sphere = rng.standard_normal((len(unit[2::5]), d))
    sphere *= clip_radius(d) / np.linalg.norm(sphere, axis=1, keepdims=True)
    unit[2::5] = mixture.means[0] + sphere @ lower.T
    X = region.to_data(unit)
    X[3 :: n // 3] = rng.choice([1e308, -1e308, np.inf, -np.inf, 0.0], size=X[3 :: n // 3].shape)
    return X


def cases() -> Iterator[Any]:
    for kind in TYPES:
        for recipe, direct in (("whitened", False), ("whitened", True), ("joint", False)):
            yield pytest.param(kind, recipe, direct, id=f"{kind}-{recipe}-{direct}")


@pytest.mark.parametrize(("kind", "recipe", "direct"), list(cases()))
@settings(max_examples=40)
@given(
    seed=st.integers(0, 2**32),
    shape=st.sampled_from([(1, 1), (2, 3), (3, 2), (5, 2), (4, 6)]),
    narrow=st.sampled_from([1.0, 1e-2, 1e-4]),
    where=st.sampled_from(["box", "ball", "isotropic"]),
    weighted=st.booleans(),
    second=st.booleans(),
)
def test_mixture_sums(
    kind: str,
    recipe: str,
    direct: bool,
    seed: int,
    shape: tuple[int, int],
    narrow: float,
    where: str,
    weighted: bool,
    second: bool,
) -> None:
    rng = np.random.default_rng(seed)
    d, k = shape
    n = 150
    region = region_of(where, d)
    mixture = mixture_of(kind, k, d, rng, narrow)
    r = clip_radius(d) if recipe == "whitened" else region.reach
    w = MomentWeights.balanced(d, r)
    if kind == "tied" and recipe == "whitened" and not second:
        w = MomentWeights.without_second(r)
    query = BoundedQuery(mixture, region, w, recipe, n, 2.5)
    query.__dict__["direct"] = direct
    X = records(rng, n, region, mixture)
    weight = rng.uniform(0, 3, n) if weighted else None
    rows = n if weight is None else float(np.clip(weight, 0, 2.5).sum())
    bound = query.rounding(rows)
    exact = reference(query, X, weight)
    for cuts in ([], [1], [64, 65, 140]):
        error = float(np.linalg.norm((total(query, X, weight, cuts) - exact).astype(float)))
        assert error <= bound
    # The order of records, which moves them to other lanes and tiles, changes nothing much.
    order = rng.permutation(n)
    again = total(query, X[order], None if weight is None else weight[order], [])
    assert float(np.linalg.norm((again - exact).astype(float))) <= bound


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("where", ["box", "ball"])
def test_mixture_sums_of_many_features(kind: str, where: str) -> None:
    """Features that do not fit one matrix product: products are made piece by piece."""
    rng = np.random.default_rng(3)
    d, k, n = 34, 2, 60
    region, mixture = region_of(where, d), mixture_of(kind, k, d, rng, 1.0)
    w = MomentWeights.balanced(d, clip_radius(d))
    query = BoundedQuery(mixture, region, w, "whitened", n)
    query.__dict__["direct"] = False
    assert kind != "full" or len(query.evaluation.features.tiles()) > 1
    X = records(rng, n, region, mixture)
    error = np.linalg.norm((total(query, X, None, [7]) - reference(query, X, None)).astype(float))
    assert error <= query.rounding(n)


@given(
    seed=st.integers(0, 2**32),
    kind=st.sampled_from(TYPES),
    shape=st.sampled_from([(1, 1), (2, 3), (6, 2)]),
    where=st.sampled_from(["box", "ball", "isotropic"]),
)
def test_records_stay_below_the_sizes_that_bounds_are_made_of(
    seed: int, kind: str, shape: tuple[int, int], where: str
) -> None:
    rng = np.random.default_rng(seed)
    d, k = shape
    region, mixture = region_of(where, d), mixture_of(kind, k, d, rng, 0.1)
    query = BoundedQuery(mixture, region, MomentWeights.balanced(d, 3.0), "joint", 10)
    errors, evaluation = query.errors, query.evaluation
    y = np.abs(region.to_unit(records(rng, 90, region, mixture), Scratch()))
    # The worst direction of each component too, at the border of the region.
    worst = np.abs(np.linalg.svd(np.abs(matrices(mixture)))[2][:, 0])
    y = np.concatenate([y, np.abs(region.to_unit(region.to_data(worst * 1e3), Scratch()))])
    w = np.abs(matrices(mixture))
    size = np.einsum("kij,nkj->nki", w, y[:, None] + np.abs(mixture.means))
    assert (np.linalg.norm(size, axis=2) <= errors.far).all()
    i, j = symmetric_pairs(d)
    products = {"full": y[:, i] * y[:, j], "square": y**2, "norm": np.sum(y**2, 1)[:, None]}
    phi = np.concatenate([np.ones((len(y), 1)), y, products[evaluation.features.kind]], axis=1)
    height = errors.height(evaluation.features, evaluation.coefficients)
    assert (phi @ np.abs(evaluation.coefficients).T <= height).all()


def test_the_bound_is_not_absurd() -> None:
    # A bound a million times the error would only drown the release in noise.
    rng = np.random.default_rng(0)
    region = region_of("box", 3)
    for direct in (False, True):
        mixture = mixture_of("full", 3, 3, rng, 1e-2)
        r = clip_radius(3)
        query = BoundedQuery(mixture, region, MomentWeights.balanced(3, r), "whitened", 1e4)
        query.__dict__["direct"] = direct
        X = records(rng, 2000, region, mixture)
        error = np.linalg.norm(
            (total(query, X, None, []) - reference(query, X, None)).astype(float)
        )
        assert error > 1e-7 * query.rounding(2000)
    # At a million records of ten features, in components a hundredth of the region: under a tenth
    # of a percent of the sensitivity.
    mixture = mixture_of("full", 3, 10, rng, 1e-2)
    query = BoundedQuery(
        mixture, region_of("box", 10), MomentWeights.balanced(10, clip_radius(10)), "whitened", 1e6
    )
    assert 2 * query.rounding(1e6) < 1e-3 * query.weights.l2("add-remove")


@settings(max_examples=30)
@given(
    seed=st.integers(0, 2**32),
    shape=st.sampled_from([(1, 2), (2, 3), (5, 4), (9, 2)]),
    recipe=st.sampled_from(["whitened", "joint", "dplloyd"]),
    where=st.sampled_from(["box", "ball", "isotropic"]),
    spread=st.sampled_from([1.0, 0.05, 1e-4]),
)
def test_cluster_sums(
    seed: int, shape: tuple[int, int], recipe: str, where: str, spread: float
) -> None:
    rng = np.random.default_rng(seed)
    d, k = shape
    region = region_of(where, d)
    r = clip_radius(d) if recipe == "whitened" else region.reach
    w = MomentWeights(0.6, 0.7 / r, 0.4 / r**2 if recipe == "whitened" else 0.0, r)
    query = BoundedClusterQuery(rng.uniform(-1, 1, (k, d)), region, w, spread, recipe)
    X = region.to_data(rng.uniform(-1.5, 1.5, (200, d)))
    step, centres = query.step, query.lattice_centres
    y = np.trunc(region.to_unit(X, Scratch()) / step).astype(LONG) * LONG(step)
    gaps = np.sum((y[:, None] - centres.astype(LONG)) ** 2, axis=2)
    label = gaps.argmin(axis=1)
    u = y
    if query.local:
        u = (y - centres[label].astype(LONG)) / LONG(spread)
        u = u / np.maximum(np.sqrt(np.sum(u * u, axis=1)) / LONG(r), LONG(1))[:, None]
    member = (label[:, None] == np.arange(k)).astype(LONG)
    parts = [LONG(w.w0) * member.sum(axis=0), (LONG(w.w1) * (member.T @ u)).ravel()]
    if query.local:
        parts.append(LONG(w.w2) * np.sum(u * u)[None])
    exact = np.concatenate(parts)
    for cuts in ([], [7, 8, 150]):
        error = np.linalg.norm((total(query, X, None, cuts) - exact).astype(float))
        assert error <= query.rounding(200)
    assert query.rounding(1e6) < 1e-4 * w.l2("add-remove")


@given(seed=st.integers(0, 2**32), d=st.integers(1, 12), weighted=st.booleans())
def test_moment_sums(seed: int, d: int, weighted: bool) -> None:
    rng = np.random.default_rng(seed)
    region = region_of(("box", "ball")[seed % 2], d)
    w = MomentWeights.balanced(d, region.reach, count=False)
    query = BoundedMomentsQuery(region, w, 4.0)
    X = region.to_data(rng.uniform(-1.5, 1.5, (300, d)))
    weight = rng.uniform(0, 4, 300) if weighted else None
    y = region.to_unit(X, Scratch()).astype(LONG)
    g = np.ones((300, 1), dtype=LONG) if weight is None else weight.astype(LONG)[:, None]
    parts = [LONG(w.w1) * (g * y).sum(axis=0), LONG(w.w2) * svec_long((g * y).T @ y)]
    rows = 300 if weight is None else float(weight.sum())
    error = np.linalg.norm(
        (total(query, X, weight, [10, 11]) - np.concatenate(parts)).astype(float)
    )
    assert error <= query.rounding(rows)


@given(seed=st.integers(0, 2**32), cap=st.sampled_from([1.0, 0.3, 7.7, 1e-3]))
def test_counts_of_weights_do_not_depend_on_order(seed: int, cap: float) -> None:
    rng = np.random.default_rng(seed)
    weight = rng.uniform(0, 1.2 * cap, 1000)
    query = CountQuery(cap)
    X = np.empty((1000, 1))
    once = total(query, X, weight, [])
    for _ in range(3):
        order = rng.permutation(1000)
        cuts = sorted(rng.choice(np.arange(1, 1000), 5, replace=False).tolist())
        assert total(query, X, weight[order], cuts) == once
    lost = float(np.minimum(weight, cap).sum() - once[0])
    assert -1e-9 * cap <= lost <= 1000 * 2.0**-35 * cap
    assert query.rounding(MOST_ROWS) < 1e-4 * cap


@given(seed=st.integers(0, 2**32), d=st.integers(1, 40))
def test_unit_coordinates_do_not_depend_on_the_neighbours_in_a_block(seed: int, d: int) -> None:
    rng = np.random.default_rng(seed)
    for region in (region_of("ball", d), region_of("box", d)):
        X = rng.standard_normal((37, d)) * 4
        X[5], X[6, 0] = 1e308, np.nan
        whole = region.to_unit(X, Scratch()).copy()
        for low, high in ((0, 1), (3, 20), (36, 37)):
            np.testing.assert_array_equal(region.to_unit(X[low:high], Scratch()), whole[low:high])
        fortran = region.to_unit(np.asfortranarray(X[1:]), Scratch())
        np.testing.assert_array_equal(fortran, whole[1:])
        norms = np.sqrt(np.sum(whole.astype(LONG) ** 2, axis=1))
        assert (norms <= region.reach).all()
