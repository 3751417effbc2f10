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
from collections.abc import Callable, Collection
from dataclasses import asdict, replace
from typing import Any, Self

from ...core import Rows
from ...data import LocalSource
from ..agreement import Agreement, Card
from ..errors import FederationError, Unanswerable
from ..protections import PartyRound, PartySide
from ..sums import answer, on_grid, sizes
from ..wire.codec import MAX_BYTES, BadMessage
from ..wire.messages import Question, Request, RunTerms, refusal, reply
from ..wire.queries import check_persons, check_query, pack, unpack
from .account import Account, bill, check_declared, check_exact
from .entries import Entries
from .memory import Keys, Memory, derive, drawing, new_secret
from .rows import PartyRows


class Party:
    """Holds rows and answers for them.

    Parameters
    ----------
    rows : array, frame, path or Rows
        The party's records. They must not change, nor their order, while a fit goes on. A file is
        read once at the beginning: one that cannot be read is an error here, for its owner.
    name : str
        What the federation calls it.
    y : array, or str, optional
        The target of each record, for models that have one; or the name of the column that it is.
    categories : list, optional
        Rows hold categories, of which these are each column's, a list of lists; or one list for all
        columns. Public: all parties declare the same.
    schema : Schema, dict, path or declaration, optional
        What the columns are, for :class:`privem.TableMixture`. Public: all parties declare the
        same, and their columns have the same types.
    groups : array, or str, optional
        The person of each record, or the name of the column that says so: a private fit hides
        persons with all their records at this party (user-level privacy). All parties of a
        federation have groups, or none has.
    sample_weight : array, or str, optional
        How much each record counts; of files, and with a schema, also the column that says so.
    header : bool, optional
        Where rows are a CSV file, whether its first line is a header; by default one that could be
        data is refused. See :func:`privem.data.read_file`.
    epsilon : float, optional
        The most this party gives away about a record (a person, with ``groups``) more or less over
        all runs, at ``delta``; it refuses what would exceed it, and every exact question. It also
        takes the place of the limit in a state that is restored. ``None``: no limit of its own, or
        that of the state.
    delta : float
    plans : collection of str, optional
        Hashes of the plans it takes part in; ``None`` is any.
    n_jobs : int, optional
        Threads.
    ledger : Ledger, path or URL, optional
        The data set's (:class:`privem.Ledger`): each run is charged to it too, or refused.
    store : callable, optional
        Keeps the party's state for good: called with it before a row is summed, when the cost has
        been reserved, and before a reply or a refusal leaves.

    Attributes
    ----------
    features : int
        How many columns, a target included.
    columns : tuple of str or None
        Their names, if they have any.
    weighted, target, persons : bool
        Whether its records have weights; whether the last column is a target; whether persons are
        hidden, rather than records.
    categories : tuple of tuples or None
        Of each column, where rows are codes of categories.
    schema : str
        What the columns are, as JSON; empty without a schema.

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
        schema: Any = None,
        groups: Any = None,
        sample_weight: Any = None,
        header: bool | None = None,
        epsilon: float | None = None,
        delta: float = 1e-6,
        plans: Collection[str] | None = None,
        n_jobs: int | None = None,
        ledger: Any = None,
        store: Callable[[bytes], None] | None = None,
    ) -> None:
        if not isinstance(name, str) or not 0 < len(name) <= 100:
            raise ValueError("a party's name has 1 to 100 characters")
        self._held = held = PartyRows.of(rows, y, categories, groups, header, schema, sample_weight)
        self._rows: Rows = held.table.rows
        names = self._rows.names
        self.features = self._rows.n_features
        self.columns = None if names is None else tuple(str(name) for name in names)
        self.weighted, self.persons = held.weighted, held.persons
        self.target, self.categories = held.table.target, held.categories
        self.schema = held.schema
        self.name, self.n_jobs, self.plans = name, n_jobs, plans
        self.store = store
        self._budget = Account(epsilon, delta)
        self._entries = Entries(ledger, held.persons)
        self._wanted = None if epsilon is None else (epsilon, delta)  # a limit given here
        self._memory = Memory(secret=new_secret())
        self._known = b""  # which run's rows are known to be those that it began with
        self._drawn: tuple[bytes, PartyRows] = b"", self._held
        self._agreement: Agreement | None = None
        self._keys = Keys()
        self._side: PartySide | None = None
        self._question: Question | None = None
        self.problem: BaseException | None = None
        """What last went wrong inside, for the party's owner."""

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
        self,
        epsilon: float | None,
        delta: float | None = None,
        *,
        despite_exact_answers: bool = False,
    ) -> None:
        """Set another limit of its own, or none; ``delta=None`` leaves that as it is.

        Where exact answers were given a limit is refused, because it says nothing about rows that
        were in them. ``despite_exact_answers=True`` acknowledges that: the limit is then on private
        answers alone.
        """
        self._budget.limit_to(epsilon, delta, despite_exact_answers)
        self._wanted = None if epsilon is None else (epsilon, self._budget.delta)
        self._keep(self._side)

    def card(self, protection: str) -> Card:
        """The party's entry in an agreement; makes its keys where the protection needs any."""
        self._keys = self._keys.for_protection(protection)
        return self._keys.card(self.name)

    def join(self, agreement: Agreement) -> Self:
        """Consent to an agreement: the party's own act, never the server's.

        The account of what was spent goes on; runs of an earlier agreement are over.
        """
        if self.name not in agreement.names:
            raise ValueError(f"the agreement does not name {self.name!r}")
        if self.card(agreement.protection) != agreement.card(self.name):
            raise ValueError(f"the agreement names other keys for {self.name!r} than its own")
        odd = self._held.unlike(agreement)
        if odd:
            raise ValueError(f"{self.name!r}: {odd}")
        self._agreement = agreement
        self._side = agreement.kind.party_side()
        self._memory = self._memory.ended()
        return self

    def handle(self, message: bytes) -> bytes:
        """Answer a message: a reply, or a refusal."""
        digest = hashlib.sha256(message).digest()
        if digest == self._memory.last:
            return self._memory.last_reply
        request: Request | None = None
        # All that a message may change: what was said, the account, the protection's side.
        side = None if self._side is None else self._side.copy()
        before, claim = (self._memory, copy.copy(self._budget), side), self._entries.claim
        try:
            request = Request.from_bytes(message)
            memory, payload = self._answer(request, side)
            sent = reply(request, self.name, payload, memory.count + 1)
            if len(sent) > MAX_BYTES:
                # Nobody would read it, so it is neither sent nor paid for.
                raise BadMessage("the answer to this question is larger than a message may be")
            self._memory = memory.answered(digest, sent)
            self._budget.reserved = b""
            self._keep(self._side)
            return sent
        except BaseException as problem:
            # Nothing has left: all is as it was, whatever went wrong and wherever. What was
            # reserved is void, and stays so if this is stored.
            tried = self._budget
            self._memory, self._budget, self._side = before
            self._entries.refused(claim)
            self._question, self.problem = None, problem.__cause__ or problem
            if not isinstance(problem, Exception):
                raise
            self._budget = self._budget.after_refusal(tried)
            self._keep(self._side)
            # Any other error may have to do with the rows: the server is not told.
            told = isinstance(problem, BadMessage | Unanswerable | FederationError)
            why = str(problem) if told else "the question could not be answered"
            return refusal(request, self.name, why, before[0].count)

    def _keep(self, side: PartySide | None) -> None:
        if self.store is not None:
            self.store(self._written(side))

    def _answer(self, request: Request, before: PartySide | None) -> tuple[Memory, bytes]:
        agreement, memory = self._agreement, self._memory
        if agreement is None or self._side is None:
            raise BadMessage("this party has joined no federation")
        if request.federation != agreement.hash:
            raise BadMessage("the request is for another federation")
        if request.round == 0:
            return self._begin(request, agreement, self._side)
        if request.run != memory.run or request.plan != memory.plan:
            raise BadMessage("the request belongs to no run that this party is in")
        self._know_rows(memory)
        if request.round > memory.round:
            if not request.question:
                raise BadMessage("the round begins without a question")
            memory = self._consider(request, agreement)
        elif request.round < memory.round or request.step <= memory.step:
            raise BadMessage("the request is a replay: its round is over")
        elif request.question not in (b"", memory.question):
            raise BadMessage("a round has one question")
        else:
            memory = replace(memory, step=request.step)
        question = self._question = self._question or Question.from_bytes(memory.question)
        kept = memory.numbers

        def numbers() -> Any:
            nonlocal kept
            if kept is None:
                # All that is stored of this message is its cost: asked again, it is begun again.
                charged = bill(question, memory, self._budget, agreement)
                self._entries.enter(question, memory, self._budget)
                self._budget = charged
                self._keep(before)
                self._entries.answer(memory, charged)
                source = self._source(bool(question.prices), memory)
                kept = answer(question, source, agreement, memory.noise)
            return kept

        where = agreement, self.name, memory.run, memory.round
        this = PartyRound(
            *where,
            on_grid(question, agreement),
            self._keys.box,
            self._keys.signing,
            numbers,
            lambda: sizes(question.query, self.features),
            memory.about,
        )
        payload = self._side.handle(request.payload, this)
        return memory.said(kept), payload

    def _source(self, private: bool, memory: Memory) -> LocalSource:
        """What sums the rows: it draws the same in a round, as often as it is asked."""
        if self._drawn[0] != memory.draws:
            self._drawn = memory.draws, self._held.drawn_by(drawing(memory.draws, "persons"))
        return self._drawn[1].source(private, self.n_jobs, derive(memory.draws, "cells"))

    def _know_rows(self, memory: Memory) -> None:
        """Refuse to go on with a run, after a restart, about other rows than it began with.

        Its masks would hide two sums, and so show their difference. The owner is told why; the
        server is not told that rows have changed.
        """
        if memory.rows != self._known:
            if not memory.knows(self._held.fingerprint):
                raise ValueError("the party's rows are not those that the run began with")
            self._known = memory.rows

    def _begin(
        self, request: Request, agreement: Agreement, side: PartySide
    ) -> tuple[Memory, bytes]:
        if request.run in self._memory.runs:
            raise BadMessage("the request is a replay: its run was begun before")
        if request.step or request.question:
            raise BadMessage("a run begins with its terms alone")
        terms = RunTerms.from_bytes(request.payload)
        if terms.hash != request.plan:
            raise BadMessage("the plan's hash is not that of its terms")
        if self.plans is not None and request.plan not in self.plans:
            raise BadMessage("this party takes no part in such a plan")
        odd = self._held.unlike(agreement)
        if odd:
            raise BadMessage(odd)
        if terms.private is False:
            self._entries.refuse_exact()
            check_exact(self._budget, agreement)
        if terms.budget is not None and not self._budget.grants(terms.budget, terms.failure):
            raise BadMessage("the run's epsilon exceeds what is left of this party's own budget")
        self._entries.admit(terms)
        self._question = None
        charged = bool(self._budget.of_run(len(self._memory.runs)))
        memory, masks = self._memory.begun(request, terms, self._held.fingerprint, charged)
        side.begin(masks)
        self._known = memory.rows
        return memory, pack("welcome", {"features": self.features, "columns": self.columns})

    def _consider(self, request: Request, agreement: Agreement) -> Memory:
        """Whether to answer a new question, and to go on with the round."""
        question = Question.from_bytes(request.question)
        check_query(question.query, self.features, bool(question.prices))
        if question.prices and self.persons:
            check_persons(question.query)
        if not question.prices:
            self._entries.refuse_exact()
        cell, partition = getattr(question.query, "cell", None), self._memory.partition
        if cell is not None and partition not in (0, cell.count):
            # Cells of two partitions overlap: a record in one of each would pay for one only.
            raise BadMessage("a run has one partition")
        count = partition if cell is None else cell.count
        memory = replace(self._memory.asked(request), partition=count)
        charged = bill(question, memory, self._budget, agreement)
        check_declared(memory, charged)
        if not question.prices and self._held.undeclared:
            # This is known from the rows, so it is said only about a question that would be
            # answered, and it counts as an answer.
            self._budget = charged
            raise Unanswerable("the rows hold values that are not among those agreed on")
        self._question = question
        return memory

    def state(self) -> bytes:
        """Everything but the rows, to be kept by the party alone: it holds secret keys.

        It must be stored before the reply it belongs to leaves, as ``store`` does.
        """
        return self._written(self._side)

    def _written(self, side: PartySide | None) -> bytes:
        body = {
            "name": self.name,
            "keys": vars(self._keys),
            "agreement": None if self._agreement is None else self._agreement.to_dict(),
            "memory": asdict(self._memory),
            "side": b"" if side is None else side.state(),
            "persons": self.persons,
            "account": vars(self._budget),
            "entry": self._entries.state(),
        }
        return pack("party", body)

    def restore(self, state: bytes) -> Self:
        """Go on from a state of the same party.

        The limit is that of the state, unless this party was made with an ``epsilon``. That one is
        refused where exact answers were given (:meth:`limit_to`).
        """
        body = unpack(state, "party", own=True)
        if body["name"] != self.name:
            raise ValueError(f"the state is that of {body['name']!r}, not of {self.name!r}")
        agreement = None if body["agreement"] is None else Agreement.from_dict(body["agreement"])
        odd = "" if agreement is None else self._held.unlike(agreement)
        if not odd and body["account"]["spent"] and body["persons"] != self.persons:
            was, now = ("persons", "records") if body["persons"] else ("records", "persons")
            odd = f"its account is of {was}, which says nothing about {now}; begin a new one"
        if odd:
            raise ValueError(f"{self.name!r}: {odd}")
        account = Account(**body["account"])
        if self._wanted is not None:
            account.limit_to(*self._wanted)
        self._entries.restore(body.get("entry"), account)
        self._keys, self._budget = Keys(**body["keys"]), account
        self._memory = Memory(**body["memory"])
        self._question, self._known = None, b""
        if agreement is not None:
            self._agreement = agreement
            self._side = agreement.kind.party_side(body["side"])
        return self
