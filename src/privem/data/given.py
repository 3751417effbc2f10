"""The fine cells that a condition on one column allows: for samples and densities given values."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from .cells import cell, read
from .columns import Category, Column, Flag, Moment, Number, wrong
from .mixed import as_text


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
        return np.unique(np.concatenate([allowed(column, value) for value in given]))
    if isinstance(given, tuple) and isinstance(column, Number | Moment):
        return _between(column, *given)
    place, value = _place(column, given)
    if (
        not isinstance(column, Flag | Category)
        and not _bounds(column)[0] <= value <= _bounds(column)[1]
    ):
        raise wrong(column.name, f"{given!r} is not between its bounds")
    return np.array([place])


def _between(column: Number | Moment, low: Any, high: Any) -> NDArray[np.int64]:
    """All cells that overlap a range; ``None`` is the bound itself."""
    start, end = _bounds(column)
    first, least = (0, start) if low is None else _place(column, low)
    most: Any
    last, most = (len(column.starts) - 1, end) if high is None else _place(column, high)
    if least > most or least > end or most < start:
        raise wrong(column.name, f"none of its values is between {low!r} and {high!r}")
    return np.arange(first, last + 1)


def _bounds(column: Number | Moment) -> tuple[Any, Any]:
    return column.starts[0], column.high


def _place(column: Column, value: Any) -> tuple[int, Any]:
    """The cell of one value, and the value in the form that cells are cut from."""
    if isinstance(column, Category):
        column = replace(column, others=False)  # what is asked for must be listed
    series = pl.Series(column.name, [as_text(value)], pl.String)
    found = read(column, series)[0].item()
    place = pl.DataFrame([series]).select(cell(column)).item()
    if found is None:
        raise wrong(column.name, f"{value!r} is not among the values that its schema allows")
    return place, found
