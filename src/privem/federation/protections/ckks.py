"""CKKS as paper 001 describes it, for comparison only: exact fits, honest members.

Three vectors (counts, sums, second moments) per party, each in ciphertexts of its own; new keys
every iteration, made by one and handed to all; every party opens every total. Parameters are those
of TenSEAL's own introduction, which 001 points to. What 001 sends in the clear, each party's
log-likelihood, is added to the first vector instead.

Not safe against anybody but an eavesdropper: decryptions of CKKS, as they leave here, carry an
error from which the secret key can be computed (Li and Micciancio 2021).
"""

from __future__ import annotations

import copy
from collections.abc import Generator
from contextlib import suppress
from typing import Any, Self

import numpy as np

from .. import boxes
from ..errors import FederationError, TooFewParties
from ..wire.codec import BadMessage, decode, encode
from .base import Inside, Mail, Opened, Round
from .encrypted import bfv as cipher
from .encrypted.shared_key import (
    body_of,
    check_counted,
    enough,
    key_in,
    keys_from,
    open_message,
    sealed_from,
    usable,
)
from .plain import numbers_from, numbers_message

__all__ = ["CkksParty", "CkksServer"]

_DEGREE, _MODULI, _SCALE = 8192, [60, 40, 40, 60], 2.0**40


def _vectors(leaves: tuple[tuple[str, int], ...]) -> list[np.ndarray]:
    """Where counts (with all the rest), sums and second moments lie in the raveled statistic."""
    places: dict[str, list[np.ndarray]] = {"a": [], "b": [], "c": []}
    at = 0
    for name, size in leaves:
        key = {"total": "b", "second": "c"}.get(name, "a")
        places[key].append(np.arange(at, at + size))
        at += size
    vectors = [np.concatenate(parts) for parts in places.values() if parts]
    slots = _DEGREE // 2
    return [v[at : at + slots] for v in vectors for at in range(0, len(v), slots)]


class CkksServer:
    """New keys, three uploads each, three totals back to all."""

    def __init__(self, state: bytes = b"") -> None:
        self._epoch = int(state or b"0")

    def state(self) -> bytes:
        """The number of the last keys."""
        return str(self._epoch).encode()

    def collect(self, this: Round) -> Generator[Mail, Mail, Opened]:
        """One iteration."""
        self._epoch += 1
        keeper = this.active[0]
        replies = yield {keeper: encode("make keys", {"epoch": self._epoch})}
        made = keys_from(replies, keeper, this.agreement, {"public", "boxes"})
        if made is None:
            raise TooFewParties(f"{keeper!r}, which makes the keys, has made none")
        head = {"epoch": self._epoch, "keeper": keeper}
        replies = yield {
            name: encode("upload", {**head, "box": made["boxes"].get(name, b"")})
            for name in this.active
        }
        try:
            context = cipher.load(made["public"])
        except Exception:
            raise FederationError(f"{keeper!r} made keys that cannot be read") from None
        uploads, sizes = {}, [len(place) for place in _vectors(this.leaves)]
        for name, body in usable(replies, "sealed", {"sealed"}).items():
            with suppress(BadMessage):
                sealed = sealed_from(body["sealed"])
                uploads[name] = cipher.read(context, sealed, sizes, approximate=True)
        enough(this, uploads)
        total = cipher.add(uploads)
        message = open_message(self._epoch, total, this.size, uploads)
        replies = yield dict.fromkeys(uploads, message)
        for opener in uploads:
            with suppress(BadMessage):
                numbers = numbers_from(replies.get(opener, b""), this.size, whole=False)
                return Opened(numbers, tuple(uploads))
        gone = ", ".join(uploads)
        raise TooFewParties(f"no party was left to open the encrypted sum; missing: {gone}")


class CkksParty:
    """Encrypts three vectors; opens three totals."""

    def __init__(self, state: bytes = b"") -> None:
        self._run, self._epoch, self._secret = "", 0, b""
        if state:
            body = decode(state, own=True)[1]
            self._run, self._epoch, self._secret = body["run"], body["epoch"], body["secret"]

    def state(self) -> bytes:
        """The key, its number and its run."""
        return encode("ckks", {"run": self._run, "epoch": self._epoch, "secret": self._secret})

    def copy(self) -> Self:
        """The same key."""
        return copy.copy(self)

    def begin(self, secret: bytes) -> None:
        """Nothing: keys and ciphertexts are fresh, and the numbers in them the same."""

    def handle(self, payload: bytes, inside: Inside) -> bytes:
        """Answer one payload."""
        ts = cipher.require()
        kind, body = body_of(
            payload,
            {
                "make keys": {"epoch"},
                "upload": {"epoch", "keeper", "box"},
                "open": {"epoch", "sealed", "size", "parties"},
            },
        )
        if inside.run != self._run:
            self._run, self._epoch, self._secret = inside.run, 0, b""
        epoch = body["epoch"]
        if inside.whole or type(epoch) is not int or epoch < self._epoch:
            raise BadMessage("001's own way is for exact fits, with new keys every time")
        purpose = inside.purpose("ckks", epoch)
        if kind == "make keys":
            return self._make(ts, epoch, purpose, inside)
        if kind == "upload" and epoch != self._epoch:
            self._secret = key_in(body["box"], body["keeper"], inside, purpose)
            self._epoch = epoch
        context = ts.context_from(self._secret)
        places = _vectors(inside.leaves())
        if kind == "upload":
            numbers = inside.numbers()
            parts = tuple(ts.ckks_vector(context, numbers[p], _SCALE).serialize() for p in places)
            return encode("sealed", {"sealed": parts})
        check_counted(body["parties"], inside.agreement)
        out = np.empty(sum(len(p) for p in places))
        for place, part in zip(places, sealed_from(body["sealed"]), strict=True):
            out[place] = ts.ckks_vector_from(context, part).decrypt()
        return numbers_message(out)

    def _make(self, ts: Any, epoch: int, purpose: bytes, inside: Inside) -> bytes:
        context = ts.context(ts.SCHEME_TYPE.CKKS, _DEGREE, -1, _MODULI)
        keys = {"save_galois_keys": False, "save_relin_keys": False}
        secret = bytes(context.serialize(save_public_key=True, save_secret_key=True, **keys))
        known = bytes(context.serialize(save_public_key=True, save_secret_key=False, **keys))
        sealed = {
            card.name: boxes.seal(secret, inside.box_key, card.box, purpose)
            for card in inside.agreement.members
            if card.name != inside.name
        }
        self._epoch, self._secret = epoch, secret
        return encode("keys", {"public": known, "boxes": sealed})
