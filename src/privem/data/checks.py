"""What rows must look like, and how to say that they do not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core import Rows
from .header import Header

__all__ = ["CONTAINS_NAN", "refuse_nan", "refuse_non_finite", "refuse_weights"]

# What a private fit says of values: neither where nor how many.
CONTAINS_NAN = (
    "Input X contains NaN: drop those rows or columns, or fill in a value that was chosen without "
    "looking at the data"
)


def refuse_non_finite(
    block: NDArray[Any], start: int, names: Sequence[str] | None, header: Header | None = None
) -> None:
    """Raise for NaN and infinities, naming the row and the column."""
    # A sum is finite only if all its terms are: one pass and no temporary in the usual case.
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(np.sum(block, dtype=np.float64)):
            return
    bad = np.argwhere(~np.isfinite(block))
    if not len(bad):
        return  # Large values, but each of them finite.
    row, column = (int(v) for v in bad[0])
    where = f"column {column if names is None else repr(names[column])}"
    if names is not None and header is not None:
        where = header.say(names[column])
    what = "NaN (a missing value)" if np.isnan(block[row, column]) else "infinity"
    raise ValueError(
        f"Input X contains {what} in row {start + row}, {where}; remove or impute such rows first"
    )


def refuse_nan(rows: Rows) -> None:
    """Raise if there is a NaN anywhere: all that a private fit says about single values.

    Infinities pass: they lie outside the bounds like 1e308 does, and are pulled in like it.
    """
    for block in rows.blocks(65_536):
        with np.errstate(over="ignore", invalid="ignore"):
            suspicious = np.isnan(np.sum(block.X, dtype=np.float64))
        if suspicious and np.isnan(block.X).any():
            raise ValueError(CONTAINS_NAN)


def refuse_weights(weight: NDArray[np.float64], start: int = 0) -> None:
    """Raise for weights that are negative or not finite."""
    bad = np.flatnonzero(~(np.isfinite(weight) & (weight >= 0)))
    if len(bad):
        raise ValueError(
            f"sample_weight must be finite and not negative; row {start + int(bad[0])} has "
            f"{weight[bad[0]]}"
        )
