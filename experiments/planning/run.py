"""Is a plan right? On the family it assumes, and on data sets that it knows nothing of.

    python experiments/planning/run.py family [--times 15] [--only NAME ...]
    python experiments/planning/run.py everywhere [--splits 5] [--only NAME ...] [--jobs 2]

``family``: the loss that rehearsals forecast, beside that of real fits of as many different records
as they assume. ``everywhere``: the cases of experiments/mixtures/everywhere.py, all sets and sizes.
Where the plan says that noise rules out more than one component, several components that are fitted
nevertheless (``mechanism="whitened"``) should gain no more than 0.1 nats over one, in the median of
the splits. Ends with 1 where less than 90% of these cases are right. Fits that are compared share
their noise. Lines go to a file, so that a run may be stopped and continued; all cases have a split
before any has the next. ``--report`` prints what there is.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import json
import math
import statistics
import sys
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

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


class Case(NamedTuple):
    """Records and a budget."""

    set: str
    n: int
    epsilon: float
    bounds: str
    """"given" or "none"."""


def noise_of(case: Case, seed: int) -> Any:
    """Random bytes that all fits of a split share, so that they differ by what they do.

    For public data alone: noise from a seed hides nothing.
    """
    name = f"{case.set} {case.n} {case.bounds} {seed}".encode()
    return mock.patch("os.urandom", np.random.default_rng(list(sha256(name).digest())).bytes)


def forecast(case: Case, components: int) -> str:
    """The structure that a plan says."""
    bounds = 1.0 if case.bounds == "given" else None
    model = GaussianMixture(components, epsilon=case.epsilon, delta=DELTA, bounds=bounds)
    features = load(case.set)[0].shape[1]
    return plan(model, case.n, features, accuracy=None, rehearsals=1).structure


def score(case: Case, seed: int, components: int, mechanism: str) -> float | None:
    """Held-out log-likelihood per record of one private fit; none where it found no bounds."""
    train, test = split(case.set, case.n, seed)
    _, low, high = load(case.set)
    model = GaussianMixture(
        components,
        epsilon=case.epsilon,
        delta=DELTA,
        bounds=(low, high) if case.bounds == "given" else None,
        mechanism=mechanism,
        random_state=seed,
    )
    with noise_of(case, seed):
        try:
            return round(float(model.fit(train).score(test)), 4)
        except BoundsNotFound:
            return None


def measure(case: Case, seed: int, told: dict[int, str]) -> dict[str, Any]:
    """One split of a case: what the plan says, and how one component and several do."""
    warnings.simplefilter("ignore")
    told = told or {k: forecast(case, k) for k in COMPONENTS}
    row = case._asdict() | {"split": seed, "told": {str(k): said for k, said in told.items()}}
    single = [k for k in COMPONENTS if told[k] == "single"]
    if single:
        row["one"] = score(case, seed, 1, "auto")
        row["many"] = {str(k): score(case, seed, k, "whitened") for k in single}
    return row


def everywhere(options: argparse.Namespace) -> int:
    """Where the plan says one component: is it right?"""
    rows = remembered(options.lines)
    if not options.report:
        for row in missing(options, rows):
            rows.append(row)
            with options.lines.open("a") as file:
                file.write(json.dumps(row) + "\n")
    return verdict(rows)


def remembered(path: Path) -> list[dict[str, Any]]:
    """What is known already; a line may be cut off where a run was stopped."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().splitlines(True) if line.endswith("}\n")]


def missing(options: argparse.Namespace, rows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """What is not known yet, as it comes: first a split of every case, then the next of all."""
    cases = [
        Case(name, n, epsilon, bounds)
        for bounds in options.bounds
        for name in options.only or SETS
        for n in sizes(name)
        for epsilon in EPSILONS
    ]
    # What the plan says of a case is the same for all splits.
    told = {Case(*(r[f] for f in Case._fields)): _told(r) for r in rows}
    known = {(*(r[f] for f in Case._fields), r["split"]) for r in rows}
    todo = [(s, c) for s in range(options.splits) for c in cases if (*c, s) not in known]
    started, done = time.monotonic(), 0
    with ProcessPoolExecutor(options.jobs) as pool:
        for seed in range(options.splits):
            asked = [
                pool.submit(measure, case, seed, told.get(case, {}))
                for s, case in todo
                if s == seed
            ]
            for future in as_completed(asked):
                row = future.result()
                told[Case(*(row[f] for f in Case._fields))] = _told(row)
                done += 1
                left = (time.monotonic() - started) / done * (len(todo) - done)
                said = f"{done} of {len(todo)}, about {left / 60:.0f} minutes left ({row['set']})"
                print(f"\r{said:<70}", end="", file=sys.stderr, flush=True)
                yield row
    print(file=sys.stderr)


def _told(row: dict[str, Any]) -> dict[int, str]:
    return {int(k): said for k, said in row["told"].items()}


def verdict(rows: list[dict[str, Any]]) -> int:
    """Print what was found, by kind of bounds; 1 where the plan is right too seldom."""
    wrong = 0
    for bounds in sorted({row["bounds"] for row in rows}):
        cases: dict[tuple[Any, ...], list[float]] = {}
        own = [row for row in rows if row["bounds"] == bounds]
        for row in own:
            for k, many in row.get("many", {}).items():
                where = (row["set"], row["n"], int(k), row["epsilon"])
                # Whoever finds no bounds has no model, with one component or with several.
                one = -math.inf if row["one"] is None else row["one"]
                gain = 0.0 if many is None else many - one
                cases.setdefault(where, []).append(gain)
        gains = {where: statistics.median(found) for where, found in cases.items()}
        every = len({(r["set"], r["n"], r["epsilon"]) for r in own}) * len(COMPONENTS)
        right = sum(gain <= MARGIN for gain in gains.values())
        equal = sum(gain <= 0 for gain in gains.values())
        few = min(map(len, cases.values()), default=0)
        sets = len({row["set"] for row in own})
        print(f"bounds {bounds}: {every} cases of {sets} sets, medians of {few} or more splits")
        print(f"  noise rules out more than one component in {len(gains)}")
        print(f"  right in {right} ({right / max(len(gains), 1):.0%}); gain nothing: {equal}")
        for where, gain in sorted(gains.items(), key=lambda item: -item[1]):
            if gain > MARGIN:
                name, n, k, epsilon = where
                print(f"  wrong: {name}, n = {n}, K = {k}, epsilon {epsilon:g}: {gain:.2f} nats")
        wrong += right < SHARE * len(gains)
    return int(wrong > 0)


def main() -> int:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("family", "everywhere"))
    parser.add_argument("--times", type=int, default=15, help="fits of each kind (family)")
    parser.add_argument("--splits", type=int, default=5, help="of each data set (everywhere)")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="models, or data sets")
    parser.add_argument("--bounds", nargs="+", choices=("given", "none"), default=["given"])
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--lines", type=Path, default=HERE / "everywhere.jsonl")
    parser.add_argument("--report", action="store_true", help="only print what there is")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    return {"family": family, "everywhere": everywhere}[options.what](options)


if __name__ == "__main__":
    sys.exit(main())
