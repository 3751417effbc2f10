"""Rows of a pandas or polars data frame, converted a block at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core import Block
from .checks import refuse_non_finite
from .types import type_name

__all__ = ["FrameRows", "is_frame"]


def is_frame(X: Any) -> bool:
    """Whether ``X`` is a pandas or polars data frame, without importing either."""
    root = type(X).__module__.partition(".")[0]
    return root in ("pandas", "polars") and type(X).__name__ == "DataFrame"


@dataclass(frozen=True)
class FrameRows:
    """Rows of a data frame. Columns must be numbers or booleans.

    Examples
    --------
    >>> import polars as pl
    >>> rows = FrameRows(pl.DataFrame({"age": [31, 47], "height": [1.7, 1.8]}))
    >>> rows.names
    ['age', 'height']
    """

    frame: Any
    weight: NDArray[np.float64] | None = None
    check: bool = True
    """Refuse NaN and infinities while reading."""
    groups: NDArray[Any] | None = None
    """Whom each row belongs to, where a column said so that is not among these."""

    def __post_init__(self) -> None:
        for name, dtype in zip(self.frame.columns, self.frame.dtypes, strict=True):
            if not _is_number(dtype):
                raise ValueError(
                    f"could not convert column {str(name)!r} of type {dtype} to float: "
                    "if it says whose record it is, name it as groups=; else select numeric "
                    "columns, or encode the others as numbers first"
                )

    @property
    def names(self) -> Sequence[str]:
        """Column names."""
        return [str(name) for name in self.frame.columns]

    @property
    def types(self) -> list[str]:
        """The type of each column, as the frame declares it."""
        return [type_name(dtype) for dtype in self.frame.dtypes]

    @property
    def n_features(self) -> int:
        """How many columns."""
        return int(self.frame.shape[1])

    def take(self, index: NDArray[np.int64]) -> FrameRows:
        """Some of the rows, unweighted."""
        if type(self.frame).__module__.startswith("polars"):
            return FrameRows(self.frame[index], None, self.check)
        return FrameRows(self.frame.iloc[index], None, self.check)

    def blocks(self, rows: int) -> Iterator[Block]:
        """All rows in order, at most ``rows`` at a time."""
        for start in range(0, len(self.frame), rows):
            part = self.frame[start : start + rows]
            block = _to_numpy(part)
            if self.check:
                refuse_non_finite(block, start, self.names)
            weight = None if self.weight is None else self.weight[start : start + rows]
            yield Block(block, weight, start)


def _is_number(dtype: Any) -> bool:
    if hasattr(dtype, "is_numeric"):  # polars
        return bool(dtype.is_numeric()) or str(dtype) == "Boolean"
    return getattr(dtype, "kind", "O") in "fiub" and not getattr(dtype, "ordered", False)


def _to_numpy(part: Any) -> NDArray[np.float64]:
    if type(part).__module__.startswith("polars"):
        # Null becomes NaN in a float column, which the finiteness check then names.
        values = part.cast(_float64()).to_numpy()
    else:
        values = part.to_numpy(dtype=np.float64, na_value=np.nan)
    return np.asarray(values)


def _float64() -> Any:
    import polars

    return polars.Float64
