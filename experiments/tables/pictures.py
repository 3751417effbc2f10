"""Real and synthetic rows side by side: all columns, and pairs of numbers.

    python experiments/tables/pictures.py folder [--epsilon 1] [--tables adult diamonds drawn]

Real rows are shown as they are: these tables are public. *drawn* is a made-up table with two
numbers that depend strongly, along a line and along a curve.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from columns import Columns, Labels, Numbers, frame_of, schema_of, values_of
from others import read

from privem import TableMixture

PAIRS = {
    "adult": [("age", "hours-per-week"), ("age", "fnlwgt"), ("education-num", "hours-per-week")],
    "diamonds": [("carat", "price"), ("x", "y"), ("x", "carat")],
    "drawn": [("a", "line"), ("a", "curve"), ("line", "curve")],
    "customers": [("tenure", "total_charges"), ("monthly_charges", "total_charges")],
    "survey": [("height", "weight"), ("age", "height")],
    "crashes": [("yearVeh", "ageOFocc"), ("ageOFocc", "weight")],
}


def drawn(rows: int = 30_000) -> tuple[Columns, np.ndarray, int]:
    """Two kinds of rows, a line and a curve."""
    rng = np.random.default_rng(0)
    a, kind = rng.uniform(0, 10, rows), rng.integers(2, size=rows)
    line = 2 * a + rng.normal(0, 0.4, rows)
    curve = 10 * np.sin(a / 2) + rng.normal(0, 0.5, rows) + 5 * kind
    numbers = [("a", 0.0, 10.0), ("line", -5.0, 25.0), ("curve", -20.0, 20.0)]
    made = [Numbers(*each, np.zeros(0), whole=False) for each in numbers]
    values = np.stack([a, np.clip(line, -5, 25), np.clip(curve, -20, 20), kind], axis=1)
    return [*made, Labels("kind", ("first", "second"))], values, 3


def show_columns(columns: Columns, sides: list[np.ndarray], path: Path) -> None:
    down = -(-len(columns) // 5)
    figure, axes = plt.subplots(down, 5, figsize=(18, 3 * down), layout="constrained")
    for j, (axis, column) in enumerate(zip(axes.flat, columns, strict=False)):
        if isinstance(column, Numbers):
            bins, ends = 60, (column.low, column.high)
        else:
            bins, ends = len(column.labels), (-0.5, len(column.labels) - 0.5)
        both = [rows[~np.isnan(rows[:, j]), j] for rows in sides]
        axis.hist(both, bins=bins, range=ends, label=["real", "synthetic"], histtype="step")
        gaps = ", ".join(f"{np.isnan(rows[:, j]).mean():.1%}" for rows in sides)
        axis.set(title=f"{column.name} (missing {gaps})" if column.missing else column.name)
        axis.set(yscale="log" if isinstance(column, Numbers) else "linear")
    axes.flat[0].legend()
    figure.savefig(path, dpi=60)


def show_pairs(
    columns: Columns, sides: list[np.ndarray], shown: list[tuple[str, str]], path: Path
) -> None:
    names, rng = [column.name for column in columns], np.random.default_rng(0)
    figure, axes = plt.subplots(
        2, len(shown), figsize=(5 * len(shown), 9), layout="constrained", squeeze=False
    )
    for k, pair in enumerate(shown):
        at = [names.index(name) for name in pair]
        whole = [isinstance(columns[j], Numbers) and columns[j].whole for j in at]
        for axis, rows, said in zip(axes[:, k], sides, ("real", "synthetic"), strict=True):
            some = rows[rng.permutation(len(rows))[:8_000]][:, at]
            apart = np.where(whole, rng.uniform(-0.4, 0.4, some.shape), 0.0)
            axis.plot(*(some + apart).T, ",", alpha=0.7)
            axis.set(title=said, xlabel=pair[0], ylabel=pair[1])
        axes[1, k].set(xlim=axes[0, k].get_xlim(), ylim=axes[0, k].get_ylim())
    figure.savefig(path, dpi=70)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--tables", nargs="+", default=["adult", "diamonds", "drawn"])
    told = parser.parse_args()
    told.folder.mkdir(parents=True, exist_ok=True)
    for table in told.tables:
        if table == "drawn":
            columns, train, target = drawn()
        else:
            columns, train, _, target = read(table)
        model = TableMixture(
            schema=schema_of(columns), target=columns[target].name, epsilon=told.epsilon
        ).fit(frame_of(columns, train))
        sides = [train, values_of(columns, model.sample_frame(len(train)))]
        show_columns(columns, sides, told.folder / f"{table}-columns.png")
        show_pairs(columns, sides, PAIRS[table], told.folder / f"{table}-pairs.png")


if __name__ == "__main__":
    main()
