"""A start for k-means: a noisy histogram in the frame of the data, clustered afterwards.

Lloyd's algorithm is only as good as its start, and under noise it cannot try several. But noisy
counts of the cells of a grid, once released, may be clustered as often as one likes (Su et al.
2016). The grid is cut along the longest axes of the frame, in cells of equal width that grow
towards the region's ends, as many as the noise bears; within a cell records are taken to lie
evenly, along axes that are not cut as in the frame's Gaussian. Under much noise the counts are
drawn towards that Gaussian, and what remains is a packing of it that needs no more data.

In a diagonal frame, that of many columns, axes are columns, and only the longest few dozen tell
centres apart: along all others they lie in the middle, and records spread as the frame says.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import ndtr

from ...blocks.region import Region
from ...core import Release, Stage
from ...noise.discrete import Discrete
from ...tree import Array
from .grid import CellCounts, GridQuery
from .lloyd import weighted_kmeans

MOST_CELLS = 4096
# A cell of average size holds this many deviations of its noise.
_SIGNAL = 2.0
# Cells are of equal width up to so many deviations; from there each is so much wider.
_CORE, _GROWTH = 2.0, 2.0
# No axis is cut into fewer cells than this.
_FEWEST = 3
_MOST_AXES = 3
_POINTS = 4096
# So many columns of a diagonal frame tell centres apart.
_COLUMNS = 64


@dataclass(frozen=True)
class GridStart:
    """Centres in unit coordinates and the mean squared distance of records to them.

    Parameters
    ----------
    region : Region
    count : float
        Number of records, public or released.
    middle, covariance : array
        The frame, public; a matrix, or its diagonal.
    clusters : int
    noise : Discrete
    rng : numpy.random.Generator
        For points within cells and for k-means++: on public numbers.
    cap_weight : float
    """

    region: Region
    count: float
    middle: Array
    covariance: Array
    clusters: int
    noise: Discrete
    rng: np.random.Generator
    cap_weight: float = 1.0

    def stages(self) -> Generator[Stage, Release[Any], tuple[Array, float]]:
        """Generate the stage."""
        if self.covariance.ndim == 1:
            return (yield from self._along_columns())
        values, vectors = np.linalg.eigh(self.covariance)
        order = np.argsort(-values, kind="stable")
        axes = vectors[:, order].T
        return (yield from self._start(values[order], axes, axes, self))

    def _along_columns(self) -> Generator[Stage, Release[Any], tuple[Array, float]]:
        """The start among the longest columns, and what the others add to distances."""
        longest = np.argsort(-self.covariance, kind="stable")[:_COLUMNS]
        whole, some = self.region, np.eye(len(longest))
        part = Region(whole.centre[longest], whole.scale[longest], whole.limit[longest], whole.ball)
        among = replace(self, region=part, middle=self.middle[longest])
        axes = np.zeros((len(longest), whole.d))
        axes[:, longest] = some
        found, square = yield from self._start(self.covariance[longest], axes, some, among)
        centres = np.tile(self.middle, (self.clusters, 1))
        centres[:, longest] = found
        others = float(np.sum(np.delete(self.covariance, longest)))
        return whole.inside(centres), square + others

    def _start(
        self, values: Array, axes: Array, some: Array, among: GridStart
    ) -> Generator[Stage, Release[Any], tuple[Array, float]]:
        """Count along ``axes``; the rest among some columns, where the axes are called ``some``."""
        deviations = np.sqrt(np.maximum(values, 1e-12))
        edges = among._edges(deviations[:_MOST_AXES], some[:_MOST_AXES])
        query = GridQuery(self.region, self.middle, axes[: len(edges)], edges, self.cap_weight)
        release = yield Stage(query, self.noise, "grid")
        counts: CellCounts = release.statistics
        mass = self._mass(counts.counts, release.spread, query, deviations)
        points, weights = among._points(query, mass, deviations, some)
        tries = int(np.clip(2**24 // (len(points) * self.clusters), 2, 8))
        return weighted_kmeans(points, weights, self.clusters, self.rng, tries)

    def _edges(self, deviations: Array, axes: Array) -> tuple[Array, ...]:
        """Ends of the cells along each axis that is cut; the finest that the noise bears."""
        replaced = math.sqrt(2.0) if self.noise.neighbours == "replace-one" else 1.0
        sigma = self.noise.multiplier * replaced * self.cap_weight
        wanted = min(self.count / (_SIGNAL * sigma), MOST_CELLS)
        # How far the region reaches along each axis, from the middle.
        reach = np.ones(len(axes)) if self.region.ball else np.abs(axes) @ self.region.limit
        reach = np.stack([-reach, reach], axis=1) - (axes @ self.middle)[:, None]
        best: tuple[Array, ...] = (_cut(reach[0], deviations[0], 2 * deviations[0]),)
        for width in 2 * _CORE * deviations[0] * 0.93 ** np.arange(1, 200):
            found = [_cut(ends, s, width) for ends, s in zip(reach, deviations, strict=True)]
            used = [edges for edges in found if len(edges) > _FEWEST]
            if math.prod(len(edges) - 1 for edges in used) > wanted:
                break
            best = tuple(used) or best
        return best

    def _mass(self, counts: Array, sigma: float, query: GridQuery, deviations: Array) -> Array:
        """Probabilities of cells: drawn to the Gaussian's by James and Stein, made a law.

        Far from the middle a few records that are noise would draw a centre of their own: cells
        there count for what the Gaussian says unless they stand out of all noise.
        """
        prior, far = np.ones(1), np.zeros(1, dtype=bool)
        for edges, deviation in zip(query.edges, deviations, strict=False):
            below = np.concatenate([[0.0], ndtr(edges[1:-1] / deviation), [1.0]])
            prior = np.outer(prior, np.diff(below)).ravel()
            beyond = np.abs(edges[1:] + edges[:-1]) / 2 > _CORE * deviation
            far = np.logical_or.outer(far, beyond).ravel()
        prior = prior * self.count
        least = sigma * math.sqrt(2 * math.log(max(query.size, 2)))
        away = np.where(far & (counts < least), 0.0, counts - prior)
        kept = max(0.0, 1.0 - query.size * sigma**2 / max(float(away @ away), 1e-300))
        return _to_simplex((prior + kept * away) / self.count)

    def _points(
        self, query: GridQuery, mass: Array, deviations: Array, axes: Array
    ) -> tuple[Array, Array]:
        """Points that stand for the records: as many in each cell."""
        each = max(1, max(_POINTS, 20 * self.clusters) // query.size)
        cell = np.repeat(np.arange(query.size), each)
        along = self.rng.standard_normal((len(cell), len(deviations))) * deviations
        for axis, index in enumerate(np.unravel_index(cell, query.shape)):
            edges = query.edges[axis]
            inside = self.rng.random(len(cell)) if each > 1 else 0.5
            along[:, axis] = edges[index] + inside * np.diff(edges)[index]
        keep = mass[cell] > 0
        points = self.region.inside(self.middle + along[keep] @ axes)
        return points, mass[cell][keep]


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


def _to_simplex(values: Array) -> Array:
    """The nearest probabilities: all of it lowered by as much, and what is negative set to zero."""
    ordered = np.sort(values)[::-1]
    excess = (np.cumsum(ordered) - 1.0) / np.arange(1, len(values) + 1)
    level = excess[np.flatnonzero(ordered > excess)[-1]]
    return np.asarray(np.maximum(values - level, 0.0))
