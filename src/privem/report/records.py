"""Tables of records, written batch by batch."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import polars as pl
from numpy.typing import NDArray
from polars.io.plugins import register_io_source

from ..files import write_whole

Batch = NDArray[np.float64] | pl.DataFrame
RECORD_SUFFIXES = (".csv", ".parquet", ".npy")


def write_records(
    path: str | os.PathLike[str], names: Sequence[str], rows: int, batches: Iterable[Batch]
) -> None:
    """Write records to a ``.csv``, ``.parquet`` or ``.npy`` file, whole or not at all.

    Parameters
    ----------
    path : path-like
        The destination; its suffix says the format.
    names : sequence of str
        Column names; a ``.npy`` file does not keep them.
    rows : int
        How many rows there are in all.
    batches : iterable of ndarray of shape (some, len(names)), or of polars.DataFrame
        The rows. Only one batch at a time is held in memory. Frames, all of one schema, keep
        their types; a ``.npy`` file has the one type that holds them all.

    Raises
    ------
    OSError
        And then there is no new file, and an old one is as it was.

    Examples
    --------
    >>> import tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "people.csv")
    >>> write_records(path, ["age", "height"], 2, [np.array([[31, 1.7], [47, 1.8]])])
    >>> print(Path(path).read_text(), end="")
    age,height
    31.0,1.7
    47.0,1.8
    """
    suffix = Path(path).suffix
    if suffix not in RECORD_SUFFIXES:
        raise ValueError(f"{os.fspath(path)!r} must end in one of {', '.join(RECORD_SUFFIXES)}")
    with write_whole(path) as temporary:
        if suffix == ".parquet":
            _write_parquet(temporary, names, batches)
            return
        with temporary.open("wb") as file:
            if suffix == ".csv":
                print_csv(file, names, batches)
            else:
                _write_npy(file, len(names), rows, batches)


def print_csv(file: BinaryIO, names: Sequence[str], batches: Iterable[Batch]) -> None:
    """Write records as CSV in UTF-8, a header first.

    Examples
    --------
    >>> import io
    >>> file = io.BytesIO()
    >>> print_csv(file, ["age", "bmi"], [np.array([[40.0, 22.5]]), np.array([[51.0, 27.0]])])
    >>> print(file.getvalue().decode(), end="")
    age,bmi
    40.0,22.5
    51.0,27.0
    """
    header = True
    for batch in batches:
        # By way of a string: polars turns a full disk or a closed pipe into errors of its own.
        file.write(_frame(names, batch).write_csv(include_header=header).encode())
        header = False


def _write_npy(file: BinaryIO, columns: int, rows: int, batches: Iterable[Batch]) -> None:
    first, batches = _peek(batches)
    kinds = [np.float64] if first is None else [column.dtype for column in _arrays(first)]
    kind = np.result_type(*kinds).newbyteorder("<")
    descr = np.lib.format.dtype_to_descr(kind)
    layout = {"descr": descr, "fortran_order": False, "shape": (rows, columns)}
    np.lib.format.write_array_header_1_0(file, layout)
    for batch in batches:
        file.write(np.column_stack([column.astype(kind) for column in _arrays(batch)]).tobytes())


def _write_parquet(temporary: Path, names: Sequence[str], batches: Iterable[Batch]) -> None:
    first, batches = _peek(batches)

    def frames(*pushed_down: object) -> Iterator[pl.DataFrame]:
        for batch in batches:
            yield _frame(names, batch)

    schema = first.schema if isinstance(first, pl.DataFrame) else dict.fromkeys(names, pl.Float64())
    try:
        register_io_source(frames, schema=schema).sink_parquet(temporary)
    except pl.exceptions.PolarsError as error:
        # polars has words of its own: "... IO error: No space left on device (os error 28)".
        line = str(error).strip().splitlines()[0]
        inner = re.search(r"([^:]+) \(os error (\d+)\)$", line)
        if inner is None:
            raise OSError(errno.EIO, line) from error
        raise OSError(int(inner[2]), inner[1].strip()) from error


def _peek(batches: Iterable[Batch]) -> tuple[Batch | None, Iterable[Batch]]:
    """The first batch, if any, and all of them."""
    rest = iter(batches)
    first = next(rest, None)
    return first, rest if first is None else chain([first], rest)


def _arrays(batch: Batch) -> list[NDArray[Any]]:
    if isinstance(batch, pl.DataFrame):
        return [column.to_numpy() for column in batch]
    return list(batch.T)


def _frame(names: Sequence[str], batch: Batch) -> pl.DataFrame:
    if isinstance(batch, pl.DataFrame):
        return batch
    return pl.DataFrame(batch, schema=list(names), orient="row")
