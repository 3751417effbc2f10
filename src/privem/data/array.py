"""Rows in memory: an array, memory-mapped ones included, a sparse one, or a data frame.

Neither pandas nor polars is imported to find out whether something is a frame.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from ..core import Block, Rows
from .values import as_numbers, quietly, refuse_non_finite, refuse_weights, type_name

# Numbers in a dense block of sparse rows, at most: 16 megabytes.
_MOST_DENSE = 2**21


@dataclass(frozen=True)
class ArrayRows:
    """Rows of a two-dimensional array of any real dtype, order and strides; never copied whole.

    ``X`` may be a sparse array in CSR form, or a data frame of numbers
    (:func:`numeric`): blocks of it become dense arrays when they are read.

    Examples
    --------
    >>> rows = ArrayRows(np.arange(10.0).reshape(5, 2))
    >>> [len(block.X) for block in rows.blocks(2)]
    [2, 2, 1]
    >>> rows = ArrayRows(np.arange(6.0).reshape(3, 2), target=np.array([7.0, 8.0, 9.0]))
    >>> next(rows.blocks(2)).X.tolist()
    [[0.0, 1.0, 7.0], [2.0, 3.0, 8.0]]
    """

    X: Any
    weight: NDArray[np.float64] | None = None
    names: Sequence[str] | None = None
    """Of all columns, the target's last."""
    check: bool = False
    """Refuse NaN, infinities and bad weights while reading; estimators check arrays beforehand, and
    private fits map bad values by a fixed rule (:meth:`privem.blocks.region.Region.to_unit`)."""
    groups: Any = None
    """Whom each row belongs to, where that is known."""
    target: NDArray[np.float64] | None = None
    """What the rows are to explain: then it is their last column."""
    declared: Sequence[str] | None = None
    """The type of each column of ``X``, where the array has another."""

    @property
    def n_features(self) -> int:
        """How many columns, the target included."""
        return int(self.X.shape[1]) + (self.target is not None)

    @property
    def count(self) -> int:
        """How many rows."""
        return int(self.X.shape[0])

    @property
    def types(self) -> list[str]:
        """The type of each column of ``X``."""
        if self.declared is not None:
            return list(self.declared)
        return [type_name(self.X.dtype)] * int(self.X.shape[1])

    def owners(self) -> Any:
        """Whom each row belongs to, or ``None``."""
        return self.groups

    def weights(self) -> NDArray[np.float64] | None:
        """The weight of each row, or ``None``."""
        return self.weight

    def take(self, index: NDArray[np.int64]) -> ArrayRows:
        """Some of the rows, unweighted."""
        target = None if self.target is None else self.target[index]
        X = self.X.iloc if is_frame(self.X) and not _is_polars(self.X) else self.X
        return replace(self, X=X[index], weight=None, groups=None, target=target)

    def blocks(self, rows: int) -> Iterator[Block]:
        """All rows in order, at most ``rows`` at a time."""
        if issparse(self.X):
            rows = max(1, min(rows, _MOST_DENSE // max(1, self.n_features)))
        for start in range(0, self.count, rows):
            where = slice(start, start + rows)
            block = _dense(self.X[where])
            weight = None if self.weight is None else self.weight[where]
            if self.check:
                refuse_non_finite(block, start, self.names)
                if weight is not None:
                    refuse_weights(weight, start)
            if self.target is not None:
                block = _joined(block, self.target[where])
            yield Block(block, weight, start)


def all_values(rows: Rows) -> Any:
    """All rows as one array: the array they were given as, sparse or not, or a new one."""
    if isinstance(rows, ArrayRows) and not is_frame(rows.X) and rows.target is None:
        return rows.X
    return np.concatenate([block.X for block in rows.blocks(65_536)])


def _dense(part: Any) -> NDArray[Any]:
    """Some rows as an array; what is missing in a frame is NaN."""
    if not is_frame(part):
        return np.asarray(part.toarray() if hasattr(part, "toarray") else part)
    if _is_polars(part):
        import polars

        return np.asarray(part.cast(polars.Float64).to_numpy())
    with quietly():  # long doubles may overflow, one record's of all
        return np.asarray(part.to_numpy(dtype=np.float64, na_value=np.nan))


def _joined(X: NDArray[Any], target: NDArray[np.float64]) -> NDArray[np.float64]:
    joined = np.empty((len(X), X.shape[1] + 1))
    joined[:, :-1], joined[:, -1] = X, target
    return joined


def is_frame(X: Any) -> bool:
    """Whether ``X`` is a pandas or polars data frame."""
    root = type(X).__module__.partition(".")[0]
    return root in ("pandas", "polars") and type(X).__name__ == "DataFrame"


def is_lazy(X: Any) -> bool:
    """Whether ``X`` is a polars lazy frame."""
    return _is_polars(X) and type(X).__name__ == "LazyFrame"


def _is_polars(X: Any) -> bool:
    return type(X).__module__.partition(".")[0] == "polars"


def numeric(frame: Any) -> tuple[Any, list[str]]:
    """A frame of numbers and booleans, and the type that each column was declared as.

    Columns of Python objects, text or categories are converted if they are numbers in every row:
    decimals, numbers written as text, categories that are numbers.

    Examples
    --------
    >>> import polars as pl
    >>> numeric(pl.DataFrame({"age": ["31", "47"], "height": [1.7, 1.8]}))[0].dtypes
    [Float64, Float64]
    """
    converted = {}
    dtypes = list(frame.dtypes)
    for j, dtype in enumerate(dtypes):
        if _is_number(dtype):
            continue
        values = _numbers(frame, j, dtype)
        if values is None:
            raise ValueError(
                f"could not convert column {str(frame.columns[j])!r} of type {dtype} to "
                "float: if it says whose record it is, name it as groups=; else select numeric "
                "columns, encode the others as numbers first, or fit a privem.TableMixture, which "
                "takes columns of any kind"
            )
        converted[j] = values
    return _replaced(frame, converted) if converted else frame, [_declared(d) for d in dtypes]


def without_column(frame: Any, name: str, argument: str) -> tuple[Any, Any]:
    """A frame without the column that an argument names, and that column."""
    if name not in list(frame.columns):
        names = ", ".join(str(column) for column in frame.columns)
        raise ValueError(f"{argument} names a column {name!r}, and X has none; it has {names}")
    return frame.drop(name) if _is_polars(frame) else frame.drop(columns=[name]), frame[name]


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
    if _is_polars(frame):
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
    if _is_polars(frame):
        import polars

        made = [polars.Series(frame.columns[j], values) for j, values in columns.items()]
        return frame.with_columns(made)
    frame = frame.copy(deep=False)
    for j, values in columns.items():
        frame.isetitem(j, values)
    return frame


def is_table(X: Any) -> bool:
    """Whether ``X`` is what :func:`read_file` opens: a path, or a polars ``LazyFrame``."""
    return isinstance(X, str | os.PathLike) or is_lazy(X)
