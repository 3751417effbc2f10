"""What a column of a mixed table may be, as public knowledge, and the fine cells it is cut into.

A column is a :class:`Number`, a :class:`Moment` (a date or a time), a :class:`Flag` (yes or no) or
a :class:`Category`. Its cells depend on what is declared and on nothing else, so they are public:

- a number has at most 256 cells between its bounds, finer ones near the lower bound and near zero,
  and cells of their own for these two, where many records often have exactly that value;
- whole numbers of at most 256 values have one cell each, and so have dates and times; cells of
  more values have whole edges; numbers of so many decimals are whole numbers of a smaller unit;
- a flag has two cells, and a category has one;
- the last cell stands for a missing value, if some may be missing.

Columns are written as Python values (:class:`privem.Schema`) and as tables of files; ``as_dict``
gives the latter.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import timedelta
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from .grid import number_starts, whole_starts
from .written import EPOCH, moment_of, number_of, refuse_swapped
from .written import UNITS as UNITS
from .written import category_key as category_key
from .written import refuse_text as refuse_text
from .written import wrong as wrong

MOST_CATEGORIES = 10_000
# Whole numbers up to here are doubles without rounding.
LARGEST_WHOLE = 2**53


@dataclass(frozen=True)
class Number:
    """A column of numbers between two bounds, of which one or both may be unknown as yet.

    Examples
    --------
    >>> Number("age", 15, 95, whole=True).size, Number("debt", -10.0, 10.0).size
    (81, 220)
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
        low, high = self._end(self.low), self._end(self.high)
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "high", high)
        if low is None or high is None:
            return
        refuse_swapped(self.name, low, high)
        if self.units is not None:
            first, last = self.units
            if first >= last:
                raise wrong(self.name, f"no two numbers of {self.decimals} decimals in its bounds")
            if max(-first, last) > LARGEST_WHOLE:
                raise wrong(self.name, f"its bounds are too large for {self.decimals} decimals")

    def _end(self, given: Any) -> float | None:
        """A bound; ``None``: to be found."""
        end: float | None = None if given is None else number_of(self.name, given)
        if end is None or not self.whole:
            return end
        if end != math.floor(end):
            raise wrong(self.name, f"bounds of whole numbers are whole, got {end}")
        if abs(end) > LARGEST_WHOLE:
            raise wrong(self.name, "bounds of whole numbers lie between -2**53 and 2**53")
        return int(end)

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
        return self.low is not None and self.high is not None

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
        bounds = {} if self._ends is None else {"bounds": list(self._ends)}
        digits = {} if self.decimals is None else {"decimals": self.decimals}
        return kind | bounds | digits | _common(self)

    def spelled(self) -> str:
        """The column as in Python."""
        if self.decimals is not None:
            more = ("missing", "dtype")
            return repr({key: value for key, value in self.as_dict().items() if key not in more})
        kind = "int" if self.whole else "float"
        if self._ends is None:
            return kind
        said = [None if math.isinf(end) else end for end in self._ends]
        return f"({kind + ', ' if self.whole is not None else ''}{said[0]!r}, {said[1]!r})"

    @property
    def _ends(self) -> tuple[float, float] | None:
        """The bounds as they are written: one that is not known is infinite."""
        if self.low is None and self.high is None:
            return None
        return (
            -math.inf if self.low is None else self.low,
            math.inf if self.high is None else self.high,
        )


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
        first, second = (moment_of(name, value) for value in (low, high))
        unit = min(first[1], second[1], key=lambda unit: UNITS[unit])
        if kind == "date" and unit != "day":
            raise wrong(name, f"bounds of dates have no time of day, got {low!r}, {high!r}")
        if kind == "datetime" and unit == "day":
            unit = "second"
        step = timedelta(microseconds=UNITS[unit])
        start, end = ((when - EPOCH) // step for when, *_ in (first, second))
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
        when = EPOCH + timedelta(microseconds=ticks * UNITS[self.unit])
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
    others: bool = False
    """Whether the last category stands for all values that are not listed."""
    ordered: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not isinstance(self.others, bool):
            raise wrong(self.name, f"others is true or false, got {self.others!r}")
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
        return known | ({"others": True} if self.others else {}) | _common(self)

    def spelled(self) -> str:
        """The column as in Python."""
        if self.others:
            return repr({key: v for key, v in self.as_dict().items() if key not in _COMMON})
        return "str" if self.values is None else repr(list(self.values))


Column = Number | Moment | Flag | Category
_COMMON = ("missing", "dtype")


def _common(column: Column) -> dict[str, Any]:
    said = {"missing": True} if column.missing else {}
    return said | ({} if column.dtype is None else {"dtype": column.dtype})
