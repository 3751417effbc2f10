"""linear: CPU time of one EM iteration as the number of rows grows (d=4, K=5, full).

(fit of 6 iterations - fit of 1) / 5, the better of three. Linear means that the nanoseconds per row
stay level; what a stage costs whatever the rows shows at the small end.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from privem import GaussianMixture

from .data import clusters, start_values

__all__ = ["COLUMNS", "rows"]

COLUMNS = {
    "case": "<12",
    "ms": ">9.2f",
    "ns/row": ">7.1f",
    "": "<42",
}


def rows(quick: bool) -> Iterator[dict[str, Any]]:
    sizes = np.logspace(4, 6 if quick else 7, 5 if quick else 7).round(-3).astype(int)
    X = clusters(int(sizes[-1]), 4, 5)
    common = dict(n_components=5, tol=0.0, n_jobs=1, epsilon=None, **start_values(X, 5, "full"))
    seen = []
    for n in map(int, sizes):
        best = np.inf
        for _ in range(3):
            seconds = {}
            for iterations in (6, 1):
                began = time.process_time()
                GaussianMixture(max_iter=iterations, **common).fit(X[:n])
                seconds[iterations] = time.process_time() - began
            best = min(best, (seconds[6] - seconds[1]) / 5)
        each = best / n * 1e9
        seen.append(each)
        yield {"case": f"n={n:,}", "ms": best * 1e3, "ns/row": each, "": "#" * round(each / 2.5)}
    yield {"case": "max / min", "ns/row": max(seen) / min(seen)}
