"""Where private EM starts: a mixture fitted to a noisy grid, and not to records.

Lloyd's algorithm and EM are only as good as their start, and under noise they cannot try several.
But noisy counts of the cells of a grid, once released, may be fitted as often as one likes
(:mod:`privem.models.kmeans.grid`): exact EM runs on points that stand for the records, from several
starts, and the best is kept. The grid stands along the axes of the frame, in columns divided by
their deviations; where its counts drown in noise, the start is the frame's. With more columns than
it can see it gains nothing over points that lie far apart, and it is not asked.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...blocks.region import Region
from ...blocks.shrinkage import soften
from ...core import Release, Stage
from ...ground import Ground
from ...linalg import invert_cholesky
from ...tree import Array
from ..kmeans.grid import Cloud, GridStart, weighted_kmeans
from .model import Mixture

# Runs of k-means++ before EM, in columns divided by deviations and in whitened coordinates; and
# runs of EM from points drawn at random.
_TRIES, _DRAWS = 1, 20
_POINTS = 512
# Iterations of every run, and of the best few; the least gain of one.
_SHORT, _LONG, _KEPT, _TOL = 5, 20, 3, 1e-3
# The least variance of a component, along any axis, in units of the frame's.
_NARROWEST = 0.05
# The least variance on points, in the same units.
_LEAST = 1e-2
# The least weight of a component, in equal parts.
_LEAST_WEIGHT = 0.2


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
    coordinates.
    """
    region = ground.region
    unit, shape, cloud = yield from cloud_of(centre, covariance, k, ground, rng)
    best = fitted(cloud.points, cloud.weights, shape, k, rng)
    lower = np.linalg.cholesky(shape)
    inverse = np.linalg.inv(lower)
    softened = soften(inverse @ best.covariances @ inverse.T, _NARROWEST, 0.0, 1e3)
    kept = cloud.kept
    # As far as the grid is noise: half of the frame's variance, and equal weights.
    white = kept * softened + (1 - kept) * 0.5 * np.eye(region.d)
    lower = unit[:, None] * lower
    share = kept * best.weights + (1 - kept) / k
    share = np.maximum(share, _LEAST_WEIGHT / k)
    means = region.inside(best.means * unit)
    return Mixture("full", share / share.sum(), means, lower @ white @ lower.T)


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
        i = int(np.argmax(self.value))
        parts = (self.value, self.share, self.weights, self.means, self.covariances)
        return PointsFit(*(part[i] for part in parts))


def fitted(
    points: Array, weights: Array, shape: Array, k: int, rng: np.random.Generator
) -> PointsFit:
    """The best of several runs of EM on points with weights; ``shape``: about their covariance."""
    starts = []
    for turn in (np.eye(len(shape)), np.linalg.cholesky(np.linalg.inv(shape))):
        centres, _ = weighted_kmeans(points @ turn, weights, k, rng, _TRIES)
        starts.append(centres @ np.linalg.inv(turn))
    chances = weights / weights.sum()
    starts += [points[rng.choice(len(points), k, p=chances)] for _ in range(_DRAWS)]
    features = _features(points)
    tried = _em(features, chances, np.stack([_nearest(points, c) for c in starts]), _SHORT)
    best = np.argsort(-tried.value, kind="stable")[:_KEPT]
    return _em(features, chances, tried.share[best], _LONG).best


def _nearest(points: Array, means: Array) -> Array:
    """One for the nearest mean of each point, (K, n)."""
    nearest = np.argmin(np.sum(means**2, axis=1)[:, None] - 2 * (means @ points.T), axis=0)
    return np.asarray(np.equal(nearest, np.arange(len(means))[:, None]), dtype=np.float64)


def _em(features: Array, chances: Array, share: Array, iterations: int) -> PointsFit:
    """EM with full covariances of points given by features; several runs at once.

    From responsibilities (runs, K, n), until no run gains.
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
        covariances = second - means[:, :, None] * means[:, None, :] + _LEAST * np.eye(d)
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
