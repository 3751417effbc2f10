"""A federation as a source of sums: parties fit one model without showing their rows."""

from __future__ import annotations

import json
import os
import uuid
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any, Self

from ...core import Release, Stage
from ...data import register
from ...schema import Schema
from ..agreement import Agreement, took_part
from ..errors import FederationError, PartyRefused, TooFewParties
from ..party.party import Party
from ..party.rows import cell_bounds, code_bounds, column_bounds
from ..protections import Opened, ServerRound
from ..sums import check_possible, on_grid, read, sizes
from ..wire.codec import BadMessage
from ..wire.messages import Budget, Question, Request, RunTerms, read_welcome
from ..wire.queries import check_query
from .conversation import Conversation, InProcess, Transport
from .journal import Counters, Journal
from .table import open_federation


class Federation:
    """Several holders of rows, to be passed to ``fit`` in place of data.

    Parameters
    ----------
    parties : sequence of Party
    protection : {"masked", "encrypted", "plain", "ckks"}
        How sums are hidden on their way; :meth:`trust` says from whom. ``"ckks"`` is the protocol
        of Abu Hussein and Rodel (2023), for comparison: exact fits only, with the paper's leaks.
    dropouts : int
        How many parties may be missing from a sum, or refuse to be in it. With one or more there
        are private fits only: exact sums over different parties give single parties' sums away by
        subtraction.
    colluders : int, optional
        How many parties may collude with the server or each other, using what they know of their
        own noise. By default one where noise is shared, so that the promise holds against every
        single party; where each party adds all of the noise it does not matter.
    minimum : int
        The fewest parties whose sum is ever opened.
    bounds : (low, high), optional
        Public bounds of the features (numbers, or one per feature): exact masked fits need them,
        exact encrypted ones take less room with them and ``rows``.
    target_bounds : (low, high), optional
        Of the target, where parties have one; by default ``bounds`` are of all columns, the
        target's last.
    rows : int, optional
        Public bound on the number of records in all; the number itself for private fits with
        ``neighbours="replace-one"``.
    collusion : {"some", "none"}
        ``"none"`` declares, for ``"encrypted"``, that nobody colludes; noise is then shared.

    Attributes
    ----------
    agreement : Agreement
    rows : int or None
        The public number of records, if it was given; ``None`` where persons are hidden.
    weighted, target, persons : bool
        Whether records have weights; whether the last column is a target; whether private fits
        hide persons, rather than records.
    categories : tuple of tuples or None
        Of each column, where records are categories.
    schema : Schema or None
        What the columns are, where they are of mixed kinds.

    Examples
    --------
    >>> import numpy as np
    >>> from privem import FactorAnalysis
    >>> X = np.random.default_rng(0).normal(size=(90, 2))
    >>> parties = [Party(X[i::3], f"hospital {i}") for i in range(3)]
    >>> model = FactorAnalysis(1, epsilon=None).fit(Federation(parties, protection="plain"))
    >>> bool(np.allclose(model.mean_, X.mean(axis=0)))
    True
    """

    def __init__(
        self,
        parties: Sequence[Party],
        *,
        protection: str = "masked",
        dropouts: int = 0,
        colluders: int | None = None,
        minimum: int = 3,
        bounds: Any = None,
        target_bounds: Any = None,
        rows: float | None = None,
        collusion: str = "some",
    ) -> None:
        if not parties:
            raise ValueError("a federation has parties")
        for party in parties:
            if not isinstance(party, Party):
                raise TypeError(
                    f"a federation is of parties, got {type(party).__name__}: "
                    "Federation([Party(rows, 'name'), ...])"
                )
        first = parties[0]
        low, high = column_bounds(bounds, target_bounds, first.features, first.target)
        if low is None and first.categories is not None:
            low, high = code_bounds(first.categories)
        if low is None and first.schema:
            low, high = cell_bounds(first.schema)
        agreement = Agreement(
            tuple(party.card(protection) for party in parties),
            protection,
            dropouts,
            colluders,  # type: ignore[arg-type]
            minimum,
            collusion,
            low,
            high,
            None if rows is None else float(rows),
            any(party.weighted for party in parties),
            os.urandom(32).hex(),
            first.target,
            first.categories,
            any(party.persons for party in parties),
            schema=first.schema,
        )
        if not agreement.kind.private_fits:
            warnings.warn(f"protection={protection!r}: {agreement.kind.trust}", stacklevel=2)
        for party in parties:
            party.join(agreement)
        self._set(agreement, InProcess(parties))

    @classmethod
    def over(
        cls, agreement: Agreement, transport: Transport, journal: Journal | None = None
    ) -> Self:
        """A federation of parties that are elsewhere and have joined the agreement there.

        With a ``journal`` one fit can be continued where the server was killed.
        """
        self = cls.__new__(cls)
        self._set(agreement, transport, journal)
        return self

    def _set(
        self, agreement: Agreement, transport: Transport, journal: Journal | None = None
    ) -> None:
        self.agreement, self.transport, self.journal = agreement, transport, journal
        self.weighted, self.persons = agreement.weighted, agreement.persons
        self.target, self.categories = agreement.target, agreement.categories
        self.schema = Schema.from_dict(json.loads(agreement.schema)) if agreement.schema else None
        rows = None if agreement.persons else agreement.rows
        self.rows = None if rows is None else int(rows)
        self.run = ""
        self._counters = Counters() if journal is None else journal.counters
        self._server = agreement.kind.server_side(agreement, self.run)
        self._plan = ""
        self._round = 0
        self._active: tuple[str, ...] = ()
        self._refused: dict[str, str] = {}
        self._features = 0
        self._columns: tuple[str, ...] | None = None

    @property
    def n_features(self) -> int:
        """How many columns all parties have."""
        if not self.run:
            self.begin({})
        return self._features

    @property
    def names(self) -> tuple[str, ...] | None:
        """Their names, if all parties have the same."""
        if not self.run:
            self.begin({})
        return self._columns

    @property
    def present(self) -> tuple[str, ...]:
        """Who was in every sum of the last run."""
        return self._active

    @property
    def attendance(self) -> dict[str, list[str]]:
        """Which parties were in every sum of the last run, which refused, which were lost."""
        gone = [name for name in self.agreement.names if name not in self._active]
        return {
            "took part": list(self._active),
            "refused": [name for name in gone if name in self._refused],
            "lost": [name for name in gone if name not in self._refused],
        }

    def trust(self, private: bool | None = None) -> str:
        """Who can learn what."""
        return self.agreement.trust(private)

    def statement(self) -> str:
        """Who can learn what from the last private run, and who took part in it."""
        return f"{self.trust(private=True)} {took_part(self.attendance)}"

    def fresh_keys(self) -> None:
        """Have new encryption keys made before the next sum, where there are any."""
        self._server.fresh_keys()

    def begin(
        self,
        terms: Mapping[str, str],
        failure: float = 0.0,
        private: bool | None = None,
        budget: Budget | None = None,
    ) -> None:
        """Open a run: tell all parties what is fitted, and learn how many columns they have.

        Parameters
        ----------
        terms : mapping of str to str
            What is fitted, in words; parties see it and identify it by its hash.
        failure : float
            The part of delta that the fit sets aside for its bound on the number of records.
        private : bool, optional
            Whether every question of the run carries noise, or none does.
        budget : (float, float, str), optional
            Of a private run: its epsilon, its delta, and the accountant that all of its questions
            are priced by. A party whose own budget is too small for it refuses here.
        """
        if private is False and self.agreement.no_exact:
            raise ValueError(self.agreement.no_exact)
        self.run = uuid.uuid4().hex if self.journal is None else self.journal.run
        opening = RunTerms(terms, float(failure), private, budget)
        self._plan, self._round = opening.hash, 0
        self._server = self.agreement.kind.server_side(self.agreement, self.run)
        self._refused = {}
        if self.journal is not None and self.journal.began is not None:
            self._continue(self.journal.began)
            return
        mail = dict.fromkeys(self.agreement.names, opening.to_bytes())
        replies = self._conversation(bool(private)).exchange(mail, 0)
        self._counters.keep()
        if self.journal is not None and len(replies) < len(self.agreement.members):
            self.journal.fail()  # so that the missing parties are asked again
        found: dict[str, tuple[int, tuple[str, ...] | None]] = {}
        for name, message in replies.items():
            with suppress(BadMessage):  # what is malformed counts as missing
                found[name] = read_welcome(message)
        self._active = tuple(name for name in self.agreement.names if name in found)
        with self._complaining():
            self._enough(self._active)
        shapes = set(found.values())
        if len({features for features, _ in shapes}) != 1:
            said = "; ".join(f"{name}: {features}" for name, (features, _) in found.items())
            raise FederationError(f"parties have different numbers of columns: {said}")
        if len(shapes) != 1:
            # Do not show the names: one may be a cell of a file without a header.
            raise FederationError(
                "parties have different column names, or another order: agree on them (columns of "
                "privem federate init; the same header in every file)"
            )
        self._features, self._columns = shapes.pop()
        if self.journal is not None:
            self.journal.begin(
                {
                    "plan": self._plan,
                    "active": self._active,
                    "refused": tuple(self._refused),
                    "features": self._features,
                    "columns": self._columns,
                    "state": self._server.state(),
                }
            )

    def _continue(self, began: Mapping[str, Any]) -> None:
        """Go on with a run that was begun before."""
        if began["plan"] != self._plan:
            raise FederationError(
                "the journal is of a fit with other parameters; use the same ones, or a new folder"
            )
        self._active, self._features = tuple(began["active"]), began["features"]
        self._columns, self._refused = began["columns"], dict.fromkeys(began["refused"], "")
        self._server = self.agreement.kind.server_side(self.agreement, self.run, began["state"])

    def _conversation(
        self, private: bool, questions: dict[str, bytes] | None = None
    ) -> Conversation:
        """With the parties; in private runs a refusal is a dropout, if any may drop out."""
        head = Request(self.agreement.hash, self.run, self._plan, self._round, 0, b"", b"")
        refused = self._refused if private and self.agreement.dropouts else None
        talk = self.transport, self.journal, head, questions or {}
        return Conversation(*talk, self._counters, refused)

    def _enough(self, parties: Sequence[str]) -> None:
        needed = self.agreement.least
        if len(parties) < needed:
            gone = [name for name in self.agreement.names if name not in parties]
            raise TooFewParties(
                f"{len(parties)} parties took part, at least {needed} are needed; missing: "
                f"{', '.join(gone)}"
            )

    @contextmanager
    def _complaining(self) -> Iterator[None]:
        """If too few parties are left, add the reasons of those who refused."""
        try:
            yield
        except TooFewParties as problem:
            if not self._refused:
                raise
            reasons = "; ".join(f"{name!r} refused: {why}" for name, why in self._refused.items())
            raise PartyRefused(f"{problem}; {reasons}") from None

    def release(self, stage: Stage) -> Release[Any]:
        """Have the stage's sum made by all parties, protected, and opened."""
        if not self.run:
            self.begin({})
        private = stage.noise.private
        prices = stage.noise.price(stage.query) if private else ()
        question = Question(stage.name, stage.query, stage.noise, prices)
        written = question.to_bytes()
        check_query(Question.from_bytes(written).query, self._features, private)
        check_possible(question, self.agreement)
        self._round += 1
        with self._complaining():
            opened = self._open(question, written)
        # A party that was missing once is not asked again: later sums are over no more records than
        # the first, so bounds on their number hold.
        self._active = tuple(name for name in self._active if name in opened.parties)
        return read(question, self.agreement, opened.numbers, len(opened.parties), self._features)

    def _open(self, question: Question, written: bytes) -> Opened:
        """The opened sum of this round: from the journal if it is there, else from the parties."""
        journal, number = self.journal, self._round
        known = None if journal is None else journal.finished(number, written)
        if journal is not None and known is not None:
            if number == journal.rounds:
                kind, state = self.agreement.kind, journal.state()
                self._server = kind.server_side(self.agreement, self.run, state)
            self._refused |= dict.fromkeys(known.refused, "")
            return known
        this = ServerRound(
            self.agreement,
            number,
            self._active,
            on_grid(question, self.agreement),
            sizes(question.query, self._features),
            written,
        )
        questions = dict.fromkeys(self._active, written)
        try:
            conversation = self._conversation(bool(question.prices), questions)
            opened = conversation.drive(self._server.collect(this))
            gone = tuple(name for name in self._refused if name not in opened.parties)
            opened = replace(opened, refused=gone)
            self._enough(opened.parties)
        except TooFewParties:
            if journal is not None:
                journal.fail()
            raise
        self._counters.keep()
        if journal is not None:
            journal.finish(written, opened, self._server.state())
        return opened


register(Federation, open_federation, sums_only=True)
