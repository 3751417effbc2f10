"""Private mixtures on many data sets: are they ever worse than doing without?

    python experiments/mixtures/everywhere.py --check [--quick] [--only NAME ...] [--jobs 2]

Held-out log-likelihood per record, medians of 20 paired splits, delta = 1e-6, add-remove
neighbours, with wide public bounds given (see sets.py) and without any. ``default`` with one
component is the private single Gaussian, ``uniform`` the density that ignores the data. ``--check``
ends with 1 where a requirement fails (requirements.py) and says by how much. Figures are kept in a
file of lines for each state of the code, so that a run may be stopped, continued and run in parts.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import json
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from pathlib import Path

import numpy as np
from fits import Fit, Row, code, grid, key, run
from requirements import (
    Before,
    Cells,
    Requirement,
    deviation,
    label,
    median,
    requirements,
    scores,
    stopped,
)
from sets import SETS, load

HERE = Path(__file__).parent
QUICK_SPLITS, SPLITS = 4, 20


def arguments() -> argparse.Namespace:
    """What was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="end with 1 where a requirement fails")
    parser.add_argument("--quick", action="store_true", help="4 splits, no ggg, fewer epsilons")
    parser.add_argument("--only", nargs="+", choices=SETS, default=list(SETS), metavar="NAME")
    parser.add_argument("--n", nargs="+", type=int, help="only these numbers of records")
    parser.add_argument("--epsilon", nargs="+", type=float, help="only these budgets")
    parser.add_argument("--bounds", choices=("given", "none"), help="only this kind")
    parser.add_argument("--splits", type=int)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=float("inf"), help="then stop and report")
    parser.add_argument("--cache", type=Path, default=HERE / "everywhere.jsonl")
    parser.add_argument("--baseline", type=Path, default=HERE / "everywhere-before.json")
    parser.add_argument("--save", metavar="FILE", type=Path, help="write the medians")
    parser.add_argument("--note", default="", help="what to call the saved medians")
    parser.add_argument("--brief", action="store_true", help="no table")
    return parser.parse_args()


def chosen(options: argparse.Namespace) -> list[Fit]:
    """The fits that were asked for."""
    splits = options.splits or (QUICK_SPLITS if options.quick else SPLITS)
    return [
        fit
        for name in options.only
        for fit in grid(name, splits, options.quick)
        if (not options.n or fit.n in options.n)
        and (not options.epsilon or fit.epsilon in (None, *options.epsilon))
        and (fit.method == "exact" or options.bounds in (None, fit.bounds))
    ]


def remembered(path: Path, version: str) -> dict[tuple[object, ...], Row]:
    """The figures that this code has already reached; what ended with an error is tried again."""
    if not path.exists():
        return {}
    with path.open() as file:
        # A line may be cut off where a run was stopped.
        rows = [json.loads(line) for line in file if line.endswith("}\n")]
    return {key(row): row for row in rows if row["code"] == version and "error" not in row}


def tasks(fits: list[Fit]) -> list[list[Fit]]:
    """Fits of the same records, those of few records first; all sets of a split before the next."""
    together: dict[tuple[int, int, str], list[Fit]] = {}
    for fit in fits:
        together.setdefault((fit.split, fit.n, fit.set), []).append(fit)
    return [together[place] for place in sorted(together)]


def results(missing: list[Fit], options: argparse.Namespace) -> Iterator[list[Row]]:
    """Figures as they come, until the time is over."""
    todo, started = tasks(missing), time.monotonic()
    for name in {fit.set for fit in missing}:
        load(name)  # Once, for all processes.
    if options.jobs == 1:
        for task in todo:
            if time.monotonic() - started > 60 * options.minutes:
                return
            yield run(task)
        return
    with ProcessPoolExecutor(options.jobs) as pool:
        for future in as_completed([pool.submit(run, task) for task in todo]):
            yield future.result()
            if time.monotonic() - started > 60 * options.minutes:
                pool.shutdown(cancel_futures=True)
                return


def collect(options: argparse.Namespace) -> dict[Fit, dict[int, Row]]:
    """Figures by cell and split, from the file and from fits."""
    version, wanted = code(), chosen(options)
    known = remembered(options.cache, version)
    missing = [fit for fit in wanted if key(fit) not in known]
    started, done = time.monotonic(), 0
    with options.cache.open("a") as file:
        for rows in results(missing, options):
            for row in rows:
                file.write(json.dumps({"code": version, **row}) + "\n")
                known[key(row)] = row
            file.flush()
            done += len(rows)
            left = (time.monotonic() - started) / done * (len(missing) - done)
            said = f"{done:,} of {len(missing):,} fits, {left / 60:.0f} minutes left"
            print(
                f"\r{said} ({rows[0]['set']}, n = {rows[0]['n']})".ljust(70),
                end="",
                file=sys.stderr,
            )
    print(file=sys.stderr)
    cells: dict[Fit, dict[int, Row]] = {}
    for fit in wanted:
        if key(fit) in known:
            cells.setdefault(fit.cell, {})[fit.split] = known[key(fit)]
    # One or two splits say nothing about the others of a run that was stopped.
    enough = min(3, max((len(rows) for rows in cells.values()), default=0))
    return {cell: rows for cell, rows in cells.items() if len(rows) >= enough}


def table(cells: Cells, before: Before) -> Iterator[str]:
    """One line for each set, size, kind of bounds, number of components and epsilon."""
    titles = "data n d bounds K epsilon exact default single uniform ggg before w structure"
    yield "| " + " | ".join(titles.split()) + " |"
    yield "|---" * len(titles.split()) + "|"
    mixtures = [cell for cell in cells if cell.method == "default" and cell.k > 1]
    for cell in sorted(mixtures, key=lambda c: (c.set, c.n, c.bounds, c.k, c.epsilon)):
        rows = cells[cell]
        others = (
            replace(cell, method="exact", epsilon=None, bounds="given"),
            cell,
            replace(cell, k=1),
            None,
            replace(cell, method="ggg"),
        )
        values = [
            median(scores(rows, "uniform"))
            if other is None
            else median(scores(cells.get(other, {})))
            for other in others
        ]
        values.append(before.get(label(cell), (float("nan"),))[0])
        figures = ["" if value != value else f"{value:.2f}" for value in values]
        if stopped(rows):
            figures[1] = "stopped"
        d, kinds = load(cell.set)[0].shape[1], {r.get("structure", "") for r in rows.values()}
        start = (cell.set, cell.n, d, cell.bounds, cell.k, f"{cell.epsilon:g}")
        end = (f"{median(scores(rows, 'weight')):.3f}", "/".join(sorted(kinds)))
        yield "| " + " | ".join(map(str, (*start, *figures, *end))) + " |"


def verdict(requirement: Requirement, cells: Cells) -> tuple[bool, list[str]]:
    """Whether a requirement holds; in words, with each finding that does not, the worst first."""
    found = list(requirement.check(cells))
    wrong = sorted((f for f in found if not f.excess <= 0), key=lambda f: -f.excess)
    kept = len(wrong) <= (1 - requirement.share) * len(found) + 1e-9
    state = "holds" if kept else "FAILS"
    lines = [f"{requirement.title}: {state}, {len(found) - len(wrong)} of {len(found)}"]
    return kept, lines + [f"  {f.where}: {f.said} (by {f.excess:.2f})" for f in wrong]


def summary(cells: Cells) -> dict[str, tuple[float, float, float]]:
    """Median score, its standard error, and the median time of each cell that did not stop."""
    found = {}
    for cell, rows in cells.items():
        own = scores(rows)
        if own and not stopped(rows):
            error = deviation(np.array(list(own.values())))
            found[label(cell)] = (median(own), error, median(scores(rows, "seconds")))
    return found


def durations(before: Before, now: Before) -> str:
    """How long private fits take, in the time of exact fits, over the cells that both have."""
    both = before.keys() & now.keys()
    ratios = []
    for times in (before, now):
        private = sum(times[name][2] for name in both if name.endswith("default"))
        exact = sum(times[name][2] for name in both if name.endswith("exact"))
        ratios.append(private / exact if exact else float("nan"))
    return (
        f"Time of private fits by that of exact ones: {ratios[0]:.2f} before, {ratios[1]:.2f} now"
    )


def write(path: Path, note: str, figures: Before) -> None:
    """Keep the figures of private and exact fits; a line holds those of all epsilons."""
    lines: dict[str, dict[str, list[float]]] = {}
    for name, values in figures.items():
        if not name.endswith("ggg"):
            start, _, budget = name.partition(" eps ")
            lines.setdefault(start, {})[budget] = [round(value, 3) for value in values]
    body = ",\n".join(f"{json.dumps(name)}: {json.dumps(lines[name])}" for name in sorted(lines))
    path.write_text(f'{{"note": {json.dumps(note)},\n"cells": {{\n{body}\n}}}}\n')


def read(path: Path) -> Before:
    """The figures of before."""
    cells = json.loads(path.read_text())["cells"]
    return {
        f"{start} eps {budget}" if budget else start: tuple(values)
        for start, line in cells.items()
        for budget, values in line.items()
    }


def main() -> int:
    """Run and print."""
    options = arguments()
    cells = collect(options)
    now = summary(cells)
    before: Before = {}
    if options.baseline.exists():
        before = read(options.baseline)
    if options.save:
        write(options.save, options.note, now)
    if not options.brief:
        print("\n".join(table(cells, before)))
    errors = [(c, r["error"]) for c, rows in cells.items() for r in rows.values() if "error" in r]
    halted = sum("stopped" in row for rows in cells.values() for row in rows.values())
    print(f"\n{halted} fits stopped because no bounds were found; {len(errors)} raised an error")
    for cell, error in errors[:20]:
        print(f"  {label(cell)}: {error}")
    print(durations(before, now))
    held = not errors
    for requirement in requirements(before):
        kept, lines = verdict(requirement, cells)
        held &= kept
        print("\n".join(lines))
    return int(options.check and not held)


if __name__ == "__main__":
    sys.exit(main())
