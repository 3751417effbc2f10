"""One door for everything that holds rows."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Set
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from ..core import Rows
from .array import ArrayRows, unmasked
from .files import read_file
from .frame import FrameRows, is_frame, is_lazy

__all__ = ["has_names", "is_path", "is_rows", "is_table", "read_rows", "refuse_kind"]


def is_path(X: Any) -> bool:
    """Whether ``X`` names a file rather than holding rows."""
    return isinstance(X, str | os.PathLike)


def is_table(X: Any) -> bool:
    """Whether ``X`` is what ``read_file`` opens: a path, or a polars ``LazyFrame``."""
    return is_path(X) or is_lazy(X)


def has_names(X: Any) -> bool:
    """Whether the columns of a table have names: those of a ``.npy`` file have none."""
    return not is_path(X) or Path(X).suffix != ".npy"


def is_rows(X: Any) -> bool:
    """Whether ``X`` is rows to be read in blocks, by its type: dask's arrays have blocks too."""
    return callable(getattr(type(X), "blocks", None)) and hasattr(type(X), "n_features")


def refuse_kind(X: Any) -> None:
    """Raise for what looks like data and cannot be read as such.

    Examples
    --------
    >>> refuse_kind({"age": [31, 47]})
    Traceback (most recent call last):
    TypeError: X is a dict; make a frame of it: pandas.DataFrame(X) or polars.DataFrame(X)
    """
    kind = type(X).__name__
    if type(X).__module__.partition(".")[0] in ("dask", "dask_expr"):
        raise TypeError(
            f"X is a dask {kind}, which privem does not read; pass X.compute(), or write it to "
            "Parquet files and pass their folder, which is read in blocks"
        )
    if isinstance(X, Mapping) and not issparse(X):  # a dok_array is both
        raise TypeError(
            f"X is a {kind}; make a frame of it: pandas.DataFrame(X) or polars.DataFrame(X)"
        )
    if isinstance(X, Iterator):
        raise TypeError(
            f"X is a {kind}, which can be read only once, and a fit reads its rows several times; "
            "pass list(X)"
        )
    if isinstance(X, Set):
        raise TypeError(f"X is a {kind}, which has no order; pass a list or an array of rows")


def read_rows(X: Any, weight: str | NDArray[np.float64] | None = None) -> Rows:
    """Rows of an array, a frame or a file; what already is rows passes through.

    Examples
    --------
    >>> read_rows(np.zeros((3, 2))).n_features
    2
    """
    refuse_kind(X)
    if is_table(X):
        return read_file(X, weight=weight)
    if isinstance(weight, str):
        raise TypeError("sample_weight names a column, which only files have; pass the values")
    if is_frame(X):
        return FrameRows(X, weight)
    if is_rows(X):
        rows: Rows = X
        if weight is not None:
            raise TypeError("give the weight when opening the rows: read_file(path, weight=...)")
        return rows
    array: Any = X
    return ArrayRows(array.tocsr() if issparse(X) else np.asarray(unmasked(X)), weight)
