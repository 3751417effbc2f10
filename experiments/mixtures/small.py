"""Private mixtures of few records: is a mixture worth its noise?

    python experiments/mixtures/small.py [--fits 20] [--json FILE]

Held-out log-likelihood per record of the default and of a private single Gaussian, mean over fits
of different records (worst in brackets); delta = 1e-6, add-remove neighbours, public bounds. Life
Sciences and Gowalla as in run.py, but in boxes; people of ``privem.datasets``; three Gaussians with
equal covariances in ten dimensions, four with unequal ones and unequal weights in five.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from run import DATA, life

from privem import GaussianMixture
from privem.datasets import make_people

SIZES, BUDGETS = (1_000, 2_000, 5_000, 10_000, 20_000), (0.1, 0.2, 0.5, 1.0)


def equal() -> np.ndarray:
    """Three components, ten columns."""
    rng = np.random.default_rng(1)
    centres = 1.5 * rng.normal(size=(3, 10))
    return centres[rng.integers(3, size=60_000)] + rng.normal(size=(60_000, 10))


def unequal() -> np.ndarray:
    """Four components, five columns; none has the shape or the size of another."""
    rng = np.random.default_rng(1)
    centres = 4 * rng.normal(size=(4, 5))
    shapes = np.stack([np.linalg.qr(rng.normal(size=(5, 5)))[0] for _ in range(4)])
    shapes = shapes * np.exp(0.7 * rng.normal(size=(4, 1, 5)))
    label = rng.choice(4, p=[0.4, 0.3, 0.2, 0.1], size=60_000)
    return centres[label] + np.einsum("nij,nj->ni", shapes[label], rng.normal(size=(60_000, 5)))


def sets() -> Iterator[tuple[str, np.ndarray, Any, int]]:
    """Name, records, bounds, components."""
    people = make_people(60_000, random_state=0).to_numpy()
    yield "people", people, ([0, 100, 20, 50, 50, 0], [120, 230, 250, 250, 500, 500]), 5
    yield "equal", equal(), (-12.0, 12.0), 3
    yield "unequal", unequal(), (-20.0, 20.0), 4
    yield "life sciences", life(), 1.0, 3
    places = np.load(DATA / "gowalla_locations.npz")["rand_users_union_latlon"]
    yield "gowalla", places / [90.0, 180.0], (-1.0, 1.0), 5


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fits", type=int, default=20)
    parser.add_argument("--json", metavar="FILE", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    kept = []
    print("| data | records | epsilon | default | private single Gaussian |\n|---|---|---|---|---|")
    for name, X, bounds, components in sets():
        X = X[np.random.default_rng(5).permutation(len(X))]
        held = len(X) // 5
        new, known = X[: min(held, 8_000)], X[held:]
        for n in SIZES:
            for epsilon in BUDGETS:
                scores: dict[int, list[float]] = {components: [], 1: []}
                for fit in range(options.fits):
                    print(f"\r{name}, {n}, {epsilon}, fit {fit + 1} ", end="", file=sys.stderr)
                    chosen = np.random.default_rng([fit, n]).choice(len(known), n, replace=False)
                    for k, found in scores.items():
                        model = GaussianMixture(k, epsilon=epsilon, bounds=bounds, random_state=fit)
                        found.append(model.fit(known[chosen]).score(new))
                cells = [f"{np.mean(s):.2f} ({min(s):.2f})" for s in scores.values()]
                print("\r" + " " * 60 + "\r", end="", file=sys.stderr)
                print(f"| {name} | {n:,} | {epsilon} | {cells[0]} | {cells[1]} |", flush=True)
                kept.append([name, n, epsilon, *scores.values()])
    if options.json:
        options.json.write_text(json.dumps(kept))


if __name__ == "__main__":
    main()
