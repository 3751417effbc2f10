"""dask: exact EM on Parquet files, streamed by worker processes, against one process.

The same files, the same start, the same number of iterations; BLAS held to one thread everywhere.
The sides take turns, each in processes of its own: "one" is one process with one thread of ours
(polars reads beside it), "threads" the same with as many as there are cores, "files" are workers
given the path (``privem.data.on_cluster``), "frame" workers given ``dask.dataframe.read_parquet``.
"s" is wall time, "CPU s" that of all processes together (driver, scheduler and workers), both of
the iterations alone: (fit of 1 + m) - (fit of 1), the median of the rounds. "of cores": throughput
over that of "one" times the cores that are used, the number of workers or, if that is less, of this
machine's cores. "of CPU": CPU time of "one" over that of the side, the median of the rounds.
"driver CPU s" is the part of the driver, with the scheduler, which lives in the same process, and
"MB" its peak memory. "apart" is the difference of the lower bounds.

    python -m benchmarks.dask --rows 5e6 5e7 --workers 4
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
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .data import clusters, start_values

__all__ = ["COLUMNS", "rows"]

COLUMNS = {
    "case": "<42",
    "s": ">8.2f",
    "CPU s": ">8.2f",
    "driver CPU s": ">13.2f",
    "of cores": ">9.2f",
    "of CPU": ">7.2f",
    "MB": ">6.0f",
    "apart": ">8.0e",
}
_D, _K, _MORE = 10, 10, 4
_SIDES = ("one", "threads", "files", "frame")


def rows(quick: bool) -> Iterator[dict[str, Any]]:
    for n in (200_000,) if quick else (1_000_000, 4_000_000):
        size = 25_000 if quick else n // 16
        yield from compared(n, 2 if quick else 4, size, size, 1 if quick else 3, _SIDES)


def compared(
    n: int, workers: int, file: int, partition: int | None, rounds: int, sides: Sequence[str]
) -> Iterator[dict[str, Any]]:
    """One size: every side in processes of its own, in turns."""
    with tempfile.TemporaryDirectory(prefix="privem-bench-") as folder:
        _child("write", folder, str(n), str(file), str(workers))
        found: dict[str, list[dict[str, float]]] = {side: [] for side in sides}
        for _ in range(rounds):
            for side in sides:
                found[side].append(_child(side, folder, str(workers), str(partition or "")))
    cores = min(workers, len(os.sched_getaffinity(0)))
    one = found["one"]
    for side, runs in found.items():

        def median(number: Callable[[dict[str, float], dict[str, float]], float]) -> float:
            return float(np.median([number(*pair) for pair in zip(one, runs, strict=True)]))  # noqa: B023

        yield {
            "case": f"n={n:,} d={_D} K={_K} {side}" + f" x{workers}" * (side in ("files", "frame")),
            "s": median(lambda a, b: b["wall"]),
            "CPU s": median(lambda a, b: b["cpu"]),
            "driver CPU s": median(lambda a, b: b["driver"]),
            "of cores": median(lambda a, b: a["wall"] / b["wall"] / cores),
            "of CPU": median(lambda a, b: a["cpu"] / b["cpu"]),
            "MB": max(run["peak"] for run in runs),
            "apart": median(lambda a, b: abs(a["bound"] - b["bound"])),
        }


def _child(*arguments: str) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.dask", *arguments]
    root = Path(__file__).parents[1]
    done = subprocess.run(command, cwd=root, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout.splitlines()[-1]) if done.stdout else {}


def _write(folder: Path, n: int, file: int, workers: int) -> None:
    """The files, and small ones on which every worker loads its libraries."""
    import polars as pl

    (folder / "rows").mkdir()
    (folder / "warm").mkdir()
    names = [f"x{j}" for j in range(_D)]
    for number, start in enumerate(range(0, n, file)):
        X = clusters(min(file, n - start), _D, _K)
        frame = pl.DataFrame(X, schema=names)
        if not number:
            np.savez(folder / "start.npz", **start_values(X, _K, "full"))
            for other in range(4 * workers):
                frame[:2000].write_parquet(folder / "warm" / f"{other:06}.parquet")
        path = folder / "rows" / f"{number:06}.parquet"
        frame.write_parquet(path, compression="uncompressed")


def _timed(
    opened: Callable[[Path, bool], Any], folder: Path, cpu: Callable[[], float], n_jobs: int
) -> dict[str, float]:
    """The cost of the iterations, without opening, the first pass and the first iteration."""
    from privem import GaussianMixture

    warnings.simplefilter("ignore")
    given, spent = dict(np.load(folder / "start.npz")), []
    cases = [("warm", 2), ("rows", 1), ("rows", 1 + _MORE)]
    for name, iterations in cases:
        X = opened(folder / name, name == "warm")
        model = GaussianMixture(
            _K, max_iter=iterations, tol=0.0, n_jobs=n_jobs, epsilon=None, **given
        )
        before = time.perf_counter(), cpu(), time.process_time()
        model.fit(X)
        after = time.perf_counter(), cpu(), time.process_time()
        spent.append(np.subtract(after, before))
    wall, work, driver = spent[2] - spent[1]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    bound = float(model.lower_bound_)
    return {"wall": wall, "cpu": work, "driver": driver, "bound": bound, "peak": peak}


def _one(folder: Path, n_jobs: int) -> dict[str, float]:
    return _timed(lambda path, _: path, folder, time.process_time, n_jobs)


def _dask(side: str, folder: Path, workers: int, partition: int | None) -> dict[str, float]:
    import dask.dataframe as dd
    from distributed import Client, LocalCluster

    from privem.data import on_cluster

    def opened(path: Path, warm: bool) -> Any:
        if side == "frame":
            return dd.read_parquet(str(path))
        return on_cluster(path, partition_rows=1 if warm else partition)

    with (
        LocalCluster(
            n_workers=workers, threads_per_worker=1, host="127.0.0.1", dashboard_address=":0"
        ) as cluster,
        Client(cluster) as client,
    ):

        def cpu() -> float:
            return time.process_time() + sum(client.run(time.process_time).values())

        return _timed(opened, folder, cpu, 1)


def _main() -> None:
    from .table import show

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=float, nargs="+", default=[4e6])
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--file", type=float, default=250_000, help="rows in a file")
    parser.add_argument("--partition", type=float, help="rows that a task of 'files' sums at least")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sides", nargs="+", choices=_SIDES, default=_SIDES)
    given = parser.parse_args()
    sides = list(dict.fromkeys(["one", *given.sides]))
    partition = None if given.partition is None else int(given.partition)
    print(f"{len(os.sched_getaffinity(0))} cores, load before: {os.getloadavg()[0]:.1f}")
    cases = (
        row
        for n in given.rows
        for row in compared(int(n), given.workers, int(given.file), partition, given.rounds, sides)
    )
    show(__doc__, COLUMNS, cases)
    print(f"load after: {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
    match sys.argv[1:]:
        case ["write", folder, n, file, workers]:
            _write(Path(folder), int(n), int(file), int(workers))
        case ["one", folder, *_]:
            print(json.dumps(_one(Path(folder), 1)))
        case ["threads", folder, *_]:
            print(json.dumps(_one(Path(folder), len(os.sched_getaffinity(0)))))
        case [("files" | "frame") as side, folder, workers, partition]:
            size = int(partition) if partition else None
            print(json.dumps(_dask(side, Path(folder), int(workers), size)))
        case _:
            _main()
