"""Columns linked by inequalities: their values drawn so that all of them hold.

The columns of a group are compared on one grid, whose borders are those of the cells of all of
them: two values then lie in different intervals, which says which is larger, or in the same one.
Inequalities form a tree (a circle is refused with the schema), so that what is possible, and how
likely it is, follows from one pass over the tree from its leaves to its root, and a draw from one
pass back. No draw is rejected.

Two values of one interval are taken for equally likely everywhere in it; they are drawn, and
exchanged if they are in the wrong order. That is exact for two columns. Of more than two in the
same interval, the probability that all are in order is taken for that of each pair.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...data.columns import Moment, Number
from ...data.decode import limits, uniform
from ...data.given import Span
from ...linalg import Array

Flags = NDArray[np.bool_]
Whole = NDArray[np.int64]
_TINY = 1e-300


@dataclass(frozen=True)
class Chain:
    """A group of columns and the tree of inequalities between them; or one column without any.

    Parameters
    ----------
    columns : tuple of int
        The root first.
    edges : tuple of (int, int, bool)
        From each column of the group but the first: its place, that of its parent in the tree,
        and whether it is the smaller one. Parents come first.
    lows, highs : array of shape (R,)
        The least and the greatest value of each interval of the grid.
    cell_of : list of array of shape (R,)
        The cell in which an interval lies, for each column; -1 for none.
    share : list of array of shape (R,)
        How much of the cell the interval is.
    single : bool
        Whether values must be numbers of single precision, as those of one of the columns are.
    """

    columns: tuple[int, ...]
    edges: tuple[tuple[int, int, bool], ...]
    lows: NDArray[Any]
    highs: NDArray[Any]
    cell_of: list[Whole]
    share: list[Array]
    single: bool = False

    @classmethod
    def alone(cls, column: int, cells: int) -> Chain:
        """One column, an interval for each of its cells."""
        at = np.arange(cells)
        return cls((column,), (), at, at, [at], [np.ones(cells)])

    @classmethod
    def of(
        cls,
        known: Mapping[int, Number | Moment],
        smaller: Sequence[tuple[int, int]],
        spans: Mapping[int, Sequence[Span]],
    ) -> Chain:
        """A group from its columns, pairs (smaller, larger), and ranges that are asked for.

        Ranges cut the grid too, so that each interval lies in a range or outside of it.
        """
        order, edges = [min(known)], []
        while len(order) < len(known):
            for one, other in smaller:
                for child, parent in ((one, other), (other, one)):
                    if parent in order and child not in order:
                        edges.append((len(order), order.index(parent), child == one))
                        order.append(child)
        ends = [limits(known[j]) for j in order]
        asked = [span for j in order for span in spans.get(j, ())]
        lows = np.concatenate([low for low, _ in ends] + [np.array([a]) for a, _ in asked])
        highs = np.concatenate([high for _, high in ends] + [np.array([b]) for _, b in asked])
        # An interval begins where a cell or a range does, and after where one ends.
        starts = np.unique(np.concatenate([lows, _after(highs)]))
        last = np.append(_before(starts[1:]), starts[-1])
        single = any(known[j].dtype == "float32" for j in order)
        first, final = (_up(starts), _down(last)) if single else (starts, last)
        cell_of, share = [], []
        for low, high in ends:
            at = np.searchsorted(low, starts, side="right") - 1
            inside = (at >= 0) & (last <= high[at]) & (first <= final)
            cell_of.append(np.where(inside, at, -1))
            share.append(np.where(inside, _size(starts, last) / _size(low, high)[at], 0.0))
        return cls(tuple(order), tuple(edges), first, final, cell_of, share, single)

    def law(self, k: int, cells: Array, missing: bool) -> Array:
        """A law of a column's cells, (n, cells), on the grid, (n, R + 1): the last is missing."""
        made = np.where(self.cell_of[k] >= 0, cells[:, self.cell_of[k]] * self.share[k], 0.0)
        return np.column_stack([made, cells[:, -1] if missing else np.zeros(len(cells))])

    def within(self, spans: Sequence[Span]) -> Flags:
        """The intervals that lie in one of some ranges, of shape (R,)."""
        found = np.zeros(len(self.lows), dtype=bool)
        for low, high in spans:
            found |= (self.lows >= low) & (self.highs <= high)
        return found

    def interval(self, values: NDArray[Any]) -> Whole:
        """The interval of each value."""
        return np.maximum(np.searchsorted(self.lows, values, side="right") - 1, 0)

    @cached_property
    def _tie(self) -> Array:
        """The probability that two values of the same interval are in order."""
        if self.lows.dtype.kind != "i":
            return np.where(self.lows < self.highs, 0.5, 1.0)
        values = self.highs - self.lows + 1.0
        return np.asarray((values + 1) / (2 * values))

    def gathered(self, laws: Sequence[Array]) -> list[Array]:
        """Laws of the columns, (n, R + 1) each, times what those below in the tree allow.

        The first is that of the root: it sums to the probability that all inequalities hold.
        """
        found = [np.array(law) for law in laws]
        for child, parent, below in reversed(self.edges):
            found[parent] *= self._passed(found[child], below)
        return found

    def beliefs(self, gathered: Sequence[Array]) -> list[Array]:
        """The law of each column, (n, R + 1), given that all inequalities hold."""
        found = [gathered[0] / np.maximum(gathered[0].sum(axis=1, keepdims=True), _TINY)]
        for child, parent, below in self.edges:
            passed = self._passed(gathered[child], below)
            above = found[parent] / np.maximum(passed, _TINY)
            found.append(gathered[child] * self._passed(above, not below))
        return found

    def _passed(self, law: Array, below: bool) -> Array:
        """For each interval, how much of a law is in order with it; ``below``: is not above it."""
        values, gap = law[:, :-1], law[:, -1:]
        passed = np.zeros_like(law)
        # Sums of what is positive, so that what cannot be is zero, and not nearly so.
        if below:
            np.cumsum(values[:, :-1], axis=1, out=passed[:, 1:-1])
        else:
            np.cumsum(values[:, :0:-1], axis=1, out=passed[:, -3::-1])
        passed[:, :-1] += self._tie * values
        passed[:, -1] = values.sum(axis=1)
        passed += gap
        return passed

    def draw(
        self, gathered: Sequence[Array], group: Whole, rng: np.random.Generator
    ) -> list[Whole]:
        """An interval of each column for each row, R for missing.

        ``group``: which line of what is gathered is the row's.
        """
        order = np.argsort(group, kind="stable")
        ends = np.cumsum(np.bincount(group, minlength=len(gathered[0])))
        found = [np.zeros(len(group), dtype=np.int64) for _ in self.columns]
        chances = [rng.random(len(group)) for _ in self.columns]
        for line in np.unique(group):
            rows = order[ends[line - 1] if line else 0 : ends[line]]
            sums = np.cumsum(gathered[0][line])
            found[0][rows] = _search(sums, chances[0][rows] * sums[-1], len(sums))
            for child, parent, below in self.edges:
                law = gathered[child][line]
                found[child][rows] = self._next(
                    law, found[parent][rows], below, chances[child][rows]
                )
        return found

    def _next(self, law: Array, parent: Whole, below: bool, chance: Array) -> Whole:
        """Intervals of a column, given those of its parent in the tree."""
        size, values, gap = len(law) - 1, law[:-1], law[-1]
        sums = np.cumsum(values if below else values[::-1])
        there = parent < size
        # So many intervals are in order with the parent's, whatever the values in them.
        clear = np.where(there, parent if below else size - 1 - parent, size)
        total = np.append(0.0, sums)[clear]
        same = np.where(there, (self._tie * values)[np.minimum(parent, size - 1)], 0.0)
        at = chance * (gap + same + total)
        found = _search(sums, at - gap - same, np.maximum(clear, 1))
        found = found if below else size - 1 - found
        found = np.where((at < gap + same) | (total == 0), parent, found)
        return np.where((at < gap) | (same + total == 0), size, found)

    def values(
        self, at: Sequence[Whole], known: Mapping[int, NDArray[Any]], rng: np.random.Generator
    ) -> list[NDArray[Any]]:
        """A value from each interval, in order; ``known``: columns (by place) that have values.

        Where it is not known, a value is :func:`unknown`.
        """
        size = len(self.lows)
        gaps = [each == size for each in at]
        low, high = (
            [end[np.minimum(each, size - 1)] for each in at] for end in (self.lows, self.highs)
        )
        loose = list(low), list(high)
        free = [np.ones(len(each), dtype=bool) for each in at]
        for k, values in known.items():
            free[k] = _is_unknown(values)
            low[k], high[k] = (np.where(free[k], each[k], values) for each in (low, high))
        pairs = [(c, p) if below else (p, c) for c, p, below in self.edges]
        for _ in self.edges:  # as far as the longest path
            for a, b in pairs:
                both = ~(gaps[a] | gaps[b])
                low[b] = np.where(both, np.maximum(low[b], low[a]), low[b])
                high[a] = np.where(both, np.minimum(high[a], high[b]), high[a])
        if self.single:
            low = [np.where(each, _up(end), end) for each, end in zip(free, low, strict=True)]
            high = [np.where(each, _down(end), end) for each, end in zip(free, high, strict=True)]
        # A record that breaks an inequality already leaves nothing between: it goes without.
        sound = np.all([a <= b for a, b in zip(low, high, strict=True)], axis=0)
        low, high = (
            [np.where(sound, one, other) for one, other in zip(*both, strict=True)]
            for both in zip((low, high), loose, strict=True)
        )
        found = [uniform(a, b, rng) for a, b in zip(low, high, strict=True)]
        if self.single:
            found = [
                np.where(each, values.astype(np.float32).astype(np.float64), values)
                for each, values in zip(free, found, strict=True)
            ]
        # Each exchange leaves fewer values in the wrong order, so that this ends.
        moved = bool(pairs)
        while moved:
            moved = False
            for a, b in pairs:
                wrong = sound & ~gaps[a] & ~gaps[b] & (found[a] > found[b])
                found[a][wrong], found[b][wrong] = found[b][wrong], found[a][wrong]
                moved |= bool(wrong.any())
        return found


def _search(sums: Array, at: Array, most: Any) -> Whole:
    """Where sums pass a number; one of the first ``most`` places, and none that adds nothing."""
    last = np.nextafter(sums[np.asarray(most) - 1], -np.inf)
    return np.searchsorted(sums, np.clip(at, 0.0, last), side="right")


def unknown(dtype: Any) -> Any:
    """What stands for a value that is not known."""
    return np.nan if dtype.kind == "f" else np.iinfo(np.int64).min


def _is_unknown(values: NDArray[Any]) -> Flags:
    return np.asarray(
        np.isnan(values) if values.dtype.kind == "f" else values == unknown(values.dtype)
    )


def _after(values: NDArray[Any]) -> NDArray[Any]:
    return values + 1 if values.dtype.kind == "i" else np.nextafter(values, np.inf)


def _before(values: NDArray[Any]) -> NDArray[Any]:
    return values - 1 if values.dtype.kind == "i" else np.nextafter(values, -np.inf)


def _up(values: Array) -> Array:
    """The least numbers of single precision that are no smaller."""
    near = values.astype(np.float32)
    above = np.nextafter(near, np.float32(np.inf))
    return np.where(near < values, above.astype(np.float64), near.astype(np.float64))


def _down(values: Array) -> Array:
    """The greatest numbers of single precision that are no larger."""
    return -_up(-values)


def _size(low: NDArray[Any], high: NDArray[Any]) -> Array:
    """How many whole numbers, or how long; of a single number as long as the least step."""
    if low.dtype.kind == "i":
        return np.asarray(high - low + 1.0)
    return np.asarray(np.nextafter(high, np.inf) - low)
