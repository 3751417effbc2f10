"""border: both kernels of the full mixture where they change places.

Nanoseconds per row of one pass through each kernel, the better of three, and which of them
``models.gaussian_mixture.direct_is_faster`` picks.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from privem.data import ArrayRows, LocalSource
from privem.models.gaussian_mixture.model import Mixture, MixtureQuery, direct_is_faster

from .data import clusters
from .table import verdict

__all__ = ["COLUMNS", "rows"]

COLUMNS = {
    "case": "<12",
    "quadratic ns": ">12.0f",
    "direct ns": ">9.0f",
    "picked": "<10",
    "loss": ">6.0%",
    "ok": "<5",
}


def rows(quick: bool) -> Iterator[dict[str, Any]]:
    n = 8_000 if quick else 40_000
    for k in (3, 10):
        for d in (20, 30, 40, 50, 60, 75, 100):
            X = clusters(n, d, k)
            some = np.random.default_rng(0).choice(n, size=k, replace=False)
            covariances = np.stack([np.cov(X[: 20 * d].T)] * k)
            mixture = Mixture("full", np.full(k, 1 / k), X[some], covariances)
            source = LocalSource(ArrayRows(X), n_jobs=1)
            seconds = {}
            for direct in (False, True):
                query = MixtureQuery(mixture, X.mean(axis=0), direct)
                times = []
                for _ in range(4):  # The first one warms up.
                    began = time.process_time()
                    for _ in source.each(query, query.block_rows):
                        pass
                    times.append(time.process_time() - began)
                seconds[direct] = min(times[1:])
            picked = direct_is_faster(mixture)
            loss = seconds[picked] / min(seconds.values()) - 1
            yield {
                "case": f"d={d} K={k}",
                "quadratic ns": seconds[False] / n * 1e9,
                "direct ns": seconds[True] / n * 1e9,
                "picked": "direct" if picked else "quadratic",
                "loss": loss,
                "ok": verdict(loss < 0.15),
            }
