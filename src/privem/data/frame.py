"""Columns of data frames, of pandas or polars: their types, and as numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .values import as_numbers, is_polars, type_name


def numeric(frame: Any) -> tuple[Any, list[str]]:
    """A frame of numbers and booleans, and the type that each column was declared as.

    Columns of Python objects, text or categories are converted if they are numbers in every row:
    decimals, numbers written as text, categories that are numbers.

    Examples
    --------
    >>> import polars as pl
    >>> numeric(pl.DataFrame({"age": ["31", "47"], "height": [1.7, 1.8]}))[0].dtypes
    [Float64, Float64]
    """
    converted = {}
    dtypes = list(frame.dtypes)
    for j, dtype in enumerate(dtypes):
        if _is_number(dtype):
            continue
        values = _numbers(frame, j, dtype)
        if values is None:
            raise ValueError(
                f"could not convert column {str(frame.columns[j])!r} of type {dtype} to "
                "float: if it says whose record it is, name it as groups=; else select numeric "
                "columns, encode the others as numbers first, or fit a privem.TableMixture, which "
                "takes columns of any kind"
            )
        converted[j] = values
    return _replaced(frame, converted) if converted else frame, [_declared(d) for d in dtypes]


def without_column(frame: Any, name: str, argument: str) -> tuple[Any, Any]:
    """A frame without the column that an argument names, and that column."""
    if name not in list(frame.columns):
        names = ", ".join(str(column) for column in frame.columns)
        raise ValueError(f"{argument} names a column {name!r}, and X has none; it has {names}")
    return frame.drop(name) if is_polars(frame) else frame.drop(columns=[name]), frame[name]


def _is_number(dtype: Any) -> bool:
    if hasattr(dtype, "is_numeric"):  # polars
        return bool(dtype.is_numeric()) or str(dtype) == "Boolean"
    return getattr(dtype, "kind", "O") in "fiub" and not getattr(dtype, "ordered", False)


def _declared(dtype: Any) -> str:
    """The type that a column declares; categories are of the type that pandas keeps them in."""
    categories = getattr(dtype, "categories", None)
    return type_name(dtype if categories is None else getattr(categories, "dtype", dtype))


def _numbers(frame: Any, j: int, dtype: Any) -> NDArray[np.float64] | None:
    """A column of objects, text or categories as numbers; ``None`` if one of them is none."""
    if is_polars(frame):
        if str(dtype) != "Object":
            return _from_text(frame.to_series(j))
        values = frame.to_series(j).to_numpy()
    elif getattr(dtype, "kind", "O") in "OUST":
        try:
            values = frame.iloc[:, j].to_numpy(dtype=object, na_value=np.nan)
        except ArithmeticError:  # a Decimal that signals
            return None
    else:  # dates, complex numbers
        return None
    try:
        return as_numbers(values)
    except ValueError:
        return None


def _from_text(column: Any) -> NDArray[np.float64] | None:
    import polars

    if column.dtype not in (polars.String, polars.Categorical, polars.Enum):
        return None
    numbers = column.cast(polars.String).cast(polars.Float64, strict=False)
    if numbers.null_count() > column.null_count():
        return None
    return np.asarray(numbers.to_numpy())


def _replaced(frame: Any, columns: dict[int, NDArray[np.float64]]) -> Any:
    if is_polars(frame):
        import polars

        made = [polars.Series(frame.columns[j], values) for j, values in columns.items()]
        return frame.with_columns(made)
    frame = frame.copy(deep=False)
    for j, values in columns.items():
        frame.isetitem(j, values)
    return frame
