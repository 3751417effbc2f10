"""How a mixture of products is fitted privately: two releases, and arithmetic.

The number of records comes first, unless it is public; then what the schema leaves open; then
counts of cells, which make the bins; then tables of pairs of bins. The search that follows sees
these numbers only.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...budget import Allowance, Part
from ...core import Release, Stage
from ...ground import Ground, Preamble, PrivateFit
from ...run import given, held, settled
from .bins import Bins, Column, bin_columns
from .evidence import Evidence
from .finding import Complete, Finding
from .fitting import cells_share, classes_for, fit_tables, independent, pairs_pay
from .model import TableState
from .replay import Found
from .tables import CellCountsQuery, TablesQuery, all_pairs

# Of what the count leaves, where shares cannot be chosen after it.
_CELLS_SHARE = 0.1
# Categories never have more bins: those that stand out, the others, and the missing.
_MOST_LABELS = 66


@dataclass(frozen=True)
class TableFit(PrivateFit[TableState]):
    """What a private fit has found, and the schema that it is about."""

    complete: Complete | None = None


@dataclass(frozen=True)
class PrivateTables:
    """Count, counts of cells, tables of pairs; a mixture fitted to them.

    Where there are no pairs, where one class is asked for, and where noise would hide what tables
    say, columns are independent and counts of cells have all of the budget.

    Parameters
    ----------
    preamble : Preamble
    finding : Finding
        How what the schema leaves open is found.
    columns : sequence of Column
        Until that is found, with the most cells that there may be.
    target : int or None
    components : int or None
        Classes of each start; ``None``: as many as the noise allows.
    rng : Generator
        Where searches begin.
    """

    preamble: Preamble
    finding: Finding
    columns: Sequence[Column]
    target: int | None
    components: int | None
    rng: np.random.Generator

    @property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """Columns of each table."""
        return () if self.components == 1 else all_pairs(len(self.columns), self.target)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Cells of each column."""
        return tuple(column.cells for column in self.columns)

    def parts(self) -> list[Part]:
        """How the budget is shared out."""
        parts = [*self.preamble.parts(), *self.finding.parts()]
        left = 1.0 - sum(part.share for part in parts)
        cells = [("gaussian", sum(self.sizes))]
        if not self.pairs:
            return [*parts, Part("cells", left, cells)]
        tables = Part("tables", left * (1 - _CELLS_SHARE), [("gaussian", self._most_numbers)])
        return [*parts, Part("cells", left - tables.share, cells), tables]

    @property
    def _most_numbers(self) -> int:
        """The most numbers that the tables may have, whatever the bins will be."""
        most = [c.cells if c.ordered else min(c.cells, _MOST_LABELS) for c in self.columns]
        last = 1 if self.target is None else most[self.target]
        return last * sum(most[i] * most[j] for i, j in self.pairs)

    def stages(self, allowance: Allowance) -> Generator[Stage, Release[Any], TableFit]:
        """The plan."""
        ground = yield from self.preamble.stages(allowance)
        complete = yield from given(self.finding.stages(ground))
        known = replace(self, columns=complete.schema.cells)
        return (yield from known._fitted(ground, complete))

    def _fitted(
        self, ground: Ground, complete: Complete
    ) -> Generator[Stage, Release[Any], TableFit]:
        """Counts of cells, tables, and the search, once all of the schema is known."""
        allowance = ground.allowance
        if allowance.adaptive and self.pairs:
            shared = held(lambda: self._reshared(ground))
            ground = replace(ground, allowance=shared)
        query = CellCountsQuery(self.sizes, ground.cap_weight)
        cells = replace((yield ground.stage(complete.cut(query), "cells")), query=query)
        bins = held(lambda: self._bins(cells, ground))
        if not tables_asked(ground):
            state = independent(bins, cells, ground.count)
            return TableFit(state, ground, 1, "single", complete=complete)
        maps = tuple(tuple(each.bin_of.tolist()) for each in bins)
        question = TablesQuery(maps, self.pairs, self.target, ground.cap_weight)
        asked = yield ground.stage(complete.cut(question), "tables")
        tables = replace(asked, query=question)
        classes = self.components or held(lambda: classes_for(ground.count, tables.spread))
        evidence = Evidence.of(bins, cells, tables, ground.count)

        def search() -> Found:
            state = fit_tables(evidence, bins, self.target, classes, self.rng)
            return Found.of(state, evidence, self.target, classes)

        found = settled(search, lambda before: before.moved(evidence))
        return TableFit(found.state, ground, 2, complete=complete)

    def _reshared(self, ground: Ground) -> Allowance:
        """Shares of cells and tables by the noise that tables would have with all of it.

        Where that is too much, tables are not asked for, unless the number of classes was given,
        and cells have their share.
        """
        parts = {part.name: part for part in ground.allowance.parts}
        cells, tables = parts["cells"], parts["tables"]
        both = cells.share + tables.share
        whole = replace(tables, share=both)
        alone = replace(ground.allowance, parts=(whole,))
        coming = self._coming(replace(ground, allowance=alone))
        if self.components is None and not pairs_pay(ground.count, coming):
            return ground.allowance.merged("cells", "tables")
        share = cells_share(ground.count, coming)
        first = both * share
        return ground.allowance.reshared(
            [replace(cells, share=first), replace(tables, share=both - first)]
        )

    def _coming(self, ground: Ground) -> float:
        """The deviation that numbers of the tables will have."""
        one = TablesQuery(((0,),) * len(self.columns), self.pairs, self.target, ground.cap_weight)
        moved = one.groups(ground.allowance.neighbours)[0].sensitivity
        return ground.allowance.multiplier("tables") * moved * ground.excess

    def _bins(self, cells: Release[Any], ground: Ground) -> list[Bins]:
        counts, count = cells.statistics.counts, ground.count
        if not tables_asked(ground):
            return bin_columns(self.columns, counts, cells.spread, count, cells.spread)
        values = 1 if self.target is None else self.columns[self.target].cells
        tables = len(self.pairs) * min(values, _MOST_LABELS)
        return bin_columns(self.columns, counts, cells.spread, count, self._coming(ground), tables)


def tables_asked(ground: Ground) -> bool:
    """Whether tables are asked for."""
    return any(part.name == "tables" for part in ground.allowance.parts)
