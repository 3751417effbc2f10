"""Columns of categories: what may be declared, tables of words, and codes for them.

A code is the position of a value among its column's categories, or -1 where it is none of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from .files import NULLS, found_files, named_columns, read_file, scan_csv
from .header import Header, refuse_header
from .lazy import reading
from .persons import identifiers
from .sums import ArrayRows
from .values import TYPES, for_columns, type_name

CATEGORY_TYPES = (*TYPES, "string")


def check_categories(given: Any) -> None:
    """Raise for what can be no categories, before there are data."""
    if given is None:
        return
    if isinstance(given, Mapping):
        for name, part in given.items():
            if not _is_list(part):
                raise ValueError(f"categories of {str(name)!r} must be a list, got {part!r}")
            _refuse_nested(part)
        if not given:
            raise ValueError("categories by name are for every column of X; there are none")
        return
    if not _is_list(given) or not len(given):
        raise ValueError(f"{_EXPECTED}; got {type(given).__name__} {given!r}")
    nested = [_is_list(part) for part in given]
    if any(nested) and not all(nested):
        raise ValueError(_EXPECTED)
    for part in given if nested[0] else [given]:
        _refuse_nested(part)


def declared(given: Any, names: Sequence[str] | None, d: int) -> list[NDArray[Any]]:
    """The categories of each of ``d`` columns, which may be given by their names.

    Examples
    --------
    >>> declared({"smoker": [0, 1], "sex": ["f", "m"]}, ["sex", "smoker"], 2)
    [array(['f', 'm'], dtype=object), array([0, 1])]
    """
    check_categories(given)
    parts = given if _is_list(next(iter(given))) else [given] * d
    if isinstance(given, Mapping):
        parts = list(for_columns("categories", given, names, "a list of lists").values())
    return _one_each([_values(part) for part in parts], d)


_EXPECTED = (
    "categories must be a list of lists, one list for all columns, or lists by column name, "
    "{'sex': ['f', 'm'], ...}"
)


def _is_list(part: Any) -> bool:
    """Whether it is values in an order: lists, tuples, arrays, the columns of frames."""
    return isinstance(part, list | tuple) or (hasattr(part, "dtype") and np.ndim(part) > 0)


def _values(part: Any) -> list[Any]:
    return list(part.tolist()) if isinstance(part, np.ndarray) else list(part)


def _refuse_nested(part: Any) -> None:
    """A category is one value: text or a number, never a set, a mapping or a list."""
    for value in part:
        if isinstance(value, Iterable) and not isinstance(value, str | bytes):
            raise ValueError(f"{_EXPECTED}; {value!r} is no single category")


def category_type(categories: NDArray[Any], declared: Any = None) -> str:
    """The type of a column: as declared if its categories are of that type, else theirs.

    Examples
    --------
    >>> import polars as pl
    >>> category_type(np.array(["no", "yes"], dtype=object), pl.String)
    'string'
    >>> category_type(np.array([0, 1]), pl.Int8), category_type(np.array([0, 1]), pl.String)
    ('int8', 'int64')
    """
    if categories.dtype.kind not in "biuf":
        return "string"
    name, said = type_name(declared), str(getattr(declared, "name", declared)).lower()
    with np.errstate(all="ignore"):
        same = (categories.astype(name) == categories).all()
    of_numbers = said.startswith(("int", "uint", "float", "bool"))
    return name if of_numbers and same else type_name(categories.dtype)


def category_column(categories: NDArray[Any], codes: NDArray[np.int64], kind: str) -> Any:
    """Categories by their codes, as a column of that type."""
    drawn = categories[codes]
    if categories.dtype.kind in "biuf":
        # Types saved before there was "string" may be wrong about text, never about numbers.
        return drawn if kind == "string" else drawn.astype(kind)
    mixed = any(not isinstance(value, str) for value in categories.tolist())
    return [str(value) for value in drawn] if mixed else list(drawn)


def checked_values(column: NDArray[Any], name: str, strict: bool) -> NDArray[Any]:
    """A column's values; raises for missing ones and for what cannot be a category.

    ``strict``: for infinity too. (A private fit says nothing about values but that some are NaN.)
    """
    column = np.asarray(column)
    if column.dtype.kind in "fc" and np.isnan(column).any():
        raise ValueError("Input X contains NaN: remove or impute missing values first")
    if strict and column.dtype.kind == "f" and np.isinf(column).any():
        raise ValueError("Input X contains infinity, which is no category; remove such rows")
    if column.dtype.kind == "c":
        raise ValueError("Complex data not supported: categories are strings, numbers or booleans")
    if column.dtype.kind == "O":
        for value in column:
            if value is None or value != value:
                raise ValueError("Input X contains NaN: remove or impute missing values first")
            if not isinstance(value, str | bytes | int | float | np.generic):
                raise TypeError(
                    f"column {name!r}: argument must be a string or a number, not a {type(value)}"
                )
    return column


def meaning(value: Any) -> Any:
    """What a value is compared by: the number it is or spells, else its text.

    Whether a file or a list came as numbers or, for the sake of one odd entry, as words must not
    matter to all the other records: that entry's owner could be seen in it.
    """
    text = value.decode("latin-1") if isinstance(value, bytes) else value
    if isinstance(text, str) and text.lower() in ("true", "false"):
        return float(text.lower() == "true")
    try:
        return float(text)
    except (TypeError, ValueError, OverflowError):
        return str(text)


def distinct(values: NDArray[Any]) -> list[Any]:
    """The values that occur, sorted; of those that mean the same, one."""
    found = set(values.tolist()) if values.dtype.kind == "O" else np.unique(values).tolist()
    ordered = sorted(found, key=lambda value: (isinstance(value, str), value))
    return list({meaning(value): value for value in reversed(ordered)}.values())[::-1]


def _one_each(found: list[list[Any]], d: int) -> list[NDArray[Any]]:
    """Categories as arrays, of numbers if all of a column's are; checked."""
    if len(found) != d:
        raise ValueError(f"categories has {len(found)} lists, but there are {d} columns")
    for j, part in enumerate(found):
        if not part or len({meaning(value) for value in part}) < len(part):
            raise ValueError(f"categories of column {j} must be at least one, each of them once")
    words = [any(isinstance(value, str) for value in part) for part in found]
    arrays = [np.asarray(part) for part in found]
    return [
        np.asarray(part, dtype=object) if text or array.dtype.kind not in "biuf" else array
        for part, text, array in zip(found, words, arrays, strict=True)
    ]


def codes_of(values: NDArray[Any], known: NDArray[Any]) -> NDArray[np.int64]:
    """The position of each value among the known ones, by :func:`meaning`; -1 for none."""
    table = {meaning(value): code for code, value in enumerate(known.tolist())}
    if values.dtype.kind not in "biuf":
        seen = {value: table.get(meaning(value), -1) for value in set(values.tolist())}
        return np.array([seen[value] for value in values.tolist()], dtype=np.int64)
    numbers = np.array(sorted(key for key in table if isinstance(key, float)))
    if not len(numbers):
        return np.full(len(values), -1)
    codes = np.array([table[number] for number in numbers.tolist()])
    at = np.minimum(np.searchsorted(numbers, values.astype(np.float64)), len(numbers) - 1)
    return np.where(numbers[at] == values.astype(np.float64), codes[at], -1)


def coded(
    columns: Sequence[NDArray[Any]],
    names: Sequence[str] | None,
    called: Sequence[str],
    given: Any,
    strict: bool,
) -> tuple[NDArray[np.int32], list[NDArray[Any]]]:
    """Codes of columns of values, and each column's categories: those given, or found in it.

    ``strict``: values outside the categories are an error, which calls columns by ``called``.
    """
    d = len(columns)
    values = [checked_values(v, name, strict) for v, name in zip(columns, called, strict=True)]
    found = given is None
    known = _one_each([distinct(v) for v in values], d) if found else declared(given, names, d)
    codes = np.empty((len(values[0]), d), dtype=np.int32)
    for j, (column, allowed) in enumerate(zip(values, known, strict=True)):
        codes[:, j] = codes_of(column, allowed)
        if strict and (codes[:, j] < 0).any():
            odd = column[np.argmax(codes[:, j] < 0)]
            raise ValueError(
                f"column {called[j]!r} holds {odd!r}, which is not among its categories:"
                " declare it in categories=, or remove such rows"
            )
    return codes, known


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
    without: str | Sequence[str] | None = None,
    weight: Any = None,
    groups: Any = None,
    private: bool = False,
    header: bool | None = None,
    categories: Any = None,
) -> tuple[Any, Any, Any]:
    """Columns of a file, the weights of its rows and the persons they belong to.

    Parameters
    ----------
    path : Path
        A ``.csv``, ``.parquet`` or ``.npy`` file.
    columns : sequence of str, optional
        Which columns; all but the others named here by default.
    without : str, sequence of str or None
        Columns to leave out.
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
        if columns is not None or without or isinstance(groups, str) or isinstance(weight, str):
            raise ValueError(f"{label}: a .npy file has no column names")
        return rows.X, weight, groups
    left_out = named_columns(without)
    aside = [*left_out, *(name for name in (weight, groups) if isinstance(name, str))]
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
        groups = identifiers(ids.replace(NULLS, None) if text else ids)
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


def category_rows(path: Path, categories: Any, **more: Any) -> ArrayRows:
    """A .csv or .parquet file for a party that declares categories; the rest as above."""
    # A missing value counts like one that is not declared.
    table, weight, groups = read_categories(path, private=True, categories=categories, **more)
    if not isinstance(table, pl.DataFrame):
        raise ValueError(f"{str(path)!r}: categories are read from a .csv or .parquet file")
    return ArrayRows(table.to_numpy().astype(object), weight, table.columns, groups=groups)


def _read(
    path: Path, header: bool | None, declared: Collection[str]
) -> tuple[pl.DataFrame, Header]:
    label = repr(str(path))
    files = found_files(path, label, header)
    if files != [path] or path.suffix == ".npy":
        raise ValueError(f"{label}: categories are read from a .csv or .parquet file")
    if path.suffix == ".parquet":
        with reading(label, "is not a readable table"):
            frame = pl.read_parquet(path, glob=False)
        return frame, Header(frame.columns, None)
    # Everything in a CSV file is text: a guess at types would depend on single records.
    with reading(label, "is not a readable table"):
        scan, found = scan_csv(files, label, header, declared, infer_schema=False)
    with reading(label, "is not a readable table", found):
        return scan.collect(), found


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
