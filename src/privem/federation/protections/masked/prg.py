"""A seed becomes a vector of Z_{2^64}: ChaCha20 run over zeros, read as little-endian words."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

__all__ = ["Words", "expand", "stream"]

Words = NDArray[np.uint64]
_START = bytes(16)  # Counter and nonce zero: every seed is used for one stream only.


@lru_cache(maxsize=4)
def _few_zeros(n_bytes: int) -> bytes:
    return bytes(n_bytes)


def _zeros(n_bytes: int) -> bytes:
    return _few_zeros(n_bytes) if n_bytes <= 2**20 else bytes(n_bytes)


def stream(seed: bytes, n_bytes: int) -> bytes:
    """Return the first ``n_bytes`` of the ChaCha20 key stream of a 32-byte seed."""
    from cryptography.hazmat.primitives.ciphers import Cipher
    from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20

    return Cipher(ChaCha20(seed, _START), mode=None).encryptor().update(_zeros(n_bytes))


def expand(seed: bytes, size: int) -> Words:
    """Return ``size`` words of the key stream.

    Examples
    --------
    >>> first = expand(bytes(32), 3)
    >>> first.dtype.name, bool((first == expand(bytes(32), 5)[:3]).all())
    ('uint64', True)
    """
    return np.frombuffer(stream(seed, 8 * size), dtype="<u8").astype(np.uint64, copy=False)
