"""Where all that a party draws comes from: one secret that only goes forward.

A party that drew fresh bytes would say two things to one question as soon as its folder is copied
or a backup of it restored, and the noise of the two could be averaged away. So a party draws
nothing. It has one secret from the operating system, and whatever looks drawn is a pseudorandom
function of the secret and of *all that it is for*. The same question about the same rows gets the
same noise; any other, or the same one about other rows, noise that is independent of it.

    secret ── run, agreement, plan, rows ──> keys of the run: noise, masks, draws
    key of noise ── run, round, agreement, question ──> key of the round
    key of the round ── the sum, in whole lattice steps ──> noise

Each key is replaced by what comes after it (:func:`after`) as soon as it was used, and there is no
way back: a state that is stolen opens none of the noise that was added before. What that proves,
and what not: ``docs/proofs/federation.md``, section 8.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...core import Rows

__all__ = [
    "RunKeys",
    "Stream",
    "after",
    "derive",
    "drawing",
    "fingerprint",
    "framed",
    "new_secret",
    "noise_key",
    "round_key",
]

_CHUNK = 4096
_NUMBERS = 2**20  # of a block that is read for a fingerprint


def new_secret() -> bytes:
    """32 bytes from the operating system: all that a party ever draws."""
    return os.urandom(32)


def framed(*parts: bytes) -> bytes:
    """The parts with their lengths before them: no two lists of parts are written alike.

    Examples
    --------
    >>> framed(b"ab", b"c") == framed(b"a", b"bc")
    False
    """
    return b"".join(len(part).to_bytes(8, "little") + part for part in parts)


def derive(key: bytes, label: str, *parts: bytes) -> bytes:
    """HMAC-SHA256 under ``key``: what differs in label or in any part is independent."""
    return hmac.digest(key, framed(label.encode("ascii"), *parts), "sha256")


def after(key: bytes) -> bytes:
    """What a key is replaced by; there is no way back."""
    return derive(key, "next")


@dataclass(frozen=True)
class RunKeys:
    """What a party draws from in one run."""

    noise: bytes
    """Where the rounds' keys begin."""
    masks: bytes
    """For the protection."""
    draws: bytes
    """For what rows draw once a run: their cells, and which of them stands for its person."""

    @classmethod
    def of(cls, secret: bytes, run: str, agreement: str, plan: str, rows: bytes) -> RunKeys:
        """Those of a run under an agreement and a plan (their hashes), about these rows."""
        names = (name.encode("utf-8") for name in (run, agreement, plan))
        key = derive(secret, "run", *names, rows)
        return cls(*(derive(key, label) for label in ("noise", "masks", "draws")))


def round_key(chain: bytes, run: str, number: int, agreement: str, about: bytes) -> bytes:
    """The key of one question (its hash, so with its noise and lattice) in one round."""
    names = (run.encode("utf-8"), number.to_bytes(8, "little"), agreement.encode("utf-8"))
    return derive(chain, "round", *names, about)


def noise_key(key: bytes, encoded: NDArray[np.int64]) -> bytes:
    """The key of the noise on these numbers: other numbers never get the same noise.

    Without them in it a party whose rows have changed would show the difference of two sums.
    """
    return derive(key, "noise", np.ascontiguousarray(encoded, dtype="<i8").tobytes())


class Stream:
    """The bytes that a key stands for, one after the other: SHAKE-256 of the key and a counter.

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
    """What takes the place of ``os.urandom``, for what is drawn under this label."""
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
