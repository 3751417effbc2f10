"""How far records lie from the middle of one public Gaussian, as a profile.

A record's value is q/d, where q = |W (y - m)|^2 is the squared length of the record, pulled into
the region, in coordinates whitened by a public mean m and covariance (W'W is its inverse), and d
the number of columns: about one where the Gaussian fits, large in heavy tails. Sensitivity and
rounding of the profile: :mod:`privem.blocks.profile`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...blocks import conditions
from ...blocks.profile import ProfileQuery
from ...blocks.region import Region
from ...core import Block, Scratch
from ...tree import Array
from .model import Mixture


@dataclass(frozen=True)
class RadialQuery(ProfileQuery):
    """The profile of squared whitened lengths over the number of columns.

    Parameters
    ----------
    mixture : Mixture
        Of one component, in unit coordinates.
    region : Region
        Where records are pulled to first.
    grid : array of shape (J + 1,)
        Increasing.
    cap_weight : float
    """

    mixture: Mixture
    region: Region
    grid: Array
    cap_weight: float = 1.0
    block_rows: int = 4088
    travels = ("mixture", "region", "grid", "cap_weight")

    def values(self, block: Block, scratch: Scratch) -> Array:
        """Squared whitened lengths over d.

        Unit coordinates are a record's own (:meth:`Region.place`), and what follows are sums and
        products of single numbers in a fixed order: so are the values, wherever in a block it
        stands.
        """
        y = self.region.to_unit(block.X, scratch).T
        y -= self.mixture.means[0][:, None]
        whitener = self.mixture.whiteners[0]
        square, z, term = scratch.take("radial", (3, y.shape[1]))
        square[:] = 0.0
        with np.errstate(over="ignore", invalid="ignore"):
            for j, feature in enumerate(y):
                if whitener.ndim == 1:
                    np.multiply(feature, whitener[j], out=z)
                else:
                    z[:] = 0.0
                    for i in np.flatnonzero(whitener[j]):
                        np.multiply(y[i], whitener[j, i], out=term)
                        z += term
                np.multiply(z, z, out=term)
                square += term
        square /= len(y)
        return np.asarray(square)

    @property
    def value_error(self) -> float:
        """None: values are defined as they are computed."""
        return 0.0

    def check(self, d: int, private: bool) -> None:
        """Any one Gaussian: whatever it is, a record adds hats that sum to one."""
        self.mixture.check(d)
        conditions.need(len(self.mixture.means) == 1)
        self.region.check(d)
        self.check_profile()
