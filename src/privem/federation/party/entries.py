"""A party's entries in its data set's ledger: one for each run that it answers in.

The account (:mod:`.account`) is of this party's answers alone, and lies in its state. A ledger is
of everything that is released about the rows, by whomever, and lies in a database. Before the first
answer of a run the most that the run may cost is reserved there, and each answer is written down
before a row is read for it, so that states which were copied or restored find out
(:mod:`privem.ledger.claim`). An answer costs the ledger what it costs the account: what a server
learns that breaks the protocol. The party hears of no end of a run, so the entry is settled when
the next run asks its first question; until then it counts in full.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Any

from ...accounting import Failure, Gaussian, compose, mu_for
from ...ledger import Asked, Ledger, open_ledger
from ...ledger.claim import Claim
from ...ledger.filter import AS_GAUSSIAN, Cost, event_of_run
from ...meter import BudgetExceeded
from ..wire.codec import BadMessage
from ..wire.messages import Budget, Question, RunTerms
from .account import Account
from .memory import Memory

# What a run may release beyond one Gaussian release of its epsilon, for what discrete noise adds.
_MORE = Gaussian(1e9, dimension=2**22, steps=2**24)


class Entries:
    """The entries of a party; without a ledger it has none, and allows everything.

    Parameters
    ----------
    ledger : Ledger, path or URL, optional
    persons : bool
        Whether answers hide persons, rather than records.
    """

    def __init__(self, ledger: Any, persons: bool) -> None:
        self.ledger = None if ledger is None else open_ledger(ledger)
        self.unit = "person" if persons else "record"
        self.claim: Claim | None = None
        self._spent = Cost()  # before the answer that is being made
        if self.ledger is not None:
            # Raises WrongRelation where no answer could be charged.
            _steps(self.ledger, "replace-one", self.unit)

    def refuse_exact(self) -> None:
        """An exact answer has no finite cost."""
        if self.ledger is not None:
            raise BadMessage(
                "the question exceeds this party's own budget: it has a ledger, and an exact "
                "answer has no finite cost"
            )

    def admit(self, terms: RunTerms) -> None:
        """Refuse a run that would not fit, before anybody has paid for it."""
        if self.ledger is None or not terms.private or terms.budget is None:
            return
        steps, state = _steps(self.ledger, "replace-one", self.unit), self.ledger.state()
        here = self._in(self.ledger)
        back = Cost() if here is None else here.returned(self.ledger)
        cost = _most(self.ledger, terms.budget, terms.failure, terms.mixed, steps)
        asked = self._asked(terms.budget, terms.hash, terms.fitted)
        try:
            self.ledger.granted(replace(state, totals=state.totals - back), asked, cost, steps)
        except BudgetExceeded as problem:
            # What is left of the ledger is for the party's owner alone.
            raise BadMessage(
                "the run's epsilon exceeds what is left of this party's own budget"
            ) from problem

    def enter(self, question: Question, memory: Memory, account: Account) -> None:
        """Reserve what the run may cost, unless that was done; ``account`` before the answer."""
        if self.ledger is None:
            return
        if memory.budget is None:
            raise BadMessage("this party has a ledger: the run's terms must name its epsilon")
        steps, run = _steps(self.ledger, question.noise.neighbours, self.unit), _name(memory)
        here = self._in(self.ledger)
        if self.claim is not None and self.claim.run == run:
            if here is None:
                raise BadMessage("the run was begun under another ledger of this party")
            if steps > here.steps:
                raise BadMessage("the question's neighbours are not those that the run began with")
            self.claim = here.followed(self.ledger, account.reserved.hex())
            self._spent = self.claim.spent
            return
        if here is not None:
            here.settle(self.ledger)
        cost = _most(self.ledger, memory.budget, memory.failure, memory.mixed, steps)
        asked = self._asked(memory.budget, memory.plan, memory.fitted)
        self.claim = Claim.make(self.ledger, run, asked, cost, steps)
        self._spent = Cost()

    def answer(self, memory: Memory, account: Account) -> None:
        """Write an answer down; ``account`` after it."""
        if self.ledger is None or self.claim is None:
            return
        event = event_of_run(account.of_run(len(memory.runs)), memory.failure)
        cost = Cost.of(event, self.ledger.budget.epsilon, self.claim.steps)
        self.claim = self.claim.answering(self.ledger, account.reserved.hex(), cost)

    def refused(self, before: Claim | None) -> None:
        """The message was refused: its answer has not left. ``before``: the claim before it."""
        if self.claim is not None and self.claim is not before:
            self.claim = replace(self.claim, spent=self._spent)

    def state(self) -> dict[str, Any] | None:
        """What the party remembers."""
        return None if self.claim is None else self.claim.to_dict()

    def restore(self, state: dict[str, Any] | None, account: Account) -> None:
        """Go on from a state; raises ValueError where that would leave the ledger behind."""
        if state is not None and self.ledger is None:
            raise ValueError(
                f"what it answers is charged to the ledger of {state['dataset']!r}: give it that "
                "(ledger=, --ledger)"
            )
        if self.ledger is not None and account.exact:
            raise ValueError(
                f"{account.account}: a ledger promises nothing about rows that were in exact "
                "answers"
            )
        self.claim = None if state is None else Claim.from_dict(state)

    def _in(self, ledger: Ledger) -> Claim | None:
        """The last entry, if it is in this ledger."""
        known = self.claim is not None and self.claim.dataset == ledger.dataset
        return self.claim if known else None

    def _asked(self, budget: Budget, plan: str, name: str) -> Asked:
        epsilon, delta, _ = budget
        releases = (f"plan {plan}",)
        return Asked(name, releases, epsilon, delta, "add-remove", self.unit, "party")


def _steps(ledger: Ledger, neighbours: str, unit: str) -> int:
    """What a question counts for, as steps of the budget's relation.

    Whatever neighbours it names, it hides a record more or less (``account.believe``).
    """
    covered = ledger.budget.neighbours if neighbours == "replace-one" else "add-remove"
    return ledger.budget.steps(covered, unit)


def _most(ledger: Ledger, budget: Budget, failure: float, mixed: bool, steps: int) -> Cost:
    """The most that a run with this epsilon and delta may cost; it is stopped beyond that."""
    epsilon, delta, _ = budget
    mu = mu_for(epsilon, delta - failure) if delta > failure else 0.0
    if not mu > 0:
        raise BadMessage("the run's delta leaves nothing for its noise")
    whole, own = Gaussian((AS_GAUSSIAN if mixed else 1.0) / mu), ledger.budget.epsilon
    cost = Cost.of(compose(whole, Failure(failure)) if failure else whole, own, steps)
    more = Cost.of(_MORE, own, steps)
    return replace(cost, failure=cost.failure + more.failure, apart=cost.apart + more.apart)


def _name(memory: Memory) -> str:
    """Names a run: one that was begun again after no answer may have other terms."""
    words = f"{len(memory.runs)}|{memory.plan}|{memory.run}"
    return hashlib.sha256(words.encode()).hexdigest()
