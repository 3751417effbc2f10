"""The server's end of the conversation with parties: how bytes travel, and their envelopes."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import count
from typing import Protocol

from ...run import drive
from ..errors import FederationError, PartyRefused
from ..party.party import Party
from ..protections import Mail, Opened
from ..wire.codec import BadMessage
from ..wire.messages import Request, read_reply
from .journal import Counters, Journal


class Transport(Protocol):
    """Delivers a message to each of some parties; one that does not answer is missing.

    Examples
    --------
    Anything with this method will do. This one counts what goes through it:

    >>> class Counted:
    ...     def __init__(self, parties):
    ...         self.parties, self.messages = parties, 0
    ...
    ...     def exchange(self, mail):
    ...         self.messages += len(mail)
    ...         return {name: self.parties[name].handle(mail[name]) for name in mail}
    >>> Counted({}).exchange({})
    {}
    """

    def exchange(self, mail: Mapping[str, bytes]) -> dict[str, bytes]:
        """Replies by party."""


class InProcess:
    """All parties in this process: simulations and tests.

    Parameters
    ----------
    parties : iterable of Party

    Examples
    --------
    >>> import numpy as np
    >>> from privem import FactorAnalysis
    >>> from privem.federation import Agreement, Federation
    >>> X = np.random.default_rng(0).normal(size=(90, 2))
    >>> parties = [Party(X[i::3], f"site {i}") for i in range(3)]
    >>> agreement = Agreement(tuple(party.card("plain") for party in parties), "plain")
    >>> parties = [party.join(agreement) for party in parties]
    >>> federation = Federation.over(agreement, InProcess(parties))
    >>> FactorAnalysis(1, epsilon=None).fit(federation).components_.shape
    (1, 2)
    """

    def __init__(self, parties: Iterable[Party]) -> None:
        self.parties = {party.name: party for party in parties}

    def exchange(self, mail: Mapping[str, bytes]) -> dict[str, bytes]:
        """Ask one after the other."""
        return {
            name: self.parties[name].handle(message)
            for name, message in mail.items()
            if name in self.parties
        }


@dataclass(frozen=True)
class Conversation:
    """One round's exchanges.

    ``head`` is what all requests of the round have in common. ``questions`` go with requests to a
    party until it has answered. ``refused`` collects refusals where they count as dropouts; where
    it is ``None``, a refusal ends the fit.
    """

    transport: Transport
    journal: Journal | None
    head: Request
    questions: dict[str, bytes]
    counters: Counters
    refused: dict[str, str] | None = None

    def drive(self, protocol: Generator[Mail, Mail, Opened]) -> Opened:
        """Carry a protection's mail until its sum is open."""
        steps = count(1)
        try:
            return drive(protocol, lambda mail: self.exchange(mail, next(steps)))
        except BadMessage as problem:
            raise FederationError(f"a party answered something else: {problem}") from None

    def exchange(self, mail: Mail, step: int) -> Mail:
        """One exchange; a malformed reply counts as missing."""
        at = replace(self.head, step=step)
        requests = {
            name: replace(at, question=self.questions.get(name, b""), payload=payload)
            for name, payload in mail.items()
        }
        sent = _written(requests)
        known = None if self.journal is None else self.journal.replies(sent)
        replies = self.transport.exchange(sent) if known is None else known
        found = {}
        for name, message in replies.items():
            if name not in requests:
                continue
            if known is None:
                self.counters.hear(name, requests[name], message)
            try:
                answered, content = read_reply(message, requests[name], name)
            except BadMessage:
                continue
            if not answered:
                if self.refused is None:
                    raise PartyRefused(f"{name!r} refused: {content}")
                self.refused[name] = content
                continue
            found[name] = content
            self.questions.pop(name, None)
        # A refusal that ends the fit is not kept: the party's owner may change their mind.
        if self.journal is not None and known is None:
            self.journal.keep(sent, replies)
        return found


def _written(requests: dict[str, Request]) -> Mail:
    """Requests as they travel; equal ones in a row are written once."""
    sent: Mail = {}
    last, message = None, b""
    for name, request in requests.items():
        if request != last:
            last, message = request, request.to_bytes()
        sent[name] = message
    return sent
