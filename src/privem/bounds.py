"""Bounds that nobody gave: noisy histograms find them, or the fit stops.

A box (:func:`box`) takes four releases: half octaves about zero, the place of the bulk of each
column, half octaves about that, and how many records lie outside of the bounds that these show.
Balls about the origin (:func:`balls`) take two: half octaves of norms, and how many lie outside.

:class:`BoundsNotFound` stops a fit before it spends the rest: where the records are too few, which
their count tells (if they have no weights), before any of these releases; otherwise after the last
of them, from what they show. So either cost is known beforehand (``docs/proofs/release.md``,
section 7).
"""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from .blocks.ends import cell_widths, ends, places, radius
from .blocks.histograms import (
    CELLS,
    HALF_OCTAVES,
    LEVEL_CELLS,
    LEVELS,
    MOST_ROWS,
    NormQuery,
    OctaveQuery,
    OutsideQuery,
    PlaceQuery,
)
from .budget import Allowance, Part
from .core import Release, Stage
from .tree import Array

# Of the budget: half octaves about zero, the place of the bulk, half octaves about that, and how
# many records lie outside of what was found.
_BOX = {"scale": 0.01, "place": 0.025, "ends": 0.085, "outside": 0.03}
# Of what balls may spend.
_BALLS = {"norms": 0.8, "outside": 0.2}
# Noise on a cell, of the number of records, beyond which bounds cannot be relied on.
_MOST_NOISE = 0.008
# So much of a column may lie outside; more, by so many deviations of the noise, is too much.
_OUTSIDE, _SURE = 0.01, 3.0
# What messages call a target.
TARGET = "the target"
# How often a statement may be wrong about what lies outside.
_WRONG = 0.01


def estimated(outside: float) -> str:
    """What a statement says of bounds that nobody gave."""
    return (
        "estimated from noisy histograms, paid for; by a noisy count at most "
        f"{100 * outside:.2g}% of the records lie outside in any column"
    )


class BoundsNotFound(ValueError):
    """A private fit has stopped: bounds or categories that nobody gave could not be found.

    It says so from what was released, and has released nothing else.

    Parameters
    ----------
    message : str
    columns : tuple of str
        Those without bounds or categories.
    spent, delta : float
        What the releases so far cost: epsilon, at delta.

    Examples
    --------
    >>> import numpy as np
    >>> import privem
    >>> try:
    ...     privem.KMeans(2).fit(np.random.default_rng(0).normal(size=(300, 2)))
    ... except privem.BoundsNotFound as problem:
    ...     problem.columns, 0 < problem.spent < 0.1
    (('0', '1'), True)
    """

    def __init__(
        self,
        message: str,
        columns: tuple[str, ...] = (),
        spent: float = math.nan,
        delta: float = math.nan,
    ) -> None:
        super().__init__(message)
        self.columns, self.spent, self.delta = columns, spent, delta

    def costing(self, spent: float, delta: float) -> BoundsNotFound:
        """The same, and what it cost."""
        cost = (
            f"what was released so far cost epsilon = {spent:.4g} at delta = {delta:g}, and what "
            "another fit costs adds to both"
            if spent > 0
            else "nothing was released"
        )
        return type(self)(f"{self}. The fit has stopped; {cost}", self.columns, spent, delta)


@dataclass(frozen=True)
class Wanted:
    """What bounds are for; all of it is public.

    Parameters
    ----------
    columns : sequence of str
        A name for each column, or for each part of the columns.
    found : sequence of bool
        Which of them have to be found.
    records : float
        How many there are.
    weighted : bool
        Whether that is a sum of weights, which does not tell.
    rows : float
        A bound on their number.
    excess : float
        How many times the noise that is charged sums have.
    noun : str
        What messages say before the names.
    give : str
        The parameter that would have said it.
    """

    columns: Sequence[str]
    found: Sequence[bool]
    records: float
    weighted: bool
    rows: float
    excess: float = 1.0
    noun: str = "column"
    give: str = "bounds="

    def missing(self, lacks: NDArray[np.bool_]) -> tuple[str, ...]:
        """Those columns that have to be found and lack something."""
        each = zip(self.columns, self.found, lacks, strict=True)
        return tuple(name for name, wanted, lacking in each if wanted and lacking)

    def instead(self, columns: Sequence[str]) -> str:
        """What to do where some of them are not found."""
        give = [] if list(columns) == [TARGET] else [self.give]
        give += ["target_bounds="] if TARGET in columns else []
        return f"give {' and '.join(give)}, or use more records or a larger epsilon"

    def named(self, columns: Sequence[str]) -> str:
        """Some of them, for a message."""
        noun = f"{self.noun}{'s' * (len(columns) > 1)} " if self.noun else ""
        more = f" and {len(columns) - 10} more" * (len(columns) > 10)
        return noun + ", ".join(columns[:10]) + more


@dataclass(frozen=True)
class Found:
    """Sides of a box, (d,) each; or radii of balls."""

    low: Array
    high: Array
    outside: float
    """The share of records that may lie outside, in any column."""
    bulk: tuple[Array, Array] | None = None
    """A point in the bulk of each column; the second moment about it, rather too large."""


def box_parts(d: int) -> list[Part]:
    """The parts of an allowance that :func:`box` spends."""
    cells = {"scale": CELLS, "place": LEVELS * LEVEL_CELLS, "ends": CELLS, "outside": 1}
    return [Part(name, share, [("gaussian", d * cells[name])]) for name, share in _BOX.items()]


def box(
    wanted: Wanted, known: tuple[Array, Array] | None, allowance: Allowance
) -> Generator[Stage, Release[Any], Found]:
    """A box that holds the data; ``known``: its sides where they need not be found."""
    d, records = len(wanted.columns), wanted.records
    # Histograms count records, however much these weigh.
    noise = {name: allowance.noise(name, min(wanted.rows, MOST_ROWS)) for name in _BOX}
    zero = OctaveQuery(np.zeros(d))
    if not wanted.weighted:
        _refuse_few(wanted.excess * noise["ends"].price(zero)[0].deviation, records, wanted)
    release = yield Stage(zero, noise["scale"], "scale")
    finest = cell_widths(release.statistics.counts, release.spread)
    release = yield Stage(PlaceQuery(finest), noise["place"], "place")
    if wanted.weighted:
        records = max(float(release.statistics.counts.sum()) / (d * LEVELS), 1.0)
    place = places(release.statistics.counts, finest, records, release.spread)
    release = yield Stage(OctaveQuery(place), noise["ends"], "ends")
    counts, spread = release.statistics.counts, release.spread
    seen = ends(counts, spread, records, place, finest)
    low, high = seen.low, seen.high
    if known is not None:
        low, high = np.where(wanted.found, (low, high), known)
    query = OutsideQuery((1,) * d, (low + high) / 2, (high - low) / 2)
    release = yield Stage(query, noise["outside"], "outside")
    _refuse_few(spread, records, wanted)
    _refuse_lost(~seen.found, wanted)
    outside = _outside(release, records, wanted)
    return Found(low, high, outside, (place, seen.second))


def ball_parts(parts: int, share: float) -> list[Part]:
    """The parts of an allowance that :func:`balls` spends, ``share`` of it."""
    cells = {"norms": parts * (HALF_OCTAVES + 1), "outside": parts}
    return [Part(name, share * part, [("gaussian", cells[name])]) for name, part in _BALLS.items()]


def balls(
    wanted: Wanted, widths: tuple[int, ...], known: Array, allowance: Allowance
) -> Generator[Stage, Release[Any], Found]:
    """Radii of balls about the origin that hold the data, one for each part of the columns.

    ``known``: radii that need not be found.
    """
    records = wanted.records
    noise = {name: allowance.noise(name, min(wanted.rows, MOST_ROWS)) for name in _BALLS}
    query = NormQuery(widths)
    if not wanted.weighted:
        _refuse_few(wanted.excess * noise["norms"].price(query)[0].deviation, records, wanted)
    release = yield Stage(query, noise["norms"], "norms")
    counts, spread = release.statistics.counts, release.spread
    if wanted.weighted:
        records = max(float(counts.sum(axis=1).mean()), 1.0)
    seen = np.array([radius(part, spread, records) for part in counts])
    radii = np.where(wanted.found, np.where(seen > 0, seen, 1.0), known)
    about = OutsideQuery(widths, np.zeros(sum(widths)), radii)
    release = yield Stage(about, noise["outside"], "outside")
    _refuse_few(spread, records, wanted)
    _refuse_lost(seen == 0, wanted)
    return Found(-radii, radii, _outside(release, records, wanted))


def _refuse_few(noise: float, records: float, wanted: Wanted) -> None:
    """Stop where the noise on a cell is too much for so many records."""
    if noise > _MOST_NOISE * records:
        lost = wanted.missing(np.ones(len(wanted.columns), np.bool_))
        raise BoundsNotFound(
            f"about {records:,.0f} records are too few to find bounds of {wanted.named(lost)} "
            f"within this budget (about {noise / _MOST_NOISE:,.0f} are needed): "
            f"{wanted.instead(lost)}",
            lost,
        )


def _refuse_lost(lacking: NDArray[np.bool_], wanted: Wanted) -> None:
    """Stop where histograms show no bounds."""
    lost = wanted.missing(lacking)
    if lost:
        raise BoundsNotFound(
            f"no bounds stand out of the noise for {wanted.named(lost)}: {wanted.instead(lost)}",
            lost,
        )


def _outside(release: Release[Any], records: float, wanted: Wanted) -> float:
    """The share of records that may lie outside, in any column; stops where it is too much."""
    shares = np.where(wanted.found, release.statistics.counts / records, -np.inf)
    noise = release.spread / records
    lost = wanted.missing(shares - _SURE * noise > _OUTSIDE)
    if lost:
        raise BoundsNotFound(
            f"bounds of {wanted.named(lost)} as they stand out of the noise would leave about "
            f"{100 * float(shares.max()):.2g}% of the records outside: {wanted.instead(lost)}",
            lost,
        )
    most = float(shares.max()) - noise * float(ndtri(_WRONG / len(shares)))
    return float(np.clip(most, 0.0, 1.0))
