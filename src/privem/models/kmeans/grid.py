"""A start for private k-means: noisy counts of the cells of a public grid, clustered afterwards.

Lloyd's algorithm is only as good as its start, and under noise it cannot try several. But noisy
counts, once released, may be clustered as often as one likes (Su et al. 2016).

*The counts.* The grid stands in a public frame: along some orthonormal axes, from a public middle,
cells between given edges. A record beyond the last edge counts in the last cell, so every record
counts once.

Sensitivity: a record adds its weight (one, or at most the cap) to one cell, so L2 is 1 for adding
or removing it; replacing it moves one count down and another up, at most sqrt(2) as contributions
are not negative. Which cell is a function of the record alone: unit coordinates are (see
:class:`~privem.blocks.region.Region`), and what follows is elementwise, feature after feature, in a
fixed order, so neither the block nor a record's place in it can move it to another cell. What is
summed is *defined* by that computed cell; the only rounding left is that of adding weights.

*The start.* The grid is cut along the longest axes of the frame, in cells of equal width that grow
towards the region's ends, as many as the noise bears; within a cell records are taken to lie
evenly, along axes that are not cut as in the frame's Gaussian. Under much noise the counts are
drawn towards that Gaussian, and what remains is a packing of it that needs no more data. In a
diagonal frame, that of many columns, axes are columns, and only the longest few dozen tell centres
apart: along all others they lie in the middle, and records spread as the frame says.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from ...blocks import conditions
from ...blocks.region import Region
from ...blocks.sensitivity import UP, capped
from ...core import Block, Group, Release, Scratch, Stage
from ...ground import Ground
from ...linalg import Array, first_largest, gamma
from ...run import held, settled

# More than any plan asks for, and few enough to hold.
_LARGEST_GRID = 2**20


@dataclass(frozen=True)
class CellCounts:
    """Records (or their weights) per cell, raveled in C order."""

    counts: Array


@dataclass(frozen=True)
class GridQuery:
    """Counts of the cells of a grid in unit coordinates.

    Parameters
    ----------
    region : Region
    middle : array of shape (d,)
        Edges are measured from here.
    axes : array of shape (m, d)
        Orthonormal directions, one per row; cells are cut along the first of them.
    edges : tuple of arrays
        Ends of the cells along each axis that is cut, increasing.
    cap_weight : float
    """

    region: Region
    middle: Array
    axes: Array
    edges: tuple[Array, ...]
    cap_weight: float = 1.0
    block_rows: int = 16_384
    travels = ("region", "middle", "axes", "edges", "cap_weight")

    @property
    def shape(self) -> tuple[int, ...]:
        """How many cells along each axis."""
        return tuple(len(edges) - 1 for edges in self.edges)

    @property
    def size(self) -> int:
        """How many cells."""
        return math.prod(self.shape)

    def __call__(self, block: Block, scratch: Scratch) -> CellCounts:
        """Count a block."""
        y = self.region.to_unit(block.X, scratch).T
        along, term = scratch.take("along", (2, y.shape[1]))
        cell = np.zeros(y.shape[1], dtype=np.int64)
        for axis, edges in zip(self.axes, self.edges, strict=False):
            along[:] = 0.0
            for component, feature, origin in zip(axis, y, self.middle, strict=True):
                if component == 0.0:  # it would add zero; public, and the same for every record
                    continue
                np.subtract(feature, origin, out=term)
                term *= component
                along += term  # a fixed order of summation
            cell *= len(edges) - 1
            cell += np.searchsorted(edges[1:-1], along, side="right")
        weight = capped(block.weight, self.cap_weight, len(cell))
        return CellCounts(np.bincount(cell, weight, minlength=self.size).astype(np.float64))

    def groups(self, neighbours: str) -> list[Group]:
        """One group; the bound is derived above."""
        one = math.sqrt(2.0) if neighbours == "replace-one" else 1.0
        return [Group("cells", slice(0, self.size), one * self.cap_weight * UP)]

    def rounding(self, rows: float) -> float:
        """Sums of weights, one after the other within a block; whole numbers do not err."""
        return rows * gamma(self.block_rows + 64)

    def check(self, d: int, private: bool) -> None:
        """Whatever the axes and edges, a record counts in one cell: only their form matters."""
        self.region.check(d)
        conditions.shaped((d,), self.middle)
        conditions.table(self.axes, d)
        conditions.ordinary(self.cap_weight)
        conditions.need(0 < len(self.edges) <= len(self.axes))
        for ends in self.edges:
            conditions.need(ends.ndim == 1 and len(ends) > 1 and (np.diff(ends) > 0).all())
        conditions.need(self.size <= _LARGEST_GRID)


MOST_CELLS = 4096
# A cell of average size holds this many deviations of its noise.
_SIGNAL = 2.0
# Cells are of equal width up to so many deviations; from there each is so much wider.
_CORE, _GROWTH = 2.0, 2.0
# No axis is cut into fewer cells than this.
_FEWEST = 3
MOST_AXES = 3
_POINTS = 4096
# So many columns of a diagonal frame tell centres apart.
_COLUMNS = 64


@dataclass(frozen=True)
class Cloud:
    """Points in unit coordinates that stand for the records, and their weights.

    ``kept``: how much of what the counts say is in them, between zero (it is noise) and one.
    ``blur``: what variances lack along axes that are cut, as points stand in the middle of cells.
    """

    points: Array
    weights: Array
    kept: float
    blur: Array


@dataclass(frozen=True)
class GridStart:
    """Centres in unit coordinates and the mean squared distance of records to them.

    Parameters
    ----------
    ground : Ground
    middle, covariance : array
        The frame, public; a matrix, or its diagonal.
    clusters : int
    rng : numpy.random.Generator
        For points within cells and for k-means++: on public numbers.
    points : int
        About how many stand for the records.
    """

    ground: Ground
    middle: Array
    covariance: Array
    clusters: int
    rng: np.random.Generator
    points: int = _POINTS

    def stages(self) -> Generator[Stage, Release[Any], tuple[Array, float]]:
        """Generate the stage."""
        if self.covariance.ndim == 1:
            return (yield from self._along_columns())
        cloud = yield from self.cloud()
        return self._centres(cloud)

    def cloud(self) -> Generator[Stage, Release[Any], Cloud]:
        """Points in unit coordinates that stand for the records, and their weights.

        Generates the stage; the covariance is a matrix.
        """
        values, vectors = np.linalg.eigh(self.covariance)
        order = np.argsort(-values, kind="stable")
        axes = vectors[:, order].T
        return (yield from self._cloud(values[order], axes, axes, self))

    def _along_columns(self) -> Generator[Stage, Release[Any], tuple[Array, float]]:
        """The start among the longest columns, and what the others add to distances."""
        longest = np.argsort(-self.covariance, kind="stable")[:_COLUMNS]
        whole, some = self.ground.region, np.eye(len(longest))
        part = Region(whole.centre[longest], whole.scale[longest], whole.limit[longest], whole.ball)
        among = replace(self, ground=replace(self.ground, region=part), middle=self.middle[longest])
        axes = np.zeros((len(longest), whole.d))
        axes[:, longest] = some
        cloud = yield from self._cloud(self.covariance[longest], axes, some, among)
        found, square = self._centres(cloud)
        centres = np.tile(self.middle, (self.clusters, 1))
        centres[:, longest] = found
        others = float(np.sum(np.delete(self.covariance, longest)))
        return whole.inside(centres), square + others

    def _cloud(
        self, values: Array, axes: Array, some: Array, among: GridStart
    ) -> Generator[Stage, Release[Any], Cloud]:
        """Count along ``axes``; the rest among some columns, where the axes are called ``some``."""
        deviations = np.sqrt(np.maximum(values, 1e-12))
        edges = held(lambda: among._edges(deviations[:MOST_AXES], some[:MOST_AXES]))
        region, cap = self.ground.region, self.ground.cap_weight
        query = GridQuery(region, self.middle, axes[: len(edges)], edges, cap)
        release = yield self.ground.stage(query, "grid")
        counts: CellCounts = release.statistics
        mass, kept = self._mass(counts.counts, release.spread, query, deviations)
        points, cell = held(lambda: among._points(query, mass > 0, deviations, some))
        return Cloud(points, mass[cell], kept, self._blur(query, mass))

    def _centres(self, cloud: Cloud) -> tuple[Array, float]:
        points, weights = cloud.points, cloud.weights
        tries = int(np.clip(2**24 // (len(points) * self.clusters), 2, 8))
        return settled(
            lambda: weighted_kmeans(points, weights, self.clusters, self.rng, tries),
            lambda found: resettled(points, weights, found[0]),
        )

    def _edges(self, deviations: Array, axes: Array) -> tuple[Array, ...]:
        """Ends of the cells along each axis that is cut; the finest that the noise bears."""
        ground, region, noise = self.ground, self.ground.region, self.ground.noise("grid")
        replaced = math.sqrt(2.0) if noise.neighbours == "replace-one" else 1.0
        sigma = noise.multiplier * replaced * ground.cap_weight
        wanted = min(ground.count / (_SIGNAL * sigma), MOST_CELLS)
        # How far the region reaches along each axis, from the middle.
        reach = np.ones(len(axes)) if region.ball else np.abs(axes) @ region.limit
        reach = np.stack([-reach, reach], axis=1) - (axes @ self.middle)[:, None]
        best: tuple[Array, ...] = (_cut(reach[0], deviations[0], 2 * deviations[0]),)
        for width in 2 * _CORE * deviations[0] * 0.93 ** np.arange(1, 200):
            found = [_cut(ends, s, width) for ends, s in zip(reach, deviations, strict=True)]
            used = [edges for edges in found if len(edges) > _FEWEST]
            if math.prod(len(edges) - 1 for edges in used) > wanted:
                break
            best = tuple(used) or best
        return best

    def _mass(
        self, counts: Array, sigma: float, query: GridQuery, deviations: Array
    ) -> tuple[Array, float]:
        """Probabilities of cells: drawn to the Gaussian's by James and Stein, made a law.

        And how much of what differs from the Gaussian was kept.

        Far from the middle a few records that are noise would draw a centre of their own: cells
        there count for what the Gaussian says unless they stand out of all noise.
        """
        prior, far = np.ones(1), np.zeros(1, dtype=bool)
        for edges, deviation in zip(query.edges, deviations, strict=False):
            below = np.concatenate([[0.0], ndtr(edges[1:-1] / deviation), [1.0]])
            prior = np.outer(prior, np.diff(below)).ravel()
            beyond = np.abs(edges[1:] + edges[:-1]) / 2 > _CORE * deviation
            far = np.logical_or.outer(far, beyond).ravel()
        prior = prior * self.ground.count
        least = sigma * math.sqrt(2 * math.log(max(query.size, 2)))
        away = np.where(far & (counts < least), 0.0, counts - prior)
        kept = max(0.0, 1.0 - query.size * sigma**2 / max(float(away @ away), 1e-300))
        return to_simplex((prior + kept * away) / self.ground.count), kept

    def _each(self, query: GridQuery) -> int:
        """How many points stand for a cell."""
        return max(1, max(self.points, 20 * self.clusters) // query.size)

    def _blur(self, query: GridQuery, mass: Array) -> Array:
        """The variance within a cell, on average, along each axis that is cut."""
        index = np.unravel_index(np.arange(query.size), query.shape)
        widths = [np.diff(edges)[i] for edges, i in zip(query.edges, index, strict=True)]
        return np.asarray(np.square(widths) @ mass / 12) * (self._each(query) == 1)

    def _points(
        self, query: GridQuery, used: NDArray[np.bool_], deviations: Array, axes: Array
    ) -> tuple[Array, NDArray[np.int64]]:
        """Points that stand for the records, as many in each cell that is used; their cells."""
        each = self._each(query)
        cell = np.repeat(np.arange(query.size), each)
        along = self.rng.standard_normal((len(cell), len(deviations))) * deviations
        for axis, index in enumerate(np.unravel_index(cell, query.shape)):
            edges = query.edges[axis]
            inside = self.rng.random(len(cell)) if each > 1 else 0.5
            along[:, axis] = edges[index] + inside * np.diff(edges)[index]
        keep = used[cell]
        points = self.ground.region.inside(self.middle + along[keep] @ axes)
        return points, cell[keep]


def _cut(ends: Array, deviation: float, width: float) -> Array:
    """Edges of cells about ``width`` wide near zero, growing from ``_CORE`` deviations on."""
    low, high = max(ends[0], -_CORE * deviation), min(ends[1], _CORE * deviation)
    edges = list(np.linspace(low, high, max(2, round((high - low) / width) + 1)))
    step = edges[1] - edges[0]
    return np.array([*_tail(low, ends[0], -step)[::-1], *edges, *_tail(high, ends[1], step)])


def _tail(at: float, end: float, step: float) -> list[float]:
    """Edges from ``at`` (not included) to ``end``, each cell ``_GROWTH`` times as wide."""
    found: list[float] = []
    while (end - at) / step > 0.49:  # not a half, which rounding may make less
        step *= _GROWTH
        # A last cell of less than half its width joins the one before.
        at = end if (end - at) / step < 1.5 else at + step
        found.append(at)
    return found


def to_simplex(values: Array) -> Array:
    """The nearest probabilities: all of it lowered by as much, and what is negative set to zero."""
    ordered = np.sort(values)[::-1]
    excess = (np.cumsum(ordered) - 1.0) / np.arange(1, len(values) + 1)
    level = excess[np.flatnonzero(ordered > excess)[-1]]
    return np.asarray(np.maximum(values - level, 0.0))


_ITERATIONS = 30
# Measured: with more columns than this a matrix product adds points up faster than a pass for each
# of them, four times as fast at 256 columns and 4 clusters.
_FEW_COLUMNS = 32


def weighted_kmeans(
    points: Array, weights: Array, k: int, rng: np.random.Generator, tries: int
) -> tuple[Array, float]:
    """Centres (K, d) and mean squared distance to them: the best of some k-means++ starts."""
    weights = weights / weights.sum()
    squares = np.einsum("ij,ij->i", points, points)
    best, least = points[:1], np.inf
    for _ in range(tries):
        centres = _seed(points, squares, weights, k, rng)
        centres, cost = _settle(points, squares, weights, centres)
        if cost < least * (1 - 1e-9):  # the first of those that found the same
            best, least = centres, cost
    return best, least


def resettled(points: Array, weights: Array, centres: Array) -> tuple[Array, float]:
    """The same from centres that are known, of points with other weights."""
    squares = np.einsum("ij,ij->i", points, points)
    return _settle(points, squares, weights / max(float(weights.sum()), 1e-300), centres)


def _distances(points: Array, squares: Array, centres: Array) -> Array:
    """Squared distances (n, K)."""
    found = -2.0 * (points @ centres.T)
    found += squares[:, None]
    found += np.einsum("ij,ij->i", centres, centres)
    return np.maximum(found, 0.0)


def _seed(points: Array, squares: Array, weights: Array, k: int, rng: np.random.Generator) -> Array:
    """k-means++ that tries a few candidates for each centre (Arthur and Vassilvitskii 2007)."""
    candidates = 2 + int(np.log(k))
    chosen = [int(rng.choice(len(points), p=weights))]
    near = _distances(points, squares, points[chosen])[:, 0]
    while len(chosen) < k:
        cumulated = np.cumsum(weights * near)
        if not cumulated[-1] > 0:  # fewer different points than clusters
            chosen += list(rng.integers(len(points), size=k - len(chosen)))
            break
        drawn = np.searchsorted(cumulated, rng.random(candidates) * cumulated[-1])
        drawn = np.minimum(drawn, len(points) - 1)
        nearer = np.minimum(_distances(points, squares, points[drawn]), near[:, None])
        costs = weights @ nearer
        pick = int(first_largest(-costs, 0, float(costs.max())))
        chosen.append(int(drawn[pick]))
        near = nearer[:, pick]
    return points[chosen]


def _settle(points: Array, squares: Array, weights: Array, centres: Array) -> tuple[Array, float]:
    """Lloyd's algorithm until it gains nothing, at most ``_ITERATIONS`` steps."""
    k, last, furthest = len(centres), np.inf, float(squares.max())
    for _ in range(_ITERATIONS):
        distances = _distances(points, squares, centres)
        label = first_largest(-distances, 1, furthest)
        cost = float(weights @ distances[np.arange(len(points)), label])
        if not cost < last * (1 - 1e-6):
            break
        last = cost
        mass = np.bincount(label, weights, k)
        if points.shape[1] > _FEW_COLUMNS:
            member = np.equal(np.arange(k)[:, None], label) * weights
            sums = member @ points
        else:
            sums = np.stack([np.bincount(label, weights * x, k) for x in points.T], axis=1)
        full = mass > 0
        centres = centres.copy()
        centres[full] = sums[full] / mass[full, None]
    return centres, min(cost, last)
