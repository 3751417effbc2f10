"""What a party remembers between messages, and how it goes forward."""

from __future__ import annotations

import hmac
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ..wire.messages import Request, RunTerms, question_hash
from .ratchet import RunKeys, Stream, after, derive, noise_key, round_key

__all__ = ["Memory"]


@dataclass(frozen=True)
class Memory:
    """What a party remembers of the run it is in. Secret."""

    run: str = ""
    plan: str = ""
    failure: float = 0.0
    round: int = 0
    step: int = 0
    private: bool | None = None
    budget: tuple[float, float, str] | None = None
    """Epsilon, delta and accountant of the run's terms."""
    question: bytes = b""
    about: bytes = b""
    """The question's hash."""
    numbers: Any = None
    """What the party said in this round: noise is drawn once, however often it is asked for."""
    secret: bytes = b""
    """Where the next run's keys come from (``ratchet.py``)."""
    chain: bytes = b""
    """Where the next round's key comes from."""
    key: bytes = b""
    """This round's, until its numbers are there; then it is forgotten."""
    draws: bytes = b""
    """Where rows and persons draw from in this run."""
    rows: bytes = b""
    """By which the rows that the run began with are known again."""
    partition: int = 0
    """Into how many cells; 0 until the first question about one."""
    runs: tuple[str, ...] = ()
    """Those in which it said something, and this one: none of them is begun again."""
    count: int = 0
    """How many requests it has answered, ever."""
    last: bytes = b""
    """Digest of the last request, and the reply to it."""
    last_reply: bytes = b""

    def ended(self) -> Self:
        """What is left of it when the run is over and no other has begun."""
        return type(self)(secret=self.secret, runs=self.runs, count=self.count)

    def begun(
        self, request: Request, terms: RunTerms, rows: bytes, charged: bool
    ) -> tuple[Self, bytes]:
        """A run begins, about rows of this fingerprint; and what the protection may draw from.

        ``charged``: something is on the account of the run that ends.
        """
        keys = RunKeys.of(self.secret, request.run, request.federation, request.plan, rows)
        # A run in which nothing was said, and that nothing is charged to, leaves nothing that
        # beginning it again could repeat.
        said = self.round or charged
        runs = (*(run for run in self.runs if run != self.run or said), request.run)
        now = replace(
            self.ended(),
            run=request.run,
            plan=request.plan,
            failure=terms.failure,
            private=terms.private,
            budget=terms.budget,
            secret=after(self.secret),
            chain=keys.noise,
            draws=keys.draws,
            rows=derive(keys.draws, "rows", rows),
            runs=runs,
        )
        return now, keys.masks

    def knows(self, rows: bytes) -> bool:
        """Whether rows of this fingerprint are those that the run began with."""
        return hmac.compare_digest(derive(self.draws, "rows", rows), self.rows)

    def asked(self, request: Request) -> Self:
        """A round begins with its question."""
        names = (self.run, request.round, request.federation)
        about = question_hash(request.question)  # Long: hashed once.
        return replace(
            self,
            round=request.round,
            step=request.step,
            question=request.question,
            about=about,
            numbers=None,
            key=round_key(self.chain, *names, about),
            chain=after(self.chain),
        )

    def noise(self, encoded: NDArray[np.int64]) -> Stream:
        """Where the round's noise on these numbers comes from."""
        return Stream(noise_key(self.key, encoded))

    def said(self, numbers: Any) -> Self:
        """The round's numbers are there (unless ``None``): its key has done its work."""
        return replace(self, numbers=numbers, key=self.key if numbers is None else b"")

    def answered(self, digest: bytes, reply: bytes) -> Self:
        """A reply is ready to leave."""
        return replace(self, count=self.count + 1, last=digest, last_reply=reply)
