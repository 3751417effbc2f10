"""What every private fit stands on: how many records there are, and where they lie.

:class:`Preamble` releases the count, unless it is public, and finds bounds that nobody gave by
noisy histograms (:mod:`privem.bounds`), paid out of the budget.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from scipy.special import ndtri

from .blocks.histograms import MOST_ROWS, CountQuery
from .blocks.region import Region
from .bounds import box, box_parts
from .budget import WHERE_PURE, Allowance, Part, Terms
from .core import Release, Stage
from .linalg import Array
from .noise.discrete import Discrete
from .parameters import Wanted
from .run import given, held

State = TypeVar("State")
# Why a mixture is ruled out before it is fitted.
ALL_ALIKE = "noise hides any mixture: all components would be the same"
_COUNT_SHARE = 0.01
# A count this many deviations of its noise high is of records.
_EVIDENCE = 2.0


class People(Protocol):
    """Who the records belong to."""

    @property
    def weighted(self) -> bool:
        """Whether records have weights."""

    def public_count(self, neighbours: str) -> float | None:
        """How many there are, where that is public."""


@dataclass(frozen=True)
class Ground:
    """What a private fit stands on: count, a bound on it, the region; and what is left to spend."""

    count: float
    rows: float
    region: Region
    outside: float | None
    """What share of the records may lie outside of bounds that had to be found, in any column.

    ``None``: all were given.
    """
    allowance: Allowance
    cap_weight: float = 1.0
    fixed_count: bool = False
    """Whether the number of records is exact and public."""
    count_deviation: float = 0.0
    """Standard deviation of the noise on the count."""
    weighted: bool = False
    """Whether the count is a sum of weights."""
    excess: float = 1.0
    """How many times the noise that is charged sums have: more where each party adds it."""
    target: Region | None = None
    """The region of a target, where the model has one of its own for it."""
    bulk: tuple[Array, Array] | None = None
    """Where a box had to be found: a point in the bulk of each column, and the second moment about
    it, rather too large."""

    def noise(self, part: str, releases: float | None = None) -> Discrete:
        """The noise of one release of a part, or of one of so many."""
        return self.allowance.noise(part, self.rows, releases)

    def stage(self, query: Any, part: str, name: str | None = None) -> Stage:
        """The release of a query, out of a part of the allowance; ``name``: if not the part's."""
        return Stage(query, self.noise(part), name or part)


@dataclass(frozen=True)
class PrivateFit(Generic[State]):
    """What a private fit has found, in the data's units, and how it came about. All public."""

    state: State
    ground: Ground
    iterations: int = 0
    structure: str = "full"
    """What the noise has left of the model: ``"full"``, all of it; ``"single"``, one component in
    place of all; ``"grid"``, centres of a start without iterations; ``"lost"``, mostly noise.
    """
    background: float = 0.0
    """The weight of a uniform density on the region, beneath ``state``; zero: there is none."""
    lost: tuple[int, ...] = ()
    """Components that hold no more records than noise may have made up."""
    beaten: bool = False
    """Whether one component is in place of all because a contest said so."""


def without_evidence(counts: Array | None) -> tuple[int, ...]:
    """Which of these counts, in deviations of their noise, do not stand out of it."""
    return () if counts is None else tuple(int(k) for k in np.flatnonzero(counts < _EVIDENCE))


@dataclass(frozen=True)
class Preamble:
    """Count and region, given or released.

    Parameters
    ----------
    d : int
    count : float or None
        The public number of records (replace-one neighbours), or ``None``: it is released.
    region : Region or None
        ``None``: bounds are estimated.
    isotropic : bool
        For estimated bounds: one scale for all features.
    cap_weight : float
    limit : float or None
        A public limit on the number of records; ``None``: a bound on it is taken from the released
        count, and fails with the probability that the allowance sets aside.
    pure : bool
        Laplace noise only, for delta = 0. It needs ``region``, and ``count`` or ``limit``.
    weighted : bool
        Whether the count is a sum of weights.
    names : sequence of str
        What messages call the columns.
    known : (low, high) or None
        Bounds that are known where others have to be found: NaN where not.
    give : str
        What messages call the parameter that gives bounds.
    laid : Ground or None
        What another plan has released already, about the same records: nothing is released again.
    """

    d: int
    count: float | None
    region: Region | None
    isotropic: bool = False
    cap_weight: float = 1.0
    limit: float | None = None
    pure: bool = False
    weighted: bool = False
    names: Sequence[str] = ()
    known: tuple[Array, Array] | None = None
    give: str = "bounds="
    laid: Ground | None = None

    @classmethod
    def of(
        cls,
        terms: Terms,
        people: People,
        d: int,
        region: Region | None,
        isotropic: bool = False,
        names: Sequence[str] = (),
        known: tuple[Array, Array] | None = None,
    ) -> Preamble:
        """For so many people; records without weights count one, whatever the cap on weights."""
        cap = terms.max_weight if people.weighted else 1.0
        count, pure = people.public_count(terms.neighbours), terms.delta == 0
        if pure and region is None:
            raise ValueError(f"delta=0 needs bounds: {WHERE_PURE}")
        if pure and count is None and terms.max_rows is None:
            raise ValueError(
                "delta=0 needs max_rows here: records with weights, and rows that are streamed, "
                f"have no public number. {WHERE_PURE}"
            )
        limit = None if terms.max_rows is None else float(terms.max_rows)
        weighted, names = people.weighted, tuple(names)
        return cls(d, count, region, isotropic, cap, limit, pure, weighted, names, known)

    @property
    def kind(self) -> str:
        """The kind of noise."""
        return "laplace" if self.pure else "gaussian"

    def share(self) -> float:
        """How much of the budget this takes."""
        return sum(part.share for part in self.parts())

    def parts(self) -> list[Part]:
        """The parts of the allowance spent here."""
        if self.laid is not None:
            return []
        parts = [] if self.count is not None else [Part("count", _COUNT_SHARE, [(self.kind, 1)])]
        return parts if self.region is not None else parts + box_parts(self.d)

    def stages(self, allowance: Allowance) -> Generator[Stage, Release[Any], Ground]:
        """Generate the stages."""
        if self.laid is not None:
            region = self.region or Region.box(*self.laid.region.sides, self.isotropic)
            return replace(self.laid, region=region, allowance=allowance)
        count, rows, deviation, excess = self.count, self.count, 0.0, 1.0
        if count is None or rows is None:
            noise = allowance.noise("count", MOST_ROWS if self.limit is None else self.limit)
            release = yield Stage(CountQuery(self.cap_weight, kind=self.kind), noise, "count")
            noisy, slack = float(release.statistics.count), release.spent[0].slack
            # Far less than was released, where noise is drawn anew, would make everything large.
            count, deviation = max(noisy, 1.0, held(lambda: noisy / 2)), release.spread
            rows = self._rows(noisy, slack, release.spread, allowance)
            excess = release.spread / release.spent[0].deviation
        # Everything but the count is given where noise is drawn anew.
        ground = yield from given(self._ground(count, rows, excess, allowance))
        return replace(ground, count=count, count_deviation=deviation)

    def _ground(
        self, count: float, rows: float, excess: float, allowance: Allowance
    ) -> Generator[Stage, Release[Any], Ground]:
        rest: dict[str, Any] = {
            "allowance": allowance,
            "cap_weight": self.cap_weight,
            "fixed_count": self.count is not None,
            "weighted": self.weighted,
            "excess": excess,
        }
        if self.region is not None:
            return Ground(count, rows, self.region, None, **rest)
        columns = self.names or [str(j) for j in range(self.d)]
        lacks = [True] * self.d if self.known is None else np.isnan(self.known[0]).tolist()
        about = (count, self.weighted, rows, excess)
        wanted = Wanted(columns, lacks, *about, give=self.give)
        found = yield from box(wanted, self.known, allowance)
        region = Region.box(found.low, found.high, self.isotropic)
        return Ground(count, rows, region, found.outside, **rest, bulk=found.bulk)

    def _rows(self, noisy: float, slack: float, spread: float, allowance: Allowance) -> float:
        """A bound on the sum of weights."""
        if self.limit is not None:
            return self.limit * self.cap_weight
        # Above the true sum but with probability `failure`, for either of two neighbours (a cap
        # apart); weights lose up to two caps to their lattice; 2^-20 is 16 lattice steps, for
        # rounding and discrete tails. Proof: docs/proofs/release.md, section 6.
        tail = 2.0**-20 - float(ndtri(allowance.failure))
        return max(noisy + 4 * self.cap_weight + slack + spread * tail, 1.0)
