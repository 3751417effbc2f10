"""memory: peak traced memory of a fit on top of the data, by number of rows.

tracemalloc sees every NumPy allocation. The data exist before it starts; what a fit hands back
(labels of k-means) is subtracted. Floors: under 32 MB, and within 2 MB between the two sizes.
The default start, two threads over blocks.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from typing import Any

from privem import FactorAnalysis, GaussianMixture, KMeans

from .data import Array, clusters
from .table import verdict

__all__ = ["COLUMNS", "rows"]

COLUMNS = {
    "case": "<34",
    "small n MB": ">10.2f",
    "large n MB": ">10.2f",
    "difference MB": ">13.2f",
    "ok": "<5",
}


def _models() -> Iterator[tuple[str, Any]]:
    two: dict[str, Any] = {"n_jobs": 2, "epsilon": None}
    for kind in ("full", "tied", "diag"):
        model = GaussianMixture(5, covariance_type=kind, tol=0.0, max_iter=2, **two)
        yield f"GaussianMixture {kind}", model
    yield "KMeans", KMeans(5, max_iter=5, **two)
    yield "KMeans k-means++", KMeans(5, init="k-means++", max_iter=5, random_state=0, **two)
    yield "FactorAnalysis", FactorAnalysis(2, **two)


def _peak(model: Any, X: Array) -> float:
    """Megabytes at the peak of a fit, beyond what is there before and what it returns."""
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        model.fit(X)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    labels = getattr(model, "labels_", None)
    return (peak - before - (0 if labels is None else labels.nbytes)) / 1e6


def rows(quick: bool) -> Iterator[dict[str, Any]]:
    sizes = (20_000, 500_000) if quick else (100_000, 10_000_000)
    X = clusters(max(sizes), 4, 5)
    for name, model in _models():
        model.fit(X[:1000])  # Imports and caches that happen once.
        small, large = (_peak(model, X[:n]) for n in sizes)
        good = max(small, large) < 32 and abs(large - small) < 2
        yield _row(f"{name}, {sizes[0]:.0e} {sizes[1]:.0e}", small, large, good)
    del X
    for d, k in ((20, 32), (100, 10)):  # The widest of the speed cases.
        X = clusters(20_000 if quick else 100_000, d, k)
        model = GaussianMixture(k, tol=0.0, max_iter=2, n_jobs=2, epsilon=None).fit(X[:1000])
        small, large = _peak(model, X[: len(X) // 4]), _peak(model, X)
        good = max(small, large) < 32 and abs(large - small) < 2
        yield _row(
            f"GaussianMixture d={d} K={k}, {len(X) // 4:.0e} {len(X):.0e}", small, large, good
        )


def _row(case: str, small: float, large: float, good: bool) -> dict[str, Any]:
    return {
        "case": case,
        "small n MB": small,
        "large n MB": large,
        "difference MB": large - small,
        "ok": verdict(good),
    }
