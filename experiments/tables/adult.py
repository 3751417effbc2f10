"""Adult, its public bounds and categories (those of adult.names, with "?"), and the shared grid.

Reads ``PRIVEM_DATA``.
"""

from __future__ import annotations

import gzip
import io
import os
from pathlib import Path

import numpy as np
import polars as pl
from columns import Columns, Labels, Numbers

NAMES = [
    "age",
    "workclass",
    "fnlwgt",
    "education",
    "education-num",
    "marital-status",
    "occupation",
    "relationship",
    "race",
    "sex",
    "capital-gain",
    "capital-loss",
    "hours-per-week",
    "native-country",
    "income",
]
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


def _read(name: str, skip: int) -> pl.DataFrame:
    folder = Path(os.environ.get("PRIVEM_DATA", Path(__file__).parents[3] / "shared" / "data"))
    text = gzip.decompress((folder / name).read_bytes()).decode()
    lines = [line.rstrip(".") for line in text.splitlines()[skip:] if line.strip()]
    table = pl.read_csv(io.StringIO("\n".join(lines)), has_header=False, new_columns=NAMES)
    return table.with_columns(pl.col(pl.String).str.strip_chars())


def load() -> tuple[Columns, np.ndarray, np.ndarray]:
    """Columns, 32,561 rows to fit to, and 16,281 to test on."""
    tables = _read("adult.data.gz", 0), _read("adult.test.gz", 1)
    both = pl.concat([t.cast(dict.fromkeys(BOUNDS, pl.Float64), strict=False) for t in tables])
    columns: list[Numbers | Labels] = []
    values = np.empty((len(both), len(NAMES)))
    for j, name in enumerate(NAMES):
        if name in BOUNDS:
            columns.append(Numbers(name, *BOUNDS[name], GRID[name]))
            values[:, j] = both[name].to_numpy()
        else:
            labels = tuple(sorted(set(both[name])))
            columns.append(Labels(name, labels))
            codes = {label: code for code, label in enumerate(labels)}
            values[:, j] = both[name].replace_strict(codes).to_numpy()
    return columns, values[: len(tables[0])], values[len(tables[0]) :]
