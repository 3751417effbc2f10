"""How bytes get from the server to parties and back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from ..party.party import Party

__all__ = ["InProcess", "Transport"]


class Transport(Protocol):
    """Delivers a message to each of some parties; a party that does not answer is missing."""

    def exchange(self, mail: Mapping[str, bytes]) -> dict[str, bytes]:
        """Replies by party."""


class InProcess:
    """All parties in this process: simulations and tests.

    Parameters
    ----------
    parties : iterable of Party
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
