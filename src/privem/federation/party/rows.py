"""A party's rows: numbers with a target as their last column, codes of categories, or cells."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from ...data import LocalSource, Policy, Table, open_table
from ...data.columns import Number, wrong
from ...data.kinds import framed
from ...data.mixed import undeclared, unpacked
from ...models.table_mixture.reading import refuse_open, schema_of
from ...schema import Schema
from ..agreement import Agreement
from .memory import fingerprint

Categories = tuple[tuple[Any, ...], ...]


@dataclass(frozen=True)
class PartyRows:
    """A party's rows, and what their columns mean."""

    table: Table
    categories: Categories | None = None
    """Of each column, where rows are codes."""
    undeclared: bool = False
    """Whether there are values that are none of the categories, or that the schema does not
    allow. Secret."""

    @classmethod
    def of(
        cls,
        rows: Any,
        y: Any,
        categories: Any,
        groups: Any,
        header: bool | None = None,
        schema: Any = None,
        weight: Any = None,
    ) -> PartyRows:
        """Read whatever a party is given. Errors are for its owner alone."""
        if schema is not None:
            if y is not None or categories is not None:
                raise ValueError("a schema says all about the columns: no y= and no categories=")
            return cls._of_cells(rows, weight, groups, header, schema)
        coded = categories is not None
        if coded and y is not None:
            raise ValueError("rows of categories have no target: y=None")
        policy = Policy(
            party=True,
            target=y is not None,
            sparse=True,
            coded=coded,
            categories=categories,
            header=header,
        )
        table = open_table(rows, y, weight, groups, policy)
        if table.categories is None:
            return cls(table)
        return cls(table, plain_categories(table.categories), bool((table.rows.X < 0).any()))

    @classmethod
    def _of_cells(
        cls, rows: Any, weight: Any, groups: Any, header: bool | None, schema: Any
    ) -> PartyRows:
        """Rows of mixed columns, as numbers of the cells that their schema cuts them into."""
        policy = Policy(party=True, header=header)
        rows, weight, groups = unpacked(rows, weight, groups)
        table = framed(rows, policy)
        known = schema_of(schema, table, [n for n in (weight, groups) if isinstance(n, str)])
        assert known is not None
        refuse_open(known)
        opened = open_table(table, None, weight, groups, replace(policy, schema=known))
        return cls(opened, undeclared=undeclared(table, header, opened.schema))

    @property
    def schema(self) -> str:
        """What the columns are, as it is agreed on; empty where rows are no cells."""
        known = self.table.schema
        return "" if known is None else as_agreed(known)

    @property
    def weighted(self) -> bool:
        """Whether records have weights."""
        return self.table.people.weighted

    @property
    def persons(self) -> bool:
        """Whether persons are hidden, rather than records."""
        return self.table.owned is not None

    def unlike(self, agreement: Agreement) -> str:
        """How the rows differ from what was agreed, in words; empty if they do not."""
        if self.weighted and not agreement.weighted:
            return "its rows have weights, the agreement has none"
        if self.table.target != agreement.target:
            have = ("a target, the agreement has none", "no target (y=), the agreement has one")
            return f"its rows have {have[0 if self.table.target else 1]}"
        if self.persons != agreement.persons:
            have = ("persons (groups=), the agreement is about records", "no persons (groups=)")
            return f"its rows have {have[0 if self.persons else 1]}"
        if self.categories != agreement.categories:
            return "its rows have other categories= than were agreed on"
        if self.schema != agreement.schema:
            return "its rows have another schema=, or columns of other types, than were agreed on"
        return ""

    def drawn_by(self, draw: Callable[[int], bytes]) -> PartyRows:
        """The same rows; the one row that stands for a person is drawn from these bytes."""
        owned = self.table.owned
        if owned is None:
            return self
        return replace(self, table=replace(self.table, owned=owned.drawn_by(draw)))

    @property
    def fingerprint(self) -> bytes:
        """A hash of all rows, as they are now. Secret."""
        rows, owned = self.table.rows, self.table.owned
        return fingerprint(rows) if owned is None else fingerprint(owned.rows, owned.owner)

    def source(self, private: bool, n_jobs: int | None, key: bytes) -> LocalSource:
        """What answers questions; in private questions each person counts once.

        Records draw their cells from ``key``.
        """
        table = self.table if private else replace(self.table, owned=None)
        source = table.source(n_jobs, key)
        assert isinstance(source, LocalSource)  # which can say what a sum is before its noise
        return source


def plain_categories(given: Any) -> Categories:
    """Categories of each column as plain values, as they are agreed on."""
    found = tuple(tuple(np.asarray(part, dtype=object).tolist()) for part in given)
    for value in (value for part in found for value in part):
        if not isinstance(value, str | int | float) or value in (np.inf, -np.inf) or value != value:
            raise ValueError(f"a category is text or a finite number, not {value!r}")
    return found


def code_bounds(categories: Categories) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Bounds of the codes of such columns; -1 stands for none of the categories."""
    return tuple(-1.0 for _ in categories), tuple(len(part) - 1.0 for part in categories)


def as_agreed(schema: Schema) -> str:
    """A schema with the types of its columns, as an agreement holds it; their order counts."""
    return json.dumps(schema.to_dict())


def typed(schema: Schema) -> Schema:
    """A schema as parties can agree on it before anybody has opened a table.

    All types follow from what is declared, and whoever joins must have columns that can hold them.
    So numbers have to be declared as whole ones or not: tables might differ about that.

    Examples
    --------
    >>> typed(Schema({"age": (int, 0, 99), "smoker": bool})).columns[0].dtype
    'int64'
    """
    refuse_open(schema)
    for column in schema.columns:
        if isinstance(column, Number) and column.whole is None:
            raise wrong(column.name, 'parties agree on a type: say type = "int" or "float"')
    return schema.for_types(dict.fromkeys(schema.names, pl.String()))


def cell_bounds(schema: str) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Bounds of the numbers of cells of such columns."""
    cells = Schema.from_dict(json.loads(schema)).cells
    return tuple(0.0 for _ in cells), tuple(each.cells - 1.0 for each in cells)


def column_bounds(bounds: Any, target_bounds: Any, d: int, target: bool) -> tuple[Any, Any]:
    """Bounds of all columns, a target's last."""
    if target_bounds is None:
        return _bounds(bounds, d)
    if not target or bounds is None:
        raise ValueError("target_bounds= go with bounds=, and with parties that have a target (y=)")
    (low, high), (least, most) = _bounds(bounds, d - 1), _bounds(target_bounds, 1)
    return (*low, *least), (*high, *most)


def _bounds(bounds: Any, d: int) -> tuple[Any, Any]:
    if bounds is None:
        return None, None
    try:
        low, high = (np.broadcast_to(np.asarray(b, dtype=np.float64), (d,)) for b in bounds)
    except (TypeError, ValueError):
        raise ValueError(f"bounds must be (low, high), numbers or {d} of them each") from None
    if not (np.isfinite(low).all() and np.isfinite(high).all() and (low < high).all()):
        raise ValueError("bounds must be finite, and low below high")
    return tuple(low.tolist()), tuple(high.tolist())
