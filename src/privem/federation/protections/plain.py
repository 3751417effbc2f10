"""No protection beyond staying where the rows are: plain federated EM.

The server sees each party's numbers. In an exact fit those are its sums, from which single records
can be read off; under epsilon each party's numbers carry the whole noise, so they are private by
themselves.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...linalg import Array, RunningSum
from ..agreement import Agreement
from ..wire.codec import BadMessage, decode, encode
from . import Mail, Opened, PartyRound, PartySide, Protection, ServerRound, ServerSide


def numbers_message(numbers: NDArray[Any]) -> bytes:
    """Numbers in the clear."""
    return encode("numbers", {"numbers": numbers})


def numbers_from(message: bytes, size: int, whole: bool) -> NDArray[Any]:
    """The inverse, checked; raises BadMessage."""
    kind, body = decode(message)
    if kind != "numbers" or not isinstance(body, dict) or set(body) != {"numbers"}:
        raise BadMessage("expected numbers")
    numbers = body["numbers"]
    wanted = np.dtype("<u8" if whole else "<f8")
    if not isinstance(numbers, np.ndarray) or numbers.shape != (size,) or numbers.dtype != wanted:
        raise BadMessage("the numbers have the wrong shape or kind")
    return numbers


@dataclass(frozen=True)
class _Vector:
    values: Array


def add(parts: list[NDArray[Any]]) -> NDArray[Any]:
    """The sum: modulo 2^64, or of doubles with compensated rounding errors."""
    if parts[0].dtype == np.uint64:
        return np.asarray(np.add.reduce(parts, dtype=np.uint64))
    total = RunningSum[_Vector]()
    with np.errstate(over="ignore", invalid="ignore"):  # which the reader of the sum looks for
        for part in parts:
            total.add(_Vector(part))
        value = total.value()
    assert value is not None
    return value.values


class PlainServer(ServerSide):
    """Adds what comes. Nothing is kept between rounds."""

    def collect(self, this: ServerRound) -> Generator[Mail, Mail, Opened]:
        """One message to each party."""
        replies = yield dict.fromkeys(this.active, b"")
        found = {}
        for name in sorted(replies):
            with suppress(BadMessage):  # what is malformed counts as missing
                found[name] = numbers_from(replies[name], this.size, this.whole)
        # An empty sum is refused by the caller, as is one over too few parties.
        total = add(list(found.values())) if found else np.zeros(this.size)
        return Opened(total, tuple(found))


class PlainParty(PartySide):
    """Sends its numbers. Nothing is drawn, and nothing is kept between messages."""

    def handle(self, payload: bytes, this: PartyRound) -> bytes:
        """The numbers."""
        if payload:
            raise BadMessage("unexpected payload")
        return numbers_message(this.numbers())


class Plain(Protection):
    """``protection="plain"``."""

    trust = "The server sees each party's own numbers in every round."

    def server_side(self, agreement: Agreement, run: str, state: bytes = b"") -> PlainServer:
        """Adds numbers."""
        return PlainServer()

    def party_side(self, state: bytes = b"") -> PlainParty:
        """Sends numbers."""
        return PlainParty()


PROTECTION = Plain()
