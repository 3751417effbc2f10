"""speed: CPU time of one EM iteration against scikit-learn's GaussianMixture.

One process, one BLAS thread, float64, the same start. The time of an iteration is (fit of 6
iterations - fit of 1) / 5 in CPU seconds; five times each, the two libraries taking turns; medians.
"of peak": useful arithmetic (4 K p flops per row, p features of the quadratic kernel: one product
for the densities, one for the sums) against this machine's measured 1024^3 matrix product.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from statistics import median
from typing import Any

import numpy as np
from sklearn.mixture import GaussianMixture as Theirs

from privem import GaussianMixture as Ours
from privem.kernels.mixture import Features

from .data import Array, clusters, start_values
from .table import verdict

__all__ = ["COLUMNS", "gemm_peak", "rows"]

# n, d, K, covariance type, floor of the ratio; None: the diagonal case's ratio is the floor.
CASES = [
    (1_000_000, 2, 5, "full", 15.0),
    (1_000_000, 10, 10, "full", 8.0),
    (500_000, 20, 32, "full", 10.0),
    (200_000, 50, 10, "full", 3.5),
    (100_000, 100, 10, "full", 2.5),
    (2_000_000, 10, 3, "diag", 5.0),
    (2_000_000, 10, 3, "tied", None),
    (2_000_000, 10, 3, "spherical", None),
]
COLUMNS = {
    "case": "<28",
    "sklearn ms": ">10.1f",
    "privem ms": ">9.1f",
    "ns/row": ">7.0f",
    "of peak": ">7.0%",
    "ratio": ">6.1f",
    "floor": ">6.1f",
    "ok": "<5",
}
_KINDS = {"full": "full", "tied": "linear", "diag": "square", "spherical": "norm"}


def gemm_peak(size: int = 1024, repeats: int = 8) -> float:
    """Flops per second of the best of several matrix products on one thread."""
    a, b, out = np.ones((size, size)), np.ones((size, size)), np.empty((size, size))
    best = np.inf
    for _ in range(repeats):
        began = time.process_time()
        np.dot(a, b, out=out)
        best = min(best, time.process_time() - began)
    return 2 * size**3 / best


def _fit_seconds(model: Any, X: Array) -> float:
    began = time.process_time()
    model.fit(X)
    return time.process_time() - began


def rows(quick: bool) -> Iterator[dict[str, Any]]:
    peak = gemm_peak()
    repeats, shrink = (3, 20) if quick else (5, 1)
    yield {"case": "GEMM peak, GFLOP/s", "ns/row": peak / 1e9, "of peak": 1.0}
    diagonal = 0.0
    for n, d, k, kind, floor in CASES:
        X = clusters(n // shrink, d, k)
        common = dict(n_components=k, covariance_type=kind, tol=0.0, **start_values(X, k, kind))
        theirs: list[float] = []
        ours: list[float] = []
        for _ in range(repeats):
            for cls, extra, times in (
                (Theirs, {"init_params": "random_from_data"}, theirs),
                (Ours, {"n_jobs": 1, "epsilon": None}, ours),
            ):
                six = _fit_seconds(cls(max_iter=6, **common, **extra), X)
                one = _fit_seconds(cls(max_iter=1, **common, **extra), X)
                times.append((six - one) / 5)
        slow, fast = median(theirs), median(ours)
        ratio = slow / fast
        floor = floor or diagonal
        diagonal = ratio if kind == "diag" else diagonal
        flops = 4 * k * Features(_KINDS[kind], d).size * len(X)
        yield {
            "case": f"n={len(X):,} d={d} K={k} {kind}",
            "sklearn ms": slow * 1e3,
            "privem ms": fast * 1e3,
            "ns/row": fast / len(X) * 1e9,
            "of peak": flops / fast / peak,
            "ratio": ratio,
            "floor": floor,
            "ok": verdict(ratio >= floor),
        }
