"""Records of which some values are not known: read as cells, and completed."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ...data.cells import DATES, cell, odd, read
from ...data.columns import Category, Column, Flag, Moment, Number
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
    # A pandas frame's columns may have numbers for names.
    names, read_as = {str(name): name for name in X.columns}, open_columns(X).scan
    copy = X.clone() if isinstance(X, pl.DataFrame) else X.copy()
    for j, column in enumerate(schema.columns):
        gap = gaps[:, j]
        if column.name not in names or not gap.any():
            continue
        name, values = names[column.name], drawn[column.name]
        if _is_text(copy[name]):
            given = read_as.select(column.name).collect().to_series()
            values = _spelled(column, given, values)
        if isinstance(copy, pl.DataFrame):
            copy = copy.with_columns(_filled(column, copy[name], values, pl.Series(gap)))
        else:
            copy[name] = _filled_pandas(copy[name], values, gap)
    return copy


def _is_text(given: Any) -> bool:
    """Whether a frame's column holds text."""
    if isinstance(given, pl.Series):
        return given.dtype == pl.String
    return given.dtype.kind not in "biufcmM" and any(isinstance(each, str) for each in given)


def _spelled(column: Column, given: pl.Series, drawn: pl.Series) -> pl.Series:
    """Drawn values as text, written as those that a frame has: dates, yes and no."""
    if isinstance(column, Flag):
        code = read(column, given)[0]
        words = [given.filter(code == k).first() or word for k, word in enumerate(("no", "yes"))]
        return pl.Series(words, dtype=pl.String).gather(drawn.cast(pl.Int32))
    if not isinstance(column, Moment):
        return drawn.cast(pl.String)
    form = column.format
    if form is None and column.unit == "day":
        some = given.drop_nulls().str.strip_chars()
        forms = (each for each in DATES if some.str.to_date(each, strict=False).count())
        form = next(forms, None)
    return drawn.cast(pl.String) if form is None else drawn.dt.strftime(form)


def _filled(column: Column, given: pl.Series, drawn: pl.Series, gap: pl.Series) -> pl.Series:
    """A column with drawn values in its gaps; of its own type, if that can hold the values."""
    kind: Any = given.dtype
    if kind == pl.Null or (kind.is_integer() and not _holds_all(column, kind)):
        kind = drawn.dtype
    elif isinstance(kind, pl.Enum) and isinstance(column, Category):
        words = [str(value) for value in column.values or ()]
        kind = pl.Enum(pl.Series([*kind.categories, *words]).unique(maintain_order=True))
    filled = pl.when(gap).then(drawn.cast(kind)).otherwise(given.cast(kind))
    return pl.select(filled.alias(given.name)).to_series()


def _holds_all(column: Column, kind: Any) -> bool:
    """Whether a type of whole numbers holds whatever is drawn of a column."""
    if not isinstance(column, Number):
        return True
    low, high = limits(column)[0][0], limits(column)[1][-1]
    ends = pl.Series([low, high]).cast(kind, strict=False)
    return bool(column.whole) and ends.null_count() == 0


def _filled_pandas(given: Any, drawn: pl.Series, gap: NDArray[np.bool_]) -> Any:
    """The same of a pandas column."""
    new, kind = drawn.filter(pl.Series(gap)).to_list(), given.dtype
    if hasattr(kind, "categories"):
        added = [word for word in dict.fromkeys(new) if word not in kind.categories]
        given = given.cat.add_categories(added)
        kind = given.dtype
    values = given.to_numpy(dtype=object, copy=True)
    values[gap] = new
    filled = given.copy().astype(object)
    filled[:] = values
    try:
        return filled.astype(kind)
    except (OverflowError, TypeError, ValueError):  # too small a type, or one of whole numbers
        return filled.infer_objects()


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
