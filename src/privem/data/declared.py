"""A column by what a person writes: as a Python value, or by fields as in a file."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from difflib import get_close_matches
from typing import Any

import numpy as np

from .columns import Category, Column, Flag, Moment, Number, refuse_text, wrong
from .drafts import BLANK

_FIELDS = ("type", "bounds", "categories", "others", "missing", "decimals", "format", "dtype")
_FIELD_LIST = ", ".join(_FIELDS[:-1])  # types of tables are not for people to write
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
    for key in given:
        if key not in _FIELDS:
            raise wrong(name, f"unknown {key!r}{_meant(key, _FIELDS)}; it may have {_FIELD_LIST}")
    kind, bounds = given.get("type"), given.get("bounds")
    if kind is not None and kind not in _TYPES:
        said = f"unknown type {kind!r}{_meant(kind, _TYPES)}; types are {', '.join(_TYPES)}"
        raise wrong(name, f"{said}; a list of values is categories = [...]")
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
    low, high = _ends(name, bounds)
    if low is None and high is None:
        if whole is None:
            raise wrong(
                name,
                "it needs bounds, categories or a type" if kind is None else f"{kind} needs bounds",
            )
        return Number(name, None, None, whole, decimals=decimals, **more)
    if whole is None and (kind is not None or isinstance(high if low is None else low, str | date)):
        return Moment.between(name, low, high, kind=kind, format=given.get("format"), **more)
    return Number(name, low, high, whole, decimals=decimals, **more)


def _ends(name: str, bounds: Any) -> tuple[Any, Any]:
    """Two bounds; one that is ``None`` or infinite, as files write it too, is to be found."""
    if bounds is None:
        return None, None
    if isinstance(bounds, str) or not isinstance(bounds, Sequence) or len(bounds) != 2:
        raise wrong(name, f"bounds are a pair (categories a list), got {bounds!r}")
    low, high = bounds
    return (
        None if isinstance(low, float) and low == -math.inf else low,
        None if isinstance(high, float) and high == math.inf else high,
    )


def _meant(given: Any, known: Sequence[str]) -> str:
    """A known word that is nearly the given one, as a question."""
    near = get_close_matches(str(given), known, 1)
    return f" (is {near[0]!r} meant?)" if near else ""


def refuse_blanks(columns: Mapping[Any, Any]) -> None:
    """Raise for a draft of which not all is completed; name every place.

    Examples
    --------
    >>> refuse_blanks({"age": {"type": "int", "bounds": "?", "missing": "?"}, "sex": ["f", "m"]})
    Traceback (most recent call last):
    ValueError: the schema is a draft: complete every "?", of age (bounds, missing)
    """
    blank = {
        name: [str(key) for key, value in given.items() if _is_blank(key, value)]
        for name, given in columns.items()
        if isinstance(given, Mapping)
    }
    said = [f"{name} ({', '.join(keys)})" for name, keys in blank.items() if keys]
    if said:
        raise ValueError(f'the schema is a draft: complete every "?", of {", ".join(said)}')


def _is_blank(key: Any, value: Any) -> bool:
    ends = value if key == "bounds" and isinstance(value, list | tuple) else [value]
    return any(isinstance(end, str) and end == BLANK for end in ends)


def refuse_name(name: Any, column: Column | None) -> None:
    """Raise for what can be no name of a column, or of one that is left out (``None``)."""
    if not isinstance(name, str):
        raise TypeError(f"names of columns are text, got {name!r}")
    if not name and column is not None:
        raise ValueError(
            "a column without a name can only be left out: declare it as None "
            '(\'"" = {type = "skip"}\' in files), or give it a name in the table'
        )
    refuse_text(name, name)
    if name == "*" or (name.startswith("^") and name.endswith("$")):
        raise ValueError(f"column {name!r}: polars takes this name for a pattern; rename it")


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
