"""From the values of a mixed table to fine cells; :mod:`privem.data.decode` is the way back.

The values of a column become the numbers of its cells (:mod:`privem.data.columns`) by polars
expressions, so that files are streamed and all kinds of tables are read alike. Two rules hold:

- Each value is read by itself. The type of a column is what its table declares, all of a CSV file
  is text, and nothing is guessed from values: one odd value never changes how others are read.
- Every value has a cell, so reading never fails because of one. Numbers and dates beyond the bounds
  count as the nearest bound. What cannot be read, or is a category that was not declared, counts as
  missing if the column may have missing values, and otherwise as the first cell: the lower bound,
  "no", or the first category. Exact fits refuse such values instead (:func:`odd`). Where the schema
  says so (``others``), categories that are not listed count as the last one, in every fit: by
  default there is no such category, as noise would make some up where nothing is unlisted.

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
DATES = ["%Y-%m-%d", "%Y/%m/%d", "%d.%m.%Y", "%d %B %Y"]
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
    >>> for_type(Number("age", 15, 95), pl.UInt8).as_dict()
    {'type': 'int', 'bounds': [15, 95], 'dtype': 'uint8'}
    """
    form = _form(dtype)
    match column:
        case Number() if form in ("number", "flag", "text"):
            return _number_for(column, dtype)
        case Flag() if form in ("number", "flag", "text"):
            kind = type_name(dtype) if form == "number" else "bool"
            return replace(column, dtype=column.dtype or kind)
        case Category() if form == "text" or (
            form in ("number", "flag") and _may_be_numbers(column)
        ):
            return replace(column, dtype=column.dtype or _category_dtype(column, dtype))
        case Moment() if form in ("date", "time", "text"):
            return replace(column, dtype=column.dtype or moment_dtype(column, dtype))
    said = "numbers" if isinstance(column, Number) else "categories that are text"
    what = column.as_dict().get("type", said)
    raise ValueError(
        f"column {column.name!r} is declared as {what}, but the table holds {dtype}: "
        "change the schema, or convert the column first"
    )


def cell(column: Column) -> pl.Expr:
    """The cell of each value of a column; null where there is a gap and the column may have none.

    Examples
    --------
    >>> frame = pl.DataFrame({"age": ["31", "1e9", "soon", ""]})
    >>> frame.select(cell(Number("age", 0, 99, whole=True)))["age"].to_list()
    [31, 99, 0, None]
    >>> frame.select(cell(Number("age", 0, 99, whole=True, missing=True)))["age"].to_list()
    [31, 99, 100, 100]
    """

    def place(series: pl.Series) -> pl.Series:
        value, gap = read(column, series)
        known = value.is_not_null().to_numpy()
        rest = column.size - 1 if column.missing else 0
        cells = pl.Series(series.name, np.where(known, _place(column, value), rest), pl.Int32)
        if column.missing or not gap.any():
            return cells
        return cells.set(gap, None)

    return _each(column, place, pl.Int32)


def odd(column: Column) -> tuple[pl.Expr, pl.Expr]:
    """For exact fits: the first value that cannot be read, as text; and whether there is a gap.

    Both are one value for the whole column. Infinity counts as a value that cannot be read.
    """

    def bad(series: pl.Series) -> pl.Series:
        value, gap = read(column, series)
        unread = value.is_null() & ~gap
        return unread | value.is_infinite().fill_null(False) if value.dtype.is_float() else unread

    def gaps(series: pl.Series) -> pl.Series:
        return read(column, series)[1]

    first = pl.col(column.name).filter(_each(column, bad, pl.Boolean)).first().cast(pl.String)
    return first, _each(column, gaps, pl.Boolean).any()


def _each(column: Column, function: Callable[[pl.Series], pl.Series], kind: Any) -> pl.Expr:
    """A function of a column's values that treats each of them by itself."""
    return pl.col(column.name).map_batches(function, return_dtype=kind, is_elementwise=True)


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
        whole = dtype.is_integer() and column.decimals is None
        if whole and not (low is None and high is None):
            inner = [
                None if e is None else int(f(e)) for e, f in ((low, np.ceil), (high, np.floor))
            ]
            try:
                return _number_for(replace(column, low=inner[0], high=inner[1], whole=True), dtype)
            except ValueError:  # too large, or no two whole numbers between them
                whole = False
    kind = type_name(dtype)
    if whole:
        kind = kind if dtype.is_integer() and _holds(kind, low, high) else "int64"
    elif kind != "float32":
        kind = "float64"
    elif low is not None and high is not None and column.dtype is None and not column.units:
        # Of single precision like the values: many of them may be at the lower bound.
        low, high = float(np.float32(low)), float(np.float32(high))
        if low >= high:
            low, high, kind = column.low, column.high, "float64"
    return replace(column, low=low, high=high, whole=whole, dtype=column.dtype or kind)


def _holds(kind: str, low: float | None, high: float | None) -> bool:
    """Whether a type of whole numbers holds all between the bounds."""
    if not kind.startswith(("int", "uint")):
        return False
    # Bounds that will be found lie within those of the type.
    held = np.iinfo(kind)
    fits = low is None or held.min <= low < held.max
    return fits and (high is None or held.min < high <= held.max)


def _may_be_numbers(column: Category) -> bool:
    if column.values is None:
        return True
    return any(not isinstance(category_key(value), str) for value in column.values)


def _category_dtype(column: Category, dtype: Any) -> str:
    if column.values is not None and column.numbers:
        return category_type(np.asarray(column.values), dtype)
    kinds = {pl.Categorical: "categorical", pl.Enum: "enum"}
    return kinds.get(dtype.base_type(), "string")


def moment_dtype(column: Moment, dtype: Any) -> str:
    """The type of dates and times: the table's, if it can hold them."""
    if dtype != pl.Datetime:
        timed = "datetime[us, UTC]" if column.utc else "datetime[us]"
        return "date" if column.unit == "day" else timed
    if column.unit == "day" and dtype.time_zone is not None:
        return "date"
    fits = max(-column.low, column.high) * UNITS[column.unit] < 2**63 // 1000
    unit = dtype.time_unit
    if (unit == "ns" and not fits) or (unit == "ms" and column.unit == "microsecond"):
        unit = "us"
    return (
        f"datetime[{unit}]" if dtype.time_zone is None else f"datetime[{unit}, {dtype.time_zone}]"
    )


def read(column: Column, series: pl.Series) -> tuple[pl.Series, pl.Series]:
    """Values in the form that cells are cut from, and where there are gaps.

    The form is numbers, units since 1970, or positions among categories; null for a gap, and for
    what cannot be read.
    """
    if series.dtype in (pl.Categorical, pl.Enum, pl.Null):
        series = series.cast(pl.String)
    match column:
        case Number():
            value = _read_with(_as_numbers, series)
        case Flag():
            value = _read_with(_as_flags, series)
        case Category():
            value = _as_codes(column, series)
        case Moment():
            value = _as_ticks(column, series)
    gap = series.is_null()
    if series.dtype == pl.String:
        left = (value.is_null() & ~gap).arg_true()
        if len(left):
            word = series.gather(left).str.strip_chars().str.to_lowercase()
            gap = gap.scatter(left, word.is_in(GAPS))
    elif series.dtype.is_float():
        gap = gap | series.is_nan().fill_null(True)
    if isinstance(column, Category) and column.others and column.values:
        value = value.set(value.is_null() & ~gap, len(column.values) - 1)
    return value, gap


def _read_with(reads: Callable[[pl.Series], pl.Series], series: pl.Series) -> pl.Series:
    """Values as read; those that are text with blanks around them trimmed, if need be."""
    value = reads(series)
    if series.dtype == pl.String:
        left = (value.is_null() & series.is_not_null()).arg_true()
        if len(left):
            value = value.scatter(left, reads(series.gather(left).str.strip_chars()))
    return value


def _as_numbers(series: pl.Series) -> pl.Series:
    return series.cast(pl.Float64, strict=False).fill_nan(None)


def _as_flags(series: pl.Series) -> pl.Series:
    if series.dtype == pl.String:
        return _positions(series.str.to_lowercase(), [*_NO, *_YES]) // len(_NO)
    number = series.cast(pl.Float64)
    return number.set(~number.is_in([0.0, 1.0]), None).cast(pl.Int32)


def _positions(series: pl.Series, words: list[str]) -> pl.Series:
    """Where text stands in a list; null where it does not."""
    return series.cast(pl.Enum(words), strict=False).to_physical().cast(pl.Int32)


def _as_codes(column: Category, series: pl.Series) -> pl.Series:
    """The position among the categories, by text and by the number that it means."""
    keys = [category_key(value) for value in column.values or ()]
    words = [str(value).strip() for value in column.values or ()]
    numbers = {key: code for code, key in enumerate(keys) if not isinstance(key, str)}
    known = np.array(sorted(numbers))
    codes = np.array([numbers[key] for key in known.tolist()], dtype=np.int32)

    def by_number(values: pl.Series) -> pl.Series:
        number = values.cast(pl.Float64, strict=False).fill_null(np.nan).to_numpy()
        at = np.minimum(np.searchsorted(known, number), len(known) - 1)
        found = known[at] == number
        return pl.Series(values.name, np.where(found, codes[at], 0), pl.Int32).set(
            pl.Series(~found), None
        )

    if series.dtype.is_numeric() or series.dtype == pl.Boolean:
        return by_number(series)
    text = series.cast(pl.String)
    found = _read_with(lambda part: _positions(part, words), text)
    left = (found.is_null() & text.is_not_null()).arg_true()
    if not len(known) or not len(left):
        return found
    spelled = text.gather(left).str.strip_chars().str.to_lowercase()
    return found.scatter(left, by_number(spelled.replace(["true", "false"], ["1", "0"])))


def _as_ticks(column: Moment, series: pl.Series) -> pl.Series:
    """Units since 1970; nothing here can overflow."""
    step, day = UNITS[column.unit], UNITS["day"]
    if series.dtype == pl.String:
        return _as_text_ticks(column, series)
    if series.dtype == pl.Datetime:
        kind: Any = series.dtype
        nanoseconds = {"ns": 1, "us": 1000, "ms": 10**6}[kind.time_unit]
        ticks = series.to_physical()
        if column.unit != "day":
            return _rescaled(ticks, nanoseconds, step)
        # Within ten thousand years, so that every time has a date where it was recorded.
        most = min(_DAYS // 30 * day * 1000 // nanoseconds, 2**62)
        series = ticks.clip(-most, most).cast(kind)
    days = series.dt.date().to_physical().cast(pl.Int64)
    return days if column.unit == "day" else days.clip(-_DAYS, _DAYS) * (day // step)


def _as_text_ticks(column: Moment, series: pl.Series) -> pl.Series:
    """The same of text: the same dates often come again, and each is read once."""
    step, day = UNITS[column.unit], UNITS["day"]
    texts = series.drop_nulls().unique()
    text = texts.str.strip_chars()
    form = column.format
    if form is None:
        parts = text.str.extract_groups(_DATE_AND_TIME).struct.unnest()
        read = [parts["date"].str.to_date(each, strict=False) for each in DATES]
        days = parts.select(pl.coalesce(read)).to_series().to_physical().cast(pl.Int64)
        ticks = days
        if column.unit != "day":
            time = parts.select(_time_of_day()).to_series()
            ticks = (days.clip(-_DAYS, _DAYS) * day + time) // step
    elif any(part in form for part in ("%H", "%I", "%T", "%R", "%k", "%l", "%s")):
        zone: Any = {"time_zone": "UTC"} if "z" in form else {}
        times = text.str.to_datetime(form, time_unit="us", strict=False, **zone)
        ticks = _rescaled(times.to_physical(), 1000, step)
    else:
        days = text.str.to_date(form, strict=False).to_physical().cast(pl.Int64)
        ticks = days.clip(-_DAYS, _DAYS) * (day // step)
    return series.replace_strict(texts, ticks, default=None, return_dtype=pl.Int64)


def _time_of_day() -> pl.Expr:
    """Microseconds since midnight UTC; null if there is no such time."""

    def part(name: str) -> pl.Expr:
        return pl.col(name).cast(pl.Int64, strict=False).fill_null(0)

    fraction = pl.col("f").str.pad_end(6, "0").cast(pl.Int64, strict=False).fill_null(0)
    hour, minute, second = part("h"), part("m"), part("s")
    west = pl.col("zh").str.starts_with("-").fill_null(False)
    offset = part("zh") * 60 + pl.when(west).then(-part("zm")).otherwise(part("zm"))
    time = ((hour * 60 + minute - offset) * 60 + second) * UNITS["second"] + fraction
    return pl.when((hour < 24) & (minute < 60) & (second < 61)).then(time).otherwise(None)


def _rescaled(ticks: pl.Series, nanoseconds: int, step: int) -> pl.Series:
    """Ticks of so many nanoseconds as steps of so many microseconds."""
    step *= 1000
    if nanoseconds <= step:
        return ticks // (step // nanoseconds)
    times = nanoseconds // step
    most = 2**62 // times
    return ticks.clip(-most, most) * times


def _place(column: Column, value: pl.Series) -> NDArray[Any]:
    """The cells of values; where there is none, that of another."""
    if isinstance(column, Flag | Category):
        return value.fill_null(0).to_numpy()
    starts = column.starts
    values = value.fill_null(starts[0].item()).to_numpy()
    if isinstance(column, Number) and column.scale is not None:
        values = rounded(values, column.scale)
    return np.maximum(np.searchsorted(starts, values, side="right") - 1, 0)


def rounded(values: NDArray[Any], scale: int) -> NDArray[Any]:
    """The nearest whole multiples of a unit; those that are too large for any cell as they are."""
    with np.errstate(over="ignore"):
        units = np.rint(values * scale)
    return np.where(np.isfinite(units), units / scale, values)
