"""What was asked of TableMixture on Adult: asked, seen, and whether it is so."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from columns import frame_of, schema_of
from cost import cost
from figures import head, line, mean, once, rival
from others import read

EPSILONS = (0.5, 1.0, 4.0)
# How we fit: without and with a target, to all rows and to few, to the cells of the grid that the
# rivals have instead of values, and to rows with gaps.
WAYS: dict[str, tuple[bool, dict[str, Any]]] = {
    "plain": (False, {}),
    "target": (True, {}),
    "3000 rows": (False, {"rows": 3000, "quick": True}),
    "3000 rows, target": (True, {"rows": 3000, "quick": True}),
    "on the grid": (False, {"grid": True, "quick": True}),
    "a fifth missing, target": (True, {"missing": 0.2}),
}
# At most so much of a rival's distance of pairs, without a target.
PAIRS = {(0.5, "aim"): 1.0, (1.0, "aim"): 0.90, (1.0, "mst"): 0.70, (4.0, "aim"): 0.75}

Found = dict[str, dict[str, float]]


def measure(runs: int, kept: Path | None) -> dict[str, Found]:
    """All figures of ours that the check needs, by epsilon and way; a file has earlier ones."""
    found: dict[str, Found] = {f"{epsilon:g}": {} for epsilon in EPSILONS}
    if kept is not None and kept.exists():
        found |= json.loads(kept.read_text())
    head()
    for epsilon in EPSILONS:
        here = found[f"{epsilon:g}"]
        for way, (with_target, more) in WAYS.items():
            if way not in here:
                here[way] = mean(
                    [once("adult", epsilon, with_target, i, **more) for i in range(runs)]
                )
            line(f"epsilon {epsilon:g}: {way} ({runs})", here[way])
            if kept is not None:
                kept.write_text(json.dumps(found))
        here["cost"] = _cost(epsilon)
    return found


def _cost(epsilon: float) -> dict[str, float]:
    columns, train, _, target = read("adult")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "adult.parquet")
        frame_of(columns, train).write_parquet(path)
        return cost(path, schema_of(columns), columns[target].name, epsilon, len(train))


class Lines:
    """Prints one line for each demand, and remembers whether all were met."""

    def __init__(self) -> None:
        self.fine = True
        print(f"\n{'':<64} {'asked':>10} {'seen':>10}")

    def least(self, what: str, asked: float, seen: float) -> None:
        self._say(what, f">= {asked:.4f}", seen, seen >= asked)

    def most(self, what: str, asked: float | None, seen: float) -> None:
        if asked is None:
            self.tell(what, seen)
        else:
            self._say(what, f"<= {asked:.4f}", seen, seen <= asked)

    def tell(self, what: str, seen: float) -> None:
        print(f"{what:<64} {'':>10} {seen:>10.4f}")

    def lack(self, what: str) -> None:
        self._say(what, "", float("nan"), False)

    def _say(self, what: str, asked: str, seen: float, fine: bool) -> None:
        self.fine &= fine
        print(f"{what:<64} {asked:>10} {seen:>10.4f}  {'ok' if fine else 'FAILS'}")


def check(runs: int, kept: Path | None) -> bool:
    """Whether all is well. Figures of ours are kept in a file, or taken from it."""
    found = measure(runs, kept)
    lines = Lines()
    for epsilon in EPSILONS:
        _check_at(lines, epsilon, found[f"{epsilon:g}"])
    print("all is well" if lines.fine else "something falls short")
    return lines.fine


def _check_at(lines: Lines, epsilon: float, found: Found) -> None:
    at, plain, aimed = f"epsilon {epsilon:g}", found["plain"], found["target"]
    for name in ("aim", "mst"):
        theirs, runs = rival("adult", name, epsilon)
        who = f"{name.upper()}'s ({runs} runs)"
        if runs == 0:
            if (epsilon, name) in PAIRS:
                lines.lack(f"{at}: {who}")
            continue
        for seen, where, said in (
            (plain["pairs"], "pairs", "pairs"),
            (found["on the grid"]["grid"], "on_grid", "pairs on the grid"),
        ):
            most = PAIRS.get((epsilon, name))
            lines.most(f"{at}: {said}, of {who}", most, seen / theirs[where])
        lines.tell(f"{at}: worst pair, {who}", theirs["worst"])
        if name == "aim":
            trees = theirs["trees"] - 0.003
            lines.least(f"{at}: trees with target, {who} less .003", trees, aimed["trees"])
            lines.least(f"{at}: linear with target, {who}", theirs["linear"], aimed["linear"])
    lines.tell(f"{at}: worst pair, ours", plain["worst"])
    lines.tell(f"{at}: worst pair, ours with target", aimed["worst"])
    if epsilon == 1.0:
        lines.least(f"{at}: held-out density", -17.2, plain["density"])
        lines.least(f"{at}: held-out density with target", -17.2, aimed["density"])
    if epsilon == 4.0:
        lines.least(f"{at}: trees with target", 0.905, aimed["trees"])
    for each in ("trees", "linear"):
        asked, seen = aimed[each] - 0.005, found["a fifth missing, target"][each]
        lines.least(f"{at}: {each} with a fifth missing, complete less .005", asked, seen)
    for way in ("plain", "target", "3000 rows", "3000 rows, target"):
        lines.least(f"{at}: gain over independent, least, {way}", 0.0, found[way]["least"])
    took = found["cost"]
    lines.most(f"{at}: CPU s, whole process, with target", 15, took["cpu"])
    lines.most(f"{at}: peak MB, whole process, with target", 300, took["memory"])
