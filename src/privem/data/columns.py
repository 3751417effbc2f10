"""Columns: their types, and what is given for them by name.

A type is what the schema declares, never what the values look like.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

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
