"""Columns of a public table: as a frame, as a matrix, and on a grid that all methods share.

A matrix has numbers as they are, categories as their place in the list, and NaN where a value is
missing. The grid is for methods that know categories only, and for a likelihood that is the same
for all: it cuts numbers at fixed places.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from privem import Schema


@dataclass(frozen=True)
class Numbers:
    """Numbers between bounds, whole ones or not."""

    name: str
    low: float
    high: float
    cuts: np.ndarray
    """Where the grid cuts: its cells are [cut, next cut)."""
    missing: bool = False
    whole: bool = True

    @property
    def declared(self) -> tuple[float, float]:
        return self.low, self.high

    @property
    def grid_cells(self) -> int:
        return len(self.cuts) + 1 + self.missing

    def on_grid(self, values: np.ndarray) -> np.ndarray:
        cell = np.searchsorted(self.cuts, values, side="right")
        return np.where(np.isnan(values), len(self.cuts) + 1, cell)

    def from_grid(self, cells: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Any number of the cell, all alike."""
        gap = cells > len(self.cuts)
        ends = np.concatenate([[self.low], self.cuts, [self.high + self.whole]])
        if self.whole:
            ends = np.ceil(ends)
        low, high = ends[np.where(gap, 0, cells)], ends[np.where(gap, 0, cells) + 1]
        drawn = low + rng.random(len(cells)) * (high - low)
        return np.where(gap, np.nan, np.floor(drawn) if self.whole else drawn)

    @property
    def as_cells(self) -> Numbers:
        """The column of the grid's cells, by their numbers."""
        cells = len(self.cuts)
        return Numbers(self.name, 0, cells, np.arange(cells) + 0.5, self.missing)

    def to_series(self, values: np.ndarray) -> pl.Series:
        made = pl.Series(self.name, values, nan_to_null=True)
        return made.cast(pl.Int64) if self.whole else made

    def to_values(self, series: pl.Series) -> np.ndarray:
        return series.cast(pl.Float64).to_numpy()


@dataclass(frozen=True)
class Labels:
    """Categories."""

    name: str
    labels: tuple[str, ...]
    missing: bool = False

    @property
    def declared(self) -> list[str]:
        return list(self.labels)

    @property
    def grid_cells(self) -> int:
        return len(self.labels) + self.missing

    def on_grid(self, values: np.ndarray) -> np.ndarray:
        return np.nan_to_num(values, nan=len(self.labels)).astype(np.int64)

    def from_grid(self, cells: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return np.where(cells >= len(self.labels), np.nan, cells)

    @property
    def as_cells(self) -> Labels:
        return self

    def to_series(self, values: np.ndarray) -> pl.Series:
        names = np.array([*self.labels, None], dtype=object)
        return pl.Series(self.name, names[self.on_grid(values)].tolist(), pl.String)

    def to_values(self, series: pl.Series) -> np.ndarray:
        place = {label: float(code) for code, label in enumerate(self.labels)}
        return series.cast(pl.String).replace_strict(place, return_dtype=pl.Float64).to_numpy()


Columns = Sequence[Numbers | Labels]


def schema_of(columns: Columns) -> Schema:
    """As a person would write it."""
    declared: dict[str, Any] = {c.name: c.declared for c in columns}
    return Schema(declared, missing=[c.name for c in columns if c.missing])


def frame_of(columns: Columns, values: np.ndarray) -> pl.DataFrame:
    return pl.DataFrame([c.to_series(v) for c, v in zip(columns, values.T, strict=True)])


def values_of(columns: Columns, frame: pl.DataFrame) -> np.ndarray:
    return np.stack([c.to_values(frame[c.name]) for c in columns], axis=1)


def on_grid(columns: Columns, values: np.ndarray) -> np.ndarray:
    return np.stack([c.on_grid(v) for c, v in zip(columns, values.T, strict=True)], axis=1)


def from_grid(columns: Columns, cells: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    drawn = [c.from_grid(v, rng) for c, v in zip(columns, cells.T, strict=True)]
    return np.stack(drawn, axis=1)
