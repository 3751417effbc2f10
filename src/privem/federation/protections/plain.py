"""No protection beyond staying where the rows are: the federated EM of 001 (its FEM).

The server sees each party's numbers. In an exact fit those are its sums, from which 001 shows how
single records are read off; under epsilon each party's numbers carry the whole noise, so that they
are private by themselves.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ...tree import Array, RunningSum
from ..wire.codec import BadMessage, decode, encode
from .base import Inside, Mail, Opened, Round

__all__ = ["PlainParty", "PlainServer", "add", "numbers_from", "numbers_message"]


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
    """The sum: modulo 2^64, or of doubles with their rounding errors carried along."""
    if parts[0].dtype == np.uint64:
        return np.asarray(np.add.reduce(parts, dtype=np.uint64))
    total = RunningSum[_Vector]()
    with np.errstate(over="ignore", invalid="ignore"):  # which whoever reads the sum looks for
        for part in parts:
            total.add(_Vector(part))
        value = total.value()
    assert value is not None
    return value.values


class PlainServer:
    """Adds what comes."""

    def __init__(self, state: bytes = b"") -> None:
        pass

    def state(self) -> bytes:
        """Nothing is kept."""
        return b""

    def collect(self, this: Round) -> Generator[Mail, Mail, Opened]:
        """One message to each party."""
        replies = yield dict.fromkeys(this.active, b"")
        found = {}
        for name in sorted(replies):
            with suppress(BadMessage):  # what is malformed counts as missing
                found[name] = numbers_from(replies[name], this.size, this.whole)
        # Nobody is nothing: the caller refuses it, as it refuses too few.
        total = add(list(found.values())) if found else np.zeros(this.size)
        return Opened(total, tuple(found))


class PlainParty:
    """Sends its numbers."""

    def __init__(self, state: bytes = b"") -> None:
        pass

    def begin(self, secret: bytes) -> None:
        """Nothing is made up."""

    def handle(self, payload: bytes, inside: Inside) -> bytes:
        """The numbers."""
        if payload:
            raise BadMessage("unexpected payload")
        return numbers_message(inside.numbers())

    def copy(self) -> Self:
        """Nothing is kept."""
        return self

    def state(self) -> bytes:
        """Nothing is kept."""
        return b""
