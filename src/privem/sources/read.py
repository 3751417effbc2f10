"""One door for everything that holds rows."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core import Rows
from .array import ArrayRows
from .files import read_file
from .frame import FrameRows, is_frame

__all__ = ["is_path", "is_rows", "read_rows"]


def is_path(X: Any) -> bool:
    """Whether ``X`` names a file rather than holding rows."""
    return isinstance(X, str | os.PathLike)


def is_rows(X: Any) -> bool:
    """Whether ``X`` is rows to be read in blocks, by its type: dask's arrays have blocks too."""
    return callable(getattr(type(X), "blocks", None)) and hasattr(type(X), "n_features")


def read_rows(X: Any, weight: str | NDArray[np.float64] | None = None) -> Rows:
    """Rows of an array, a frame or a file; what already is rows passes through.

    Examples
    --------
    >>> read_rows(np.zeros((3, 2))).n_features
    2
    """
    if is_path(X):
        return read_file(Path(X), weight=weight)
    if isinstance(weight, str):
        raise TypeError("sample_weight names a column, which only files have; pass the values")
    if is_frame(X):
        return FrameRows(X, weight)
    if is_rows(X):
        rows: Rows = X
        if weight is not None:
            raise TypeError("give the weight when opening the rows: read_file(path, weight=...)")
        return rows
    return ArrayRows(np.asarray(X), weight)
