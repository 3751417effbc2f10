"""Adult, its public bounds and categories (those of adult.names, with "?"), and the shared grid."""

from __future__ import annotations

import numpy as np
import polars as pl
from columns import Columns, Labels, Numbers

from privem.datasets import load_adult

# Rows of the file for training, which come first.
TRAIN = 32_561

# Public: declared, not read off the data. All of them are whole numbers.
BOUNDS = {
    "age": (15, 95),
    "fnlwgt": (10_000, 1_500_000),
    "education-num": (1, 16),
    "capital-gain": (0, 100_000),
    "capital-loss": (0, 5_000),
    "hours-per-week": (0, 100),
}
# Where the shared grid cuts numeric columns.
GRID = {
    "age": np.arange(20, 91, 4.0),
    "fnlwgt": np.geomspace(20_000, 900_000, 19),
    "education-num": np.arange(1.5, 16),
    "capital-gain": np.r_[0.5, np.geomspace(500, 60_000, 15)],
    "capital-loss": np.r_[0.5, np.linspace(500, 3_500, 13)],
    "hours-per-week": np.arange(5, 96, 5.0) - 0.5,
}


def load() -> tuple[Columns, np.ndarray, np.ndarray]:
    """Columns, 32,561 rows to fit to, and 16,281 to test on."""
    # A question mark is a category of its own here.
    both = load_adult().with_columns(pl.col(pl.String).fill_null("?"))
    columns: list[Numbers | Labels] = []
    values = np.empty(both.shape)
    for j, name in enumerate(both.columns):
        if name in BOUNDS:
            columns.append(Numbers(name, *BOUNDS[name], GRID[name]))
            values[:, j] = both[name].to_numpy()
        else:
            labels = tuple(sorted(set(both[name])))
            columns.append(Labels(name, labels))
            codes = {label: code for code, label in enumerate(labels)}
            values[:, j] = both[name].replace_strict(codes).to_numpy()
    return columns, values[:TRAIN], values[TRAIN:]
