"""A party: the only holder of its rows, and the only judge of what leaves them.

A party believes nothing the server says. It answers messages of the federation it has joined, about
a run it knows, in rounds that only go forward, and questions that meet the conditions of their own
privacy proof; it keeps an account of its own. The same request twice gets the same bytes twice,
never fresh noise. If anything goes wrong inside, what leaves is a refusal that says nothing about
rows, and the party is as it was before the message.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Collection
from dataclasses import asdict, replace
from typing import Any, Self

from ..core import Spent
from . import boxes
from .agreement import Agreement, Card
from .answer import Question, Unanswerable, answer, on_grid, sizes
from .budget import OwnBudget, believe
from .codec import BadMessage
from .errors import FederationError
from .holding import Categories, Holding
from .kinds import KINDS, PROTECTIONS
from .memory import Memory
from .messages import Request, plan_hash, read_question, refusal, reply
from .protection import Inside, PartySide
from .protections import party_side
from .ratchet import derive, drawing, new_secret
from .wire import check_persons, check_query, pack, unpack

__all__ = ["Party", "account_of"]


class Party:
    """Holds rows and answers for them.

    Parameters
    ----------
    rows : array, frame, path or Rows
        The party's records. They must stay as they are, and in their order, while a fit goes on.
    name : str
        What the federation calls it.
    y : array, or str, optional
        The target of each record, for models that have one; or the name of the column that it is.
    categories : list, optional
        Rows hold categories, of which these are each column's, a list of lists; or one list for all
        columns. Public: all parties declare the same.
    groups : array, or str, optional
        Whom each record belongs to, or the name of the column that says so: a private fit hides
        persons with all their records at this party. All parties of a federation have groups, or
        none has.
    header : bool, optional
        Where rows are a CSV file, whether its first line is a header; by default one that could be
        data is refused. See :func:`privem.sources.read_file`.
    epsilon : float, optional
        The most this party gives away about a record (a person, with ``groups``) more or less over
        all runs, at ``delta``; it refuses what would exceed it, and every exact question. ``None``:
        no limit of its own.
    delta : float
    plans : collection of str, optional
        Hashes of the plans it takes part in; ``None`` is any.
    n_jobs : int, optional
        Threads.

    Examples
    --------
    >>> import numpy as np
    >>> party = Party(np.zeros((5, 2)), "north", epsilon=1.0)
    >>> party.features, party.spent
    (2, 0.0)
    """

    def __init__(
        self,
        rows: Any,
        name: str,
        y: Any = None,
        *,
        categories: Any = None,
        groups: Any = None,
        header: bool | None = None,
        epsilon: float | None = None,
        delta: float = 1e-6,
        plans: Collection[str] | None = None,
        n_jobs: int | None = None,
    ) -> None:
        if not isinstance(name, str) or not 0 < len(name) <= 100:
            raise ValueError("a party's name has 1 to 100 characters")
        self._held = Holding.of(rows, y, categories, groups, header)
        self._rows = self._held.rows
        self.name, self.n_jobs, self.plans = name, n_jobs, plans
        self._budget = OwnBudget(epsilon, delta)
        self._memory = Memory(secret=new_secret())
        self._known = b""  # which run's rows are known to be those that it began with
        self._drawn: tuple[bytes, Holding] = b"", self._held
        self._agreement: Agreement | None = None
        self._box_key = self._signing_key = b""
        self._side: PartySide | None = None
        self._question: Question | None = None
        self.problem: BaseException | None = None
        """What last went wrong inside; for the party's own eyes."""

    @property
    def features(self) -> int:
        """How many columns, a target included."""
        return self._rows.n_features

    @property
    def columns(self) -> tuple[str, ...] | None:
        """Their names, if they have any."""
        names = self._rows.names
        return None if names is None else tuple(str(name) for name in names)

    @property
    def weighted(self) -> bool:
        """Whether its records have weights."""
        return getattr(self._rows, "weight", None) is not None

    @property
    def target(self) -> bool:
        """Whether the last column is a target."""
        return self._held.target

    @property
    def persons(self) -> bool:
        """Whether persons are hidden, rather than records."""
        return self._held.owned is not None

    @property
    def categories(self) -> Categories | None:
        """Of each column, where rows are codes of categories."""
        return self._held.categories

    @property
    def spent(self) -> float:
        """Epsilon of all answers so far, at the party's delta; infinite once one was exact."""
        return self._budget.epsilon

    @property
    def limit(self) -> float | None:
        """The most epsilon it gives away; ``None`` if it has no limit of its own."""
        return self._budget.limit

    @property
    def account(self) -> str:
        """What was given away so far, in words."""
        return self._budget.account

    def limit_to(
        self, epsilon: float | None, delta: float, *, despite_exact_answers: bool = False
    ) -> None:
        """Set another limit of its own, or none.

        Where exact answers were given a limit is refused, because it says nothing about rows that
        were in them. ``despite_exact_answers=True`` acknowledges that: the limit is then on private
        answers alone.
        """
        self._budget.limit_to(epsilon, delta, despite_exact_answers)

    def card(self, protection: str) -> Card:
        """The party's entry in an agreement; makes its keys where the protection needs any."""
        kind = KINDS.get(protection)
        if kind is None:
            raise ValueError(f"protection must be one of {PROTECTIONS}, got {protection!r}")
        if kind.boxes and not self._box_key:
            self._box_key = boxes.new_key()
        if kind.masks and not self._signing_key:
            from .masked import Identity

            self._signing_key = Identity.new().private_bytes()
        box = boxes.public(self._box_key) if self._box_key else ""
        signing = ""
        if self._signing_key:
            from .masked import Identity

            signing = Identity(self._signing_key).public.hex()
        return Card(self.name, box, signing)

    def join(self, agreement: Agreement) -> Self:
        """Consent to an agreement: the party's own act, never the server's.

        The account of what was spent goes on; runs of an earlier agreement are over.
        """
        if self.name not in agreement.names:
            raise ValueError(f"the agreement does not name {self.name!r}")
        if self.card(agreement.protection) != agreement.card(self.name):
            raise ValueError(f"the agreement names other keys for {self.name!r} than its own")
        odd = self._unlike(agreement)
        if odd:
            raise ValueError(f"{self.name!r}: {odd}")
        self._agreement = agreement
        self._side = party_side(agreement, b"")
        self._memory = self._memory.ended()
        return self

    def _unlike(self, agreement: Agreement) -> str:
        """What of the rows is not as agreed; empty if all is."""
        if self.weighted and not agreement.weighted:
            return "its rows have weights, the agreement has none"
        if self.target != agreement.target:
            have = ("a target, the agreement has none", "no target (y=), the agreement has one")
            return f"its rows have {have[0 if self.target else 1]}"
        if self.persons != agreement.persons:
            have = ("persons (groups=), the agreement is about records", "no persons (groups=)")
            return f"its rows have {have[0 if self.persons else 1]}"
        if self.categories != agreement.categories:
            return "its rows have other categories= than were agreed on"
        return ""

    def handle(self, message: bytes) -> bytes:
        """Answer a message: a reply, or a refusal."""
        digest = hashlib.sha256(message).digest()
        if digest == self._memory.last:
            return self._memory.last_reply
        request: Request | None = None
        before = self._mutable()
        try:
            request = Request.from_bytes(message)
            memory, payload = self._answer(request)
            sent = reply(request, self.name, payload, memory.count + 1)
            self._memory = memory.answered(digest, sent)
            return sent
        except BaseException as problem:
            # Nothing has left: all is as it was, whatever went wrong and wherever.
            self._go_back(before)
            self.problem = problem
            if isinstance(problem, BadMessage | Unanswerable | FederationError):
                return refusal(request, self.name, str(problem), before[0].count)
            if isinstance(problem, Exception):
                # It may have to do with the rows: not a word about it.
                why = "the question could not be answered"
                return refusal(request, self.name, why, before[0].count)
            raise

    def _mutable(self) -> tuple[Memory, OwnBudget, PartySide | None]:
        """All that a message may change: what was said, the account, the protection's side."""
        side = None if self._side is None else self._side.copy()
        return self._memory, copy.copy(self._budget), side

    def _go_back(self, before: tuple[Memory, OwnBudget, PartySide | None]) -> None:
        """As it was before a message, whichever side it is and however far the message came."""
        self._memory, self._budget, self._side = before
        self._question = None

    def _answer(self, request: Request) -> tuple[Memory, bytes]:
        agreement, memory = self._agreement, self._memory
        if agreement is None or self._side is None:
            raise BadMessage("this party has joined no federation")
        if request.federation != agreement.hash:
            raise BadMessage("the request is for another federation")
        if request.round == 0:
            return self._begin(request)
        if request.run != memory.run or request.plan != memory.plan:
            raise BadMessage("the request belongs to no run that this party is in")
        self._know_rows(memory)
        if request.round > memory.round:
            if not request.question:
                raise BadMessage("the round begins without a question")
            memory = self._consider(request)
        elif request.round < memory.round or request.step <= memory.step:
            raise BadMessage("the request is a replay: its round is over")
        elif request.question not in (b"", memory.question):
            raise BadMessage("a round has one question")
        else:
            memory = replace(memory, step=request.step)
        question = self._question or read_question(memory.question)
        self._question = question
        kept = memory.numbers

        def numbers() -> Any:
            nonlocal kept
            if kept is None:
                kept = self._numbers(question, memory)
            return kept

        inside = Inside(
            agreement,
            self.name,
            memory.run,
            memory.round,
            on_grid(question, agreement),
            self._box_key,
            self._signing_key,
            numbers,
            lambda: sizes(question.query, self.features),
            memory.question,
        )
        payload = self._side.handle(request.payload, inside)
        return memory.said(kept), payload

    def _numbers(self, question: Question, memory: Memory) -> Any:
        """What goes into the round's sum, as often as it is computed."""
        assert self._agreement is not None
        if self._drawn[0] != memory.draws:
            self._drawn = memory.draws, self._held.drawn_by(drawing(memory.draws, "persons"))
        source = self._drawn[1].source(
            bool(question.prices),
            self.n_jobs,
            derive(memory.draws, "cells"),
            drawing(memory.key, "pairs"),
        )
        return answer(question, source, self._agreement, memory.noise)

    def _know_rows(self, memory: Memory) -> None:
        """Refuse to go on with a run, after a restart, about other rows than it began with.

        Its masks would hide two sums, and so show their difference.
        """
        if memory.rows != self._known:
            if not memory.knows(self._held.fingerprint):
                raise BadMessage("the party's rows are not those that the run began with")
            self._known = memory.rows

    def _begin(self, request: Request) -> tuple[Memory, bytes]:
        if request.run in self._memory.runs:
            raise BadMessage("the request is a replay: its run was begun before")
        if request.step or request.question:
            raise BadMessage("a run begins with its terms alone")
        body = unpack(request.payload, "terms")
        terms, failure, private = (body.get(key) for key in ("terms", "failure", "private"))
        if not (
            set(body) == {"terms", "failure", "private"}
            and isinstance(terms, dict)
            and all(isinstance(text, str) for text in terms.values())
            and type(failure) is float
            and 0 <= failure < 1
            and (private is None or isinstance(private, bool))
        ):
            raise BadMessage("the terms of the run are malformed")
        if plan_hash(terms, failure, private) != request.plan:
            raise BadMessage("the plan's hash is not that of its terms")
        if self.plans is not None and request.plan not in self.plans:
            raise BadMessage("this party takes no part in such a plan")
        assert self._agreement is not None
        assert self._side is not None
        odd = self._unlike(self._agreement)
        if odd:
            raise BadMessage(odd)
        if private is False:
            self._check_exact(self._agreement)
        self._question = None
        memory, masks = self._memory.begun(request, failure, private, self._held.fingerprint)
        self._side.begin(masks)
        self._known = memory.rows
        return memory, pack("welcome", {"features": self.features, "columns": self.columns})

    def _check_exact(self, agreement: Agreement) -> None:
        """Refuse exact sums that could be subtracted from each other.

        Two over different parties differ by the sums of those who are in one of them. So exact sums
        are over all members, and all that this party ever takes part in over the same ones.
        """
        if agreement.no_exact:
            raise BadMessage(agreement.no_exact)
        if self._budget.exact and self._budget.roster != agreement.roster:
            raise BadMessage(
                "this party has given exact answers together with other parties, or under other "
                "keys: the difference of the two sums would show single parties' own"
            )

    def _consider(self, request: Request) -> Memory:
        """Whether to answer a new question; its cost is charged before a row is read."""
        assert self._agreement is not None
        question = read_question(request.question)
        check_query(question.query, self.features, bool(question.prices))
        if question.prices and self.persons:
            check_persons(question.query)
        cell, partition = getattr(question.query, "cell", None), self._memory.partition
        if cell is not None and partition not in (0, cell.count):
            # Cells of two partitions overlap: whoever is in one of each would pay for one only.
            raise BadMessage("a run has one partition")
        failure = self._memory.failure
        prices: tuple[Spent, ...] = ()
        if question.prices:
            prices = believe(question, self._agreement.rows)
        if self._memory.private not in (None, bool(prices)):
            raise BadMessage("the run's terms speak of other noise than the question")
        if not prices:
            self._check_exact(self._agreement)
        run = len(self._memory.runs)
        paid = (prices, failure if prices else 0.0, run, self._agreement.roster)
        if not self._budget.charge(*paid):
            over = "exceeds this party's own budget"
            over += "" if prices else ": it has a limit, and an exact answer has no finite cost"
            raise BadMessage(f"the question {over}")
        if not prices and self._held.undeclared:
            # Known of rows, so not a word of it before the question is one to be answered.
            raise Unanswerable("the rows hold values that are none of the categories agreed on")
        self._question = question
        return replace(
            self._memory.asked(request),
            failure=0.0 if prices else failure,
            partition=partition if cell is None else cell.count,
        )

    def state(self) -> bytes:
        """Everything but the rows, to be kept by the party alone: it holds secret keys.

        Store it before the reply it belongs to leaves.
        """
        body = {
            "name": self.name,
            "keys": {"box": self._box_key, "signing": self._signing_key},
            "agreement": None if self._agreement is None else self._agreement.to_dict(),
            "memory": asdict(self._memory),
            "side": b"" if self._side is None else self._side.state(),
            "persons": self.persons,
            "limit": self._budget.limit,
            "delta": self._budget.delta,
            "spent": self._budget.spent,
            "failures": self._budget.failures,
            "exact": self._budget.exact,
            "roster": self._budget.roster,
        }
        return pack("party", body)

    def restore(self, state: bytes) -> Self:
        """Go on from a state of the same party."""
        body = unpack(state, "party", own=True)
        if body["name"] != self.name:
            raise ValueError(f"the state is that of {body['name']!r}, not of {self.name!r}")
        agreement = None if body["agreement"] is None else Agreement.from_dict(body["agreement"])
        odd = "" if agreement is None else self._unlike(agreement)
        if not odd and body["spent"] and body["persons"] != self.persons:
            was, now = ("persons", "records") if body["persons"] else ("records", "persons")
            odd = f"its account is of {was}, which says nothing about {now}; begin a new one"
        if odd:
            raise ValueError(f"{self.name!r}: {odd}")
        self._box_key, self._signing_key = body["keys"]["box"], body["keys"]["signing"]
        self._budget = _account(body)
        self._memory = Memory.of(body["memory"])
        self._question, self._known = None, b""
        if agreement is not None:
            self._agreement = agreement
            self._side = party_side(agreement, body["side"] if self._memory.run else b"")
        return self


def account_of(state: bytes) -> OwnBudget:
    """The account in a party's state, whatever its rows."""
    return _account(unpack(state, "party", own=True))


def _account(body: dict[str, Any]) -> OwnBudget:
    budget = OwnBudget(body["limit"], body["delta"])
    budget.spent, budget.failures = body["spent"], body["failures"]
    budget.exact, budget.roster = body["exact"], body["roster"]
    return budget
