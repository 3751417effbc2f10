"""Rows of persons: who each row belongs to, and rows in which each person counts once."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core import Rows
from ..tree import Array
from .array import ArrayRows, unmasked
from .cells import fresh_bytes, fresh_key
from .frame import FrameRows
from .joined import JoinedRows
from .local import LocalSource
from .scan import ScanRows

__all__ = ["Owned", "group_column", "labels_of", "length_of", "owners", "per_person"]


@dataclass(frozen=True)
class Owned:
    """Rows by person: what a source needs to hide persons with all their records.

    A person is the average of their rows (docs/proofs/release.md, section 8). Whose rows they are
    is held as one weight, one number and one mark per row, and leaves by no other way than through
    weighted sums: in a file as in an array.
    """

    rows: ArrayRows | FrameRows | JoinedRows | ScanRows
    """Weighted so that each person counts once."""
    persons: Rows
    """One row of each, drawn at random."""
    owner: NDArray[np.int64]
    """The person each row belongs to."""
    count: int

    @classmethod
    def of(cls, rows: Rows, labels: Any, cap: float = 1.0) -> Owned:
        """Rows whose owners are ``labels``; weights of their own count within [0, cap]."""
        if not isinstance(rows, ArrayRows | FrameRows | JoinedRows | ScanRows):
            raise TypeError(
                f"groups go with an array, a frame or a file, not {type(rows).__name__}"
            )
        weight, chosen = per_person(
            labels, len(labels) if isinstance(rows, ScanRows) else length_of(rows)
        )
        own = rows.weights() if isinstance(rows, ScanRows) else rows.weight
        if own is not None:
            if own.shape != weight.shape:
                raise ValueError(f"sample_weight has shape {own.shape}, expected {weight.shape}")
            weight = weight * np.clip(own, 0.0, cap)
        return cls(replace(rows, weight=weight), rows.take(chosen), owners(labels), len(chosen))

    def drawn_by(self, draw: Callable[[int], bytes]) -> Owned:
        """The same with one row of each drawn from these bytes."""
        return replace(self, persons=self.rows.take(_one_of_each(self.owner, draw)))

    def source(
        self,
        n_jobs: int | None,
        key: bytes | None = None,
        draw: Callable[[int], bytes] = fresh_bytes,
    ) -> LocalSource:
        """What sums over persons; ``key`` is what they draw their cells from, or a fresh one."""
        key = fresh_key() if key is None else key
        return LocalSource(self.rows, n_jobs, self.persons, self.owner, key, draw)


def length_of(rows: Rows) -> int | None:
    """How many rows, where that is known without reading them."""
    for name in ("X", "frame", "target"):
        held = getattr(rows, name, None)
        if held is not None:
            return int(held.shape[0])
    return None


def _labels(groups: Any) -> NDArray[Any]:
    """Identifiers as they are: NumPy would make all of a list text, or round it, for one entry."""
    groups = unmasked(groups)
    labels = np.asarray(groups, dtype=None if hasattr(groups, "dtype") else object)
    return labels.astype(object) if labels.dtype.kind == "T" else labels


def owners(groups: Any) -> NDArray[np.int64]:
    """The person each row belongs to, numbered from zero."""
    return np.unique(_labels(groups), return_inverse=True)[1].astype(np.int64)


def group_column(path: Any, groups: Any) -> str | None:
    """The column of a file that ``groups`` names; a ``.npy`` file takes the values."""
    if groups is None or isinstance(groups, str):
        return groups
    if isinstance(path, str | os.PathLike) and Path(path).suffix == ".npy":
        return None
    raise TypeError("the groups of a file are one of its columns: give its name (a string)")


def labels_of(rows: Rows, groups: Any) -> Any:
    """Who each of the opened rows belongs to, or ``None``: given, or a column kept beside them."""
    if isinstance(rows, ScanRows):
        if rows.groups is not None:
            return rows.owners()
    elif isinstance(rows, JoinedRows):
        return labels_of(rows.rows, groups)
    elif isinstance(rows, ArrayRows | FrameRows) and rows.groups is not None:
        return rows.groups
    if groups is None or isinstance(rows, ArrayRows | FrameRows):
        return groups
    raise TypeError("name the groups when opening the rows: read_file(groups=...)")


def missing(labels: NDArray[Any]) -> bool:
    """Whether there is a label that stands for none: NaN, NaT, None, pandas.NA."""
    if labels.dtype.kind == "O":
        return any(label is None or str(label) == "<NA>" or label != label for label in labels)
    return labels.dtype.kind in "fcmM" and bool(np.any(labels != labels))


def per_person(groups: Any, rows: int | None) -> tuple[Array, NDArray[np.int64]]:
    """Weights that let each person count once, and one row of each person, drawn at random.

    A person with m rows weighs 1/m per row: what they contribute is an average of contributions,
    which moves a sum no more than one record does, whether they join, leave or are replaced.
    """
    labels = _labels(groups)
    if labels.shape != (rows,):
        if isinstance(groups, str):
            raise TypeError("groups names a column, which arrays do not have; pass the values")
        raise ValueError(f"groups has shape {labels.shape}, expected ({rows},)")
    if missing(labels):
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
    return 1.0 / counts[person], _one_of_each(person, os.urandom)


def _one_of_each(person: NDArray[np.int64], draw: Callable[[int], bytes]) -> NDArray[np.int64]:
    """One row of each person, the one with the smallest of the keys that all rows draw."""
    keys = np.frombuffer(draw(8 * len(person)), dtype=np.uint64)
    order, counts = np.lexsort((keys, person)), np.bincount(person)
    return np.asarray(order[np.cumsum(counts) - counts])
