"""The background of a model: a uniform density on a region, beneath the model's own.

With weight w and volume V, the density of a record x in the region is ``(1 - w) p(x) + w / V``. It
is the noise component of Banfield and Raftery 1993 (and of mclust): records that no component
explains are explained by the background, and no record in the region is impossible.

Outside the region a uniform density is zero, so records are clamped to the region first.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..core import Scratch
from ..tree import Array
from .conditions import need
from .region import Region


@dataclass(frozen=True)
class Background:
    """Weight, above zero and below one, and region.

    Examples
    --------
    >>> half = Background(0.5, Region.box(np.zeros(2), np.full(2, 2.0)))
    >>> np.exp(half.beneath(np.log([1.0, 0.0]))).tolist()
    [0.625, 0.125]
    """

    weight: float
    region: Region
    travels = ("weight", "region")

    @cached_property
    def level(self) -> float:
        """Its log joint density, the same everywhere: log(w / V)."""
        return math.log(self.weight) - self.region.log_volume

    @cached_property
    def log_rest(self) -> float:
        """What it leaves to the model: log(1 - w)."""
        return math.log1p(-self.weight)

    def beneath(self, log_density: Array) -> Array:
        """Log-densities of records in the region, from those under the model alone."""
        return np.asarray(np.logaddexp(log_density + self.log_rest, self.level))

    def clamped(self, rows: Array, scratch: Scratch) -> Array:
        """Records (b, d) pulled into the region, in working memory."""
        x = scratch.take("clamped", rows.T.shape)
        x[:] = rows.T
        self.region.clamp(x)
        return x.T

    def check(self, d: int) -> None:
        """A weight, and a region of d columns."""
        need(0 < self.weight < 1)
        self.region.check(d, data=True)
