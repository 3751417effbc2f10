"""How cells within bins go together, for draws. All public: arithmetic on a fitted model.

A mixture of products knows which bins of two columns go together, and nothing about the cells
within them. Were these drawn independently, a line would look like a staircase. So for columns of
numbers that depend strongly, the joint law of two columns' cells has no steps:

*From bin to bin* the law of a column moves steadily with the other one: each of its quantiles is
interpolated between the middles of bins, in the order of records. (A mean of neighbours' laws would
be wider than either; a mean of their quantiles is not.) That gives a law of the second column given
the first, and one of the first given the second. Their product has sharp lines where both do. It is
then corrected to the model's probabilities of all pairs of bins and of all cells, by iterative
proportional fitting.

*Several columns.* Two columns are joined where they say much about each other's bins, and these
joints are a forest: the one with the most mutual information. Given the bins of a record, its cells
are then drawn exactly, from the leaves to the roots and back (belief propagation).

In drawing many records at once, those with the same bin exchange their cells. So each column keeps
its values exactly, and each pair of columns its bins.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ...linalg import Array
from .bins import Bins

Whole = NDArray[np.int64]

# Mutual information, in nats, from which on two columns are joined: that of normal ones with a
# correlation of 0.8.
_STRONG = 0.5
# Quantiles that move; what is kept of steps, so that all that is possible remains so; rounds.
_QUANTILES, _STEPS, _ROUNDS = 256, 0.02, 20
_TINY = 1e-30
# Rows that are arranged at a time.
_AT_A_TIME = 2**15


class Mixture(Protocol):
    """What is needed of a model."""

    @property
    def columns(self) -> list[Bins]:
        """The bins of each column."""

    def bins_of(self, first: int, second: int) -> Array:
        """The joint law of two columns' bins."""


@dataclass(frozen=True)
class _Edge:
    """Two columns, the second nearer to the leaves, and the ratio of their cells' joint law."""

    above: int
    below: int
    ratio: NDArray[np.float32]


class Detail:
    """The dependence within bins of some columns of a model.

    Parameters
    ----------
    state : Mixture
    present : mapping of int to int
        The columns in question, whose cells are in order, and how many of these are not that of
        the missing.
    """

    def __init__(self, state: Mixture, present: dict[int, int]) -> None:
        self._columns, self._state, self._present = state.columns, state, present

    @cached_property
    def edges(self) -> list[_Edge]:
        """The forest, each column after the one that it hangs from."""
        found: list[_Edge] = []
        for above, below in self._forest():
            found.append(_Edge(above, below, self._ratio(above, below)))
        return found

    def _bins(self, first: int, second: int) -> Array:
        """The joint law of the bins of two columns, where neither is missing."""
        joint = self._state.bins_of(first, second)
        for axis, j in enumerate((first, second)):
            count = int(self._columns[j].bin_of[: self._present[j]].max()) + 1
            joint = joint.take(np.arange(count), axis)
        return np.asarray(np.maximum(joint, _TINY) / np.maximum(joint, _TINY).sum())

    def _forest(self) -> Iterator[tuple[int, int]]:
        """Joints with the most mutual information, by Prim's algorithm."""
        # Columns with several cells in a bin, how strongly they could be joined, and to which.
        left = {
            j: (_STRONG, j) for j, size in self._present.items() if size > self._columns[j].count
        }
        while left:
            below = max(left, key=lambda j: left[j][0])
            _, above = left.pop(below)
            if above != below:
                yield above, below
            for j, (strength, _) in left.items():
                both = _information(self._bins(below, j))
                if both > strength:
                    left[j] = (both, below)

    def _ratio(self, first: int, second: int) -> NDArray[np.float32]:
        """The joint law of two columns' cells over that of independent ones; one for missing."""
        joint = self._bins(first, second)
        here = self._present[first], self._present[second]
        maps = [
            self._columns[j].bin_of[:size] for j, size in zip((first, second), here, strict=True)
        ]
        laws = [
            joint.sum(axis=1 - axis)[each] * self._columns[j].law[: here[axis]]
            for axis, (j, each) in enumerate(zip((first, second), maps, strict=True))
        ]
        inside = smooth_ratio(joint, maps[0], maps[1], laws[0], laws[1])
        found = np.ones((len(self._columns[first].law), len(self._columns[second].law)), np.float32)
        found[: here[0], : here[1]] = inside
        return found

    # Drawing.

    def arrange(self, rows: Whole, rng: np.random.Generator) -> None:
        """Let rows of cells (n, d) with the same bins exchange their cells, in place."""
        if not self.edges:
            return
        for start in range(0, len(rows), _AT_A_TIME):
            part = rows[start : start + _AT_A_TIME]
            wanted = self._drawn(part, {}, rng)
            for j, cells in wanted.items():
                bins = self._columns[j].bin_of[part[:, j]]
                # The smallest cell of a bin goes to the row that wants the smallest.
                ties = rng.random(len(part))
                have, want = np.lexsort((part[:, j], bins)), np.lexsort((ties, cells, bins))
                part[want, j] = part[have, j]

    def complete(self, rows: Whole, wanted: NDArray[np.bool_], rng: np.random.Generator) -> None:
        """Draw cells of rows anew, within their bins, where they are ``wanted`` (n, d)."""
        if not self.edges:
            return
        fixed = {j: ~wanted[:, j] for j in self._present}
        for j, cells in self._drawn(rows, fixed, rng).items():
            rows[wanted[:, j], j] = cells[wanted[:, j]]

    @cached_property
    def _places(self) -> dict[int, _Places]:
        """Of the joined columns, each after the one that it hangs from."""
        below = [edge.below for edge in self.edges]
        roots = [edge.above for edge in self.edges if edge.above not in below]
        return {j: _Places.of(self._columns[j]) for j in (*roots, *below)}

    def _drawn(
        self, rows: Whole, fixed: dict[int, NDArray[np.bool_]], rng: np.random.Generator
    ) -> dict[int, Whole]:
        """Cells of the joined columns, given all bins, and the cells of rows that are fixed."""
        bins = {j: self._columns[j].bin_of[rows[:, j]] for j in self._places}
        beliefs: dict[int, NDArray[np.float32]] = {}
        for j, places in self._places.items():
            beliefs[j] = places.law[bins[j]]
            if j in fixed:
                known = places.cells[bins[j]] == rows[:, j, None]
                known &= beliefs[j] > 0
                beliefs[j] = np.where(fixed[j][:, None], known.astype(np.float32), beliefs[j])
        for edge in reversed(self.edges):
            one, other = beliefs[edge.above], beliefs[edge.below]
            for some, ratio in self._ratios(edge, bins):
                message = other[some, : ratio.shape[1]] @ ratio.T
                message /= np.maximum(message.max(axis=1, keepdims=True), np.float32(_TINY))
                one[some, : len(ratio)] *= message
        hangs = {edge.below: edge for edge in self.edges}
        drawn: dict[int, Whole] = {}
        for j, places in self._places.items():
            if j in hangs:
                above = drawn[hangs[j].above]
                for some, ratio in self._ratios(hangs[j], bins):
                    beliefs[j][some, : ratio.shape[1]] *= ratio[above[some]]
            sums = np.cumsum(beliefs[j], axis=1)
            at = (sums <= rng.random(len(rows))[:, None] * sums[:, -1:]).sum(axis=1)
            drawn[j] = np.minimum(at, places.last[bins[j]])
        return {j: places.cells[bins[j], drawn[j]] for j, places in self._places.items()}

    def _ratios(
        self, edge: _Edge, bins: dict[int, Whole]
    ) -> Iterator[tuple[Whole, NDArray[np.float32]]]:
        """Rows with the same two bins, and the ratio of the cells of these."""
        above, below = self._places[edge.above], self._places[edge.below]
        for a, b, some in _groups(bins[edge.above], bins[edge.below]):
            yield some, edge.ratio[np.ix_(above.inside(a), below.inside(b))]


@dataclass(frozen=True)
class _Places:
    """The cells of each bin side by side, (bins, most cells), and their laws; zero behind them."""

    cells: Whole
    law: NDArray[np.float32]
    last: Whole

    @classmethod
    def of(cls, bins: Bins) -> _Places:
        widths = np.bincount(bins.bin_of)
        order = np.argsort(bins.bin_of, kind="stable")
        rank = np.arange(len(order)) - np.repeat(np.cumsum(widths) - widths, widths)
        cells = np.zeros((len(widths), int(widths.max())), dtype=np.int64)
        law = np.zeros(cells.shape, dtype=np.float32)
        cells[bins.bin_of[order], rank] = order
        law[bins.bin_of[order], rank] = np.maximum(bins.law[order], _TINY)
        return cls(cells, law, widths - 1)

    def inside(self, bin: int) -> Whole:
        """The cells of a bin."""
        return self.cells[bin, : self.last[bin] + 1]


def _groups(first: Whole, second: Whole) -> Iterator[tuple[int, int, Whole]]:
    """Pairs of bins that occur, and in which rows."""
    code = first * (int(second.max(initial=0)) + 1) + second
    order = np.argsort(code, kind="stable")
    starts = np.flatnonzero(np.diff(code[order], prepend=-1))
    for some in np.split(order, starts[1:]):
        if len(some):
            yield int(first[some[0]]), int(second[some[0]]), some


def _information(joint: Array) -> float:
    """Mutual information in nats."""
    alone = joint.sum(axis=1, keepdims=True) * joint.sum(axis=0)
    return float(np.sum(joint * np.log(joint / alone)))


def smooth_ratio(
    joint: Array, first: Whole, second: Whole, law: Array, other: Array
) -> NDArray[np.float32]:
    """The ratio of a joint law of cells to that of independent ones.

    Parameters
    ----------
    joint : array of shape (bins, bins)
        Probabilities of pairs of bins; none is zero.
    first, second : array
        The bin of each cell of either column.
    law, other : array
        The probability of each cell of either column.

    Examples
    --------
    Two bins of two cells each, and nearly only equal bins: small cells go with small ones.

    >>> import numpy as np
    >>> two, law = np.array([0, 0, 1, 1]), np.full(4, 0.25)
    >>> joint = np.array([[0.499, 0.001], [0.001, 0.499]])
    >>> ratio = smooth_ratio(joint, two, two, law, law)
    >>> bool(ratio[0, 0] > 1.5 * ratio[0, 1] and ratio[1, 1] > 1.5 * ratio[1, 0])
    True
    """
    ratio = joint / np.outer(joint.sum(axis=1), joint.sum(axis=0))
    steps = ratio[np.ix_(first, second)]
    along = _moving(joint, first, second, law, other) / other + _STEPS * steps
    across = _moving(joint.T, second, first, other, law).T / law[:, None] + _STEPS * steps
    found = along * across / steps
    inside = [np.eye(len(joint))[first].T * law, np.eye(joint.shape[1])[second].T * other]
    for _ in range(_ROUNDS):
        have = inside[0] @ found @ inside[1].T
        found *= (joint / np.maximum(have, _TINY))[np.ix_(first, second)]
        found /= np.maximum(found @ other, _TINY)[:, None]
        found /= np.maximum(law @ found, _TINY)
    return np.asarray(found, dtype=np.float32)


def _moving(joint: Array, first: Whole, second: Whole, law: Array, other: Array) -> Array:
    """Laws (cells, cells) of the second column's cells for each cell of the first.

    In the middle of a bin it is that of the bin. Between two middles, and beyond the last, each
    quantile moves in a straight line.
    """
    place = np.cumsum(law) - law / 2
    middle = np.bincount(first, law * place) / np.bincount(first, law)
    order = np.argsort(middle)
    middle = middle[order]
    edges = np.concatenate([[0.0], np.cumsum(other)])
    given = (joint / joint.sum(axis=1, keepdims=True))[order]
    cells = given[:, second] * (other / np.bincount(second, other)[second])
    sums = np.concatenate([np.zeros((len(cells), 1)), np.cumsum(cells, axis=1)], axis=1)
    chance = (np.arange(_QUANTILES) + 0.5) / _QUANTILES
    quantiles = np.stack([np.interp(chance, each, edges) for each in sums])
    left = np.clip(np.searchsorted(middle, place) - 1, 0, len(middle) - 2)
    part = ((place - middle[left]) / (middle[left + 1] - middle[left]))[:, None]
    moved = quantiles[left] + part * (quantiles[left + 1] - quantiles[left])
    moved = np.sort(np.clip(moved, 0.0, edges[-1]), axis=1)
    found = [np.interp(edges, each, chance, left=0.0, right=1.0) for each in moved]
    return np.diff(np.stack(found), axis=1)
