"""Options that are small languages of their own: lists of columns, types, bounds, categories."""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence

from ..data.types import check_type
from .failures import UsageError

__all__ = ["categories_of", "columns_of", "limit_of", "limits_of", "types_of"]


def columns_of(options: Sequence[str] | None) -> list[str] | None:
    """Names between commas; a name with a comma in it goes in double quotes."""
    if not options:
        return None
    found: list[str] = []
    for text in options:
        names = _between_commas(text)
        if not names or not all(names):
            raise UsageError(f"--columns {text!r} does not name columns: expected a,b,c")
        found += names
    return found


def types_of(options: Sequence[str] | None) -> dict[str, str]:
    """``COLUMN=TYPE``, checked."""
    found: dict[str, str] = {}
    for text in options or ():
        column, equals, kind = text.rpartition("=")
        if not equals or column in found:
            raise UsageError(f"--type {text!r} is not COLUMN=TYPE, once per column")
        try:
            found[column] = check_type(kind)
        except ValueError as error:
            raise UsageError(f"--type {text!r}: {error}") from error
    return found


def limits_of(options: Sequence[str]) -> dict[str, tuple[float, float]]:
    """``COLUMN=LOW:HIGH``, checked."""
    found: dict[str, tuple[float, float]] = {}
    for text in options:
        column, equals, values = text.rpartition("=")
        try:
            low, high = (float(value) for value in values.split(":"))
        except ValueError:
            equals = ""
        if not equals or not column:
            raise UsageError(f"--bound {text!r} is not COLUMN=LOW:HIGH, two numbers")
        if not low < high:
            raise UsageError(f"--bound {text!r}: expected LOW below HIGH")
        if column in found:
            raise UsageError(f"--bound {text!r}: there is a bound of {column!r} already")
        found[column] = (low, high)
    return found


def limit_of(text: str | None) -> float | str | None:
    """A party's ``--epsilon``: a number above zero, ``none``, or nothing said."""
    if text is None:
        return None
    if text.lower() == "none":
        return "none"
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < math.inf:
        raise UsageError(f"--epsilon {text!r} is neither a number above 0 nor none")
    return value


def categories_of(options: Sequence[str]) -> dict[str, list[str]]:
    """``COLUMN=A,B,...``, checked; one with a comma in it goes in double quotes."""
    found: dict[str, list[str]] = {}
    for text in options:
        column, equals, values = text.partition("=")
        names = _between_commas(values)
        if not equals or column in found or not names or len(set(names)) < len(names):
            raise UsageError(
                f"--category {text!r} is not COLUMN=A,B,... with every category once, and once "
                "per column"
            )
        found[column] = names
    return found


def _between_commas(text: str) -> list[str]:
    return [name.strip() for name in next(csv.reader([text], skipinitialspace=True), [])]
