"""against_commit: CPU time of this checkout against another one, case by case.

    git worktree add ../before COMMIT
    python -m benchmarks.against_commit --before ../before [--after .] [--only WORD]

Each case starts a process per checkout, with BLAS and privem held to one thread. Both make the data
and do the work once, for imports and caches; then they take turns, and who goes first alternates.
"ratio" is the median of after/before over the turns, above one if the code became slower; "+-" is
the 95% interval of that median (1.57 times the distance between the quartiles over the root of the
number of turns). Only public names are used, so that any two commits can be compared.
"""

from __future__ import annotations

import argparse
import importlib
import os
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from .data import Array, clusters, start_values
from .table import show

__all__ = ["CASES", "main"]

COLUMNS = {
    "case": "<46",
    "before ms": ">9.1f",
    "after ms": ">9.1f",
    "ratio": ">6.3f",
    "+-": ">6.3f",
}
ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "POLARS_MAX_THREADS"), "1"
)
# What is timed: called as often as one measurement wants, with nothing kept in between.
Work = Callable[[], object]


def _exact(name: str, n: int, d: int, k: int, **given: Any) -> Work:
    import privem

    X = clusters(n, d, k)
    if name == "GaussianMixture":
        given |= {"tol": 0.0, **start_values(X, k, given["covariance_type"])}
    if name == "KMeans":
        given |= {"tol": 0.0, "init": X[:k]}
    return lambda: getattr(privem, name)(k, epsilon=None, n_jobs=1, **given).fit(X)


def _private(name: str, X: Array, *more: Array, **given: Any) -> Work:
    import privem

    return lambda: getattr(privem, name)(n_jobs=1, **given).fit(X, *more)


def _classes() -> Work:
    rng = np.random.default_rng(0)
    likes = np.where(rng.random((20_000, 1)) < 0.4, 0.8, 0.2)
    X = np.where(rng.random((20_000, 8)) < likes, "yes", "no")
    return _private("CategoricalMixture", X, categories=["no", "yes"], random_state=0)


def _missing() -> Work:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 5))
    y = X @ [1.0, -2.0, 0.5, 0.0, 1.0] + 0.5 * rng.normal(size=len(X))
    X[rng.random(X.shape) < 0.1] = np.nan
    return _private("MissingCovariateRegression", X, y, bounds=8.0, target_bounds=15.0)


def _federated() -> Work:
    from privem import KMeans
    from privem.federation import Federation, Party

    X = clusters(5_000, 4, 3)

    def fit() -> object:
        parties = [Party(X[i::5], f"party {i}", n_jobs=1) for i in range(5)]
        model = KMeans(3, bounds=(-20, 20), n_iter=5, n_jobs=1)
        return model.fit(Federation(parties, protection="masked"))

    return fit


def _csv() -> Work:
    from privem import FactorAnalysis

    folder = tempfile.TemporaryDirectory()
    path = Path(folder.name) / "records.csv"
    np.savetxt(
        path, clusters(100_000, 5, 3), fmt="%.6f", delimiter=",", header="a,b,c,d,e", comments=""
    )

    def fit(keep: object = folder) -> object:
        return FactorAnalysis(1, epsilon=None, n_jobs=1).fit(path)

    return fit


def _process(*code: str) -> Work:
    return lambda: subprocess.run([sys.executable, *code], check=True, capture_output=True)


# How to prepare the work, and how many times one measurement does it.
CASES: dict[str, tuple[Callable[[], Work], int]] = {
    "exact GaussianMixture full, 2e5 x 10, K 5": (
        lambda: _exact("GaussianMixture", 200_000, 10, 5, covariance_type="full", max_iter=10),
        1,
    ),
    "exact GaussianMixture diag, 2e5 x 10, K 5": (
        lambda: _exact("GaussianMixture", 200_000, 10, 5, covariance_type="diag", max_iter=10),
        1,
    ),
    "exact GaussianMixture, small, 500 x 3, K 3": (
        lambda: _exact("GaussianMixture", 500, 3, 3, covariance_type="full", max_iter=50),
        5,
    ),
    "exact KMeans, 2e5 x 10, K 5": (lambda: _exact("KMeans", 200_000, 10, 5, max_iter=20), 2),
    "exact FactorAnalysis, 2e5 x 20": (lambda: _exact("FactorAnalysis", 200_000, 20, 5), 5),
    "private GaussianMixture, 2e4 x 4, bounds found": (
        lambda: _private("GaussianMixture", clusters(20_000, 4, 3), n_components=3),
        1,
    ),
    "private GaussianMixture, 2e4 x 4, box": (
        lambda: _private(
            "GaussianMixture", clusters(20_000, 4, 3), n_components=3, bounds=(-20, 20)
        ),
        1,
    ),
    "private KMeans, 2e4 x 4, box": (
        lambda: _private("KMeans", clusters(20_000, 4, 3), n_clusters=3, bounds=(-20, 20)),
        3,
    ),
    "private CategoricalMixture, 2e4 x 8": (_classes, 2),
    "private MissingCovariateRegression, 2e4 x 5": (_missing, 1),
    "private KMeans, 5 masked parties": (_federated, 1),
    "FactorAnalysis of a CSV file, 1e5 x 5": (_csv, 2),
    "import privem": (lambda: _process("-c", "import privem"), 5),
    "from privem import GaussianMixture": (
        lambda: _process("-c", "from privem import GaussianMixture"),
        1,
    ),
    "privem --help": (lambda: _process("-m", "privem.cli", "--help"), 2),
}


def _cpu() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


class Worker:
    """A process that does the work of one case with the code of one checkout, when asked."""

    def __init__(self, checkout: Path, case: str) -> None:
        env = os.environ | ONE_THREAD | {"PYTHONPATH": str(checkout / "src")}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.against_commit", "--work", case],
            cwd=Path(__file__).parents[1],
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        where = Path(self._read())
        if not where.is_relative_to(checkout):
            raise RuntimeError(f"this would measure {where}, which is not in {checkout}")

    def _read(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the process that does the work has ended")
        return line.strip()

    def milliseconds(self) -> float:
        """CPU time of one turn."""
        print("go", file=self._process.stdin, flush=True)
        return float(self._read())

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


def _work(case: str) -> None:
    """What a worker runs: prepare, then a time for every line that comes in."""
    prepare, times = CASES[case]
    work = prepare()
    work()
    print(importlib.import_module("privem").__file__, flush=True)
    for _ in sys.stdin:
        began = _cpu()
        for _ in range(times):
            work()
        print((_cpu() - began) / times * 1e3, flush=True)


def _times(checkouts: tuple[Path, Path], case: str, turns: int) -> Array:
    """Milliseconds of each turn, one column per checkout."""
    workers = [Worker(checkout, case) for checkout in checkouts]
    found = np.empty((turns, 2))
    for turn in range(turns):
        for i in (0, 1) if turn % 2 == 0 else (1, 0):
            found[turn, i] = workers[i].milliseconds()
    for worker in workers:
        worker.close()
    return found


def rows(
    before: Path, after: Path, repeats: int, turns: int, only: list[str]
) -> Iterator[dict[str, Any]]:
    for case in CASES:
        if only and not any(word in case for word in only):
            continue
        times = np.concatenate([_times((before, after), case, turns) for _ in range(repeats)])
        low, middle, high = np.quantile(times[:, 1] / times[:, 0], [0.25, 0.5, 0.75])
        old, new = np.median(times, axis=0)
        yield {
            "case": case,
            "before ms": old,
            "after ms": new,
            "ratio": middle,
            "+-": 1.57 * (high - low) / len(times) ** 0.5,
        }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.against_commit")
    parser.add_argument("--before", type=Path, help="the checkout to compare with")
    parser.add_argument("--after", type=Path, default=Path(), help="the other; by default this one")
    parser.add_argument("--repeats", type=int, default=2, help="pairs of processes per case")
    parser.add_argument("--turns", type=int, default=15, help="turns per pair of processes")
    parser.add_argument("--only", action="append", metavar="WORD", help="cases with this word")
    parser.add_argument("--work", choices=CASES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        warnings.simplefilter("ignore")  # Iterations are cut on purpose, records are few.
        _work(options.work)
        return
    if options.before is None:
        parser.error("--before is needed")
    checkouts = options.before.resolve(), options.after.resolve()
    show(__doc__, COLUMNS, rows(*checkouts, options.repeats, options.turns, options.only or []))


if __name__ == "__main__":
    main()
