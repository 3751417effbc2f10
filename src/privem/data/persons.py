"""Persons: the owners of rows, and rows in which each person counts once."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ..core import Rows
from ..linalg import Array
from .values import as_array

# What NumPy can hold as it is.
_WHOLE = (pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.UInt8, pl.UInt16, pl.UInt32, pl.UInt64)

_NOBODY = ["", "na", "n/a", "nan", "null", "none"]


@dataclass(frozen=True)
class Owned:
    """Rows by person: what a source needs to hide persons with all their records.

    A person is the average of their rows (docs/proofs/release.md, section 8). Whose rows they are
    is held as one weight, one number and one mark per row, and leaves by no other way than through
    weighted sums: in a file as in an array.
    """

    rows: Any
    """Weighted so that each person counts once."""
    persons: Rows
    """One row of each, drawn at random."""
    owner: NDArray[np.int64]
    """The person each row belongs to."""
    count: int

    @classmethod
    def of(cls, rows: Any, labels: Any, cap: float = 1.0) -> Owned:
        """Rows whose owners are ``labels``; weights of their own count within [0, cap]."""
        if not hasattr(rows, "take"):
            raise TypeError(
                f"groups go with an array, a frame or a file, not {type(rows).__name__}"
            )
        count = getattr(rows, "count", None)
        weight, chosen = per_person(labels, len(labels) if count is None else count)
        own = rows.weights()
        if own is not None:
            if own.shape != weight.shape:
                raise ValueError(f"sample_weight has shape {own.shape}, expected {weight.shape}")
            weight = weight * np.clip(own, 0.0, cap)
        return cls(replace(rows, weight=weight), rows.take(chosen), owners(labels), len(chosen))

    def drawn_by(self, draw: Callable[[int], bytes]) -> Owned:
        """The same with one row of each drawn from these bytes."""
        return replace(self, persons=self.rows.take(one_of_each(self.owner, draw)))


def column_labels(column: Any) -> NDArray[Any]:
    """Who each row belongs to, by a column of a frame."""
    return identifiers(column) if isinstance(column, pl.Series) else column.to_numpy()


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


def as_labels(groups: Any, rows: int) -> NDArray[Any]:
    """Who each row belongs to, one identifier per row, as they were given."""
    labels = as_array(groups)
    if labels.shape != (rows,):
        if isinstance(groups, str):
            raise TypeError("groups names a column, which arrays do not have; pass the values")
        raise ValueError(f"groups has shape {labels.shape}, expected ({rows},)")
    return labels.astype(object) if labels.dtype.kind == "T" else labels


def owners(groups: Any) -> NDArray[np.int64]:
    """The person each row belongs to, numbered from zero."""
    return np.unique(as_labels(groups, len(groups)), return_inverse=True)[1].astype(np.int64)


def _missing(labels: NDArray[Any]) -> bool:
    """Whether there is a label that stands for none: NaN, NaT, None, pandas.NA."""
    if labels.dtype.kind == "O":
        return any(label is None or str(label) == "<NA>" or label != label for label in labels)
    return labels.dtype.kind in "fcmM" and bool(np.any(labels != labels))


def per_person(groups: Any, rows: int) -> tuple[Array, NDArray[np.int64]]:
    """Weights that let each person count once, and one row of each person, drawn at random.

    A person with m rows weighs 1/m per row: what they contribute is an average of contributions,
    which moves a sum no more than one record does, whether they join, leave or are replaced.
    """
    labels = as_labels(groups, rows)
    if _missing(labels):
        raise ValueError(
            "groups contains missing values: whose rows those are is unknown, and nobody would be "
            "hidden; drop them or give each such row an owner of its own"
        )
    try:
        _, person, counts = np.unique(labels, return_inverse=True, return_counts=True)
        # What has no order of its own, as sets have not, is not brought together by sorting.
        apart = labels.dtype.kind == "O" and len(counts) != len(set(labels.tolist()))
    except TypeError:
        apart = True
    if apart:
        raise TypeError("groups mixes values that cannot be compared; make them all text")
    return 1.0 / counts[person], one_of_each(person)


def one_of_each(
    person: NDArray[np.int64], draw: Callable[[int], bytes] = os.urandom
) -> NDArray[np.int64]:
    """One row of each person, the one with the smallest of the keys that all rows draw."""
    keys = np.frombuffer(draw(8 * len(person)), dtype=np.uint64)
    order, counts = np.lexsort((keys, person)), np.bincount(person)
    return np.asarray(order[np.cumsum(counts) - counts])
