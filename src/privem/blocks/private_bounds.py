"""Bounds nobody gave: found by noisy histograms, paid out of the budget."""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..budget import Allowance, Part
from ..core import Release, Stage
from .bounds import LOWEST_OCTAVE, OCTAVES, Histogram, OctaveQuery, PlaceQuery
from .count import MOST_ROWS
from .region import Region

__all__ = ["PrivateBounds", "bounds_parts"]

# Above so many columns there are fewer cells and more rounds. A column needs 12,288 numbers in
# three rounds and 384 in six: at 256 columns 3 seconds of drawing noise, or a tenth of one.
_MANY_COLUMNS = 256
# Of the budget for bounds.
SCALE_SHARE = 0.45
# Bounds lie this many scales on each side of the place found.
_WIDTH = 8.0


@dataclass(frozen=True)
class PrivateBounds:
    """A box around the bulk of each feature.

    Returns the region and, per feature, whether it was found. A feature whose largest cell does not
    stand out of the noise gets (-1, 1).
    """

    d: int
    rows: float
    allowance: Allowance
    isotropic: bool = False

    def stages(self) -> Generator[Stage, Release[Any], tuple[Region, np.ndarray]]:
        """Generate the stages."""
        # Histograms count records, however much these weigh.
        rows = min(self.rows, MOST_ROWS)
        noise = self.allowance.noise("scale", rows)
        release = yield Stage(OctaveQuery(self.d), noise, "scale")
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
        centre, width = np.zeros(self.d), 4 * scale
        cells, shares = place_rounds(self.d)
        for round_ in range(1, len(shares) + 1):
            name = f"place {round_}"
            noise = self.allowance.noise(name, rows)
            release = yield Stage(PlaceQuery(width, centre, cells), noise, name)
            counts = release.statistics.counts
            found &= _stands_out(counts, release.spread)
            cell = counts.argmax(axis=1) - cells // 2
            centre = centre + cell * width
            width = width * cells
        centre = np.where(found, centre, 0.0)
        half = np.where(found, _WIDTH * scale, 1.0)
        return Region.box(centre - half, centre + half, self.isotropic), found


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
    """The parts of an allowance that :class:`PrivateBounds` spends."""
    place = share * (1 - SCALE_SHARE)
    cells, shares = place_rounds(d)
    return [
        Part("scale", share * SCALE_SHARE, [("gaussian", d * OCTAVES)]),
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
