"""Ways to choose the number of components within one budget, on the data of everywhere.py.

    python experiments/selection/run.py [--only NAME ...] [--epsilon 1] [--splits 3] [--designs ...]
    python experiments/selection/run.py --fresh --designs whole select --check

Held-out log-likelihood per record; delta = 1e-6, add-remove neighbours, wide public bounds, K in
1..8. For each data set and split:

whole    every K with the whole budget, which nobody has who does not know K: the best is "best"
largest  the K=8 of these: no choice at all
select   privem.select: the largest K that the forecast supports, others by merging, one joint score
more     the same with share=0.3: more of the budget for the scores
split    a fit for every K in parallel, each with an eighth of what scores leave, one joint score
refit    the same with 0.4 of the budget for fits and scores; then the winner again, with the rest

Noise is fresh in every run. Lines go to a file, so that a run may be stopped and continued.
``--fresh`` takes data sets that nobody had looked at when the limits of the forecast were chosen
(``FRESH`` in experiments/mixtures/sets.py). ``--check`` ends with 1 where ``select`` is within 0.1
nats of the best of its own fits in less than 80% of the cases.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import itertools
import json
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import numpy as np

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "mixtures"))

from sets import FRESH, SETS, load, sizes, split  # noqa: E402

from privem import GaussianMixture, select  # noqa: E402
from privem.accounting import Gaussian, mu_for  # noqa: E402
from privem.accounting import epsilon as epsilon_of  # noqa: E402
from privem.run import run  # noqa: E402

DELTA, MOST = 1e-6, 8
# The part of the cases in which the choice should be near the best of its fits.
NEAR = 0.8
DESIGNS = ("whole", "select", "more", "split", "refit")
# Of the budget, for scores.
MORE = 0.3
# Of the budget, for choosing, where the winner is fitted again.
FIRST = 0.4


def part(epsilon: float, share: float) -> float:
    """The epsilon that so much of the budget is."""
    mu = mu_for(epsilon, DELTA) * share**0.5
    return epsilon_of(Gaussian(1 / mu), DELTA, "gdp")


def models(name: str, seed: int) -> list[GaussianMixture]:
    """The candidates."""
    _, low, high = load(name)
    known = {"bounds": (low, high), "delta": DELTA, "random_state": seed}
    return [GaussianMixture(k, **known) for k in range(1, MOST + 1)]


def apart(candidates: list, train: np.ndarray, epsilon: float):
    """A selection in which nothing is made of anything else."""
    alone = mock.PropertyMock(return_value=False)
    with mock.patch.object(GaussianMixture, "_merges", alone):
        return select(candidates, train, epsilon=epsilon, delta=DELTA)


def measure(design: str, name: str, epsilon: float, seed: int) -> dict:
    """Held-out scores of one design: of each K, and of the choice."""
    train, test = split(name, sizes(name)[-1], seed)
    candidates = models(name, seed)
    if design == "whole":
        fits = [model.set_params(epsilon=epsilon).fit(train) for model in candidates]
        return {"each": [float(model.score(test)) for model in fits]}
    if design == "split":
        chosen = apart(candidates, train, epsilon)
    elif design == "refit":
        winner = apart(candidates, train, part(epsilon, FIRST)).best_.n_components
        model = models(name, seed)[winner - 1].set_params(epsilon=part(epsilon, 1 - FIRST))
        return {"k": winner, "chosen": float(model.fit(train).score(test))}
    else:
        share = {"share": MORE} if design == "more" else {}
        chosen = select(candidates, train, epsilon=epsilon, delta=DELTA, **share)
    found = {"k": chosen.best_.n_components, "chosen": float(chosen.best_.score(test))}
    fits = chosen_from(chosen, test)
    return found | {"each": fits, "noise": chosen.scores_ and chosen.scores_.difference_deviation}


def chosen_from(chosen, test: np.ndarray) -> list[float]:
    """Held-out scores of all fits that a selection chose from: it is played again."""
    played = chosen.best_._played
    with played.tape.playing(lambda release: release) as source:
        found = run(played.plan.plan, source)
    candidates = played.plan.plan.plan.candidates
    return [float(candidates[i].fitted(fit).score(test)) for i, fit in found.fits.items()]


def main() -> int:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", choices=[*SETS, *FRESH], metavar="NAME")
    parser.add_argument("--fresh", action="store_true", help="sets that were not looked at before")
    parser.add_argument("--epsilon", nargs="+", type=float, default=[1.0])
    parser.add_argument("--least", type=int, default=10_000, help="only sets with so many records")
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--designs", nargs="+", choices=DESIGNS, default=DESIGNS)
    parser.add_argument("--lines", type=Path, help="default: lines.jsonl, or fresh.jsonl")
    parser.add_argument("--check", action="store_true", help="end with 1 where it is not reached")
    parser.add_argument("--report", action="store_true", help="only print what there is")
    options = parser.parse_args()
    lines = options.lines or HERE / ("fresh.jsonl" if options.fresh else "lines.jsonl")
    known = {}
    if lines.exists():
        # A line may be cut off where a run was stopped.
        whole = [line for line in lines.read_text().splitlines(True) if line.endswith("}\n")]
        for row in map(json.loads, whole):
            known[row["design"], row["set"], row["epsilon"], row["seed"]] = row
    if not options.report:
        warnings.simplefilter("ignore")
        for row in missing(options, known):
            with lines.open("a") as file:
                file.write(json.dumps(row) + "\n")
    near = report(known)
    return int(options.check and not near >= NEAR)


def missing(options: argparse.Namespace, known: dict) -> Iterator[dict]:
    """What is not known yet, as it comes."""
    names = options.only or list(FRESH if options.fresh else SETS)
    wanted = itertools.product(
        range(options.splits),
        options.epsilon,
        [name for name in names if sizes(name)[-1] >= options.least],
        options.designs,
    )
    todo = [(design, name, epsilon, seed) for seed, epsilon, name, design in wanted]
    todo = [key for key in todo if key not in known]
    started = time.monotonic()
    for done, key in enumerate(todo):
        left = (time.monotonic() - started) / done * (len(todo) - done) / 60 if done else 0
        told = f", about {left:.0f} minutes left" if done else ""
        said = f"{done} of {len(todo)}{told} ({key[1]}, {key[0]})"
        print(f"\r{said:<70}", end="", file=sys.stderr, flush=True)
        row = dict(zip(("design", "set", "epsilon", "seed"), key, strict=True))
        known[key] = row | measure(*key)
        yield known[key]
    print(file=sys.stderr)


def report(known: dict) -> float:
    """Loss of each design against the best K with the whole budget, by set and in all.

    Returns the least part of the cases, of any epsilon, where ``select`` is near its best fit.
    """
    least = 1.0
    epsilons = sorted({key[2] for key in known})
    for epsilon in epsilons:
        rows = {key: row for key, row in known.items() if key[2] == epsilon}
        names = list(dict.fromkeys(key[1] for key in rows))
        designs = ["largest", *(d for d in DESIGNS[1:] if any(key[0] == d for key in rows))]
        lines, every, within = [], {design: [] for design in designs}, {}
        for name in names:
            whole = {k[3]: r["each"] for k, r in rows.items() if k[:2] == ("whole", name)}
            if not whole:
                continue
            best = max(np.median(list(whole.values()), axis=0))
            cells = []
            for design in designs:
                if design == "largest":
                    found = {seed: (MOST, each[-1]) for seed, each in whole.items()}
                else:
                    mine = {k[3]: r for k, r in rows.items() if k[:2] == (design, name)}
                    found = {seed: (r["k"], r["chosen"]) for seed, r in mine.items()}
                    for r in mine.values():
                        if "each" in r:
                            within.setdefault(design, []).append(max(r["each"]) - r["chosen"])
                losses = [best - score for _, score in found.values()]
                every[design] += losses
                ks = "/".join(str(k) for k in sorted({k for k, _ in found.values()}))
                spread = f"{min(losses):.2f} to {max(losses):.2f}" if losses else ""
                cells.append(f"{np.median(losses):.2f} ({spread}; K {ks})" if losses else "")
            lines.append(f"| {name} | " + " | ".join(cells) + " |")
        print(f"\nepsilon {epsilon:g}: loss against the best K with the whole budget\n")
        print("| data | " + " | ".join(designs) + " |\n|" + "---|" * (1 + len(designs)))
        print("\n".join(lines))
        middle = (f"{np.median(v):.2f}, mean {np.mean(v):.2f}" if v else "" for v in every.values())
        print("| median of all | " + " | ".join(middle) + " |\n")
        for design, away in within.items():
            near = np.mean(np.array(away) <= 0.1)
            print(f"{design}: within 0.1 of the best of its own fits in {near:.0%} of {len(away)}")
            if design == "select":
                least = min(least, float(near))
    return least


if __name__ == "__main__":
    sys.exit(main())
