"""Tables of categories: small files, read whole, their values as written."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from .array import ArrayRows
from .files import read_file, scan_csv
from .header import Header, refuse_header
from .persons import identifiers
from .scan import first_line

__all__ = ["read_categories", "read_table"]

# What a CSV file may say where there is no identifier, as in ``read_file``.
_NOBODY = ["", "NA", "NaN", "nan"]


def read_table(path: str | Path, header: bool | None = None) -> pl.DataFrame:
    r"""A ``.csv`` or ``.parquet`` file of categories as a polars frame, read whole.

    Parameters
    ----------
    path : str or Path
        Everything in a CSV file becomes text.
    header : bool, optional
        Whether the first line of a CSV file is a header; see :func:`privem.data.read_file`.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "people.csv"
    >>> _ = path.write_text("f,yes\nm,no\n")
    >>> read_table(path, header=False).columns
    ['x0', 'x1']
    """
    return _read(Path(path), header, ())[0]


def read_categories(
    path: Path,
    *,
    columns: Sequence[str] | None = None,
    without: str | None = None,
    weight: Any = None,
    groups: Any = None,
    private: bool = False,
    header: bool | None = None,
    categories: Any = None,
) -> tuple[Any, Any, Any]:
    """Columns of a file, weights and whose rows they are.

    Parameters
    ----------
    path : Path
        A ``.csv``, ``.parquet`` or ``.npy`` file.
    columns : sequence of str, optional
        Which columns; all but the others named here by default.
    without : str or None
        A column to leave out.
    weight, groups : array, column name or None
        Names become the values of those columns, which are then not among the others.
    private : bool
        Say nothing about single values: what is missing becomes the text ``"NaN"``, and weights
        that are no numbers become NaN.
    header : bool, optional
        As in :func:`read_table`.
    categories : mapping, list of lists, list or None
        The categories that columns have. A first line that holds one of its own column's is data;
        without declared ones (in exact fits), one that is among the values below it.

    Returns
    -------
    table : polars.DataFrame or ndarray
    weight, groups : array or None
    """
    label = repr(str(path))
    if path.suffix not in (".csv", ".parquet"):
        rows = read_file(path, header=header)  # raises for what is no such file
        if not isinstance(rows, ArrayRows):
            raise ValueError(f"{label} is a folder; categories are read from one file")
        if columns is not None or isinstance(groups, str) or isinstance(weight, str):
            raise ValueError(f"{label}: a .npy file has no column names")
        return rows.X, weight, groups
    aside = [name for name in (without, weight, groups) if isinstance(name, str)]
    by_name = list(categories) if isinstance(categories, Mapping) else []
    frame, found = _read(path, header, [*(columns or ()), *aside, *by_name])
    for name in (*(columns or ()), *aside):
        if name not in frame.columns:
            raise found.has_none(label, name)
    if groups is not None and not isinstance(groups, str):
        raise TypeError("the groups of a file are one of its columns: give its name (a string)")
    if len({*aside, *(columns or ())}) < len(aside) + len(columns or ()):
        raise ValueError("the columns fitted, left out, weights and groups must differ")
    if isinstance(weight, str):
        weight = _numbers(frame[weight], label, private)
    if groups is not None:
        ids = frame[groups]
        text = ids.dtype == pl.String and path.suffix == ".csv"
        groups = identifiers(ids.replace(_NOBODY, None) if text else ids)
    frame = frame.drop(aside) if columns is None else frame.select(columns)
    if found.public is not None and not by_name:
        _refuse_category(frame, categories, private, label)
    if private:
        try:
            frame = frame.cast(pl.String).fill_null("NaN")
        except pl.exceptions.PolarsError:
            raise ValueError(
                f"{label} has a column whose values are no categories (lists, structures, bytes)"
            ) from None
    return frame, weight, groups


def _read(
    path: Path, header: bool | None, declared: Collection[str]
) -> tuple[pl.DataFrame, Header]:
    label = repr(str(path))
    if not path.exists():
        raise FileNotFoundError(f"no file or folder at {label}")
    if path.is_file() and path.stat().st_size == 0:
        raise ValueError(f"{label} is empty")
    if path.suffix not in (".csv", ".parquet"):
        raise ValueError(f"{label}: categories are read from a .csv or .parquet file")
    if header is not None and path.suffix != ".csv":
        raise ValueError(f"{label}: header= (--header, --no-header) is for CSV files")
    found = Header((), None)
    try:
        if path.suffix == ".parquet":
            frame = pl.read_parquet(path, glob=False)
            return frame, Header(frame.columns, None)
        # Everything in a CSV file is text: a guess at types would hang on single records.
        scan, found = scan_csv([path], label, header, declared, infer_schema=False)
        return scan.collect(), found
    except (pl.exceptions.PolarsError, OSError) as error:
        why = first_line(error, False, found)
        raise ValueError(f"{label} is not a readable table: {why}") from None


def _refuse_category(frame: pl.DataFrame, categories: Any, private: bool, label: str) -> None:
    """Raise if the name of a column is one of its categories: the first line is then a record."""
    if categories is None:
        if not private and any((frame[name] == name).any() for name in frame.columns):
            raise refuse_header(label)
        return
    nested = [isinstance(part, list | tuple | np.ndarray) for part in categories]
    each = categories if nested and all(nested) else [categories] * frame.width
    for name, values in zip(frame.columns, each, strict=False):
        known = {str(value).strip().lower() for value in values}
        words = name.lower().split()  # several categories: blanks separate the file, not commas
        if name.strip().lower() in known or (len(words) > 1 and known.issuperset(words)):
            raise refuse_header(label)


def _numbers(column: pl.Series, label: str, private: bool) -> NDArray[np.float64]:
    try:
        return column.cast(pl.Float64, strict=not private).to_numpy()
    except pl.exceptions.PolarsError:
        raise ValueError(
            f"column {column.name!r} of {label} holds values that are not numbers, so no weights"
        ) from None
