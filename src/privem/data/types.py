"""What type a column is: by what its schema declares, never by what its values look like."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["TYPES", "check_type", "chosen_types", "type_name"]

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
