"""robust: robust gradients of the symmetric mixture, ns per element, one core.

The gradients are those of Algorithm 2 of Wang et al. 2023.

n = 100,000 records of d features, one pass in blocks. "smooth" is the truncation alone; "pass" the
whole sum with bounding box, E-step and gradient. The scale s is Algorithm 2's for full batches (tau
10, failure 0.05, epsilon 1) or smaller, where more elements need the correction. Floor: 15 ns per
element for the pass at the usual scale. "MB" is the pass's own peak memory.
"""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Iterator
from typing import Any

import numpy as np

from privem.blocks.bounding import Robust
from privem.blocks.gradient import BoundedGradientQuery
from privem.blocks.region import Region
from privem.blocks.robust_mean import papers_scale
from privem.core import Block, Scratch
from privem.data import ArrayRows
from privem.kernels.robust import robust_rows
from privem.models.symmetric.query import SymmetricGradient

__all__ = ["COLUMNS", "rows"]

COLUMNS = {
    "case": "<28",
    "smooth": ">8.2f",
    "pass": ">8.2f",
    "MB": ">7.1f",
    "ok": ">6",
}
_FLOOR = 15.0


def _pass(query: BoundedGradientQuery, X: np.ndarray) -> float:
    scratch = Scratch()
    began = time.process_time()
    for block in ArrayRows(X).blocks(query.block_rows):
        query(block, scratch)
    return time.process_time() - began


def _smooth(X: np.ndarray, bounding: Robust, size: int) -> float:
    scratch, seconds = Scratch(), 0.0
    for block in ArrayRows(X).blocks(size):
        values = np.ascontiguousarray(block.X)
        copy = values.copy()
        began = time.process_time()
        robust_rows(copy, bounding.scale, bounding.beta, scratch)
        seconds += time.process_time() - began
    return seconds


def rows(quick: bool) -> Iterator[dict[str, Any]]:
    n, d = 20_000 if quick else 100_000, 100
    rng = np.random.default_rng(0)
    beta = rng.normal(size=d)
    beta *= 3 / np.linalg.norm(beta)
    X = rng.choice([-1.0, 1.0], n)[:, None] * beta + rng.normal(size=(n, d))
    usual = papers_scale("algorithm 2", 10.0, n, 1.0, 1e-6, 0.05)
    for scale in (usual.scale, 10.0, 3.0, 1.0):
        bounding = Robust(scale, usual.beta)
        query = BoundedGradientQuery(
            SymmetricGradient(beta, 1.0), bounding, Region.around_origin(20.0, d)
        )
        query(Block(X[:8]), Scratch())
        whole = min(_pass(query, X) for _ in range(3)) / X.size * 1e9
        smooth = min(_smooth(X, bounding, query.block_rows) for _ in range(3)) / X.size * 1e9
        tracemalloc.start()
        _pass(query, X)
        peak = tracemalloc.get_traced_memory()[1] / 1e6
        tracemalloc.stop()
        row = {"case": f"n={n:,} d={d} s={scale:.3g}", "smooth": smooth, "pass": whole, "MB": peak}
        if scale == usual.scale:
            row["ok"] = "ok" if whole <= _FLOOR else "short"
        yield row
