"""One EM iteration on an accelerator: milliseconds, against what was wanted on an H200.

Not one of ``python -m benchmarks``: it needs a CUDA device (or ``--device cpu`` to try it out), and
no more than torch, NumPy, SciPy and scikit-learn beside privem's source. Each sum is first compared
with the NumPy kernels in float64 on fresh random records; then it is timed::

    python3 benchmarks/gpu.py                        # all, a few minutes
    python3 benchmarks/gpu.py --only diag --only kmeans --path cuda
    python3 benchmarks/gpu.py --quick --device cpu   # small sizes

Every line is printed when it is known. ``error`` is the largest difference of any number of the
statistic, relative to the square root of the product of the moments it belongs to.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import types
import warnings
from dataclasses import replace
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

try:
    import polars  # noqa: F401
except ImportError:  # frames are not what is measured here

    class _Absent(types.ModuleType):
        def __getattr__(self, name: str):
            if name.startswith("__"):
                raise AttributeError(name)
            return type(name, (), {})

    for absent in ("polars", "polars.io", "polars.io.plugins"):
        sys.modules[absent] = _Absent(absent)

import numpy as np
import torch
from gpu_peak import peak

from privem.data.device import DeviceRows
from privem.data.sums import ArrayRows, LocalSource
from privem.linalg import leaves

# name: rows, columns, components, milliseconds wanted in float32 and in float64.
CASES = {
    "full-20-32": ("full", 10_000_000, 20, 32, 7.0, 10.0),
    "full-10-10": ("full", 100_000_000, 10, 10, 14.0, 19.0),
    "full-50-10": ("full", 10_000_000, 50, 10, 22.0, 28.0),
    "full-2-5": ("full", 10_000_000, 2, 5, None, None),
    "diag-10-3": ("diag", 100_000_000, 10, 3, 2.0, 3.0),
    "kmeans-10-10": ("kmeans", 100_000_000, 10, 10, 2.5, 4.0),
    "spherical-10-3": ("spherical", 100_000_000, 10, 3, None, None),
    "tied-10-3": ("tied", 100_000_000, 10, 3, None, None),
    "moments-50": ("moments", 10_000_000, 50, 1, None, None),
    "private-full-10-10": ("private-full", 100_000_000, 10, 10, None, None),
    "private-diag-10-3": ("private-diag", 100_000_000, 10, 3, None, None),
    "private-tied-10-3": ("private-tied", 100_000_000, 10, 3, None, None),
    "private-kmeans-10-10": ("private-kmeans", 100_000_000, 10, 10, None, None),
}
EXTRA = ("fit-private", "streamed", "peak")


def made_up(n: int, d: int, k: int, device: str, seed: int = 0, dtype=torch.float32):
    """Overlapping clusters, drawn on the device; and their means."""
    draw = torch.Generator(device=device).manual_seed(seed)
    means = 1.5 * torch.randn(k, d, device=device, generator=draw)
    X = torch.empty(n, d, device=device, dtype=dtype)
    for start in range(0, n, 5_000_000):
        part = X[start : start + 5_000_000]
        label = torch.randint(0, k, (len(part),), device=device, generator=draw)
        part.copy_(torch.randn(part.shape, device=device, generator=draw) + means[label])
    return X, means.double().cpu().numpy()


def query_of(kind: str, d: int, means: np.ndarray, n: int):
    """A query about made-up parameters near the means."""
    from privem.blocks.moments import MomentsQuery
    from privem.blocks.region import Region
    from privem.blocks.sensitivity import MomentWeights
    from privem.blocks.shrinkage import clip_radius
    from privem.models.gaussian_mixture.model import Mixture, MixtureQuery
    from privem.models.gaussian_mixture.query import TAIL, BoundedQuery
    from privem.models.kmeans.model import Clusters, NearestQuery
    from privem.models.kmeans.query import BoundedClusterQuery, whitened_weights

    rng, k = np.random.default_rng(1), len(means)
    origin = means.mean(axis=0)
    centres = means + 0.1 * rng.standard_normal(means.shape)
    if kind == "kmeans":
        return NearestQuery(Clusters(centres), origin)
    if kind == "moments":
        return MomentsQuery(origin)
    region = Region.box(np.full(d, -8.0), np.full(d, 8.0))
    if kind == "private-kmeans":
        weights = whitened_weights(d, clip_radius(d))
        return BoundedClusterQuery(centres / 8.0, region, weights, 1 / 8.0, "whitened")
    private, shape = kind.startswith("private-"), kind.removeprefix("private-")
    noise = rng.standard_normal((k, d, d)) * 0.3 / np.sqrt(d)
    full = np.eye(d) + noise @ noise.transpose(0, 2, 1)
    covariances = {
        "full": full,
        "tied": full[0],
        "diag": rng.uniform(0.7, 1.3, (k, d)),
        "spherical": rng.uniform(0.7, 1.3, k),
    }[shape]
    weights = rng.uniform(0.5, 1.5, k)
    weights /= weights.sum()
    if not private:
        return MixtureQuery(Mixture(shape, weights, centres, covariances), origin)
    mixture = Mixture(shape, weights, centres / 8.0, covariances / 64.0)
    w = MomentWeights.balanced(d, clip_radius(d, TAIL), diagonal=shape == "diag")
    return BoundedQuery(mixture, region, w, "whitened", float(n))


def sizes_of(sums) -> dict[str, np.ndarray]:
    """The size that a difference of each number is measured against."""
    named = leaves(sums)
    found = {}
    for name, leaf in named.items():
        found[name] = np.full(leaf.shape, max(float(np.abs(leaf).max()), 1e-300))
    return found


def difference(found, expected) -> float:
    sizes, worst = sizes_of(expected), 0.0
    for name, leaf in leaves(expected).items():
        worst = max(worst, float(np.max(np.abs(leaves(found)[name] - leaf) / sizes[name])))
    return worst


class Clock:
    """Medians of wall time, everything on the device finished."""

    def __init__(self, device: str) -> None:
        self.wait = torch.cuda.synchronize if device == "cuda" else (lambda: None)

    def time(self, work, turns: int = 5, most: float = 6.0) -> float:
        work()
        self.wait()
        times, began = [], time.perf_counter()
        while len(times) < turns and (not times or time.perf_counter() - began < most):
            start = time.perf_counter()
            work()
            self.wait()
            times.append(time.perf_counter() - start)
        return 1e3 * float(np.median(times))


def on_path(path: str) -> None:
    """Choose between the portable kernels and those that are compiled here."""
    from privem.kernels import cuda

    cuda.allow(path == "cuda")


def against_torch(rows: DeviceRows, query) -> float:
    """How far the compiled kernel's sums are from those of the portable path in float64."""
    few = replace(rows, X=rows.X[:2_000_003])
    on_path("cuda")
    found = few.summed(query)
    on_path("torch")
    expected = replace(few, X=few.X.double()).summed(query)
    on_path("cuda")
    return difference(found, expected)


class Launches:
    """How often the compiled kernels ran, so that no figure is named after what was not used."""

    def __init__(self) -> None:
        from privem.kernels import cuda, cuda_clusters, cuda_differences, cuda_products

        self.count = 0
        for module in (cuda, cuda_clusters, cuda_differences, cuda_products):
            module.launch = partial(self._counted, module.launch)

    def _counted(self, launched, *given):
        self.count += 1
        return launched(*given)


def run_case(name: str, options, clock: Clock, launches: Launches) -> list[dict]:
    kind, n, d, k, wanted_32, wanted_64 = CASES[name]
    if options.quick:
        n = min(n, 200_000)
    if options.rows:
        n = min(n, options.rows)
    private, rows = kind.startswith("private-"), []
    small, means = made_up(300_017, d, k, options.device, seed=7)
    query = query_of(kind, d, means, n)
    expected = LocalSource(ArrayRows(small.cpu().numpy())).total(query, private=private)
    X = None
    for dtype in (torch.float32, torch.float64):
        if private and dtype == torch.float32:
            continue
        for path in options.paths:
            on_path(path)
            held = DeviceRows(small.to(dtype), small.device)
            error = difference(held.summed(query), expected)
            bound = 1e-11 if dtype == torch.float64 else 2e-5
            row = {"case": name, "path": path, "dtype": str(dtype)[6:], "n": n, "error": error}
            row["right"] = bool(error < bound)
            if X is None or X.dtype != dtype:
                X = None
                # Drawn anew in the type that is timed, so that it is never held twice.
                X, _ = made_up(n, d, k, options.device, seed=7, dtype=dtype)
            whole, before = DeviceRows(X, X.device), launches.count
            row["ms"] = clock.time(lambda rows=whole: rows.summed(query))
            if path == "cuda" and launches.count == before:
                row["path"] = "torch"
            if path == "cuda" and launches.count > before:
                # The check above may have been too short for it: compare all rows.
                row["error"] = max(error, against_torch(whole, query))
                row["right"] = bool(row["error"] < bound)
            wanted = wanted_32 if dtype == torch.float32 else wanted_64
            row["wanted"] = wanted
            row["GB/s"] = n * d * X.element_size() / row["ms"] / 1e6
            rows.append(row)
            verdict = "" if wanted is None else f"  wanted {wanted:5.1f}"
            print(
                f"{name:22s} {row['path']:5s} {row['dtype']}  n={n:.0e}  "
                f"{row['ms']:9.2f} ms{verdict}"
                f"  reads {row['GB/s']:5.0f} GB/s  error {row['error']:.1e}"
                f"{'' if row['right'] else '  WRONG'}",
                flush=True,
            )
    return rows


def streamed_rows(options, clock: Clock) -> list[dict]:
    """Records in the host's memory, copied while others are worked on."""
    from privem.data import rows_on

    n = 200_000 if options.quick else 50_000_000
    X, means = made_up(n, 10, 10, options.device, seed=3)
    query = query_of("full", 10, means, n)
    resident = DeviceRows(X, X.device)
    expected = resident.summed(query)
    here = clock.time(lambda: resident.summed(query), turns=3)
    rows = rows_on(X.cpu(), options.device)
    error = difference(rows.summed(query), expected)
    ms = clock.time(lambda: rows.summed(query), turns=3)
    rate = n * 40 / ms / 1e6
    print(
        f"streamed full-10-10    n={n:.0e}  {ms:9.2f} ms (on the card {here:.2f})  {rate:.1f} GB/s"
        f"  error {error:.1e}",
        flush=True,
    )
    return [{"case": "streamed", "n": n, "ms": ms, "resident_ms": here, "error": error}]


def fit_private(options, clock: Clock) -> list[dict]:
    """A whole private fit from rows on the device, with a given start and bounds."""
    import privem

    n, d, k = (200_000 if options.quick else 100_000_000), 10, 10
    X, means = made_up(n, d, k, options.device, seed=5)
    spent: dict[str, float] = {}
    total = LocalSource.total

    def timed(self, query, private):
        start = time.perf_counter()
        value = total(self, query, private)
        name = type(query).__name__
        spent[name] = spent.get(name, 0.0) + time.perf_counter() - start
        return value

    rows = []
    LocalSource.total = timed
    for path in options.paths:
        on_path(path)
        for start in ("given", "own"):
            model = privem.GaussianMixture(k, epsilon=1.0, bounds=(-8.0, 8.0), random_state=0)
            if start == "given":
                model.set_params(
                    weights_init=np.full(k, 1 / k),
                    means_init=means + 0.2,
                    precisions_init=np.stack([np.eye(d)] * k),
                    n_iter=10,
                )
            for turn in range(2 if start == "given" else 1):
                spent.clear()
                began = time.perf_counter()
                model.fit(X)
                clock.wait()
                seconds = time.perf_counter() - began
                parts = ", ".join(f"{name} {s:.3f}" for name, s in spent.items())
                print(
                    f"fit-private {path} start={start} turn {turn}  n={n:.0e}  {seconds:.3f} s"
                    f"  ({parts})  {model.n_iter_} iterations",
                    flush=True,
                )
            rows.append({"case": "fit-private", "start": start, "path": path, "s": seconds})
    LocalSource.total = total
    return rows


def main() -> None:
    names = (*CASES, *EXTRA)
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", action="append", metavar="NAME", help=f"part of one of {names}")
    parser.add_argument("--path", choices=("torch", "cuda", "both"), default="torch")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--rows", type=int, help="no more than so many")
    parser.add_argument("--quick", action="store_true", help="small sizes")
    parser.add_argument("--limit", type=float, default=240.0, help="seconds after which to stop")
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    options.paths = ("torch", "cuda") if options.path == "both" else (options.path,)
    warnings.simplefilter("ignore")
    warnings.simplefilter("default", RuntimeWarning)  # a compiled kernel that is not used
    what = torch.cuda.get_device_name() if options.device == "cuda" else "cpu"
    print(f"torch {torch.__version__}, NumPy {np.__version__}, {what}", flush=True)
    launches = Launches()
    clock, began, results = Clock(options.device), time.perf_counter(), []
    extra = {"fit-private": fit_private, "streamed": streamed_rows, "peak": peak}
    if options.device != "cuda":
        extra.pop("streamed")
    for name in names:
        if options.only and not any(part in name for part in options.only):
            continue
        if name in EXTRA and name not in extra:
            continue
        if time.perf_counter() - began > options.limit:
            print(f"{name}: left out, the time is over", flush=True)
            continue
        try:
            done = (
                extra[name](options, clock)
                if name in extra
                else run_case(name, options, clock, launches)
            )
            results += done
        except Exception as error:
            print(f"{name}: FAILED, {type(error).__name__}: {str(error)[:300]}", flush=True)
        if options.device == "cuda":
            torch.cuda.empty_cache()
        if options.json:
            Path(options.json).write_text(json.dumps(results, indent=1), encoding="utf-8")
    print(f"({time.perf_counter() - began:.0f} s)", flush=True)


if __name__ == "__main__":
    main()
