"""dask: exact EM on Parquet files, streamed by worker processes, against one process of polars.

The same files, the same start, the same number of iterations; BLAS held to one thread everywhere.
"s" is wall time, "CPU s" that of all processes together (driver, scheduler and workers), both of
the iterations alone: (fit of 1 + m) - (fit of 1). "of cores": the throughput of the cluster over
that of one process times the cores that it has, which is the number of workers or, if that is
less, of this machine's cores. "of CPU": CPU time of one process over that of the cluster. "driver
MB" is the peak memory of the driver, with the scheduler, which lives in the same process.

    python -m benchmarks.dask --rows 5e7 --workers 4
"""

from __future__ import annotations

import argparse
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
from typing import Any

import numpy as np

from .data import clusters, start_values

__all__ = ["COLUMNS", "rows"]

COLUMNS = {
    "case": "<34",
    "one s": ">8.2f",
    "one CPU s": ">10.2f",
    "dask s": ">8.2f",
    "dask CPU s": ">11.2f",
    "of cores": ">9.2f",
    "of CPU": ">7.2f",
    "driver MB": ">10.0f",
}
_D, _K, _MORE = 10, 10, 4


def rows(quick: bool) -> Iterator[dict[str, Any]]:
    for n in (200_000,) if quick else (1_000_000, 4_000_000):
        yield compared(n, 2 if quick else 4, 50_000 if quick else 250_000)


def compared(n: int, workers: int, partition: int) -> dict[str, Any]:
    """One size: both sides in processes of their own."""
    with tempfile.TemporaryDirectory(prefix="privem-bench-") as folder:
        _child("write", folder, str(n), str(partition))
        one = _child("one", folder)
        dask = _child("dask", folder, str(workers))
    cores = min(workers, len(os.sched_getaffinity(0)))
    return {
        "case": f"n={n:,} d={_D} K={_K} {workers} workers",
        "one s": one["wall"],
        "one CPU s": one["cpu"],
        "dask s": dask["wall"],
        "dask CPU s": dask["cpu"],
        "of cores": one["wall"] / dask["wall"] / cores,
        "of CPU": one["cpu"] / dask["cpu"],
        "driver MB": dask["peak"],
        "apart": abs(one["bound"] - dask["bound"]),
    }


def _child(*arguments: str) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.dask", *arguments]
    root = Path(__file__).parents[1]
    done = subprocess.run(command, cwd=root, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout.splitlines()[-1]) if done.stdout else {}


def _write(folder: Path, n: int, partition: int) -> None:
    import polars as pl

    for number, start in enumerate(range(0, n, partition)):
        X = clusters(min(partition, n - start), _D, _K)
        if not number:
            np.savez(folder / "start.npz", **start_values(X, _K, "full"))
        frame = pl.DataFrame(X, schema=[f"x{j}" for j in range(_D)])
        frame.write_parquet(folder / f"{number:06}.parquet", compression="uncompressed")


def _timed(X: Any, folder: Path, cpu: Any) -> dict[str, float]:
    """The cost of the iterations, without opening, the first pass and the first iteration."""
    from privem import GaussianMixture

    warnings.simplefilter("ignore")
    given, spent, peaks = dict(np.load(folder / "start.npz")), [], []
    for iterations in (1, 1, 1 + _MORE):  # once to load libraries
        model = GaussianMixture(_K, max_iter=iterations, tol=0.0, n_jobs=1, epsilon=None, **given)
        before, began = cpu(), time.perf_counter()
        model.fit(X)
        spent.append((time.perf_counter() - began, cpu() - before))
        peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    (wall, work), (whole, all_work) = spent[1:]
    bound = float(model.lower_bound_)
    return {"wall": whole - wall, "cpu": all_work - work, "bound": bound, "peak": peaks[-1]}


def _one(folder: Path) -> dict[str, float]:
    return _timed(folder, folder, time.process_time)


def _dask(folder: Path, workers: int) -> dict[str, float]:
    import dask.dataframe as dd
    from distributed import Client, LocalCluster

    with (
        LocalCluster(
            n_workers=workers, threads_per_worker=1, host="127.0.0.1", dashboard_address=":0"
        ) as cluster,
        Client(cluster) as client,
    ):

        def cpu() -> float:
            return time.process_time() + sum(client.run(time.process_time).values())

        return _timed(dd.read_parquet(str(folder)), folder, cpu)


def _main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=float, default=4e6)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--partition", type=float, default=250_000)
    given = parser.parse_args()
    for name, value in compared(int(given.rows), given.workers, int(given.partition)).items():
        print(f"{name:>12}: {value}")


if __name__ == "__main__":
    os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
    match sys.argv[1:]:
        case ["write", folder, n, partition]:
            _write(Path(folder), int(n), int(partition))
        case ["one", folder]:
            print(json.dumps(_one(Path(folder))))
        case ["dask", folder, workers]:
            print(json.dumps(_dask(Path(folder), int(workers))))
        case _:
            _main()
