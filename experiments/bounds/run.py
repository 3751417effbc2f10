"""Bounds that nobody gave: how much of a column they hold, and how wide they are.

    python experiments/bounds/run.py [--check] [--reps 16] [--columns FILE.npy ...]

A table has d columns (4, 10, 30), of one distribution after the other; those with heavy tails or
zeros have tables of their own. The number of records is a multiple of what one cell of a histogram
needs to stand out of the noise: with a tenth of the budget on 202 signed octaves of d columns that
is t = sqrt(d)/(mu sqrt(0.1)) sqrt(2 ln(202 d/0.01)).
Epsilon is 0.1, 0.5, 1 and 4, delta 1e-6. What runs is the library's own: its plan, its calibration,
its queries and its discrete noise; but sums are taken over 10,000 drawn records and scaled to the
number that there would be, so that a run takes a tenth of a second.

Printed of each column: the share of the distribution between the bounds, as its 1% quantile over
draws; the median of their width over that of the middle 99%; in brackets the 90% quantile of that.
``--columns``: columns in files, of which as many records are drawn, in place of the
distributions. ``--check`` ends with an error where the requirements are not met:

- from n = t/0.03 on (heavy tails and zeros: t/0.004), in 99 of 100 draws 99% of each column are
  held, and no more than one table in 100 stops;
- from n = t/0.004 on bounds are at most 4 times as wide as the middle 99%: half of those of heavy
  tails and zeros, nine in ten of the others;
- at n = t/0.1 every table stops, and none ever takes more than 15% of the budget.
"""

from __future__ import annotations

import argparse
import itertools
import math
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from privem import BoundsNotFound
from privem.accounting.registry import mu_for
from privem.budget import Part, Terms
from privem.core import Block, Release, Scratch, Stage
from privem.data.table import People
from privem.fit import fund, pay
from privem.ground import Ground, Preamble
from privem.linalg import map_leaves

DELTA, ROWS, MOST = 1e-6, 10_000, 200_000
DIMENSIONS, EPSILONS, LEVELS = (4, 10, 30), (0.1, 0.5, 1.0, 4.0), (0.1, 0.03, 0.01, 0.004, 0.0004)
HEAVY = ("lognormal 2", "Cauchy", "t, 2 degrees", "95% zeros")


def columns(rng: np.random.Generator, n: int) -> dict[str, np.ndarray]:
    """Columns of many kinds, so many records of each."""
    z, u = rng.standard_normal(n), rng.random(n)
    return {
        "normal": z,
        "100 + 15 normal": 100 + 15 * z,
        "exponential": rng.exponential(size=n),
        "uniform": u,
        "lognormal 1": np.exp(z),
        "delays": np.where(u < 0.6, -5 + 5 * z, rng.exponential(50, n) - 10).round(),
        "far off": 1e6 + z,
        "uniform, far off": -3e7 + 100 * u,
        "counts": rng.poisson(3.0, n).astype(float),
        "two values": (u < 0.3) * 1.0,
        "two clusters": np.where(u < 0.5, z, 1000 + z),
        "a value in two": np.where(u < 0.5, 40.0, np.round(40 + 12 * z)),
        "constant": np.full(n, 5.0),
        "lognormal 2": np.exp(2 * z),
        "Cauchy": rng.standard_cauchy(n),
        "t, 2 degrees": rng.standard_t(2, n),
        "95% zeros": np.where(u < 0.95, 0.0, np.exp(z)),
    }


@dataclass(frozen=True)
class Bounds:
    """Count and bounds: what every fit begins with, and nothing else but the rest of its budget."""

    preamble: Preamble

    def parts(self) -> list[Part]:
        """With a last part that is never spent."""
        left = 1.0 - self.preamble.share()
        return [*self.preamble.parts(), Part("rest", left, [("gaussian", 1)])]

    def stages(self, allowance: Any) -> Any:
        """Generate the stages."""
        return self.preamble.stages(allowance)


@dataclass(frozen=True)
class Scaled:
    """Answers for ``n`` records from those drawn."""

    X: np.ndarray
    n: int

    def release(self, stage: Stage) -> Release[Any]:
        """Sum, scale, add the library's noise."""
        total = stage.query(Block(self.X), Scratch())
        scaled = map_leaves(lambda leaf: np.rint(leaf * (self.n / len(self.X))), total)
        return stage.noise.release(stage.query, scaled)


def needed(d: int, epsilon: float) -> float:
    """How many records a cell must hold to stand out, by the formula above."""
    noise = math.sqrt(d) / (mu_for(epsilon, DELTA) * math.sqrt(0.1))
    return noise * math.sqrt(2 * math.log(202 * d / 0.01))


def found(X: np.ndarray, n: int, epsilon: float) -> tuple[Ground | None, float]:
    """The ground of a fit, or nothing if it stopped; and the share of the budget that it took."""
    terms = Terms.check(epsilon, DELTA)
    plan = Bounds(Preamble.of(terms, People("record", None, weighted=False), X.shape[1], None))
    funded, meter = fund(plan, terms)
    try:
        ground: Ground | None = pay(funded, meter, Scaled(X, n))
    except BoundsNotFound:
        ground = None
    groups = [group for name, groups in meter.releases if name != "count" for group in groups]
    spent = sum(group.multiplier**-2 for group in groups)
    return ground, spent * funded.allowance.base**2  # type: ignore[attr-defined]


def draws(
    known: dict[str, np.ndarray], level: float, reps: int, rng: np.random.Generator
) -> tuple[dict[str, list[tuple[float, float]]], int, int, float]:
    """(share held, width) of every draw of each column; stopped and all runs; the most spent."""
    seen: dict[str, list[tuple[float, float]]] = {name: [] for name in known}
    ordered = {name: np.sort(x) for name, x in known.items()}
    middle = {name: np.subtract(*np.quantile(x, [0.995, 0.005])) for name, x in known.items()}
    turn, stopped, runs, most = itertools.cycle(known), 0, 0, 0.0
    for d, epsilon in itertools.product(DIMENSIONS, EPSILONS):
        n = math.ceil(needed(d, epsilon) / level)
        for _ in range(max(1, round(reps * 10 / d))):
            names = [next(turn) for _ in range(d)]
            X = np.column_stack([rng.choice(known[name], ROWS) for name in names])
            ground, spent = found(X, n, epsilon)
            runs, most, stopped = runs + 1, max(most, spent), stopped + (ground is None)
            if ground is None:
                continue
            for name, low, high in zip(names, *ground.region.sides, strict=True):
                x = ordered[name]
                held = np.searchsorted(x, high, "right") - np.searchsorted(x, low, "left")
                width = (high - low) / middle[name] if middle[name] > 0 else math.nan
                seen[name].append((held / len(x), width))
    return seen, stopped, runs, most


def seldom(draws: int) -> float:
    """One in a hundred, as far as so many draws can tell: three deviations more."""
    return 0.01 + 3 * math.sqrt(0.01 * 0.99 / draws)


def main() -> None:
    parser = argparse.ArgumentParser(description="Bounds that nobody gave.")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--reps", type=int, default=16)
    parser.add_argument("--columns", nargs="*", type=Path, default=[])
    given = parser.parse_args()
    rng = np.random.default_rng(0)
    known = {path.stem: np.load(path) for path in given.columns} or columns(rng, MOST)
    groups = [[name for name in known if (name in HEAVY) == heavy] for heavy in (False, True)]
    wrong: list[str] = []
    table: dict[str, list[str]] = {name: [] for name in (*known, "*stopped*", "*stopped, heavy*")}
    for level, group in itertools.product(LEVELS, filter(None, groups)):
        seen, stopped, runs, most = draws({n: known[n] for n in group}, level, given.reps, rng)
        heavy = group[0] in HEAVY
        promised = level <= (0.004 if heavy else 0.03)
        if most > 0.15 + 1e-9:
            wrong.append(f"t/{level:g}: {most:.3f} of the budget")
        if level == 0.1 and stopped < runs:
            wrong.append(f"t/{level:g}: {runs - stopped} of {runs} tables did not stop")
        if promised and stopped / runs > seldom(runs):
            wrong.append(f"t/{level:g}: {stopped} of {runs} tables stopped")
        table["*stopped, heavy*" if heavy else "*stopped*"].append(f"{stopped} of {runs} tables")
        for name, pairs in seen.items():
            held, width = np.array(pairs or [(math.nan, math.nan)]).T
            low, median = np.quantile(held, 0.01, method="lower"), np.median(width)
            wide = np.quantile(width, 0.9)
            table[name].append(f"{low:.4f}: {median:.2f} ({wide:.2f})" if pairs else "")
            if promised and np.mean(held < 0.99) > seldom(len(held)):
                wrong.append(f"{name}, t/{level:g}: {np.mean(held < 0.99):.1%} hold less than 99%")
            if level <= 0.004 and (median if heavy else wide) > 4:
                wrong.append(f"{name}, t/{level:g}: {median:.1f} times as wide ({wide:.1f})")
    print("| column |", " | ".join(f"n = t/{level:g}" for level in LEVELS), "|")
    print("|---" * (1 + len(LEVELS)) + "|")
    for name, cells in table.items():
        if cells:
            print(f"| {name} |", " | ".join(cells), "|")
    if wrong:
        print("\n".join(["", "not met:", *wrong]), file=sys.stderr)
    sys.exit(bool(wrong) and given.check)


if __name__ == "__main__":
    main()
