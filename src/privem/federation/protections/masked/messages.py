"""The bytes that travel: one frame for requests, one for replies, tables in between.

All integers are little-endian. A request (server to party)::

    "PVMS"  version u8  phase u8  context 32 bytes  body

a reply (party to server)::

    "PVMR"  version u8  phase u8  sender u32  context 32 bytes  body  seal

The seal of a KEYS reply is an Ed25519 signature (64 bytes) of the head and the SHA-256 of the body;
of all others it is a tag of head and body (16 bytes) that only this party and the server can
compute. The context (`scheme.py`) stands, for KEYS, for the roster, the thresholds, the graph and
the run; for SHARES for the round too; for the rest also for the size of the vector and what it is
about. A table is a count (u32) and that many entries of a party's index (u32) and a fixed number of
bytes, indices increasing. A set of parties is a bitmap, lowest bit first, the bits beyond the last
party zero.

=========  ===================================  ================================================
phase      request                              reply
=========  ===================================  ================================================
KEYS       run (u8 length, bytes), the          the party's key of the run (X25519, 32), the
           server's key of the run (32)         server's
SHARES     round u64, table of the peers' keys  *shares*: commitments (64), table of a sealed
           and signatures                       pair of shares (80) and a pad (32) for each peer
INPUT      round u64, size u32, table of the    table of receipts for the peers, then the masked
           peers' sealed shares                 vector (u64 each)
SURVIVORS  set of survivors, table of the       the same set, table of votes for it, one for each
           peers' receipts                      peer in it
UNMASK     table of the peers' votes for the    table of opened shares (kind u8, share 32); with
           set                                  all pairs, then the *shares* of the next round
=========  ===================================  ================================================

KEYS is asked once a run; SHARES in the first round and of parties whose last UNMASK went missing,
on a sparse graph in every round.
Reading is strict: every length is known beforehand, nothing may be missing and nothing left over.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from ...errors import Refused
from ...primitives import BOX_OVERHEAD, KEY_BYTES, SIGNATURE_BYTES, TAG_BYTES, Words, prf, tag
from .shamir import ELEMENT_BYTES

VERSION = 3
CONTEXT_BYTES = 32
KEYS_BYTES = KEY_BYTES + SIGNATURE_BYTES
COMMITMENT_BYTES = 64
BOX_BYTES = 2 * ELEMENT_BYTES + BOX_OVERHEAD
ROW_BYTES = BOX_BYTES + KEY_BYTES
SHARE_BYTES = 1 + ELEMENT_BYTES
_REQUEST, _REPLY = b"PVMS", b"PVMR"
_REQUEST_HEAD = struct.Struct("<4sBB32s")
_REPLY_HEAD = struct.Struct("<4sBBI32s")


class Phase(IntEnum):
    """The exchanges: the last three in every round."""

    KEYS = 0
    SHARES = 1
    INPUT = 2
    SURVIVORS = 3
    UNMASK = 4


class Reader:
    """Takes bytes off the front; raises `Refused` where there are too few or some are left over."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, n_bytes: int) -> bytes:
        """Return the next ``n_bytes``."""
        end = self._at + n_bytes
        if end > len(self._data):
            raise Refused("a message is cut short")
        taken = self._data[self._at : end]
        self._at = end
        return taken

    def number(self, n_bytes: int) -> int:
        """Return the next unsigned integer."""
        return int.from_bytes(self.take(n_bytes), "little")

    def table(self, width: int, allowed: Iterable[int]) -> dict[int, bytes]:
        """Return a table with entries of ``width`` bytes for some of the ``allowed`` parties."""
        known = frozenset(allowed)
        count = self.number(4)
        if count > len(known):
            raise Refused("a table has more entries than there can be")
        rows: dict[int, bytes] = {}
        last = -1
        for index, row in struct.iter_unpack(f"<I{width}s", self.take(count * (4 + width))):
            if index <= last or index not in known:
                raise Refused("a table names a party twice, out of order or without need")
            rows[index] = row
            last = index
        return rows

    def whole_table(self, width: int, expected: Iterable[int], what: str) -> dict[int, bytes]:
        """Return a table with an entry for each of these parties; ``what`` they are, in words."""
        known = frozenset(expected)
        rows = self.table(width, known)
        if len(rows) != len(known):
            raise Refused(f"{what} are missing")
        return rows

    def members(self, n: int) -> frozenset[int]:
        """Return a set of some of ``n`` parties."""
        data = np.frombuffer(self.take(-(-n // 8)), dtype=np.uint8)
        bits = np.unpackbits(data, bitorder="little")
        if bits[n:].any():
            raise Refused("a set names parties that do not exist")
        return frozenset(np.flatnonzero(bits).tolist())

    def vector(self, size: int) -> Words:
        """Return ``size`` words."""
        return np.frombuffer(self.take(8 * size), dtype="<u8").astype(np.uint64, copy=False)

    def rest(self) -> bytes:
        """Return all that is left."""
        return self.take(self.left())

    def left(self) -> int:
        """Return how many bytes are left."""
        return len(self._data) - self._at

    def end(self) -> None:
        """Refuse what is left over."""
        if self.left():
            raise Refused("a message has bytes left over")


def table(rows: Mapping[int, bytes]) -> bytes:
    """Write a table."""
    entries = [index.to_bytes(4, "little") + rows[index] for index in sorted(rows)]
    return len(rows).to_bytes(4, "little") + b"".join(entries)


def set_bytes(members: Iterable[int], n: int) -> bytes:
    """Write a set of some of ``n`` parties."""
    bits = np.zeros(n, dtype=np.uint8)
    bits[list(members)] = 1
    return np.packbits(bits, bitorder="little").tobytes()


def vector(words: Words) -> bytes:
    """Write words."""
    return words.astype("<u8", copy=False).tobytes()


def request(phase: Phase, context: bytes, body: bytes) -> bytes:
    """Write a request."""
    return _REQUEST_HEAD.pack(_REQUEST, VERSION, phase, context) + body


def read_request(data: bytes) -> tuple[Phase, bytes, bytes]:
    """Return phase, context and body of a request."""
    if not isinstance(data, bytes) or len(data) < _REQUEST_HEAD.size:
        raise Refused("a message is cut short")
    magic, version, phase, context = _REQUEST_HEAD.unpack_from(data)
    if magic != _REQUEST or version != VERSION or phase not in Phase.__members__.values():
        raise Refused(f"not a request of a masked sum, version {VERSION}")
    return Phase(phase), context, data[_REQUEST_HEAD.size :]


@dataclass(frozen=True)
class Reply:
    """A party's answer; ``seal`` is its own, over everything else."""

    phase: Phase
    sender: int
    context: bytes
    body: bytes
    seal: bytes = b""

    def _head(self) -> bytes:
        return _REPLY_HEAD.pack(_REPLY, VERSION, self.phase, self.sender, self.context)

    def signed_part(self) -> bytes:
        """Return the bytes that are signed: the head, and a digest of the body."""
        return self._head() + hashlib.sha256(self.body).digest()

    def sealed(self, seal: bytes) -> bytes:
        """Write the reply under this seal."""
        return b"".join((self._head(), self.body, seal))

    def tagged(self, key: bytes) -> bytes:
        """Write the reply under a tag of the key that the party shares with the server."""
        bare = self._head() + self.body
        return bare + self._tag(key, bare)

    def is_tagged(self, key: bytes) -> bool:
        """Whether the seal is the tag under this key."""
        return hmac.compare_digest(self.seal, self._tag(key, self._head() + self.body))

    def _tag(self, key: bytes, bare: bytes) -> bytes:
        # A party answers once per context and phase, so that this key has one message.
        return tag(prf(key, b"tag", self.context + bytes([self.phase])), bare)

    @classmethod
    def from_bytes(cls, data: bytes, largest: int) -> Reply:
        """Read a reply whose body has at most ``largest`` bytes. Its seal is not checked."""
        if not isinstance(data, bytes) or len(data) < _REPLY_HEAD.size:
            raise Refused("a message is cut short")
        magic, version, phase, sender, context = _REPLY_HEAD.unpack_from(data)
        if magic != _REPLY or version != VERSION or phase not in Phase.__members__.values():
            raise Refused(f"not a reply of a masked sum, version {VERSION}")
        end = len(data) - (SIGNATURE_BYTES if phase == Phase.KEYS else TAG_BYTES)
        if end < _REPLY_HEAD.size:
            raise Refused("a message is cut short")
        if end > _REPLY_HEAD.size + largest:
            raise Refused("a message is larger than it can be")
        return cls(Phase(phase), sender, context, data[_REPLY_HEAD.size : end], data[end:])
