"""Private k-means on the papers' data: normalised intra-cluster variance against epsilon.

    python experiments/kmeans/run.py [--diffprivlib PYTHON] [--repetitions 10] [--only NAME]
                                     [--json FILE] [--check] [--picture FILE]

NICV is the mean squared distance of records to their nearest centre (Su et al. 2016; Park et al.
2016 and 2017). What is run, with which bounds, is in config.toml; figures are in README.md.
``--diffprivlib`` names the Python of an environment that has diffprivlib; without it that method is
skipped.
``--check`` compares with expected.json and exits 1 if an order or a range no longer holds.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import tomllib
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from data import load
from diffprivlib_price import nominal_for
from sklearn.cluster import KMeans as Exact

from privem import KMeans

HERE = Path(__file__).parent
OURS = "privem"
# DPLloyd, by composition and start: packed spheres that no data were read for, or paid for.
LLOYD = {
    "DPLloyd linear, packed": ("linear", True),
    "DPLloyd linear, private start": ("linear", False),
    "DPLloyd zCDP, packed": ("zcdp", True),
    "DPLloyd zCDP, private start": ("zcdp", False),
}
PEER = "diffprivlib"
Table = dict[str, dict[str, list[float]]]


def nicv(X: np.ndarray, centres: np.ndarray) -> float:
    """Mean squared distance to the nearest centre; differences, in blocks."""
    total = 0.0
    for block in np.array_split(X, max(1, len(X) // 4096)):
        away = block[:, None] - centres[None]
        total += float(np.einsum("nkj,nkj->nk", away, away).min(axis=1).sum())
    return total / len(X)


def packing(k: int, d: int, seed: int) -> np.ndarray:
    """K spheres of equal size in the box, as large as random tries find them (Su et al. 2016)."""
    rng, radius = np.random.default_rng(seed), 1.0
    while True:
        found, missed = np.empty((0, d)), 0
        while len(found) < k and missed < 100:
            point = rng.uniform(radius - 1, 1 - radius, d)
            fits = bool((np.linalg.norm(found - point, axis=1) >= 2 * radius).all())
            found, missed = (np.vstack([found, point]), 0) if fits else (found, missed + 1)
        if len(found) == k:
            return found
        radius *= 0.9


def private(
    X: np.ndarray, k: int, epsilon: float, seed: int, config: dict[str, Any]
) -> dict[str, float]:
    """NICV of privem's default and of DPLloyd's four."""
    given = {
        "epsilon": epsilon,
        "delta": config["delta"],
        "neighbours": config["neighbours"],
        "bounds": (-1.0, 1.0),
        "random_state": seed,
    }
    models = {OURS: KMeans(k, **given)}
    for name, (accountant, packed) in LLOYD.items():
        start = {"init": packing(k, X.shape[1], seed)} if packed else {}
        models[name] = KMeans(
            k,
            mechanism="dplloyd",
            accountant=accountant,
            n_iter=config["lloyd_rounds"],
            **start,
            **given,
        )
    return {name: nicv(X, model.fit(X).cluster_centers_) for name, model in models.items()}


def peer(X: np.ndarray, python: str, jobs: list[dict[str, Any]]) -> Iterator[np.ndarray]:
    """Centres that diffprivlib finds, in its own interpreter."""
    with tempfile.TemporaryDirectory() as folder:
        data, asked, answer = (Path(folder) / name for name in ("X.npy", "jobs.json", "out.json"))
        np.save(data, X)
        asked.write_text(json.dumps(jobs))
        script = str(HERE / "diffprivlib_run.py")
        subprocess.run([python, script, str(data), str(asked), str(answer)], check=True)
        yield from (np.array(centres) for centres in json.loads(answer.read_text()))


def measure(name: str, config: dict[str, Any], repetitions: int, python: str | None) -> Table:
    """All methods on one data set: {epsilon: {method: values}}."""
    chosen = config["data"][name]
    X, k = load(name, chosen["low"], chosen["high"]), chosen["clusters"]
    n, d = X.shape
    exact = Exact(k, n_init=10, random_state=0).fit(X).cluster_centers_
    found: Table = {"exact": {"scikit-learn, best of 10": [nicv(X, exact)]}}
    print(f"\n{name}: {n:,} records, d = {d}, K = {k}; exact {nicv(X, exact):.5f}", flush=True)
    for epsilon in config["epsilons"]:
        values: dict[str, list[float]] = {}
        for seed in range(repetitions):
            for method, value in private(X, k, epsilon, seed, config).items():
                values.setdefault(method, []).append(value)
        if python:
            nominal = nominal_for(epsilon, n, d, k, config["delta"])
            jobs = [{"clusters": k, "epsilon": nominal, "seed": s} for s in range(repetitions)]
            values[PEER] = [nicv(X, centres) for centres in peer(X, python, jobs)]
        found[str(epsilon)] = values
        for method, numbers in values.items():
            print(f"  {epsilon:<5} {method:<30} {_say(numbers)}", flush=True)
    return found


def _say(numbers: list[float]) -> str:
    return f"{np.median(numbers):.5f}  ({min(numbers):.5f} to {max(numbers):.5f})"


def failures(results: dict[str, Table], expected: dict[str, Any]) -> list[str]:
    """Where a median of privem's is not below every other, or outside its expected range."""
    found = []
    for name, table in results.items():
        for epsilon, values in table.items():
            if epsilon == "exact":
                continue
            ours = float(np.median(values[OURS]))
            for method, numbers in values.items():
                if method != OURS and not ours < np.median(numbers):
                    found.append(f"{name}, epsilon {epsilon}: {ours:.5f} not below {method}")
            most = expected["most"].get(name, {}).get(epsilon)
            if most is not None and ours > most:
                found.append(f"{name}, epsilon {epsilon}: {ours:.5f} above {most}")
    return found


def draw(results: dict[str, Table], path: str) -> None:
    """NICV against epsilon, a panel per data set: medians, and all of privem's values."""
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, len(results), figsize=(4 * len(results), 3.6), squeeze=False)
    for axis, (name, table) in zip(axes[0], results.items(), strict=True):
        steps = [epsilon for epsilon in table if epsilon != "exact"]
        x = [float(epsilon) for epsilon in steps]
        for method in table[steps[0]]:
            middle = [np.median(table[epsilon][method]) for epsilon in steps]
            axis.plot(x, middle, marker=".", label=method, lw=2.2 if method == OURS else 1.0)
        ours = [table[epsilon][OURS] for epsilon in steps]
        axis.fill_between(x, [min(v) for v in ours], [max(v) for v in ours], alpha=0.2)
        axis.axhline(next(iter(table["exact"].values()))[0], color="black", lw=0.8, ls=":")
        axis.set(xscale="log", yscale="log", title=name, xlabel="epsilon")
    axes[0][0].set_ylabel("NICV")
    axes[0][-1].legend(fontsize=6)
    figure.tight_layout()
    figure.savefig(path)


def main() -> None:
    """Run and print."""
    config = tomllib.loads((HERE / "config.toml").read_text())
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--diffprivlib", metavar="PYTHON")
    parser.add_argument("--repetitions", type=int)
    parser.add_argument("--only", choices=list(config["data"]), action="append")
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--picture", metavar="FILE", help="needs matplotlib")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if not options.diffprivlib:
        print("diffprivlib is skipped: name its Python with --diffprivlib (see README.md)")
    results = {}
    for name in options.only or config["data"]:
        usual = config["data"][name].get("repetitions", config["repetitions"])
        repetitions = options.repetitions or usual
        results[name] = measure(name, config, repetitions, options.diffprivlib)
        if options.json:
            Path(options.json).write_text(json.dumps(results, indent=1))
    if options.picture:
        draw(results, options.picture)
    if options.check:
        found = failures(results, json.loads((HERE / "expected.json").read_text()))
        print("\n".join(found) or "as expected")
        sys.exit(bool(found))


if __name__ == "__main__":
    main()
