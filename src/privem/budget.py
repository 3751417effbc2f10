"""A budget, shared out over the releases of a plan before any data is touched."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from .accounting import Event, Failure, Gaussian, Laplace, calibrate, compose
from .accounting.events import Composed
from .noise.discrete import Discrete
from .noise.entropy import Entropy, os_entropy

__all__ = ["Allowance", "Part"]

# Every release uses at least this many lattice steps per sigma; the event is priced with it.
_STEPS = 2**24
_HAIR = 1 - 1e-9


@dataclass(frozen=True)
class Part:
    """Some releases of a plan.

    Parameters
    ----------
    name : str
    share : float
        Of the whole budget; shares sum to one. (Of mu^2 or rho: what Gaussian noise adds up in.)
    releases : sequence of (kind, dimension)
        The releases among which the share is divided evenly.
    """

    name: str
    share: float
    releases: Sequence[tuple[str, int]]


@dataclass(frozen=True)
class Allowance:
    """How much noise each part needs so that all of them together cost epsilon at delta."""

    parts: tuple[Part, ...]
    base: float
    neighbours: str
    failure: float = 0.0
    entropy: Entropy = os_entropy

    @classmethod
    def plan(
        cls,
        parts: Sequence[Part],
        epsilon: float,
        delta: float,
        accountant: str,
        neighbours: str,
        failure: float = 0.0,
        entropy: Entropy = os_entropy,
    ) -> Allowance:
        """Calibrate the noise of all parts at once."""

        def event(base: float) -> Event:
            found = [_event(part, base) for part in parts]
            return compose(*found, Failure(failure)) if failure else compose(*found)

        # A hair less than the budget: sharing it out anew rounds, and the meter forgives nothing.
        base = calibrate(event, epsilon * _HAIR, delta, accountant)
        return cls(tuple(parts), base, neighbours, failure, entropy)

    def multiplier(self, name: str, releases: int | None = None) -> float:
        """Noise multiplier of one release of a part.

        ``releases`` divides the part's share anew; only where the accountant adds up 1/multiplier^2
        does that cost the same, and the meter checks that it does.
        """
        part = next(part for part in self.parts if part.name == name)
        count = len(part.releases) if releases is None else releases
        return self.base * math.sqrt(count / part.share)

    def reshared(self, parts: Sequence[Part], before: float) -> Allowance:
        """The same noise in all, with ``parts`` in place of their namesakes.

        Together they had the share ``before``; parts not yet spent shrink or grow to make room.
        Costs the same only where the accountant adds up 1/multiplier^2, and the meter checks that
        it does.
        """
        names = {part.name for part in parts}
        spent = {"count"} | names
        change = sum(part.share for part in parts) - before
        rest = sum(part.share for part in self.parts if part.name not in spent)
        others = [
            part
            if part.name in spent
            else Part(part.name, part.share * (1 - change / rest), part.releases)
            for part in self.parts
            if part.name not in names
        ]
        return replace(self, parts=(*others, *parts))

    def noise(self, name: str, rows: float, releases: int | None = None) -> Discrete:
        """The noise of one release of a part."""
        return Discrete(self.multiplier(name, releases), self.neighbours, rows, self.entropy)


def _event(part: Part, base: float) -> Event:
    multiplier = base * math.sqrt(len(part.releases) / part.share)
    counts: dict[tuple[str, int], int] = {}
    for release in part.releases:
        counts[release] = counts.get(release, 0) + 1
    return Composed(
        tuple(
            (
                Gaussian(multiplier, dimension, _STEPS)
                if kind == "gaussian"
                else Laplace(multiplier, dimension),
                count,
            )
            for (kind, dimension), count in counts.items()
        )
    )
