"""parquet: fitting an uncompressed Parquet file of 5 million rows and 20 columns, K=10.

Each fit runs in a fresh process: peak resident memory of the whole process (floor: under 600 MB),
and CPU time of the fit, all threads together, against the same rows as an array in memory (floor:
at most 1.4 times). "given": three iterations from given values; "default": splitting start first.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from .data import clusters, start_values
from .table import verdict

__all__ = ["COLUMNS", "rows"]

COLUMNS = {
    "case": "<24",
    "array CPU s": ">11.2f",
    "file CPU s": ">10.2f",
    "ratio": ">6.2f",
    "floor": ">6.1f",
    "array MB": ">8.0f",
    "file MB": ">7.0f",
    "ok": "<5",
}
_D, _K = 20, 10


def rows(quick: bool) -> Iterator[dict[str, Any]]:
    n, repeats = (300_000, 1) if quick else (5_000_000, 3)
    with tempfile.TemporaryDirectory(prefix="privem-bench-") as folder:
        _child("write", folder, str(n))
        for start in ("given", "default"):
            runs = {"array": [], "file": []}  # type: dict[str, list[dict[str, float]]]
            for _ in range(repeats):
                for what, seen in runs.items():
                    seen.append(_child(what, folder, start))
            array, file = (median(run["cpu"] for run in seen) for seen in runs.values())
            peak = {what: max(run["peak"] for run in seen) for what, seen in runs.items()}
            yield {
                "case": f"n={n:,} {start}",
                "array CPU s": array,
                "file CPU s": file,
                "ratio": file / array,
                "floor": 1.4,
                "array MB": peak["array"],
                "file MB": peak["file"],
                "ok": verdict(file <= 1.4 * array and peak["file"] < 600),
            }


def _child(*arguments: str) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.parquet", *arguments]
    root = Path(__file__).parents[1]
    done = subprocess.run(command, cwd=root, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout or "{}")


def _write(folder: Path, n: int) -> None:
    import polars as pl

    X = clusters(n, _D, _K)
    np.save(folder / "rows.npy", X)
    np.savez(folder / "start.npz", **start_values(X, _K, "full"))
    frame = pl.DataFrame(X, schema=[f"x{j}" for j in range(_D)])
    frame.write_parquet(folder / "rows.parquet", compression="uncompressed")


def _fit(what: str, folder: Path, start: str) -> None:
    from privem import GaussianMixture

    warnings.simplefilter("ignore")
    given = dict(np.load(folder / "start.npz")) if start == "given" else {}
    X = np.load(folder / "rows.npy") if what == "array" else folder / "rows.parquet"
    model = GaussianMixture(_K, max_iter=3, tol=0.0, n_jobs=1, epsilon=None, **given)
    began = time.process_time()
    model.fit(X)
    cpu = time.process_time() - began
    print(json.dumps({"cpu": cpu, "peak": _peak_megabytes(), "bound": model.lower_bound_}))


def _peak_megabytes() -> float:
    # ru_maxrss survives exec, so a child of a large process reports its parent's peak.
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii")
        line = next(line for line in status.splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024 / 1e6
    except (OSError, StopIteration):
        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6


if __name__ == "__main__":
    os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
    if sys.argv[1] == "write":
        _write(Path(sys.argv[2]), int(sys.argv[3]))
    else:
        _fit(sys.argv[1], Path(sys.argv[2]), sys.argv[3])
