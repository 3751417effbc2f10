"""A mixture of products over cells: densities, classes, conditional laws, drawing. All public.

A class c has the probability ``weights[c]`` and a law of each column over its bins,
``profiles[c]``. Given the class, columns are independent, and given its bin, a cell has the law
``law``, whatever the class:

    P(x) = sum_c weights[c] prod_j profiles[c, bin of x_j] law[x_j].

So a column of which nothing is known leaves the product, and what is known about the others says,
by Bayes, which class it is: marginals, conditional laws and draws under conditions are exact, and
no draw is ever rejected. A missing value is a cell like any other. A value that is merely not known
is written -1, and summed over.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ...linalg import Array
from .bins import Bins
from .detail import Detail

Cells = NDArray[np.int64]
Allowed = Mapping[int, NDArray[np.bool_]]

_TINY = 1e-300
# Numbers of a block of rows and classes that are held at a time.
_AT_A_TIME = 2**22


class Linked(Protocol):
    """Columns between which constraints hold: drawn together, given the class."""

    @property
    def columns(self) -> frozenset[int]:
        """Which."""

    @property
    def log_mass(self) -> Array:
        """The log probability of constraints and conditions in each class."""

    def fill(self, rows: Cells, labels: NDArray[np.int64], rng: np.random.Generator) -> None:
        """Draw these columns of new rows."""

    def complete(
        self, part: Cells, rows: slice, labels: NDArray[np.int64], rng: np.random.Generator
    ) -> None:
        """Fill the gaps of these columns in some of the rows that are there."""


@dataclass(frozen=True)
class TableState:
    """A fitted mixture of products.

    Parameters
    ----------
    weights : array of shape (C,)
        Of the classes.
    profiles : array of shape (C, p)
        Probabilities of the bins of all columns, column after column.
    law : array
        The probability of each cell within its bin, column after column.
    maps : tuple of tuple of int
        The bin of each cell, for each column.

    Examples
    --------
    >>> import numpy as np
    >>> state = TableState(
    ...     weights=np.array([0.5, 0.5]),
    ...     profiles=np.array([[0.9, 0.1, 0.8, 0.2], [0.1, 0.9, 0.2, 0.8]]),
    ...     law=np.array([1.0, 0.5, 0.5, 1.0, 1.0]),
    ...     maps=((0, 1, 1), (0, 1)),
    ... )
    >>> state.marginal(1)
    array([0.5, 0.5])
    >>> state.conditional(1, np.array([[0, -1]])).round(2)
    array([[0.74, 0.26]])
    """

    weights: Array
    profiles: Array
    law: Array
    maps: tuple[tuple[int, ...], ...]
    travels = ("weights", "profiles", "law", "maps")

    @property
    def sizes(self) -> tuple[int, ...]:
        """Cells of each column."""
        return tuple(map(len, self.maps))

    @cached_property
    def columns(self) -> list[Bins]:
        """The bins of each column."""
        laws = np.split(self.law, np.cumsum(self.sizes)[:-1])
        maps = (np.asarray(each, dtype=np.int64) for each in self.maps)
        return [Bins(bin_of, law) for bin_of, law in zip(maps, laws, strict=True)]

    @cached_property
    def tables(self) -> list[Array]:
        """Probabilities of each column's bins in each class, (C, bins)."""
        ends = np.cumsum([bins.count for bins in self.columns])
        return np.split(self.profiles, ends[:-1], axis=1)

    def cells(self, column: int) -> Array:
        """Probabilities of a column's cells in each class, (C, cells)."""
        bins = self.columns[column]
        return np.asarray(self.tables[column][:, bins.bin_of] * bins.law)

    # Densities, and what they say of the classes.

    def log_joint(self, X: Cells) -> Array:
        """Log probabilities (n, C) of class and cells; -1 stands for what is not known."""
        joint = np.tile(np.log(np.maximum(self.weights, _TINY)), (len(X), 1))
        for column, logs, cells in zip(self.columns, self._logs, X.T, strict=True):
            # The last row is that of an unknown value: nothing.
            known = np.append(column.bin_of, len(logs) - 1)
            joint += logs[known[cells]]
            joint += np.append(self._log(column.law), 0.0)[cells][:, None]
        return joint

    @cached_property
    def _logs(self) -> list[Array]:
        """Log probabilities of bins, (bins + 1, C)."""
        nothing = np.zeros((1, len(self.weights)))
        return [np.concatenate([self._log(table).T, nothing]) for table in self.tables]

    @staticmethod
    def _log(probabilities: Array) -> Array:
        return np.asarray(np.log(np.maximum(probabilities, _TINY)))

    def log_density(self, X: Cells) -> Array:
        """Log probabilities (n,) of rows of cells."""
        found = np.empty(len(X))
        for rows in self._blocks(len(X)):
            found[rows] = _normalise(self.log_joint(X[rows]))
        return found

    def responsibilities(self, X: Cells) -> Array:
        """Probabilities (n, C) of the classes, given what is known of each row."""
        joint = self.log_joint(X)
        _normalise(joint)
        return joint

    def _blocks(self, rows: int) -> Iterator[slice]:
        step = max(_AT_A_TIME // len(self.weights), 1)
        return (slice(at, at + step) for at in range(0, rows, step))

    # Laws of columns.

    def marginal(self, *columns: int) -> Array:
        """The joint law of some columns' cells, one axis each.

        Examples
        --------
        >>> state = TableState(np.ones(1), np.array([[0.3, 0.7, 1.0]]), np.ones(3), ((0, 1), (0,)))
        >>> state.marginal(0, 1)
        array([[0.3],
               [0.7]])
        """
        first, *others = columns
        if first in others or len(set(others)) != len(others):
            raise ValueError(f"each column once, got {columns}")
        joint = self.weights[:, None] * self.cells(first)
        for column in others:
            cells = self.cells(column)
            joint = joint[..., None] * cells.reshape(len(cells), *(1,) * (joint.ndim - 1), -1)
        return np.asarray(joint.sum(axis=0))

    def bins_of(self, first: int, second: int) -> Array:
        """The joint law of two columns' bins."""
        return np.asarray((self.weights[:, None] * self.tables[first]).T @ self.tables[second])

    def conditional(self, column: int, X: Cells) -> Array:
        """The law (n, cells) of a column, given the others; what a row says of it is not used."""
        hidden = np.array(X)
        hidden[:, column] = -1
        cells, found = self.cells(column), np.empty((len(X), self.sizes[column]))
        for rows in self._blocks(len(X)):
            found[rows] = self.responsibilities(hidden[rows]) @ cells
        return found

    # Drawing.

    def draw(
        self,
        n: int,
        rng: np.random.Generator,
        allowed: Allowed | None = None,
        instead: Allowed | None = None,
        balanced: bool = True,
        linked: Linked | None = None,
        detail: Detail | None = None,
    ) -> Cells:
        """Rows of cells, (n, d).

        Parameters
        ----------
        n : int
        rng : Generator
        allowed : mapping of int to array of bool, optional
            For some columns, which cells may be drawn: rows are drawn given all of that.
        instead : mapping of int to array of bool, optional
            For some columns, cells that are drawn in place of all others, given the class: what a
            missing value would have been. Unlike ``allowed``, this says nothing about the class.
        balanced : bool
            Whether rows share out classes, bins and cells as evenly as whole numbers allow. Each
            row then has the same law as before, but together they are closer to it than
            independent rows are.
        linked : Linked, optional
            Columns between which constraints hold, and how to draw those.
        detail : Detail, optional
            How cells within bins go together; without it they are independent.

        Examples
        --------
        >>> state = TableState(np.ones(1), np.array([[0.3, 0.7]]), np.ones(2), ((0, 1),))
        >>> rows = state.draw(10, np.random.default_rng(0))
        >>> int(rows.sum())
        7
        """
        allowed, instead = allowed or {}, instead or {}
        apart = frozenset() if linked is None else linked.columns
        logs = self._log(self.weights)
        if linked is not None:
            logs = logs + linked.log_mass
        for j, cells in allowed.items():
            if j not in apart:
                logs = logs + self._log(self._restricted(j, cells)[0].sum(axis=1))
        law = np.exp(logs - logs.max())[None]
        labels = _drawn(np.zeros(n, dtype=np.int64), law, rng, balanced)[rng.permutation(n)]
        rows = np.empty((n, len(self.maps)), dtype=np.int64)
        for j in range(len(self.maps)):
            if j in apart:
                continue
            known = [part[j] for part in (allowed, instead) if j in part]
            table, law = self._restricted(j, *known)
            rows[:, j] = _drawn(_drawn(labels, table, rng, balanced), law, rng, balanced)
        if linked is not None:
            linked.fill(rows, labels, rng)
        if detail is not None:
            detail.arrange(rows, rng)
        return rows

    def complete(
        self,
        X: Cells,
        rng: np.random.Generator,
        instead: Allowed | None = None,
        linked: Linked | None = None,
        detail: Detail | None = None,
    ) -> Cells:
        """Rows in which what is not known (-1) is drawn, given all that the row says.

        ``instead``: for some columns, cells that are drawn in place of all others, as for
        :meth:`draw`: what a missing value would have been, given that it is missing. ``linked``:
        columns between which constraints hold, and how to draw those given the class. ``detail``:
        how cells within bins go together.
        """
        filled, instead = np.array(X), instead or {}
        apart = frozenset() if linked is None else linked.columns
        for rows in self._blocks(len(X)):
            part = filled[rows]
            shares = self.responsibilities(part)
            labels = pick(np.arange(len(part)), shares, rng.random(len(part)))
            if linked is not None:
                linked.complete(part, rows, labels, rng)
            drawn = np.zeros(part.shape, dtype=bool)
            for j, cells in enumerate(part.T):
                if j in apart:
                    continue
                wanted = cells == -1
                if j in instead:
                    wanted |= ~instead[j][cells]
                table, law = self._restricted(j, *([instead[j]] if j in instead else []))
                bins = _drawn(labels[wanted], table, rng, balanced=False)
                cells[wanted] = _drawn(bins, law, rng, balanced=False)
                drawn[:, j] = wanted
            if detail is not None:
                detail.complete(part, drawn, rng)
        return filled

    def _restricted(self, j: int, *allowed: NDArray[np.bool_]) -> tuple[Array, Array]:
        """What is left of a column: (C, bins) of the classes, (bins, cells) within bins."""
        bins, law = self.columns[j], self.columns[j].law
        for cells in allowed:
            law = np.where(cells, law, 0.0)
        if not law.sum() > 0:
            raise ValueError(f"no cell of column {j} is allowed")
        within = np.zeros((bins.count, len(law)))
        within[bins.bin_of, np.arange(len(law))] = law
        return self.tables[j] * bins.total(law), within


def pooled(states: Sequence[TableState]) -> TableState:
    """One mixture of the classes of several, each mixture with the same weight."""
    weights = np.concatenate([state.weights for state in states]) / len(states)
    profiles = np.concatenate([state.profiles for state in states])
    return TableState(weights, profiles, states[0].law, states[0].maps)


def _normalise(joint: Array) -> Array:
    """Turn log joint probabilities (n, C) into shares, in place; the log of each row's sum."""
    top = joint.max(axis=1)
    np.exp(np.subtract(joint, top[:, None], out=joint), out=joint)
    total = joint.sum(axis=1)
    joint /= total[:, None]
    return np.asarray(top + np.log(total))


def _drawn(
    group: NDArray[np.int64], laws: Array, rng: np.random.Generator, balanced: bool
) -> NDArray[np.int64]:
    """For each row, one of the possibilities of its group's law, (groups, possibilities)."""
    n = len(group)
    if not balanced:
        return pick(group, laws, rng.random(n))
    # The rows of a group, in random order, are spread evenly over its law from a random start.
    order = rng.permutation(n)
    order = order[np.argsort(group[order], kind="stable")]
    counts = np.bincount(group, minlength=len(laws))
    first = np.cumsum(counts) - counts
    rank = np.empty(n)
    rank[order] = np.arange(n) - first[group[order]]
    return pick(group, laws, (rank + rng.random(len(laws))[group]) / counts[group])


def pick(group: NDArray[np.int64], laws: Array, u: Array) -> NDArray[np.int64]:
    """The possibility at u in [0, 1) of each row's law; none that has no probability."""
    sums = np.cumsum(laws, axis=1)
    sums /= np.maximum(sums[:, -1:], _TINY)
    size = laws.shape[1]
    flat = (np.minimum(sums, 1.0) + np.arange(len(laws))[:, None]).ravel()
    found = np.searchsorted(flat, u + group, side="right") - group * size
    # Rounding at either end.
    last = size - 1 - np.argmax(laws[:, ::-1] > 0, axis=1)
    first = np.argmax(laws > 0, axis=1)
    return np.asarray(np.clip(found, first[group], last[group]), dtype=np.int64)
