"""kmeans: CPU time of one Lloyd iteration against scikit-learn's KMeans.

One thread, float64, the same start: (fit of 21 iterations - fit of 1) / 20 in CPU seconds, with the
compiled pass and with NumPy alone, the three taking turns; medians of ratios. The data have three
times as many clusters as are fitted, so that no fit is done before.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from statistics import median
from typing import Any

import numpy as np
from sklearn.cluster import KMeans as Theirs

from privem import KMeans as Ours
from privem.kernels.compiled import available

from .data import Array, clusters
from .table import verdict

__all__ = ["COLUMNS", "rows"]

CASES = [(100_000, 10, 8), (1_000_000, 2, 5), (100_000, 50, 20), (10_000, 784, 10)]
# How many times scikit-learn's iteration ours may take.
WANTED = {"compiled": 0.8, "NumPy": 1.5}
COLUMNS = {
    "case": "<24",
    "pass": "<8",
    "sklearn ms": ">10.2f",
    "privem ms": ">9.2f",
    "ratio": ">6.2f",
    "wanted": ">6.1f",
    "apart": ">8.0e",
    "ok": "<5",
}


def _fitted(cls: Any, iterations: int, X: Array, **given: Any) -> tuple[float, Any]:
    model = cls(max_iter=iterations, n_init=1, tol=0.0, **given)
    began = time.process_time()
    model.fit(X)
    return time.process_time() - began, model


def _iteration(cls: Any, X: Array, **given: Any) -> tuple[float, Array]:
    """Seconds per iteration, and the centres after all of them."""
    many, last = _fitted(cls, 21, X, **given)
    one, first = _fitted(cls, 1, X, **given)
    return (many - one) / (last.n_iter_ - first.n_iter_), last.cluster_centers_


def _data(n: int, d: int, k: int) -> Array:
    if d < 100:
        return clusters(n, d, 3 * k)
    # Far fewer directions than columns, or clusters would be told apart at once.
    rng = np.random.default_rng(0)
    few = clusters(n, 3, 3 * k) @ rng.standard_normal((3, d))
    return np.asarray(few + rng.standard_normal((n, d)))


def rows(quick: bool) -> Iterator[dict[str, Any]]:
    kinds = ["compiled", "NumPy"] if available() else ["NumPy"]
    before = os.environ.get("PRIVEM_COMPILED")
    try:
        for n, d, k in CASES:
            X = _data(n // (10 if quick else 1), d, k)
            init = X[np.random.default_rng(1).choice(len(X), k, replace=False)]
            given = {"n_clusters": k, "init": init.copy()}
            seen: dict[str, list[tuple[float, float]]] = {kind: [] for kind in kinds}
            apart = dict.fromkeys(kinds, 0.0)
            for _ in range(3 if quick else 5):
                theirs, centres = _iteration(Theirs, X, algorithm="lloyd", **given)
                for kind in kinds:
                    os.environ["PRIVEM_COMPILED"] = "1" if kind == "compiled" else "0"
                    ours, found = _iteration(Ours, X, epsilon=None, n_jobs=1, **given)
                    seen[kind].append((theirs, ours))
                    apart[kind] = max(apart[kind], float(np.abs(found - centres).max()))
            for kind in kinds:
                ratio = median(ours / theirs for theirs, ours in seen[kind])
                yield {
                    "case": f"n={len(X):,} d={d} K={k}",
                    "pass": kind,
                    "sklearn ms": median(theirs for theirs, _ in seen[kind]) * 1e3,
                    "privem ms": median(ours for _, ours in seen[kind]) * 1e3,
                    "ratio": ratio,
                    "wanted": WANTED[kind],
                    "apart": apart[kind],
                    "ok": verdict(ratio <= WANTED[kind]),
                }
    finally:
        os.environ.pop("PRIVEM_COMPILED")
        if before is not None:
            os.environ["PRIVEM_COMPILED"] = before
