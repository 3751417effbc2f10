"""What a column of a mixed table may be, as public knowledge, and the fine cells it is cut into.

A column is a :class:`Number`, a :class:`Moment` (a date or a time), a :class:`Flag` (yes or no) or
a :class:`Category`. Its cells depend on what is declared and on nothing else, so they are public:

- a number has at most 256 cells between its bounds, and cells of their own for the lower bound and
  for zero, where many records often have exactly that value;
- whole numbers of at most 256 values have one cell each, and so have dates and times; cells of
  more values have whole edges; numbers of so many decimals are whole numbers of a smaller unit;
- a flag has two cells, and a category has one;
- the last cell stands for a missing value, if some may be missing.

Columns are written as Python values (:class:`privem.Schema`) and as tables of files; ``as_dict``
gives the latter.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..linalg import LARGEST
from .categories import meaning
from .grid import number_starts, whole_starts

MOST_CATEGORIES = 10_000
# Whole numbers up to here are doubles without rounding.
LARGEST_WHOLE = 2**53
# The steps in which times are counted, in microseconds.
UNITS = {
    "day": 86_400_000_000,
    "hour": 3_600_000_000,
    "minute": 60_000_000,
    "second": 1_000_000,
    "millisecond": 1_000,
    "microsecond": 1,
}
_EPOCH = datetime(1970, 1, 1)


@dataclass(frozen=True)
class Number:
    """A column of numbers between two bounds, which may be unknown as yet.

    Examples
    --------
    >>> Number("age", 15, 95, whole=True).size, Number("debt", -10.0, 10.0).size
    (81, 258)
    """

    name: str
    low: float | None = None
    high: float | None = None
    whole: bool | None = None
    """Whether only whole numbers occur; ``None``: if the table that is fitted declares so."""
    missing: bool = False
    dtype: str | None = None
    """The type of the column in synthetic tables, if that of a fitted table is known."""
    decimals: int | None = None
    """How many digits numbers have behind the point; ``None``: all that there are."""
    ordered: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.decimals is not None:
            self._check_decimals()
        if self.low is None or self.high is None:
            return
        low, high = _number(self.name, self.low), _number(self.name, self.high)
        if self.whole:
            if low != math.floor(low) or high != math.floor(high):
                raise wrong(self.name, f"bounds of whole numbers are whole, got {low}, {high}")
            if max(-low, high) > LARGEST_WHOLE:
                raise wrong(self.name, "bounds of whole numbers lie between -2**53 and 2**53")
            low, high = int(low), int(high)
        _refuse_swapped(self.name, low, high)
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "high", high)
        if self.units is not None:
            first, last = self.units
            if first >= last:
                raise wrong(self.name, f"no two numbers of {self.decimals} decimals in its bounds")
            if max(-first, last) > LARGEST_WHOLE:
                raise wrong(self.name, f"its bounds are too large for {self.decimals} decimals")

    def _check_decimals(self) -> None:
        if isinstance(self.decimals, bool) or not isinstance(self.decimals, int):
            raise wrong(self.name, f"decimals is a whole number, got {self.decimals!r}")
        if not 0 <= self.decimals <= 15:
            raise wrong(self.name, f"decimals is between 0 and 15, got {self.decimals}")
        if self.whole:
            raise wrong(self.name, "whole numbers have no decimals")

    @property
    def scale(self) -> int | None:
        """Units in one: numbers are whole multiples of a unit, if anything is said about that."""
        if self.whole:
            return 1
        return None if self.decimals is None else 10**self.decimals

    @property
    def units(self) -> tuple[int, int] | None:
        """The bounds in units, the nearest ones inside."""
        if self.scale is None or self.low is None or self.high is None:
            return None
        low, high = (Fraction(str(end)) * self.scale for end in (self.low, self.high))
        return math.ceil(low), math.floor(high)

    @property
    def known(self) -> bool:
        """Whether there are bounds."""
        return self.low is not None

    @cached_property
    def starts(self) -> NDArray[np.float64]:
        """The smallest value of each cell, in ascending order; without the cell of the missing."""
        if self.low is None or self.high is None:
            raise wrong(self.name, "its bounds are not known yet: give them, or find them first")
        if self.units is not None:
            return np.array(whole_starts(*self.units, zero=True), np.float64) / (self.scale or 1)
        return number_starts(float(self.low), float(self.high))

    @property
    def size(self) -> int:
        """How many cells, the one for missing values included."""
        return len(self.starts) + self.missing

    def as_dict(self) -> dict[str, Any]:
        """The column as in a file."""
        kind = {} if self.whole is None else {"type": "int" if self.whole else "float"}
        bounds = {"bounds": [self.low, self.high]} if self.known else {}
        digits = {} if self.decimals is None else {"decimals": self.decimals}
        return kind | bounds | digits | _common(self)

    def spelled(self) -> str:
        """The column as in Python."""
        if self.decimals is not None:
            more = ("missing", "dtype")
            return repr({key: value for key, value in self.as_dict().items() if key not in more})
        kind = "int" if self.whole else "float"
        if not self.known:
            return kind
        return f"({kind + ', ' if self.whole is not None else ''}{self.low!r}, {self.high!r})"


@dataclass(frozen=True)
class Moment:
    """A column of dates, or of times of a declared resolution, between two bounds.

    Times with a time zone are compared as UTC.

    Examples
    --------
    >>> Moment.between("admitted", "2019-01-01", "2019-01-31").size
    31
    >>> Moment.between("seen", "2019-01-01T00:00", "2019-12-31T23:59").unit
    'minute'
    """

    name: str
    low: int
    """The bounds, in units since the beginning of 1970."""
    high: int
    unit: str
    """How fine times are: a key of ``UNITS``. A day is a date."""
    utc: bool = False
    """Whether times come back as UTC, if no fitted table says what they are."""
    format: str | None = None
    """How they are written where they are text, if not in one of the usual ways."""
    missing: bool = False
    dtype: str | None = None
    ordered: ClassVar[bool] = True
    known: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.low >= self.high:
            low, high = self.written(self.low), self.written(self.high)
            raise wrong(self.name, f"the first bound, {low}, must be before the second, {high}")
        if self.format is not None and not (isinstance(self.format, str) and "%" in self.format):
            raise wrong(self.name, f"format is like '%m/%d/%Y', got {self.format!r}")

    @classmethod
    def between(cls, name: str, low: Any, high: Any, **more: Any) -> Moment:
        """A column between two dates or times; they are as fine as these are written.

        ``kind`` says ``"date"`` or ``"datetime"``, if the bounds alone do not.
        """
        kind = more.pop("kind", None)
        first, second = (_moment(name, value) for value in (low, high))
        unit = min(first[1], second[1], key=lambda unit: UNITS[unit])
        if kind == "date" and unit != "day":
            raise wrong(name, f"bounds of dates have no time of day, got {low!r}, {high!r}")
        if kind == "datetime" and unit == "day":
            unit = "second"
        step = timedelta(microseconds=UNITS[unit])
        start, end = ((when - _EPOCH) // step for when, *_ in (first, second))
        return cls(name, start, end, unit, first[2] or second[2], **more)

    @cached_property
    def starts(self) -> NDArray[np.int64]:
        """The first date or time of each cell, in units since 1970."""
        return np.array(whole_starts(self.low, self.high, zero=False), np.int64)

    @property
    def size(self) -> int:
        """How many cells, the one for missing values included."""
        return len(self.starts) + self.missing

    def written(self, ticks: int) -> str:
        """A date or a time as text, as fine as the column is."""
        when = _EPOCH + timedelta(microseconds=ticks * UNITS[self.unit])
        if self.unit == "day":
            return when.date().isoformat()
        return when.isoformat(timespec=f"{self.unit}s") + ("Z" if self.utc else "")

    def as_dict(self) -> dict[str, Any]:
        """The column as in a file."""
        bounds = [self.written(self.low), self.written(self.high)]
        form = {} if self.format is None else {"format": self.format}
        kind = "date" if self.unit == "day" else "datetime"
        return {"type": kind, "bounds": bounds} | form | _common(self)

    def spelled(self) -> str:
        """The column as in Python."""
        if self.format is not None:
            return repr({key: v for key, v in self.as_dict().items() if key not in _COMMON})
        return repr((self.written(self.low), self.written(self.high)))


@dataclass(frozen=True)
class Flag:
    """A column of yes and no.

    Examples
    --------
    >>> Flag("smoker", missing=True).size
    3
    """

    name: str
    missing: bool = False
    dtype: str | None = None
    ordered: ClassVar[bool] = False
    known: ClassVar[bool] = True

    @property
    def size(self) -> int:
        """How many cells, the one for missing values included."""
        return 2 + self.missing

    def as_dict(self) -> dict[str, Any]:
        """The column as in a file."""
        return {"type": "bool"} | _common(self)

    def spelled(self) -> str:
        """The column as in Python."""
        return "bool"


@dataclass(frozen=True)
class Category:
    """A column of categories, which may be unknown as yet.

    Examples
    --------
    >>> Category("sex", ("Female", "Male")).size
    2
    """

    name: str
    values: tuple[Any, ...] | None = None
    missing: bool = False
    dtype: str | None = None
    ordered: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.values is None:
            return
        values = tuple(v.item() if isinstance(v, np.generic) else v for v in self.values)
        object.__setattr__(self, "values", values)
        for value in values:
            if not isinstance(value, str | int | float) or value != value:
                raise wrong(self.name, f"a category is text or a number, got {value!r}")
            refuse_text(self.name, value)
        if len(values) < 2:
            raise wrong(self.name, "there must be at least two categories")
        if len(values) > MOST_CATEGORIES:
            raise wrong(self.name, f"{len(values):,} categories; at most {MOST_CATEGORIES:,} work")
        seen: dict[Any, Any] = {}
        for value in values:
            key = category_key(value)
            if key in seen:
                twice = "twice" if seen[key] == value else f"and {seen[key]!r}: they mean the same"
                raise wrong(self.name, f"the categories hold {value!r} {twice}")
            seen[key] = value

    @property
    def known(self) -> bool:
        """Whether there are categories."""
        return self.values is not None

    @property
    def size(self) -> int:
        """How many cells, the one for missing values included."""
        if self.values is None:
            raise wrong(
                self.name, "its categories are not known yet: give them, or find them first"
            )
        return len(self.values) + self.missing

    @property
    def numbers(self) -> bool:
        """Whether all categories are numbers."""
        return not any(isinstance(value, str) for value in self.values or ())

    def as_dict(self) -> dict[str, Any]:
        """The column as in a file."""
        known = {"type": "str"} if self.values is None else {"categories": list(self.values)}
        return known | _common(self)

    def spelled(self) -> str:
        """The column as in Python."""
        return "str" if self.values is None else repr(list(self.values))


Column = Number | Moment | Flag | Category
_COMMON = ("missing", "dtype")


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


def _common(column: Column) -> dict[str, Any]:
    said = {"missing": True} if column.missing else {}
    return said | ({} if column.dtype is None else {"dtype": column.dtype})


def wrong(name: str, what: str) -> ValueError:
    """The error that a column is declared wrongly."""
    return ValueError(f"column {name!r}: {what}")


def _number(name: str, value: Any) -> Any:
    """A bound, as it was given; raises if it can be none."""
    plain = value.item() if isinstance(value, np.generic) else value
    if isinstance(plain, bool) or not isinstance(plain, int | float):
        raise wrong(name, f"bounds are two numbers, got {value!r}")
    if not abs(plain) <= LARGEST:  # not for NaN either
        raise wrong(name, f"bounds are finite, at most {LARGEST:.2g} in size, got {value!r}")
    return plain


def _refuse_swapped(name: str, low: float, high: float) -> None:
    if low >= high:
        raise wrong(name, f"the lower bound, {low}, must be below the upper bound, {high}")


# After the date, the parts of a time as far as they are written; and what is no part of it.
_TIME = re.compile(r"[T ]\d\d(:?\d\d)?(:?\d\d)?([.,]\d{1,6})?")
_ZONE = re.compile(r"(Z|[+-]\d\d(:?\d\d)?)$")


def _moment(name: str, value: Any) -> tuple[datetime, str, bool]:
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
