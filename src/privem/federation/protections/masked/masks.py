"""The secrets that a party derives in one round, and the masks made from them.

A party has 32 secret bytes for each run. All that it needs later follows from them and from
what it has agreed on with each peer, through one-way *chains*: a round's secrets are taken from
where a chain stands, then the chain steps on and the place before is forgotten. So a process that
is killed and started again computes the same bytes, and what is stolen from it says nothing of
rounds that are over.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ...primitives import Words, expand, prf, stream
from . import shamir

PAIR_BYTES = 96
RECEIPT_BYTES = VOTE_BYTES = 16
KEY, SEED = b"key", b"seed"


def next_on_chain(place: bytes) -> bytes:
    """Return the place after this one, from which there is no way back."""
    return prf(place, b"next")


def self_mask(element: int, context: bytes, size: int) -> Words:
    """Return a party's own mask, from the element that is shared out."""
    return expand(prf(shamir.to_bytes(element), b"self mask", context), size)


def commitment(kind: bytes, element: int, context: bytes) -> bytes:
    """Return 32 bytes that commit to the element; ``kind`` is KEY or SEED."""
    return prf(shamir.to_bytes(element), kind + b" commitment", context)


def pad(secret: bytes, key: int, context: bytes, peer: int) -> bytes:
    """Hide the secret of a pair's mask under the element ``key``, or uncover it again."""
    cover = prf(shamir.to_bytes(key), b"pad", context + _index(peer))
    hidden = int.from_bytes(secret, "little") ^ int.from_bytes(cover, "little")
    return hidden.to_bytes(32, "little")


def add_pair_mask(total: Words, secret: bytes, context: bytes, me: int, peer: int) -> None:
    """Add the mask between ``me`` and ``peer`` as ``me`` does: the lower index adds."""
    mask = expand(prf(secret, b"pair mask", context), len(total))
    (np.add if me < peer else np.subtract)(total, mask, out=total)


def receipt(secret: bytes, context: bytes, sender: int) -> bytes:
    """Return the proof that ``sender`` has put this pair's mask on its input."""
    return prf(secret, b"receipt", context + _index(sender), RECEIPT_BYTES)


@dataclass(frozen=True)
class Pair:
    """What two peers share for one round.

    Receipts come from the same secret as the mask: the server may learn both, of a party that has
    dropped out. It never learns what boxes and votes come from.
    """

    mask: bytes
    """Opened if one of the two drops out."""
    box: bytes
    votes: bytes

    @classmethod
    def at(cls, place: bytes, context: bytes) -> Pair:
        """Return the keys of the round that the pair's chain has reached."""
        both = prf(place, b"mask and box", context, 64)
        return cls(both[:32], both[32:], prf(place, b"votes", context))

    def to_bytes(self) -> bytes:
        """Write it."""
        return self.mask + self.box + self.votes

    @classmethod
    def from_bytes(cls, data: bytes) -> Pair:
        """Read what `to_bytes` wrote."""
        return cls(data[:32], data[32:64], data[64:])

    def vote(self, survivors: bytes, context: bytes, voter: int) -> bytes:
        """Return the vote of one of the two for this set; only the other can check it."""
        return prf(self.votes, b"vote", context + _index(voter) + survivors, VOTE_BYTES)


@dataclass(frozen=True)
class RoundSecrets:
    """The elements a party shares out in the round that ``context`` stands for."""

    secret: bytes
    context: bytes

    @classmethod
    def at(cls, place: bytes, context: bytes) -> RoundSecrets:
        """Return the elements of the round that the party's own chain has reached."""
        return cls(prf(place, b"round secret", context), context)

    @cached_property
    def key_element(self) -> int:
        """The element that hides the secrets of this party's masks; opened if it drops out."""
        return shamir.element(prf(self.secret, b"key element", self.context, 64))

    @cached_property
    def seed_element(self) -> int:
        """The element that the self mask comes from; opened if this party survives."""
        return shamir.element(prf(self.secret, b"seed element", self.context, 64))

    def commitments(self) -> bytes:
        """Return the commitments to both."""
        key = commitment(KEY, self.key_element, self.context)
        return key + commitment(SEED, self.seed_element, self.context)

    def shares(self, quorum: int, holders: Iterable[int]) -> dict[int, bytes]:
        """Return for each holder its share of the key element, then of the seed element."""
        indices = list(holders)
        points = [index + 1 for index in indices]
        columns = []
        for label, secret in (
            (b"key polynomial", self.key_element),
            (b"seed polynomial", self.seed_element),
        ):
            wide = stream(prf(self.secret, label, self.context), 64 * (quorum - 1))
            uniform = [shamir.element(wide[64 * j : 64 * j + 64]) for j in range(quorum - 1)]
            columns.append(shamir.split(secret, uniform, points))
        pairs = zip(*columns, strict=True)
        return {
            index: shamir.to_bytes(key) + shamir.to_bytes(seed)
            for index, (key, seed) in zip(indices, pairs, strict=True)
        }


def _index(party: int) -> bytes:
    return party.to_bytes(4, "little")
