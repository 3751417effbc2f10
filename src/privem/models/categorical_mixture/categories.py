"""``categories=``: what it may look like, and one list for each column."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...parameters import for_columns

__all__ = ["check_categories", "listed"]


def check_categories(given: Any) -> None:
    """Raise for what can be no categories, before there are data."""
    if given is None:
        return
    if isinstance(given, Mapping):
        for name, part in given.items():
            if not _is_list(part):
                raise ValueError(f"categories of {str(name)!r} must be a list, got {part!r}")
            _refuse_nested(part)
        if not given:
            raise ValueError("categories by name are for every column of X; there are none")
        return
    if not _is_list(given) or not len(given):
        raise ValueError(f"{_EXPECTED}; got {type(given).__name__} {given!r}")
    nested = [_is_list(part) for part in given]
    if any(nested) and not all(nested):
        raise ValueError(_EXPECTED)
    for part in given if nested[0] else [given]:
        _refuse_nested(part)


def listed(given: Any, names: Sequence[Any] | NDArray[Any] | None) -> Any:
    """Categories by column name as a list of lists, in the order of the columns; others as lists.

    Examples
    --------
    >>> listed({"smoker": ["no", "yes"], "sex": ["f", "m"]}, ["sex", "smoker"])
    [['f', 'm'], ['no', 'yes']]
    """
    check_categories(given)
    if given is None:
        return None
    if not isinstance(given, Mapping):
        return [_values(part) if _is_list(part) else part for part in _values(given)]
    values = for_columns("categories", given, names, "a list of lists")
    return [_values(part) for part in values.values()]


_EXPECTED = (
    "categories must be a list of lists, one list for all columns, or lists by column name, "
    "{'sex': ['f', 'm'], ...}"
)


def _is_list(part: Any) -> bool:
    """Whether it is values in an order: lists, tuples, arrays, the columns of frames."""
    return isinstance(part, list | tuple) or (hasattr(part, "dtype") and np.ndim(part) > 0)


def _values(part: Any) -> list[Any]:
    return list(part.tolist()) if isinstance(part, np.ndarray) else list(part)


def _refuse_nested(part: Any) -> None:
    """A category is one value: text or a number, never a set, a mapping or a list."""
    for value in part:
        if isinstance(value, Iterable) and not isinstance(value, str | bytes):
            raise ValueError(f"{_EXPECTED}; {value!r} is no single category")
