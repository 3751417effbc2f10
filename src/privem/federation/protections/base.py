"""What a protection is: a generator at the server, a handler in each party.

The server's side yields ``{party: payload}`` and is sent ``{party: payload}``; who is missing has
dropped out. It returns the opened sum and who is in it. The party's side answers payload by payload
and calls :attr:`Inside.numbers` when its numbers are needed: they are computed, and noise drawn,
once per round.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from ..agreement import Agreement

__all__ = ["Inside", "Mail", "Opened", "PartySide", "Round", "ServerSide"]

Mail = dict[str, bytes]


@dataclass(frozen=True)
class Opened:
    """The sum of a round (uint64 or float64) and the parties in it."""

    numbers: NDArray[Any]
    parties: tuple[str, ...]
    refused: tuple[str, ...] = ()
    """Who is not, having refused."""


@dataclass(frozen=True)
class Round:
    """What the server's side knows of a round. Public."""

    agreement: Agreement
    run: str
    number: int
    active: tuple[str, ...]
    size: int
    """How many numbers are summed."""
    whole: bool
    """Whether integers are added, rather than doubles."""
    leaves: tuple[tuple[str, int], ...] = ()
    """Names and sizes of the statistic's leaves."""
    question: bytes = b""
    """As it is sent to every party."""


class ServerSide(Protocol):
    """The server's half of a protection; lives as long as the run."""

    def collect(self, this: Round) -> Generator[Mail, Mail, Opened]:
        """One round."""

    def state(self) -> bytes:
        """All that must be kept between rounds; nothing that opens a sum."""


@dataclass(frozen=True)
class Inside:
    """What a party's side may use in a round. Secret."""

    agreement: Agreement
    name: str
    run: str
    round: int
    whole: bool
    """Whether integers are added, rather than doubles."""
    box_key: bytes
    signing_key: bytes
    numbers: Callable[[], NDArray[np.uint64] | NDArray[np.float64]]
    leaves: Callable[[], tuple[tuple[str, int], ...]]
    about: bytes = b""
    """Names the question: parties that were asked different things share no masks."""

    def purpose(self, what: str, epoch: int) -> bytes:
        """Binds a sealed box to this federation and run."""
        text = f"{self.agreement.hash}|{self.run}|{what}|{epoch}"
        return hashlib.sha256(text.encode()).digest()


class PartySide(Protocol):
    """A party's half of a protection; its state survives the process as bytes.

    It never changes in place what it holds, it binds new values: so a copy that holds the same ones
    is the side as it was, whatever the side goes on to do.
    """

    def begin(self, secret: bytes) -> None:
        """A run begins: whatever the side makes up in it comes from these bytes.

        Unless it is harmless to say the same again under other random bytes.
        """

    def handle(self, payload: bytes, inside: Inside) -> bytes:
        """Answer one payload."""

    def copy(self) -> Self:
        """The side as it is now: what a party goes back to after a refusal."""

    def state(self) -> bytes:
        """All that must be kept between messages. Secret."""
