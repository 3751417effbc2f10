"""Who takes part: a roster of signing keys, fixed when the federation is created."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from . import primitives
from .errors import Refused

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )

__all__ = ["MAX_PARTIES", "Identity", "Roster"]

MAX_PARTIES = 2**16
_MAX_TEXT = 200
_FIELDS = {"federation", "parties", "seed"}


class Identity:
    """A party's long-lived Ed25519 key. Make it on the party's own machine and keep it there.

    Examples
    --------
    >>> me = Identity.new()
    >>> Identity(me.private_bytes()).public == me.public
    True
    """

    def __init__(self, private: bytes) -> None:
        primitives.require()
        self._private = bytes(private)
        self._key: Ed25519PrivateKey = primitives.signing_key(self._private)
        self.public: bytes = self._key.public_key().public_bytes_raw()

    @classmethod
    def new(cls) -> Identity:
        """Draw a key from the operating system's generator."""
        return cls(os.urandom(primitives.KEY_BYTES))

    def private_bytes(self) -> bytes:
        """Return the 32 secret bytes, to be stored where only this party can read them."""
        return self._private

    def sign(self, message: bytes) -> bytes:
        """Return the signature (64 bytes)."""
        return self._key.sign(message)

    def __repr__(self) -> str:
        return f"Identity(public={self.public.hex()[:16]}…)"


@dataclass(frozen=True)
class Roster:
    """The parties of a federation and the keys they sign with.

    Every party gets the roster from whoever founds the federation and checks it once; no message
    of the server can change it, and every signature is bound to it.

    Parameters
    ----------
    federation
        A name that tells this federation from others.
    parties
        Party id to Ed25519 public key (32 bytes).
    seed
        32 public random bytes that fix the graph of peers (`graph.py`); needed above 64 parties.
        Draw them *after* all keys are fixed, in a way no party and no server can steer.

    Examples
    --------
    >>> keys = {name: Identity.new().public for name in ("c", "a", "b")}
    >>> roster = Roster("trial", keys)
    >>> roster.names, Roster.from_json(roster.to_json()) == roster
    (('a', 'b', 'c'), True)
    """

    federation: str
    parties: Mapping[str, bytes]
    seed: bytes = b""

    def __post_init__(self) -> None:
        if not 0 < len(self.federation) <= _MAX_TEXT:
            raise ValueError(f"a federation's name has 1 to {_MAX_TEXT} characters")
        if not 0 < len(self.parties) <= MAX_PARTIES:
            raise ValueError(f"a roster has 1 to {MAX_PARTIES} parties, got {len(self.parties)}")
        if len(self.seed) not in (0, 32):
            raise ValueError(f"the roster's seed has 32 bytes, got {len(self.seed)}")
        ordered = {}
        for name in sorted(self.parties):
            key = bytes(self.parties[name])
            if not isinstance(name, str) or not 0 < len(name) <= _MAX_TEXT:
                raise ValueError(f"a party's id is a text of 1 to {_MAX_TEXT} characters")
            if len(key) != primitives.KEY_BYTES:
                raise ValueError(f"the key of {name!r} has {len(key)} bytes, not 32")
            ordered[name] = key
        if len(set(ordered.values())) != len(ordered):
            raise ValueError("two parties of the roster have the same key")
        object.__setattr__(self, "parties", ordered)

    def __len__(self) -> int:
        return len(self.parties)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The party ids in order; a party's place in it is its index."""
        return tuple(self.parties)

    @cached_property
    def index(self) -> dict[str, int]:
        """Party id to index."""
        return {name: i for i, name in enumerate(self.names)}

    @cached_property
    def digest(self) -> bytes:
        """SHA-256 of the roster's canonical text."""
        return hashlib.sha256(self.to_json().encode()).digest()

    @cached_property
    def _verifying(self) -> dict[int, Ed25519PublicKey]:
        return {}

    def verify(self, index: int, signature: bytes, message: bytes) -> None:
        """Refuse the message unless it is signed by the party with this index."""
        key = self._verifying.get(index)
        if key is None:
            key = primitives.verifying_key(self.parties[self.names[index]])
            self._verifying[index] = key
        primitives.verify(key, signature, message, self.names[index])

    def to_json(self) -> str:
        """Return the canonical text: the same roster always gives the same characters."""
        parties = {name: key.hex() for name, key in self.parties.items()}
        content = {"federation": self.federation, "parties": parties, "seed": self.seed.hex()}
        return json.dumps(content, sort_keys=True, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Roster:
        """Read what `to_json` wrote; refuse anything else."""
        try:
            content = json.loads(text)
            if not isinstance(content, dict) or set(content) != _FIELDS:
                raise ValueError(f"a roster has the fields {sorted(_FIELDS)}")
            parties = {name: bytes.fromhex(key) for name, key in content["parties"].items()}
            roster = cls(content["federation"], parties, bytes.fromhex(content["seed"]))
        except (ValueError, TypeError, AttributeError, KeyError) as error:
            raise Refused(f"not a roster: {error}") from error
        if roster.to_json() != text:
            raise Refused("not a roster in its canonical form")
        return roster
