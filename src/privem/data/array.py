"""Rows of a NumPy array, memory-mapped ones included, or of a sparse one."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from ..core import Block
from .checks import refuse_non_finite, refuse_weights
from .secret import quietly
from .types import type_name

__all__ = ["ArrayRows", "as_numbers", "unmasked"]

# Numbers in a dense block of sparse rows, at most: 16 megabytes.
_MOST_DENSE = 2**21


def unmasked(values: Any) -> Any:
    """A masked array with NaN (``None`` among words) where it is masked; all else as it is.

    NumPy itself gives the values under the mask. What is masked is missing, and a missing value is
    refused like any other.

    Examples
    --------
    >>> unmasked(np.ma.masked_equal([1, 2], 2))
    array([ 1., nan])
    """
    if not isinstance(values, np.ma.MaskedArray):
        return values
    if values.dtype.kind in "iub":
        values = values.astype(np.float64)
    if values.dtype.kind == "f":
        return np.ma.filled(values, np.nan)
    return np.ma.filled(values.astype(object), None)


def as_numbers(values: Any) -> NDArray[np.float64]:
    """Values as double precision numbers; a ValueError that quotes none of them if one is none.

    NumPy would warn of a number that is too large (it becomes infinite) or complex (an error here):
    of one record, so nothing is said.

    Examples
    --------
    >>> as_numbers(["1.5", 2, None])
    array([1.5, 2. , nan])
    """
    try:
        with quietly(), warnings.catch_warnings():
            warnings.simplefilter("error", np.exceptions.ComplexWarning)
            return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError, ArithmeticError, np.exceptions.ComplexWarning):
        raise ValueError("could not convert values to numbers") from None


@dataclass(frozen=True)
class ArrayRows:
    """Rows of a two-dimensional array of any real dtype, order and strides; never copied whole.

    ``X`` may be a sparse array in CSR form: each block is made dense when it is read.

    Examples
    --------
    >>> rows = ArrayRows(np.arange(10.0).reshape(5, 2))
    >>> [len(block.X) for block in rows.blocks(2)]
    [2, 2, 1]
    """

    X: Any
    weight: NDArray[np.float64] | None = None
    names: Sequence[str] | None = None
    check: bool = False
    """Refuse NaN, infinities and bad weights while reading; estimators check arrays beforehand, and
    private fits map bad values by a fixed rule (:meth:`privem.blocks.region.Region.to_unit`)."""
    groups: NDArray[Any] | None = None
    """Whom each row belongs to, where a column said so that is not among these."""

    @property
    def n_features(self) -> int:
        """How many columns."""
        return int(self.X.shape[1])

    @property
    def types(self) -> list[str]:
        """The type of each column: that of the array."""
        return [type_name(self.X.dtype)] * self.n_features

    def take(self, index: NDArray[np.int64]) -> ArrayRows:
        """Some of the rows, unweighted."""
        return ArrayRows(self.X[index], None, self.names, self.check)

    def blocks(self, rows: int) -> Iterator[Block]:
        """All rows in order, at most ``rows`` at a time."""
        sparse = issparse(self.X)
        if sparse:
            rows = max(1, min(rows, _MOST_DENSE // max(1, self.n_features)))
        for start in range(0, self.X.shape[0], rows):
            block = self.X[start : start + rows]
            if sparse:
                block = block.toarray()
            weight = None if self.weight is None else self.weight[start : start + rows]
            if self.check:
                refuse_non_finite(block, start, self.names)
                if weight is not None:
                    refuse_weights(weight, start)
            yield Block(block, weight, start)
