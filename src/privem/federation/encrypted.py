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

from . import boxes, cipher
from .agreement import Agreement
from .codec import BadMessage, decode, encode
from .errors import TooFewParties
from .plain import numbers_from, numbers_message
from .protection import Inside, Mail, Opened, Round

__all__ = [
    "EncryptedParty",
    "EncryptedServer",
    "body_of",
    "check_counted",
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


class EncryptedServer:
    """Carries boxes, adds ciphertexts; holds parameters and no key."""

    def __init__(self, state: bytes = b"") -> None:
        self._epoch, self._keeper, self._public, self._whole = 0, "", b"", False
        self._holders: set[str] = set()
        self._boxes: dict[str, bytes] = {}  # of those who do not have their key yet
        self._context: Any = None
        if state:
            body = decode(state, own=True)[1]
            self._epoch, self._keeper = body["epoch"], body["keeper"]
            self._public, self._boxes = body["public"], dict(body["boxes"])
            self._whole = body["whole"]
            self._holders = set(body["holders"])

    def state(self) -> bytes:
        """Parameters, boxes not yet delivered, who has a key."""
        return encode(
            "encrypted server",
            {
                "epoch": self._epoch,
                "keeper": self._keeper,
                "public": self._public,
                "whole": self._whole,
                "boxes": self._boxes,
                "holders": sorted(self._holders),
            },
        )

    def fresh_keys(self) -> None:
        """Have new keys made before the next sum."""
        self._public = b""

    def collect(self, this: Round) -> Generator[Mail, Mail, Opened]:
        """Keys if need be, uploads, the opening."""
        served = set(this.active) <= {*self._boxes, *self._holders}
        if not self._public or not served or self._whole != this.whole:
            yield from self._keys(this)
        if self._context is None:
            self._context = cipher.load(self._public)
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
        uploads = usable(replies, "sealed", {"sealed"})
        self._holders |= set(uploads)
        for name in uploads:
            self._boxes.pop(name, None)
        if len(uploads) < max(this.agreement.minimum, this.agreement.opened_by):
            raise TooFewParties("too few parties sent their sums: nothing was opened")
        sealed = [sealed_from(body["sealed"]) for body in uploads.values()]
        total = cipher.add(self._context, sealed)
        for opener in uploads:
            message = open_message(self._epoch, total, this.size, uploads)
            replies = yield {opener: message}
            if opener in replies:
                numbers = numbers_from(replies[opener], this.size, this.whole)
                return Opened(numbers, tuple(uploads))
        raise TooFewParties("no party was left to open the encrypted sum")

    def _keys(self, this: Round) -> Generator[Mail, Mail, None]:
        for keeper in this.active:
            self._epoch += 1
            replies = yield {keeper: encode("make keys", {"epoch": self._epoch})}
            made = usable(replies, "keys", {"public", "boxes"}).get(keeper)
            if made is None:
                continue
            if not (isinstance(made["public"], bytes) and isinstance(made["boxes"], dict)):
                raise BadMessage("expected keys")
            self._public, self._whole, self._context = made["public"], this.whole, None
            self._boxes, self._keeper = made["boxes"], keeper
            self._holders = {keeper}
            return
        raise TooFewParties("no party was there to make keys")


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
        return encode("keys", {"public": cipher.public(secret), "boxes": sealed})

    def _receive(self, epoch: int, keeper: Any, box: Any, inside: Inside) -> None:
        if keeper not in inside.agreement.names or not isinstance(box, bytes):
            raise BadMessage("the keys come from nobody in the federation")
        sender = inside.agreement.card(keeper).box
        purpose = inside.purpose(_KEYS[inside.whole], epoch)
        try:
            secret = boxes.open_box(box, inside.box_key, sender, purpose)
        except boxes.BoxError as problem:
            raise BadMessage(str(problem)) from None
        self._keep(epoch, secret, inside.whole)


def largest(prices: Any, noise: Any, parties: int) -> float:
    """Bound, in lattice steps, on a noisy sum that BFV carries modulo its prime.

    Fewer than 2^32 records are taken for granted; more would make a sum wrap: wrong, not unsafe.
    """
    rows = min(noise.rows, 2.0**32)
    sizes = [rows * (s.sensitivity + s.slack) / s.grid + 64.0 * parties * s.steps for s in prices]
    return float(np.max(sizes))
