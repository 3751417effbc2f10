"""threads: wall time of one EM iteration with one and two threads over blocks.

(fit of 6 iterations - fit of 1) / 5 in wall seconds, the better of several, BLAS at one thread.
No floor: how much a second thread gives depends on what else the machine is doing.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from privem import GaussianMixture

from .data import clusters, start_values

__all__ = ["COLUMNS", "rows"]

COLUMNS = {"case": "<28", "n_jobs=1 ms": ">11.1f", "n_jobs=2 ms": ">11.1f", "ratio": ">6.2f"}
CASES = [(1_000_000, 10, 10, "full"), (1_000_000, 10, 10, "diag"), (100_000, 100, 10, "full")]


def rows(quick: bool) -> Iterator[dict[str, Any]]:
    for n, d, k, kind in CASES[:1] if quick else CASES:
        X = clusters(n // (10 if quick else 1), d, k)
        common = dict(n_components=k, covariance_type=kind, tol=0.0, **start_values(X, k, kind))
        best = {1: float("inf"), 2: float("inf")}
        for _ in range(3 if quick else 5):
            for jobs in best:
                seconds = {}
                for iterations in (6, 1):
                    model = GaussianMixture(
                        max_iter=iterations, n_jobs=jobs, epsilon=None, **common
                    )
                    began = time.perf_counter()
                    model.fit(X)
                    seconds[iterations] = time.perf_counter() - began
                best[jobs] = min(best[jobs], (seconds[6] - seconds[1]) / 5)
        yield {
            "case": f"n={len(X):,} d={d} K={k} {kind}",
            "n_jobs=1 ms": best[1] * 1e3,
            "n_jobs=2 ms": best[2] * 1e3,
            "ratio": best[1] / best[2],
        }
