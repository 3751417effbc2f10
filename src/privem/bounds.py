"""Bounds that nobody gave: noisy histograms find them, or the fit stops.

A box (:func:`box`) takes four releases: half octaves about zero, the place of the bulk of each
column, half octaves about that, and how many records lie outside of the bounds that these show.
Balls about the origin (:mod:`privem.norms`) take two.

:class:`BoundsNotFound` stops a fit before it spends the rest: where the records are too few, which
their count tells (if they have no weights), before any of these releases; otherwise after the last
of them, from what they show. So either cost is known beforehand (``docs/proofs/release.md``,
section 7).

What is read off the histograms is arithmetic on releases, and free.

*Scale.* From half octaves about zero: the outermost at which anything stands out of the noise.

*Place.* From grids modulo 64, coarse to fine: in each, the shortest window that holds half of the
records. One cell, or two, and the next grid can tell where in them; more, and the bulk is as wide
as that. So the place is a point in the bulk, exactly right for a value that half of the records
have.

*Ends*, each on its own, from half octaves about the place. T(e) is what lies beyond e, added up
from the outermost cell that stands out. Where the noise allows it, the end has T = 0.2%. Where it
does not, T is known down to some larger t only, and the end is extrapolated: the logarithm of the
distance, as a function of T's normal quantile, is a straight line through the points at t and 4 t,
down to a tail of three deviations (0.13%). The line is exact for logarithms that are normal, a
quarter too wide for normal and exponential tails, and too short by half for those of a Cauchy
distribution at t = 8%. Chosen on simulated columns, see ``experiments/bounds``.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from .blocks.histograms import (
    CELLS,
    FINER,
    FINEST,
    HALF_OCTAVES,
    LEVEL_CELLS,
    LEVELS,
    LOWEST,
    MOST_ROWS,
    OctaveQuery,
    OutsideQuery,
    PlaceQuery,
    edge,
)
from .budget import Allowance, Part
from .core import Release, Stage
from .linalg import Array
from .parameters import BoundsNotFound, Wanted

# Of the budget: half octaves about zero, the place of the bulk, half octaves about that, and how
# many records lie outside of what was found.
_BOX = {"scale": 0.01, "place": 0.025, "ends": 0.085, "outside": 0.03}
# Noise on a cell, of the number of records, beyond which bounds cannot be relied on.
_MOST_NOISE = 0.008
# So much of a column may lie outside; more, by so many deviations of the noise, is too much.
_OUTSIDE, _SURE = 0.01, 3.0
# How often a statement may be wrong about what lies outside.
_WRONG = 0.01
# How often noise alone may stand out anywhere, in all columns together.
_FALSE = 1e-6
# Sums of so many neighbouring cells are looked at.
_WINDOWS = (1, 2, 4)
# What stands out no further from the place than the other end, and what goes on from there.
_NEAR, _NEAR_WINDOWS, _ON = 3.0, (1, 2, 4, 8), 2.0
# Half octaves that are added up: so many beyond the last that stands out and, to extrapolate,
# before it. Beyond that lie others than those whose tail it is.
_BEYOND, _DEPTH = 2, 16
# So much may lie beyond an end, where the noise is small; and where it is extrapolated.
_TAIL, _FAR_TAIL = 0.002, 0.00135
# A tail is known where it is so many deviations of the noise of about six cells.
_KNOWN, _SUMMED = 3.0, math.sqrt(6.0)
_RATIO = 4.0
# An end lies at least so much beyond what is seen, and at most so many half octaves.
_MARGIN, _FARTHEST = 0.5, 6.0
# Where nothing is seen on one side, it is as wide as that share of records needs on the other.
_MIRRORED = 0.2
# The part of the records that shows where the bulk is.
_BULK = 0.5
# Values are missing where counts fall short by so many deviations of their noise; and the smallest
# part of the records that others are taken for.
_THERE, _FEWEST = 4.0, 0.25


def estimated(outside: float) -> str:
    """What a statement says of bounds that nobody gave."""
    return (
        "estimated from noisy histograms, paid for; by a noisy count at most "
        f"{100 * outside:.2g}% of the records lie outside in any column"
    )


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
        refuse_few(wanted.excess * noise["ends"].price(zero)[0].deviation, records, wanted)
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
    refuse_few(spread, records, wanted)
    refuse_lost(~seen.found, wanted)
    outside = share_outside(release, records, wanted)
    return Found(low, high, outside, (place, seen.second))


def refuse_few(noise: float, records: float, wanted: Wanted) -> None:
    """Stop where the noise on a cell is too much for so many records."""
    if noise > _MOST_NOISE * records:
        lost = wanted.missing(np.ones(len(wanted.columns), np.bool_))
        raise BoundsNotFound(
            f"about {records:,.0f} records are too few to find bounds of {wanted.named(lost)} "
            f"within this budget (about {noise / _MOST_NOISE:,.0f} are needed): "
            f"{wanted.instead(lost)}",
            lost,
        )


def refuse_lost(lacking: NDArray[np.bool_], wanted: Wanted) -> None:
    """Stop where histograms show no bounds."""
    lost = wanted.missing(lacking)
    if lost:
        raise BoundsNotFound(
            f"no bounds stand out of the noise for {wanted.named(lost)}: {wanted.instead(lost)}",
            lost,
        )


def share_outside(release: Release[Any], records: float, wanted: Wanted) -> float:
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


@dataclass(frozen=True)
class Ends:
    """What histograms say of columns, (d,) each."""

    low: Array
    high: Array
    second: Array
    """The second moment about the place, of what lies between the ends; rather too large."""
    found: NDArray[np.bool_]
    """Whether anything stood out, and nothing beyond the last cell."""


def cell_widths(octaves: Array, spread: float) -> Array:
    """Widths of the finest cells of the grids, (d,): powers of two that suit what stands out."""
    least = _stands_out(len(octaves))
    sides = [outermost(side / spread, least, _NEAR_WINDOWS) for side in _sides(octaves)]
    octave = np.ceil((np.maximum(*sides) + 1) / 2) + LOWEST
    # The coarsest grid reaches twice as far, on both sides.
    return np.asarray(2.0 ** (octave + 2) / LEVEL_CELLS / FINEST)


def places(grids: Array, finest: Array, records: float, spread: float) -> Array:
    """A point in the bulk of each column, (d,), from counts (d, grids, cells).

    Records whose value is missing are in no cell. Where counts say that there are many such, half
    of the others make the bulk.
    """
    noise = spread * math.sqrt(LEVELS * LEVEL_CELLS) / LEVELS
    there = grids.sum(axis=(1, 2)) / LEVELS + _THERE * noise
    there = np.clip(there, _FEWEST * records, records)
    return np.array([_place(*column) for column in zip(grids, finest, there, strict=True)])


def _place(grids: Array, finest: float, records: float) -> float:
    place, window = 0.0, None
    for level, counts in enumerate(grids):
        width = finest * FINEST / float(FINER) ** level
        found = _bulk(counts, _BULK * records)
        if found is None:
            break
        middle, cells = found
        window = (counts, middle, cells, width, level)
        # Grids repeat: of all such places, the one nearest to what the coarser ones say.
        period = LEVEL_CELLS * width
        place = middle * width + period * round((place - middle * width) / period)
        if cells > 2:
            break
    if window is None:
        return 0.0
    counts, middle, cells, width, level = window
    if cells == 1 and level == LEVELS - 1:
        return place  # one value, as far as anybody can tell
    # The centre of mass of the window and half as much on both sides.
    reach = max(cells, 1.5)
    near = np.arange(math.ceil(middle - reach), math.floor(middle + reach) + 1)
    mass = counts[near % LEVEL_CELLS]
    if mass.sum() > 0:
        off = float((near - middle) @ mass / mass.sum())
        place += width * float(np.clip(off, -0.5 * cells, 0.5 * cells))
    return place


def _bulk(counts: Array, wanted: float) -> tuple[float, int] | None:
    """Middle and length of the shortest window that holds as much; ``None``: it is everywhere."""
    total = np.concatenate([[0.0], np.cumsum(np.concatenate([counts, counts]))])
    for cells in (1, 2, 4, 8, 16):
        sums = total[cells : cells + LEVEL_CELLS] - total[:LEVEL_CELLS]
        first = int(sums.argmax())
        if sums[first] >= wanted:
            return first + (cells - 1) / 2, cells
    return None


def ends(octaves: Array, spread: float, records: float, place: Array, least: Array) -> Ends:
    """Both ends of each column, from half octaves (d, cells) about its place.

    ``least``: what an end is away from the place at the least, (d,).
    """
    noise, threshold = spread / records, _stands_out(len(octaves))
    least = np.maximum(least, edge(0.0))
    above, below = (side / records for side in _sides(octaves))
    nearest = octaves[:, HALF_OCTAVES] / records
    last = [outermost(side / noise, threshold, _WINDOWS) for side in (above, below)]
    low, high, second, found = np.empty((4, len(octaves)))
    for j in range(len(octaves)):
        reached = int(max(last[0][j], last[1][j]))
        reach = [
            _reach(side[j], noise, int(seen[j]), reached)
            for side, seen in zip((above, below), last, strict=True)
        ]
        for one, other in ((0, 1), (1, 0)):
            seen_there = reach[other]
            if reach[one] is None and seen_there is not None:
                reach[one] = _mirrored((above, below)[other][j], nearest[j], seen_there)
        far = [least[j] if r is None else max(edge(r), least[j]) for r in reach]
        high[j], low[j] = place[j] + far[0], place[j] - far[1]
        second[j] = _second(above[j], below[j], far, noise)
        # The last cell has no end: what stands out there may lie anywhere.
        found[j] = reached < HALF_OCTAVES - 1 and (reached >= 0 or nearest[j] > threshold * noise)
    return Ends(low, high, second, found.astype(np.bool_))


def radius(counts: Array, spread: float, records: float) -> float:
    """The end of norms, from the counts of :class:`~.histograms.NormQuery`; zero: not found."""
    noise, threshold = spread / records, _stands_out(1)
    far = counts[1:] / records
    seen = int(outermost(far[None] / noise, threshold, _WINDOWS)[0])
    if seen == HALF_OCTAVES - 1 or (seen < 0 and counts[0] <= threshold * spread):
        return 0.0
    reach = _reach(far, noise, seen, seen)
    return edge(0.0 if reach is None else reach)


def outermost(cells: Array, least: float, windows: tuple[int, ...]) -> NDArray[np.int64]:
    """The last cell of the last window that exceeds the noise ``least`` times; -1: none does.

    Cells (rows, cells) are in units of their noise. The shortest windows are the most precise.
    """
    last = np.full(len(cells), -1)
    total = np.concatenate([np.zeros((len(cells), 1)), np.cumsum(cells, axis=1)], axis=1)
    for window in windows:
        over = total[:, window:] - total[:, :-window] > least * math.sqrt(window)
        first = np.where(over.any(axis=1), over.shape[1] - 1 - over[:, ::-1].argmax(axis=1), -1)
        last = np.where(first > last, first + window - 1, last)
    return last


def _sides(octaves: Array) -> tuple[Array, Array]:
    """Cells above and below the centre, both outwards."""
    return octaves[:, HALF_OCTAVES + 1 :], octaves[:, :HALF_OCTAVES][:, ::-1]


def _stands_out(columns: int) -> float:
    """How many deviations noise alone exceeds in one cell or window of any column."""
    return -float(ndtri(_FALSE / (columns * CELLS * len(_NEAR_WINDOWS))))


def _reach(mass: Array, noise: float, seen: int, other: int) -> float | None:
    """How far one side goes, in half octaves; ``None``: nothing is seen there.

    ``seen``: the last cell that stands out; ``other``: that of the other side, if further away.
    """
    if seen < other:
        near = mass[None, : max(other + 1, max(_NEAR_WINDOWS))] / noise
        seen = max(seen, int(outermost(near, _NEAR, _NEAR_WINDOWS)[0]))
    if seen < 0:
        return None
    total = np.concatenate([[0.0], np.cumsum(mass)])
    last = seen
    while last + 2 < len(mass) and total[last + 3] - total[last + 1] > _ON * noise * math.sqrt(2):
        last += 2
    top = min(last + _BEYOND, len(mass) - 1)
    known = _KNOWN * _SUMMED * noise
    first = 0 if known <= _TAIL else max(top - _DEPTH, 0)
    # What lies beyond each edge, outwards from the first: never less than beyond the next.
    tail = total[top + 1] - total[first : top + 2]
    tail = np.maximum(np.maximum.accumulate(tail[::-1])[::-1], 0.0)
    if known <= _TAIL:
        return _crossing(tail, _TAIL) + _MARGIN
    all_of_it = max(tail[0], noise)
    t = np.array([min(known, all_of_it / 4), 0.0, _FAR_TAIL])
    t[1] = min(_RATIO * t[0], all_of_it / 2)
    t[2] = min(t[2], t[0])
    outer, inner = first + _crossing(tail, t[0]), first + _crossing(tail, t[1])
    quantile = -ndtri(t / (2 * all_of_it))
    line = (outer - inner) / (quantile[0] - quantile[1])
    reach = outer + line * (quantile[2] - quantile[0]) + _MARGIN
    return float(np.clip(reach, seen + 1, last + 1 + _FARTHEST))


def _crossing(tail: Array, level: float) -> float:
    """The first position beyond which lies no more than ``level``; between edges, a straight line.

    ``tail`` falls to no more than that.
    """
    j = int(np.argmax(tail <= level))
    if j == 0:
        return 0.0
    return j - 1 + float((tail[j - 1] - level) / (tail[j - 1] - tail[j]))


def _mirrored(mass: Array, nearest: float, reach: float) -> float | None:
    """Within which distance the nearest records of the other side lie; ``None``: at the place."""
    within = nearest + np.cumsum(mass[: math.ceil(reach)])
    first = int(np.argmax(within > _MIRRORED))
    return None if nearest > _MIRRORED or within[first] <= _MIRRORED else first + 1.0


def _second(above: Array, below: Array, far: list[float], noise: float) -> float:
    """The second moment about the place; two deviations of its noise are added."""
    total = variance = 0.0
    squares = np.square([edge(j + 1.0) for j in range(HALF_OCTAVES)])
    for mass, end in zip((above, below), far, strict=True):
        inside = np.minimum(squares, end**2) * (squares < 2 * end**2)
        total += float(mass @ inside)
        variance += float(inside @ inside)
    largest = max(far) ** 2
    return float(np.clip(total + 2 * noise * math.sqrt(variance), largest / 1024, largest))
