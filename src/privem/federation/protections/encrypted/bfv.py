"""Numbers under homomorphic encryption that are only ever added: TenSEAL's BFV.

Additions need no multiplicative depth, so the ring is the smallest with a 128-bit level of
security that holds the numbers: degree 4096, a modulus of 60 or 80 bits, no relinearisation or
Galois keys used. All who encrypt hold the secret key, so encryption is symmetric: less noise.

Abu Hussein and Rodel (2023) use CKKS. Its decryptions carry an error that depends on the secret
key: published, they give the key away (Li and Micciancio 2021). BFV adds integers modulo a prime t,
exactly, as long as the noise, at most 21.5 per ciphertext, stays below Q/(2t); a :class:`Ring`
guarantees it for the number of parties it was chosen for. It also has twice the slots, each of more
bits.

*Whole* numbers modulo 2^64 take a slot each, under the larger prime. *Doubles* become multiples of
2^-56, cut into three limbs with a slot each; what comes out is the exact sum. The proof:
``docs/proofs/federation.md``, section 5.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ...errors import FederationError
from ...wire.codec import BadMessage

_DEGREE = 4096
_FRESH = 21.5  # largest coefficient of a fresh error (SEAL: 21), and the encoder's rounding
_PRIMES = {58: 288230376151130113, 50: 1125899906826241}  # 1 modulo 8192
_POINT = 56  # doubles become multiples of 2^-56
_REACH = 70  # and are below 2^70


@dataclass(frozen=True)
class Ring:
    """Parameters of degree 4096; all moduli together have the 109 bits of the tables at most."""

    moduli: tuple[int, ...]
    """Bits of each; the last is SEAL's own, for keys that are made and never used."""
    bits: int
    """Of the plaintext prime t."""

    @property
    def prime(self) -> int:
        """The plaintext modulus t."""
        return _PRIMES[self.bits]

    def adds(self, parties: int) -> bool:
        """Whether a sum of so many ciphertexts decrypts: parties * 21.5 < Q/(4t)."""
        # SEAL takes the largest primes of so many bits (of 20: 1032193, 2^19.977).
        data = sum(self.moduli[:-1]) - 0.05
        return math.log2(parties * _FRESH) + 2 + self.bits < data

    def keys(self) -> bytes:
        """A new secret context."""
        ts = require()
        kind, moduli = ts.ENCRYPTION_TYPE.SYMMETRIC, list(self.moduli)
        context = ts.context(ts.SCHEME_TYPE.BFV, _DEGREE, self.prime, moduli, encryption_type=kind)
        return written(context, secret=True)

    def adder(self) -> Any:
        """A context of these parameters that adds: no key is in it."""
        return load(public(self.keys()))

    def sizes(self, slots: int) -> list[int]:
        """How many slots each ciphertext has, of so many."""
        return [min(_DEGREE, slots - at) for at in range(0, slots, _DEGREE)]

    def encrypt(self, context: Any, slots: NDArray[np.int64]) -> tuple[bytes, ...]:
        """Ciphertexts of at most 4096 integers within (-t/2, t/2) each."""
        ts = require()
        return tuple(
            ts.bfv_vector(context, slots[at : at + _DEGREE]).serialize()
            for at in range(0, len(slots), _DEGREE)
        )

    def decrypt(self, context: Any, sealed: tuple[bytes, ...], size: int) -> NDArray[np.int64]:
        """So many integers, centred modulo t."""
        ts = require()
        parts = [np.array(ts.bfv_vector_from(context, c).decrypt(), np.int64) for c in sealed]
        found = np.concatenate(parts)
        if found.size != size:
            raise FederationError("an encrypted sum has the wrong size")
        return found


# One prime costs half of two, which serve more parties (12 to 47,109) and larger numbers. Words of
# 60 bits hardly compress, and SEAL soon gives up trying: (36, 36, 37) takes 6% fewer bytes, and 25%
# more time.
_NARROW, _WIDE = Ring((60, 49), 50), Ring((60, 20, 29), 58)


def _first(rings: tuple[Ring, ...], parties: int) -> Ring:
    for ring in rings:
        if ring.adds(parties):
            return ring
    raise ValueError(f"protection='encrypted' serves 47,109 parties, not {parties}; use 'masked'")


def require() -> Any:
    """TenSEAL, or an error that names the extra."""
    try:
        import tenseal
    except ImportError:
        raise ImportError(
            "protection='encrypted' and 'ckks' need TenSEAL: pip install 'privem[federation]'"
        ) from None
    return tenseal


def load(context: bytes) -> Any:
    """A context, with or without its secret key."""
    return require().context_from(context)


def written(context: Any, *, secret: bool = False, public: bool = False) -> bytes:
    """A context as bytes, with its secret or public key or with neither."""
    keys = {"save_galois_keys": False, "save_relin_keys": False}
    return bytes(context.serialize(save_secret_key=secret, save_public_key=public, **keys))


def public(secret: bytes) -> bytes:
    """The parameters alone: enough to add, with no key of any kind."""
    return written(load(secret))


@dataclass(frozen=True)
class Whole:
    """Integers modulo 2^64 whose sum is known to lie within (-t/2, t/2)."""

    ring: Ring
    label: ClassVar[str] = "keys for integers"

    @classmethod
    def of(cls, parties: int) -> Whole:
        """For so many parties."""
        return cls(_first((_WIDE,), parties))

    def keys(self) -> bytes:
        """A new secret context."""
        return self.ring.keys()

    def sizes(self, size: int) -> list[int]:
        """How many slots each ciphertext of so many numbers has."""
        return self.ring.sizes(size)

    def encrypt(self, context: Any, numbers: NDArray[Any]) -> tuple[bytes, ...]:
        """Ciphertexts of at most 4096 numbers each."""
        prime = self.ring.prime
        whole = np.mod(numbers.view(np.int64), prime)
        return self.ring.encrypt(context, np.where(whole > prime // 2, whole - prime, whole))

    def decrypt(self, context: Any, sealed: tuple[bytes, ...], size: int) -> NDArray[Any]:
        """The sum, modulo t: uint64."""
        return self.ring.decrypt(context, sealed, size).view(np.uint64)


@dataclass(frozen=True)
class Limbs:
    """Doubles, as multiples of 2^-56 in signed limbs whose sums over all parties fit a slot."""

    parties: int
    ring: Ring
    label: ClassVar[str] = "keys for doubles"

    @classmethod
    def of(cls, parties: int) -> Limbs:
        """For so many parties."""
        return cls(parties, _first((_NARROW, _WIDE), parties))

    @property
    def bits(self) -> int:
        """Bits b of a limb: parties * 2^b <= t/2, so that sums of it do not wrap, and 2^53."""
        return (min(self.ring.prime // 2, 2**53) // self.parties).bit_length() - 1

    @property
    def count(self) -> int:
        """Limbs of a number, which is below 2^126 steps."""
        return -(-(_POINT + _REACH) // self.bits)

    def keys(self) -> bytes:
        """A new secret context."""
        return self.ring.keys()

    def sizes(self, size: int) -> list[int]:
        """How many slots each ciphertext of so many numbers has."""
        return self.ring.sizes(self.count * size + 1)

    def encrypt(self, context: Any, numbers: NDArray[Any]) -> tuple[bytes, ...]:
        """Ciphertexts of at most 4096 limbs each, lowest limbs first; a zero is the last."""
        if not (np.abs(numbers) < 2.0**_REACH).all():
            raise FederationError("a sum is too large to be encrypted; rescale the data")
        left = np.rint(np.ldexp(numbers, _POINT))
        limbs = np.zeros(self.count * len(left) + 1, np.int64)
        for part in limbs[:-1].reshape(self.count, -1):
            # All exact: a power of two, the digits before the point, the digits behind it.
            high = np.trunc(left * 2.0**-self.bits)
            part[:] = left - high * 2.0**self.bits
            left = high
        return self.ring.encrypt(context, limbs)

    def decrypt(self, context: Any, sealed: tuple[bytes, ...], size: int) -> NDArray[Any]:
        """The exact sum, rounded to doubles."""
        found = self.ring.decrypt(context, sealed, self.count * size + 1)
        limbs = found[:-1].reshape(self.count, size)
        if found[-1] or (np.abs(limbs) >= self.parties << self.bits).any():
            raise FederationError("an encrypted sum does not decrypt: not under this key")
        # Sums of limbs are below 2^53 and so doubles; fsum rounds the exact sum of all once.
        places = [np.ldexp(part, i * self.bits - _POINT) for i, part in enumerate(limbs)]
        columns = (place.tolist() for place in places)
        return np.fromiter(map(math.fsum, zip(*columns, strict=True)), np.float64, size)


def read(
    context: Any, sizes: Sequence[int], sealed: Sequence[bytes], *, approximate: bool = False
) -> list[Any]:
    """Ciphertexts (of CKKS, where approximate) of these sizes; raises BadMessage."""
    ts = require()
    vector = ts.ckks_vector_from if approximate else ts.bfv_vector_from
    if len(sealed) != len(sizes):
        raise BadMessage("not as many ciphertexts as there should be")
    try:
        found = [vector(context, part) for part in sealed]
        fit = [part.size() for part in found] == list(sizes)
    except Exception:  # TenSEAL raises all kinds of errors for bytes that are no ciphertext.
        fit = False
    if not fit:
        raise BadMessage("a ciphertext that cannot be read")
    return found


def add(parts: Mapping[str, Sequence[Any]]) -> tuple[bytes, ...]:
    """The sum of every party's ciphertexts; needs no key."""
    first, *others = parts
    total = list(parts[first])
    for name in others:
        try:
            total = [one + other for one, other in zip(total, parts[name], strict=True)]
        except Exception:
            raise FederationError(
                f"the ciphertexts of {first!r} and {name!r} do not go together: one of the two "
                "does not follow the protocol"
            ) from None
    return tuple(bytes(part.serialize()) for part in total)
