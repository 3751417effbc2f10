"""A party's secrets for one round, and the masks they make.

Everything a party draws at random in a round comes from one fresh 32-byte secret, so a process that
is killed and started again computes the same bytes. A new attempt draws a new secret.
"""

from __future__ import annotations

import hmac
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from . import shamir
from .prg import Words, expand, stream
from .primitives import agree, agreement_key, derive, public_bytes

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

__all__ = [
    "VOTE_BYTES",
    "Channel",
    "RoundKeys",
    "add_pair_mask",
    "commitment",
    "masking_key",
    "self_mask",
]

_PAIR = struct.Struct("<II")
VOTE_BYTES = 16


def masking_key(element: int, context: bytes) -> X25519PrivateKey:
    """Return the key that agrees on pairwise masks, from the element that is shared out."""
    return agreement_key(derive(shamir.to_bytes(element), context, b"masking key"))


def self_mask(element: int, context: bytes, size: int) -> Words:
    """Return a party's own mask, from the element that is shared out."""
    return expand(derive(shamir.to_bytes(element), context, b"self mask"), size)


def commitment(element: int, context: bytes) -> bytes:
    """Return 32 bytes by which the server recognises the element of the self mask."""
    return derive(shamir.to_bytes(element), context, b"commitment")


def add_pair_mask(
    total: Words, key: X25519PrivateKey, public: bytes, context: bytes, me: int, peer: int
) -> None:
    """Add the mask between ``me`` and ``peer`` as ``me`` does: the lower index adds."""
    pair = _PAIR.pack(min(me, peer), max(me, peer))
    mask = expand(derive(agree(key, public), context, b"pair mask" + pair), len(total))
    (np.add if me < peer else np.subtract)(total, mask, out=total)


@dataclass(frozen=True)
class Channel:
    """What two peers share for one round, each of it for one direction.

    A receipt is a one-time password: whoever sends it has put the mask of this pair on its input.
    A vote is a message authentication code of a set of survivors: whoever sends it has accepted
    the set. Nobody else can make either, and only the other of the two can check it.
    """

    seal: bytes
    unseal: bytes
    receipt_given: bytes
    receipt_expected: bytes
    voting: bytes
    counting: bytes

    def vote(self, survivors: bytes) -> bytes:
        """Return the vote for this set."""
        return hmac.digest(self.voting, survivors, "sha256")[:VOTE_BYTES]

    def agrees(self, vote: bytes, survivors: bytes) -> bool:
        """Whether this is the peer's vote for this set."""
        expected = hmac.digest(self.counting, survivors, "sha256")[:VOTE_BYTES]
        return hmac.compare_digest(vote, expected)


@dataclass(frozen=True)
class RoundKeys:
    """The secrets of party ``me`` in the round that ``context`` stands for."""

    secret: bytes
    context: bytes
    me: int

    @cached_property
    def _channel_key(self) -> X25519PrivateKey:
        return agreement_key(derive(self.secret, self.context, b"channel key"))

    def _element(self, label: bytes) -> int:
        return shamir.element(derive(self.secret, self.context, label, 64))

    @cached_property
    def key_element(self) -> int:
        """The element the masking key comes from: opened if this party drops out."""
        return self._element(b"key element")

    @cached_property
    def seed_element(self) -> int:
        """The element the self mask comes from: opened if this party survives."""
        return self._element(b"seed element")

    @cached_property
    def masking(self) -> X25519PrivateKey:
        """The key that agrees on pairwise masks."""
        return masking_key(self.key_element, self.context)

    def advertisement(self) -> bytes:
        """Return channel key, masking key (public halves) and commitment."""
        committed = commitment(self.seed_element, self.context)
        return public_bytes(self._channel_key) + public_bytes(self.masking) + committed

    def shares(self, quorum: int, holders: Iterable[int]) -> dict[int, bytes]:
        """Return for each holder its share of the masking key, then of the self mask."""
        indices = list(holders)
        points = [index + 1 for index in indices]
        columns = []
        for label, secret in (
            (b"key polynomial", self.key_element),
            (b"seed polynomial", self.seed_element),
        ):
            wide = stream(derive(self.secret, self.context, label), 64 * (quorum - 1))
            uniform = [shamir.element(wide[64 * j : 64 * j + 64]) for j in range(quorum - 1)]
            columns.append(shamir.split(secret, uniform, points))
        pairs = zip(*columns, strict=True)
        return {
            index: shamir.to_bytes(key) + shamir.to_bytes(seed)
            for index, (key, seed) in zip(indices, pairs, strict=True)
        }

    def channel(self, peer: int, public: bytes) -> Channel:
        """Agree with a peer on keys and receipts."""
        low, high = min(self.me, peer), max(self.me, peer)
        secret = agree(self._channel_key, public)
        keys = derive(secret, self.context, b"channel" + _PAIR.pack(low, high), 160)
        up, down = keys[:80], keys[80:]  # From the lower index to the higher, and back.
        mine, theirs = (up, down) if self.me == low else (down, up)
        return Channel(
            mine[:32], theirs[:32], mine[32:48], theirs[32:48], mine[48:80], theirs[48:80]
        )
