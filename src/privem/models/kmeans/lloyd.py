"""k-means of public, weighted points: arithmetic after the releases."""

from __future__ import annotations

import numpy as np

from ...tree import Array

_ITERATIONS = 30
# Measured: with more columns than this a matrix product adds points up faster than a pass for each
# of them, four times as fast at 256 columns and 4 clusters.
_FEW_COLUMNS = 32


def weighted_kmeans(
    points: Array, weights: Array, k: int, rng: np.random.Generator, tries: int
) -> tuple[Array, float]:
    """Centres (K, d) and mean squared distance to them: the best of some k-means++ starts."""
    weights = weights / weights.sum()
    squares = np.einsum("ij,ij->i", points, points)
    best, least = points[:1], np.inf
    for _ in range(tries):
        centres = _seed(points, squares, weights, k, rng)
        centres, cost = _settle(points, squares, weights, centres)
        if cost < least:
            best, least = centres, cost
    return best, least


def _distances(points: Array, squares: Array, centres: Array) -> Array:
    """Squared distances (n, K)."""
    found = -2.0 * (points @ centres.T)
    found += squares[:, None]
    found += np.einsum("ij,ij->i", centres, centres)
    return np.maximum(found, 0.0)


def _seed(points: Array, squares: Array, weights: Array, k: int, rng: np.random.Generator) -> Array:
    """k-means++ that tries a few candidates for each centre (Arthur and Vassilvitskii 2007)."""
    candidates = 2 + int(np.log(k))
    chosen = [int(rng.choice(len(points), p=weights))]
    near = _distances(points, squares, points[chosen])[:, 0]
    while len(chosen) < k:
        cumulated = np.cumsum(weights * near)
        if not cumulated[-1] > 0:  # fewer different points than clusters
            chosen += list(rng.integers(len(points), size=k - len(chosen)))
            break
        drawn = np.searchsorted(cumulated, rng.random(candidates) * cumulated[-1])
        drawn = np.minimum(drawn, len(points) - 1)
        nearer = np.minimum(_distances(points, squares, points[drawn]), near[:, None])
        pick = int(np.argmin(weights @ nearer))
        chosen.append(int(drawn[pick]))
        near = nearer[:, pick]
    return points[chosen]


def _settle(points: Array, squares: Array, weights: Array, centres: Array) -> tuple[Array, float]:
    """Lloyd's algorithm until it gains nothing, at most ``_ITERATIONS`` steps."""
    k, last = len(centres), np.inf
    for _ in range(_ITERATIONS):
        distances = _distances(points, squares, centres)
        label = distances.argmin(axis=1)
        cost = float(weights @ distances[np.arange(len(points)), label])
        if not cost < last * (1 - 1e-6):
            break
        last = cost
        mass = np.bincount(label, weights, k)
        if points.shape[1] > _FEW_COLUMNS:
            member = np.equal(np.arange(k)[:, None], label) * weights
            sums = member @ points
        else:
            sums = np.stack([np.bincount(label, weights * x, k) for x in points.T], axis=1)
        full = mass > 0
        centres = centres.copy()
        centres[full] = sums[full] / mass[full, None]
    return centres, min(cost, last)
