"""A party's own privacy account: what its answers have cost so far, and what they may cost.

:func:`bill` gives the account after an answer, or refuses the answer.

Questions about a cell of a run's partition concern the records in that cell alone. The party draws
cells itself, anew for each run, so a record pays for the questions about its own cell only.
:func:`dearest` prices a run's cells by an event that is no cheaper than any of them: release by
release, the least noise and the most numbers.

A server chooses each question's noise, and when to stop, after it has seen the answers to earlier
questions. :func:`chosen` prices such adaptive releases; not every accountant is valid for them
(``docs/proofs/federation.md``, section 4).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ...accounting import Event, Failure, Gaussian, mu_for
from ...core import Spent
from ...ledger.filter import chosen, dearest
from ...meter import cost, event_of
from ..agreement import Agreement
from ..wire.codec import BadMessage
from ..wire.messages import Budget, Question
from ..wire.queries import unpack
from .memory import Memory

_STEPS = (2**24, 2**40)
# The least number of records that a party assumes, where none was agreed on.
_ROWS = 2.0**20
# How much less noise, relative to what one record moves, it then accepts; and below which ratio it
# charges for that.
_LEAST, _NEAR = 0.45, 0.99
# By how much costs of the same noise, computed in two ways, may differ.
_HAIR = 1e-9
# By how much a party's own price of a run may exceed what its terms say.
_NEARLY = 1e-6


def believe(question: Question, rows: float | None) -> tuple[Spent, ...]:
    """What answering costs, as the party computes it; raises if the server's price is far from it.

    Lattice and noise are the server's, so that all parties use the same ones whatever their
    machines' last bits. Sensitivities are derived anew. Floating-point errors grow with the number
    of records, which the server claims: a party assumes at least ``rows`` (the number agreed on),
    or 2^20, so that a server which lies about it gains no more than a factor.

    Neighbours are the server's too. The charge is never less than the cost of adding or removing a
    record, so that is what a party's account is about, whatever neighbours single questions name.
    """
    claimed = question.noise.price(question.query)
    least = max(question.noise.rows, _ROWS if rows is None else rows)
    own = replace(question.noise, rows=least).price(question.query)
    unlike = replace(question.noise, neighbours="add-remove").price(question.query)
    if not len(own) == len(unlike) == len(question.prices):
        raise BadMessage("the question's prices are not those of its query")
    if any(more.sensitivity > mine.sensitivity for more, mine in zip(unlike, own, strict=True)):
        raise BadMessage("the question's neighbours hide less than a record more or less")
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
        if not (0 < price.multiplier < math.inf and 0 < cautious.multiplier < math.inf):
            raise BadMessage("the question's noise has no size")
        # Against the noise at hand, not against what the server chose to promise of it.
        least = max(promised, price.multiplier)
        if price.multiplier < promised * (1 - 1e-6) or cautious.multiplier < least * _LEAST:
            raise BadMessage("the question's noise is less than it says")
        found.append(price if cautious.multiplier > least * _NEAR else cautious)
    return tuple(found)


@dataclass
class Account:
    """A party's limit on what it gives away over all runs, and what it has spent of it.

    Parameters
    ----------
    limit : float or None
        Epsilon, for adding or removing one record; ``None`` is no limit.
    delta : float
        For noise and failures together; for each of them, where a server chooses between them as
        it goes along.
    """

    limit: float | None
    delta: float
    spent: tuple[tuple[int, Spent], ...] = ()
    """Every private answer's price, with the number of its run."""
    failures: tuple[float, ...] = ()
    exact: int = 0
    """How many exact answers were given: no finite epsilon bounds those."""
    roster: str = ""
    """With whom: all exact answers of a party are summed with those of the same others."""
    reserved: bytes = b""
    """Which answer was paid for and has not left yet."""

    def __post_init__(self) -> None:
        if self.limit is not None and not self.limit > 0:
            raise ValueError(f"epsilon of a party must be above 0, got {self.limit}")
        if not 0 < self.delta < 1:
            raise ValueError(f"delta of a party must lie between 0 and 1, got {self.delta}")

    def _cost(self, more: Sequence[tuple[int, Spent]] = (), failure: float = 0.0) -> float:
        return chosen(self._events(more, failure), self.delta)

    def _events(self, more: Sequence[tuple[int, Spent]], failure: float) -> list[Event]:
        events: list[Event] = [Failure(f) for f in (*self.failures, failure) if f]
        partitions: dict[int, dict[int, list[Spent]]] = {}
        for run, spent in (*self.spent, *more):
            if spent.cell is None:
                events.append(event_of(spent))
            else:
                partitions.setdefault(run, {}).setdefault(spent.cell, []).append(spent)
        for cells in partitions.values():
            events += dearest(cells.values())
        return events

    def of_run(self, run: int) -> list[Spent]:
        """What a run's private answers cost so far."""
        return [spent for number, spent in self.spent if number == run]

    def grants(self, budget: Budget, failure: float) -> bool:
        """Whether a whole run of this epsilon and delta fits what is left.

        It is priced as one Gaussian release of that cost, or added to what was spent if that is
        less, as it is where all noise is Laplace.
        """
        if self.limit is None:
            return True
        epsilon, delta, _ = budget
        costs = [self._cost() + epsilon] if delta <= self.delta else []
        if delta > failure:
            whole = Gaussian(1 / mu_for(epsilon, delta - failure))
            costs.append(chosen([*self._events((), failure), whole], self.delta))
        return min(costs, default=math.inf) <= self.limit * (1 + _HAIR)

    def charge(
        self,
        prices: Sequence[Spent],
        failure: float = 0.0,
        run: int = 0,
        roster: str = "",
        answer: bytes = b"",
    ) -> bool:
        """Add a cost if the limit allows; ``False``, and nothing added, if not.

        An exact answer (no prices) has no finite cost: it is counted, and with whom it was given.
        ``answer`` names what is paid for: if that was ``reserved`` before, it is not paid twice.
        """
        if answer and answer == self.reserved:
            return True
        priced = [(run, spent) for spent in prices]
        if self.limit is not None:
            if not prices:
                return False
            if not self._cost(priced, failure) <= self.limit:
                return False
        self.spent = (*self.spent, *priced)
        self.failures = (*self.failures, failure) if failure else self.failures
        if not prices:
            self.exact, self.roster = self.exact + 1, roster
        self.reserved = answer
        return True

    def after_refusal(self, tried: Account) -> Account:
        """The account after a message that was charged for, as in ``tried``, is refused.

        It is as before, except for exact answers: refusing one after rows were read may depend on
        them (sums that are not finite, or above the bounds), so the refusal counts as an answer.
        """
        return replace(self, exact=tried.exact, roster=tried.roster)

    def limit_to(
        self, limit: float | None, delta: float | None, despite_exact_answers: bool = False
    ) -> None:
        """Set another limit; raises ValueError where exact answers make it an empty promise.

        With ``despite_exact_answers`` it is a limit on private answers alone.
        """
        other = Account(limit, self.delta if delta is None else delta)
        if limit not in (None, self.limit) and self.exact and not despite_exact_answers:
            raise ValueError(
                f"{self.account}: a limit of epsilon={limit:g} promises nothing about rows that "
                "were in exact answers; acknowledge it with despite_exact_answers=True "
                "(--despite-exact-answers), and the limit is on private answers alone"
            )
        self.limit, self.delta = other.limit, other.delta

    @property
    def epsilon(self) -> float:
        """What all answers so far cost, at the party's delta; infinite if one was exact."""
        return math.inf if self.exact else self._cost()

    @property
    def account(self) -> str:
        """What was given away, in words."""
        if self.exact:
            return f"exact answers: {self.exact}; no finite epsilon"
        return f"epsilon {self.epsilon:.6g} at delta {self.delta:.3g}"


def account_of(state: bytes) -> Account:
    """The account in a party's state, whatever its rows."""
    return Account(**unpack(state, "party", own=True)["account"])


def check_exact(account: Account, agreement: Agreement) -> None:
    """Refuse exact sums where a limit is set, or that could be subtracted from each other.

    Two exact sums over different parties differ by the sums of single parties. So exact sums are
    over all members, and all exact sums that a party ever takes part in are over the same members.
    """
    if agreement.no_exact:
        raise BadMessage(agreement.no_exact)
    if account.limit is not None:
        raise BadMessage(
            "the question exceeds this party's own budget: it has a limit, and an exact answer has "
            "no finite cost"
        )
    if account.exact and account.roster != agreement.roster:
        raise BadMessage(
            "this party has given exact answers together with other parties, or under other keys: "
            "the difference of the two sums would show single parties' own"
        )


def bill(question: Question, memory: Memory, account: Account, agreement: Agreement) -> Account:
    """The account after the answer that ``memory`` is about; raises if it must be refused."""
    prices = believe(question, agreement.rows) if question.prices else ()
    if memory.private not in (None, bool(prices)):
        raise BadMessage("the run's terms speak of other noise than the question")
    if not prices:
        check_exact(account, agreement)
    run, after = len(memory.runs), replace(account)
    failure = memory.failure if prices and not account.of_run(run) else 0.0
    name = hashlib.sha256(f"{memory.run}|{memory.round}|".encode() + memory.about).digest()
    if not after.charge(prices, failure, run, agreement.roster, name):
        raise BadMessage("the question exceeds this party's own budget")
    return after


def check_declared(memory: Memory, account: Account) -> None:
    """Refuse a run that has come to cost more than its terms say.

    The terms name the accountant. It is asked only if the quick one ("auto") finds the cost too
    high.
    """
    if memory.budget is None:
        return
    most, delta, accountant = memory.budget
    spent = account.of_run(len(memory.runs))
    for one in dict.fromkeys(("auto", accountant)):
        if cost(spent, memory.failure, delta, one) <= most * (1 + _NEARLY):
            return
    raise BadMessage("the question exceeds the epsilon that the run's terms speak of")
