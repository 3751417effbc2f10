"""Adult as a matrix of numbers, and cells, metrics and a grid that are the same for every method.

Records are rows of numbers: numeric columns as they are, categories as their place in a public list
(that of adult.names, with "?" for what is not known). Reads ``PRIVEM_DATA``.
"""

from __future__ import annotations

import gzip
import io
import itertools
import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import polars as pl

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
# Where the shared grid cuts numeric columns, for the log-likelihood.
GRID = {
    "age": np.arange(20, 91, 4.0),
    "fnlwgt": np.geomspace(20_000, 900_000, 19),
    "education-num": np.arange(1.5, 16),
    "capital-gain": np.r_[0.5, np.geomspace(500, 60_000, 15)],
    "capital-loss": np.r_[0.5, np.linspace(500, 3_500, 13)],
    "hours-per-week": np.arange(5, 96, 5.0) - 0.5,
}
FINEST = 256


@dataclass(frozen=True)
class Numbers:
    """A numeric column: whole numbers between bounds, in cells [edge, next edge)."""

    name: str
    low: float
    high: float
    cuts: np.ndarray
    """Of the shared grid."""
    missing: bool = False
    """Whether NaN is a value, which has the last cell."""

    @cached_property
    def edges(self) -> np.ndarray:
        """One cell for each number if they are few, else equal ones and one for the lowest."""
        if self.high - self.low + 1 <= FINEST:
            return np.arange(self.low, self.high + 2)
        equal = np.linspace(self.low, self.high + 1, FINEST + 1)
        return np.concatenate([[self.low, self.low + 1], equal[1:]])

    @property
    def cells(self) -> int:
        return len(self.edges) - 1 + self.missing

    def encode(self, values: np.ndarray) -> np.ndarray:
        cell = np.searchsorted(self.edges, values, side="right") - 1
        cell = np.clip(cell, 0, len(self.edges) - 2)
        return np.where(np.isnan(values), self.cells - 1, cell)

    def decode(self, cell: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        gap = cell > len(self.edges) - 2
        cell = np.where(gap, 0, cell)
        low, high = self.edges[cell], self.edges[cell + 1]
        drawn = np.floor(low + rng.random(len(cell)) * (high - low))
        return np.where(gap, np.nan, np.clip(drawn, self.low, self.high))

    def on_grid(self, values: np.ndarray) -> np.ndarray:
        cell = np.searchsorted(self.cuts, values, side="right")
        return np.where(np.isnan(values), len(self.cuts) + 1, cell)

    @cached_property
    def onto_grid(self) -> np.ndarray:
        """The share of each fine cell in each cell of the shared grid."""
        ends = np.concatenate([[-np.inf], self.cuts, [np.inf]])
        # A whole number stands for what is within a half of it.
        low, high = self.edges[:-1, None] - 0.5, self.edges[1:, None] - 0.5
        inside = np.minimum(high, ends[1:]) - np.maximum(low, ends[:-1])
        shares = np.maximum(inside, 0.0) / (high - low)
        if self.missing:
            shares = np.pad(shares, ((0, 1), (0, 1)))
            shares[-1, -1] = 1.0
        return shares


@dataclass(frozen=True)
class Labels:
    """A column of categories."""

    name: str
    labels: tuple[str, ...]
    missing: bool = False
    """Whether NaN is a value, which has the last cell."""

    @property
    def cells(self) -> int:
        return len(self.labels) + self.missing

    def encode(self, values: np.ndarray) -> np.ndarray:
        return np.nan_to_num(values, nan=self.cells - 1).astype(np.int64)

    def decode(self, cell: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return np.where(cell >= len(self.labels), np.nan, cell)

    def on_grid(self, values: np.ndarray) -> np.ndarray:
        return self.encode(values)

    @cached_property
    def onto_grid(self) -> np.ndarray:
        return np.eye(self.cells)


Columns = list[Numbers | Labels]


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
    columns: Columns = []
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


def cells_of(columns: Columns, values: np.ndarray) -> np.ndarray:
    """Rows of fine cells."""
    coded = [column.encode(values[:, j]) for j, column in enumerate(columns)]
    return np.stack(coded, axis=1).astype(float)


def values_of(columns: Columns, cells: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Rows of numbers in these cells."""
    drawn = [c.decode(cells[:, j].astype(int), rng) for j, c in enumerate(columns)]
    return np.stack(drawn, axis=1)


def distances(columns: Columns, real: np.ndarray, other: np.ndarray) -> dict[str, float]:
    """Mean and largest total variation of tables of one and of two columns.

    Numeric columns are cut at twentieths of the real rows.
    """
    codes = []
    for j, column in enumerate(columns):
        if isinstance(column, Numbers):
            cuts = np.unique(np.nanquantile(real[:, j], np.linspace(0, 1, 21)))[1:-1]
            codes.append([np.searchsorted(cuts, v[:, j], side="right") for v in (real, other)])
            for code, v in zip(codes[-1], (real, other), strict=True):
                code[np.isnan(v[:, j])] = len(cuts) + 1
        else:
            codes.append([column.encode(v[:, j]) for v in (real, other)])
    sizes = [max(a.max(), b.max()) + 1 for a, b in codes]
    one = [_apart(a, b, m) for (a, b), m in zip(codes, sizes, strict=True)]
    two = {
        (i, j): _apart(*(codes[i][s] * sizes[j] + codes[j][s] for s in (0, 1)), sizes[i] * sizes[j])
        for i, j in itertools.combinations(range(len(columns)), 2)
    }
    worst = max(two, key=lambda pair: two[pair])
    return {
        "one": float(np.mean(one)),
        "two": float(np.mean(list(two.values()))),
        "worst": two[worst],
        "worst_pair": f"{columns[worst[0]].name} x {columns[worst[1]].name}",
    }


def _apart(a: np.ndarray, b: np.ndarray, size: int) -> float:
    first, second = (np.bincount(x, minlength=size) / len(x) for x in (a, b))
    return float(np.abs(first - second).sum() / 2)


def usefulness(
    columns: Columns, synthetic: np.ndarray, test: np.ndarray, target: int = -1
) -> tuple[float, float]:
    """AUC on test rows of trees and of a logistic regression trained on synthetic rows."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import roc_auc_score

    target %= len(columns)
    others = [j for j in range(len(columns)) if j != target]
    y, y_test = (v[:, target].astype(int) for v in (synthetic, test))
    if len(np.unique(y)) < 2:
        return 0.5, 0.5
    kinds = [isinstance(columns[j], Labels) for j in others]
    trees = HistGradientBoostingClassifier(
        categorical_features=kinds, random_state=0, max_iter=100, early_stopping=True
    ).fit(synthetic[:, others], y)
    hot = [_features([columns[j] for j in others], v[:, others]) for v in (synthetic, test)]
    linear = LogisticRegression(max_iter=300).fit(hot[0], y)
    return (
        float(roc_auc_score(y_test, trees.predict_proba(test[:, others])[:, 1])),
        float(roc_auc_score(y_test, linear.predict_proba(hot[1])[:, 1])),
    )


def _features(columns: Columns, values: np.ndarray) -> np.ndarray:
    """Numbers about their middle (gains and losses as logarithms), and categories as indicators."""
    parts = []
    for column, v in zip(columns, values.T, strict=True):
        if isinstance(column, Labels):
            parts.append(v[:, None] == np.arange(column.cells))
            continue
        if column.missing:
            parts.append(np.isnan(v)[:, None])
            v = np.where(np.isnan(v), (column.low + column.high) / 2, v)
        if column.name in ("capital-gain", "capital-loss"):
            parts.append(np.log1p(np.maximum(v, 0))[:, None] / 5)
        elif column.name == "age":
            parts.append(np.stack([(v - 40) / 15, ((v - 40) / 15) ** 2], axis=1))
        elif column.name == "fnlwgt":
            parts.append(np.log(np.maximum(v, 1e4))[:, None] - 12)
        else:
            middle = (v - column.low) / (column.high - column.low) * 4 - 2
            parts.append(middle[:, None])
    return np.concatenate(parts, axis=1).astype(float)
