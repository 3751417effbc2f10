"""Records of which some values are not known: read as cells, and completed."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from ...data.array import is_frame
from ...data.cells import cell, odd
from ...data.lazy import reading
from ...data.mixed import open_columns
from ...schema import Schema
from .model import Cells, TableState


def known_cells(schema: Schema, X: Any, without: str | None = None) -> Cells:
    """Cells (n, d) of records; -1 where nothing is known.

    That is of columns that are not there, of the one left out on purpose, and of gaps in columns
    that may have none.
    """
    opened = open_columns(X)
    here = [c for c in schema.columns if c.name in opened.types and c.name != without]
    asked = [odd(column)[0].alias(f"odd{j}") for j, column in enumerate(here)]
    with reading(opened.label, header=opened.header):
        rows = opened.scan.select(pl.len()).collect().item()
        if asked:
            found = opened.scan.select(*asked).collect().row(0)
            for column, value in zip(here, found, strict=True):
                if value is not None:
                    raise ValueError(
                        f"column {column.name!r} holds {value!r}, which its schema does not allow"
                    )
        frame = opened.scan.select(*(cell(column) for column in here)).collect()
    cells = np.full((rows, len(schema.columns)), -1, dtype=np.int64)
    for column in here:
        cells[:, schema.names.index(column.name)] = frame[column.name].fill_null(-1).to_numpy()
    return cells


def imputed(schema: Schema, state: TableState, X: Any, rng: np.random.Generator) -> Any:
    """A frame whose gaps are filled by draws given what each record says."""
    if not is_frame(X):
        raise TypeError(f"impute takes a pandas or polars frame, got {type(X).__name__}")
    cells = known_cells(schema, X)
    there = {
        j: np.arange(column.size) < column.size - 1
        for j, column in enumerate(schema.columns)
        if column.missing
    }
    gaps = cells == -1
    for j, present in there.items():
        gaps[:, j] |= ~present[cells[:, j]]
    drawn = schema.decode(state.complete(cells, rng, there), rng)
    if isinstance(X, pl.DataFrame):
        made = [
            pl.when(pl.Series(gaps[:, j]))
            .then(drawn[name].cast(X[name].dtype))
            .otherwise(X[name])
            .alias(name)
            for j, name in enumerate(schema.names)
            if name in X.columns
        ]
        return X.with_columns(made)
    filled = X.copy()
    for j, name in enumerate(schema.names):
        if name in filled.columns and gaps[:, j].any():
            values = filled[name].to_numpy(dtype=object, copy=True)
            values[gaps[:, j]] = drawn[name].filter(pl.Series(gaps[:, j])).to_list()
            filled[name] = values
            filled[name] = filled[name].astype(X[name].dtype)
    return filled
