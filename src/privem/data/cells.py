"""From the values of a mixed table to fine cells; :mod:`privem.data.decode` is the way back.

The values of a column become the numbers of its cells (:mod:`privem.data.columns`) by polars
expressions, so that files are streamed and all kinds of tables are read alike. Two rules hold:

- Each value is read by itself. The type of a column is what its table declares, all of a CSV file
  is text, and nothing is guessed from values: one odd value never changes how others are read.
- Every value has a cell, so reading never fails because of one. Numbers and dates beyond the bounds
  count as the nearest bound. What cannot be read, or is a category that was not declared, counts as
  missing if the column may have missing values, and otherwise as the first cell: the lower bound,
  "no", or the first category. (Declare a category like "other" first to collect what is unlisted.
  A cell of its own would have to come back in synthetic tables as a value that nobody declared, and
  noise would make some up even where nothing is unlisted.) Exact fits refuse such values instead
  (:func:`odd`).

A gap is a null, NaN, or a word that says so (empty, ``NA``, ``null``, ...) and is no category.
Where the column may have none, its cell is null here; whoever opens the table refuses it, or fills
in the first cell.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from .categories import category_type
from .columns import UNITS, Category, Column, Flag, Moment, Number, category_key
from .values import type_name

# Words for a missing value, in lower case.
GAPS = ["", "na", "n/a", "nan", "nat", "null", "none", "<na>"]
_YES, _NO = ["true", "t", "yes", "y", "1", "1.0"], ["false", "f", "no", "n", "0", "0.0"]
# How dates may be written without saying so: year first, or the day before dots or a month's name.
_DATES = ["%Y-%m-%d", "%Y/%m/%d", "%d.%m.%Y", "%d %B %Y"]
_DATE_AND_TIME = (
    r"^(?<date>.+?)(?:[T ]\s*(?<h>\d{1,2}):(?<m>\d\d)(?::(?<s>\d\d)(?:[.,](?<f>\d{1,6})\d*)?)?"
    r"\s*(?:[Zz]|(?<zh>[+-]\d\d):?(?<zm>\d\d))?)?$"
)
# Days from here on would overflow as microseconds.
_DAYS = 10**8


@dataclass(frozen=True)
class Cells:
    """How many cells a column has: what a model of cells needs to know.

    Examples
    --------
    >>> Cells.of(Flag("smoker", missing=True))
    Cells(name='smoker', cells=3, ordered=False, missing=True)
    """

    name: str
    cells: int
    """With the one for missing values."""
    ordered: bool
    """Whether cells are in the order of values: numbers, dates and times."""
    missing: bool
    """Whether the last cell stands for missing values."""

    @classmethod
    def of(cls, column: Column) -> Cells:
        """The cells of a column."""
        return cls(column.name, column.size, column.ordered, column.missing)


def for_type(column: Column, dtype: Any) -> Column:
    """A column as it is in a table of this (polars) type; what the schema says comes first.

    Whole numbers are known by the type, and synthetic tables will have it. Raises for types that
    cannot hold such a column; no value is looked at.

    Examples
    --------
    >>> for_type(Number("age", 15, 95), pl.UInt8)
    Number(name='age', low=15, high=95, whole=True, missing=False, dtype='uint8')
    """
    form = _form(dtype)
    match column:
        case Number() if form in ("number", "flag", "text"):
            return _number_for(column, dtype)
        case Flag() if form in ("number", "flag", "text"):
            kind = type_name(dtype) if form == "number" else "bool"
            return replace(column, dtype=column.dtype or kind)
        case Category() if form == "text" or (form is not None and _has_numbers(column)):
            return replace(column, dtype=column.dtype or _category_dtype(column, dtype))
        case Moment() if form in ("date", "time", "text"):
            return replace(column, dtype=column.dtype or moment_dtype(column, dtype))
    what = {"type": "categories that are text"} | column.as_dict()
    raise ValueError(
        f"column {column.name!r} is declared as {what['type']}, but the table holds {dtype}: "
        "change the schema, or convert the column first"
    )


def cell(column: Column, dtype: Any) -> pl.Expr:
    """The cell of each value of a column that has this (polars) type in its table.

    Null only where there is a gap and the column may have none.

    Examples
    --------
    >>> frame = pl.DataFrame({"age": ["31", "1e9", "soon", ""]})
    >>> frame.select(cell(Number("age", 0, 99, whole=True), pl.String))["age"].to_list()
    [31, 99, 0, None]
    >>> frame.select(cell(Number("age", 0, 99, True, missing=True), pl.String))["age"].to_list()
    [31, 99, 100, 100]
    """
    value, gap = read(column, dtype)
    other = pl.lit(0, pl.Int32)
    if column.missing:
        rest: pl.Expr = pl.lit(column.size - 1, pl.Int32)
    else:
        rest = pl.when(gap).then(None).otherwise(other)
    placed = pl.when(value.is_not_null()).then(_place(column, value)).otherwise(rest)
    return placed.cast(pl.Int32).alias(column.name)


def odd(column: Column, dtype: Any) -> tuple[pl.Expr, pl.Expr]:
    """For exact fits: the first value that cannot be read, as text; and whether there is a gap.

    Both are one value for the whole column. Infinity counts as a value that cannot be read.
    """
    value, gap = read(column, dtype)
    bad = value.is_null() & ~gap
    if isinstance(column, Number):
        bad = bad | value.is_infinite().fill_null(False)
    first = pl.col(column.name).filter(bad).first().cast(pl.String)
    return first, gap.any()


def _form(dtype: Any) -> str | None:
    """What values of a polars type are like; ``None`` for types that no column can have."""
    if dtype == pl.Boolean:
        return "flag"
    if dtype.is_numeric():
        return "number"
    if dtype in (pl.String, pl.Categorical, pl.Enum, pl.Null):
        return "text"
    return {pl.Date: "date", pl.Datetime: "time"}.get(dtype.base_type())


def _number_for(column: Number, dtype: Any) -> Number:
    low, high, whole = column.low, column.high, column.whole
    if whole is None:
        whole = dtype.is_integer()
        if whole and low is not None and high is not None:
            inner = int(np.ceil(low)), int(np.floor(high))
            try:
                return _number_for(replace(column, low=inner[0], high=inner[1], whole=True), dtype)
            except ValueError:  # too large, or no two whole numbers between them
                whole = False
    kind = type_name(dtype)
    if whole:
        kind = kind if dtype.is_integer() and _holds(kind, low, high) else "int64"
    elif kind != "float32":
        kind = "float64"
    return replace(column, whole=whole, dtype=column.dtype or kind)


def _holds(kind: str, low: float | None, high: float | None) -> bool:
    """Whether a type of whole numbers holds all between the bounds."""
    if not kind.startswith(("int", "uint")) or low is None or high is None:
        return False
    return bool(np.iinfo(kind).min <= low and high <= np.iinfo(kind).max)


def _has_numbers(column: Category) -> bool:
    return any(not isinstance(category_key(value), str) for value in column.values or ())


def _category_dtype(column: Category, dtype: Any) -> str:
    if column.values is not None and column.numbers:
        return category_type(np.asarray(column.values), dtype)
    kinds = {pl.Categorical: "categorical", pl.Enum: "enum"}
    return kinds.get(dtype.base_type(), "string")


def moment_dtype(column: Moment, dtype: Any) -> str:
    """The type of dates and times: the table's, if it can hold them."""
    if dtype != pl.Datetime:
        return (
            "date"
            if column.unit == "day"
            else ("datetime[us, UTC]" if column.utc else "datetime[us]")
        )
    if column.unit == "day" and dtype.time_zone is not None:
        return "date"
    fits = max(-column.low, column.high) * UNITS[column.unit] < 2**63 // 1000
    unit = dtype.time_unit
    if (unit == "ns" and not fits) or (unit == "ms" and column.unit == "microsecond"):
        unit = "us"
    return (
        f"datetime[{unit}]" if dtype.time_zone is None else f"datetime[{unit}, {dtype.time_zone}]"
    )


def read(column: Column, dtype: Any) -> tuple[pl.Expr, pl.Expr]:
    """Values in the form that cells are cut from, and where there are gaps.

    The form is numbers, units since 1970, or positions among categories; null for a gap, and for
    what cannot be read.
    """
    raw, form = pl.col(column.name), _form(dtype)
    text = raw.cast(pl.String).str.strip_chars()
    gap = raw.is_null()
    if form == "text":
        gap = gap | text.str.to_lowercase().is_in(GAPS)
    elif dtype.is_float():
        gap = gap | raw.is_nan()
    match column:
        case Number():
            value = _as_number(raw, text, form).fill_nan(None)
        case Flag():
            value = _as_flag(raw, text, form)
        case Category():
            value = _as_code(column, raw, text, form)
        case Moment():
            value = _as_ticks(column, raw, text, dtype)
    return value, gap.fill_null(True) & value.is_null()


def _as_number(raw: pl.Expr, text: pl.Expr, form: str | None) -> pl.Expr:
    return text.cast(pl.Float64, strict=False) if form == "text" else raw.cast(pl.Float64)


def _as_flag(raw: pl.Expr, text: pl.Expr, form: str | None) -> pl.Expr:
    if form == "text":
        word = text.str.to_lowercase()
        yes, no = word.is_in(_YES), word.is_in(_NO)
    else:
        number = raw.cast(pl.Float64)
        yes, no = number == 1, number == 0
    return pl.when(yes).then(1).when(no).then(0).otherwise(None)


def _as_code(column: Category, raw: pl.Expr, text: pl.Expr, form: str | None) -> pl.Expr:
    """The position among the categories, by text and by the number that it means."""
    keys = [category_key(value) for value in column.values or ()]
    numbers = {key: code for code, key in enumerate(keys) if not isinstance(key, str)}
    number = raw.cast(pl.Float64) if form in ("number", "flag") else None
    if number is None:
        words = [str(value).strip() for value in column.values or ()]
        by_text = text.cast(pl.Enum(words), strict=False).to_physical().cast(pl.Int32)
        if not numbers:
            return by_text
        spelled = text.str.to_lowercase()
        number = (
            pl.when(spelled == "true")
            .then(1.0)
            .when(spelled == "false")
            .then(0.0)
            .otherwise(text.cast(pl.Float64, strict=False))
        )
    known = np.array(sorted(numbers))
    codes = np.array([numbers[key] for key in known.tolist()], dtype=np.int32)

    def find(values: NDArray[Any]) -> NDArray[Any]:
        at = np.minimum(np.searchsorted(known, values), len(known) - 1)
        return np.where(known[at] == values, codes[at], -1)

    found = _each(number.fill_null(np.nan), find)
    by_number = pl.when(found >= 0).then(found).otherwise(None)
    return by_number if form in ("number", "flag") else pl.coalesce(by_text, by_number)


def _as_ticks(column: Moment, raw: pl.Expr, text: pl.Expr, dtype: Any) -> pl.Expr:
    """Units since 1970; nothing here can overflow."""
    step, day = UNITS[column.unit], UNITS["day"]
    match _form(dtype):
        case "date":
            days = raw.to_physical().cast(pl.Int64)
        case "time" if column.unit == "day":
            days = raw.dt.date().to_physical().cast(pl.Int64)
        case "time":
            return _rescaled(
                raw.to_physical(), {"ns": 1, "us": 1000, "ms": 10**6}[dtype.time_unit], step
            )
        case _ if column.format is not None:
            timed = any(
                part in column.format for part in ("%H", "%I", "%T", "%R", "%k", "%l", "%s")
            )
            if timed:
                zone: Any = {"time_zone": "UTC"} if "z" in column.format.replace("%Z", "") else {}
                read = text.str.to_datetime(column.format, time_unit="us", strict=False, **zone)
                return _rescaled(read.to_physical(), 1000, step)
            days = text.str.to_date(column.format, strict=False).to_physical().cast(pl.Int64)
        case _:
            parts = text.str.extract_groups(_DATE_AND_TIME)
            days = pl.coalesce(
                parts.struct.field("date").str.to_date(form, strict=False) for form in _DATES
            )
            days = days.to_physical().cast(pl.Int64)
            if column.unit != "day":
                return (days.clip(-_DAYS, _DAYS) * day + _time_of_day(parts)).floordiv(step)
    return days if column.unit == "day" else days.clip(-_DAYS, _DAYS) * (day // step)


def _time_of_day(parts: pl.Expr) -> pl.Expr:
    """Microseconds since midnight UTC; null if there is no such time."""

    def part(name: str) -> pl.Expr:
        return parts.struct.field(name).cast(pl.Int64, strict=False).fill_null(0)

    fraction = parts.struct.field("f").str.pad_end(6, "0").cast(pl.Int64, strict=False).fill_null(0)
    hour, minute, second = part("h"), part("m"), part("s")
    west = parts.struct.field("zh").str.starts_with("-").fill_null(False)
    offset = part("zh") * 60 + pl.when(west).then(-part("zm")).otherwise(part("zm"))
    time = ((hour * 60 + minute - offset) * 60 + second) * UNITS["second"] + fraction
    return pl.when((hour < 24) & (minute < 60) & (second < 61)).then(time).otherwise(None)


def _rescaled(ticks: pl.Expr, nanoseconds: int, step: int) -> pl.Expr:
    """Ticks of so many nanoseconds as steps of so many microseconds."""
    step *= 1000
    if nanoseconds <= step:
        return ticks.floordiv(step // nanoseconds)
    times = nanoseconds // step
    most = 2**62 // times
    return ticks.clip(-most, most) * times


def _place(column: Column, value: pl.Expr) -> pl.Expr:
    """The cells of values that have one."""
    if isinstance(column, Flag | Category):
        return value.cast(pl.Int32)
    starts = column.starts
    whole = isinstance(column, Number) and bool(column.whole)

    def find(values: NDArray[Any]) -> NDArray[Any]:
        nearest = np.rint(values) if whole else values
        return np.maximum(np.searchsorted(starts, nearest, side="right") - 1, 0)

    return _each(value.fill_null(starts[0].item()), find)


def _each(values: pl.Expr, function: Callable[[NDArray[Any]], NDArray[Any]]) -> pl.Expr:
    """A function of arrays that treats each value by itself; the result is whole numbers."""

    def apply(part: pl.Series) -> pl.Series:
        return pl.Series(part.name, function(part.to_numpy()).astype(np.int32))

    return values.map_batches(apply, return_dtype=pl.Int32, is_elementwise=True)
