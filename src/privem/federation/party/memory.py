"""What a party keeps between messages: its keys, what it remembers, and one secret behind it all.

A party that drew fresh random bytes would say two things to one question as soon as its folder is
copied or a backup of it restored, and the noise of the two could be averaged away. So a party draws
nothing afresh. It has one secret from the operating system, and whatever looks random is a
pseudorandom function of the secret and of *all that it is for*. The same question about the same
rows gets the same noise; any other question, or the same one about other rows, gets independent
noise.

    secret ── run, agreement, plan, rows ──> keys of the run: noise, masks, draws
    key of noise ── run, round, agreement, question ──> key of the round
    key of the round ── the sum, in whole lattice steps ──> noise

This is a ratchet: each key is replaced by the next one (:func:`after`) as soon as it was used, and
there is no way back. A stolen state opens none of the noise that was added before. What that
proves, and what not: ``docs/proofs/federation.md``, section 8.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ...core import Rows
from .. import primitives
from ..agreement import Card
from ..primitives import Identity
from ..protections import protection
from ..wire.messages import Budget, Request, RunTerms

_CHUNK = 4096
_NUMBERS = 2**20  # of a block that is read for a fingerprint


def new_secret() -> bytes:
    """32 bytes from the operating system: all that a party ever draws."""
    return os.urandom(32)


def framed(*parts: bytes) -> bytes:
    """The parts, each after its length: different lists of parts give different bytes.

    Examples
    --------
    >>> framed(b"ab", b"c") == framed(b"a", b"bc")
    False
    """
    return b"".join(len(part).to_bytes(8, "little") + part for part in parts)


def derive(key: bytes, label: str, *parts: bytes) -> bytes:
    """HMAC-SHA256 under ``key``: results for different labels or parts are independent."""
    return hmac.digest(key, framed(label.encode("ascii"), *parts), "sha256")


def after(key: bytes) -> bytes:
    """The key that replaces this one; there is no way back."""
    return derive(key, "next")


def noise_key(key: bytes, encoded: NDArray[np.int64]) -> bytes:
    """The key of the noise on these numbers: other numbers never get the same noise.

    Otherwise a party whose rows have changed would show the difference of two sums.
    """
    return derive(key, "noise", np.ascontiguousarray(encoded, dtype="<i8").tobytes())


class Stream:
    """The random bytes of a key, one after the other: SHAKE-256 of the key and a counter.

    They do not depend on how many are asked for at a time.

    Examples
    --------
    >>> one, other = Stream(bytes(32)), Stream(bytes(32))
    >>> one.bits(3) + one.bits(5000) == other.bits(5003)
    True
    """

    def __init__(self, key: bytes) -> None:
        self._key, self._at, self._left = key, 0, b""

    def bits(self, n_bytes: int) -> bytes:
        """The next ``n_bytes``."""
        parts = [self._left]
        missing = n_bytes - len(self._left)
        while missing > 0:
            block = self._key + self._at.to_bytes(8, "little")
            parts.append(hashlib.shake_256(block).digest(_CHUNK))
            self._at, missing = self._at + 1, missing - _CHUNK
        whole = b"".join(parts)
        self._left = whole[n_bytes:]
        return whole[:n_bytes]


def drawing(key: bytes, label: str) -> Callable[[int], bytes]:
    """A replacement for ``os.urandom``, for what is drawn under this label."""
    return Stream(derive(key, label)).bits


def fingerprint(rows: Rows, owner: NDArray[np.int64] | None = None) -> bytes:
    """SHA-256 of all values as they are summed, weights and owners; one pass. Secret.

    How a source cuts its rows into blocks makes no difference.
    """
    values, weights, n = hashlib.sha256(), hashlib.sha256(), 0
    for block in rows.blocks(max(64, _NUMBERS // max(rows.n_features, 1))):
        values.update(np.ascontiguousarray(block.X, dtype="<f8").data)
        if block.weight is not None:
            weights.update(np.ascontiguousarray(block.weight, dtype="<f8").data)
        n += len(block.X)
    whose = b"" if owner is None else np.ascontiguousarray(owner, dtype="<i8").tobytes()
    shape = framed(n.to_bytes(8, "little"), rows.n_features.to_bytes(8, "little"))
    return hashlib.sha256(framed(shape, values.digest(), weights.digest(), whose)).digest()


@dataclass(frozen=True)
class Keys:
    """The long-lived keys that a party opens boxes and signs with. Secret."""

    box: bytes = b""
    """X25519."""
    signing: bytes = b""
    """Ed25519."""

    def for_protection(self, name: str) -> Keys:
        """These, and new ones where the protection needs any that are missing."""
        missing = [key for key in protection(name).keys if not getattr(self, key)]
        return replace(self, **{key: primitives.new_key() for key in missing})

    def card(self, name: str) -> Card:
        """The public halves, under a party's name."""
        return Card(
            name,
            primitives.public(self.box) if self.box else "",
            Identity(self.signing).public.hex() if self.signing else "",
        )


@dataclass(frozen=True)
class Memory:
    """What a party remembers of the run it is in. Secret."""

    run: str = ""
    plan: str = ""
    failure: float = 0.0
    round: int = 0
    step: int = 0
    private: bool | None = None
    budget: Budget | None = None
    """Epsilon, delta and accountant of the run's terms."""
    fitted: str = ""
    """What the run fits, for the ledger."""
    mixed: bool = False
    """Whether it may have Laplace noise: how much of the ledger is reserved for it."""
    question: bytes = b""
    about: bytes = b""
    """The question's hash."""
    numbers: Any = None
    """What the party said in this round: noise is drawn once, however often it is asked for."""
    secret: bytes = b""
    """Where the next run's keys come from."""
    chain: bytes = b""
    """Where the next round's key comes from."""
    key: bytes = b""
    """This round's key, forgotten once its numbers are known."""
    draws: bytes = b""
    """Where a run draws the cells of rows from, and the row that stands for a person."""
    rows: bytes = b""
    """Recognises the rows that the run began with."""
    partition: int = 0
    """Into how many cells; 0 until the first question about one."""
    runs: tuple[str, ...] = ()
    """All runs with an answer, and this one: none of them can begin again."""
    count: int = 0
    """How many requests it has answered, ever."""
    last: bytes = b""
    """Digest of the last request, and the reply to it."""
    last_reply: bytes = b""

    def ended(self) -> Self:
        """What is kept when the run is over and no other has begun."""
        return type(self)(secret=self.secret, runs=self.runs, count=self.count)

    def begun(
        self, request: Request, terms: RunTerms, rows: bytes, charged: bool
    ) -> tuple[Self, bytes]:
        """A run begins, about rows of this fingerprint; also the secret of the protection's side.

        ``charged``: something was charged to the run that ends.
        """
        names = (name.encode("utf-8") for name in (request.run, request.federation, request.plan))
        key = derive(self.secret, "run", *names, rows)
        draws = derive(key, "draws")
        # A run without answers and without charges may begin again: it has nothing to repeat.
        said = self.round or charged
        runs = (*(run for run in self.runs if run != self.run or said), request.run)
        now = replace(
            self.ended(),
            run=request.run,
            plan=request.plan,
            failure=terms.failure,
            private=terms.private,
            budget=terms.budget,
            fitted=terms.fitted,
            mixed=terms.mixed,
            secret=after(self.secret),
            chain=derive(key, "noise"),
            draws=draws,
            rows=derive(draws, "rows", rows),
            runs=runs,
        )
        return now, derive(key, "masks")

    def knows(self, rows: bytes) -> bool:
        """Whether rows of this fingerprint are those that the run began with."""
        return hmac.compare_digest(derive(self.draws, "rows", rows), self.rows)

    def asked(self, request: Request) -> Self:
        """A round begins with its question."""
        number, federation = request.round.to_bytes(8, "little"), request.federation.encode("utf-8")
        about = hashlib.sha256(request.question).digest()  # Long: hashed once.
        return replace(
            self,
            round=request.round,
            step=request.step,
            question=request.question,
            about=about,
            numbers=None,
            key=derive(self.chain, "round", self.run.encode("utf-8"), number, federation, about),
            chain=after(self.chain),
        )

    def noise(self, encoded: NDArray[np.int64]) -> Stream:
        """Where the round's noise on these numbers comes from."""
        return Stream(noise_key(self.key, encoded))

    def said(self, numbers: Any) -> Self:
        """The round's numbers are known (unless ``None``), so its key is forgotten."""
        return replace(self, numbers=numbers, key=self.key if numbers is None else b"")

    def answered(self, digest: bytes, reply: bytes) -> Self:
        """A reply is ready to leave."""
        return replace(self, count=self.count + 1, last=digest, last_reply=reply)
