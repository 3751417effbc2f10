"""How sums are protected on their way from the parties to the server.

A protection is a module or a folder here, named as users name it, with a value ``PROTECTION``: the
properties that the rest of the library needs to know, and the code of both sides. There is no other
list of protections. :func:`names` loads none of them.

The server's side of a sum is a generator: it yields ``{party: payload}`` and is sent
``{party: payload}``, where a missing party has dropped out. It returns the opened sum and who is in
it. A party's side answers payload by payload. It calls :attr:`PartyRound.numbers` when the party's
numbers are needed: they are computed, and noise is drawn, once per round.
"""

from __future__ import annotations

import copy
import hashlib
import pkgutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Self

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ...core import Spent
    from ..agreement import Agreement

Mail = dict[str, bytes]
Leaves = tuple[tuple[str, int], ...]


@cache
def names() -> tuple[str, ...]:
    """What users may give as ``protection``."""
    return tuple(sorted(found.name for found in pkgutil.iter_modules(__path__)))


def protection(name: str) -> Protection:
    """A protection by its name; raises ValueError for others."""
    if name not in names():
        raise ValueError(f"protection must be one of {names()}, got {name!r}")
    found: Protection = import_module(f"{__name__}.{name}").PROTECTION
    return found


class Protection(ABC):
    """What the rest of the library knows of a protection."""

    trust: ClassVar[str]
    """What it hides, and from whom, in words."""
    keys: ClassVar[tuple[str, ...]] = ()
    """Which of its keys (the fields of ``party.memory.Keys``) a party needs."""
    private_fits: ClassVar[bool] = True
    """Whether there are private fits under it, or exact ones only."""
    shares_noise: ClassVar[bool] = False
    """Whether parties add shares of the noise, because nobody sees a single party's numbers."""
    trusts_parties: ClassVar[bool] = False
    """Whether it may be declared (``collusion="none"``) that nobody works with the server, so that
    noise is shared although it would not hold against such a coalition."""

    def adds_integers(self, private: bool, bounded: bool) -> bool:
        """Whether a sum is over integers; ``bounded``: public bounds were agreed on."""
        return private

    def exact_bits(self, parties: int) -> int:
        """How many bits the integers of an exact total may have, sign aside."""
        return 61

    def check_agreement(self, agreement: Agreement) -> None:
        """Raise ValueError unless the terms allow such sums."""
        return

    def check_private(self, name: str, prices: Sequence[Spent], noise: Any, parties: int) -> None:
        """Raise ValueError unless this noisy sum can be protected."""
        return

    def honest_parties(self, agreement: Agreement) -> int:
        """The least number of honest parties in any sum that is opened."""
        return agreement.opened_by - agreement.colluders

    def about_sharing(self, parties: int) -> str:
        """What else the promise of shared noise rests on, in words."""
        return ""

    @abstractmethod
    def server_side(self, agreement: Agreement, run: str, state: bytes = b"") -> ServerSide:
        """The server's half in a run, continued from ``state`` if there is any."""

    @abstractmethod
    def party_side(self, state: bytes = b"") -> PartySide:
        """A party's half, continued from ``state`` if there is any."""


@dataclass(frozen=True)
class Opened:
    """The sum of a round (uint64 or float64) and the parties in it."""

    numbers: NDArray[Any]
    parties: tuple[str, ...]
    refused: tuple[str, ...] = ()
    """Who is not in it because they refused."""


@dataclass(frozen=True)
class ServerRound:
    """What the server's side knows of a round. Public."""

    agreement: Agreement
    number: int
    active: tuple[str, ...]
    """Who is asked."""
    whole: bool
    """Whether integers are added, rather than doubles."""
    leaves: Leaves
    """Names and sizes of the statistic's leaves."""
    question: bytes
    """As it is sent to every party."""

    @property
    def size(self) -> int:
        """How many numbers are summed."""
        return sum(size for _, size in self.leaves)


class ServerSide(ABC):
    """The server's half of a protection; lives as long as the run."""

    @abstractmethod
    def collect(self, this: ServerRound) -> Generator[Mail, Mail, Opened]:
        """One round."""

    def fresh_keys(self) -> None:
        """Have new encryption keys made before the next sum, where there are any."""
        return

    def state(self) -> bytes:
        """All that must be kept between rounds; nothing that opens a sum."""
        return b""


@dataclass(frozen=True)
class PartyRound:
    """What a party's side may use in a round. Secret."""

    agreement: Agreement
    name: str
    run: str
    round: int
    whole: bool
    """Whether integers are added, rather than doubles."""
    box_key: bytes
    signing_key: bytes
    numbers: Callable[[], NDArray[Any]]
    """What the party adds to the sum: uint64 or float64."""
    leaves: Callable[[], Leaves]
    about: bytes = b""
    """Hash of the question: parties that were asked different things share no masks."""

    def purpose(self, what: str, epoch: int) -> bytes:
        """Binds a sealed box to this federation and run."""
        text = f"{self.agreement.hash}|{self.run}|{what}|{epoch}"
        return hashlib.sha256(text.encode()).digest()


class PartySide(ABC):
    """A party's half of a protection; its state survives the process as bytes.

    It never changes in place what it holds, it binds new values. So a copy that holds the same
    values is the side as it was, whatever the side goes on to do.
    """

    def begin(self, secret: bytes) -> None:
        """A run begins: all randomness of the side comes from these bytes.

        Except where it is harmless to repeat the same numbers under other random bytes.
        """
        return

    @abstractmethod
    def handle(self, payload: bytes, this: PartyRound) -> bytes:
        """Answer one payload."""

    def copy(self) -> Self:
        """The side as it is now: what a party goes back to after a refusal."""
        return copy.copy(self)

    def state(self) -> bytes:
        """All that must be kept between messages. Secret."""
        return b""
