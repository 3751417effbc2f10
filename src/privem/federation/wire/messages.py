"""The envelopes: what every request and reply carries, whatever the protection.

=============  ==========================================================================
request        ``federation`` (the agreement's hash), ``run``, ``plan`` (hash of the terms),
               ``round`` (0 opens a run), ``step`` within the round, ``question`` (until
               the party has answered in this round), ``payload`` (the protection's)
reply          ``federation``, ``run``, ``round``, ``step``, ``party``, ``count`` (of all its
               replies so far), ``payload``
refusal        the same with ``reason`` in place of ``payload``
question       ``name``, ``query``, ``noise``, ``prices``
=============  ==========================================================================
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...accounting import ACCOUNTANTS
from ...core import Spent
from ...noise.discrete import Discrete
from ...noise.exact import Exact
from .codec import BadMessage, decode
from .queries import pack, read, unpack

Budget = tuple[float, float, str]


@dataclass(frozen=True)
class Request:
    """From the server to one party."""

    federation: str
    run: str
    plan: str
    round: int
    step: int
    question: bytes
    payload: bytes

    def to_bytes(self) -> bytes:
        """As it travels."""
        return pack("request", vars(self))

    @classmethod
    def from_bytes(cls, message: bytes) -> Request:
        """Checked for form; raises :class:`~privem.federation.wire.codec.BadMessage`."""
        found = read(cls, message, "request")
        if not (0 <= found.round < 2**31 and 0 <= found.step < 2**16):
            raise BadMessage("the request's round or step is out of range")
        if not 0 < len(found.run) <= 128:
            raise BadMessage("the request names no run")
        return found

    def head(self, party: str) -> dict[str, Any]:
        """What the reply repeats."""
        repeated = ("federation", "run", "round", "step")
        return {"party": party, **{word: getattr(self, word) for word in repeated}}


def reply(request: Request, party: str, payload: bytes, count: int = 0) -> bytes:
    """An answer to a request, the party's ``count``-th."""
    return pack("reply", {**request.head(party), "count": count, "payload": payload})


def refusal(request: Request | None, party: str, reason: str, count: int = 0) -> bytes:
    """A refusal, with a reason that says nothing about rows, after ``count`` answers."""
    head = {"party": party} if request is None else request.head(party)
    return pack("refusal", {**head, "count": count, "reason": reason})


def read_reply(message: bytes, request: Request, party: str) -> tuple[bool, Any]:
    """(True, payload) or (False, reason); raises BadMessage if it answers another request."""
    head = request.head(party)
    kind, body = decode(message)
    if not isinstance(body, dict) or kind not in ("reply", "refusal"):
        raise BadMessage("expected a reply")
    if kind == "refusal":
        if isinstance(body.get("reason"), str) and body.get("party") == party:
            return False, body["reason"][:500]
        raise BadMessage("the refusal is not this party's")
    if set(body) != {*head, "count", "payload"} or not isinstance(body["payload"], bytes):
        raise BadMessage("the reply's fields are not as they should be")
    if any(body[key] != value for key, value in head.items()):
        raise BadMessage("the reply answers another request")
    return True, body["payload"]


def read_welcome(message: bytes) -> tuple[int, tuple[str, ...] | None]:
    """How many columns a party has, and their names if they have any; raises BadMessage."""
    body = unpack(message, "welcome")
    features, columns = body.get("features"), body.get("columns")
    named = isinstance(columns, tuple) and all(isinstance(name, str) for name in columns)
    fits = columns is None or (named and len(columns) == features)
    if set(body) != {"features", "columns"} or type(features) is not int or not fits:
        raise BadMessage("the welcome is malformed")
    if not 0 < features < 2**31:
        raise BadMessage("the welcome is malformed")
    return features, columns


@dataclass(frozen=True)
class Question:
    """One stage, as it travels."""

    name: str
    query: Any
    noise: Any
    prices: tuple[Spent, ...]
    """What the server charged; empty when exact."""

    def to_bytes(self) -> bytes:
        """As it travels."""
        return pack("question", vars(self))

    @classmethod
    def from_bytes(cls, message: bytes) -> Question:
        """Checked for form; ``check_query`` and ``believe`` check what it asks."""
        found = read(cls, message, "question")
        match found.noise:
            case Exact():
                sound = not found.prices
            case Discrete(multiplier=multiplier, neighbours=neighbours, rows=rows):
                numbers = all(type(v) in (int, float) and v > 0 for v in (multiplier, rows))
                sound = numbers and neighbours in ("add-remove", "replace-one")
                sound = sound and bool(found.prices)
            case _:
                sound = False
        if not sound:
            raise BadMessage("the question's noise is malformed")
        return found


@dataclass(frozen=True)
class RunTerms:
    """What a run is about. Public, sent when the run is opened, and identified by its hash.

    Parameters
    ----------
    terms : mapping of str to str
        What is fitted, in words.
    failure : float
        The part of delta that covers a bound on the number of records failing.
    private : bool, optional
        Whether every question carries noise, or none does; ``None`` leaves it open.
    budget : (float, float, str), optional
        Of a private run: epsilon, delta and the accountant by which all of its questions cost no
        more than that.
    """

    terms: Mapping[str, str]
    failure: float = 0.0
    private: bool | None = None
    budget: Budget | None = None

    def to_bytes(self) -> bytes:
        """As it travels."""
        return pack("terms", {**vars(self), "terms": dict(self.terms)})

    @classmethod
    def from_bytes(cls, message: bytes) -> RunTerms:
        """Checked for form; raises :class:`~privem.federation.wire.codec.BadMessage`."""
        found = read(cls, message, "terms")
        paid = _sound(found.budget, found.failure) if found.private else found.budget is None
        if not (type(found.failure) is float and 0 <= found.failure < 1 and paid):
            raise BadMessage("the terms of the run are malformed")
        return found

    @property
    def fitted(self) -> str:
        """What is fitted; a server's word, so that it must look like a name."""
        name = self.terms.get("estimator", "")
        fits = name.isidentifier() and name.isascii() and len(name) <= 50
        return name if fits else "federated run"

    @property
    def mixed(self) -> bool:
        """Whether some noise may be Laplace: that of papers' recipes, which are asked for by name.

        It decides how much a party reserves in its ledger, and nothing else.
        """
        return self.terms.get("mechanism", "'auto'") != "'auto'"

    @property
    def hash(self) -> str:
        """Names what is fitted, with which parameters, at what cost.

        It does not bind the questions that follow: they may not exceed the budget, and a party's
        own epsilon bounds them over all runs.
        """
        every = [dict(self.terms), float(self.failure), self.private, self.budget]
        text = json.dumps(every, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode("utf-8")).hexdigest()


def _sound(budget: Any, failure: float) -> bool:
    if not isinstance(budget, tuple) or [type(part) for part in budget] != [float, float, str]:
        return False
    epsilon, delta, accountant = budget
    return 0 < epsilon < math.inf and failure <= delta < 1 and accountant in ACCOUNTANTS
