"""The floating-point error of gradient sums is below its bound, against 80-bit arithmetic."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privem.blocks.bounded_sums import in_region
from privem.blocks.bounding import Clip, Robust
from privem.blocks.gradient import BoundedGradientQuery, Squares
from privem.blocks.region import Region
from privem.blocks.robust_mean import RobustMeanQuery
from privem.core import Scratch
from privem.kernels.robust import smoothed_truncation
from privem.linalg import symmetric_pairs
from privem.models.missing_regression.query import MissingCovariateGradient
from privem.models.symmetric.query import (
    DirectionsQuery,
    SquaresQuery,
    SymmetricGradient,
    SymmetricRegressionGradient,
)

from ..models.test_rounding import region_of, total

LONG = np.longdouble
seeds = st.integers(0, 2**32)


def gradients(model, x, raw):
    """Gradients (b, p) and squared residuals as defined, in 80 bits."""
    beta, s = model.beta.astype(LONG), LONG(model.variance)
    if isinstance(model, SymmetricGradient):
        along = x @ beta
        sign = np.tanh(along / s)
        square = np.sum(x * x, axis=1) - 2 * sign * along + beta @ beta
        return sign[:, None] * x - beta, square
    x, y = x[:, :-1], x[:, -1]
    if isinstance(model, SymmetricRegressionGradient):
        if model.whitener is not None:
            x = x @ model.whitener.astype(LONG).T
        fitted = x @ beta
        sign = np.tanh(y * fitted / s)
        return (sign * y - fitted)[:, None] * x, y * y - 2 * sign * y * fitted + fitted**2
    out, squares = [], []
    for row, target, miss in zip(x, y, np.isnan(raw[:, :-1]), strict=True):
        # As the issue states it: m, V, and y m - (m m' + V) b.
        hidden = np.where(miss, beta, 0)
        scale = s + hidden @ hidden
        m = np.where(miss, 0, row)
        m = m + (target - beta @ m) / scale * hidden
        V = np.diag(miss.astype(LONG)) - np.outer(hidden, hidden) / scale
        out.append(target * m - (np.outer(m, m) + V) @ beta)
        squares.append((target - m @ beta) ** 2 + beta @ V @ beta)
    return np.stack(out), np.array(squares)


def bounded(g, bounding):
    if isinstance(bounding, Clip):
        norm = np.sqrt(np.sum(g * g, axis=1, keepdims=True))
        return g / np.maximum(norm / LONG(bounding.radius), LONG(1))
    # Its own error against exact arithmetic has a test of its own; its slope is what counts here.
    a = np.asarray(g / bounding.scale, dtype=np.float64)
    smooth = smoothed_truncation(a, np.abs(a) / math.sqrt(bounding.beta))
    return smooth.astype(LONG) * LONG(bounding.scale)


@pytest.mark.parametrize("model", ["mixture", "regression", "whitened", "missing"])
@settings(max_examples=25)
@given(
    seed=seeds,
    d=st.integers(1, 12),
    bounding=st.sampled_from([Clip(0.5), Clip(20.0), Robust(0.7, 1.73), Robust(30.0, 3.0)]),
    weighted=st.booleans(),
)
def test_gradients(model, seed, d, bounding, weighted):
    rng = np.random.default_rng(seed)
    beta = rng.normal(size=d) * rng.choice([0.1, 3.0])
    variance = float(rng.choice([1e-4, 1.0, 20.0]))
    target = None if model == "mixture" else Region.around_origin(4.0, 1)
    made = {
        "mixture": SymmetricGradient(beta, variance),
        "regression": SymmetricRegressionGradient(beta, variance),
        "whitened": SymmetricRegressionGradient(beta, variance, 9 * rng.normal(size=(d, d))),
        "missing": MissingCovariateGradient(beta, variance),
    }[model]
    region = region_of(("box", "ball", "isotropic")[seed % 3], d)
    query = BoundedGradientQuery(made, bounding, region, target, Squares(0.3, 5.0))
    n = int(rng.integers(1, 700))
    X = rng.normal(size=(n, d + (target is not None))) * 3
    if model == "missing":
        X[:, :-1][rng.random((n, d)) < 0.3] = np.nan
    weight = rng.uniform(0, 1, n) if weighted else None
    x = in_region(X, region, target, Scratch(), missing=model == "missing").T.astype(LONG)
    g, square = gradients(made, x, X)
    w = np.ones(n, dtype=LONG) if weight is None else weight.astype(LONG)
    expected = np.append(w @ bounded(g, bounding), LONG(0.3) * (w @ np.clip(square, 0, LONG(5.0))))
    cuts = sorted(rng.integers(0, n + 1, size=3).tolist())
    found = total(query, X, weight, cuts)
    bound = query.rounding(float(w.sum()))
    assert float(np.linalg.norm((found - expected).astype(float))) <= bound
    # And worth something: far below what one record is hidden by, unless signs are razor-sharp or
    # W is huge.
    assert (
        variance < 1
        or model == "whitened"
        or bound <= 1e-7 * n * query.groups("add-remove")[0].sensitivity
    )


@settings(max_examples=25)
@given(seed=seeds, d=st.integers(1, 8), signed=st.booleans(), white=st.booleans())
def test_directions_and_squares(seed, d, signed, white):
    rng = np.random.default_rng(seed)
    region = region_of(("box", "ball")[seed % 2], d)
    target = Region.around_origin(3.0, 1) if signed else None
    n = int(rng.integers(1, 500))
    X = rng.normal(size=(n, d + signed)) * 2
    whitener = 5 * rng.normal(size=(d, d)) if white else None
    query = DirectionsQuery(region, 0.6, whitener, target, 1.7)
    x = in_region(X, region, target, Scratch()).T.astype(LONG)
    v = x[:, :d] if whitener is None else x[:, :d] @ whitener.astype(LONG).T
    norm = np.sqrt(np.sum(v * v, axis=1, keepdims=True))
    v = v / np.maximum(norm / LONG(0.6), LONG(1)) / LONG(0.6)
    h = np.ones(n, dtype=LONG)
    if signed:
        h = (x[:, d] ** 2 - LONG(1.7)) / (x[:, d] ** 2 + LONG(1.7))
    matrix = (v * h[:, None]).T @ v
    i, j = symmetric_pairs(d)
    expected = matrix[i, j] * np.where(i == j, LONG(1), np.sqrt(LONG(2)))
    found = total(query, X, None, [n // 2])
    assert float(np.linalg.norm((found - expected).astype(float))) <= query.rounding(n)
    radii = (0.9, 0.4) if signed else (0.9,)
    squares = SquaresQuery(region, radii, target)
    parts = [x[:, :d]] + ([x[:, d:]] if signed else [])
    expected = np.array(
        [
            np.minimum(np.sum(p * p, axis=1) / LONG(r) ** 2, 1).sum()
            for p, r in zip(parts, radii, strict=True)
        ]
    )
    found = total(squares, X, None, [n // 3])
    assert float(np.linalg.norm((found - expected).astype(float))) <= squares.rounding(n)


@settings(max_examples=25)
@given(seed=seeds, d=st.integers(1, 5))
def test_means(seed, d):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 900))
    X = rng.standard_t(1.5, size=(n, d)) * 10
    centre, unit = rng.normal(size=d), rng.uniform(0.5, 2, d)
    for bounding in (Clip(3.0), Robust(3.0, 1.73), Robust(2.0, math.inf)):
        query = RobustMeanQuery(centre, unit, bounding)
        difference = ((X - centre) / unit).astype(LONG)
        expected = bounded(difference, bounding).sum(axis=0)
        found = total(query, X, None, [n // 2])
        assert float(np.linalg.norm((found - expected).astype(float))) <= query.rounding(n)
