"""The two releases and the fit, on a matrix of cells, with the library's own noise.

The noise is discrete and exact, from a seed, so that runs can be repeated: NOT private. Its size is
that of Gaussian differential privacy for the whole budget, of which a hundredth goes to the number
of records. An estimator's accountant adds a margin for discrete noise, which is not in here.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass

import numpy as np
from adult import Columns, Numbers

from privem.accounting import mu_for
from privem.blocks.histograms import MOST_ROWS, CountQuery
from privem.core import Stage
from privem.data import ArrayRows, LocalSource
from privem.models.table_mixture.bins import bin_columns
from privem.models.table_mixture.fitting import cells_share, fit_tables, independent
from privem.models.table_mixture.model import TableState
from privem.models.table_mixture.tables import CellCountsQuery, TablesQuery, all_pairs
from privem.noise.discrete import Discrete
from privem.noise.entropy import InsecureEntropyWarning, insecure_seeded_entropy_for_tests

DELTA = 1e-6
_COUNT = 0.01  # of the budget, for the number of records


@dataclass(frozen=True)
class Cells:
    """What the cells of a column are."""

    cells: int
    ordered: bool
    missing: bool = False


def cells_of_columns(columns: Columns) -> list[Cells]:
    return [Cells(c.cells, isinstance(c, Numbers), c.missing) for c in columns]


class Teller:
    """Answers queries about rows with seeded noise, for shares of one budget."""

    def __init__(self, X: np.ndarray, epsilon: float, seed: int) -> None:
        self._source = LocalSource(ArrayRows(X))
        self.mu = mu_for(epsilon, DELTA)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", InsecureEntropyWarning)
            self._entropy = insecure_seeded_entropy_for_tests(seed)
        self.count = max(float(self._answer(CountQuery(), _COUNT).statistics.count), 1.0)

    def deviation(self, tables: int, share: float) -> float:
        return math.sqrt(tables / (share * (1 - _COUNT))) / self.mu

    def release(self, query, share: float):
        """For a share of what the count has left."""
        return self._answer(query, share * (1 - _COUNT))

    def _answer(self, query, share: float):
        multiplier = 1 / (math.sqrt(share) * self.mu)
        noise = Discrete(multiplier, "add-remove", MOST_ROWS, self._entropy)
        return self._source.release(Stage(query, noise))


def fit(
    columns: Columns,
    X: np.ndarray,
    epsilon: float,
    target: int | None = None,
    seed: int = 0,
    **options: int,
) -> TableState:
    """A mixture fitted to two releases about cells."""
    teller, pairs = Teller(X, epsilon, seed), all_pairs(len(columns), target)
    n, kinds = teller.count, cells_of_columns(columns)
    values = 1 if target is None else columns[target].cells
    share = cells_share(n, teller.deviation(len(pairs), 1.0))
    cells = teller.release(CellCountsQuery(tuple(c.cells for c in columns), 1.0), share)
    coming, tables = teller.deviation(len(pairs), 1 - share), len(pairs) * values
    bins = bin_columns(kinds, cells.statistics.counts, cells.spread, n, coming, tables)
    maps = tuple(tuple(each.bin_of.tolist()) for each in bins)
    release = teller.release(TablesQuery(maps, pairs, target, 1.0), 1 - share)
    return fit_tables(bins, cells, release, n, np.random.default_rng(seed), **options)


def alone(columns: Columns, X: np.ndarray, epsilon: float, seed: int = 0) -> TableState:
    """Independent columns, with all of the budget."""
    teller = Teller(X, epsilon, seed)
    n = teller.count
    cells = teller.release(CellCountsQuery(tuple(c.cells for c in columns), 1.0), 1.0)
    kinds = cells_of_columns(columns)
    bins = bin_columns(kinds, cells.statistics.counts, cells.spread, n, cells.spread)
    return independent(bins, cells, n)


def on_grid(columns: Columns, state: TableState, values: np.ndarray) -> float:
    """Mean log-likelihood of rows on the shared grid."""
    total = np.tile(np.log(state.weights), (len(values), 1))
    for j, column in enumerate(columns):
        shares = state.cells(j) @ column.onto_grid
        total += np.log(np.maximum(shares, 1e-300)).T[column.on_grid(values[:, j])]
    top = total.max(axis=1)
    return float(np.mean(top + np.log(np.exp(total - top[:, None]).sum(axis=1))))
