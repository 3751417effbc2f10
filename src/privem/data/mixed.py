"""Mixed tables: whatever has columns, opened as rows of fine cells by a schema.

Frames of pandas and polars, lazy frames and files become a polars lazy frame first, and go through
the same expressions (:mod:`privem.data.cells`). Cells of a frame are held in memory, one whole
number each; those of files and lazy frames are computed batch by batch, in every pass.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from .cells import cell, odd
from .columns import Category, Column
from .files import found_files, scan_csv
from .header import Header
from .lazy import ScanRows, reading
from .persons import as_labels, column_labels
from .raw import Texts, is_open, raw
from .sums import ArrayRows
from .table import Declared, Policy
from .values import as_weights, is_frame, is_lazy, is_table, refuse_kind
from .wording import allows, undeclared_gap


@dataclass(frozen=True)
class Opened:
    """A table with columns, before any of its values is read."""

    scan: pl.LazyFrame
    label: str
    """What messages call it."""
    header: Header
    held: bool
    """Whether it is in memory already."""
    typed: bool = True
    """Whether it declares types; otherwise all is text."""

    @property
    def types(self) -> dict[str, Any]:
        """The polars type of each column, as declared; everything in a CSV file is text."""
        with reading(self.label, "is not a readable table", self.header):
            return dict(self.scan.collect_schema())


def open_columns(
    X: Any, header: bool | None = None, wanted: Collection[str] | None = None
) -> Opened:
    """A frame, a lazy frame or a path as a lazy frame.

    Parameters
    ----------
    X : frame, lazy frame or path
    header : bool, optional
        Whether the first line of a CSV file is one; see :func:`privem.data.read_file`.
    wanted : collection of str, optional
        Names that the caller gave. Of a pandas frame, only those columns are converted.
    """
    if isinstance(X, str) or (is_table(X) and not is_lazy(X)):
        return _open_path(Path(X), header, wanted or ())
    if header is not None:
        raise TypeError("header= is for files: these rows were read before")
    if is_lazy(X):
        return _collected(X, wanted)
    if not is_frame(X):
        refuse_kind(X)
        raise TypeError(
            f"X is of type {type(X).__name__}; a schema is about columns with names: pass a pandas "
            "or polars frame, a lazy frame, or the path of a .parquet or .csv file"
        )
    names = [str(name) for name in X.columns]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"a column is named twice in the frame: {', '.join(twice)}")
    frame = X if isinstance(X, pl.DataFrame) else None
    columns = [
        _from_pandas(X.iloc[:, j], name) if frame is None else _plain(frame[name])
        for j, name in enumerate(names)
        if wanted is None or name in wanted
    ]
    return Opened(pl.DataFrame(columns).lazy(), "the frame", Header(names, None), True)


def _collected(X: pl.LazyFrame, wanted: Collection[str] | None) -> Opened:
    """A lazy frame, run once: its rows may be in another order whenever it is run."""
    with reading("the frame", "is not a readable table"):
        names = list(X.collect_schema())
        frame = X.select([n for n in names if wanted is None or n in wanted]).collect()
    columns = [_plain(series) for series in frame]
    return Opened(pl.DataFrame(columns).lazy(), "the frame", Header(names, None), True)


def _open_path(path: Path, header: bool | None, wanted: Collection[str]) -> Opened:
    label = repr(str(path))
    files = found_files(path, label, header)
    if files[0].suffix == ".npy":
        raise ValueError(f"{label}: a .npy file has no column names; use .csv or .parquet")
    if files[0].suffix == ".parquet":
        scan = pl.scan_parquet(files, glob=False)
        with reading(label, "is not a readable table"):
            return Opened(scan, label, Header(list(scan.collect_schema()), None), False)
    with reading(label, "is not a readable table"):
        scan, found = scan_csv(files, label, header, wanted, infer_schema=False)
    scan = scan.with_columns(pl.all().fill_null(""))  # nothing may be a category
    return Opened(scan, label, found, False, typed=False)


def open_cells(
    X: Any, y: Any, weight: Any, groups: Any, policy: Policy, schema: Declared
) -> tuple[Any, Declared, Texts | None]:
    """Rows of fine cells by a schema, and the schema as it is for this table.

    In a private fit, columns whose bounds or categories are to be found hold other numbers than
    cells; and, where there are such categories, the values come too.

    Columns that the schema does not name are refused in a fit, unless they say whose rows they are
    (``groups``) or how much these count (``weight``), or ``y`` names them, to be left out.
    """
    aside = [name for name in (weight, groups, y) if isinstance(name, str)]
    opened = open_columns(X, policy.header, [*schema.names, *schema.skipped, *aside])
    _refuse_columns(opened, schema, aside, policy.fitted)
    schema = schema.for_types(opened.types)
    columns = schema.columns
    _refuse_open(columns, policy)
    cells = [raw(column) if is_open(column) else cell(column) for column in columns]
    unlisted = [
        column.name for column in columns if isinstance(column, Category) and is_open(column)
    ]
    texts = Texts(opened.scan.select(unlisted), opened.label, opened.header) if unlisted else None
    if policy.exact:
        _refuse_odd(opened, columns)
    kinds = [str(column.dtype) for column in columns]
    extra = [_as_weight(weight)] if isinstance(weight, str) else []
    if not opened.held:
        if groups is not None and not isinstance(groups, str):
            raise TypeError("the groups of a file are one of its columns: give its name (a string)")
        if not (weight is None or extra) and np.ndim(weight) != 1:
            raise ValueError("sample_weight must be one number per row")
        streamed = ScanRows(
            opened.scan.select(*cells, *extra, *([] if groups is None else [groups])),
            schema.names,
            weight if weight is None or extra else np.asarray(weight, np.float64),
            opened.label,
            types=kinds,
            groups=groups,
            header=opened.header,
            cells=True,
        )
        return streamed, schema, texts
    frame = opened.scan.select(*cells).collect()
    if policy.private and any(column.null_count() for column in frame):
        raise ValueError(undeclared_gap(columns))
    if extra:
        weight = opened.scan.select(*extra).collect().to_series().to_numpy()
    if isinstance(groups, str):
        # As the frame holds them: as text, 1 and 1.0 would be two persons.
        given = X[groups] if is_frame(X) else opened.scan.select(groups).collect().to_series()
        groups = as_labels(column_labels(given), frame.height)
    elif groups is not None:
        groups = as_labels(groups, frame.height)
    if not frame.height and not policy.party:
        raise ValueError("Found array with 0 sample(s): the frame has no rows")
    weight = as_weights(weight, frame.height, policy.finite)
    matrix = np.ascontiguousarray(frame.fill_null(0).to_numpy())
    rows = ArrayRows(matrix, weight, schema.names, groups=groups, declared=kinds)
    return rows, schema, texts


def _refuse_columns(opened: Opened, schema: Declared, aside: Sequence[str], fitted: bool) -> None:
    """Raise for columns that are missing, twice used or, in a fit, in no schema."""
    found = opened.header
    for name in (*schema.names, *aside):
        if name not in found.names:
            raise found.has_none(opened.label, name)
    for name in aside:
        if name in schema.names or aside.count(name) > 1:
            raise ValueError(
                f"{name!r} is named as groups, weight or y, and has another use too: leave it out "
                "of the schema"
            )
    known = {*schema.names, *schema.skipped, *aside}
    others = [name for name in found.names if name not in known]
    if others and not fitted:
        said = [found.say(name).removeprefix("column ") for name in others]
        more = f" and {len(said) - 5} more" * (len(said) > 5)
        raise ValueError(
            f"{opened.label} has columns that are not in the schema: {', '.join(said[:5])}{more}; "
            "add them, as None if they are to be left out ('skip' in files)"
        )


def _refuse_open(columns: Sequence[Column], policy: Policy) -> None:
    """Raise for bounds and categories that would have to be found where nobody may find them."""
    names = [repr(column.name) for column in columns if is_open(column)]
    if names and not policy.finds:
        raise ValueError(
            f"the schema leaves open what the bounds or categories of {', '.join(names)} are; only "
            "a private fit with central trust finds them: give them, from public knowledge"
        )


def _refuse_odd(opened: Opened, columns: Sequence[Column]) -> None:
    """Exact fits: raise for a value that cannot be read and for an undeclared gap; name it."""
    problem = _odd(opened, columns)
    if problem:
        raise ValueError(problem)


def undeclared(X: Any, header: bool | None, schema: Declared) -> bool:
    """Whether a table holds what its schema does not allow: what an exact fit would refuse."""
    return bool(_odd(open_columns(X, header, schema.names), schema.columns))


def _odd(opened: Opened, columns: Sequence[Column]) -> str:
    """What an exact fit refuses, in words; empty if there is nothing."""
    asked = []
    for j, column in enumerate(columns):
        first, gap = odd(column)
        asked += [first.alias(f"odd{j}"), gap.alias(f"gap{j}")]
    with reading(opened.label, header=opened.header):
        found = opened.scan.select(*asked).collect(engine="streaming").row(0, named=True)
    for j, column in enumerate(columns):
        if found[f"odd{j}"] is not None:
            return (
                f"column {column.name!r} holds {found[f'odd{j}']!r}, which its schema does not "
                f"allow ({allows(column)}): declare it, or remove such rows"
            )
        if found[f"gap{j}"] and not column.missing:
            return (
                f"Input X contains NaN (a missing value) in column {column.name!r}, which may have "
                "none by its schema: name it in missing=[...], or remove such rows"
            )
    return ""


def _as_weight(name: str) -> pl.Expr:
    """A column of weights as numbers; null where one is none."""
    return pl.col(name).cast(pl.String).str.strip_chars().cast(pl.Float64, strict=False)


def _plain(series: pl.Series) -> pl.Series:
    """A column of a polars frame; Python objects as text."""
    if series.dtype != pl.Object:
        return series
    return pl.Series(series.name, [as_text(value) for value in series], dtype=pl.String)


def unpacked(X: Any, weight: Any, groups: Any) -> tuple[Any, Any, Any]:
    """Rows of an array as the array, with their weights and groups where no others are given."""
    if not isinstance(X, ArrayRows):
        return X, weight, groups
    return X.X, X.weight if weight is None else weight, X.groups if groups is None else groups


def as_frame(X: Any) -> pl.DataFrame:
    """An array of numbers, text or objects as a frame, its columns called x0, x1, ..."""
    return pl.DataFrame([_from_array(column, f"x{j}") for j, column in enumerate(X.T)])


def _from_array(column: Any, name: str) -> pl.Series:
    if column.dtype.kind not in "biuf":
        return pl.Series(name, [as_text(value) for value in column.tolist()], dtype=pl.String)
    if column.dtype.kind == "f" and column.dtype.itemsize not in (4, 8):
        with np.errstate(all="ignore"):
            column = column.astype(np.float64)
    return pl.Series(name, np.ascontiguousarray(column))


def _from_pandas(series: Any, name: str) -> pl.Series:
    """A column of a pandas frame, by its type alone: no type is guessed from values."""
    dtype = series.dtype
    if hasattr(dtype, "categories"):
        if not hasattr(series, "cat"):  # intervals
            return _as_texts(series, name)
        kept = _from_pandas(series.cat.categories.to_series(), name)
        codes = series.cat.codes.to_numpy()
        values = kept.gather(pl.Series(codes).replace(-1, None))
        return values.cast(pl.Categorical) if values.dtype == pl.String else values
    if dtype.kind in "M":
        zone = _zone(dtype)
        times = (series if zone is None else series.dt.tz_convert(None)).to_numpy()
        if np.datetime_data(times.dtype)[0] == "s":  # which polars does not have
            gaps, seconds = np.isnat(times), times.view(np.int64)
            times = (np.clip(seconds, -(2**50), 2**50) * 1000).view("datetime64[ms]")
            times[gaps] = np.datetime64("NaT")
        made = pl.Series(name, times)
        return made if zone is None else made.dt.replace_time_zone("UTC").dt.convert_time_zone(zone)
    if dtype.kind in "biuf":
        gaps = series.isna().to_numpy()
        own = dtype.numpy_dtype if hasattr(dtype, "numpy_dtype") else dtype
        fill: Any = {"b": False, "f": np.nan}.get(dtype.kind, 0)
        numbers = series.to_numpy(dtype=own, na_value=fill) if gaps.any() else series.to_numpy(own)
        if numbers.dtype.kind == "f" and numbers.dtype.itemsize not in (4, 8):
            with np.errstate(all="ignore"):
                numbers = numbers.astype(np.float32 if numbers.dtype.itemsize < 4 else np.float64)
        made = pl.Series(name, np.ascontiguousarray(numbers))
        if dtype.kind == "f" or not gaps.any():
            return made
        return pl.select(
            pl.when(pl.Series(gaps)).then(None).otherwise(made).alias(name)
        ).to_series()
    if dtype.kind in "OUST":
        return _as_texts(series, name)
    # Durations, periods, complex numbers: no schema can declare them.
    return pl.Series(name, series.to_numpy(dtype=object), dtype=pl.Object)


def _zone(dtype: Any) -> str | None:
    zone = getattr(dtype, "tz", None)
    return None if zone is None else str(zone)


def _as_texts(series: Any, name: str) -> pl.Series:
    values = series.to_numpy(dtype=object)
    return pl.Series(name, [as_text(value) for value in values], dtype=pl.String)


def as_text(value: Any) -> str | None:
    """A Python object as the text that a CSV file would hold; ``None`` if it stands for a gap.

    Examples
    --------
    >>> as_text(1.5), as_text(b"f"), as_text(float("nan")), as_text(date(2025, 1, 31))
    ('1.5', 'f', None, '2025-01-31')
    """
    try:
        if isinstance(value, str):
            # Halves of characters stand for no text that a file could hold.
            return str(value) if value.isascii() else value.encode(errors="replace").decode()
        if value is None or str(value) in ("<NA>", "NaT") or bool(value != value):
            return None
        if isinstance(value, bytes):
            return value.decode("latin-1")
        return value.isoformat() if isinstance(value, date) else str(value)
    except Exception:  # Whatever an object does, it is one record's: it cannot be read.
        return "\N{REPLACEMENT CHARACTER}"
