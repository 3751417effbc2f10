"""A column by what a person writes: as a Python value, or by fields as in a file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from typing import Any

import numpy as np

from .columns import Category, Column, Flag, Moment, Number, refuse_text, wrong
from .drafts import BLANK

_FIELDS = ("type", "bounds", "categories", "others", "missing", "decimals", "format", "dtype")
_TYPES = ("int", "float", "bool", "str", "date", "datetime", "skip")
_FORMS = (
    "a pair (low, high) of numbers, dates or times, a list of categories, bool, int, float, "
    "(int, low, high), str, or None to leave it out"
)


def column_of(name: str, given: Any) -> Column | None:
    """A column by any of its forms; ``None`` if it is to be left out.

    Examples
    --------
    >>> column_of("smoker", bool), column_of("age", {"type": "int", "bounds": [0, 9]}).spelled()
    (Flag(name='smoker', missing=False, dtype=None), '(int, 0, 9)')
    """
    if isinstance(given, Mapping):
        return _from_fields(name, given)
    if isinstance(given, type):
        return _from_fields(name, {"type": given.__name__})
    match given:
        case None:
            return None
        case (type() as kind, low, high) if isinstance(given, tuple):
            return _from_fields(name, {"type": kind.__name__, "bounds": (low, high)})
        case tuple():
            return _from_fields(name, {"bounds": given})
        case list() | np.ndarray():
            return _from_fields(name, {"categories": list(given)})
    raise wrong(name, f"expected {_FORMS}; got {given!r}")


def _from_fields(name: str, given: Mapping[str, Any]) -> Column | None:
    """A declaration by its fields, as in files."""
    for key, value in given.items():
        if key not in _FIELDS:
            raise wrong(name, f"unknown {key!r}; a column has {', '.join(_FIELDS)}")
        if isinstance(value, str) and value == BLANK:
            raise wrong(name, f'{key} is still "?": complete the draft')
    kind, bounds = given.get("type"), given.get("bounds")
    if kind is not None and kind not in _TYPES:
        raise wrong(name, f"unknown type {kind!r}; expected {_FORMS}, or a type in {_TYPES}")
    gaps = given.get("missing", False)
    if not isinstance(gaps, bool):
        raise wrong(name, f"missing is true or false, got {gaps!r}")
    more: dict[str, Any] = {"missing": gaps, "dtype": given.get("dtype")}
    if kind == "skip":
        return None
    values, decimals = given.get("categories"), given.get("decimals")
    if decimals is not None and (kind not in (None, "float") or values is not None):
        raise wrong(name, "only numbers that are not whole have decimals")
    if values is not None:
        if kind not in (None, "str") or bounds is not None or not isinstance(values, list):
            raise wrong(name, "categories are a list, without type and bounds")
        return Category(name, tuple(values), others=given.get("others", False), **more)
    if "others" in given:
        raise wrong(name, "others goes with categories, of which it is the last")
    if kind in ("bool", "str"):
        if bounds is not None:
            raise wrong(name, f"{kind} has no bounds")
        return Flag(name, **more) if kind == "bool" else Category(name, None, **more)
    whole = {"int": True, "float": False}.get(kind or "")
    if bounds is None:
        if whole is None:
            raise wrong(
                name,
                "it needs bounds, categories or a type" if kind is None else f"{kind} needs bounds",
            )
        return Number(name, None, None, whole, decimals=decimals, **more)
    if isinstance(bounds, str) or not isinstance(bounds, Sequence) or len(bounds) != 2:
        raise wrong(name, f"bounds are a pair (categories a list), got {bounds!r}")
    low, high = bounds
    if whole is None and (kind is not None or isinstance(low, str | date)):
        return Moment.between(name, low, high, kind=kind, format=given.get("format"), **more)
    return Number(name, low, high, whole, decimals=decimals, **more)


def name_of(name: Any) -> str:
    """The name of a column, if it can be one."""
    if not isinstance(name, str) or not name:
        raise TypeError(f"names of columns are text, got {name!r}")
    refuse_text(name, name)
    if name == "*" or (name.startswith("^") and name.endswith("$")):
        raise ValueError(f"column {name!r}: polars takes this name for a pattern; rename it")
    return name


def gaps_of(missing: Any, columns: Mapping[str, Any]) -> list[str]:
    """The columns that ``missing`` means."""
    if isinstance(missing, bool):
        return list(columns) if missing else []
    if isinstance(missing, str) or not isinstance(missing, Iterable):
        raise TypeError(f"missing is a list of column names, or True for all, got {missing!r}")
    names = list(missing)
    for name in names:
        if columns.get(name) is None:
            raise ValueError(f"missing names {name!r}, which is no column of the schema")
    return names
