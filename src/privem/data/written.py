"""Bounds and categories as people write them: what they mean, and what is refused."""

from __future__ import annotations

import math
import re
from datetime import UTC, date, datetime
from typing import Any

import numpy as np

from ..linalg import LARGEST
from .categories import meaning

# The steps in which times are counted, in microseconds.
UNITS = {
    "day": 86_400_000_000,
    "hour": 3_600_000_000,
    "minute": 60_000_000,
    "second": 1_000_000,
    "millisecond": 1_000,
    "microsecond": 1,
}
EPOCH = datetime(1970, 1, 1)


def wrong(name: str, what: str) -> ValueError:
    """The error that a column is declared wrongly."""
    return ValueError(f"column {name!r}: {what}")


def category_key(value: Any) -> Any:
    """What tells categories apart: the number that one is or spells, else its text, trimmed.

    Examples
    --------
    >>> category_key(" 1.0"), category_key(True), category_key("inf ")
    (1.0, 1.0, 'inf')
    """
    text = value.strip() if isinstance(value, str) else value
    key = meaning(text)
    return key if isinstance(key, str) or math.isfinite(key) else str(text)


def refuse_text(name: str, value: Any) -> None:
    """Raise for text that no file could hold."""
    if isinstance(value, str):
        try:
            value.encode("utf-8")
        except UnicodeEncodeError:
            raise wrong(name, f"{value!r} is no valid text (Unicode)") from None
    elif not abs(value) < 2**63:
        raise wrong(name, "categories that are numbers are finite, and below 2**63")


def number_of(name: str, value: Any) -> Any:
    """A bound, as it was given; raises if it can be none."""
    plain = value.item() if isinstance(value, np.generic) else value
    if isinstance(plain, bool) or not isinstance(plain, int | float):
        raise wrong(name, f"bounds are two numbers, got {value!r}")
    if not abs(plain) <= LARGEST:  # not for NaN either
        raise wrong(name, f"bounds are finite, at most {LARGEST:.2g} in size, got {value!r}")
    return plain


def refuse_swapped(name: str, low: float, high: float) -> None:
    """Raise for bounds that no two numbers lie between."""
    if low >= high:
        raise wrong(name, f"the lower bound, {low}, must be below the upper bound, {high}")


# After the date, the parts of a time as far as they are written; and what is no part of it.
_TIME = re.compile(r"[T ]\d\d(:?\d\d)?(:?\d\d)?([.,]\d{1,6})?")
_ZONE = re.compile(r"(Z|[+-]\d\d(:?\d\d)?)$")


def moment_of(name: str, value: Any) -> tuple[datetime, str, bool]:
    """A bound as a time without a zone, its unit, and whether it had a zone."""
    unit = "day"
    if isinstance(value, str):
        try:
            when = datetime.fromisoformat(value.strip())
        except ValueError:
            form = "'2025-01-31' or '2025-01-31T12:00'"
            raise wrong(name, f"dates and times are like {form}, got {value!r}") from None
        time = _TIME.search(_ZONE.sub("", value.strip()[8:]))
        if time is not None:
            written = (time[1], time[2], time[3], time[3] is not None and len(time[3]) > 4)
            unit = list(UNITS)[1 + sum(bool(part) for part in written)]
    elif isinstance(value, datetime):
        when, unit = value, "microsecond" if value.microsecond else "second"
    elif isinstance(value, date):
        when = datetime(value.year, value.month, value.day)
    else:
        raise wrong(name, f"bounds are two dates or times, got {value!r}")
    if when.tzinfo is None:
        return when, unit, False
    return when.astimezone(UTC).replace(tzinfo=None), unit, True
