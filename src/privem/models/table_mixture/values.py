"""Laws and draws of cells as frames of values."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ...data.columns import Category, Flag, Moment, Number
from ...data.decode import as_pandas, decode
from ...data.frame import FrameKind
from ...data.given import spans, within
from ...linalg import Array
from ...schema import Schema
from .constrained import Constrained
from .detail import Detail
from .model import Allowed, Cells, TableState


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


def law_table(schema: Schema, column: str, law: Array) -> dict[str, Array]:
    """Laws (n, cells) of a column as a table, a column for each cell."""
    return {name: law[:, c] for c, name in enumerate(cell_names(schema, column))}


def marginal_frame(schema: Schema, columns: Sequence[str], law: Array, kind: FrameKind) -> Any:
    """The joint law of some columns as a frame, a row for each combination of cells."""
    places = np.indices(law.shape).reshape(len(columns), -1)
    found = [schema.firsts(name).gather(place) for name, place in zip(columns, places, strict=True)]
    if kind.library == "pandas":
        frame = as_pandas([schema[name] for name in columns], pl.DataFrame(found))
        return kind.typed(frame).assign(probability=law.ravel())
    return pl.DataFrame([*found, pl.Series("probability", law.ravel())])


def sampler(
    schema: Schema,
    state: TableState,
    rng: np.random.Generator,
    given: Mapping[str, Any] | None = None,
    missing: bool = True,
    library: str = "polars",
) -> Callable[[int], Any]:
    """Draws frames of so many records, given conditions and constraints."""
    asked = dict(given or {})
    for name in asked:
        place(schema, name)
    allowed, instead = _conditions(schema, asked, missing)
    linked = Constrained(schema, state, asked, allowed, instead)
    detail = detail_of(schema, state, linked)

    def draw(n: int) -> Any:
        cells = state.draw(n, rng, allowed, instead, linked=linked, detail=detail)
        return _drawn_frame(schema, cells, asked, rng, library, linked.drawn)

    return draw


def detail_of(schema: Schema, state: TableState, linked: Constrained) -> Detail:
    """How cells within bins go together, of columns that no constraint links."""
    ordered = {
        j: column.size - column.missing
        for j, column in enumerate(schema.columns)
        if column.ordered and j not in linked.columns
    }
    return Detail(state, ordered)


def _conditions(schema: Schema, given: Mapping[str, Any], missing: bool) -> tuple[Allowed, Allowed]:
    """Cells that conditions allow; and, where no value may be missing, those that are not."""
    allowed: dict[int, NDArray[np.bool_]] = {}
    for name, condition in given.items():
        j = schema.names.index(name)
        allowed[j] = np.zeros(schema.columns[j].size, dtype=bool)
        allowed[j][schema.find(name, condition)] = True
    asked = {name for name, condition in given.items() if condition is None}
    return allowed, {} if missing else present(schema, but=asked)


def present(schema: Schema, but: Collection[str] = ()) -> Allowed:
    """For columns that may be missing, the cells of those that are not."""
    return {
        j: np.arange(column.size) < column.size - 1
        for j, column in enumerate(schema.columns)
        if column.missing and column.name not in but
    }


def _drawn_frame(
    schema: Schema,
    cells: Cells,
    given: Mapping[str, Any],
    rng: np.random.Generator,
    library: str,
    linked: Mapping[int, NDArray[Any]],
) -> Any:
    """Values from cells; those of a range lie within it, also where it cuts a cell in two.

    ``linked``: values of columns that constraints link, drawn before.
    """
    drawn = {schema.names[j]: values for j, values in linked.items()}
    for name, condition in given.items():
        column = schema[name]
        if name not in drawn and isinstance(column, Number | Moment):
            j = schema.names.index(name)
            ranges = spans(column, condition)
            if ranges:
                drawn[name] = within(column, cells[:, j], ranges, rng)
    return decode(schema.columns, cells, rng, library, drawn)


def place(schema: Schema, column: str) -> int:
    """The number of a column, by its name."""
    if column not in schema.names:
        raise ValueError(f"the model has no column {column!r}; it has {', '.join(schema.names)}")
    return schema.names.index(column)
