"""Run the benchmarks: ``python -m benchmarks [--quick] [--only NAME ...] [--json FILE]``.

Everything runs in one process with BLAS held to one thread for every library alike, so that ratios
compare algorithms and not schedulers. Absolute times depend on the machine; ratios hardly do.
"""

import os

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"  # Before numpy is imported, or it is too late for some of them.

import argparse  # noqa: E402
import importlib  # noqa: E402
import json  # noqa: E402
import platform  # noqa: E402
import time  # noqa: E402
import warnings  # noqa: E402

from sklearn.exceptions import ConvergenceWarning  # noqa: E402
from threadpoolctl import threadpool_limits  # noqa: E402

from .table import show  # noqa: E402

NAMES = (
    "speed",
    "kmeans",
    "border",
    "threads",
    "memory",
    "parquet",
    "linear",
    "wide",
    "quality",
    "private_speed",
    "federation",
    "federation_masked",
    "federation_flower",
    "robust",
    "dask",
    "ledger",
)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes, under a minute")
    parser.add_argument("--only", action="append", choices=NAMES, help="may be repeated")
    parser.add_argument("--json", metavar="FILE", help="write all rows there as well")
    options = parser.parse_args()
    results, short = {}, []
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # Iterations are cut on purpose.
        for name in options.only or NAMES:
            bench = importlib.import_module(f"benchmarks.{name}")
            began = time.perf_counter()
            rows = show(bench.__doc__, bench.COLUMNS, bench.rows(options.quick))
            print(f"  ({time.perf_counter() - began:.0f} s)")
            results[name] = rows
            short += [f"{name}: {row['case']}" for row in rows if row.get("ok") == "short"]
    if options.quick:
        print("\nQuick sizes: the floors are meant for the full ones.")
    else:
        print("\nShort of their floor: " + "; ".join(short) if short else "\nNothing is short.")
    if options.json:
        machine = {"machine": platform.processor() or platform.machine(), "cores": os.cpu_count()}
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"quick": options.quick, **machine, "results": results}, file, indent=1)


if __name__ == "__main__":
    main()
