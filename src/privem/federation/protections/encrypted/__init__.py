"""``protection="encrypted"``: sums of integers or doubles under BFV, with keys for a whole run."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from functools import partial
from typing import Any

from ....core import Spent
from ...agreement import Agreement
from ...errors import TooFewParties
from ...wire.codec import decode, encode
from .. import Mail, Opened, PartyRound, Protection, ServerRound
from . import bfv
from .shared_key import SharedKeyParty, SharedKeyServer


def _cipher(this: PartyRound | ServerRound) -> bfv.Whole | bfv.Limbs:
    parties = len(this.agreement.members)
    return bfv.Whole.of(parties) if this.whole else bfv.Limbs.of(parties)


class EncryptedServer(SharedKeyServer):
    """Has keys made for a whole run. It holds no key, only encryption parameters."""

    def __init__(self, state: bytes = b"") -> None:
        self._keeper, self._whole = "", False
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
        body = {
            "epoch": self._epoch,
            "keeper": self._keeper,
            "whole": self._whole,
            "boxes": self._boxes,
            "holders": sorted(self._holders),
        }
        return encode("encrypted server", body)

    def fresh_keys(self) -> None:
        """Have new keys made before the next sum."""
        self._keeper = ""

    def collect(self, this: ServerRound) -> Generator[Mail, Mail, Opened]:
        """Keys if need be, uploads, the opening."""
        served = set(this.active) <= {*self._boxes, *self._holders}
        if not self._keeper or not served or self._whole != this.whole:
            yield from self._keys(this)
        cipher = _cipher(this)
        if self._context is None:
            self._context = cipher.ring.adder()
        read = partial(bfv.read, self._context, cipher.sizes(this.size))
        uploads = yield from self._ask_for_uploads(this, self._keeper, self._boxes, read)
        self._boxes = {name: box for name, box in self._boxes.items() if name not in uploads}
        self._holders |= set(uploads)
        return (yield from self._ask_to_open(this, uploads))

    def _keys(self, this: ServerRound) -> Generator[Mail, Mail, None]:
        for keeper in this.active:
            made = yield from self._ask_for_keys(keeper, this)
            if made is not None:
                self._whole, self._context = this.whole, None
                self._boxes, self._keeper, self._holders = made["boxes"], keeper, {keeper}
                return
        gone = ", ".join(this.active)
        raise TooFewParties(f"no party was there to make keys; missing: {gone}")


class Encrypted(Protection):
    """``protection="encrypted"``."""

    trust = (
        "The server sees ciphertexts, and the total that a party opens for it; it holds no secret "
        "key. All parties hold one key: the server together with any one party can open every "
        "upload, and a server that does not follow the protocol can have every upload opened as "
        "if it were the total."
    )
    keys = ("box",)
    trusts_parties = True

    def adds_integers(self, private: bool, bounded: bool) -> bool:
        """Encrypted doubles take three slots, integers on a grid that bounds allow one."""
        return private or bounded

    def exact_bits(self, parties: int) -> int:
        """Totals stay below an eighth of the plaintext prime."""
        return bfv.Whole.of(parties).ring.bits - 3

    def check_private(self, name: str, prices: Sequence[Spent], noise: Any, parties: int) -> None:
        """A noisy sum, in lattice steps, must fit the plaintext prime.

        Fewer than 2^32 records are taken for granted; more would make a sum wrap: wrong, not
        unsafe.
        """
        rows = min(noise.rows, 2.0**32)
        size = max(
            rows * (s.sensitivity + s.slack) / s.grid + 64.0 * parties * s.steps for s in prices
        )
        if not size < bfv.Whole.of(parties).ring.prime / 4:
            raise ValueError(
                f"{name}: sums of {noise.rows:.3g} records do not fit the encryption's plaintext "
                "at this epsilon; use protection='masked'"
            )

    def server_side(self, agreement: Agreement, run: str, state: bytes = b"") -> EncryptedServer:
        """Adds ciphertexts."""
        bfv.require()
        return EncryptedServer(state)

    def party_side(self, state: bytes = b"") -> SharedKeyParty:
        """Encrypts and opens."""
        bfv.require()
        return SharedKeyParty("encrypted", _cipher, state=state)


PROTECTION = Encrypted()
