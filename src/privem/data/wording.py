"""What messages say of columns: what they may hold by their schema, which is public."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .columns import Category, Column, Flag, Number
from .values import CONTAINS_NAN

# Names or values that a message lists.
_LISTED = 10


def allows(column: Column) -> str:
    """The values that a column may have, in words.

    Examples
    --------
    >>> allows(Category("sex", ("Female", "Male"))), allows(Number("age", 15, 95, whole=True))
    ("'Female' or 'Male'", 'from 15 to 95')
    >>> allows(Category("letter", tuple("abcdefghijklm")))[-18:]
    "'i', 'j' or 3 more"
    """
    match column:
        case Category():
            return either(column.values or ())
        case Flag():
            return "yes or no"
        case Number():
            return f"from {column.low} to {column.high}"
    return f"from {column.written(column.low)} to {column.written(column.high)}"


def either(given: Sequence[Any]) -> str:
    """Names or values, the first of many.

    Examples
    --------
    >>> either(["age"]), either(["age", "sex", "city"])
    ("'age'", "'age', 'sex' or 'city'")
    """
    more = len(given) - _LISTED
    said = [repr(each) for each in given[:_LISTED]] + [f"{more:,} more"] * (more > 0)
    return " or ".join([", ".join(said[:-1]), said[-1]]) if len(said) > 1 else "".join(said)


def undeclared_gap(columns: Sequence[Column]) -> str:
    """What a private fit says of gaps: not where, or how many, but which columns may have none.

    Examples
    --------
    >>> undeclared_gap([Flag("smoker"), Flag("retired", missing=True)])[:83]
    'Input X contains NaN (a missing value) in a column that may have none by its schema'
    """
    full = [column.name for column in columns if not column.missing]
    return (
        f"{CONTAINS_NAN.partition(':')[0]} (a missing value) in a column that may have none by its "
        f"schema: {either(full)}. A private fit does not say where: count the gaps yourself "
        "(frame.null_count() in polars, frame.isna().sum() in pandas), and name such columns in "
        "missing=[...] (in files missing = true), or drop such rows"
    )
