"""private_speed: CPU time of a private mixture fit against exact EM with as many iterations.

Both are privem's, on the same rows: 1 BLAS thread, CPU seconds, taking turns; medians of ratios.
"iteration": (fit of 10 - fit of 1) / 9 from a given start. "fit": the whole fit of 10 iterations
from that start; "default": of 10 iterations from each side's own start, once. Private: epsilon 1,
delta 1e-6, mechanism "whitened" (so that no other structure is chosen); the box holds all rows, the
ball nine tenths of their largest norm. "wanted" is for the fit from a given start.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from statistics import median
from typing import Any

import numpy as np

from privem import GaussianMixture, KMeans

from .data import Array, clusters, start_values
from .table import verdict

__all__ = ["COLUMNS", "rows"]

SIZES = [
    (100_000, 2, 5),
    (100_000, 10, 5),
    (100_000, 10, 10),
    (100_000, 20, 10),
    (100_000, 50, 5),
    (100_000, 50, 10),
    (1_000_000, 2, 5),
    (1_000_000, 10, 10),
    (1_000_000, 20, 5),
]
CASES = [
    *[(*s, "full", where, "replace-one") for s in SIZES for where in ("box", "ball")],
    (100_000, 2, 5, "full", "box", "add-remove"),
    (100_000, 10, 10, "full", "box", "add-remove"),
    (1_000_000, 10, 10, "full", "ball", "add-remove"),
    *[
        (200_000, 10, 10, kind, where, "replace-one")
        for kind in ("diag", "spherical", "tied", "k-means")
        for where in ("box", "ball")
    ],
]
COLUMNS = {
    "case": "<50",
    "exact ms": ">8.1f",
    "private ms": ">10.1f",
    "iteration": ">9.2f",
    "fit": ">6.2f",
    "default": ">7.2f",
    "wanted": ">6.1f",
    "ok": "<5",
}
_ITERATIONS = 10


def _seconds(model: Any, X: Array) -> float:
    began = time.process_time()
    model.fit(X)
    return time.process_time() - began


def _exact(kind: str, k: int, iterations: int, start: dict[str, Any]) -> Any:
    if kind == "k-means":
        start = {"init": start["means_init"]} if start else {}
        return KMeans(k, epsilon=None, max_iter=iterations, tol=0.0, n_init=1, n_jobs=1, **start)
    return GaussianMixture(
        k,
        covariance_type=kind,
        epsilon=None,
        max_iter=iterations,
        tol=0.0,
        n_jobs=1,
        **start,
    )


def _private(kind: str, k: int, iterations: int, start: dict[str, Any], given: Any) -> Any:
    common = {"epsilon": 1.0, "delta": 1e-6, "mechanism": "whitened", "n_jobs": 1, **given}
    if kind == "k-means":
        start = {"init": start["means_init"]} if start else {}
        return KMeans(k, n_iter=iterations, random_state=0, **common, **start)
    return GaussianMixture(
        k, covariance_type=kind, n_iter=iterations, random_state=0, **common, **start
    )


def rows(quick: bool) -> Iterator[dict[str, Any]]:
    for n, d, k, kind, where, neighbours in CASES[:4] if quick else CASES:
        X = clusters(n // (10 if quick else 1), d, k)
        repeats = 3 if n * d > 2_000_000 or quick else 5
        side, radius = float(np.abs(X).max()), float(np.linalg.norm(X, axis=1).max())
        given = {
            "bounds": (-side, side) if where == "box" else 0.9 * radius,
            "neighbours": neighbours,
        }
        start = start_values(X, k, "full" if kind == "k-means" else kind)
        own = 0.0
        seen: dict[str, list[float]] = {name: [] for name in ("e", "p", "iteration", "fit")}
        for turn in range(repeats + 1):
            e10, e1 = (_seconds(_exact(kind, k, t, start), X) for t in (_ITERATIONS, 1))
            p10, p1 = (_seconds(_private(kind, k, t, start, given), X) for t in (_ITERATIONS, 1))
            if turn == 0:
                continue  # warms up
            e, p = (e10 - e1) / (_ITERATIONS - 1), (p10 - p1) / (_ITERATIONS - 1)
            for name, value in (("e", e), ("p", p), ("iteration", p / e), ("fit", p10 / e10)):
                seen[name].append(value)
            if turn == 1:
                own = _seconds(_private(kind, k, _ITERATIONS, {}, given), X)
                own /= _seconds(_exact(kind, k, _ITERATIONS, {}), X)
        wanted = 2.0 if d == 2 else 1.3
        fit = median(seen["fit"])
        yield {
            "case": f"n={len(X):,} d={d} K={k} {kind} {where} {neighbours}",
            "exact ms": median(seen["e"]) * 1e3,
            "private ms": median(seen["p"]) * 1e3,
            "iteration": median(seen["iteration"]),
            "fit": fit,
            "default": own,
            "wanted": wanted,
            "ok": verdict(fit <= wanted),
        }
