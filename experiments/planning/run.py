"""Is a plan right? On the family it assumes, and on data sets that it knows nothing of.

    python experiments/planning/run.py family [--times 15] [--only NAME ...]
    python experiments/planning/run.py everywhere [--splits 5] [--only NAME ...]

``family``: the loss that rehearsals forecast, beside that of real fits of as many different records
as they assume. ``everywhere``: the cases of experiments/mixtures/everywhere.py with bounds
given. Where the plan says that noise rules out more than one component, several components that
are fitted nevertheless (``mechanism="whitened"``) should gain no more than 0.1 nats over one. Ends
with 1 where less than 90% of these cases are right. Figures are kept in ``everywhere.jsonl``, so
that a run may be stopped and continued.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import json
import statistics
import sys
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from privem import GaussianMixture, plan
from privem.declaration import Public, declarations
from privem.families import made_up
from privem.parameters import BoundsNotFound
from privem.planning.rehearsal import Rehearsals

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "mixtures"))
from sets import SETS, load, sizes, split  # noqa: E402

FEATURES, HELD_OUT = 4, 4000
# Losses below this are noise of the held-out records.
SMALL = 0.005
# A plan is right if several components gain no more than so many nats.
MARGIN = 0.1
COMPONENTS, EPSILONS, DELTA, SHARE = (3, 8), (0.1, 0.5, 1.0, 4.0), 1e-6, 0.9


def real_losses(rehearsals: Rehearsals, rows: int, epsilon: float, times: int) -> list[float]:
    """What real fits of so many made-up records lose."""
    found = []
    for seed in range(times):
        public = Public(
            rows + HELD_OUT,
            FEATURES,
            rehearsals.components or 3,
            rehearsals.separation,
            rehearsals.categories,
            rehearsals.estimator.get_params(deep=False),
        )
        made = made_up(rehearsals.declared, public, np.random.default_rng((99, seed)))
        fitted, held = (tuple(p[s] for p in made.data) for s in (np.s_[:rows], np.s_[rows:]))
        try:
            private = rehearsals._model(made, epsilon=epsilon, random_state=seed).fit(*fitted)
        except BoundsNotFound:
            found.append(float("inf"))
            continue
        exact = made.exact
        if exact is None:
            model = rehearsals._model(made, epsilon=None, random_state=seed).fit(*fitted)
            exact = rehearsals._score(model, held)
        score = rehearsals._score(private, held)
        found.append(exact - score if rehearsals.declared.density else score / exact - 1)
    return found


def family(options: argparse.Namespace) -> int:
    """Forecast and real losses of every model."""
    print("| model | records | epsilon | forecast | real | ratio |\n|---|---|---|---|---|---|")
    for declared in declarations():
        if options.only and declared.name not in options.only:
            continue
        given: dict[str, Any] = {"bounds": 1.0, "target_bounds": (0.0, 1.0)}
        given = {name: value for name, value in given.items() if name in declared.parameters}
        if declared.count is not None:
            given[declared.count] = 3
        times = min(options.times, 3) if declared.schema else options.times
        model = declared.estimator(**given)
        rehearsals = Rehearsals(declared, model, FEATURES, 4.0, 4, 0)
        for rows in (1000, 20_000):
            for epsilon in (0.25, 1.0):
                told = rehearsals.median_loss(times, rows, epsilon)
                real = statistics.median(real_losses(rehearsals, rows, epsilon, times))
                small = max(told, real) < SMALL
                ratio = "" if small else f"{max(told, SMALL) / max(real, SMALL):.2f}"
                cells = (declared.name, f"{rows:,}", epsilon, f"{told:.4f}", f"{real:.4f}", ratio)
                print("| " + " | ".join(map(str, cells)) + " |", flush=True)
    return 0


@cache
def forecast(rows: int, features: int, components: int, epsilon: float) -> str:
    """The structure that a plan says."""
    model = GaussianMixture(components, epsilon=epsilon, delta=DELTA, bounds=1.0)
    return plan(model, rows, features, accuracy=None, rehearsals=1).structure


def score(
    name: str, rows: int, seed: int, epsilon: float, components: int, mechanism: str
) -> float:
    """Held-out log-likelihood per record of one private fit."""
    train, test = split(name, rows, seed)
    _, low, high = load(name)
    model = GaussianMixture(
        components,
        epsilon=epsilon,
        delta=DELTA,
        bounds=(low, high),
        mechanism=mechanism,
        random_state=seed,
    )
    return float(model.fit(train).score(test))


def everywhere(options: argparse.Namespace) -> int:
    """Where the plan says one component: is it right?"""
    path, known = HERE / "everywhere.jsonl", {}
    if path.exists():
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        known = {(r["set"], r["n"], r["k"], r["epsilon"]): r for r in rows}
    cases, splits = [], range(options.splits)
    for name in options.only or SETS:
        features = load(name)[0].shape[1]
        for n in sizes(name):
            for k in COMPONENTS:
                for epsilon in EPSILONS:
                    row = known.get((name, n, k, epsilon))
                    if row is None:
                        row = {"set": name, "n": n, "d": features, "k": k, "epsilon": epsilon}
                        row["structure"] = forecast(n, features, k, epsilon)
                        if row["structure"] == "single":
                            fits = {"one": (1, "auto"), "many": (k, "whitened")}
                            for title, how in fits.items():
                                each = (score(name, n, s, epsilon, *how) for s in splits)
                                row[title] = round(statistics.median(each), 4)
                        with path.open("a") as file:
                            file.write(json.dumps(row) + "\n")
                    cases.append(row)
    single = [row for row in cases if row["structure"] == "single"]
    right = [row for row in single if row["one"] >= row["many"] - MARGIN]
    strictly = [row for row in single if row["one"] >= row["many"]]
    print(f"{len(cases)} cases. Noise rules out more than one component in {len(single)}:")
    print(f"  right in {len(right)}; one is at least as good in {len(strictly)}")
    for row in sorted(single, key=lambda row: row["one"] - row["many"]):
        if row["one"] < row["many"] - MARGIN:
            print(f"  {row}")
    return int(len(right) < SHARE * len(single))


def main() -> int:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("family", "everywhere"))
    parser.add_argument("--times", type=int, default=15, help="fits of each kind (family)")
    parser.add_argument("--splits", type=int, default=5, help="of each data set (everywhere)")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="models, or data sets")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    return {"family": family, "everywhere": everywhere}[options.what](options)


if __name__ == "__main__":
    sys.exit(main())
