"""Gradient EM (000): estimation error against n, d and epsilon, all methods from the same start.

    python experiments/gradient/run.py [--seeds 9] [--json FILE]

Data are 000's: |beta| = 3, sigma = 1 (SNR 3), known to all; x standard normal. The start lies
|beta|/4 from the truth in a random direction. delta = 1e-6, replace-one neighbours. Radius 8 for
records (x), 12 for y. Beside the default (which pays for whatever it asks):

- Algorithm 1 at the paper's C = 1, step 1, its last iterate; T = 5, 10 or 20, the best of the three
  by the median error (which no private fit could choose). Through the library, so with exact noise
  2 C sqrt(T)/(n mu) and no other expense than the budget.
- Algorithm 2 as printed: a partition, s and beta of step 1 with zeta = 0.05, an oracle tau (the
  largest second moment of a coordinate of the gradient at the start), the printed noise 16 s^2
  d/(9 m^2 et^2); T likewise. Continuous noise, only here: NOT private as a floating-point program.
- exact EM, and the default with neither start nor variance given.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from privem import SymmetricMixture, SymmetricRegressionMixture
from privem.kernels.robust import robust_rows
from privem.kernels.scratch import Scratch

DELTA, ZETA, STEPS = 1e-6, 0.05, (5, 10, 20)
BASE = {"n": 10_000, "d": 10, "epsilon": 0.5}
SETTINGS = [
    *({**BASE, "n": n} for n in (2_000, 10_000, 50_000, 100_000)),
    *({**BASE, "d": d} for d in (5, 20, 40)),
    *({**BASE, "epsilon": e} for e in (0.2, 1.0, 2.0)),
    {"n": 50_000, "d": 40, "epsilon": 0.5},
]


def draw(kind: str, n: int, d: int, rng: np.random.Generator) -> tuple[tuple[Any, ...], Any, Any]:
    """Data, the truth and a start."""
    beta, away = rng.normal(size=(2, d))
    beta *= 3 / np.linalg.norm(beta)
    start = beta + away / np.linalg.norm(away) * 0.75
    sign = rng.choice([-1.0, 1.0], n)
    if kind == "mixture":
        return (sign[:, None] * beta + rng.normal(size=(n, d)),), beta, start
    X = rng.normal(size=(n, d))
    return (X, sign * (X @ beta) + rng.normal(size=n)), beta, start


def gradients(data: tuple[Any, ...], beta: np.ndarray) -> np.ndarray:
    """Each record's gradient, sigma = 1."""
    if len(data) == 1:
        return np.tanh(data[0] @ beta)[:, None] * data[0] - beta
    fitted = data[0] @ beta
    return (np.tanh(data[1] * fitted) * data[1] - fitted)[:, None] * data[0]


def algorithm_2(data, start, epsilon: float, steps: int, rng: np.random.Generator) -> np.ndarray:
    """As printed, with an oracle tau."""
    n, d = data[0].shape
    tau = float(np.max(np.mean(gradients(data, start) ** 2, axis=0)))
    m = n // steps
    tilde = math.sqrt(math.log(1 / DELTA) + epsilon) - math.sqrt(math.log(1 / DELTA))
    s, smooth = math.sqrt(m * tau * tilde) / (2 * math.log(1 / ZETA)), math.log(1 / ZETA) ** 0.5
    deviation = math.sqrt(16 * s * s * d / 9) / (m * tilde)
    order, beta = rng.permutation(n), start
    for t in range(steps):
        part = order[t * m : (t + 1) * m]
        g = robust_rows(gradients(tuple(a[part] for a in data), beta), s, smooth, Scratch())
        beta = beta + g.mean(axis=0) + deviation * rng.normal(size=d)
    return beta


def error(found: np.ndarray, beta: np.ndarray) -> float:
    """Distance, up to the sign the model does not have."""
    return float(min(np.linalg.norm(found - beta), np.linalg.norm(found + beta)))


def errors(kind: str, n: int, d: int, epsilon: float, seeds: int) -> dict[str, list[float]]:
    """Errors of every method on every seed."""
    make: Any = SymmetricMixture if kind == "mixture" else SymmetricRegressionMixture
    bounds = {"bounds": 8.0} | ({} if kind == "mixture" else {"target_bounds": 12.0})
    budget = {"epsilon": epsilon, "delta": DELTA, "neighbours": "replace-one", **bounds}
    found: dict[str, list[float]] = {}
    for seed in range(seeds):
        rng = np.random.default_rng(1000 + seed)
        data, beta, start = draw(kind, n, d, rng)
        given = {"init": start, "noise_variance": 1.0}
        models = {
            "exact EM": make(epsilon=None, **given),
            "default": make(**budget, **given),
            "default, nothing given": make(**budget),
        }
        for steps in STEPS:
            models[f"algorithm 1, T={steps}"] = make(
                method="gradient", n_iter=steps, averaging=False, **budget, **given
            )
        for name, model in models.items():
            model.fit(*data)
            coefficients = model.mean_ if kind == "mixture" else model.coef_
            found.setdefault(name, []).append(error(coefficients, beta))
        for steps in STEPS:
            name = f"algorithm 2, T={steps}"
            found.setdefault(name, []).append(
                error(algorithm_2(data, start, epsilon, steps, rng), beta)
            )
    return found


def best(medians: dict[str, float], algorithm: str) -> float:
    """The best number of steps, in hindsight."""
    return min(value for name, value in medians.items() if name.startswith(algorithm))


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=9)
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    results = []
    for kind in ("mixture", "regression"):
        print(f"\n{kind}: median error of {options.seeds}")
        print("       n   d   eps   exact  default  nothing given  Algorithm 1  Algorithm 2")
        for setting in SETTINGS:
            found = errors(kind, **setting, seeds=options.seeds)
            medians = {name: statistics.median(values) for name, values in found.items()}
            results.append({"kind": kind, **setting, "medians": medians})
            n, d, epsilon = setting.values()
            print(
                f"{n:8,} {d:3} {epsilon:5} {medians['exact EM']:7.4f} {medians['default']:8.4f}"
                f" {medians['default, nothing given']:14.4f} {best(medians, 'algorithm 1'):12.4f}"
                f" {best(medians, 'algorithm 2'):12.4f}",
                flush=True,
            )
    if options.json:
        Path(options.json).write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
