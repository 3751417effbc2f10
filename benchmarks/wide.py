"""wide: whole fits of few rows and many columns, CPU time and memory against scikit-learn.

Each library with its own start, one start, K=8 (5 factors), the better of three. MB: peak traced
memory of privem's fit on top of the data. A ratio above one means that privem is faster. Floors: no
exact fit above 100 MB (one 5,000 x 5,000 matrix has 200), and private k-means within 3 seconds.
"""

from __future__ import annotations

import time
import tracemalloc
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import sklearn.cluster
import sklearn.decomposition
import sklearn.mixture

from privem import FactorAnalysis, GaussianMixture, KMeans

from .data import Array
from .table import verdict

__all__ = ["COLUMNS", "rows"]

COLUMNS = {
    "case": "<36",
    "sklearn ms": ">10.1f",
    "privem ms": ">10.1f",
    "ratio": ">6.2f",
    "MB": ">6.1f",
    "ok": "<5",
}


def _data(n: int, d: int) -> Array:
    """Eight clusters that differ in every tenth column."""
    rng = np.random.default_rng(0)
    centres = 3.0 * rng.integers(0, 2, (8, d)) * (rng.random(d) < 0.1)
    return np.asarray(centres[rng.integers(0, 8, n)] + rng.normal(size=(n, d)))


def _models() -> Iterator[tuple[str, Any, Any]]:
    yield "KMeans", sklearn.cluster.KMeans(8, n_init=1, random_state=0), KMeans(8, epsilon=None)
    for kind in ("diag", "spherical"):
        theirs = sklearn.mixture.GaussianMixture(8, covariance_type=kind, random_state=0)
        yield f"mixture {kind}", theirs, GaussianMixture(8, covariance_type=kind, epsilon=None)
    theirs = sklearn.decomposition.FactorAnalysis(5, svd_method="lapack")
    yield "FactorAnalysis", theirs, FactorAnalysis(5, epsilon=None)


def _milliseconds(model: Any, X: Array) -> float:
    best = np.inf
    for _ in range(3):
        began = time.process_time()
        model.fit(X)
        best = min(best, time.process_time() - began)
    return best * 1e3


def _megabytes(model: Any, X: Array) -> float:
    tracemalloc.start()
    try:
        model.fit(X)
        return tracemalloc.get_traced_memory()[1] / 1e6
    finally:
        tracemalloc.stop()


def rows(quick: bool) -> Iterator[dict[str, Any]]:
    warnings.simplefilter("ignore")  # Private fits are repeated, and find few bounds.
    for n, d in [(100, 1000)] if quick else [(200, 5000), (2000, 2000)]:
        X = _data(n, d)
        for name, theirs, ours in _models():
            if name == "FactorAnalysis" and n >= d:
                continue
            ours.set_params(n_jobs=1)
            a, b = _milliseconds(theirs, X), _milliseconds(ours, X)
            size = _megabytes(ours, X)
            case = f"{name}, {n:,} x {d:,}"
            yield _row(case, a, b, size, size < 100)
    n, d = (1000, 1000) if quick else (10_000, 2000)
    X = _data(n, d)
    theirs = sklearn.cluster.KMeans(8, n_init=1, random_state=0)
    a = _milliseconds(theirs, X)
    for name, given in (("bounds given", (-8.0, 11.0)), ("bounds found", None)):
        model = KMeans(8, bounds=given, n_jobs=1, random_state=0)
        b = _milliseconds(model, X)
        yield _row(f"private, {name}, {n:,} x {d:,}", a, b, _megabytes(model, X), b < 3000)


def _row(case: str, theirs: float, ours: float, size: float, good: bool) -> dict[str, Any]:
    return {
        "case": case,
        "sklearn ms": theirs,
        "privem ms": ours,
        "ratio": theirs / ours,
        "MB": size,
        "ok": verdict(good),
    }
