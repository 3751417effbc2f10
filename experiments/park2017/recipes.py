"""One release, or a private Gaussian: recipes of private factor analysis.

    python experiments/park2017/recipes.py [--splits 10]

Held-out log-likelihood per number, median over splits, of one release (``"joint"``), of the default
without its background, and with it. delta = 1e-4, replace-one.
The bounds of the Parkinsons data are taken from the data and widened: good enough to compare
recipes with, not private.
"""

from __future__ import annotations

import argparse
import statistics
import warnings

import numpy as np
from data import faces, life

from privem import FactorAnalysis
from privem.datasets import load_parkinsons

EPSILONS = (0.3, 1.0, 4.0, 30.0)


def parkinsons() -> tuple[np.ndarray, tuple[object, object], int]:
    """195 recordings, 22 features, without name and diagnosis."""
    X = load_parkinsons().drop("name", "status").to_numpy()
    low, high = X.min(axis=0), X.max(axis=0)
    return X, (low - 0.2 * (high - low), high + 0.2 * (high - low)), 4


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--splits", type=int, default=10)
    splits = parser.parse_args().splits
    warnings.simplefilter("ignore")
    data = {"Life Sciences": (life(), (-1.0, 1.0), 3), "Parkinsons": parkinsons()}
    data |= {f"faces {s} x {s}": (faces(s), (0.0, 1.0), 10) for s in (8, 16)}
    for name, (X, bounds, q) in data.items():
        found: dict[str, list[float]] = {}
        for split in range(splits):
            order = np.random.default_rng(split).permutation(len(X))
            test, train = np.split(X[order], [len(X) // 10])
            exact = FactorAnalysis(q, epsilon=None).fit(train)
            found.setdefault("exact", []).append(exact.score(test) / X.shape[1])
            for epsilon in EPSILONS:
                for recipe in ("joint", "no background", "auto"):
                    model = FactorAnalysis(
                        q,
                        epsilon=epsilon,
                        delta=1e-4,
                        bounds=bounds,
                        neighbours="replace-one",
                        mechanism="joint" if recipe == "joint" else "auto",
                        background="auto" if recipe == "auto" else False,
                    ).fit(train)
                    key = f"epsilon {epsilon:g}, {recipe}"
                    found.setdefault(key, []).append(model.score(test) / X.shape[1])
        print(f"\n{name}, n = {len(X)}, d = {X.shape[1]}, q = {q}")
        for key, values in found.items():
            print(f"  {key:<24}{statistics.median(values):8.3f}  (worst {min(values):.3f})")


if __name__ == "__main__":
    main()
