"""threads: wall time of one EM iteration with one and two threads over blocks.

(fit of 6 iterations - fit of 1) / 5 in wall seconds, the better of several, BLAS at one thread, at
every point of the speed benchmark. "busy": CPU over wall time of the fits with two threads; where
it is well below the ratio that is wanted, other work had the cores and the row says nothing.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from privem import GaussianMixture

from .data import clusters, start_values
from .speed import CASES
from .table import verdict

__all__ = ["COLUMNS", "rows"]

COLUMNS = {"case": "<28", "n_jobs=1 ms": ">11.1f", "n_jobs=2 ms": ">11.1f", "ratio": ">6.2f"}
COLUMNS |= {"busy": ">5.2f", "wanted": ">6.1f", "ok": "<5"}
_WANTED = 1.7


def rows(quick: bool) -> Iterator[dict[str, Any]]:
    for n, d, k, kind, _ in CASES[1:2] if quick else CASES:
        X = clusters(n // (10 if quick else 1), d, k)
        common = dict(n_components=k, covariance_type=kind, tol=0.0, **start_values(X, k, kind))
        best, busy = {1: float("inf"), 2: float("inf")}, 0.0
        for _ in range(3 if quick else 5):
            for jobs in best:
                seconds = {}
                for iterations in (6, 1):
                    model = GaussianMixture(
                        max_iter=iterations, n_jobs=jobs, epsilon=None, **common
                    )
                    began, used = time.perf_counter(), time.process_time()
                    model.fit(X)
                    seconds[iterations] = time.perf_counter() - began
                    if jobs == 2:
                        used = time.process_time() - used
                        busy = max(busy, used / seconds[iterations])
                best[jobs] = min(best[jobs], (seconds[6] - seconds[1]) / 5)
        yield {
            "case": f"n={len(X):,} d={d} K={k} {kind}",
            "n_jobs=1 ms": best[1] * 1e3,
            "n_jobs=2 ms": best[2] * 1e3,
            "ratio": best[1] / best[2],
            "busy": busy,
            "wanted": _WANTED,
            "ok": verdict(best[1] / best[2] >= _WANTED),
        }
