"""Whose rows: the column that names persons, and one row of each of them, of files and frames."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ..core import Block, Rows

__all__ = ["PickedRows", "identifiers", "split_frame"]

# What NumPy can hold as it is.
_WHOLE = (pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.UInt8, pl.UInt16, pl.UInt32, pl.UInt64)

_NOBODY = ["", "na", "n/a", "nan", "null", "none"]


def identifiers(column: pl.Series) -> NDArray[Any]:
    """Who each row belongs to, one identifier per row, told apart without any rounding.

    Two persons taken for one would each be hidden less than promised, so nothing here may lose a
    digit: whole numbers stay whole, and text (all of a CSV file is text) is compared as written.
    Missing ones stay missing, for the caller to refuse; so do words that say so (``null``), or
    nobody would become one person.

    Examples
    --------
    >>> identifiers(pl.Series(["ann", "bob", "ann"])).tolist()
    [0, 1, 0]
    """
    kind = column.dtype
    if kind.is_nested() or kind == pl.Object:
        raise ValueError(f"groups: column {column.name!r} holds {kind}, not identifiers")
    if kind.is_temporal():
        column = column.to_physical()
        kind = column.dtype
    if column.null_count() or (kind == pl.String and _says_nobody(column)):
        return np.array([None] * len(column), dtype=object)
    if kind.is_float() or kind in _WHOLE:
        return column.to_numpy()
    if kind == pl.Binary:
        column = column.bin.encode("hex")
    return column.cast(pl.String).rank("dense").to_numpy().astype(np.int64) - 1


def _says_nobody(column: pl.Series) -> bool:
    return bool(column.str.strip_chars().str.to_lowercase().is_in(_NOBODY).any())


def split_frame(frame: Any, name: str) -> tuple[Any, NDArray[Any]]:
    """A frame without the column that names persons, and that column's values."""
    if name not in list(frame.columns):
        names = ", ".join(str(column) for column in frame.columns)
        raise ValueError(f"groups names a column {name!r}, and X has none; it has {names}")
    if type(frame).__module__.startswith("polars"):
        return frame.drop(name), identifiers(frame[name])
    return frame.drop(columns=[name]), frame[name].to_numpy()


@dataclass(frozen=True)
class PickedRows:
    """Some of the rows of a stream, unweighted; one mark per row is held, the rows are not.

    Rows beyond the last mark are not picked.

    Examples
    --------
    >>> from privem.data import ArrayRows
    >>> rows = PickedRows(ArrayRows(np.arange(4.0)[:, None]), np.array([True, False, False, True]))
    >>> next(rows.blocks(4)).X.ravel().tolist()
    [0.0, 3.0]
    """

    rows: Rows
    picked: NDArray[np.bool_]

    @property
    def names(self) -> Sequence[str] | None:
        """Column names, if they have any."""
        return self.rows.names

    @property
    def n_features(self) -> int:
        """How many columns."""
        return self.rows.n_features

    def blocks(self, rows: int) -> Iterator[Block]:
        """The picked rows in order, at most ``rows`` at a time."""
        seen = start = 0
        for block in self.rows.blocks(rows):
            picked = self.picked[seen : seen + len(block.X)]
            X = block.X[: len(picked)][picked]
            seen += len(block.X)
            yield Block(X, None, start)
            start += len(X)
