"""Where private EM starts: a mixture fitted to a noisy grid, and not to records.

Lloyd's algorithm and EM are only as good as their start, and under noise they cannot try several.
But noisy counts of the cells of a grid, once released, may be fitted as often as one likes
(:mod:`privem.models.kmeans.grid`): exact EM runs on points that stand for the records, from several
starts, and the best is kept. The grid stands along the longest axes of the frame, in columns
divided by their deviations. Along the others, and where its counts drown in noise, the start is the
frame's. Without a grid, components start from points of the frame that lie far apart.

*More components to search with.* A grid sees three axes, and EM from any start may leave a group
without a component of its own. So the first third of the iterations has twice as many components
as were asked for, and those that are most alike are then merged (:mod:`privem.blocks.shrinkage`).
This costs nothing: the responsibilities of a record sum to one, so the sensitivity of the sums does
not depend on how many components there are (docs/proofs/release.md, section 2). Each of them stands
for half as many records, with the same noise, until they are merged.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.spatial.distance import pdist

from ...blocks.region import Region
from ...blocks.shrinkage import soften
from ...core import Release, Stage
from ...em import PrivateEM, SearchThenMean
from ...ground import Ground
from ...linalg import Array, first_largest, invert_cholesky
from ..kmeans.grid import MOST_AXES, Cloud, GridStart, weighted_kmeans
from .model import Mixture
from .private_m_step import Estimate
from .structure import NEAR, Structure, copies, groups_of, merged

# Runs of k-means++ before EM, in columns divided by deviations and in whitened coordinates; and
# runs of EM from points that are drawn, each way.
_TRIES, _DRAWS = 2, 30
_POINTS = 512
# Iterations, and how many of the runs then go on; of those at last; the least gain of one.
_ROUNDS, _LONG, _TOL = ((2, 16), (6, 4)), 30, 1e-4
# The least variance of a component, along any axis, in units of the frame's.
_NARROWEST = 0.05
# The least variance on points, in the same units.
_LEAST = 1e-2
# The least weight of a component, in equal parts.
_LEAST_WEIGHT = 0.2
# EM looks for groups with so many times the components; they are merged after this part of its
# iterations.
MORE, _MERGE_AFTER = 2, 1 / 3
# While it searches, steps are so much longer than EM's; components that noise has swallowed are
# restarted until so many iterations before its end.
OVERSTEP, SETTLE = 1.5, 3


def cloud_of(
    centre: Array, covariance: Array, k: int, ground: Ground, rng: np.random.Generator
) -> Generator[Stage, Release[Any], tuple[Array, Array, Cloud]]:
    """Points that stand for the records, in columns divided by their deviations.

    Those deviations (d,), the frame's covariance divided by them, and the points. Generates the
    stage ``"grid"``.
    """
    region = ground.region
    unit = np.ones(region.d) if region.ball else np.sqrt(np.diag(covariance))
    view = Region(region.centre, region.scale * unit, region.limit / unit, region.ball)
    shape = covariance / np.outer(unit, unit)
    grid = GridStart(replace(ground, region=view), centre / unit, shape, k, rng, _POINTS)
    cloud = yield from grid.cloud()
    return unit, shape, cloud


def from_grid(
    centre: Array, covariance: Array, k: int, ground: Ground, rng: np.random.Generator
) -> Generator[Stage, Release[Any], Mixture]:
    """A mixture of k components with full covariances, in unit coordinates.

    Generates the stage ``"grid"``; ``centre`` and ``covariance`` are the frame, in unit
    coordinates. Along axes that the grid does not see, all components are as the frame is.
    """
    unit, shape, cloud = yield from cloud_of(centre, covariance, k, ground, rng)
    values, vectors = np.linalg.eigh(shape)
    axes, values = vectors[:, ::-1].T, values[::-1]
    seen = min(len(values), MOST_AXES)
    middle, roots = centre / unit, np.sqrt(values)
    points = (cloud.points - middle) @ axes[:seen].T
    best = fitted(points, cloud, values[:seen], k, rng)
    # As far as the grid is noise: half of the frame's variance, and equal weights.
    kept, white = cloud.kept, np.tile(np.eye(len(values)), (k, 1, 1))
    found = best.covariances / np.outer(roots[:seen], roots[:seen])
    found = soften(found, _NARROWEST, 0.0, 1e3)
    white[:, :seen, :seen] = kept * found + (1 - kept) * 0.5 * np.eye(seen)
    share = np.maximum(kept * best.weights + (1 - kept) / k, _LEAST_WEIGHT / k)
    lower = unit[:, None] * axes.T * roots
    means = (middle + best.means @ axes[:seen]) * unit
    inside = ground.region.inside(means)
    return Mixture("full", share / share.sum(), inside, lower @ white @ lower.T)


def filled(region: Region, diagonal: bool = False) -> tuple[Array, Array]:
    """Mean and covariance, in unit coordinates, of records spread evenly over a region."""
    d = region.d
    variances = np.full(d, 1.0 / (d + 2)) if region.ball else region.limit**2 / 3
    return np.zeros(d), variances if diagonal else np.diag(variances)


def pack(
    centre: Array, covariance: Array, k: int, rng: np.random.Generator, width: float = 0.8
) -> Array:
    """K points far apart on the ellipsoid of a Gaussian: the best of many random sets.

    ``covariance`` is a matrix, or its diagonal.
    """
    d = len(centre)
    best, spread = np.zeros((k, d)), -1.0
    for _ in range(300 if d <= 10 else 20):
        points = rng.standard_normal((k, d))
        points *= math.sqrt(d) / np.maximum(np.linalg.norm(points, axis=1, keepdims=True), 1e-12)
        if k > 2 * d:  # too many for a sphere: fill the ball
            points *= rng.random((k, 1)) ** (1.0 / d) * 1.5
        gap = float(pdist(points).min(initial=math.inf))
        if gap > spread:
            best, spread = points, gap
    if covariance.ndim == 1:
        return np.asarray(centre + width * best * np.sqrt(covariance))
    return np.asarray(centre + width * best @ np.linalg.cholesky(covariance).T)


def packed(
    centre: Array, covariance: Array, k: int, region: Region, rng: np.random.Generator
) -> Mixture:
    """A mixture of k components that lie far apart, each with half of the frame's variance."""
    means = region.inside(pack(centre, covariance, k, rng))
    return replace(copies(centre, 0.5 * covariance, k), means=means)


def searching(components: int, structure: Structure) -> int:
    """How many components to start with; from the noise alone.

    More than are asked for, where those that they are merged to bear the noise of an iteration as
    components do that start near their end. A pooled covariance would not tell which are alike.
    """
    noise = structure.noise * math.sqrt(structure.iterations)
    long = int(_MERGE_AFTER * structure.iterations) > SETTLE
    more = structure.covariance_type != "tied" and long and noise <= NEAR
    return MORE * components if more else components


def searched(
    em: PrivateEM[Estimate], components: int
) -> Generator[Stage, Release[Any], tuple[int, Estimate]]:
    """How many iterations a search took, and where it has led; none if nothing is to be merged."""
    if len(em.start.means) == components:
        return 0, em.start
    rounds = int(_MERGE_AFTER * em.iterations)
    path: SearchThenMean[Estimate] = SearchThenMean(rounds, OVERSTEP, rounds - SETTLE)
    end = yield from replace(em, path=path).steps(em.start, range(rounds))
    lost, _, _ = end.lost()
    groups = groups_of(end.mixture, components, np.flatnonzero(lost).tolist())
    return rounds, Estimate(end.model, merged(end.mixture, groups))


@dataclass(frozen=True)
class PointsFit:
    """A mixture of points: its log-likelihood, whose points are whose, and its parameters.

    Or several, along a first axis of everything.
    """

    value: Array
    share: Array
    weights: Array
    means: Array
    covariances: Array

    @property
    def best(self) -> PointsFit:
        """The most likely of several."""
        i = int(first_largest(self.value, 0))
        parts = (self.value, self.share, self.weights, self.means, self.covariances)
        return PointsFit(*(part[i] for part in parts))


def fitted(
    points: Array, cloud: Cloud, variances: Array, k: int, rng: np.random.Generator
) -> PointsFit:
    """The best of many runs of EM on the points of a cloud along axes of these variances.

    Every few iterations the better ones go on. Runs start from k-means, from points drawn far
    apart, and from any points: each misses groups that the others find.
    """
    chances = cloud.weights / cloud.weights.sum()
    blur = np.full(len(variances), _LEAST)
    blur[: len(cloud.blur)] = np.maximum(cloud.blur, _LEAST)
    drawn = np.stack([points[rng.choice(len(points), k, p=chances)] for _ in range(_DRAWS)])
    starts = [drawn, _far_apart(points, chances, k, rng)]
    for unit in (np.ones(len(variances)), np.sqrt(variances)):
        centres, _ = weighted_kmeans(points / unit, chances, k, rng, _TRIES)
        starts.append((centres * unit)[None])
    share, features = _nearest(points, np.concatenate(starts)), _features(points)
    for iterations, kept in _ROUNDS:
        tried = _em(features, chances, share, blur, iterations)
        # Runs that come to the same place tie: rounding must not decide which goes on.
        share = tried.share[np.argsort(-tried.value.round(9), kind="stable")[:kept]]
    return _em(features, chances, share, blur, _LONG).best


def _far_apart(points: Array, chances: Array, k: int, rng: np.random.Generator) -> Array:
    """Points (runs, K, d): each is drawn in proportion to its squared distance to those before."""
    chosen = [rng.choice(len(points), _DRAWS, p=chances)]
    near = np.full((_DRAWS, len(points)), np.inf)
    for _ in range(k - 1):
        away = points - points[chosen[-1]][:, None]
        near = np.minimum(near, np.einsum("rni,rni->rn", away, away))
        up_to = np.cumsum(near * chances, axis=1)
        limit = rng.random(_DRAWS) * up_to[:, -1]
        chosen.append(np.minimum((up_to < limit[:, None]).sum(axis=1), len(points) - 1))
    return points[np.stack(chosen, axis=1)]


def _nearest(points: Array, means: Array) -> Array:
    """One for the nearest mean of each point, (runs, K, n); means are (runs, K, d)."""
    distances = np.sum(means**2, axis=2)[:, :, None] - 2 * (means @ points.T)
    nearest = first_largest(-distances, 1, float(np.sum(points**2, axis=1).max()))
    same = np.equal(nearest[:, None], np.arange(means.shape[1])[:, None])
    return np.asarray(same, dtype=np.float64)


def _em(features: Array, chances: Array, share: Array, blur: Array, iterations: int) -> PointsFit:
    """EM with full covariances of points given by features; several runs at once.

    From responsibilities (runs, K, n), until no run gains. ``blur`` (d,) is added to variances.
    """
    (runs, k, n), d = share.shape, _columns(features)
    linear = slice(1, d + 1)
    value, flat = np.full(runs, -np.inf), features * chances[:, None]
    coefficients = np.empty((runs * k, features.shape[1]))
    for _ in range(iterations):
        sums = share.reshape(-1, n) @ flat
        count = np.maximum(sums[:, 0], 1e-9)
        means = sums[:, linear] / count[:, None]
        second = (sums[:, d + 1 :] / count[:, None]).reshape(-1, d, d)
        covariances = second - means[:, :, None] * means[:, None, :] + np.diag(blur)
        whiteners = invert_cholesky(covariances)
        precisions = np.swapaxes(whiteners, 1, 2) @ whiteners
        pulls = (precisions @ means[:, :, None])[:, :, 0]
        coefficients[:, 0] = np.log(count) - 0.5 * np.sum(pulls * means, axis=1)
        coefficients[:, 0] += np.log(np.diagonal(whiteners, axis1=1, axis2=2)).sum(axis=1)
        coefficients[:, linear] = pulls
        coefficients[:, d + 1 :] = -0.5 * precisions.reshape(-1, d * d)
        share = (coefficients @ features.T).reshape(runs, k, n)
        top = share.max(axis=1, keepdims=True)
        share = np.exp(np.subtract(share, top, out=share), out=share)
        total = share.sum(axis=1, keepdims=True)
        share /= total
        before, value = value, (top + np.log(total))[:, 0] @ chances
        if (value - before < _TOL).all():
            break
    weights = count.reshape(runs, k)
    weights = weights / weights.sum(axis=1, keepdims=True)
    means, covariances = means.reshape(runs, k, d), covariances.reshape(runs, k, d, d)
    return PointsFit(value, share, weights, means, covariances)


def _features(points: Array) -> Array:
    """One, the coordinates and all their products, (n, 1 + d + d^2)."""
    n, d = points.shape
    products = (points[:, :, None] * points[:, None, :]).reshape(n, d * d)
    return np.concatenate([np.ones((n, 1)), points, products], axis=1)


def _columns(features: Array) -> int:
    """The d whose 1 + d + d^2 features there are."""
    return math.isqrt(features.shape[1] - 1)
