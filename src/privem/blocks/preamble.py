"""What every private fit does first: count the records, find the region; both may be given."""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri

from ..budget import Allowance, Part
from ..core import Release, Stage
from ..tree import Array
from .count import MOST_ROWS, CountQuery
from .private_bounds import PrivateBounds, bounds_parts
from .region import Region

__all__ = ["Ground", "Preamble"]

_COUNT_SHARE = 0.01
_BOUNDS_SHARE = 0.10
# Bounds get up to this share when there are few records for the noise.
_BOUNDS_MOST = 0.30
# How many noise deviations of a histogram the records must outnumber for the smaller share.
_BOUNDS_SIGNAL = 20.0


@dataclass(frozen=True)
class Ground:
    """What a private fit stands on: count, a bound on it, the region; and what is left to spend."""

    count: float
    rows: float
    region: Region
    found: Array | None
    allowance: Allowance


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

    def stages(
        self, allowance: Allowance, adaptive: bool
    ) -> Generator[Stage, Release[Any], Ground]:
        """Generate the stages. ``adaptive``: shares may be changed after the count."""
        count, rows = self.count, self.count
        if count is None or rows is None:
            noise = allowance.noise("count", MOST_ROWS if self.limit is None else self.limit)
            release = yield Stage(CountQuery(self.cap_weight, kind=self.kind), noise, "count")
            noisy, slack = float(release.statistics.count), release.spent[0].slack
            count = max(noisy, 1.0)
            rows = self._rows(noisy, slack, release.spread, allowance)
        if self.region is not None:
            return Ground(count, rows, self.region, None, allowance)
        if adaptive:
            allowance = self._more_for_bounds(allowance, count)
        bounds = PrivateBounds(self.d, rows, allowance, self.isotropic)
        region, found = yield from bounds.stages()
        return Ground(count, rows, region, found, allowance)

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
