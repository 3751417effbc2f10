"""The form of rows: weights, lengths, and what a private fit says of those it cannot take."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ..core import Rows
from ..data import ArrayRows, FrameRows
from ..data.array import as_numbers, unmasked
from ..data.checks import refuse_weights
from ..data.gaps import refuse_gaps
from ..data.owned import labels_of
from ..data.scan import ScanRows
from ..data.table import People
from ..federation import Federation
from ..local import Crowd

__all__ = ["crowd", "private_rows", "unchecked", "weights_of", "without_values"]


def unchecked(rows: Rows) -> Rows:
    """Rows that say nothing about single values while they are read."""
    if isinstance(rows, ArrayRows | FrameRows | ScanRows):
        return replace(rows, check=False)
    return rows


def private_rows(rows: Rows, target: bool = False, missing: bool = False) -> Rows:
    """A stream for a private fit, without gaps; parties of a federation look themselves.

    ``target``: the last column is one. ``missing``: values may be, in all other columns.
    """
    if isinstance(rows, Federation):
        return rows
    rows = unchecked(rows)
    refuse_gaps(rows, target, missing)
    return rows


def crowd(rows: Rows, groups: Any) -> tuple[Crowd, People]:
    """Rows as people with devices."""
    if labels_of(rows, groups) is not None or getattr(rows, "weight", None) is not None:
        raise ValueError("trust='local' has no groups and no sample weights: one record a person")
    count = sum(len(block.X) for block in rows.blocks(65_536))
    return Crowd(rows), People("person", count, False)


def without_values(error: Exception) -> ValueError:
    """What scikit-learn says of an array, less the values it quotes: they are nobody's business."""
    text = str(error)
    if "could not convert" in text or "too large" in text:
        return ValueError("could not convert X to numbers")
    if text.startswith("Expected 2D array"):
        what = text.partition(" instead")[0]
        return ValueError(
            f"{what} instead. Reshape your data: array.reshape(-1, 1) if it is a single feature, "
            "array.reshape(1, -1) if it is a single record"
        )
    return ValueError(text.partition("\n")[0])


def weights_of(weight: Any, rows: int, groups: Any, checked: bool) -> Any:
    """Weights of the right form, or ``None``; ``checked``: refuse negative or infinite ones too.

    Weights are data: a private fit says of them, as of values, only that there is a NaN. The rest
    is pulled into [0, max_weight].
    """
    if groups is not None and np.shape(groups) != (rows,):
        if isinstance(groups, str):
            raise TypeError("groups names a column, which arrays do not have; pass the values")
        raise ValueError(f"groups has shape {np.shape(groups)}, expected ({rows},)")
    if weight is None:
        return None
    if isinstance(weight, str):
        raise TypeError("sample_weight names a column, which only files have; pass the values")
    try:
        weight = as_numbers(unmasked(weight))
    except ValueError:
        raise ValueError("sample_weight must be numbers") from None
    if weight.ndim == 0:
        weight = np.full(rows, float(weight))
    if weight.shape != (rows,):
        raise ValueError(f"sample_weight has shape {weight.shape}, expected ({rows},)")
    if checked:
        refuse_weights(weight)
    elif np.isnan(weight).any():
        raise ValueError("sample_weight contains NaN")
    return weight
