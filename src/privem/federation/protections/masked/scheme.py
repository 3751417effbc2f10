"""The public terms of a masked sum: the parties, the threshold, and the graph of peers."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from ...primitives import KEY_BYTES, require, verify, verifying_key
from .graph import check_neighbourhoods, neighbourhoods, spectral_bound

MAX_PARTIES = 2**16
_MAX_TEXT = 200
ALL_PAIRS = 64  # Up to so many parties everybody is everybody's peer.
MIN_PARTIES = 3
MAX_SIZE = 2**24
MAX_RUN_BYTES = 64
_LABEL = b"privem masked sum v3"


@dataclass(frozen=True)
class Roster:
    """The parties of a federation and the keys they sign with.

    Every party gets the roster from whoever founds the federation and checks it once; no message
    of the server can change it, and every signature is bound to it.

    Parameters
    ----------
    federation
        A name that tells this federation from others.
    parties
        Party id to Ed25519 public key (32 bytes).
    seed
        32 public random bytes that fix the graph of peers (`graph.py`); needed above 64 parties.
        Draw them *after* all keys are fixed, in a way no party and no server can steer.

    Examples
    --------
    >>> from privem.federation.primitives import Identity
    >>> keys = {name: Identity.new().public for name in ("c", "a", "b")}
    >>> Roster("trial", keys).names
    ('a', 'b', 'c')
    """

    federation: str
    parties: Mapping[str, bytes]
    seed: bytes = b""

    def __post_init__(self) -> None:
        if not 0 < len(self.federation) <= _MAX_TEXT:
            raise ValueError(f"a federation's name has 1 to {_MAX_TEXT} characters")
        if not 0 < len(self.parties) <= MAX_PARTIES:
            raise ValueError(f"a roster has 1 to {MAX_PARTIES} parties, got {len(self.parties)}")
        if len(self.seed) not in (0, 32):
            raise ValueError(f"the roster's seed has 32 bytes, got {len(self.seed)}")
        ordered = {}
        for name in sorted(self.parties):
            key = bytes(self.parties[name])
            if not isinstance(name, str) or not 0 < len(name) <= _MAX_TEXT:
                raise ValueError(f"a party's id is a text of 1 to {_MAX_TEXT} characters")
            if len(key) != KEY_BYTES:
                raise ValueError(f"the key of {name!r} has {len(key)} bytes, not 32")
            ordered[name] = key
        if len(set(ordered.values())) != len(ordered):
            raise ValueError("two parties of the roster have the same key")
        object.__setattr__(self, "parties", ordered)

    def __len__(self) -> int:
        return len(self.parties)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The party ids in order; a party's position is its index."""
        return tuple(self.parties)

    @cached_property
    def index(self) -> dict[str, int]:
        """Party id to index."""
        return {name: i for i, name in enumerate(self.names)}

    @cached_property
    def digest(self) -> bytes:
        """SHA-256 of the roster's canonical text: the same for the same roster."""
        parties = {name: key.hex() for name, key in self.parties.items()}
        content = {"federation": self.federation, "parties": parties, "seed": self.seed.hex()}
        text = json.dumps(content, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).digest()

    def verify(self, index: int, signature: bytes, message: bytes) -> None:
        """Refuse the message unless it is signed by the party with this index."""
        name = self.names[index]
        verify(verifying_key(self.parties[name]), signature, message, name)


def two_thirds(n: int) -> int:
    """The least threshold that withstands an active server: floor(2n/3) + 1."""
    return 2 * n // 3 + 1


@dataclass(frozen=True)
class Scheme:
    """What all parties and the server agree on before anything is summed.

    Use `Scheme.of`, which fills in defaults. Every party builds it from its own copy of the roster.

    Parameters
    ----------
    roster
        The parties and their keys.
    threshold
        The least number of parties in a sum, at least floor(2n/3) + 1: with three parties
        all three are needed.
    degree
        Peers per party: n - 1 (all pairs), or an even number of them on a random regular graph.
    quorum
        How many of a party and its peers it takes to open its secrets. With all pairs it is the
        threshold; where the threshold is everybody, all of them.

    Examples
    --------
    >>> from privem.federation.protections.masked import Identity
    >>> roster = Roster("trial", {f"party {i}": Identity.new().public for i in range(10)})
    >>> scheme = Scheme.of(roster)
    >>> scheme.threshold, scheme.degree, scheme.quorum
    (7, 9, 7)
    >>> scheme.honest_cohort(colluders=3)
    4
    """

    roster: Roster
    threshold: int
    degree: int
    quorum: int

    def __post_init__(self) -> None:
        require()
        n = len(self.roster)
        if n < MIN_PARTIES:
            raise ValueError(f"a masked sum needs {MIN_PARTIES} parties or more, got {n}")
        if not two_thirds(n) <= self.threshold <= n:
            raise ValueError(
                f"threshold={self.threshold}, but with {n} parties it lies between "
                f"{two_thirds(n)} (two thirds and one more, against an active server) and {n}"
            )
        holders = self.degree + 1
        if self.all_pairs:
            if self.quorum != self.threshold:
                raise ValueError("with all pairs the quorum is the threshold")
            return
        if not (2 <= self.degree < n - 1 and self.degree % 2 == 0):
            raise ValueError(f"degree={self.degree} must be n - 1 or an even number below it")
        if not two_thirds(holders) <= self.quorum <= holders:
            raise ValueError(
                f"quorum={self.quorum}, but with {self.degree} peers it lies between "
                f"{two_thirds(holders)} and {holders}"
            )
        if not self.roster.seed:
            raise ValueError("a graph of peers needs a roster with a seed (public random bytes)")

    @classmethod
    def of(
        cls,
        roster: Roster,
        *,
        threshold: int | None = None,
        degree: int | None = None,
        quorum: int | None = None,
    ) -> Scheme:
        """Fill in the defaults: all pairs up to 64 parties, beyond it 4 log2(n) peers.

        Of 1,000 parties these are 40, enough for one colluder in twenty.
        """
        n = len(roster)
        threshold = two_thirds(n) if threshold is None else threshold
        if degree is None:
            degree = n - 1 if n <= ALL_PAIRS else min(n - 1, 2 * math.ceil(2 * math.log2(n)))
        if degree == n - 1:
            return cls(roster, threshold, degree, threshold if quorum is None else quorum)
        if quorum is None:  # In a sum over everybody, no party may be left out by its peers.
            quorum = degree + 1 if threshold == n else math.ceil(0.8 * (degree + 1))
        return cls(roster, threshold, degree, quorum)

    @property
    def all_pairs(self) -> bool:
        """Whether everybody is everybody's peer."""
        return self.degree == len(self.roster) - 1

    @property
    def shares_ahead(self) -> bool:
        """Whether shares of a round are sent with the last reply of the round before.

        On a sparse graph they are not: whoever is lost between rounds would count as lost after
        its shares, and a party that loses too many peers so closes the sum instead of staying out.
        """
        return self.all_pairs

    @cached_property
    def peers(self) -> tuple[tuple[int, ...], ...]:
        """The peers of every party, by index, in increasing order."""
        return neighbourhoods(self.roster.seed, len(self.roster), self.degree)

    def honest_cohort(self, colluders: int) -> int:
        """Return how many honest parties every opened sum contains, at least.

        That many shares of noise are in anything the server and ``colluders`` parties can learn,
        also when the server is active and chooses who drops out (``docs/proofs/masked.md``).
        Raises ``ValueError`` where the scheme cannot promise that for so many colluders.
        """
        n = len(self.roster)
        if not 0 <= colluders < n:
            raise ValueError(f"colluders={colluders} must lie between 0 and {n - 1}")
        if self.all_pairs:
            if 2 * self.threshold <= n + colluders:
                raise ValueError(
                    f"threshold={self.threshold} of {n} parties withstands at most "
                    f"{2 * self.threshold - n - 1} colluders, not {colluders}"
                )
            return self.threshold - colluders
        return check_neighbourhoods(n, self.degree, self.quorum, colluders, self._second_eigenvalue)

    @cached_property
    def _second_eigenvalue(self) -> float:
        return spectral_bound(self.peers)

    def session(self, run: bytes) -> bytes:
        """Return 32 bytes that stand for all of this and one run."""
        digest = hashlib.sha256(_LABEL + self.roster.digest)
        for number in (self.threshold, self.degree, self.quorum):
            digest.update(number.to_bytes(8, "little"))
        digest.update(run)
        return digest.digest()


def round_context(session: bytes, number: int) -> bytes:
    """Return 32 bytes that stand for one round of a run."""
    return hashlib.sha256(b"round" + session + number.to_bytes(8, "little")).digest()


def sum_context(round_context: bytes, size: int, about: bytes) -> bytes:
    """Return 32 bytes that stand for one sum: the round, how many numbers, and what about."""
    digest = hashlib.sha256(b"sum" + round_context + size.to_bytes(8, "little"))
    digest.update(about)
    return digest.digest()
