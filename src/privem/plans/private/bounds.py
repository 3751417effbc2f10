"""Bounds nobody gave: found by noisy histograms, paid out of the budget."""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...core import Release, Stage
from ...models.bounds import CELLS, LOWEST_OCTAVE, OCTAVES, Histogram, OctaveQuery, PlaceQuery
from ...models.region import Region
from .allowance import Allowance, Part

__all__ = ["PrivateBounds", "bounds_parts"]

# Of the budget for places: three rounds reach 4096^3 bins of four scales each. The first needs the
# most, since the bulk spreads over a few bins; later ones find all of it in one.
PLACE_SHARES = (0.6, 0.2, 0.2)
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
        noise = self.allowance.noise("scale", self.rows)
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
        for round_ in range(1, len(PLACE_SHARES) + 1):
            name = f"place {round_}"
            noise = self.allowance.noise(name, self.rows)
            release = yield Stage(PlaceQuery(width, centre), noise, name)
            counts = release.statistics.counts
            found &= _stands_out(counts, release.spread)
            cell = counts.argmax(axis=1) - CELLS // 2
            centre = centre + cell * width
            width = width * CELLS
        centre = np.where(found, centre, 0.0)
        half = np.where(found, _WIDTH * scale, 1.0)
        return Region.box(centre - half, centre + half, self.isotropic), found


def bounds_parts(d: int, share: float) -> list[Part]:
    """The parts of an allowance that :class:`PrivateBounds` spends."""
    place = share * (1 - SCALE_SHARE)
    return [
        Part("scale", share * SCALE_SHARE, [("gaussian", d * OCTAVES)]),
        *(
            Part(f"place {i}", place * part, [("gaussian", d * CELLS)])
            for i, part in enumerate(PLACE_SHARES, start=1)
        ),
    ]


def _windows(counts: np.ndarray) -> np.ndarray:
    """Sums over each octave and its two neighbours."""
    return np.stack([np.convolve(row, np.ones(3), "same") for row in counts])


def _stands_out(counts: np.ndarray, deviation: float) -> np.ndarray:
    """Whether the largest cell exceeds what the noise alone reaches once in a thousand."""
    cells = counts.shape[1]
    return np.asarray(counts.max(axis=1) > deviation * (math.sqrt(2 * math.log(cells)) + 0.5))
