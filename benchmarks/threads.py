"""threads: wall time of one EM iteration with one and two threads over blocks.

(fit of 6 iterations - fit of 1) / 5 in wall seconds, each the shortest of up to five, BLAS at one
thread, at every point of the speed benchmark. "busy": CPU over wall time of fits with two threads;
where it is well below the ratio that is wanted, other work had the cores and the row says nothing.
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
# After so many seconds a point is not measured again, so that all take five minutes at most.
_SECONDS = 22


def rows(quick: bool) -> Iterator[dict[str, Any]]:
    for n, d, k, kind, _ in CASES[1:2] if quick else CASES:
        X = clusters(n // (10 if quick else 1), d, k)
        common = dict(n_components=k, covariance_type=kind, tol=0.0, **start_values(X, k, kind))
        best: dict[tuple[int, int], float] = {}
        busy, began = 0.0, time.perf_counter()
        for turn in range(5):
            if turn > 1 and time.perf_counter() - began > _SECONDS:
                break
            for jobs, iterations in ((1, 6), (2, 6), (1, 1), (2, 1)):
                model = GaussianMixture(max_iter=iterations, n_jobs=jobs, epsilon=None, **common)
                wall, cpu = time.perf_counter(), time.process_time()
                model.fit(X)
                wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
                best[jobs, iterations] = min(best.get((jobs, iterations), wall), wall)
                if (jobs, iterations) == (2, 6):
                    busy = max(busy, cpu / wall)
        one, two = ((best[jobs, 6] - best[jobs, 1]) / 5 for jobs in (1, 2))
        yield {
            "case": f"n={len(X):,} d={d} K={k} {kind}",
            "n_jobs=1 ms": one * 1e3,
            "n_jobs=2 ms": two * 1e3,
            "ratio": one / two,
            "busy": busy,
            "wanted": _WANTED,
            "ok": verdict(one / two >= _WANTED),
        }
