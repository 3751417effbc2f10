"""What every private fit stands on: how many records there are, and where they lie.

:class:`Preamble` releases the count, unless it is public, and finds bounds that nobody gave by
noisy histograms, paid out of the budget. :class:`NormBounds` finds balls about the origin instead,
for models that need no more.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from .blocks.histograms import (
    HALF_OCTAVES,
    LOWEST_OCTAVE,
    MOST_ROWS,
    OCTAVES,
    CountQuery,
    Histogram,
    NormQuery,
    OctaveQuery,
    PlaceQuery,
    upper_edge,
)
from .blocks.region import Region
from .budget import WHERE_PURE, Allowance, Part, Terms
from .core import Release, Stage
from .noise.discrete import Discrete
from .tape import given
from .tree import Array

State = TypeVar("State")

_COUNT_SHARE = 0.01
_BOUNDS_SHARE = 0.10
# Bounds get up to this share when there are few records for the noise.
_BOUNDS_MOST = 0.30
# How many noise deviations of a histogram the records must outnumber for the smaller share.
_BOUNDS_SIGNAL = 20.0
# Above so many columns there are fewer cells and more rounds. A column needs 12,288 numbers in
# three rounds and 384 in six: at 256 columns 3 seconds of drawing noise, or a tenth of one.
_MANY_COLUMNS = 256
# Of the budget for bounds.
_SCALE_SHARE = 0.45
# Bounds lie this many scales on each side of the place found.
_WIDTH = 8.0
# A count this many deviations of its noise high is of records.
_EVIDENCE = 2.0
# What a statement says of bounds that nobody gave.
ESTIMATED = "estimated from noisy histograms, paid for"


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
    found: NDArray[np.bool_] | None
    """For each region that had to be found, whether it was; ``None``: all were given."""
    allowance: Allowance
    cap_weight: float = 1.0
    fixed_count: bool = False
    """Whether the number of records is exact and public."""
    count_deviation: float = 0.0
    """Standard deviation of the noise on the count."""
    target: Region | None = None
    """The region of a target, where the model has one of its own for it."""

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
    """

    d: int
    count: float | None
    region: Region | None
    isotropic: bool = False
    cap_weight: float = 1.0
    limit: float | None = None
    pure: bool = False

    @classmethod
    def of(
        cls, terms: Terms, people: People, d: int, region: Region | None, isotropic: bool = False
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
        return cls(d, count, region, isotropic, cap, limit, pure)

    @property
    def kind(self) -> str:
        """The kind of noise."""
        return "laplace" if self.pure else "gaussian"

    def share(self) -> float:
        """How much of the budget this takes at least."""
        return _COUNT_SHARE * (self.count is None) + _BOUNDS_SHARE * (self.region is None)

    def parts(self) -> list[Part]:
        """The parts of the allowance spent here."""
        parts = [] if self.count is not None else [Part("count", _COUNT_SHARE, [(self.kind, 1)])]
        return parts if self.region is not None else parts + bounds_parts(self.d, _BOUNDS_SHARE)

    def stages(self, allowance: Allowance) -> Generator[Stage, Release[Any], Ground]:
        """Generate the stages."""
        count, rows, deviation = self.count, self.count, 0.0
        if count is None or rows is None:
            noise = allowance.noise("count", MOST_ROWS if self.limit is None else self.limit)
            release = yield Stage(CountQuery(self.cap_weight, kind=self.kind), noise, "count")
            noisy, slack = float(release.statistics.count), release.spent[0].slack
            count, deviation = max(noisy, 1.0), release.spread
            rows = self._rows(noisy, slack, release.spread, allowance)
        # Everything but the count is given where noise is drawn anew.
        ground = yield from given(self._ground(count, rows, allowance))
        return replace(ground, count=count, count_deviation=deviation)

    def _ground(
        self, count: float, rows: float, allowance: Allowance
    ) -> Generator[Stage, Release[Any], Ground]:
        region, found = self.region, None
        if region is None:
            if allowance.adaptive:
                allowance = self._more_for_bounds(allowance, count)
            bounds = private_bounds(self.d, rows, allowance, self.isotropic)
            region, found = yield from bounds
        fixed = self.count is not None
        return Ground(count, rows, region, found, allowance, self.cap_weight, fixed)

    def _rows(self, noisy: float, slack: float, spread: float, allowance: Allowance) -> float:
        """A bound on the sum of weights."""
        if self.limit is not None:
            return self.limit * self.cap_weight
        # Above the true sum but with probability `failure`, for either of two neighbours (a cap
        # apart); weights lose up to two caps to their lattice; 2^-20 is 16 lattice steps, for
        # rounding and discrete tails. Proof: docs/proofs/release.md, section 6.
        tail = 2.0**-20 - float(ndtri(allowance.failure))
        return max(noisy + 4 * self.cap_weight + slack + spread * tail, 1.0)

    def _more_for_bounds(self, allowance: Allowance, count: float) -> Allowance:
        wanted = _BOUNDS_SIGNAL * math.sqrt(2 * self.d) * allowance.base / count
        share = float(np.clip(wanted**2 / 0.45, _BOUNDS_SHARE, _BOUNDS_MOST))
        return allowance.reshared(bounds_parts(self.d, share), _BOUNDS_SHARE)


def private_bounds(
    d: int, rows: float, allowance: Allowance, isotropic: bool
) -> Generator[Stage, Release[Any], tuple[Region, np.ndarray]]:
    """A box around the bulk of each feature; and, per feature, whether it was found.

    A feature whose largest cell does not stand out of the noise gets (-1, 1).
    """
    # Histograms count records, however much these weigh.
    rows = min(rows, MOST_ROWS)
    noise = allowance.noise("scale", rows)
    release = yield Stage(OctaveQuery(d), noise, "scale")
    octaves: Histogram = release.statistics
    # The best window of three octaves: differences of Gaussians spread over about that many.
    # Equal values say nothing about scale (a column that is mostly zero has one all the same),
    # so the lowest octave counts only where no other stands out.
    deviation = release.spread * math.sqrt(3)
    counts = octaves.counts.copy()
    counts[:, 0] = 0.0
    apart, windows = _windows(counts), _windows(octaves.counts)
    windows = np.where(_stands_out(apart, deviation)[:, None], apart, windows)
    best, found = windows.argmax(axis=1), _stands_out(windows, deviation)
    scale = 2.0 ** (best + LOWEST_OCTAVE)
    centre, width = np.zeros(d), 4 * scale
    cells, shares = place_rounds(d)
    for round_ in range(1, len(shares) + 1):
        name = f"place {round_}"
        noise = allowance.noise(name, rows)
        release = yield Stage(PlaceQuery(width, centre, cells), noise, name)
        counts = release.statistics.counts
        found &= _stands_out(counts, release.spread)
        cell = counts.argmax(axis=1) - cells // 2
        centre = centre + cell * width
        width = width * cells
    centre = np.where(found, centre, 0.0)
    half = np.where(found, _WIDTH * scale, 1.0)
    return Region.box(centre - half, centre + half, isotropic), found


@dataclass(frozen=True)
class NormBounds:
    """Regions of the features and of a target; those nobody gave are balls about the origin.

    Their radii are found from a histogram of norms, of the features and of the target.

    Parameters
    ----------
    region, target : Region or None
        As given.
    widths : tuple of int
        How many columns each has: ``(d,)``, or ``(d, 1)`` where there is a target.
    """

    region: Region | None
    target: Region | None
    widths: tuple[int, ...]

    @property
    def needed(self) -> bool:
        """Whether there is anything to find."""
        return any(given is None for given in self._given())

    def _given(self) -> list[Region | None]:
        return [self.region, self.target][: len(self.widths)]

    def parts(self, share: float) -> list[Part]:
        """The part of the allowance spent here."""
        numbers = len(self.widths) * HALF_OCTAVES
        return [Part("norms", share, [("gaussian", numbers)])] if self.needed else []

    def stages(self, ground: Ground) -> Generator[Stage, Release[Any], Ground]:
        """Generate the stages; the ground with these regions in place of its own."""
        return replace((yield from given(self._found(ground))), count=ground.count)

    def _found(self, ground: Ground) -> Generator[Stage, Release[Any], Ground]:
        regions, found = self._given(), None
        if self.needed:
            release = yield ground.stage(NormQuery(self.widths), "norms")
            radii = [_edge(row, release.spread) for row in release.statistics.counts]
            found = np.array([r is not None for r in radii]) | [g is not None for g in regions]
            regions = [
                region or Region.around_origin(1.0 if r is None else r, d)
                for region, r, d in zip(regions, radii, self.widths, strict=True)
            ]
        assert regions[0] is not None
        target = regions[1] if len(regions) > 1 else None
        return replace(ground, region=regions[0], target=target, found=found)


def _edge(counts: Array, deviation: float) -> float | None:
    """A radius beyond which nothing stands out of the noise, and more; None if nothing does."""
    windows = _windows(counts[None])
    noise = math.sqrt(3) * deviation
    if not _stands_out(windows, noise)[0]:
        return None
    threshold, last = 2.5 * noise, int(windows.argmax())
    while last + 1 < len(counts) and windows[0, last + 1] > threshold:
        last += 1
    return upper_edge(min(last + 1, len(counts) - 1))


def place_rounds(d: int) -> tuple[int, tuple[float, ...]]:
    """Cells per column, and the budget of each round: either reaches 2^36 bins of four scales each.

    The first needs the most, since the bulk spreads over a few bins; later ones find all of it in
    one. Six rounds have 1.3 times the noise of three, but the largest of 64 cells of noise, which
    the bulk must stand out of, is 1.35 times lower than that of 4096.
    """
    if d > _MANY_COLUMNS:
        return 64, (3 / 8, *[1 / 8] * 5)
    return 4096, (0.6, 0.2, 0.2)


def bounds_parts(d: int, share: float) -> list[Part]:
    """The parts of an allowance that :func:`private_bounds` spends."""
    place = share * (1 - _SCALE_SHARE)
    cells, shares = place_rounds(d)
    return [
        Part("scale", share * _SCALE_SHARE, [("gaussian", d * OCTAVES)]),
        *(
            Part(f"place {i}", place * part, [("gaussian", d * cells)])
            for i, part in enumerate(shares, start=1)
        ),
    ]


def _windows(counts: np.ndarray) -> np.ndarray:
    """Sums over each octave and its two neighbours."""
    return np.stack([np.convolve(row, np.ones(3), "same") for row in counts])


def _stands_out(counts: np.ndarray, deviation: float) -> np.ndarray:
    """Whether the largest cell exceeds what the noise alone reaches once in a thousand."""
    cells = counts.shape[1]
    return np.asarray(counts.max(axis=1) > deviation * (math.sqrt(2 * math.log(cells)) + 0.5))
