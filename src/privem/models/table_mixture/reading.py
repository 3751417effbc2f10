"""Schemas as estimators are given them; and, for exact fits, what a schema leaves open.

A private fit reads nothing off rows: what is not declared is found by releases
(:mod:`privem.models.table_mixture.finding`).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from ...data.cells import read
from ...data.columns import Moment, Number
from ...data.lazy import reading
from ...data.mixed import Opened, open_columns
from ...data.values import is_frame, is_table
from ...estimator.warnings import advise_at_end
from ...schema import Schema
from .model import TableState

# A column of which so much is in one place says nothing else, or was not read.
_NEARLY_ALL, _MANY = 0.99, 1000


def schema_of(given: Any, X: Any, aside: Sequence[str] = ()) -> Schema | None:
    """A schema; one declaration that is not of a column is that of all columns of ``X``.

    ``aside``: columns of ``X`` that have another use.

    Examples
    --------
    >>> schema_of((0, 9), pl.DataFrame({"a": [1.0], "b": [2.0]}))
    Schema({'a': (0, 9), 'b': (0, 9)})
    """
    agreed: Schema | None = None if is_frame(X) or is_table(X) else getattr(X, "schema", None)
    if isinstance(given, str | Mapping | os.PathLike):
        given = Schema.of(given)
    elif given is not None and not isinstance(given, Schema):
        known = open_columns(X).types if agreed is None else agreed.names
        given = Schema({name: given for name in known if name not in aside})
    if agreed is not None and not (given is None or _agrees(given, agreed)):
        raise ValueError("schema= is not what the parties have agreed on; leave it out")
    return given if agreed is None else agreed


def _agrees(given: Schema, agreed: Schema) -> bool:
    """Whether a schema says nothing else than one that knows the types of its columns."""
    if given.names != agreed.names or not set(given.constraints) <= set(agreed.constraints):
        return False
    return all(
        {**theirs.as_dict(), **ours.as_dict(), "dtype": theirs.dtype} == theirs.as_dict()
        for ours, theirs in zip(given.columns, agreed.columns, strict=True)
    )


def needed(schema: Schema | None) -> Schema:
    """The schema of a private fit, which has to be declared or agreed on."""
    if schema is None:
        raise ValueError(
            "a private fit needs schema=: what each column is, from public knowledge (reading it "
            "off the data would give rare values away). Schema.draft(table), or privem schema at "
            "the command line, begins one"
        )
    return schema


def refuse_open(schema: Schema) -> None:
    """For federations: raise for columns of which bounds or categories would have to be found."""
    for names, what, how in (
        (schema.without_bounds, "bounds", "(low, high)"),
        (schema.without_categories, "categories", 'a list such as ["no", "yes"]'),
    ):
        if names:
            raise ValueError(
                f"the schema gives no {what} for {', '.join(map(repr, names))}: give {how}, from "
                f"public knowledge. Finding {what} is not possible in a federation"
            )


def say_unread(schema: Schema, state: TableState, records: float) -> None:
    """Warn of columns nearly all of which are where values count that cannot be read.

    From the model alone: in some tables that is just so. Of few records noise says as much.
    """
    if records < _MANY:
        return
    for j, column in enumerate(schema.columns):
        rest = column.size - 1 if column.missing else 0
        if isinstance(column, Number | Moment) and float(state.marginal(j)[rest]) > _NEARLY_ALL:
            where = "missing" if column.missing else "at its lower bound"
            advise_at_end(
                f"nearly all of column {column.name!r} is {where}, by noisy counts; if that is not "
                "so, its values cannot be read: check its type in the schema, the format of its "
                "dates, and units or words beside its numbers"
            )


def completed(schema: Schema | None, X: Any, aside: Sequence[str] = ()) -> Schema:
    """For exact fits: the schema with bounds and categories of the rows where it has none.

    Without any schema, types are those that the table declares, and gaps are allowed where there
    are any.
    """
    if schema is not None and not (schema.without_bounds or schema.without_categories):
        return schema
    opened = open_columns(X, wanted=None if schema is None else schema.names)
    if schema is None:
        schema = _drafted(opened, aside)
    found: dict[str, Any] = {}
    with reading(opened.label, header=opened.header):
        for name in (*schema.without_bounds, *schema.without_categories):
            series = opened.scan.select(name).collect().to_series()
            found[name] = _found(schema[name], series)
    bounds = {name: found[name] for name in schema.without_bounds}
    return schema.with_bounds(bounds).with_categories(
        {name: found[name] for name in schema.without_categories}
    )


def _drafted(opened: Opened, aside: Sequence[str]) -> Schema:
    if not opened.typed:
        raise ValueError(f"{opened.label} declares no types: give schema=, what its columns are")
    declared: dict[str, Any] = {}
    gaps: list[str] = []
    with reading(opened.label, header=opened.header):
        for name, kind in opened.types.items():
            if name in aside:
                continue
            series = opened.scan.select(name).collect().to_series()
            if kind.is_temporal():
                low, high = series.min(), series.max()
                declared[name] = (low, high)
            elif kind == pl.Boolean:
                declared[name] = bool
            elif kind.is_numeric():
                declared[name] = int if kind.is_integer() else float
            else:
                declared[name] = str
            gap = series.is_null() | (series.is_nan() if kind.is_float() else False)
            gaps += [name] * bool(gap.any())
    return Schema(declared, missing=gaps)


def _found(column: Any, series: pl.Series) -> Any:
    """Bounds of numbers, or the categories that there are."""
    if isinstance(column, Number):
        numbers = read(Number(column.name, 0, 1, whole=False), series)[0].drop_nulls()
        values = numbers.filter(numbers.is_finite()).to_numpy()
        low, high = (float(values.min()), float(values.max())) if len(values) else (0.0, 1.0)
        return (low, high) if low < high else (low, low + max(1.0, abs(low)))
    known = series.drop_nulls()
    known = known.cast(pl.String) if _is_text(series) else known
    known = known.drop_nans() if known.dtype.is_float() else known
    found = known.unique().sort().to_list()
    return found if len(found) > 1 else [*found, *_others(found)]


def _is_text(series: pl.Series) -> bool:
    return series.dtype in (pl.String, pl.Categorical, pl.Enum, pl.Object)


def _others(found: Sequence[Any]) -> list[Any]:
    """Further categories, where there are fewer than two."""
    words = ["other", "none of these", "another"]
    return words[: 2 - len(found)]
