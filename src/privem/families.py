"""Made-up records that public numbers describe, for the rehearsals of :mod:`privem.planning`.

Groups that lie ``separation`` standard deviations apart, on average, from their nearest neighbour.
They differ in shape (deviations of 0.6 to 1.6 along axes of their own) and in size (the largest
holds twice as many records as the smallest). Public bounds are wide: records fill a third of them.

What other models have instead of groups is drawn by their declarations from the parts below.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .declaration import Declaration, MadeUp, Public
from .linalg import Array

# Bounds are so many times as wide as the records.
WIDE = 3.0
# Deviations within a group, along its axes, lie between one over this and this.
_SHAPE = 1.6
# How often points are drawn, to keep those that are spread best.
_DRAWS = 32


def made_up(declared: Declaration, public: Public, rng: np.random.Generator) -> MadeUp:
    """Records that a model fits well: its own family or, if it has none, one of those below."""
    default = lines if declared.target else groups
    make = declared.own_family or (classes if declared.categories else default)
    return make(public, rng)


def groups(public: Public, rng: np.random.Generator) -> MadeUp:
    """Gaussian groups.

    Examples
    --------
    >>> public = Public(100, 2, 3, 4.0, 4, {})
    >>> groups(public, np.random.default_rng(0)).data[0].shape
    (100, 2)
    """
    n, d, k = public.records, public.features, public.components
    centres, X = apart(k, d, public.separation, rng), rng.standard_normal((n, d))
    label = members(n, k, rng)
    for j in range(k):
        axes = np.linalg.qr(rng.standard_normal((d, d)))[0] if d <= _MOST_TURNED else np.eye(d)
        spread = _SHAPE ** rng.uniform(-1, 1, d)
        X[label == j] = centres[j] + (X[label == j] * spread) @ axes
    return numbers(X)


# Axes of more columns than this stay as they are: to turn them would take longer than the fit.
_MOST_TURNED = 128


def numbers(X: Array, *names: str) -> MadeUp:
    """Columns of numbers, within wide bounds; noise on ``names`` in deviations of a column."""
    bounds = wide(X)
    size = math.sqrt(float(np.mean(X.var(axis=0))))
    located = dict.fromkeys(names or ("means_",), size) | {"background_weight_": 1.0}
    uniform = -float(np.sum(np.log(bounds[1] - bounds[0])))
    return MadeUp((X,), uniform, {}, {"bounds": bounds}, located)


def lines(public: Public, rng: np.random.Generator) -> MadeUp:
    """Targets that follow one of several lines, with noise of deviation one."""
    n, d, k = public.records, public.features, public.components
    slopes, X = apart(k, d, public.separation, rng), rng.standard_normal((n, d))
    y = np.sum(X * slopes[members(n, k, rng)], axis=1) + rng.standard_normal(n)
    return explained(X, y)


def explained(X: Array, y: Array, **instead: Any) -> MadeUp:
    """Records and targets, within wide bounds; ``instead`` of what else an estimator was given."""
    low, high = (float(side[0]) for side in wide(y[:, None]))
    instead |= {"bounds": wide(X), "target_bounds": (low, high)}
    deviation = float(np.std(y))
    return MadeUp((X, y), -math.log(high - low), {}, instead, {"intercept_": deviation})


def classes(public: Public, rng: np.random.Generator) -> MadeUp:
    """Latent classes: each prefers one category of every column."""
    n, d, k = public.records, public.features, public.components
    known = _categories(public.arguments.get("categories"), d, public.categories)
    label = members(n, k, rng)
    columns = []
    for values in known:
        liked = rng.permutation(np.arange(k) % len(values))
        odds = np.exp(public.separation / 2 * (np.arange(len(values)) == liked[:, None]))
        reached = np.cumsum(odds / odds.sum(axis=1, keepdims=True), axis=1)[label]
        columns.append(np.minimum((rng.random((n, 1)) > reached).sum(axis=1), len(values) - 1))
    alone = -float(sum(math.log(len(values)) for values in known))
    numbered = [[float(j) for j in range(len(values))] for values in known]
    X = np.column_stack(columns).astype(np.float64)
    return MadeUp((X,), alone, {"categories": numbered})


def _categories(given: Any, d: int, usual: int) -> list[Any]:
    """How many there are, of each column; lists of that length."""
    if given is None:
        return [range(usual)] * d
    parts = list(given.values()) if hasattr(given, "values") else list(given)
    each = all(hasattr(part, "__len__") and not isinstance(part, str) for part in parts)
    return parts if each else [parts] * d


def members(n: int, k: int, rng: np.random.Generator) -> Any:
    """The group of each of ``n`` records; the largest of ``k`` is twice the smallest."""
    shares = np.linspace(1.0, 2.0, k)
    return rng.choice(k, size=n, p=shares / shares.sum())


def apart(k: int, d: int, separation: float, rng: np.random.Generator) -> Array:
    """So many points in d dimensions, about the origin and well spread.

    On average, the nearest neighbour of a point lies ``separation`` away. One point alone lies at
    half of that from the origin.
    """
    if k == 1:
        one = rng.standard_normal((1, d))
        return np.asarray(one * separation / 2 / np.linalg.norm(one))
    best, fairest = np.zeros((k, d)), -1.0
    for _ in range(_DRAWS):
        points = rng.standard_normal((k, d))
        away = np.linalg.norm(points[:, None] - points, axis=2) + np.diag(np.full(k, np.inf))
        nearest = away.min(axis=1)
        if nearest.min() / nearest.mean() > fairest:
            fairest = float(nearest.min() / nearest.mean())
            best = (points - points.mean(axis=0)) * (separation / nearest.mean())
    return best


def wide(X: Array) -> tuple[Array, Array]:
    """Public bounds of each column: three times as wide as the largest value."""
    most = WIDE * np.max(np.abs(X), axis=0)
    return -most, most
