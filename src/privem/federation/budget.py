"""What a party has given away, counted by itself."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from ..accounting import Event, Failure, compose, epsilon
from ..core import Spent
from ..meter import event_of
from .answer import Question
from .codec import BadMessage

__all__ = ["OwnBudget", "believe"]

_STEPS = (2**24, 2**40)
# Records that a party reckons with at least, where none were agreed on.
_ROWS = 2.0**20
# How much less noise, relative to what one record moves, it then puts up with; and from where on
# it charges that.
_LEAST, _NEAR = 0.45, 0.99


def believe(question: Question, rows: float | None) -> tuple[Spent, ...]:
    """What answering costs, by the party's own reckoning; raises if the driver's is far from it.

    Lattice and noise are the driver's, so that all parties use the same ones whatever their
    machines' last bits; sensitivities are derived anew. Floating-point errors grow with the number
    of records, which the server claims: a party reckons with ``rows`` at least (the number agreed
    on), or 2^20, so that a server which lies about it gains no more than a factor.
    """
    claimed = question.noise.price(question.query)
    least = max(question.noise.rows, _ROWS if rows is None else rows)
    own = replace(question.noise, rows=least).price(question.query)
    if len(own) != len(question.prices):
        raise BadMessage("the question's prices are not those of its query")
    found = []
    for mine, said, given in zip(own, claimed, question.prices, strict=True):
        same = (given.name, given.kind, given.dimension) == (mine.name, mine.kind, mine.dimension)
        sound = (
            isinstance(given.grid, float)
            and given.grid > 0
            and math.frexp(given.grid)[0] == 0.5
            and type(given.steps) is int
            and _STEPS[0] <= given.steps <= _STEPS[1]
        )
        if not (same and sound):
            raise BadMessage("the question's prices are not those of its query")
        price = replace(said, grid=given.grid, steps=given.steps)
        cautious = replace(mine, grid=given.grid, steps=given.steps)
        promised = question.noise.multiplier
        if not (0 < mine.sensitivity < math.inf and 0 < said.sensitivity < math.inf):
            raise BadMessage("the question has no sensitivity that noise could hide")
        # Against the noise at hand, not against what the server chose to promise of it.
        least = max(promised, price.multiplier)
        if price.multiplier < promised * (1 - 1e-6) or cautious.multiplier < least * _LEAST:
            raise BadMessage("the question's noise is less than it says")
        found.append(price if cautious.multiplier > least * _NEAR else cautious)
    return tuple(found)


class OwnBudget:
    """A party's cap on what it gives away over all runs, and the account of it.

    Parameters
    ----------
    limit : float or None
        Epsilon; ``None`` is no limit.
    delta : float
    """

    def __init__(self, limit: float | None, delta: float) -> None:
        if limit is not None and not limit > 0:
            raise ValueError(f"epsilon of a party must be above 0, got {limit}")
        if not 0 < delta < 1:
            raise ValueError(f"delta of a party must lie between 0 and 1, got {delta}")
        self.limit, self.delta = limit, delta
        self.spent: tuple[Spent, ...] = ()
        self.failures: tuple[float, ...] = ()

    def _event(self, more: Sequence[Spent], failure: float) -> Event:
        failures = [Failure(f) for f in (*self.failures, failure) if f]
        return compose(*failures, *(event_of(s) for s in (*self.spent, *more)))

    def charge(self, prices: Sequence[Spent], failure: float = 0.0) -> bool:
        """Add a cost if the limit allows; ``False``, and nothing added, if not.

        An exact answer (no prices) has no finite cost.
        """
        if self.limit is not None:
            if not prices:
                return False
            if not epsilon(self._event(prices, failure), self.delta, "auto") <= self.limit:
                return False
        self.spent = (*self.spent, *prices)
        self.failures = (*self.failures, failure) if failure else self.failures
        return True

    @property
    def epsilon(self) -> float:
        """What all private answers so far cost together, at the party's delta."""
        return epsilon(self._event((), 0.0), self.delta, "auto")
