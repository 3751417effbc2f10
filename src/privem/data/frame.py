"""Rows of a pandas or polars data frame, converted a block at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core import Block
from .array import as_numbers
from .checks import refuse_non_finite
from .secret import quietly
from .types import type_name

__all__ = ["FrameRows", "is_frame", "is_lazy"]


def is_frame(X: Any) -> bool:
    """Whether ``X`` is a pandas or polars data frame, without importing either."""
    root = type(X).__module__.partition(".")[0]
    return root in ("pandas", "polars") and type(X).__name__ == "DataFrame"


def is_lazy(X: Any) -> bool:
    """Whether ``X`` is a polars lazy frame, without importing polars."""
    return type(X).__module__.partition(".")[0] == "polars" and type(X).__name__ == "LazyFrame"


@dataclass(frozen=True)
class FrameRows:
    """Rows of a data frame. Columns are numbers or booleans, or what is a number in every row.

    Those of Python objects, text or categories are converted once: decimals, numbers written as
    text, categories that are numbers.

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

    declared: Sequence[str] | None = None
    """The type of each column, where the frame was converted."""

    def __post_init__(self) -> None:
        dtypes = list(self.frame.dtypes)
        odd = {j: dtype for j, dtype in enumerate(dtypes) if not _is_number(dtype)}
        if not odd:
            return
        converted = {}
        for j, dtype in odd.items():
            values = _numbers(self.frame, j, dtype)
            if values is None:
                raise ValueError(
                    f"could not convert column {str(self.frame.columns[j])!r} of type {dtype} to "
                    "float: if it says whose record it is, name it as groups=; else select numeric "
                    "columns, or encode the others as numbers first"
                )
            converted[j] = values
        if self.declared is None:
            object.__setattr__(self, "declared", [_declared(dtype) for dtype in dtypes])
        object.__setattr__(self, "frame", _replaced(self.frame, converted))

    @property
    def names(self) -> Sequence[str]:
        """Column names."""
        return [str(name) for name in self.frame.columns]

    @property
    def types(self) -> list[str]:
        """The type of each column, as the frame declares it."""
        if self.declared is not None:
            return list(self.declared)
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


def _declared(dtype: Any) -> str:
    """The type that a column declares; categories are of the type that pandas keeps them in."""
    categories = getattr(dtype, "categories", None)
    return type_name(dtype if categories is None else getattr(categories, "dtype", dtype))


def _numbers(frame: Any, j: int, dtype: Any) -> NDArray[np.float64] | None:
    """A column of objects, text or categories as numbers; ``None`` if one of them is none."""
    if type(frame).__module__.startswith("polars"):
        if str(dtype) != "Object":
            return _from_text(frame.to_series(j))
        values = frame.to_series(j).to_numpy()
    elif getattr(dtype, "kind", "O") in "OUST":
        try:
            values = frame.iloc[:, j].to_numpy(dtype=object, na_value=np.nan)
        except ArithmeticError:  # a Decimal that signals
            return None
    else:  # dates, complex numbers
        return None
    try:
        return as_numbers(values)
    except ValueError:
        return None


def _from_text(column: Any) -> NDArray[np.float64] | None:
    import polars

    if column.dtype not in (polars.String, polars.Categorical, polars.Enum):
        return None
    numbers = column.cast(polars.String).cast(polars.Float64, strict=False)
    if numbers.null_count() > column.null_count():
        return None
    return np.asarray(numbers.to_numpy())


def _replaced(frame: Any, columns: dict[int, NDArray[np.float64]]) -> Any:
    if type(frame).__module__.startswith("polars"):
        import polars

        made = [polars.Series(frame.columns[j], values) for j, values in columns.items()]
        return frame.with_columns(made)
    frame = frame.copy(deep=False)
    for j, values in columns.items():
        frame.isetitem(j, values)
    return frame


def _to_numpy(part: Any) -> NDArray[np.float64]:
    if type(part).__module__.startswith("polars"):
        # Null becomes NaN in a float column, which the finiteness check then names.
        values = part.cast(_float64()).to_numpy()
    else:
        with quietly():  # long doubles may overflow, one record's of all
            values = part.to_numpy(dtype=np.float64, na_value=np.nan)
    return np.asarray(values)


def _float64() -> Any:
    import polars

    return polars.Float64
