"""One run's entry in a ledger, from its reservation to its outcome."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ..accounting import Gaussian
from ..budget import Allowance
from ..core import Spent, Stage
from ..meter import BudgetExceeded, LedgerEntry, Meter, Statement
from .budget import LedgerError
from .chain import Row, canonical, cost_of, digest
from .filter import AS_GAUSSIAN, Cost, event_of_run

if TYPE_CHECKING:
    from .ledger import Ledger

# By one part in how many the noise that runs may fall short of the plan's, because of rounding.
# Plans stay further below their epsilon than this (`Allowance.plan`).
_HAIR = 10**9
# What a plan may release beyond the numbers that it listed, for what it adds to failures.
_MORE = Gaussian(1e9, dimension=2**22, steps=2**24)


@dataclass(frozen=True)
class Asked:
    """What a run asks for, as the ledger remembers it.

    Parameters
    ----------
    model : str
        The name of what is fitted or computed.
    releases : tuple of str
        The parts of its plan.
    epsilon, delta : float
        Its own budget.
    neighbours, unit : str
        What it hides.
    trust : {"central", "local", "party"}
        Who adds the noise; ``"party"``: it is a run of a federation's party.
    """

    model: str
    releases: tuple[str, ...]
    epsilon: float
    delta: float
    neighbours: str
    unit: str
    trust: str = "central"

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON values."""
        return vars(self) | {"releases": list(self.releases)}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Asked:
        """The inverse of :meth:`to_dict`."""
        return cls(**values | {"releases": tuple(values["releases"])})


def most(allowance: Allowance, epsilon: float, steps: int) -> Cost:
    """What a plan may cost at most, on whatever path (docs/proofs/ledger.md, section 3).

    The sum of 1/multiplier^2 is the same on all paths. Where shares may move between parts, all of
    it may come to be Laplace noise, if any is.
    """
    event = allowance.event()
    cost = Cost.of(event, epsilon, steps)
    if allowance.adaptive and cost.laplace:
        share = math.fsum(part.share for part in allowance.parts)
        all_laplace = Gaussian(allowance.base / math.sqrt(share) * AS_GAUSSIAN)
        noise = Cost.of(all_laplace, epsilon, steps)
        cost = replace(noise, failure=cost.failure, apart=cost.apart)
    gaussian, laplace, pure = (
        each - -each // _HAIR for each in (cost.gaussian, cost.laplace, cost.pure)
    )
    more = _more(epsilon, steps) if cost.gaussian else Cost()
    return Cost(gaussian, laplace, pure, cost.failure + more.failure, cost.apart + more.apart)


@lru_cache(maxsize=64)
def _more(epsilon: float, steps: int) -> Cost:
    """What the slack of a plan adds to failures."""
    return Cost.of(_MORE, epsilon, steps)


def statement_hash(statement: Statement) -> str:
    """SHA-256 of a statement."""
    return digest(canonical(statement.to_dict()))


class Entry:
    """A pending reservation. It prices each stage of its run, beside the run's own meter.

    Parameters
    ----------
    ledger : Ledger
    row : Row
        The reservation.
    meter : Meter
        The run's own, which knows what has run.
    steps : int
        See :meth:`Budget.steps`.
    """

    def __init__(self, ledger: Ledger, row: Row, meter: Meter, steps: int) -> None:
        self.ledger, self.row, self.meter, self.steps = ledger, row, meter, steps
        self._process = os.getpid()
        self.reserve = cost_of(row)

    def charge(self, stage: Stage) -> None:
        """Let the meter charge a stage, if the reservation covers it."""
        self.check_own()
        if not self._spent(stage.noise.price(stage.query)).within(self.reserve):
            raise BudgetExceeded(
                f"stage {stage.name!r} would exceed what the ledger has reserved for this run"
            )
        self.meter.charge(stage)

    def check_own(self) -> None:
        """Raise LedgerError in a fork, which knows not what the other does."""
        if not self._own:
            raise LedgerError(
                "this process was forked from the one that has reserved for this fit: a copy of a "
                "fit would release a second time what is reserved once"
            )

    def sign(self, statement: Statement) -> Statement:
        """The statement with the ledger's data set and the reservation's hash."""
        known = LedgerEntry(self.ledger.dataset, self.row.sequence, self.row.hash)
        return replace(statement, ledger=known)

    def released(self, statement: Statement) -> None:
        """Record that the run has ended, at what it cost."""
        if self._own:
            self.ledger.settle(self.row, "released", self._spent(), statement_hash(statement))

    def failed(self) -> None:
        """Record that the run has failed: at what ran, or as void if nothing did."""
        if self._own:
            kind = "released" if self.meter.releases else "void"
            self.ledger.settle(self.row, kind, self._spent())

    @property
    def _own(self) -> bool:
        """Whether this is the process that has reserved."""
        return os.getpid() == self._process

    def _spent(self, more: Iterable[Spent] = ()) -> Cost:
        groups = [group for _, groups in self.meter.releases for group in groups] + list(more)
        if not groups:
            return Cost()
        event = event_of_run(groups, self.meter.failure)
        return Cost.of(event, self.ledger.budget.epsilon, self.steps)
