"""What values and columns may be: numbers, finite, present; and how to say that they are not.

An exact fit names the row and the column of a bad value. A private one says of values that one is
missing (NaN), and neither where nor how many: that is all, and the caller alone hears it. The type
of a column is what its schema declares, never what the values look like.

Neither pandas nor polars is imported to find out whether something is a frame.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.utils import column_or_1d

from ..core import Rows
from .header import Header

TYPES = (
    "bool",
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
    "float32",
    "float64",
)
_ALSO = {
    "boolean": "bool",
    "int": "int64",
    "float": "float64",
    "float16": "float32",
    "float[pyarrow]": "float32",
    "halffloat[pyarrow]": "float32",
}
# What a private fit says of values.
CONTAINS_NAN = (
    "Input X contains NaN: drop those rows or columns, fill in a value that was chosen without "
    "looking at the data, or fit a privem.TableMixture, which takes missing values as they are"
)


def quietly() -> np.errstate:
    """Arithmetic without warnings or errors, whatever the caller's ``np.seterr`` says."""
    return np.errstate(all="ignore")


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


def as_array(values: Any) -> NDArray[Any]:
    """Values as an array; a list entry by entry, which NumPy would make text for one of them."""
    return np.asarray(unmasked(values), dtype=None if hasattr(values, "dtype") else object)


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


def as_target(y: Any) -> NDArray[np.float64]:
    """A target as one number per record; raises for what is not."""
    if y is None:
        raise ValueError(
            "this estimator requires y to be passed, but the target y is None; for a frame or a "
            "file, y may be the name of its target column"
        )
    if isinstance(y, str):
        raise TypeError("y names a column, which arrays do not have; pass the values")
    target = column_or_1d(unmasked(y), warn=True)
    try:
        return as_numbers(target)
    except ValueError:
        raise ValueError(f"y must be numbers, got values of type {target.dtype}") from None


def as_weights(weight: Any, rows: int, checked: bool) -> NDArray[np.float64] | None:
    """Weights of the right form, or ``None``; ``checked``: refuse negative or infinite ones too.

    Weights are data: a private fit says of them, as of values, only that there is a NaN. The rest
    is pulled into [0, max_weight].
    """
    if weight is None:
        return None
    if isinstance(weight, str):
        raise TypeError("sample_weight names a column, which only files have; pass the values")
    try:
        numbers = as_numbers(unmasked(weight))
    except ValueError:
        raise ValueError("sample_weight must be numbers") from None
    if numbers.ndim == 0:
        numbers = np.full(rows, float(numbers))
    if numbers.shape != (rows,):
        raise ValueError(f"sample_weight has shape {numbers.shape}, expected ({rows},)")
    if checked:
        refuse_weights(numbers)
    elif np.isnan(numbers).any():
        raise ValueError("sample_weight contains NaN")
    return numbers


def refuse_weights(weight: NDArray[np.float64], start: int = 0) -> None:
    """Raise for weights that are negative or not finite."""
    bad = np.flatnonzero(~(np.isfinite(weight) & (weight >= 0)))
    if len(bad):
        raise ValueError(
            f"sample_weight must be finite and not negative; row {start + int(bad[0])} has "
            f"{weight[bad[0]]}"
        )


def is_on_device(X: Any) -> bool:
    """Whether X is a torch tensor, an array of CuPy, or rows that sum themselves.

    torch and CuPy are recognised, and never imported for it: who has such an array has done so.
    """
    named = (("torch", "Tensor"), ("cupy", "ndarray"))
    known = [getattr(sys.modules.get(module), name, None) for module, name in named]
    made = any(kind is not None and isinstance(X, kind) for kind in known)
    return made or callable(getattr(type(X), "summed", None))


def is_dask(X: Any) -> bool:
    """Whether ``X`` is something of dask, which is not imported for it."""
    return type(X).__module__.partition(".")[0] in ("dask", "dask_expr")


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
        + ("; privem.TableMixture takes missing values as they are" if "NaN" in what else "")
    )


def refuse_missing(
    rows: Rows, target: bool = False, allowed: bool = False, message: str = CONTAINS_NAN
) -> None:
    """Raise if a value is missing: all that a private fit says about single values.

    Infinities pass: they lie outside the bounds like 1e308 does, and are pulled in like it. What is
    missing in a later pass, because the file was changed, is mapped by the
    fixed rule of the queries (:meth:`privem.blocks.region.Region.to_unit`): the noise covers it.

    Parameters
    ----------
    rows : Rows
        Opened without checks of their own. Those with a method ``missing`` find it out themselves.
    target : bool
        Whether the last column is a target.
    allowed : bool
        Whether values may be missing, in all columns but the target.
    message : str
        What is said of a missing value.
    """
    x, y, weight = gaps(rows, target)
    if x and not allowed:
        raise ValueError(message)
    if y:
        raise ValueError("Input y contains NaN: remove or impute missing values first")
    if weight:
        raise ValueError("sample_weight contains NaN")


def gaps(rows: Rows, target: bool) -> tuple[bool, bool, bool]:
    """Whether a feature, a target and a weight is missing: found by the rows, or in blocks."""
    if (find := getattr(rows, "missing", None)) is not None:
        x, y, weight = find(target)
        return x, y, weight
    found = np.zeros(3, dtype=np.bool_)
    last = rows.n_features - target
    for block in rows.blocks(65_536):
        with np.errstate(over="ignore", invalid="ignore"):
            # A sum is NaN if one of its terms is: no temporary in the usual case.
            if np.isnan(np.sum(block.X, dtype=np.float64)):
                bad = np.isnan(block.X)
                found[:2] |= [bad[:, :last].any(), bad[:, last:].any()]
        if block.weight is not None:
            found[2] |= bool(np.isnan(block.weight).any())
    return bool(found[0]), bool(found[1]), bool(found[2])


def refuse_infinite(rows: Rows) -> None:
    """Exact fits whose features may be missing: NaN in the target, and infinity anywhere."""
    empty = True
    for block in rows.blocks(65_536):
        empty = empty and not len(block.X)
        if block.weight is not None:
            refuse_weights(block.weight, block.start)
        if np.isinf(block.X).any():
            raise ValueError("Input X contains infinity; remove or impute such rows first")
        if np.isnan(block.X[:, -1]).any():
            raise ValueError("Input y contains NaN: remove or impute missing values first")
    if empty:
        raise ValueError("Found array with 0 sample(s): there are no rows to fit")


def is_frame(X: Any) -> bool:
    """Whether ``X`` is a pandas or polars data frame."""
    root = type(X).__module__.partition(".")[0]
    return root in ("pandas", "polars") and type(X).__name__ == "DataFrame"


def is_lazy(X: Any) -> bool:
    """Whether ``X`` is a polars lazy frame."""
    return is_polars(X) and type(X).__name__ == "LazyFrame"


def is_polars(X: Any) -> bool:
    """Whether ``X`` is something of polars."""
    return type(X).__module__.partition(".")[0] == "polars"


def is_table(X: Any) -> bool:
    """Whether ``X`` is what ``read_file`` opens: a path, or a polars ``LazyFrame``."""
    return isinstance(X, str | os.PathLike) or is_lazy(X)


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
            f"X is a dask {kind}, which is not read here: models of numbers read dask arrays and "
            "data frames; else pass X.compute(), or write it to Parquet files and pass their "
            "folder, which is read in blocks"
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


def without_values(error: Exception) -> ValueError:
    """What scikit-learn says of an array, without the values that it quotes."""
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


def type_name(dtype: Any) -> str:
    """The type of a NumPy, pandas or polars dtype; ``float64`` for all that has no name here.

    Decimals and integers of 128 bits are read as ``float64``, and so come back.

    Examples
    --------
    >>> import numpy as np, polars as pl
    >>> type_name(np.dtype("int16")), type_name(pl.Boolean), type_name(pl.Decimal(10, 2))
    ('int16', 'bool', 'float64')
    """
    name = str(getattr(dtype, "name", dtype)).lower()
    name = _ALSO.get(name, name.removesuffix("[pyarrow]"))
    return name if name in TYPES else "float64"


def check_type(name: str) -> str:
    """A type by its name, ``int`` and ``float`` being the usual ones; raises for any other.

    Examples
    --------
    >>> check_type("int")
    'int64'
    """
    kind = _ALSO.get(name, name)
    if kind not in TYPES:
        raise ValueError(f"there is no type {name!r}; types are {', '.join(TYPES)}")
    return kind


def chosen_types(
    names: Sequence[str], schema: Mapping[str, str] | None, types: Mapping[str, str] | None
) -> list[str]:
    """The type of each column: what the caller says, else what the file declares.

    A file that declares nothing (CSV) has numbers, ``float64``. To guess from the values would be
    to tell about them: one fraction among whole numbers changes the guess, and the types are
    published with the model.

    Examples
    --------
    >>> chosen_types(["age", "height"], None, {"age": "int"})
    ['int64', 'float64']
    """
    given = {name: check_type(kind) for name, kind in (types or {}).items()}
    for name in given:
        if name not in names:
            raise ValueError(f"a type is given for {name!r}, which is not one of the columns")
    return [given.get(name) or (schema[name] if schema else "float64") for name in names]


def positions(some: Sequence[str], names: Sequence[str]) -> str:
    """Columns by their position, counted from 1, for messages that may not quote names.

    Examples
    --------
    >>> positions(["b"], ["a", "b"]), positions(["a", "b"], ["a", "b"])
    ('column number 2', 'column numbers 1, 2')
    """
    where = [str(j + 1) for j, name in enumerate(names) if name in some]
    return f"column number{'s' * (len(where) > 1)} {', '.join(where)}"


def for_columns(what: str, given: Mapping[Any, Any], names: Any, otherwise: str) -> dict[str, Any]:
    """A parameter that is given by column name, in the order of the columns.

    Raises ValueError where columns have no names (``otherwise``: what to give then), and where some
    have no value or some values no column.

    Examples
    --------
    >>> for_columns("bounds", {"age": (0, 120), "height": (0.5, 2.5)}, ["height", "age"], "")
    {'height': (0.5, 2.5), 'age': (0, 120)}
    """
    if names is None:
        raise ValueError(
            f"{what} are given by column name, and X has no column names: give {otherwise}, or a "
            "frame or a file with names"
        )
    known = [str(name) for name in names]
    values = {str(name): value for name, value in given.items()}
    unknown = [name for name in values if name not in known]
    without = [name for name in known if name not in values]
    wrong = [f"no such column: {', '.join(unknown)}"] * bool(unknown)
    # By position: the names may be the first line of a file that has no header.
    wrong += [f"without {what}: {positions(without, known)}"] * bool(without)
    if wrong:
        raise ValueError(f"{what} by name are for every column of X; {'; '.join(wrong)}")
    return {name: values[name] for name in known}
