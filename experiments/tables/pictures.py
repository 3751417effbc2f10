"""Real and synthetic rows of Adult side by side: columns, and pairs of numbers.

    python experiments/tables/pictures.py folder [--epsilon 1]

Real rows are shown as they are: Adult is public.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from adult import Numbers, cells_of, load, values_of
from fits import fit


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--epsilon", type=float, default=1.0)
    told = parser.parse_args()
    columns, train, _ = load()
    state = fit(columns, cells_of(columns, train), told.epsilon, len(columns) - 1, seed=0)
    rng = np.random.default_rng(0)
    drawn = values_of(columns, state.draw(len(train), rng), rng)

    figure, axes = plt.subplots(3, 5, figsize=(18, 9), layout="constrained")
    for j, (axis, column) in enumerate(zip(axes.flat, columns, strict=True)):
        ends = (
            (column.low, column.high) if isinstance(column, Numbers) else (-0.5, column.cells - 0.5)
        )
        bins = np.linspace(*ends, 60) if isinstance(column, Numbers) else column.cells
        sides = [train[:, j], drawn[:, j]]
        axis.hist(sides, bins=bins, range=ends, label=["real", "synthetic"], histtype="step")
        axis.set(title=column.name, yscale="log" if isinstance(column, Numbers) else "linear")
    axes.flat[0].legend()
    told.folder.mkdir(parents=True, exist_ok=True)
    figure.savefig(told.folder / "columns.png", dpi=60)

    names = [column.name for column in columns]
    shown = [("age", "hours-per-week"), ("age", "fnlwgt"), ("education-num", "hours-per-week")]
    figure, axes = plt.subplots(2, len(shown), figsize=(15, 9), layout="constrained")
    for pair, (x, y) in enumerate(shown):
        for axis, rows, said in zip(
            axes[:, pair], (train, drawn), ("real", "synthetic"), strict=True
        ):
            some = rows[rng.permutation(len(rows))[:6_000]][:, [names.index(x), names.index(y)]]
            axis.plot(*(some + rng.uniform(-0.4, 0.4, some.shape)).T, ",", alpha=0.7)
            axis.set(title=said, xlabel=x, ylabel=y)
        axes[1, pair].set(xlim=axes[0, pair].get_xlim(), ylim=axes[0, pair].get_ylim())
    figure.savefig(told.folder / "pairs.png", dpi=60)


if __name__ == "__main__":
    main()
