"""Mean and covariance of all records, for factor analysis, exactly or privately.

*Exactly*: as a matrix, or as its square root. With n rows of d columns, n < d, the d x d covariance
A has no more than n directions. They are found from sums as well (Halko, Martinsson and Tropp
2011): A times a few more random vectors than rows spans all of them, but for a chance of zero; with
Q an orthonormal basis of that, A = Q (Q'AQ) Q'. Two passes, O(n^2 d) time and O(n d) memory, as by
the n x n Gram matrix of the rows. That one would need the rows themselves in one place, and pairs
of rows of different parties. Columns are divided by their deviations meanwhile, so that columns of
small numbers keep their digits.

*Privately*: one private Gaussian, or the second moment once; every iteration after it is free.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...blocks.krylov import ProductsQuery
from ...blocks.moments import Frame, FramePlan
from ...blocks.sensitivity import MomentWeights
from ...budget import Allowance, Part
from ...core import Release, Stage
from ...ground import Ground, Preamble, PrivateFit
from ...linalg import Array
from ...noise.exact import Exact
from ...run import given
from ..gaussian_mixture.density import MOST_ASKED, background_part, background_weight
from ..gaussian_mixture.frame import (
    LOOKS,
    PrivateGaussian,
    for_columns,
    frame_size,
    gaussian_parts,
)
from ..gaussian_mixture.model import Mixture
from .model import Covariance, FactorFit, FactorSteps, LowRank, Whole
from .query import BoundedMomentsQuery, NoisyMoments

# Vectors more than rows, so that a random square matrix, which may be nearly singular, is none.
_SPARE = 8
# So many products are asked for in a pass: what is asked and answered stays small.
_AT_ONCE = 256


@dataclass(frozen=True)
class CovariancePlan:
    """The frame, and the covariance in the form that is smaller.

    Parameters
    ----------
    names : sequence of str
        One per column.
    """

    names: Sequence[str]

    def stages(self) -> Generator[Stage, Release[Any], tuple[Frame, Covariance]]:
        """Generate the stages."""
        whole_from = len(self.names) - _SPARE
        frame = yield from FramePlan(self.names, whole_from=whole_from).stages()
        if frame.rows >= whole_from:
            return frame, Whole(frame.covariance)
        return frame, (yield from self._low_rank(frame))

    def _low_rank(self, frame: Frame) -> Generator[Stage, Release[Any], LowRank]:
        unit = np.sqrt(frame.variances)
        unit = np.where(unit > 0, unit, 1.0)
        shape = (int(frame.rows) + _SPARE, len(unit))
        vectors = np.random.default_rng(0).standard_normal(shape)
        reached = yield from self._products(frame, vectors, unit)
        basis = np.ascontiguousarray(np.linalg.qr(reached.T)[0].T)
        image = yield from self._products(frame, basis, unit)
        projected = image @ basis.T
        values, turn = np.linalg.eigh((projected + projected.T) / 2)
        factor = (turn * np.sqrt(np.maximum(values, 0.0))).T @ basis
        return LowRank(factor * unit)

    @staticmethod
    def _products(
        frame: Frame, vectors: Array, unit: Array
    ) -> Generator[Stage, Release[Any], Array]:
        """The covariance of columns divided by ``unit``, times vectors (k, d)."""
        mean, parts = frame.mean[None], []
        for at in range(0, len(vectors), _AT_ONCE):
            query = ProductsQuery(mean, mean, (vectors[at : at + _AT_ONCE] / unit)[None])
            release = yield Stage(query, Exact(), "covariance")
            parts.append(release.statistics.products[0] / (frame.count * unit))
        return np.concatenate(parts)


FACTOR_RECIPES = {"whitened": "gaussian", "joint": "gaussian"}

# The mean in the data's coordinates, and what follows from the covariance.
Factors = tuple[Array, FactorFit]


@dataclass(frozen=True)
class PrivateCovariancePlan:
    """Count, bounds, and mean and covariance.

    ``"joint"`` is one release about the region's centre; ``"whitened"`` is the private Gaussian of
    :mod:`privem.models.gaussian_mixture.frame`. ``steps``: what follows the covariance, and is
    free. ``background``: whether the fit asks how large a uniform background should be; ``"auto"``:
    if it is not ``"joint"``, up to so many columns that asking takes less time than the moments do.
    """

    preamble: Preamble
    recipe: str
    steps: FactorSteps
    background: bool | str = "auto"

    def parts(self) -> list[Part]:
        """How the budget is shared out."""
        d, left = self.preamble.d, 1.0 - self.preamble.share()
        parts = self.preamble.parts()
        if self._above:
            parts.append(background_part(left))
            left -= parts[-1].share
        if self.recipe != "joint":
            parts += (frame := gaussian_parts(left, d))
            left -= sum(part.share for part in frame)
        looks = 1 if self.recipe == "joint" else LOOKS
        return [*parts, Part("em", left, [("gaussian", frame_size(d, False))] * looks)]

    @property
    def _above(self) -> bool:
        """Whether the density lies above a background."""
        if self.background == "auto":
            return self.recipe != "joint" and self.preamble.d <= MOST_ASKED
        return bool(self.background)

    def stages(self, allowance: Allowance) -> Generator[Stage, Release[Any], PrivateFit[Factors]]:
        """Generate the stages."""
        ground = yield from self.preamble.stages(allowance)
        region = ground.region
        found = self._joint(ground) if self.recipe == "joint" else self._gaussian(ground)
        mean, covariance = yield from found
        mean = region.to_data(region.inside(mean[None])[0])
        covariance = covariance * np.outer(region.scale, region.scale)
        fit, weight = self.steps.fit(Whole(covariance), ground.count), 0.0
        if self._above:
            shape = fit.components.T @ fit.components + np.diag(fit.noise_variance)
            mixture = Mixture("full", np.ones(1), mean[None], shape[None])
            weight = yield from background_weight(mixture, ground)
        return PrivateFit((mean, fit), ground, background=weight)

    def _gaussian(self, ground: Ground) -> Generator[Stage, Release[Any], tuple[Array, Array]]:
        gaussian = PrivateGaussian(for_columns(ground), background=self._above)
        known = yield from given(gaussian.stages())
        known = yield from gaussian.refine(known, looks=gaussian.looks(known))
        return known.mean, known.covariance

    def _joint(self, ground: Ground) -> Generator[Stage, Release[Any], tuple[Array, Array]]:
        """The moments in unit coordinates: nothing is clipped but to the region."""
        region = ground.region
        w = MomentWeights.balanced(region.d, region.reach, count=False)
        query = BoundedMomentsQuery(region, w, self.preamble.cap_weight)
        release = yield ground.stage(query, "em")
        # Records spread evenly over a box have a third of its half width squared as variance.
        even = region.reach**2 / region.d / 3
        moments = NoisyMoments.of(release, w, ground.count)
        return moments.gaussian(even, 1e-6 * even, region.reach**2)
