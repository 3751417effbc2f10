"""Types of columns of categories, and tables of them: by what is declared, never by the values."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...data.types import TYPES, type_name

__all__ = ["CATEGORY_TYPES", "category_column", "category_type"]

CATEGORY_TYPES = (*TYPES, "string")


def category_type(categories: NDArray[Any], declared: Any = None) -> str:
    """The type of a column: as declared if its categories are of that type, else theirs.

    Examples
    --------
    >>> import polars as pl
    >>> category_type(np.array(["no", "yes"], dtype=object), pl.String)
    'string'
    >>> category_type(np.array([0, 1]), pl.Int8), category_type(np.array([0, 1]), pl.String)
    ('int8', 'int64')
    """
    if categories.dtype.kind not in "biuf":
        return "string"
    name = type_name(declared)
    if (
        str(getattr(declared, "name", declared))
        .lower()
        .startswith(("int", "uint", "float", "bool"))
    ):
        with np.errstate(all="ignore"):
            if (categories.astype(name) == categories).all():
                return name
    return type_name(categories.dtype)


def category_column(categories: NDArray[Any], codes: NDArray[np.int64], kind: str) -> Any:
    """Categories by their codes, as a column of that type."""
    drawn = categories[codes]
    if categories.dtype.kind in "biuf":
        # Types saved before there was "string" may be wrong about text, never about numbers.
        return drawn if kind == "string" else drawn.astype(kind)
    mixed = any(not isinstance(value, str) for value in categories.tolist())
    return [str(value) for value in drawn] if mixed else list(drawn)
