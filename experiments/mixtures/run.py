"""Private mixtures on real data: held-out log-likelihood per record against epsilon.

    python experiments/mixtures/run.py [--splits 5] [--json FILE]

Data come from the folder in PRIVEM_DATA (default ../shared/data); neither set's rows are people.
Each is scaled by a public radius, nine tenths are fitted and one tenth scored, delta = 1e-4. Beside
the default: papers 003 and 004's ``ggg`` (MAP, 10 iterations, as they print it), a private single
Gaussian, exact EM from its default start, and the default with nothing given (add-remove, bounds
estimated).
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import statistics
import warnings
from pathlib import Path

import numpy as np

from privem import GaussianMixture

DATA = Path(os.environ.get("PRIVEM_DATA", Path(__file__).parents[3] / "shared" / "data"))
EPSILONS = (0.1, 0.5, 1.0, 4.0)
DELTA = 1e-4


def life_sciences() -> tuple[np.ndarray, int]:
    """Ten principal components of 26,733 compounds; radius 14.41."""
    with gzip.open(DATA / "lifesci_ds1.10.csv.gz", "rt") as file:
        return np.loadtxt(file, delimiter=",")[:, :10] / 14.41, 3


def gowalla_sample() -> tuple[np.ndarray, int]:
    """Latitude and longitude of 101,920 places; radius 1.2 of the scaled sphere."""
    places = np.load(DATA / "gowalla_locations.npz")["rand_users_union_latlon"]
    return places / [90, 180] / 1.2, 5


def fits(components: int, seed: int) -> dict[str, GaussianMixture]:
    """All estimators to compare, by name."""
    found = {
        "exact EM": GaussianMixture(components, max_iter=100, tol=1e-6),
        "exact single Gaussian": GaussianMixture(1),
    }
    for epsilon in EPSILONS:
        budget = {"epsilon": epsilon, "delta": DELTA, "random_state": seed}
        given = {**budget, "neighbours": "replace-one", "bounds": 1.0}
        found[f"default, {epsilon}"] = GaussianMixture(components, **given)
        found[f"single Gaussian, {epsilon}"] = GaussianMixture(1, **given)
        found[f"ggg, {epsilon}"] = GaussianMixture(
            components, mechanism="ggg", n_iter=10, prior="map", **given
        )
        found[f"nothing given, {epsilon}"] = GaussianMixture(components, **budget)
    return found


def scores(X: np.ndarray, components: int, splits: int) -> dict[str, list[float]]:
    """Held-out mean log-likelihood of every estimator on every split."""
    found: dict[str, list[float]] = {}
    for split in range(splits):
        order = np.random.default_rng(split).permutation(len(X))
        test, train = np.split(X[order], [len(X) // 10])
        for name, model in fits(components, 50 + split).items():
            found.setdefault(name, []).append(model.fit(train).score(test))
    return found


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # Not converging, not finding bounds: it shows in the scores.
    results = {}
    for name, source in (("Life Sciences", life_sciences), ("Gowalla sample", gowalla_sample)):
        X, components = source()
        results[name] = scores(X, components, options.splits)
        print(f"\n{name}: {len(X):,} records, d = {X.shape[1]}, K = {components}")
        for model, values in results[name].items():
            middle = statistics.median(values)
            print(f"  {model:<28} {middle:8.3f}  ({min(values):.3f} to {max(values):.3f})")
    if options.json:
        Path(options.json).write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
