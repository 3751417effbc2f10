"""Draws that keep the constraints of a schema. All public: arithmetic on a fitted model.

*Inequalities.* Within a class, records are drawn given that all of them hold (:mod:`.chains`); none
is drawn in vain. That alone would move each column: what is at most another would become smaller.
So values are weighted, by as little as will do, such that each column keeps its own law as far as
the inequalities allow. Classes keep their probabilities, and columns without constraints their
laws: what changes is how the linked columns depend.

*What determines what.* If a determines b, then a is drawn as ever, and b follows from it by the
table that is known, or is for each value of a the most likely value of b by the model. So a keeps
its law, and b has that of its image. Where a is missing, b is drawn as ever, and whether b is
missing does not depend on a's value within a class.

Filled gaps: the class is drawn given what a record says, and values given the class, the record and
the constraints. A record that breaks a constraint already is filled as if it were not there.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...data.columns import Moment, Number
from ...data.constraints import AtMost, Determines, table_cells
from ...data.given import spans
from ...linalg import Array
from ...schema import Schema
from .chains import Chain
from .model import Allowed, Cells, TableState, pick

Whole = NDArray[np.int64]

# What is possible keeps at least this weight, so that it can be drawn if nothing else is left.
_LEAST = 1e-30
_AT_A_TIME = 2**21
# How weights of values are fitted: rounds at most, a distance that is small enough, and how much of
# each correction is made. All columns are corrected at once: of two that are nearly the same, the
# whole of it would be twice too much, over and over.
_ROUNDS, _NEAR, _STEP = 60, 2e-3, 0.85


class Constrained:
    """The columns between which constraints hold, for draws from one model.

    Parameters
    ----------
    schema : Schema
        That of the model.
    state : TableState
    given : mapping of str to condition
    allowed, instead : mapping of int to array of bool
        Cells that may be drawn, as for :meth:`TableState.draw`.
    values : mapping of int to array
        For gaps to be filled: what is known of the columns that inequalities link, as numbers or
        units since 1970; :func:`.chains.unknown` where nothing is.

    Raises
    ------
    ValueError
        If no record meets the conditions and the constraints.
    """

    def __init__(
        self,
        schema: Schema,
        state: TableState,
        given: Mapping[str, Any] | None = None,
        allowed: Allowed | None = None,
        instead: Allowed | None = None,
        values: Mapping[int, NDArray[Any]] | None = None,
    ) -> None:
        self._schema, self._state = schema, state
        self._allowed, self._instead = allowed or {}, instead or {}
        self._values = values or {}
        self.drawn: dict[int, NDArray[Any]] = {}
        """Values of the columns that inequalities link, as drawn."""
        place = schema.names.index
        pairs = [
            (place(c.smaller), place(c.larger)) for c in schema.constraints if isinstance(c, AtMost)
        ]
        determined = [c for c in schema.constraints if isinstance(c, Determines)]
        self._images = {place(c.second): self._image(c) for c in determined}
        self._above = {place(c.second): place(c.first) for c in determined}
        self._ranges = {
            place(name): spans(column, condition)
            for name, condition in (given or {}).items()
            if isinstance(column := schema[name], Number | Moment)
        }
        linked = {j for pair in pairs for j in pair}
        self.columns = frozenset({*linked, *self._above, *self._above.values()})
        self._chains = [
            Chain.of(
                {j: _ordered(schema, j) for j in group},
                [pair for pair in pairs if pair[0] in group],
                self._ranges,
            )
            for group in _groups(pairs)
        ]
        roots = set(self._above.values()) - set(self._above) - linked
        self._chains += [Chain.alone(j, self._present(j)) for j in sorted(roots)]
        if not np.isfinite(self.log_mass).any():
            conditions = f" with {dict(given)!r}" if given else ""
            held = [c.written() for c in schema.constraints]
            raise ValueError(f"no record{conditions} can meet the constraints {held!r}")

    def _present(self, j: int) -> int:
        """How many cells are not that of the missing."""
        column = self._schema.columns[j]
        return column.size - column.missing

    def _image(self, constraint: Determines) -> Whole:
        """The cell of the second column for each cell of the first, but for that of the missing."""
        one, other = (self._schema.names.index(name) for name in constraint.names)
        if constraint.table is not None:
            found = np.empty(self._present(one), dtype=np.int64)
            keys, values = table_cells(
                constraint, self._schema.columns[one], self._schema.columns[other]
            )
            found[keys] = values
            return found
        joint = self._state.marginal(one, other)
        most = np.argmax(joint[: self._present(one), : self._present(other)], axis=1)
        return np.asarray(most, dtype=np.int64)

    # Laws of single columns, (classes, cells).

    def _law(self, j: int, asked: bool = True) -> Array:
        """The probability of each cell that may be drawn, in each class, as conditions say."""
        law = self._state.cells(j)
        may = self._may(j, asked)
        mass = (law * may).sum(axis=1, keepdims=True)
        may = may & self._instead.get(j, np.ones(law.shape[1], dtype=bool))
        total = (law * may).sum(axis=1, keepdims=True)
        return np.asarray(law * may / np.maximum(total, _LEAST) * mass + _LEAST * may)

    def _may(self, j: int, asked: bool) -> NDArray[np.bool_]:
        """Cells that conditions allow."""
        every = np.ones(self._state.sizes[j], dtype=bool)
        return self._allowed.get(j, every) if asked else every

    def _below(self, j: int, asked: bool = True) -> Array:
        """How likely the conditions on what j determines are, given the class and j's cell."""
        found = np.ones_like(self._state.cells(j))
        for second, first in self._above.items():
            if first == j:
                found *= self._message(second, asked)
        return found

    def _choices(self, j: int, asked: bool = True) -> tuple[Array, Array]:
        """Of a determined column, how likely (classes,) a gap is, and (classes, cells) a value."""
        below, law, may = self._below(j, asked), self._state.cells(j), self._may(j, asked)
        here = self._present(j)
        gap = law[:, here:].sum(axis=1) if j not in self._instead else np.zeros(len(law))
        values = (1 - gap)[:, None] * may[:here] * below[:, :here]
        if here == law.shape[1]:
            return np.zeros(len(law)), values
        return gap * may[-1] * below[:, -1], values

    def _message(self, j: int, asked: bool) -> Array:
        """How likely the conditions on a determined column and below are, given what is above."""
        gap, values = self._choices(j, asked)
        found = gap[:, None] + values[:, self._images[j]]
        if self._schema.columns[self._above[j]].missing:
            free = self._law(j, asked) * self._below(j, asked)
            found = np.column_stack([found, free.sum(axis=1)])
        return found

    # Drawing rows.

    @cached_property
    def _tilts(self) -> list[list[Array]]:
        """For each chain, weights of its columns' intervals, (R + 1,) each.

        With them columns that inequalities link keep their own laws, as far as inequalities allow
        (iterative proportional fitting).
        """
        found = []
        for chain in self._chains:
            laws = [
                self._on_grid(chain, k, self._law(j, asked=False))
                for k, j in enumerate(chain.columns)
            ]
            wanted = [self._state.weights @ law for law in laws]
            tilts = [np.ones(law.shape[1]) for law in laws]
            for _ in range(_ROUNDS if chain.edges else 0):
                tilted = [law * tilt for law, tilt in zip(laws, tilts, strict=True)]
                beliefs = chain.beliefs(chain.gathered(tilted))
                now = [self._state.weights @ belief for belief in beliefs]
                if (
                    max(np.abs(np.subtract(*both)).sum() for both in zip(now, wanted, strict=True))
                    < _NEAR
                ):
                    break
                for tilt, one, other in zip(tilts, now, wanted, strict=True):
                    tilt *= np.clip(other / np.maximum(one, _LEAST), 0.1, 10.0) ** _STEP
            found.append(tilts)
        return found

    def _gathered_with(self, asked: bool) -> list[list[Array]]:
        """Of each chain, what :meth:`Chain.gathered` gives of the classes; conditions if asked."""
        return [
            chain.gathered(
                [
                    self._on_grid(chain, k, self._law(j, asked) * self._below(j, asked), asked)
                    * tilt
                    for k, (j, tilt) in enumerate(zip(chain.columns, tilts, strict=True))
                ]
            )
            for chain, tilts in zip(self._chains, self._tilts, strict=True)
        ]

    @cached_property
    def _gathered(self) -> list[list[Array]]:
        return self._gathered_with(asked=True)

    def _on_grid(self, chain: Chain, k: int, cells: Array, asked: bool = False) -> Array:
        j = chain.columns[k]
        law = chain.law(k, cells, self._schema.columns[j].missing)
        if asked and j in self._ranges and chain.edges:
            law[:, :-1] *= chain.within(self._ranges[j])
        return law

    @cached_property
    def log_mass(self) -> Array:
        """The log probability of the conditions in each class, given the constraints."""
        found = np.zeros(len(self._state.weights))
        with np.errstate(divide="ignore"):
            for one, other in zip(self._gathered, self._gathered_with(asked=False), strict=True):
                every = np.maximum(other[0].sum(axis=1), 1e-300)
                found = found + np.log(one[0].sum(axis=1)) - np.log(every)
        return found

    def fill(self, rows: Cells, labels: Whole, rng: np.random.Generator) -> None:
        """Draw the linked columns of new rows, given their classes."""
        for chain, gathered in zip(self._chains, self._gathered, strict=True):
            states = chain.draw(gathered, labels, rng)
            rows[:, chain.columns] = np.column_stack(self._cells(chain, states))
            if chain.edges:
                values = chain.values(states, {}, rng)
                self.drawn.update(zip(chain.columns, values, strict=True))
        for j in self._in_order:
            rows[:, j] = self._follow(j, rows[:, self._above[j]], labels, rng)

    def _cells(self, chain: Chain, states: list[Whole]) -> list[Whole]:
        """Cells of intervals; after the last interval comes the cell of the missing."""
        return [
            np.append(cell_of, self._present(j))[state]
            for j, cell_of, state in zip(chain.columns, chain.cell_of, states, strict=True)
        ]

    @property
    def _in_order(self) -> list[int]:
        """Determined columns, each after the one that determines it."""
        found: list[int] = []
        while len(found) < len(self._above):
            found += [
                second
                for second, first in self._above.items()
                if second not in found and (first in found or first not in self._above)
            ]
        return found

    def _follow(self, j: int, above: Whole, labels: Whole, rng: np.random.Generator) -> Whole:
        """Cells of a determined column, given those of the one that determines it."""
        known = above < len(self._images[j])
        value = self._images[j][np.minimum(above, len(self._images[j]) - 1)]
        gap, values = self._choices(j)
        chance = gap[labels]
        gone = rng.random(len(above)) * (chance + values[labels, value]) < chance
        found = np.where(gone, self._present(j), value)
        if not known.all():
            free = self._law(j) * self._below(j)
            found[~known] = pick(labels[~known], free, rng.random(int((~known).sum())))
        return found

    # Filling gaps.

    def complete(self, part: Cells, rows: slice, labels: Whole, rng: np.random.Generator) -> None:
        """Fill the gaps of the linked columns of some rows, in place, given their classes."""
        wanted = part == -1
        for j, there in self._instead.items():
            wanted[:, j] |= ~there[part[:, j]]
        for chain, tilts in zip(self._chains, self._tilts, strict=True):
            some = np.flatnonzero(wanted[:, chain.columns].any(axis=1))
            step = max(_AT_A_TIME // len(chain.lows), 1)
            for start in range(0, len(some), step):
                at = some[start : start + step]
                self._complete(chain, tilts, part, at, at + rows.start, wanted, labels, rng)
        for j in self._in_order:
            image = self._images[j]
            part[wanted[:, j], j] = image[part[wanted[:, j], self._above[j]]]

    def _complete(
        self,
        chain: Chain,
        tilts: list[Array],
        part: Cells,
        at: Whole,
        rows: Whole,
        wanted: NDArray[np.bool_],
        labels: Whole,
        rng: np.random.Generator,
    ) -> None:
        loose, laws, known = [], [], {}
        for k, j in enumerate(chain.columns):
            open_ = wanted[at, j]
            law = (self._on_grid(chain, k, self._law(j)) * tilts[k])[labels[at]]
            fits = law.copy()
            fits[:, :-1] *= self._fitting(j, part[at], wanted[at])[:, chain.cell_of[k]]
            if chain.edges:
                known[k] = self._values[j][rows]
                state = chain.interval(known[k])
            else:
                state = np.where(open_, 0, part[at, j])
            fixed = np.arange(law.shape[1]) == state[:, None]
            loose.append(np.where(open_[:, None], law, fixed))
            laws.append(np.where(open_[:, None], fits, fixed))
        gathered = chain.gathered(laws)
        states = chain.draw(gathered, np.arange(len(at)), rng)
        broken = ~(gathered[0].sum(axis=1) > 0)
        for law, state in zip(loose, states, strict=True):
            every = np.flatnonzero(broken)
            state[every] = pick(np.arange(len(every)), law[every], rng.random(len(every)))
        for j, cells in zip(chain.columns, self._cells(chain, states), strict=True):
            part[at, j] = np.where(wanted[at, j], cells, part[at, j])
        if chain.edges:
            values = chain.values(states, known, rng)
            for j, each in zip(chain.columns, values, strict=True):
                total = len(self._values[j])
                self.drawn.setdefault(j, np.zeros(total, dtype=each.dtype))[rows] = each

    def _fitting(self, j: int, cells: Cells, wanted: NDArray[np.bool_]) -> Array:
        """Which cells of a column (n, cells) fit what is known of the columns it determines."""
        fits = np.ones((len(cells), self._state.sizes[j]))
        for second, first in self._above.items():
            if first == j:
                below = self._fitting(second, cells, wanted)
                same = np.arange(below.shape[1]) == cells[:, second, None]
                below = np.where(wanted[:, second, None], below, same)
                fits[:, : len(self._images[second])] *= below[:, self._images[second]]
        return fits


def _ordered(schema: Schema, j: int) -> Number | Moment:
    column = schema.columns[j]
    assert isinstance(column, Number | Moment)
    return column


def _groups(pairs: list[tuple[int, int]]) -> list[set[int]]:
    """Columns that are linked by pairs, directly or not."""
    found: list[set[int]] = []
    for pair in pairs:
        joined = [group for group in found if group & set(pair)]
        found = [group for group in found if group not in joined]
        found.append(set(pair).union(*joined))
    return found
