"""The log-probability of rows of cells, for private scores and contests."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ...blocks import conditions
from ...blocks.log_density import BoundedLogDensity
from ...core import Scratch
from ...linalg import Array
from .model import TableState

# No probability counts for less: its logarithm would have no bound.
_LEAST = 1e-300


@dataclass(frozen=True)
class TableLogDensity(BoundedLogDensity):
    """The log-probability of a row's cells, computed number by number.

    Whatever is no cell counts as the first or the last one, as when cells are counted.
    """

    state: TableState
    travels = ("state",)

    @property
    def peak(self) -> float:
        """No probability is above one."""
        return 0.0

    @cached_property
    def _logs(self) -> tuple[Array, list[Array]]:
        cells = [self.state.cells(j) for j in range(len(self.state.maps))]
        weights = np.log(np.maximum(self.state.weights, _LEAST))
        return weights, [np.log(np.maximum(each, _LEAST)) for each in cells]

    @property
    def size(self) -> float:
        """The least likely cells in the least likely class."""
        weights, cells = self._logs
        return float(np.abs(weights).max() + sum(np.abs(each).max() for each in cells))

    def check(self, d: int) -> None:
        """Probabilities of all cells."""
        state = self.state
        conditions.need(len(state.maps) == d)
        conditions.need(all(0 < len(each) < conditions.MOST_NUMBERS for each in state.maps))
        conditions.need(all(0 <= bin < len(each) for each in state.maps for bin in each))
        conditions.table(state.profiles, sum(max(each) + 1 for each in state.maps))
        conditions.shaped((len(state.profiles),), state.weights)
        conditions.shaped((sum(map(len, state.maps)),), state.law)
        for part in (state.weights, state.profiles, state.law):
            conditions.need((part >= 0).all())

    def log_joint(self, X: Array, scratch: Scratch) -> Array:
        """Log joint probabilities (C, b) of class and cells; no matrix products."""
        weights, cells = self._logs
        joint = scratch.take("joint", (len(weights), len(X)))
        joint[:] = weights[:, None]
        for j, logs in enumerate(cells):
            # Of NaN and zero, fmax takes zero.
            code = np.fmin(np.fmax(X[:, j], 0.0), logs.shape[1] - 1.0).astype(np.int64)
            joint += logs[:, code]
        return joint
