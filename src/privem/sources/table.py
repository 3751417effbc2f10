"""Tables of categories: small files, read whole, their values as written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from .array import ArrayRows
from .files import first_line, read_file
from .persons import identifiers

__all__ = ["read_categories"]

# What a CSV file may say where there is no identifier, as in ``read_file``.
_NOBODY = ["", "NA", "NaN", "nan"]


def read_categories(
    path: Path, without: str | None, weight: Any, groups: Any, private: bool
) -> tuple[Any, Any, Any]:
    """Columns of a file, weights and whose rows they are.

    Parameters
    ----------
    path : Path
        A ``.csv``, ``.parquet`` or ``.npy`` file.
    without : str or None
        A column to leave out.
    weight, groups : array, column name or None
        Names become the values of those columns, which are then not among the others.
    private : bool
        Say nothing about single values: what is missing becomes the text ``"NaN"``, and weights
        that are no numbers become NaN.

    Returns
    -------
    table : polars.DataFrame or ndarray
    weight, groups : array or None
    """
    label = repr(str(path))
    if path.suffix not in (".csv", ".parquet"):
        rows = read_file(path)  # raises for what is no such file
        if not isinstance(rows, ArrayRows):
            raise ValueError(f"{label} is a folder; categories are read from one file")
        if isinstance(groups, str) or isinstance(weight, str):
            raise ValueError(f"{label}: a .npy file has no column names")
        return rows.X, weight, groups
    frame = _read(path, label)
    for name in (without, weight, groups):
        if isinstance(name, str) and name not in frame.columns:
            raise ValueError(f"{label} has no column {name!r}; it has {', '.join(frame.columns)}")
    if groups is not None and not isinstance(groups, str):
        raise TypeError("the groups of a file are one of its columns: give its name (a string)")
    named = [name for name in (without, weight, groups) if isinstance(name, str)]
    if len(set(named)) < len(named):
        raise ValueError("the column left out, the weight and the groups must differ")
    if isinstance(weight, str):
        weight = _numbers(frame[weight], label, private)
    if groups is not None:
        ids = frame[groups]
        text = ids.dtype == pl.String and path.suffix == ".csv"
        groups = identifiers(ids.replace(_NOBODY, None) if text else ids)
    frame = frame.drop(named)
    if private:
        try:
            frame = frame.cast(pl.String).fill_null("NaN")
        except pl.exceptions.PolarsError:
            raise ValueError(
                f"{label} has a column whose values are no categories (lists, structures, bytes)"
            ) from None
    return frame, weight, groups


def _read(path: Path, label: str) -> pl.DataFrame:
    if not path.exists():
        raise FileNotFoundError(f"no file or folder at {label}")
    if path.is_file() and path.stat().st_size == 0:
        raise ValueError(f"{label} is empty")
    try:
        if path.suffix == ".parquet":
            return pl.read_parquet(path)
        # Everything in a CSV file is text: a guess at types would hang on single records.
        return pl.read_csv(path, infer_schema=False)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise ValueError(f"{label} is not a readable table: {first_line(error)}") from None


def _numbers(column: pl.Series, label: str, private: bool) -> NDArray[np.float64]:
    try:
        return column.cast(pl.Float64, strict=not private).to_numpy()
    except pl.exceptions.PolarsError:
        raise ValueError(
            f"column {column.name!r} of {label} holds values that are not numbers, so no weights"
        ) from None
