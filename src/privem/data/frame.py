"""Columns of data frames, of pandas or polars: their types, as numbers, and as frames again."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from .values import as_numbers, is_frame, is_polars, type_name

# Types that arrays do not have: pandas' own with gaps, and categories of either library.
_PANDAS = re.compile(r"U?Int(8|16|32|64)|Float(32|64)|boolean|string|category")
_LETTERS = {"I": "i", "U": "u", "F": "f", "b": "b", "s": "O"}  # of pandas' own, NumPy's kinds
_POLARS = re.compile(r"Categorical|Enum")


@dataclass(frozen=True)
class FrameKind:
    """What kind of frame a table is returned as: that which was given to ``fit``.

    It is the caller's choice of library and of types, and says nothing about values. (The type of
    a pandas column of categories lists those that occur; they are not kept.)

    Examples
    --------
    >>> import polars as pl
    >>> kind = FrameKind.of(pl.DataFrame({"age": [31, 47]}))
    >>> kind.frame({"age": [50]}).rows()
    [(50,)]
    """

    library: str = "polars"
    types: Mapping[str, str] = field(default_factory=dict)
    """Of columns of categories, and of those with a nullable type of pandas."""

    @classmethod
    def of(cls, frame: Any) -> Self:
        """The kind of a frame."""
        polars = is_polars(frame)
        types = zip(frame.columns, frame.dtypes, strict=True)
        names = {str(name): str(dtype).partition("(")[0] for name, dtype in types}
        kept = {
            name: kind
            for name, kind in names.items()
            if (_POLARS if polars else _PANDAS).fullmatch(kind)
        }
        return cls("polars" if polars else "pandas", kept)

    def frame(
        self, columns: Mapping[str, Any], categories: Mapping[str, Sequence[Any]] | None = None
    ) -> Any:
        """A frame of such columns; ``categories``: all that those of categories may have."""
        if self.library == "pandas":
            return self.typed(import_pandas().DataFrame(columns), categories)
        import polars

        return self.typed(polars.DataFrame(columns), categories)

    def typed(self, frame: Any, categories: Mapping[str, Sequence[Any]] | None = None) -> Any:
        """A frame of this library, its columns with the types that they were given with."""
        known = categories or {}
        kept = {name: kind for name, kind in self.types.items() if name in frame.columns}
        lists = {name: list(known[name]) for name in kept if name in known}
        if self.library == "pandas":
            # A schema may have made something else of a column: it stays so.
            plain = {n: k for n, k in kept.items() if frame[n].dtype.kind == _LETTERS.get(k[0])}
            dtype = import_pandas().CategoricalDtype
            return frame.astype(plain | {n: dtype(values) for n, values in lists.items()})
        import polars

        words = {
            n: polars.Categorical() if kept[n] == "Categorical" else polars.Enum(values)
            for n, values in lists.items()
        }
        return frame.cast(words)


def frame_like(X: Any, columns: Mapping[str, Any], otherwise: FrameKind) -> Any:
    """A frame of the kind of X, its rows named as in X; of another kind where X is no frame."""
    if not is_frame(X):
        return otherwise.frame(columns)
    made = FrameKind.of(X).frame(columns)
    if hasattr(X, "index"):  # pandas
        made.index = X.index
    return made


def import_pandas() -> Any:
    """The library, which only those have who use it."""
    try:
        import pandas
    except ImportError:
        raise ImportError('library="pandas" needs pandas: pip install pandas') from None
    return pandas


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
        if is_number(dtype):
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
    return frame.drop(name) if is_polars(frame) else frame.drop(columns=[name]), frame[name]


def is_number(dtype: Any) -> bool:
    """Whether a column of this type holds numbers or yes and no."""
    if hasattr(dtype, "is_numeric"):  # polars
        return bool(dtype.is_numeric()) or str(dtype) == "Boolean"
    return getattr(dtype, "kind", "O") in "fiub" and not getattr(dtype, "ordered", False)


def _declared(dtype: Any) -> str:
    """The type that a column declares.

    Categories declare none: pandas finds the type that it keeps them in by looking at values.
    """
    of_values = hasattr(dtype, "ordered") and getattr(dtype, "categories", None) is not None
    return "float64" if of_values else type_name(dtype)


def _numbers(frame: Any, j: int, dtype: Any) -> NDArray[np.float64] | None:
    """A column of objects, text or categories as numbers; ``None`` if one of them is none."""
    if is_polars(frame):
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
    if is_polars(frame):
        import polars

        made = [polars.Series(frame.columns[j], values) for j, values in columns.items()]
        return frame.with_columns(made)
    frame = frame.copy(deep=False)
    for j, values in columns.items():
        frame.isetitem(j, values)
    return frame
