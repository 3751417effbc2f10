"""The fine cells that a condition on one column allows: for samples and densities given values."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from .cells import cell, read
from .columns import Category, Column, Flag, Moment, Number, wrong
from .decode import limits, uniform
from .mixed import as_text
from .wording import allows

Span = tuple[Any, Any]


def allowed(column: Column, given: Any) -> NDArray[np.int64]:
    """The cells of a value, a pair ``(low, high)``, a list of values, or ``None`` (missing).

    Examples
    --------
    >>> allowed(Number("age", 15, 95, whole=True), (93, None))
    array([78, 79, 80])
    >>> allowed(Category("sex", ("f", "m", "x")), ["x", "f"])
    array([0, 2])
    """
    if given is None:
        if not column.missing:
            raise wrong(column.name, "it is never missing, by its schema")
        return np.array([column.size - 1])
    if isinstance(given, list):
        if not given:
            raise wrong(column.name, "an empty list allows no value")
        return np.unique(np.concatenate([allowed(column, value) for value in given]))
    if isinstance(column, Number | Moment):
        least, most = spans(column, given)[0]
        first, last = np.searchsorted(limits(column)[0], [least, most], side="right") - 1
        return np.arange(first, last + 1)
    return np.array([_place(column, given)])


def spans(column: Number | Moment, given: Any) -> list[Span]:
    """The values that a condition allows, as ranges with both ends; none if it says missing.

    They lie within the bounds, in units where the column has any (:func:`.decode.limits`).

    Examples
    --------
    >>> spans(Number("age", 15, 95, whole=True), [(0, 20.5), 30])
    [(15, 20), (30, 30)]
    """
    if given is None:
        return []
    if isinstance(given, list):
        return [span for value in given for span in spans(column, value)]
    start, end = (each[at].item() for each, at in zip(limits(column), (0, -1), strict=True))
    if not isinstance(given, tuple):
        value = _value(column, given)
        if not start <= value <= end:
            raise wrong(column.name, f"{given!r} is not one of its values, {allows(column)}")
        return [(value, value)]
    if len(given) != 2:
        raise wrong(column.name, f"a range is a pair (low, high), got {given!r}")
    low, high = given
    least = start if low is None else max(start, _value(column, low, math.ceil))
    most = end if high is None else min(end, _value(column, high, math.floor))
    if least > most:
        raise wrong(
            column.name, f"none of its values, {allows(column)}, is between {low!r} and {high!r}"
        )
    return [(least, most)]


def within(
    column: Number | Moment, cells: NDArray[Any], ranges: list[Span], rng: Any
) -> NDArray[Any]:
    """A value from each cell, within one of the ranges that overlap it.

    Examples
    --------
    >>> debt = Number("debt", 0.0, 512.0)
    >>> within(debt, np.array([3]), [(5.5, 5.5)], np.random.default_rng(0))
    array([5.5])
    """
    at = np.minimum(cells, len(column.starts) - 1)
    low, most = (each[at][:, None] for each in limits(column))
    bounds = np.array(ranges, dtype=low.dtype).reshape(-1, 2)
    low, most = np.maximum(low, bounds[:, 0]), np.minimum(most, bounds[:, 1])
    # One of those that overlap; where a value is missing, any.
    chances = (low <= most) * (rng.random(low.shape) + 1.0)
    chosen = np.argmax(chances, axis=1)[:, None]
    low, most = (np.take_along_axis(each, chosen, axis=1)[:, 0] for each in (low, most))
    return uniform(low, np.maximum(low, most), rng)


def _value(column: Number | Moment, value: Any, whole: Any = None) -> Any:
    """A value in the form that cells are cut from; ``whole`` rounds an end of a range."""
    found = read(column, _series(column, value))[0].item()
    if found is None and isinstance(column, Moment) and column.format is not None:
        # As bounds are written, and as dates that are no text are.
        found = read(replace(column, format=None), _series(column, value))[0].item()
    scale = column.scale if isinstance(column, Number) else None
    if found is not None and scale is not None and math.isfinite(found):
        units = Fraction(str(found)) * scale
        if whole is not None:
            return whole(units)
        found = units.numerator if units.denominator == 1 else None
    if found is None:
        raise wrong(column.name, f"{value!r} is not one of its values, {allows(column)}")
    return found


def _place(column: Flag | Category, value: Any) -> int:
    """The cell of one value."""
    if isinstance(column, Category):
        column = replace(column, others=False)  # what is asked for must be listed
    series = _series(column, value)
    if read(column, series)[0].item() is None:
        raise wrong(column.name, f"{value!r} is not one of its values, {allows(column)}")
    return int(pl.DataFrame([series]).select(cell(column)).item())


def _series(column: Column, value: Any) -> pl.Series:
    return pl.Series(column.name, [as_text(value)], pl.String)
