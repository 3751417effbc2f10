"""Records of which some values are not known: read as cells, and completed."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ...data.cells import cell, odd, read
from ...data.columns import Moment, Number
from ...data.constraints import AtMost
from ...data.decode import decode, limits
from ...data.lazy import reading
from ...data.mixed import open_columns
from ...data.values import is_frame
from ...data.wording import allows
from ...schema import Schema
from .chains import unknown
from .constrained import Constrained
from .model import Cells, TableState
from .values import detail_of, present


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
                        f"column {column.name!r} holds {value!r}, which its schema does not allow "
                        f"({allows(column)})"
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
    there = present(schema)
    gaps = cells == -1
    for j, known in there.items():
        gaps[:, j] |= ~known[cells[:, j]]
    linked = Constrained(schema, state, instead=there, values=_known_values(schema, X, gaps))
    filled = state.complete(cells, rng, there, linked, detail_of(schema, state, linked))
    units = {schema.names[j]: values for j, values in linked.drawn.items()}
    drawn = decode(schema.columns, filled, rng, drawn=units)
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
    copy = X.copy()
    for j, name in enumerate(schema.names):
        if name in copy.columns and gaps[:, j].any():
            values = copy[name].to_numpy(dtype=object, copy=True)
            values[gaps[:, j]] = drawn[name].filter(pl.Series(gaps[:, j])).to_list()
            copy[name] = values
            copy[name] = copy[name].astype(X[name].dtype)
    return copy


def _known_values(schema: Schema, X: Any, gaps: NDArray[np.bool_]) -> dict[int, NDArray[Any]]:
    """What records say of columns that inequalities link: numbers, or units since 1970."""
    opened, found = open_columns(X), {}
    for constraint in schema.constraints:
        for name in constraint.names if isinstance(constraint, AtMost) else ():
            j, column = schema.names.index(name), schema[name]
            assert isinstance(column, Number | Moment)
            low, high = limits(column)
            values = np.full(len(gaps), low[0])
            if name in opened.types:
                series = opened.scan.select(name).collect().to_series()
                known = read(column, series)[0].fill_null(0).to_numpy()
                scale = column.scale if isinstance(column, Number) else None
                known = known if scale is None else np.rint(known * scale)
                values = np.clip(known, low[0], high[-1]).astype(low.dtype)
            found[j] = np.where(gaps[:, j], unknown(low.dtype), values)
    return found
