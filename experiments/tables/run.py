"""Synthetic tables from noisy tables of pairs: how near, and how useful.

    python experiments/tables/run.py [--epsilon 0.5 1 4] [--seeds 3] [--rows 32561] [--missing 0.2]

Fits a mixture to 32,561 rows of Adult, without and with a target (income), and tells

- *pairs*, *worst*: total variation between real and synthetic tables of two columns;
- *trees*, *linear*: AUC on 16,281 real rows of classifiers trained on synthetic ones;
- *density*: log-likelihood of these rows on a shared grid, and *alone* that of independent columns
  which had all of the budget (``fits.alone``: the same smoothing of cells); *least* is the smallest
  difference of the two in any single fit.

Exact values of real rows are NOT private; they are for comparison only.
"""

from __future__ import annotations

import argparse
import resource
import time
from dataclasses import replace

import numpy as np
from adult import cells_of, distances, load, usefulness, values_of
from fits import alone, fit, on_grid


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epsilon", type=float, nargs="+", default=[0.5, 1.0, 4.0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rows", type=int, default=None)
    parser.add_argument("--quick", action="store_true", help="no classifiers")
    parser.add_argument("--missing", type=float, default=0.0, help="share of cells made missing")
    told = parser.parse_args()
    columns, train, test = load()
    given = train
    if told.missing:
        # All but the income may be missing, and are at random; synthetic rows are complete.
        columns = [replace(c, missing=c.name != "income") for c in columns]
        lost = np.random.default_rng(7).random(train.shape) < told.missing
        lost[:, -1] = False
        train = np.where(lost, np.nan, train)
    print("epsilon target  pairs  worst  trees linear density   alone   least classes  cpu s")
    for epsilon in told.epsilon:
        for target in (None, len(columns) - 1):
            found = []
            for seed in range(told.seeds):
                rng = np.random.default_rng(seed)
                rows = (
                    train if told.rows is None else train[rng.permutation(len(train))[: told.rows]]
                )
                X = cells_of(columns, rows)
                began = time.process_time()
                state = fit(columns, X, epsilon, target, seed)
                there = {
                    j: np.arange(c.cells) < c.cells - 1 for j, c in enumerate(columns) if c.missing
                }
                drawn = values_of(columns, state.draw(len(train), rng, instead=there), rng)
                spent = time.process_time() - began
                near = distances(columns, given, drawn)
                useful = (np.nan,) * 2 if told.quick else usefulness(columns, drawn, test)
                density = on_grid(columns, state, test)
                other = on_grid(columns, alone(columns, X, epsilon, seed), test)
                row = (near["two"], near["worst"], *useful, density, other, len(state.weights))
                found.append((*row, spent))
            mean = np.mean(found, axis=0)
            least = min(row[4] - row[5] for row in found)
            mean = np.insert(mean, 6, least)
            form = "{:.4f} {:.4f} {:.4f} {:.4f} {:7.3f} {:7.3f} {:7.3f} {:6.0f} {:6.1f}"
            name = "-" if target is None else columns[target].name
            print(f"{epsilon:7g} {name:>7} ", form.format(*mean), flush=True)
    print(f"memory at most {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB")


if __name__ == "__main__":
    main()
