"""What is publicly known to hold between columns: ``a <= b``, and ``a -> b`` (a determines b).

A constraint is about records in which both values are there; a missing value breaks none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from .cells import cell, read
from .columns import Column, Moment, Number, wrong
from .decode import limits
from .mixed import as_text
from .wording import allows

_SIGN = re.compile(r"->|<=|>=")
_FORMS = (
    '"years_employed <= age" (numbers, dates or times), "education -> education_num" (the first '
    'determines the second), or {"education -> education_num": {"Masters": 14, ...}}'
)


@dataclass(frozen=True)
class AtMost:
    """One column is never above another.

    Examples
    --------
    >>> AtMost("years_employed", "age").written()
    'years_employed <= age'
    """

    smaller: str
    larger: str

    @property
    def names(self) -> tuple[str, str]:
        """Of both columns."""
        return self.smaller, self.larger

    def written(self) -> str:
        """The constraint as in Python and in files."""
        return f"{self.smaller} <= {self.larger}"


@dataclass(frozen=True)
class Determines:
    """One column determines another, by a table that may be known."""

    first: str
    second: str
    table: tuple[tuple[str, Any], ...] | None = None
    """Values of both columns, a pair for each value of the first."""

    @property
    def names(self) -> tuple[str, str]:
        """Of both columns."""
        return self.first, self.second

    def written(self) -> str | dict[str, dict[str, Any]]:
        """The constraint as in Python and in files."""
        said = f"{self.first} -> {self.second}"
        return said if self.table is None else {said: dict(self.table)}


Constraint = AtMost | Determines


def constraints_of(given: Any, columns: Sequence[Column]) -> tuple[Constraint, ...]:
    """Constraints by what a person writes.

    Examples
    --------
    >>> columns = [Number("a", 0, 9), Number("b", 0, 9)]
    >>> constraints_of(["a >= b"], columns)
    (AtMost(smaller='b', larger='a'),)
    """
    if isinstance(given, str | Mapping) or not isinstance(given, Iterable):
        raise TypeError(f"constraints are a list of {_FORMS}; got {given!r}")
    known = {column.name: column for column in columns}
    return tuple(_constraint(each, known) for each in given)


def check(constraints: Sequence[Constraint], columns: Sequence[Column]) -> None:
    """Raise for constraints that cannot be kept, alone or together.

    What is not known yet (bounds, whether numbers are whole) is checked when it is.
    """
    known = {column.name: column for column in columns}
    pairs = [constraint.names for constraint in constraints]
    for constraint in constraints:
        one, other = (known[name] for name in constraint.names)
        if pairs.count(constraint.names) + pairs.count(constraint.names[::-1]) > 1:
            raise _wrong(constraint, "another constraint is about the same columns: keep one")
        if isinstance(constraint, AtMost):
            _refuse_incomparable(constraint, one, other)
            if _is_bounded(one) and _is_bounded(other) and one.low > other.high:  # type: ignore[union-attr, operator]
                raise _wrong(constraint, "by their bounds, it never holds")
        else:
            for column in (one, other):
                if not _is_exact(column):
                    raise _wrong(
                        constraint,
                        f"column {column.name!r} must be of categories, yes or no, or whole "
                        "numbers or dates of at most 256 values, with bounds",
                    )
            if constraint.table is not None:
                _refuse_table(constraint, one, other)
    _refuse_tangled(constraints)


def _constraint(given: Any, columns: Mapping[str, Column]) -> Constraint:
    text, table = given, None
    if isinstance(given, Mapping) and len(given) == 1:
        text, table = next(iter(given.items()))
        if not isinstance(table, Mapping):
            raise ValueError(f"constraint {text!r}: expected a table of values, got {table!r}")
    if not isinstance(text, str):
        raise ValueError(f"a constraint is {_FORMS}; got {given!r}")
    # A name may itself hold a sign.
    halves = [
        (text[: at.start()].strip(), at[0], text[at.end() :].strip()) for at in _SIGN.finditer(text)
    ]
    named = [half for half in halves if half[0] in columns and half[2] in columns]
    if not named:
        unknown = [name for half in halves[:1] for name in half[::2] if name not in columns]
        why = f"the schema has no column {unknown[0]!r}" if unknown else f"expected {_FORMS}"
        raise ValueError(f"constraint {text!r}: {why}")
    left, sign, right = named[0]
    if left == right:
        raise ValueError(f"constraint {text!r} is about one column only")
    if sign == "->":
        return Determines(left, right, None if table is None else _rows(table))
    if table is not None:
        raise ValueError(f"constraint {text!r}: only a -> b has a table of values")
    return AtMost(left, right) if sign == "<=" else AtMost(right, left)


def _rows(table: Mapping[Any, Any]) -> tuple[tuple[str, Any], ...]:
    """A table as files can hold it: the first values are text there."""
    plain = str | int | float | bool
    return tuple(
        (as_text(a) or "", b if isinstance(b, plain) else as_text(b)) for a, b in table.items()
    )


def _is_bounded(column: Column) -> bool:
    return isinstance(column, Number | Moment) and column.known


def _refuse_incomparable(constraint: AtMost, one: Column, other: Column) -> None:
    if isinstance(one, Number) and isinstance(other, Number):
        if _is_settled(one) and _is_settled(other) and one.scale != other.scale:
            raise _wrong(
                constraint,
                "one column has whole numbers, or so many decimals, and the other has not: declare "
                "both alike",
            )
        kinds = {one.dtype, other.dtype}
        if one.decimals is not None and "float32" in kinds and len(kinds - {None}) > 1:
            raise _wrong(constraint, "their decimals are of different precision: convert one")
    elif isinstance(one, Moment) and isinstance(other, Moment):
        if one.unit != other.unit:
            raise _wrong(
                constraint, f"one column is in steps of a {one.unit}, the other of a {other.unit}"
            )
    else:
        raise _wrong(
            constraint, "only numbers can be compared with numbers, and dates or times with such"
        )


def _is_settled(column: Number) -> bool:
    """Whether it is known in what units numbers are."""
    return column.whole is not None or column.decimals is not None


def _is_exact(column: Column) -> bool:
    """Whether each cell of a column is one value, or may be when more is known."""
    if isinstance(column, Moment) or (isinstance(column, Number) and column.scale is not None):
        return column.known and bool(np.equal(*limits(column)).all())
    return not isinstance(column, Number) or (column.whole is None and column.known)


def _refuse_table(constraint: Determines, one: Column, other: Column) -> None:
    for column in (one, other):
        if not column.known:
            raise _wrong(constraint, f"a table needs the categories of {column.name!r}")
        if isinstance(column, Number) and not _is_settled(column):
            return  # not known before there is a table
    try:
        keys, _ = table_cells(constraint, one, other)
    except ValueError as problem:
        raise _wrong(constraint, str(problem)) from None
    if len(set(keys)) < len(keys):
        raise _wrong(constraint, "the table names a value twice")
    lacking = one.size - one.missing - len(keys)
    if lacking:
        raise _wrong(
            constraint, f"the table says nothing of {lacking} values of {one.name!r}: it needs all"
        )


def table_cells(constraint: Determines, one: Column, other: Column) -> tuple[list[int], list[int]]:
    """Cells of the values of a known table, of both columns."""
    rows = constraint.table or ()
    return _cells(one, [a for a, _ in rows]), _cells(other, [b for _, b in rows])


def _cells(column: Column, values: Sequence[Any]) -> list[int]:
    series = pl.Series(column.name, [as_text(value) for value in values], pl.String)
    found = read(column, series)[0]
    if isinstance(column, Number | Moment):
        found = found.set(~found.is_between(column.starts[0], column.high), None)
    for value, known in zip(values, found, strict=True):
        if known is None:
            raise wrong(column.name, f"{value!r} is not one of its values, {allows(column)}")
    return pl.DataFrame([series]).select(cell(column)).to_series().to_list()


def _refuse_tangled(constraints: Sequence[Constraint]) -> None:
    """Raise unless inequalities form a forest, and what is determined hangs from it as leaves."""
    compared = {name for each in constraints if isinstance(each, AtMost) for name in each.names}
    above: dict[str, str] = {}
    for constraint in constraints:
        if not isinstance(constraint, Determines):
            continue
        if constraint.second in above:
            raise _wrong(constraint, f"{above[constraint.second]!r} determines the second already")
        if constraint.second in compared:
            raise _wrong(
                constraint, f"{constraint.second!r} is determined, so it cannot be compared as well"
            )
        above[constraint.second] = constraint.first
        at = constraint.first
        while at in above:
            at = above[at]
            if at == constraint.second:
                raise _wrong(constraint, "it closes a circle: leave one of its constraints out")
    group: dict[str, set[str]] = {name: {name} for name in compared}
    for constraint in constraints:
        if isinstance(constraint, AtMost):
            one, other = (group[name] for name in constraint.names)
            if one is other:
                raise _wrong(
                    constraint,
                    "it closes a circle with others: leave it out if they imply it; circles of "
                    "inequalities are not possible otherwise",
                )
            joined = one | other
            group.update(dict.fromkeys(joined, joined))


def _wrong(constraint: Constraint, what: str) -> ValueError:
    sign = " <= " if isinstance(constraint, AtMost) else " -> "
    return ValueError(f"constraint {sign.join(constraint.names)!r}: {what}")
