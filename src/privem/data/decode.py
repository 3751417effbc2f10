"""Values drawn from fine cells: the way back from :mod:`privem.data.cells`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from .categories import category_type
from .cells import moment_dtype
from .columns import UNITS, Category, Column, Flag, Moment, Number
from .frame import import_pandas


def decode(
    columns: Sequence[Column],
    cells: NDArray[Any],
    rng: Any,
    library: str = "polars",
    drawn: Mapping[str, NDArray[Any]] | None = None,
) -> Any:
    """A table of values drawn from cells, with the types and the order of the columns.

    Numbers, dates and times are uniform within their cell, at their resolution: read again, they
    are in the same cell. What is missing is null.

    Parameters
    ----------
    columns : sequence of Column
    cells : array of shape (n, d)
        Numbers of cells, as whole numbers.
    rng : numpy.random.Generator or RandomState
    library : {"polars", "pandas"}, default="polars"
        Which kind of frame. In a pandas frame, whole numbers and flags that may be missing have
        pandas' nullable types.
    drawn : mapping of str to array, optional
        For some columns of numbers, dates or times, values that were drawn already, each within
        the :func:`limits` of its cell.

    Examples
    --------
    >>> columns = [Number("age", 15, 95, whole=True), Category("sex", ("Female", "Male"))]
    >>> decode(columns, np.array([[16, 0], [0, 1]]), np.random.default_rng(0)).rows()
    [(31, 'Female'), (15, 'Male')]
    """
    known = drawn or {}
    made = [
        _decoded(column, np.asarray(cells[:, j]), rng, known.get(column.name))
        for j, column in enumerate(columns)
    ]
    frame = pl.DataFrame(made)
    return frame if library == "polars" else as_pandas(columns, frame)


def as_pandas(columns: Sequence[Column], frame: pl.DataFrame) -> Any:
    """A polars frame of such columns as one of pandas."""
    pandas = import_pandas()
    made = {column.name: _pandas(pandas, column, frame[column.name]) for column in columns}
    return pandas.DataFrame(made)


def limits(column: Number | Moment) -> tuple[NDArray[Any], NDArray[Any]]:
    """The least and the greatest value of each cell, in units where the column has any.

    Units are those of the last decimal, or of time since 1970.

    Examples
    --------
    >>> limits(Number("height", 0, 0.3, decimals=1))
    (array([0, 1, 2, 3]), array([0, 1, 2, 3]))
    """
    starts: NDArray[Any] = column.starts
    last: Any = column.high  # known, if there are cells
    if isinstance(column, Number):
        if column.scale is None or column.units is None:
            return starts, np.append(np.nextafter(starts[1:], -np.inf), last)
        starts, last = np.rint(starts * column.scale), column.units[1]
    starts = starts.astype(np.int64)
    return starts, np.append(starts[1:] - 1, last)


def uniform(low: NDArray[Any], most: NDArray[Any], rng: Any) -> NDArray[Any]:
    """Values between limits, both included and all equally likely; whole ones if limits are.

    Others are multiples of a power of ten, of which 100 to 1000 lie between the limits: nothing is
    known about finer digits.

    Examples
    --------
    >>> uniform(np.array([3, 7]), np.array([3, 7]), np.random.default_rng(0))
    array([3, 7])
    >>> uniform(np.array([0.7, 20.0]), np.array([0.9, 30.0]), np.random.default_rng(0))
    array([ 0.828, 22.7  ])
    """
    part = rng.random(len(low))
    if low.dtype.kind == "i":
        steps = np.floor(part * (most - low + 1.0)).astype(np.int64)
        return np.asarray(np.minimum(low + steps, most))
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        decimals = 2 - np.floor(np.log10(most - low))
        # Both are whole powers of ten, so that quotients are the numbers nearest to decimals.
        up, down = 10.0 ** np.maximum(decimals, 0), 10.0 ** np.maximum(-decimals, 0)
        first, last = np.ceil(low * up / down), np.floor(most * up / down)
        # Rounding may have moved them outside, by one at most.
        first, last = first + (first * down / up < low), last - (last * down / up > most)
        short = (first + np.floor(part * (last - first + 1.0))) * down / up
        # Limits that are so near each other that rounding matters have all digits.
        sound = (low <= short) & (short <= most) & (np.maximum(-first, last) < 2.0**52)
    return np.asarray(np.where(sound, short, np.clip(low + part * (most - low), low, most)))


def _decoded(
    column: Column, cells: NDArray[Any], rng: Any, drawn: NDArray[Any] | None
) -> pl.Series:
    """A value from each cell."""
    last = column.size - 1 - column.missing
    at = np.minimum(cells, last)
    match column:
        case Number() | Moment():
            low, most = (each[at] for each in limits(column))
            values = uniform(low, most, rng) if drawn is None else drawn
            if isinstance(column, Moment):
                series = _moments(column, values)
            else:
                series = pl.Series(_numbers(column, values, low, most))
        case Flag():
            series = pl.Series(at.astype(np.dtype(column.dtype or "bool")))
        case Category():
            series = _categories(column, at)
    gap = pl.Series(cells > last)
    return pl.select(pl.when(gap).then(None).otherwise(series).alias(column.name)).to_series()


def _numbers(
    column: Number, values: NDArray[Any], low: NDArray[Any], most: NDArray[Any]
) -> NDArray[Any]:
    kind = column.dtype or ("int64" if column.whole else "float64")
    if column.scale is not None:
        return (values if column.whole else values / column.scale).astype(kind)
    if kind != "float32":
        return values
    # Rounded to fewer digits, a value may leave its cell: take its neighbour then.
    single = values.astype(np.float32)
    single = np.where(
        single.astype(np.float64) < low, np.nextafter(single, np.float32(np.inf)), single
    )
    return np.where(
        single.astype(np.float64) > most, np.nextafter(single, np.float32(-np.inf)), single
    )


def _moments(column: Moment, ticks: NDArray[np.int64]) -> pl.Series:
    kind = column.dtype or moment_dtype(column, pl.String)
    if kind == "date":
        days = ticks // (UNITS["day"] // UNITS[column.unit])
        return pl.Series(days).cast(pl.Int32).cast(pl.Date)
    unit, _, zone = kind.removeprefix("datetime[").removesuffix("]").partition(", ")
    times = pl.Series(ticks * UNITS[column.unit]).cast(pl.Datetime("us"))
    times = times.dt.cast_time_unit(unit)  # type: ignore[arg-type]
    return times if not zone else times.dt.replace_time_zone("UTC").dt.convert_time_zone(zone)


def _categories(column: Category, at: NDArray[Any]) -> pl.Series:
    values = list(column.values or ())
    if column.numbers:
        kind = column.dtype or category_type(np.asarray(values))
        return pl.Series(np.asarray(values)[at].astype(kind))
    words = [str(value) for value in values]
    series = pl.Series(words, dtype=pl.String).gather(at)
    if column.dtype == "categorical":
        return series.cast(pl.Categorical)
    return series.cast(pl.Enum(words)) if column.dtype == "enum" else series


def _pandas(pandas: Any, column: Column, series: pl.Series) -> Any:
    """A column of a pandas frame, without the help of pyarrow."""
    kind, gaps = series.dtype, series.is_null().to_numpy()
    if kind in (pl.Categorical, pl.Enum):
        words = [str(value) for value in getattr(column, "values", ())]
        return pandas.Categorical(series.cast(pl.String).to_list(), categories=words)
    if kind == pl.String:
        return series.to_list()
    if kind.is_temporal():
        times = pandas.Series(
            series.dt.replace_time_zone(None).to_numpy()
            if kind == pl.Datetime
            else series.to_numpy()
        )
        zone = getattr(kind, "time_zone", None)
        if zone is None:
            return times
        utc = pandas.Series(
            series.dt.convert_time_zone("UTC").dt.replace_time_zone(None).to_numpy()
        )
        return utc.dt.tz_localize("UTC").dt.tz_convert(zone)
    if not column.missing or kind.is_float():
        return series.to_numpy()
    if kind == pl.Boolean:
        return pandas.arrays.BooleanArray(series.fill_null(False).to_numpy().copy(), gaps.copy())
    return pandas.arrays.IntegerArray(series.fill_null(0).to_numpy().copy(), gaps.copy())
