"""What a private fit will be able to see, before anything is spent. No data are needed."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ...blocks.region import Region
from ...budget import Terms
from ...data.table import People
from ...ground import Ground, Preamble
from ...schema import Schema
from .bins import bins_for
from .finding import Finding
from .fitting import classes_for
from .plan import PrivateTables, tables_asked
from .tables import CellCountsQuery

# A count of so many deviations of its noise stands out of it.
_SEEN = 3.0


@dataclass(frozen=True)
class Forecast:
    """The noise that comes with a budget, and what it leaves to be seen.

    Parameters
    ----------
    records : float
    tables : int
        How many tables of two columns (with a target, of three) are released.
    cell_noise, table_noise : float
        Standard deviation of the noise on each number: counts of one column, and of the tables.
    bins : int
        Into how many bins numbers and dates are cut in the tables.
    classes : int
        Of each search.
    """

    records: float
    tables: int
    cell_noise: float
    table_noise: float | None
    bins: int
    classes: int

    @property
    def seen(self) -> float:
        """How many records need to have two values in common for that to stand out of the noise."""
        return _SEEN * (self.cell_noise if self.table_noise is None else self.table_noise)


def forecast(
    schema: Schema, target: str | None, components: int | None, terms: Terms, records: int
) -> Forecast:
    """What a fit of about so many records will be able to see.

    Examples
    --------
    >>> schema = Schema({"age": (int, 15, 95), "sex": ["f", "m"], "smoker": bool})
    >>> terms = Terms.check(1.0, 1e-6, mechanisms={"joint": "gaussian"})
    >>> found = forecast(schema, None, None, terms, 10_000)
    >>> found.tables, round(found.seen, -1)
    (3, 20.0)
    """
    people, d = People("record", records, False), len(schema.columns)
    preamble = Preamble.of(terms, people, d, Region.around_origin(1.0, d))
    at = None if target is None else schema.names.index(target)
    finding = Finding(schema, terms.delta)
    plan = PrivateTables(preamble, finding, finding.most, at, components, np.random.default_rng(0))
    allowance = terms.allowance(plan.parts(), preamble.count is None)
    region = Region.around_origin(1.0, d)
    ground = Ground(records, records, region, None, allowance, preamble.cap_weight)
    if allowance.adaptive and plan.pairs:
        ground = replace(ground, allowance=plan._reshared(ground))
    query = CellCountsQuery(plan.sizes, ground.cap_weight)
    moved = query.groups(allowance.neighbours)[0].sensitivity
    cells = ground.allowance.multiplier("cells") * moved
    if not plan.pairs or not tables_asked(ground):
        return Forecast(records, 0, cells, None, bins_for(records, cells), 1)
    tables = plan._coming(ground)
    numbers = len(plan.pairs) * (1 if at is None else plan.sizes[at])
    bins, classes = bins_for(records, tables, numbers), classes_for(records, tables)
    return Forecast(records, len(plan.pairs), cells, tables, bins, components or classes)
