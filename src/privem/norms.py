"""Bounds of norms that nobody gave: balls about the origin, for models that need no more.

They take two releases: half octaves of norms, and how many records lie outside.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .blocks.histograms import (
    HALF_OCTAVES,
    MOST_ROWS,
    NormQuery,
    OutsideQuery,
)
from .blocks.region import Region
from .bounds import Found, radius, refuse_few, refuse_lost, share_outside
from .budget import Allowance, Part
from .core import Release, Stage
from .ground import Ground
from .linalg import Array
from .parameters import TARGET, Wanted
from .run import given

# Of what balls may spend.
_BALLS = {"norms": 0.8, "outside": 0.2}


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
        """The parts of the allowance spent here."""
        return ball_parts(len(self.widths), share) if self.needed else []

    def stages(self, ground: Ground) -> Generator[Stage, Release[Any], Ground]:
        """Generate the stages; the ground with these regions in place of its own."""
        return replace((yield from given(self._found(ground))), count=ground.count)

    def _found(self, ground: Ground) -> Generator[Stage, Release[Any], Ground]:
        regions, outside = self._given(), None
        if self.needed:
            parts = ("the features", TARGET)[: len(regions)]
            lacks = [region is None for region in regions]
            about = (ground.count, ground.weighted, ground.rows, ground.excess)
            wanted = Wanted(parts, lacks, *about, noun="")
            known = np.array([0.0 if region is None else region.radius for region in regions])
            found = yield from balls(wanted, self.widths, known, ground.allowance)
            regions = [
                region or Region.around_origin(radius, d)
                for region, radius, d in zip(regions, found.high.tolist(), self.widths, strict=True)
            ]
            outside = found.outside
        assert regions[0] is not None
        target = regions[1] if len(regions) > 1 else None
        return replace(ground, region=regions[0], target=target, outside=outside)


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
        refuse_few(wanted.excess * noise["norms"].price(query)[0].deviation, records, wanted)
    release = yield Stage(query, noise["norms"], "norms")
    counts, spread = release.statistics.counts, release.spread
    if wanted.weighted:
        records = max(float(counts.sum(axis=1).mean()), 1.0)
    seen = np.array([radius(part, spread, records) for part in counts])
    radii = np.where(wanted.found, np.where(seen > 0, seen, 1.0), known)
    about = OutsideQuery(widths, np.zeros(sum(widths)), radii)
    release = yield Stage(about, noise["outside"], "outside")
    refuse_few(spread, records, wanted)
    refuse_lost(seen == 0, wanted)
    return Found(-radii, radii, share_outside(release, records, wanted))
