"""``protection="ckks"``: CKKS as Abu Hussein and Rodel (2023) describe it, for comparison only.

Three vectors (counts, sums, second moments) per party, each in ciphertexts of its own; new keys
every iteration, made by one party and handed to all; every party opens every total. Parameters are
those of TenSEAL's own introduction, which the paper points to. The paper sends each party's
log-likelihood in the clear; here it is added to the first vector.

It is for exact fits among honest members, and safe against nobody but an eavesdropper: decryptions
of CKKS carry an error from which the secret key can be computed (Li and Micciancio 2021).
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ...core import Spent
from ..agreement import Agreement
from ..errors import FederationError, TooFewParties
from ..wire.codec import BadMessage
from . import Leaves, Mail, Opened, PartyRound, Protection, ServerRound
from .encrypted import bfv
from .encrypted.shared_key import SharedKeyParty, SharedKeyServer

_DEGREE, _MODULI, _SCALE = 8192, [60, 40, 40, 60], 2.0**40


@dataclass(frozen=True)
class Vectors:
    """A statistic as vectors under CKKS: counts (with all the rest), sums, second moments."""

    leaves: Leaves
    label: ClassVar[str] = "ckks"

    @property
    def places(self) -> list[NDArray[np.intp]]:
        """Where the numbers of each ciphertext lie in the raveled statistic."""
        places: dict[str, list[NDArray[np.intp]]] = {"a": [], "b": [], "c": []}
        at = 0
        for name, size in self.leaves:
            key = {"total": "b", "second": "c"}.get(name, "a")
            places[key].append(np.arange(at, at + size))
            at += size
        vectors = [np.concatenate(parts) for parts in places.values() if parts]
        slots = _DEGREE // 2
        return [v[at : at + slots] for v in vectors for at in range(0, len(v), slots)]

    def keys(self) -> bytes:
        """A new secret context, with its public key."""
        ts = bfv.require()
        context = ts.context(ts.SCHEME_TYPE.CKKS, _DEGREE, -1, _MODULI)
        return bfv.written(context, secret=True, public=True)

    def encrypt(self, context: Any, numbers: NDArray[Any]) -> tuple[bytes, ...]:
        """A ciphertext for each vector."""
        vector = bfv.require().ckks_vector
        return tuple(vector(context, numbers[p], _SCALE).serialize() for p in self.places)

    def decrypt(self, context: Any, sealed: tuple[bytes, ...], size: int) -> NDArray[Any]:
        """The numbers, approximately."""
        vector, places = bfv.require().ckks_vector_from, self.places
        out = np.empty(sum(len(place) for place in places))
        for place, part in zip(places, sealed, strict=True):
            out[place] = vector(context, part).decrypt()
        return out


class CkksServer(SharedKeyServer):
    """New keys, three uploads each, three totals back to all."""

    def __init__(self, state: bytes = b"") -> None:
        self._epoch = int(state or b"0")

    def state(self) -> bytes:
        """The number of the last keys."""
        return str(self._epoch).encode()

    def collect(self, this: ServerRound) -> Generator[Mail, Mail, Opened]:
        """One iteration."""
        keeper = this.active[0]
        made = yield from self._ask_for_keys(keeper, this, "public")
        if made is None:
            raise TooFewParties(f"{keeper!r}, which makes the keys, has made none")
        try:
            context = bfv.load(made["public"])
        except Exception:
            raise FederationError(f"{keeper!r} made keys that cannot be read") from None
        sizes = [len(place) for place in Vectors(this.leaves).places]
        read = partial(bfv.read, context, sizes, approximate=True)
        uploads = yield from self._ask_for_uploads(this, keeper, made["boxes"], read)
        return (yield from self._ask_to_open(this, uploads, together=True))


def _cipher(this: PartyRound) -> Vectors:
    if this.whole:
        raise BadMessage("protection='ckks' is for exact fits")
    return Vectors(this.leaves())


class Ckks(Protection):
    """``protection="ckks"``."""

    trust = (
        "As Abu Hussein and Rodel (2023) print it, for comparison. The server sees ciphertexts and "
        "the totals as CKKS decrypts them, whose errors give the secret key away to it (Li and "
        "Micciancio 2021): take it for no protection against the server. The server together with "
        "any one party can open every upload."
    )
    keys = ("box",)
    private_fits = False

    def check_private(self, name: str, prices: Sequence[Spent], noise: Any, parties: int) -> None:
        """There is no noise in the paper."""
        raise ValueError(
            "protection='ckks' is the protocol of Abu Hussein and Rodel (2023), which has no "
            "noise: it is for exact fits; use 'masked' or 'encrypted'"
        )

    def server_side(self, agreement: Agreement, run: str, state: bytes = b"") -> CkksServer:
        """Adds ciphertexts."""
        bfv.require()
        return CkksServer(state)

    def party_side(self, state: bytes = b"") -> SharedKeyParty:
        """Encrypts and opens."""
        bfv.require()
        return SharedKeyParty("ckks", _cipher, publishes=True, state=state)


PROTECTION = Ckks()
