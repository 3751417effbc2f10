"""Gradient EM of Wang et al. 2023: estimation error against n, d and epsilon, from the same start.

    python experiments/gradient/run.py [--only KIND] [--at n/d/epsilon ...] [--seeds 9]
        [--snr 3] [--json FILE] [--markdown]

Data are the paper's: |beta| = 3, sigma = 1 (SNR 3), known to all; x standard normal; in the third
model one entry of x in ten is missing, which nobody is told. The start lies |beta|/4 from the
truth in a random direction. delta = 1e-6, replace-one neighbours. Radius 8 for records (x), 12 for
y. Beside the default (which pays for whatever it asks):

- Algorithm 1 at the paper's C = 1, step 1, its last iterate; T = 5, 10 or 20, the best of the three
  by the median error (which no private fit could choose); noise 2 C sqrt(T)/(n mu) with the mu of
  exact Gaussian composition, no bounds, no other expense than the budget.
- Algorithm 2 as printed: a partition, s and beta of step 1 with zeta = 0.05, an oracle tau (the
  largest second moment of a coordinate of the gradient at the start), the printed noise 16 s^2
  d/(9 m^2 et^2); T likewise.
- exact EM, and the default with neither start nor variance given.

Both algorithms have continuous noise, only here: NOT private as floating-point programs.
``--json``: settings that FILE has are not run again, and each is added to it when done.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from privem import MissingCovariateRegression, SymmetricMixture, SymmetricRegressionMixture
from privem.accounting.registry import mu_for
from privem.kernels.robust import robust_rows
from privem.linalg import Scratch

DELTA, ZETA, STEPS, MISSING, CLIP = 1e-6, 0.05, (5, 10, 20), 0.1, 1.0
KINDS: dict[str, Any] = {
    "mixture": SymmetricMixture,
    "regression": SymmetricRegressionMixture,
    "missing": MissingCovariateRegression,
}
BASE = {"n": 10_000, "d": 10, "epsilon": 0.5}
SETTINGS = [
    *({**BASE, "n": n} for n in (2_000, 10_000, 50_000, 100_000)),
    *({**BASE, "d": d} for d in (5, 20, 40)),
    *({**BASE, "epsilon": e} for e in (0.2, 1.0, 2.0)),
    {"n": 50_000, "d": 40, "epsilon": 0.5},
    # The corners of what the settings span.
    *(
        {"n": n, "d": d, "epsilon": e}
        for n in (2_000, 100_000)
        for d in (5, 40)
        for e in (0.2, 2.0)
    ),
]
COLUMNS = ("exact EM", "default", "default, nothing given", "algorithm 1", "algorithm 2")


def draw(
    kind: str, n: int, d: int, snr: float, rng: np.random.Generator
) -> tuple[tuple[Any, ...], Any, Any]:
    """Data, the truth and a start."""
    beta, away = rng.normal(size=(2, d))
    beta *= snr / np.linalg.norm(beta)
    start = beta + away / np.linalg.norm(away) * snr / 4
    sign = rng.choice([-1.0, 1.0], n) if kind != "missing" else 1.0
    if kind == "mixture":
        return (sign[:, None] * beta + rng.normal(size=(n, d)),), beta, start
    X = rng.normal(size=(n, d))
    y = sign * (X @ beta) + rng.normal(size=n)
    if kind == "missing":
        X[rng.random(X.shape) < MISSING] = np.nan
    return (X, y), beta, start


def gradients(kind: str, data: tuple[Any, ...], beta: np.ndarray) -> np.ndarray:
    """Each record's gradient, sigma = 1."""
    if kind == "mixture":
        return np.tanh(data[0] @ beta)[:, None] * data[0] - beta
    X, y = data
    if kind == "regression":
        fitted = X @ beta
        return (np.tanh(y * fitted) * y - fitted)[:, None] * X
    # y m - (m m' + V) b, m = (x_obs, r b_mis/D), V = diag(missing) - b_mis b_mis'/D.
    hidden = np.isnan(X)
    seen = np.where(hidden, 0.0, X)
    residual, total = y - seen @ beta, 1 + hidden @ beta**2
    factor = (residual**2 / total - 1) / total
    return seen * (residual / total)[:, None] + hidden * beta * factor[:, None]


def algorithm_1(
    kind: str, data, start, epsilon: float, steps: int, rng: np.random.Generator
) -> np.ndarray:
    """Gradients clipped at C, the whole data in each step."""
    n, d = data[0].shape
    deviation = 2 * CLIP * math.sqrt(steps) / (n * mu_for(epsilon, DELTA))
    beta = start
    for _ in range(steps):
        g = gradients(kind, data, beta)
        g /= np.maximum(np.linalg.norm(g, axis=1, keepdims=True) / CLIP, 1.0)
        beta = beta + g.mean(axis=0) + deviation * rng.normal(size=d)
    return beta


def algorithm_2(
    kind: str, data, start, epsilon: float, steps: int, rng: np.random.Generator
) -> np.ndarray:
    """As printed, with an oracle tau."""
    n, d = data[0].shape
    tau = float(np.max(np.mean(gradients(kind, data, start) ** 2, axis=0)))
    m = n // steps
    tilde = math.sqrt(math.log(1 / DELTA) + epsilon) - math.sqrt(math.log(1 / DELTA))
    s, smooth = math.sqrt(m * tau * tilde) / (2 * math.log(1 / ZETA)), math.log(1 / ZETA) ** 0.5
    deviation = math.sqrt(16 * s * s * d / 9) / (m * tilde)
    order, beta = rng.permutation(n), start
    for t in range(steps):
        part = order[t * m : (t + 1) * m]
        g = gradients(kind, tuple(a[part] for a in data), beta)
        g = robust_rows(np.ascontiguousarray(g), s, smooth, Scratch())
        beta = beta + g.mean(axis=0) + deviation * rng.normal(size=d)
    return beta


def error(kind: str, found: np.ndarray, beta: np.ndarray) -> float:
    """Distance, up to the sign that the symmetric models do not have."""
    away = float(np.linalg.norm(found - beta))
    return away if kind == "missing" else min(away, float(np.linalg.norm(found + beta)))


def errors(
    kind: str, n: int, d: int, epsilon: float, snr: float, seeds: int, said: str
) -> dict[str, list[float]]:
    """Errors of every method on every seed."""
    make = KINDS[kind]
    bounds = {"bounds": 8.0} | ({} if kind == "mixture" else {"target_bounds": 12.0})
    budget = {"epsilon": epsilon, "delta": DELTA, "neighbours": "replace-one", **bounds}
    found: dict[str, list[float]] = {}
    for seed in range(seeds):
        print(f"\r{said}, data set {seed + 1} of {seeds} ", end="", file=sys.stderr, flush=True)
        rng = np.random.default_rng(1000 + seed)
        data, beta, start = draw(kind, n, d, snr, rng)
        given = {"init": start, "noise_variance": 1.0}
        fitted = {
            "exact EM": make(epsilon=None, **given),
            "default": make(**budget, **given),
            "default, nothing given": make(**budget),
        }
        ends = {}
        for name, model in fitted.items():
            model.fit(*data)
            ends[name] = model.mean_ if kind == "mixture" else model.coef_
        for name, method in (("algorithm 1", algorithm_1), ("algorithm 2", algorithm_2)):
            for steps in STEPS:
                ends[f"{name}, T={steps}"] = method(kind, data, start, epsilon, steps, rng)
        for name, end in ends.items():
            found.setdefault(name, []).append(error(kind, end, beta))
    print("\r" + " " * 79 + "\r", end="", file=sys.stderr, flush=True)
    return found


def summary(found: dict[str, list[float]]) -> list[float]:
    """Medians, of the algorithms with the best number of steps in hindsight."""
    medians = {name: statistics.median(values) for name, values in found.items()}
    best = [
        min(value for name, value in medians.items() if name.startswith(algorithm))
        for algorithm in COLUMNS[3:]
    ]
    return [medians[name] for name in COLUMNS[:3]] + best


def parsed(at: str) -> dict[str, Any]:
    """A setting as ``--at`` has it."""
    n, d, epsilon = at.split("/")
    return {"n": int(n), "d": int(d), "epsilon": float(epsilon)}


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=tuple(KINDS))
    parser.add_argument("--at", nargs="+", metavar="n/d/epsilon", help="these settings instead")
    parser.add_argument("--snr", type=float, default=3.0, help="|beta| over sigma")
    parser.add_argument("--seeds", type=int, default=9)
    parser.add_argument("--json", metavar="FILE", type=Path)
    parser.add_argument("--markdown", action="store_true", help="rows of README's table")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    kept: list[dict[str, Any]] = []
    if options.json and options.json.exists():
        kept = json.loads(options.json.read_text())
    kinds = [options.only] if options.only else list(KINDS)
    chosen = [parsed(at) for at in options.at] if options.at else SETTINGS
    settings = [{"kind": k, **setting, "snr": options.snr} for k in kinds for setting in chosen]
    print(f"median error of {options.seeds}\nmodel | n | d | epsilon | " + " | ".join(COLUMNS))
    for index, setting in enumerate(settings, 1):
        key = {**setting, "seeds": options.seeds}
        known = next((row for row in kept if row.items() >= key.items()), None)
        if known is None:
            said = f"setting {index} of {len(settings)}"
            known = {**key, "errors": errors(**setting, seeds=options.seeds, said=said)}
            kept.append(known)
            if options.json:
                options.json.write_text(json.dumps(kept, indent=1))
        figures = summary(known["errors"])
        shown = [f"{value:.4f}" for value in figures]
        if options.markdown:
            shown[1] = f"**{shown[1]}**"
        row = [setting["kind"], f"{setting['n']:,}", setting["d"], setting["epsilon"], *shown]
        print("| " + " | ".join(map(str, row)) + " |", flush=True)


if __name__ == "__main__":
    main()
