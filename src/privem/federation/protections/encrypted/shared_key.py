"""Sums under homomorphic encryption, with one secret key that all parties hold, not the server.

The protocol is that of Abu Hussein and Rodel (2023). One party makes the keys and sends them to the
others in sealed boxes that the server carries; each party encrypts its numbers; the server adds
ciphertexts; a party opens the sum. A round takes two exchanges, and one more when keys are new.

Whoever holds the key can open any upload. So this protects against a server that follows the
protocol and works with no party, and against nobody else.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator
from contextlib import suppress
from typing import Any, Protocol

from numpy.typing import NDArray

from ... import primitives
from ...agreement import Agreement
from ...errors import TooFewParties
from ...wire.codec import BadMessage, decode, encode
from .. import Mail, Opened, PartyRound, PartySide, ServerRound, ServerSide
from ..plain import numbers_from, numbers_message
from . import bfv

_MAX_CIPHERTEXTS = 2**12
# What the server asks for, and the fields of it.
_REQUESTS = {
    "make keys": {"epoch"},
    "upload": {"epoch", "keeper", "box"},
    "open": {"epoch", "sealed", "size", "parties"},
}


class Cipher(Protocol):
    """How numbers are encrypted: under BFV (:mod:`.bfv`) or CKKS."""

    @property
    def label(self) -> str:
        """What the keys are for: those of different ciphers are never mixed up."""

    def keys(self) -> bytes:
        """A new secret context."""

    def encrypt(self, context: Any, numbers: NDArray[Any]) -> tuple[bytes, ...]:
        """Ciphertexts."""

    def decrypt(self, context: Any, sealed: tuple[bytes, ...], size: int) -> NDArray[Any]:
        """So many numbers."""


def _body_of(payload: bytes, fields: dict[str, set[str]]) -> tuple[str, dict[str, Any]]:
    """Kind and body of a payload of one of these kinds, with exactly these fields."""
    kind, body = decode(payload)
    if kind not in fields or not isinstance(body, dict) or set(body) != fields[kind]:
        raise BadMessage("unexpected payload")
    return kind, body


def _sealed_from(value: Any) -> tuple[bytes, ...]:
    """Ciphertexts, checked for form."""
    sound = isinstance(value, tuple) and 0 < len(value) <= _MAX_CIPHERTEXTS
    if not sound or not all(isinstance(part, bytes) for part in value):
        raise BadMessage("expected ciphertexts")
    return tuple(value)


def open_message(epoch: int, sealed: Any, size: int, parties: Collection[str]) -> bytes:
    """Asks a party to open a sum over these parties."""
    body = {"epoch": epoch, "sealed": sealed, "size": size, "parties": tuple(parties)}
    return encode("open", body)


def _check_counted(parties: Any, agreement: Agreement) -> None:
    """Refuse a sum that, as the server says, is over fewer parties than were agreed on."""
    known = isinstance(parties, tuple) and all(name in agreement.names for name in parties)
    if not known or len(set(parties)) < agreement.least:
        raise BadMessage("the sum is over fewer parties than were agreed on")


def _usable(replies: Mail, kind: str, fields: set[str]) -> dict[str, dict[str, Any]]:
    """The replies of this form, by party; what is malformed counts as missing."""
    found = {}
    for name in sorted(replies):
        with suppress(BadMessage):
            found[name] = _body_of(replies[name], {kind: fields})[1]
    return found


class SharedKeyServer(ServerSide):
    """Carries boxes and adds ciphertexts. It holds no secret key."""

    _epoch = 0  # the number of the last keys

    def _ask_for_keys(
        self, keeper: str, this: ServerRound, *more: str
    ) -> Generator[Mail, Mail, dict[str, Any] | None]:
        """Have a party make keys: a box for each of the others; ``None`` where it sent no such."""
        self._epoch += 1
        replies = yield {keeper: encode("make keys", {"epoch": self._epoch})}
        made = _usable(replies, "keys", {"boxes", *more}).get(keeper)
        boxed = None if made is None else made["boxes"]
        others = {name for name in this.agreement.names if name != keeper}
        if not isinstance(boxed, dict) or set(boxed) != others:
            return None
        return made if all(isinstance(box, bytes) for box in boxed.values()) else None

    def _ask_for_uploads(
        self, this: ServerRound, keeper: str, boxes: Mail, read: Callable[[Any], list[Any]]
    ) -> Generator[Mail, Mail, dict[str, list[Any]]]:
        """Every party's ciphertexts; those who lack a key are sent their box with it."""
        head = {"epoch": self._epoch, "keeper": keeper}
        replies = yield {
            name: encode("upload", {**head, "box": boxes.get(name, b"")}) for name in this.active
        }
        uploads = {}
        for name, body in _usable(replies, "sealed", {"sealed"}).items():
            with suppress(BadMessage):
                uploads[name] = read(_sealed_from(body["sealed"]))
        return uploads

    def _ask_to_open(
        self, this: ServerRound, uploads: dict[str, list[Any]], together: bool = False
    ) -> Generator[Mail, Mail, Opened]:
        """The sum, from the first party that opens it; they are asked one by one, or all."""
        if len(uploads) < this.agreement.least:
            gone = ", ".join(name for name in this.active if name not in uploads)
            raise TooFewParties(
                f"too few parties sent their sums, nothing was opened; missing: {gone}"
            )
        message = open_message(self._epoch, bfv.add(uploads), this.size, uploads)
        for openers in [list(uploads)] if together else [[name] for name in uploads]:
            replies = yield dict.fromkeys(openers, message)
            for opener in openers:
                with suppress(BadMessage):
                    numbers = numbers_from(replies.get(opener, b""), this.size, this.whole)
                    return Opened(numbers, tuple(uploads))
        gone = ", ".join(uploads)
        raise TooFewParties(f"no party was left to open the encrypted sum; missing: {gone}")


class SharedKeyParty(PartySide):
    """Makes or receives keys, encrypts its numbers, opens sums.

    It draws nothing from the secret of a run: keys, boxes and ciphertexts are fresh, and the
    numbers in them the same.

    Parameters
    ----------
    kind : str
        What its state is called.
    cipher : callable
        How numbers of a round are encrypted.
    publishes : bool
        Whether the server is given a public key.
    state : bytes
    """

    def __init__(
        self,
        kind: str,
        cipher: Callable[[PartyRound], Cipher],
        publishes: bool = False,
        state: bytes = b"",
    ) -> None:
        self._kind, self._cipher, self._publishes = kind, cipher, publishes
        self._run, self._epoch, self._secret, self._whole = "", 0, b"", False
        self._context: Any = None
        if state:
            body = decode(state, own=True)[1]
            self._run, self._epoch, self._secret = body["run"], body["epoch"], body["secret"]
            self._whole = body.get("whole", False)

    def state(self) -> bytes:
        """The key, its number, its run, and whether it is for integers."""
        key = {"run": self._run, "epoch": self._epoch, "secret": self._secret}
        return encode(self._kind, {**key, "whole": self._whole})

    def handle(self, payload: bytes, this: PartyRound) -> bytes:
        """Answer one payload."""
        kind, body = _body_of(payload, _REQUESTS)
        cipher, epoch = self._cipher(this), body["epoch"]
        if this.run != self._run:
            self._run = this.run
            self._keep(0, b"", False)
        if type(epoch) is not int or epoch < self._epoch:
            raise BadMessage("these keys are no longer in use")
        purpose = this.purpose(cipher.label, epoch)
        if kind == "make keys":
            if epoch == self._epoch:
                raise BadMessage("these keys were made before")
            self._keep(epoch, cipher.keys(), this.whole)
            return self._handed_out(purpose, this)
        if kind == "upload":
            if epoch != self._epoch:
                secret = _received(body["box"], body["keeper"], purpose, this)
                self._keep(epoch, secret, this.whole)
            if self._whole != this.whole:
                raise BadMessage("these keys are for other numbers")
            return encode("sealed", {"sealed": cipher.encrypt(self._load(), this.numbers())})
        fits = epoch == self._epoch and self._secret and self._whole == this.whole
        if not fits or type(body["size"]) is not int:
            raise BadMessage("there is no key to open this with")
        _check_counted(body["parties"], this.agreement)
        sealed = _sealed_from(body["sealed"])
        return numbers_message(cipher.decrypt(self._load(), sealed, body["size"]))

    def _keep(self, epoch: int, secret: bytes, whole: bool) -> None:
        self._epoch, self._secret, self._whole, self._context = epoch, secret, whole, None

    def _load(self) -> Any:
        if self._context is None:
            self._context = bfv.load(self._secret)
        return self._context

    def _handed_out(self, purpose: bytes, this: PartyRound) -> bytes:
        """The keys in a box for every other party."""
        boxes = {
            card.name: primitives.seal(self._secret, this.box_key, card.box, purpose)
            for card in this.agreement.members
            if card.name != this.name
        }
        known = {"public": bfv.written(self._load(), public=True)} if self._publishes else {}
        return encode("keys", {**known, "boxes": boxes})


def _received(box: Any, keeper: Any, purpose: bytes, this: PartyRound) -> bytes:
    """The keys that another party has made and sent to this one."""
    if keeper not in this.agreement.names or not isinstance(box, bytes):
        raise BadMessage("the keys come from nobody in the federation")
    try:
        sender = this.agreement.card(keeper).box
        secret = primitives.unseal(box, this.box_key, sender, purpose)
        bfv.load(secret)
    except Exception:  # TenSEAL raises all kinds of errors for bytes that are no context.
        raise BadMessage(f"the keys that {keeper!r} has made do not open") from None
    return secret
