"""Laws and draws of cells as frames of values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from ...data.columns import Category, Flag, Moment, Number
from ...data.decode import as_pandas, decode
from ...schema import Schema
from ...tree import Array
from .model import Cells

# How often a value is drawn anew that lies in its cell, but not within the range asked for.
_TRIES = 40


def cell_names(schema: Schema, column: str) -> list[str]:
    """What the cells of a column are called: categories, or the first value of each cell."""
    known = schema[column]
    values = schema.firsts(column).to_list()
    if isinstance(known, Category | Flag):
        names = [str(value) for value in values]
    else:
        names = [f"{value:.6g}" if isinstance(value, float) else str(value) for value in values]
        if len(set(names)) < len(names):
            names = [str(value) for value in values]
    if known.missing:
        names[-1] = "missing" if "missing" not in names[:-1] else "(missing)"
    return names


def law_frame(schema: Schema, column: str, law: Array) -> pl.DataFrame:
    """Laws (n, cells) of a column as a frame, a column for each cell."""
    names = cell_names(schema, column)
    return pl.DataFrame({name: law[:, c] for c, name in enumerate(names)})


def marginal_frame(schema: Schema, columns: Sequence[str], law: Array) -> pl.DataFrame:
    """The joint law of some columns as a frame, a row for each combination of cells."""
    places = np.indices(law.shape).reshape(len(columns), -1)
    found = [schema.firsts(name).gather(place) for name, place in zip(columns, places, strict=True)]
    return pl.DataFrame([*found, pl.Series("probability", law.ravel())])


def drawn_frame(
    schema: Schema, cells: Cells, given: Mapping[str, Any], rng: np.random.Generator, library: str
) -> Any:
    """Values from cells; those of a range lie within it, also where it cuts a cell in two."""
    frame = decode(schema.columns, cells, rng)
    for name, condition in given.items():
        column = schema[name]
        if not (isinstance(condition, tuple) and isinstance(column, Number | Moment)):
            continue
        j = schema.names.index(name)
        low, high = (
            pl.select(_literal(frame[name].dtype, value)).item() if value is not None else None
            for value in condition
        )
        series = frame[name]
        for _ in range(_TRIES):
            outside = _outside(series, low, high)
            if not outside.any():
                break
            rows = outside.arg_true()
            fresh = decode([column], cells[rows.to_numpy(), j : j + 1], rng)[name]
            series = series.scatter(rows, fresh)
        frame = frame.with_columns(_clipped(series, low, high))
    if library == "polars":
        return frame
    return as_pandas(schema.columns, frame)


def _literal(kind: Any, value: Any) -> pl.Expr:
    """A bound in the type of a column."""
    if kind.is_numeric():
        return pl.lit(float(value))
    text = pl.lit(str(value))
    if kind == pl.Date:
        return text.str.slice(0, 10).str.to_date()
    return text.str.replace(" ", "T").str.to_datetime().cast(kind)


def _outside(series: pl.Series, low: Any, high: Any) -> pl.Series:
    outside = pl.Series(np.zeros(len(series), dtype=bool))
    if low is not None:
        outside = outside | (series < low).fill_null(False)
    if high is not None:
        outside = outside | (series > high).fill_null(False)
    return outside


def _clipped(series: pl.Series, low: Any, high: Any) -> pl.Series:
    if not series.dtype.is_numeric():
        return series
    outside = _outside(series, low, high)
    return series if not outside.any() else series.clip(low, high).cast(series.dtype)
