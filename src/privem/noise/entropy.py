"""Random bytes: from the operating system, or from a seed for tests."""

from __future__ import annotations

import os
import warnings
from typing import Final, Protocol

import numpy as np

__all__ = ["Entropy", "InsecureEntropyWarning", "insecure_seeded_entropy_for_tests", "os_entropy"]


class Entropy(Protocol):
    """A source of independent uniform random bytes."""

    def bits(self, n_bytes: int) -> bytes:
        """Return ``n_bytes`` fresh bytes."""
        ...  # pragma: no cover


class _OperatingSystemEntropy:
    """The operating system's generator; no buffer, so nothing is shared across fork or threads."""

    def bits(self, n_bytes: int) -> bytes:
        return os.urandom(n_bytes)


os_entropy: Final[Entropy] = _OperatingSystemEntropy()


class InsecureEntropyWarning(UserWarning):
    """Noise is drawn from a seed: anyone who knows the seed can remove the noise."""


class _SeededEntropy:
    def __init__(self, seed: int) -> None:
        self._generator = np.random.default_rng(seed)

    def bits(self, n_bytes: int) -> bytes:
        return self._generator.bytes(n_bytes)


def insecure_seeded_entropy_for_tests(seed: int) -> Entropy:
    """Return a reproducible stream of bytes for tests only. It gives NO privacy, and warns.

    Examples
    --------
    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore", InsecureEntropyWarning)
    ...     entropy = insecure_seeded_entropy_for_tests(0)
    >>> len(entropy.bits(5))
    5
    """
    message = "noise from a seeded generator gives no privacy; use it in tests only"
    warnings.warn(message, InsecureEntropyWarning, stacklevel=2)
    return _SeededEntropy(seed)
