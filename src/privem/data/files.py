"""Rows of files: ``.npy`` (memory-mapped), ``.csv`` and ``.parquet`` (streamed), or folders."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ..core import Rows
from .header import Header, read_header, refuse_header
from .lazy import ScanRows, reading
from .sums import ArrayRows
from .values import chosen_types, type_name

# What a CSV file may say where there is no value.
NULLS = ["", "NA", "NaN", "nan"]


def is_npy(X: Any) -> bool:
    """Whether ``X`` names an array in NumPy's format, whose columns have no names."""
    return isinstance(X, str | os.PathLike) and Path(X).suffix == ".npy"


def group_column(X: Any, groups: Any) -> str | None:
    """The column of a file that ``groups`` names; a ``.npy`` file takes the values."""
    if groups is None or isinstance(groups, str):
        return groups
    if is_npy(X):
        return None
    raise TypeError("the groups of a file are one of its columns: give its name (a string)")


def read_file(
    path: str | Path | pl.LazyFrame,
    columns: Sequence[str] | None = None,
    weight: str | NDArray[np.float64] | None = None,
    without: str | Sequence[str] | None = None,
    types: Mapping[str, str] | None = None,
    groups: str | None = None,
    target: str | None = None,
    header: bool | None = None,
) -> Rows:
    """Open a file of rows without reading it whole.

    Parameters
    ----------
    path : str, Path or polars.LazyFrame
        A ``.npy``, ``.csv`` or ``.parquet`` file, or a folder of ``.parquet`` (or ``.csv``) files
        with the same columns, taken in the order of their names. Or a polars ``LazyFrame``, of
        which the columns that are used are collected, once.
    columns : sequence of str, optional
        Which columns, in which order. All but the weight, the groups and the target by default.
    weight : str or array, optional
        A column that holds each record's weight, or the weights themselves.
    without : str or sequence of str, optional
        Columns to leave out, of whatever type: a label, say.
    types : mapping of str to str, optional
        What synthetic records (``sample_frame``) should give back for some columns: ``"bool"``,
        ``"int64"``, ``"uint8"``, ``"float32"`` and so on. Parquet and ``.npy`` files declare types
        themselves; a CSV file does not, and what is not said here is ``"float64"``.
    groups : str, optional
        A column that says whom each record belongs to: a private fit then hides the person. It is
        read whole at the beginning (in a CSV file as text, exactly as written), and three numbers
        per row are kept while fitting.
    target : str, optional
        A column that a regression is to explain; it comes last.
    header : bool, optional
        Whether the first line of a CSV file is a header. ``False``: it is data, and columns are
        called ``x0``, ``x1``, ... By default a first line that could be data is refused, because
        column names are published with the model.

    Returns
    -------
    Rows
        Ready to be passed to any estimator's ``fit``.

    Examples
    --------
    >>> import polars as pl, tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "people.csv")
    >>> pl.DataFrame({"age": [31, 47], "height": [1.7, 1.8]}).write_csv(path)
    >>> read_file(path, columns=["height"]).n_features
    1
    >>> read_file(path, types={"age": "int64"}).types
    ['int64', 'float64']
    """
    choice = _Choice(columns, weight, without, types, groups, target)
    if isinstance(path, pl.LazyFrame):
        if header is not None:
            raise TypeError("header= is for CSV files; a LazyFrame has its names already")
        return _choose(path, "the frame", None, choice).held()
    label = repr(str(path))
    files = found_files(Path(path), label, header)
    if files[0].suffix == ".npy":
        return _read_npy(files[0], label, choice)
    if files[0].suffix == ".parquet":
        return _choose(pl.scan_parquet(files, glob=False), label, None, choice)
    with reading(label, "is not a readable table"):
        scan, found = _scan_numbers(files, label, header, choice)
    return _choose(scan, label, found, choice)


def named_columns(names: str | Sequence[str] | None) -> list[str]:
    """The names of one column, of several or of none."""
    return [names] if isinstance(names, str) else list(names or ())


@dataclass(frozen=True)
class _Choice:
    """What to take from a table; fields as the arguments of :func:`read_file`."""

    columns: Sequence[str] | None
    weight: Any
    without: str | Sequence[str] | None
    types: Mapping[str, str] | None
    groups: str | None
    target: str | None

    @property
    def aside(self) -> list[str]:
        """Columns that are named for another purpose than to be fitted."""
        named = (self.weight, *named_columns(self.without), self.groups, self.target)
        return [name for name in named if isinstance(name, str)]

    @property
    def weights(self) -> str | NDArray[np.float64] | None:
        """The weights, or their column; if there are as many as rows, only the file knows."""
        if self.weight is None or isinstance(self.weight, str):
            return self.weight
        given = np.asarray(self.weight, dtype=np.float64)
        if given.ndim != 1:
            raise ValueError(f"sample_weight has shape {given.shape}, expected one number per row")
        return given


def found_files(path: Path, label: str, header: bool | None) -> list[Path]:
    """The files at a path, which may be a folder; raises if nothing there can be read."""
    if not path.exists():
        raise FileNotFoundError(f"no file or folder at {label}")
    files = [path]
    if path.is_dir():
        tables = [sorted(path.glob(f"*{suffix}")) for suffix in (".parquet", ".csv")]
        if all(tables):
            raise ValueError(f"the folder {label} holds both .parquet and .csv files")
        if not any(tables):
            raise ValueError(f"the folder {label} holds no .parquet or .csv files")
        files = tables[0] or tables[1]
    elif path.suffix not in (".npy", ".csv", ".parquet"):
        raise ValueError(
            f"{label}: expected a file that ends in .npy, .csv or .parquet, or a folder"
        )
    elif path.stat().st_size == 0:
        raise ValueError(f"{label} is empty")
    if header is not None and files[0].suffix != ".csv":
        raise ValueError(f"{label}: header= (--header, --no-header) is for CSV files")
    return files


def _read_npy(path: Path, label: str, choice: _Choice) -> ArrayRows:
    if choice.without or choice.target is not None:
        raise ValueError(f"{label}: a .npy file has no column names; slice the array")
    if choice.groups is not None:
        raise ValueError(f"{label}: a .npy file has no column to name in groups")
    if choice.types:
        raise ValueError(f"{label}: a .npy file has one type, and no column names")
    if choice.columns is not None or choice.aside:
        raise ValueError(
            f"{label}: a .npy file has no column names to choose from; "
            "use .csv or .parquet, or slice the array"
        )
    try:
        X = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, OSError, EOFError) as error:
        # NumPy takes whatever is not its format for a pickle, and recommends to trust it.
        pickled = "pickle" in str(error) or "Python objects" in str(error)
        why = "not in NumPy's format, or not numbers" if pickled else error
        raise ValueError(f"{label} is not a readable .npy file: {why}") from None
    if X.ndim != 2 or X.dtype.kind not in "fiub":
        raise ValueError(
            f"{label} holds an array of shape {X.shape} and type {X.dtype}; "
            "expected two dimensions of numbers"
        )
    weight: Any = choice.weights
    if weight is not None and len(weight) != len(X):
        raise ValueError(f"sample_weight has shape {weight.shape}, expected ({len(X)},)")
    return ArrayRows(X, weight, check=True)


def scan_csv(
    files: Sequence[Path],
    label: str,
    header: bool | None,
    declared: Collection[str],
    **options: Any,
) -> tuple[pl.LazyFrame, Header]:
    """A lazy frame of CSV files, its columns named by the header or x0, x1, ...; and the header."""
    found = read_header(files, label, header, declared)
    if header is False:
        options |= {"has_header": False, "new_columns": list(found.names)}
    scan = pl.scan_csv(list(files), glob=False, **options)
    if found.public is None:
        names = list(scan.collect_schema())
        if not _as_read(names, found.names):
            raise ValueError(
                f"{label} is not a readable table: where its first line ends is not clear; lines "
                "must end in a line feed, and quotes must be closed"
            )
        return scan, replace(found, names=names)
    with reading(label, "is not a readable table", found):
        same = list(scan.collect_schema()) == list(found.names)
    if not same:
        raise refuse_header(label)
    return scan, found


def _as_read(names: Sequence[str], cells: Sequence[str]) -> bool:
    """Whether polars took these cells, and no more of the file, for names.

    A file whose lines end in carriage returns is one line to polars: all of it would be names.
    """
    return [name.replace('"', "") for name in names] == [cell.replace('"', "") for cell in cells]


def _scan_numbers(
    files: Sequence[Path], label: str, header: bool | None, choice: _Choice
) -> tuple[pl.LazyFrame, Header]:
    asked = [*(choice.columns or ()), *choice.aside, *(choice.types or ())]

    def scan(**options: Any) -> tuple[pl.LazyFrame, Header]:
        return scan_csv(files, label, header, asked, null_values=NULLS, **options)

    # A column of whole numbers may go on with fractions below the rows its type was guessed from.
    kinds, text = scan()[0].collect_schema(), choice.groups
    known: dict[str, Any] = {
        name: pl.Float64 for name, kind in kinds.items() if kind.is_integer() and name != text
    }
    # Identifiers stay as they were written: as numbers, long ones would run into each other.
    return scan(schema_overrides=known | ({text: pl.String} if text in kinds else {}))


def _choose(scan: pl.LazyFrame, label: str, csv: Header | None, choice: _Choice) -> ScanRows:
    """Rows of some columns of a lazy frame; ``csv`` is the header of the file behind it."""
    with reading(label, "is not a readable table"):
        schema = scan.collect_schema()
    found = Header(list(schema), None) if csv is None else csv
    columns, groups, aside = choice.columns, choice.groups, choice.aside
    for name in (*(columns or ()), *aside):
        if name not in schema:
            raise found.has_none(label, name)
    if groups is not None and aside.count(groups) > 1:
        raise ValueError(f"groups names {groups!r}, which is the weight or the target")
    if groups is not None and groups in (columns or ()):
        raise ValueError(f"groups names {groups!r}, which is also a column to fit")
    names = list(columns) if columns is not None else [n for n in schema if n not in aside]
    names += [] if choice.target is None else [choice.target]
    weight = choice.weights
    used = [*names, *([weight] if isinstance(weight, str) else [])]
    text = [n for n in used if not (schema[n].is_numeric() or schema[n] == pl.Boolean)]
    if text and (csv is None or not _has_no_rows(scan, label, found)):
        if columns is None and len(schema) == 1 and ";" in text[0]:
            raise ValueError(f"{label} is separated by ';'; privem reads commas")
        # Of a CSV file polars has tried already.
        bad = text[0] if csv is not None else _no_numbers(scan, label, text, schema)
        if bad is not None:
            raise ValueError(
                f"{found.say(bad)} of {label} holds {schema[bad]}, not numbers; if it says whose "
                "record it is, name it as groups= (--groups on the command line); else choose "
                "columns (--columns), encode it first, take spaces and units off its numbers, or "
                "fit a privem.TableMixture (--model table), which takes columns of any kind"
            )
    scan = scan.with_columns(_to_number(name) for name in text)
    if len(set(names)) < len(names):
        raise ValueError(f"a column is named twice in {', '.join(names)}")
    # A CSV file's schema is polars' guess from the values, which must not become public.
    declared = None if csv is not None else {name: type_name(kind) for name, kind in schema.items()}
    kinds = chosen_types(names, declared, choice.types)
    return ScanRows(
        scan, names, weight, label, types=kinds, groups=groups, target=choice.target, header=found
    )


def _has_no_rows(scan: pl.LazyFrame, label: str, header: Header) -> bool:
    with reading(label, header=header):
        return scan.head(1).collect().is_empty()


def _to_number(name: str) -> pl.Expr:
    """A column of numbers written as text; null where a value is none."""
    return pl.col(name).cast(pl.String).cast(pl.Float64, strict=False)


def _no_numbers(
    scan: pl.LazyFrame, label: str, text: Sequence[str], schema: Mapping[str, Any]
) -> str | None:
    """The first column of text in which a value is no number; reads those columns once."""
    for name in text:
        if schema[name] not in (pl.String, pl.Categorical, pl.Enum):
            return name
    odd = [(_to_number(name).is_null() & pl.col(name).is_not_null()).any() for name in text]
    with reading(label):
        found = scan.select(*odd).collect(engine="streaming").row(0)
    return next((name for name, bad in zip(text, found, strict=True) if bad), None)
