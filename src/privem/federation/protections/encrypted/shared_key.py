"""Encrypted sums: BFV, by 001's protocol, packed, with keys the server never holds.

A party makes the keys and sends them to the others in sealed boxes that the server carries; each
encrypts its numbers; the server adds ciphertexts; a party opens the sum. Two exchanges a round,
and one more when keys are new (once a run, or when asked for).

One key serves all: whoever holds it can open any upload. So this protects against a server that
follows the protocol and works with no party, and against nobody else; see ``trust.py``.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Generator
from contextlib import suppress
from typing import Any, Self

import numpy as np

from ... import boxes
from ...agreement import Agreement
from ...errors import TooFewParties
from ...wire.codec import BadMessage, decode, encode
from ..base import Inside, Mail, Opened, Round
from ..plain import numbers_from, numbers_message
from . import bfv as cipher

__all__ = [
    "EncryptedParty",
    "EncryptedServer",
    "body_of",
    "check_counted",
    "enough",
    "key_in",
    "keys_from",
    "open_message",
    "sealed_from",
    "usable",
]

_MAX_CIPHERTEXTS = 2**12
_KEYS = {True: "keys for integers", False: "keys for doubles"}  # other rings: never mixed up


def body_of(payload: bytes, fields: dict[str, set[str]]) -> tuple[str, dict[str, Any]]:
    """Kind and body of a payload of one of these kinds, with exactly these fields."""
    kind, body = decode(payload)
    if kind not in fields or not isinstance(body, dict) or set(body) != fields[kind]:
        raise BadMessage("unexpected payload")
    return kind, body


def sealed_from(value: Any) -> tuple[bytes, ...]:
    """Ciphertexts, checked for form."""
    sound = isinstance(value, tuple) and 0 < len(value) <= _MAX_CIPHERTEXTS
    if not sound or not all(isinstance(part, bytes) for part in value):
        raise BadMessage("expected ciphertexts")
    return tuple(value)


def open_message(epoch: int, sealed: Any, size: int, parties: Collection[str]) -> bytes:
    """Asks a party to open a sum over these parties."""
    body = {"epoch": epoch, "sealed": sealed, "size": size, "parties": tuple(parties)}
    return encode("open", body)


def check_counted(parties: Any, agreement: Agreement) -> None:
    """Refuse a sum that, as the server says, is over fewer parties than were agreed on."""
    known = isinstance(parties, tuple) and all(name in agreement.names for name in parties)
    if not known or len(set(parties)) < max(agreement.minimum, agreement.opened_by):
        raise BadMessage("the sum is over fewer parties than were agreed on")


def usable(replies: Mail, kind: str, fields: set[str]) -> dict[str, dict[str, Any]]:
    """The replies of this form, by party; what is malformed counts as missing."""
    found = {}
    for name in sorted(replies):
        with suppress(BadMessage):
            found[name] = body_of(replies[name], {kind: fields})[1]
    return found


def keys_from(replies: Mail, keeper: str, agreement: Agreement, fields: set[str]) -> Any:
    """The keys that a party made: a box for each of the others; ``None`` where it sent no such."""
    made = usable(replies, "keys", fields).get(keeper)
    boxed = None if made is None else made["boxes"]
    others = {name for name in agreement.names if name != keeper}
    if not isinstance(boxed, dict) or set(boxed) != others:
        return None
    return made if all(isinstance(box, bytes) for box in boxed.values()) else None


def key_in(box: Any, keeper: Any, inside: Inside, purpose: bytes) -> bytes:
    """The keys that somebody has made and sent to this party."""
    if keeper not in inside.agreement.names or not isinstance(box, bytes):
        raise BadMessage("the keys come from nobody in the federation")
    try:
        sender = inside.agreement.card(keeper).box
        secret = boxes.open_box(box, inside.box_key, sender, purpose)
        cipher.load(secret)
    except Exception:  # Whatever TenSEAL makes of what another party sends.
        raise BadMessage(f"the keys that {keeper!r} has made do not open") from None
    return secret


def enough(this: Round, uploads: Collection[str]) -> None:
    """Raise unless so many have sent their sums as must; says who has not."""
    if len(uploads) < max(this.agreement.minimum, this.agreement.opened_by):
        gone = ", ".join(name for name in this.active if name not in uploads)
        raise TooFewParties(f"too few parties sent their sums, nothing was opened; missing: {gone}")


class EncryptedServer:
    """Carries boxes, adds ciphertexts; its parameters are its own, and it holds no key."""

    def __init__(self, state: bytes = b"") -> None:
        self._epoch, self._keeper, self._whole = 0, "", False
        self._holders: set[str] = set()
        self._boxes: dict[str, bytes] = {}  # of those who do not have their key yet
        self._context: Any = None
        if state:
            body = decode(state, own=True)[1]
            self._epoch, self._keeper = body["epoch"], body["keeper"]
            self._boxes, self._whole = dict(body["boxes"]), body["whole"]
            self._holders = set(body["holders"])

    def state(self) -> bytes:
        """Boxes not yet delivered, and who has a key."""
        return encode(
            "encrypted server",
            {
                "epoch": self._epoch,
                "keeper": self._keeper,
                "whole": self._whole,
                "boxes": self._boxes,
                "holders": sorted(self._holders),
            },
        )

    def fresh_keys(self) -> None:
        """Have new keys made before the next sum."""
        self._keeper = ""

    def collect(self, this: Round) -> Generator[Mail, Mail, Opened]:
        """Keys if need be, uploads, the opening."""
        served = set(this.active) <= {*self._boxes, *self._holders}
        if not self._keeper or not served or self._whole != this.whole:
            yield from self._keys(this)
        scheme = cipher.for_numbers(this.whole, len(this.agreement.members))
        if self._context is None:
            self._context = scheme.ring.adder()
        ask = {
            name: encode(
                "upload",
                {
                    "epoch": self._epoch,
                    "keeper": self._keeper,
                    "box": self._boxes.get(name, b""),
                },
            )
            for name in this.active
        }
        replies = yield ask
        uploads = {}
        for name, body in usable(replies, "sealed", {"sealed"}).items():
            with suppress(BadMessage):
                sealed, sizes = sealed_from(body["sealed"]), scheme.sizes(this.size)
                uploads[name] = cipher.read(self._context, sealed, sizes)
                self._boxes.pop(name, None)
        self._holders |= set(uploads)
        enough(this, uploads)
        total = cipher.add(uploads)
        for opener in uploads:
            message = open_message(self._epoch, total, this.size, uploads)
            replies = yield {opener: message}
            with suppress(BadMessage):
                numbers = numbers_from(replies.get(opener, b""), this.size, this.whole)
                return Opened(numbers, tuple(uploads))
        gone = ", ".join(uploads)
        raise TooFewParties(f"no party was left to open the encrypted sum; missing: {gone}")

    def _keys(self, this: Round) -> Generator[Mail, Mail, None]:
        for keeper in this.active:
            self._epoch += 1
            replies = yield {keeper: encode("make keys", {"epoch": self._epoch})}
            made = keys_from(replies, keeper, this.agreement, {"boxes"})
            if made is not None:
                self._whole, self._context = this.whole, None
                self._boxes, self._keeper = made["boxes"], keeper
                self._holders = {keeper}
                return
        gone = ", ".join(this.active)
        raise TooFewParties(f"no party was there to make keys; missing: {gone}")


class EncryptedParty:
    """Makes or receives keys, encrypts its numbers, opens sums."""

    def __init__(self, state: bytes = b"") -> None:
        self._run, self._epoch, self._secret, self._whole = "", 0, b"", False
        self._context: Any = None
        if state:
            body = decode(state, own=True)[1]
            self._run, self._epoch, self._secret = body["run"], body["epoch"], body["secret"]
            self._whole = body["whole"]

    def state(self) -> bytes:
        """The key, its number, its run, and whether it is for integers."""
        key = {"run": self._run, "epoch": self._epoch, "secret": self._secret}
        return encode("encrypted", {**key, "whole": self._whole})

    def copy(self) -> Self:
        """The same key."""
        return copy.copy(self)

    def _load(self) -> Any:
        if self._context is None:
            self._context = cipher.load(self._secret)
        return self._context

    def begin(self, secret: bytes) -> None:
        """Nothing: keys, boxes and ciphertexts are fresh, and the numbers in them the same."""

    def handle(self, payload: bytes, inside: Inside) -> bytes:
        """Answer one payload."""
        kind, body = body_of(
            payload,
            {
                "make keys": {"epoch"},
                "upload": {"epoch", "keeper", "box"},
                "open": {"epoch", "sealed", "size", "parties"},
            },
        )
        if inside.run != self._run:
            self._run = inside.run
            self._keep(0, b"", False)
        epoch = body["epoch"]
        if type(epoch) is not int or epoch < self._epoch:
            raise BadMessage("these keys are no longer in use")
        scheme = cipher.for_numbers(inside.whole, len(inside.agreement.members))
        if kind == "make keys":
            if epoch == self._epoch:
                raise BadMessage("these keys were made before")
            return self._make(epoch, scheme, inside)
        if kind == "upload":
            if epoch != self._epoch:
                self._receive(epoch, body["keeper"], body["box"], inside)
            if self._whole != inside.whole:
                raise BadMessage("these keys are for other numbers")
            return encode("sealed", {"sealed": scheme.encrypt(self._load(), inside.numbers())})
        fits = epoch == self._epoch and self._secret and self._whole == inside.whole
        if not fits or type(body["size"]) is not int:
            raise BadMessage("there is no key to open this with")
        check_counted(body["parties"], inside.agreement)
        return numbers_message(
            scheme.decrypt(self._load(), sealed_from(body["sealed"]), body["size"])
        )

    def _keep(self, epoch: int, secret: bytes, whole: bool) -> None:
        self._epoch, self._secret, self._whole, self._context = epoch, secret, whole, None

    def _make(self, epoch: int, scheme: cipher.Whole | cipher.Limbs, inside: Inside) -> bytes:
        secret = scheme.keys()
        purpose = inside.purpose(_KEYS[inside.whole], epoch)
        sealed = {
            card.name: boxes.seal(secret, inside.box_key, card.box, purpose)
            for card in inside.agreement.members
            if card.name != inside.name
        }
        self._keep(epoch, secret, inside.whole)
        return encode("keys", {"boxes": sealed})

    def _receive(self, epoch: int, keeper: Any, box: Any, inside: Inside) -> None:
        secret = key_in(box, keeper, inside, inside.purpose(_KEYS[inside.whole], epoch))
        self._keep(epoch, secret, inside.whole)


def largest(prices: Any, noise: Any, parties: int) -> float:
    """Bound, in lattice steps, on a noisy sum that BFV carries modulo its prime.

    Fewer than 2^32 records are taken for granted; more would make a sum wrap: wrong, not unsafe.
    """
    rows = min(noise.rows, 2.0**32)
    sizes = [rows * (s.sensitivity + s.slack) / s.grid + 64.0 * parties * s.steps for s in prices]
    return float(np.max(sizes))
