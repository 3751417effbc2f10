"""Exact fits: EM on rows, for the same mixture of products over bins.

Rows are cells, and their bins are categories like any others: the queries of
:mod:`privem.models.categorical_mixture` do the rest. Missing is a bin.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...blocks import conditions
from ...blocks.moments import SumsQuery
from ...core import Block, Release, Scratch, Stage
from ...em import ExactEM, Fit
from ...linalg import Array
from ...noise.exact import Exact
from ..categorical_mixture.model import CategoricalModel, Classes, ClassQuery, ClassSums
from ..categorical_mixture.pairs import Dependences, PairsQuery, shares_of_pairs
from .bins import Column, bin_columns
from .model import TableState
from .tables import CellCountsQuery

# Bins are as many as if tables of two columns had noise of deviation one: a cell of such a table
# then holds three records on average.
_AS_IF = 1.0
# The most classes that are tried where nobody says how many.
_MOST = 64


@dataclass(frozen=True)
class BinnedQuery:
    """A query about categories, of rows of cells: the bin of a cell is its category. Exact only.

    Parameters
    ----------
    query : ClassQuery or PairsQuery
        About as many categories as there are bins.
    maps : tuple of tuple of int
        The bin of each cell, for each column.

    Examples
    --------
    >>> query = BinnedQuery(PairsQuery((2,)), ((0, 1, 1),))
    >>> query(Block(np.array([[0.0], [1.0], [2.0]])), Scratch()).second
    array([1., 2., 0.])
    """

    query: ClassQuery | PairsQuery
    maps: tuple[tuple[int, ...], ...]
    travels = ("query", "maps")

    @property
    def block_rows(self) -> int:
        """As many as the query takes."""
        return self.query.block_rows

    @cached_property
    def _maps(self) -> list[NDArray[np.int64]]:
        return [np.asarray(each, dtype=np.int64) for each in self.maps]

    def __call__(self, block: Block, scratch: Scratch) -> Any:
        """Sum a block."""
        bins = np.empty(block.X.shape)
        for j, bin_of in enumerate(self._maps):
            cells = np.fmin(np.fmax(block.X[:, j], 0), len(bin_of) - 1)
            bins[:, j] = bin_of[cells.astype(np.int64)]
        return self.query(replace(block, X=bins), scratch)

    def check(self, d: int, private: bool) -> None:
        """A bin for every cell, and a query about these bins."""
        conditions.need(not private and len(self.maps) == d)
        self.query.check(d, private)
        for each, size in zip(self.maps, self.query.sizes, strict=True):
            conditions.need(len(each) > 0 and all(0 <= bin < size for bin in each))

    def largest(self, low: Array, high: Array) -> Array:
        """That of the query."""
        return self.query.largest(low, high)


@dataclass(frozen=True)
class BinnedModel:
    """Latent classes over bins; rows are cells."""

    classes: CategoricalModel
    maps: tuple[tuple[int, ...], ...]

    def query(self, state: Classes, round: int = 0) -> BinnedQuery:
        """The expected counts under ``state``."""
        return BinnedQuery(self.classes.query(state, round), self.maps)

    def m_step(self, state: Classes, release: Release[ClassSums]) -> Classes:
        """New probabilities."""
        return self.classes.m_step(state, release)

    def objective(self, state: Classes, release: Release[ClassSums]) -> float:
        """Mean log-likelihood of the bins."""
        return self.classes.objective(state, release)


@dataclass(frozen=True)
class CountedFit(Fit[TableState]):
    """Where EM ended, and of how many records."""

    count: float = 0.0


@dataclass(frozen=True)
class ExactTables:
    """Counts of cells, which make the bins; pairs of bins; and EM from so many starts.

    Parameters
    ----------
    columns : sequence of Column
    components : int or None
        ``None``: 1, 2, 4, ... classes are fitted, as long as the Bayesian information criterion
        (Schwarz 1978) improves: where nobody says how many classes to fit, that many are worth
        their parameters.
    max_iter, tol, n_init : as of other exact fits
    rng : Generator
    """

    columns: Sequence[Column]
    components: int | None
    max_iter: int
    tol: float
    n_init: int
    rng: np.random.Generator

    def stages(self) -> Generator[Stage, Release[Any], CountedFit]:
        """The plan."""
        sums = (yield Stage(SumsQuery(), Exact(), "sums")).statistics
        rows, count = int(sums.rows), float(sums.count)
        if rows < (self.components or 1):
            raise ValueError(
                f"n_samples={rows} row(s) of data, but at least {self.components or 1} are needed "
                "for this number of components"
            )
        if not count > 0:
            raise ValueError("the sample weights sum to zero: no record counts")
        query = CellCountsQuery(tuple(column.cells for column in self.columns))
        cells = (yield Stage(query, Exact(), "cells")).statistics.counts
        bins = bin_columns(self.columns, cells, 0.0, count, _AS_IF)
        maps = tuple(tuple(each.bin_of.tolist()) for each in bins)
        sizes = tuple(each.count for each in bins)
        model = BinnedModel(CategoricalModel(sizes), maps)
        question = BinnedQuery(PairsQuery(sizes), maps)
        pairs = (yield Stage(question, Exact(), "pairs")).statistics
        matrix = shares_of_pairs(pairs, sizes, count)
        if self.components is not None:
            best = yield from self._fit(model, matrix, self.components)
        else:
            best = yield from self._several(model, matrix, count, rows)
        law = np.concatenate([each.law for each in bins])
        state = TableState(best.state.weights, best.state.profiles, law, maps)
        # Of cells rather than bins: each has a share of its bin, whatever the class.
        within = float(cells @ np.log(np.maximum(law, 1e-300))) / count
        objective = best.objective + within
        return CountedFit(state, objective, best.n_iter, best.converged, count=count)

    def _fit(
        self, model: BinnedModel, matrix: Array, k: int
    ) -> Generator[Stage, Release[Any], Fit[Classes]]:
        """The best of so many starts with k classes."""
        dependences = Dependences.of(matrix, model.classes, k)
        fits: list[Fit[Classes]] = []
        for _ in range(self.n_init):
            start = dependences.classes(k, self.rng)
            em = ExactEM(model, start, self.max_iter, lambda gain, a, b: gain < self.tol)
            fits.append((yield from em.stages()))
        return max(fits, key=lambda fit: fit.objective)

    def _several(
        self, model: BinnedModel, matrix: Array, count: float, rows: int
    ) -> Generator[Stage, Release[Any], Fit[Classes]]:
        """As many classes as are worth their parameters."""
        free = sum(size - 1 for size in model.classes.sizes)
        best, value, k = None, -math.inf, 1
        while k <= min(_MOST, rows):
            found = yield from self._fit(model, matrix, k)
            worth = found.objective * count - 0.5 * (k * (1 + free) - 1) * math.log(max(count, 2.0))
            if best is not None and worth <= value:
                break
            best, value, k = found, worth, 2 * k
        assert best is not None
        return best
