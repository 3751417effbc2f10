"""What a schema leaves open, found by releases: bounds of numbers, and categories.

Bounds are found as for all models (:mod:`privem.bounds`), of the open columns alone. Categories are
the values whose noisy count reaches a threshold (:mod:`privem.blocks.thresholds`); all others count
as one more category. Both are paid out of the budget, and what is not found stops the fit.

Until then, open columns of the rows hold numbers that are no cells (:mod:`privem.data.raw`). What
was found says how to cut them, and :class:`CutQuery` does so before anything is counted.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from ...blocks.thresholds import Thresholded, ValuesQuery
from ...bounds import box, box_parts, estimated
from ...budget import Part
from ...core import Block, Group, Release, Scratch, Stage
from ...data.cells import Cells
from ...data.columns import MOST_CATEGORIES, Column, category_key
from ...data.grid import MOST_CELLS
from ...data.raw import Cut, is_open
from ...ground import Ground
from ...parameters import BoundsNotFound, Wanted
from ...schema import Schema
from .tables import CellCountsQuery, TablesQuery

T = TypeVar("T")
Stages = Generator[Stage, Release[Any], T]

# Of the budget, and of delta: categories that nobody listed.
_SHARE, _FAILURE = 0.1, 0.1
# What all values are called that are not found.
_OTHER = "other"


class _Inner:
    """A query about records that are changed one by one, so that all bounds on it hold."""

    query: Any

    @property
    def block_rows(self) -> int:
        """As the query."""
        return int(self.query.block_rows)

    @property
    def least_rows(self) -> int:
        """As the query."""
        return int(getattr(self.query, "least_rows", 1))

    @property
    def cap_weight(self) -> float:
        """As the query."""
        return float(getattr(self.query, "cap_weight", 1.0))

    @property
    def view(self) -> str:
        """As the query."""
        return str(getattr(self.query, "view", "rows"))

    def groups(self, neighbours: str) -> Sequence[Group]:
        """Those of the query: whatever records are changed to, they are records."""
        groups: Sequence[Group] = self.query.groups(neighbours)
        return groups

    def rounding(self, rows: float) -> float:
        """That of the query."""
        return float(self.query.rounding(rows))


@dataclass(frozen=True)
class CutQuery(_Inner):
    """A query about cells, of rows in which some columns are yet to be cut into cells.

    Examples
    --------
    >>> from privem.data.columns import Number
    >>> cuts = (Cut.of(Number("age", 0, 9, whole=True)), None)
    >>> query = CutQuery(CellCountsQuery((10, 2)), cuts)
    >>> query(Block(np.array([[7.0, 1.0], [99.0, 0.0]])), Scratch()).counts
    array([0., 0., 0., 0., 0., 0., 0., 1., 0., 1., 1., 1.])
    """

    query: CellCountsQuery | TablesQuery
    cuts: tuple[Cut | None, ...]

    def __call__(self, block: Block, scratch: Scratch) -> Any:
        """Sum a block."""
        cells = np.array(block.X, dtype=np.float64)
        for j, cut in enumerate(self.cuts):
            if cut is not None:
                cells[:, j] = cut(cells[:, j])
        return self.query(replace(block, X=cells), scratch)


@dataclass(frozen=True)
class ColumnsQuery(_Inner):
    """A query about some of the columns.

    Examples
    --------
    >>> from privem.blocks.histograms import OutsideQuery
    >>> query = ColumnsQuery(OutsideQuery((1,), np.zeros(1), np.ones(1)), (1,))
    >>> query(Block(np.array([[9.0, 0.0], [0.0, 5.0]])), Scratch()).counts
    array([1.])
    """

    query: Any
    columns: tuple[int, ...]

    def __call__(self, block: Block, scratch: Scratch) -> Any:
        """Sum a block."""
        return self.query(replace(block, X=np.asarray(block.X)[:, list(self.columns)]), scratch)


@dataclass(frozen=True)
class Complete:
    """A schema of which all is known, and how rows that were read before that are cut. Public."""

    schema: Schema
    cuts: tuple[Cut | None, ...] = ()
    outside: float | None = None
    """What share of records may lie outside of bounds that were found; ``None``: all were given."""
    known: tuple[tuple[str, str], ...] = ()
    """What a statement says of it."""

    def cut(self, query: CellCountsQuery | TablesQuery) -> Any:
        """A query about cells, for these rows."""
        return CutQuery(query, self.cuts) if any(self.cuts) else query


@dataclass(frozen=True)
class Finding:
    """How bounds and categories that a schema leaves open are found.

    Parameters
    ----------
    schema : Schema
    delta : float
        Of the whole fit.
    """

    schema: Schema
    delta: float

    def parts(self) -> list[Part]:
        """The parts of the allowance spent here."""
        numbers, texts = self.schema.without_bounds, self.schema.without_categories
        parts = box_parts(len(numbers)) if numbers else []
        if texts:
            # Replacing a record moves two counts of each column.
            releases = [("gaussian", 2 * len(texts))]
            parts.append(Part("categories", _SHARE, releases, self.delta * _FAILURE))
        return parts

    @property
    def most(self) -> tuple[Cells, ...]:
        """The cells of each column; where they are not known yet, the most that there may be."""
        return tuple(_most(column) for column in self.schema.columns)

    def stages(self, ground: Ground) -> Stages[Complete]:
        """Generate the stages: none where the schema leaves nothing open."""
        found = Complete(self.schema)
        if self.schema.without_bounds:
            found = yield from self._bounds(found, ground)
        texts: dict[str, dict[str, int]] = {}
        if self.schema.without_categories:
            found, texts = yield from self._categories(found, ground)
        cuts = [
            Cut.of(column, texts.get(column.name)) if is_open(before) else None
            for before, column in zip(self.schema.columns, found.schema.columns, strict=True)
        ]
        return replace(found, cuts=tuple(cuts))

    def _bounds(self, found: Complete, ground: Ground) -> Stages[Complete]:
        names = self.schema.without_bounds
        columns = tuple(self.schema.names.index(name) for name in names)
        about = (ground.count, ground.weighted, ground.rows, ground.excess)
        wanted = Wanted(names, [True] * len(names), *about, give="bounds in the schema")
        sides = yield from _asked(
            box(wanted, None, ground.allowance), lambda query: ColumnsQuery(query, columns)
        )
        low, high = sides.low.tolist(), sides.high.tolist()
        bounds = {name: (low[j], high[j]) for j, name in enumerate(names)}
        try:
            schema = found.schema.with_bounds(bounds)
        except ValueError as problem:  # a constraint that no record between these bounds meets
            raise BoundsNotFound(
                f"{problem}. Bounds were found by noisy counts: give those of its columns in the "
                "schema, or leave the constraint out if records do not keep it",
                tuple(names),
            ) from None
        said = (f"bounds of {', '.join(names)}", estimated(sides.outside))
        return replace(found, schema=schema, outside=sides.outside, known=(*found.known, said))

    def _categories(
        self, found: Complete, ground: Ground
    ) -> Stages[tuple[Complete, dict[str, dict[str, int]]]]:
        """The schema with categories; and the cell of each text that was found, of each column."""
        names = self.schema.without_categories
        noise = Thresholded(
            ground.allowance.noise("categories", ground.rows),
            self.delta * _FAILURE,
            MOST_CATEGORIES - 1,
        )
        query = ValuesQuery(tuple(names))
        least = noise.threshold(query)
        release: Release[Any] = yield Stage(query, noise, "categories")
        listed = dict(zip(names, release.statistics.names, strict=True))
        lost = [name for name in names if not listed[name]]
        if lost:
            raise BoundsNotFound(
                f"no category of column{'s' * (len(lost) > 1)} {', '.join(lost)} stands out of the "
                f"noise, for which about {least:,.0f} records must have it: give categories in the "
                "schema, or use more records or a larger epsilon",
                tuple(lost),
            )
        texts = {name: _placed(values) for name, values in listed.items()}
        categories = {name: _called(listed[name], texts[name]) for name in names}
        schema = found.schema.with_categories(categories, others=True)
        said = (
            f"categories of {', '.join(names)}",
            "found by noisy counts of the texts that occur, paid for: those of which a noisy count "
            f"says {least:,.0f} records or more. That of one record alone gets there with a "
            f"probability of at most {noise.failure:g}, which is part of delta. All other texts "
            "count as the last category",
        )
        return replace(found, schema=schema, known=(*found.known, said)), texts


def _asked(stages: Stages[T], change: Callable[[Any], Any]) -> Stages[T]:
    """The same stages, of changed queries."""
    try:
        stage = next(stages)
        while True:
            release = yield replace(stage, query=change(stage.query))
            stage = stages.send(release)
    except StopIteration as end:
        result: T = end.value
        return result


def _placed(values: Sequence[str]) -> dict[str, int]:
    """The category of each text: those that mean the same, as 1 and 1.0 do, share one."""
    keys: dict[Any, int] = {}
    return {text: keys.setdefault(category_key(text), len(keys)) for text in values}


def _called(values: Sequence[str], placed: dict[str, int]) -> list[str]:
    """The categories, by the first text of each; the last is for all other values."""
    firsts = {placed[text]: text for text in reversed(values)}
    other, taken = _OTHER, {category_key(text) for text in values}
    while other in taken:
        other = f"({other})"
    return [*(firsts[place] for place in sorted(firsts)), other]


def _most(column: Column) -> Cells:
    if not is_open(column):
        return Cells.of(column)
    # Between the bounds; the lower bound, zero and missing.
    most = MOST_CELLS + 2 if column.ordered else MOST_CATEGORIES
    return Cells(column.name, most + column.missing, column.ordered, column.missing)
