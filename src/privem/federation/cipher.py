"""Numbers under homomorphic encryption that are only ever added: TenSEAL's CKKS and BFV.

Additions need no multiplicative depth, so the ring is the smallest with a 128-bit level of
security that holds the numbers: degree 4096, a modulus of 72 bits, no relinearisation or Galois
keys used. All who encrypt hold the secret key, so encryption is symmetric: less noise.

*Whole* numbers modulo 2^64 go through BFV, slot by slot modulo a prime t of 58 bits. The sum is
exact as long as the noise, at most 21.5 per ciphertext, stays below Q/(2t): always, for so many
parties as :meth:`Whole.of` takes.

*Doubles* go through CKKS. Its decryptions carry an error that depends on the secret key: given
away, they give the key away (Li and Micciancio 2021). So no approximate number ever leaves
here. Doubles become integers of 2^-56, cut into limbs; a limb's sum is an integer that CKKS
carries with a proved error below 1/4, and is rounded to it. What comes out is the exact sum.
The proof: ``docs/proofs/federation.md``, section 5.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .errors import FederationError

__all__ = ["Limbs", "Whole", "add", "for_numbers", "load", "require"]

_DEGREE, _MODULI = 4096, (36, 36, 37)  # the last prime is SEAL's own: data have 72 bits
_DATA_BITS = 71.99
_FRESH = 21.5  # largest coefficient of a fresh error (SEAL: 21), and the encoder's rounding
_PRIMES = {58: 288230376151130113, 50: 1125899906826241}  # 1 modulo 8192
_POINT = 56  # doubles become multiples of 2^-56
_WIDTH = 128  # bits, two's complement


def require() -> Any:
    """TenSEAL, or an error that names the extra."""
    try:
        import tenseal
    except ImportError:
        raise ImportError(
            "protection='ckks' needs TenSEAL: pip install 'privem[federation]'"
        ) from None
    return tenseal


def load(context: bytes) -> Any:
    """A context, with or without its secret key."""
    return require().context_from(context)


def _secret(context: Any) -> bytes:
    keys = {"save_public_key": False, "save_galois_keys": False, "save_relin_keys": False}
    return bytes(context.serialize(save_secret_key=True, **keys))


def public(secret: bytes) -> bytes:
    """The parameters alone: enough to add, with no key of any kind."""
    keys = {"save_public_key": False, "save_galois_keys": False, "save_relin_keys": False}
    return bytes(load(secret).serialize(save_secret_key=False, **keys))


@dataclass(frozen=True)
class Whole:
    """Integers modulo 2^64 whose sum is known to lie within (-t/2, t/2)."""

    bits: int

    @classmethod
    def of(cls, parties: int) -> Whole:
        """For so many parties: noise parties * 21.5 < Q/(4t)."""
        for bits in sorted(_PRIMES, reverse=True):
            if math.log2(parties * _FRESH) + 2 + bits < _DATA_BITS:
                return cls(bits)
        raise ValueError(f"protection='ckks' serves fewer parties than {parties}; use 'masked'")

    @property
    def prime(self) -> int:
        """The plaintext modulus t."""
        return _PRIMES[self.bits]

    def keys(self) -> bytes:
        """A new secret context."""
        ts = require()
        kind = ts.ENCRYPTION_TYPE.SYMMETRIC
        return _secret(
            ts.context(ts.SCHEME_TYPE.BFV, _DEGREE, self.prime, list(_MODULI), encryption_type=kind)
        )

    def encrypt(self, context: Any, numbers: NDArray[Any]) -> tuple[bytes, ...]:
        """Ciphertexts of at most 4096 numbers each."""
        ts = require()
        whole = np.mod(numbers.view(np.int64), self.prime)
        centred = np.where(whole > self.prime // 2, whole - self.prime, whole)
        return tuple(
            ts.bfv_vector(context, centred[at : at + _DEGREE].tolist()).serialize()
            for at in range(0, len(centred), _DEGREE)
        )

    def decrypt(self, context: Any, sealed: tuple[bytes, ...], size: int) -> NDArray[Any]:
        """The sum, modulo t: uint64."""
        ts = require()
        parts = [np.array(ts.bfv_vector_from(context, c).decrypt(), np.int64) for c in sealed]
        found = np.concatenate(parts)
        if found.size != size:
            raise FederationError("an encrypted sum has the wrong size")
        return found.view(np.uint64)


@dataclass(frozen=True)
class Limbs:
    """Doubles, as 128-bit integers in limbs small enough to survive CKKS exactly."""

    parties: int

    def __post_init__(self) -> None:
        if not self._error < 0.25:
            raise ValueError(
                f"protection='ckks' serves fewer parties than {self.parties}; use 'masked'"
            )

    @property
    def bits(self) -> int:
        """Bits of a limb."""
        return 32 if self.parties <= 10 else 22

    @property
    def scale(self) -> float:
        """CKKS scale: errors of the scheme come to a sixteenth at most."""
        return 2.0 ** math.ceil(math.log2(16 * self.parties * _DEGREE * _FRESH))

    @property
    def _error(self) -> float:
        """Bound on the error of a limb's sum; derived in docs/proofs/federation.md, section 5."""
        scheme = self.parties * _DEGREE * _FRESH / self.scale
        transform = 8 * math.log2(_DEGREE) * 2.0**-53  # relative, in L2, of one FFT in doubles
        return scheme + 4 * self.parties * transform * math.sqrt(_DEGREE) * 2.0**self.bits

    def keys(self) -> bytes:
        """A new secret context."""
        ts = require()
        kind = ts.ENCRYPTION_TYPE.SYMMETRIC
        return _secret(
            ts.context(ts.SCHEME_TYPE.CKKS, _DEGREE, -1, list(_MODULI), encryption_type=kind)
        )

    @property
    def _shifts(self) -> range:
        return range(0, _WIDTH, self.bits)

    def encrypt(self, context: Any, numbers: NDArray[Any]) -> tuple[bytes, ...]:
        """Ciphertexts of at most 2048 limbs each."""
        ts = require()
        if (np.abs(numbers) >= 2.0 ** (_WIDTH - _POINT - 2) / self.parties).any():
            raise FederationError("a sum is too large to be encrypted; rescale the data")
        whole = np.array([int(v) for v in np.rint(np.ldexp(numbers, _POINT))], dtype=object)
        mask = (1 << self.bits) - 1
        limbs = np.concatenate([(whole >> shift) & mask for shift in self._shifts])
        slots = limbs.astype(np.float64)
        half = _DEGREE // 2
        return tuple(
            ts.ckks_vector(context, slots[at : at + half], self.scale).serialize()
            for at in range(0, len(slots), half)
        )

    def decrypt(self, context: Any, sealed: tuple[bytes, ...], size: int) -> NDArray[Any]:
        """The exact sum, rounded to doubles."""
        ts = require()
        parts = [np.array(ts.ckks_vector_from(context, c).decrypt()) for c in sealed]
        slots = np.concatenate(parts)
        if slots.size != size * len(self._shifts):
            raise FederationError("an encrypted sum has the wrong size")
        limbs = np.rint(slots)
        if not (np.abs(slots - limbs) < 0.25).all():
            raise FederationError("an encrypted sum does not decrypt: not under this key")
        whole = np.zeros(size, dtype=object)
        for part, shift in zip(limbs.reshape(-1, size), self._shifts, strict=True):
            whole += np.array([int(v) for v in part], dtype=object) << shift
        width = self.bits * len(self._shifts)
        modulus = 1 << width
        signed = [(int(v) + modulus // 2) % modulus - modulus // 2 for v in whole]
        return np.array([math.ldexp(v, -_POINT) for v in signed])


def for_numbers(whole: bool, parties: int) -> Whole | Limbs:
    """How numbers are encrypted: integers, or doubles."""
    return Whole.of(parties) if whole else Limbs(parties)


def add(context: Any, uploads: list[tuple[bytes, ...]], whole: bool) -> tuple[bytes, ...]:
    """The sum of ciphertexts; needs no key."""
    ts = require()
    read = ts.bfv_vector_from if whole else ts.ckks_vector_from
    if len({len(upload) for upload in uploads}) != 1:
        raise FederationError("parties sent different numbers of ciphertexts")
    found = []
    try:
        for column in zip(*uploads, strict=True):
            total = read(context, column[0])
            for part in column[1:]:
                total += read(context, part)
            found.append(bytes(total.serialize()))
    except (ValueError, RuntimeError):
        raise FederationError("a party sent a ciphertext that cannot be read") from None
    return tuple(found)
