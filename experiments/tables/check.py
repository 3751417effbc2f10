"""What was asked of TableMixture on Adult: asked, seen, and whether it is so."""

from __future__ import annotations

import tempfile
from pathlib import Path

from columns import frame_of, schema_of
from cost import cost
from figures import mean, once, rival
from others import read

EPSILONS = (0.5, 1.0, 4.0)
# At most so much of a rival's distance of pairs, without a target.
PAIRS = {(0.5, "aim"): 1.0, (1.0, "aim"): 0.90, (1.0, "mst"): 0.70, (4.0, "aim"): 0.75}


class Lines:
    """Prints one line for each demand, and remembers whether all were met."""

    def __init__(self) -> None:
        self.fine = True
        print(f"{'':<58} {'asked':>10} {'seen':>10}")

    def least(self, what: str, asked: float, seen: float) -> None:
        self._say(what, f">= {asked:.4g}", seen, seen >= asked)

    def most(self, what: str, asked: float, seen: float) -> None:
        self._say(what, f"<= {asked:.4g}", seen, seen <= asked)

    def tell(self, what: str, seen: float) -> None:
        print(f"{what:<58} {'':>10} {seen:>10.4f}", flush=True)

    def lacks(self, what: str) -> None:
        self.fine = False
        print(f"{what:<58} {'':>10} {'not run':>10}  FAILS", flush=True)

    def _say(self, what: str, asked: str, seen: float, fine: bool) -> None:
        self.fine &= fine
        print(f"{what:<58} {asked:>10} {seen:>10.4f}  {'ok' if fine else 'FAILS'}", flush=True)


def check(seeds: int) -> bool:
    """Whether all is well."""
    lines = Lines()
    for epsilon in EPSILONS:
        plain, aimed = (
            mean([once("adult", epsilon, with_target, seed) for seed in range(seeds)])
            for with_target in (False, True)
        )
        at = f"epsilon {epsilon:g}"
        for name in ("aim", "mst"):
            theirs, runs = rival("adult", name, epsilon)
            if runs == 0:
                lines.lacks(f"{at}: {name}")
                continue
            who = f"{name.upper()}'s ({runs} runs)"
            ratio = plain["pairs"] / theirs["pairs"]
            if (epsilon, name) in PAIRS:
                lines.most(f"{at}: pairs, of {who}", PAIRS[epsilon, name], ratio)
            else:
                lines.tell(f"{at}: pairs, of {who}", ratio)
            lines.tell(f"{at}: pairs on the rivals' grid, of {who}", plain["grid"] / theirs["grid"])
            if name == "aim":
                lines.least(
                    f"{at}: trees, AIM's less .003", theirs["trees"] - 0.003, aimed["trees"]
                )
                lines.least(f"{at}: linear, AIM's", theirs["linear"], aimed["linear"])
                lines.tell(f"{at}: worst pair of AIM", theirs["worst"])
        lines.tell(f"{at}: worst pair of ours", plain["worst"])
        lines.tell(f"{at}: worst pair of ours, with target", aimed["worst"])
        if epsilon == 1.0:
            lines.least(f"{at}: held-out density", -17.2, plain["density"])
            lines.least(f"{at}: held-out density, with target", -17.2, aimed["density"])
            gaps = mean([once("adult", 1.0, True, seed, missing=0.2) for seed in range(seeds)])
            for each in ("trees", "linear"):
                what = f"{at}: {each}, a fifth missing, complete less .005"
                lines.least(what, aimed[each] - 0.005, gaps[each])
        if epsilon == 4.0:
            lines.least(f"{at}: trees", 0.905, aimed["trees"])
        for rows in (None, 3000):
            few = [plain, aimed]
            if rows is not None:
                few = [
                    mean(
                        [once("adult", epsilon, t, s, rows=rows, quick=True) for s in range(seeds)]
                    )
                    for t in (False, True)
                ]
            what = f"{at}: least gain over independent columns, {rows or 'all'} rows"
            lines.least(what, 0.0, min(each["least"] for each in few))
    _costs(lines)
    print("all is well" if lines.fine else "something falls short")
    return lines.fine


def _costs(lines: Lines) -> None:
    columns, train, _, target = read("adult")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "adult.parquet")
        frame_of(columns, train).write_parquet(path)
        for epsilon in (1.0, 4.0):
            took = cost(path, schema_of(columns), columns[target].name, epsilon, len(train))
            at = f"epsilon {epsilon:g}, with target, whole process"
            lines.most(f"{at}: CPU s", 15, took["cpu"])
            lines.most(f"{at}: peak memory, MB", 300, took["memory"])
