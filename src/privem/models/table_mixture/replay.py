"""What other noise on the same releases would have made of a mixture; for its standard errors.

The whole search from random starts is not repeated: it would end in other local optima, whose
classes are others. Each start goes on from where it ended, in a few short steps, on the noisier
numbers. So classes stay who they are, and what moves is what the noise moves.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ...linalg import Array
from .evidence import Evidence, Single
from .fitting import descended, state_of
from .model import TableState, pooled

# Steps of each start, and their size at first.
_STEPS, _RATE = 20, 0.03
_TINY = 1e-12


@dataclass(frozen=True)
class Found:
    """What a search has found; and where it is after some more steps on the same evidence.

    A search has ended, but not all of its numbers stand still. So what noise moves is the
    difference between further steps on other evidence and further steps on the same.
    """

    state: TableState
    further: TableState
    target: int | None
    classes: int

    @classmethod
    def of(cls, state: TableState, evidence: Evidence, target: int | None, classes: int) -> Found:
        """From the end of a search with so many classes in each start."""
        return cls(state, _went_on(state, evidence, target, classes), target, classes)

    def moved(self, evidence: Evidence) -> Found:
        """The same, had the evidence been other."""
        state = self.state
        other = _went_on(state, evidence, self.target, self.classes)
        weights = state.weights + (other.weights - self.further.weights)
        profiles = state.profiles + (other.profiles - self.further.profiles)
        positive = replace(
            state, weights=np.maximum(weights, 0.0), profiles=np.maximum(profiles, 0.0)
        )
        return replace(self, state=positive)


def _went_on(state: TableState, evidence: Evidence, target: int | None, classes: int) -> TableState:
    """The mixture of all starts, each of which has gone on."""
    starts = len(state.weights) // classes
    bins = state.columns
    columns = slice(0, 0)
    if target is not None:
        at = sum(each.count for each in bins[:target])
        columns = slice(at, at + bins[target].count)
    joint = state.weights.reshape(starts, classes, 1) * starts
    laws = state.profiles.reshape(starts, classes, -1)
    if target is not None:
        joint = joint * laws[..., columns]
        laws = np.delete(laws, columns, axis=2)
    moved = descended(evidence, _odds(evidence, laws), _logs(joint), _STEPS, _RATE)
    return pooled([state_of(bins, target, *end) for end in zip(*moved, strict=True)])


def _odds(evidence: Evidence, laws: Array) -> Single:
    """Log-odds with these laws: of all that differ by a constant in a column, the most likely.

    The prior alone knows the constant, and draws the mean of each column to that of the marginals.
    """
    logs = np.log(np.maximum(laws, _TINY))
    columns = evidence.columns.astype(np.float64)
    away = (logs - evidence.centre) @ columns / columns.sum(axis=0)
    return np.asarray(logs - away @ columns.T, dtype=np.float32)


def _logs(weights: Array) -> Single:
    return np.asarray(np.log(np.maximum(weights, _TINY)), dtype=np.float32)
