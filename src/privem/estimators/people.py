"""Who rows belong to: the unit of privacy."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core import Rows
from ..sources import ArrayRows, FrameRows
from ..sources.files import ScanRows
from ..sources.joined import JoinedRows
from ..tree import Array

__all__ = ["People", "group_column", "labels_of", "owners", "per_person"]


@dataclass(frozen=True)
class People:
    """The unit of privacy and how many there are.

    ``count`` is ``None`` where rows are streamed and nobody has counted them.
    """

    unit: str
    count: int | None
    weighted: bool
    parties: str = ""
    """Of a federation: who can learn what."""

    def public_count(self, neighbours: str) -> float | None:
        """The number that is public knowledge: when one is replaced, never when weighted."""
        if neighbours == "replace-one" and not self.weighted and self.count is not None:
            return float(self.count)
        return None

    def public(self, neighbours: str) -> dict[str, str]:
        """What the statement lists as public."""
        count = self.public_count(neighbours)
        return {} if count is None else {f"number of {self.unit}s": f"{int(count)}"}


def _labels(groups: Any) -> NDArray[Any]:
    """Identifiers as they are: NumPy would make all of a list text, or round it, for one entry."""
    return np.asarray(groups, dtype=None if hasattr(groups, "dtype") else object)


def owners(groups: Any) -> NDArray[np.int64]:
    """The person each row belongs to, numbered from zero."""
    return np.unique(_labels(groups), return_inverse=True)[1].astype(np.int64)


def group_column(path: Any, groups: Any) -> str | None:
    """The column of a file that ``groups`` names; a ``.npy`` file takes the values."""
    if groups is None or isinstance(groups, str):
        return groups
    if Path(path).suffix == ".npy":
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
    except TypeError:
        raise TypeError("groups mixes values that cannot be compared; make them all text") from None
    keys = np.frombuffer(os.urandom(8 * len(person)), dtype=np.uint64)
    order = np.lexsort((keys, person))
    first = np.concatenate([[0], np.cumsum(counts)[:-1]])
    return 1.0 / counts[person], order[first]
