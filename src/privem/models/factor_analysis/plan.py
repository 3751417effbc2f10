"""Mean and covariance of all records, for factor analysis, exactly or privately.

*Exactly*: as a matrix, or as its square root. With n rows of d columns, n < d, the d x d covariance
A has no more than n directions. They are found from sums as well (Halko, Martinsson and Tropp
2011): A times a few more random vectors than rows spans all of them, but for a chance of zero; with
Q an orthonormal basis of that, A = Q (Q'AQ) Q'. Two passes, O(n^2 d) time and O(n d) memory, as by
the n x n Gram matrix of the rows. That one would need the rows themselves in one place, and pairs
of rows of different parties. Columns are divided by their deviations meanwhile, so that columns of
small numbers keep their digits.

*Privately*: the second moment is released once or twice; every iteration after it is free.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...blocks.krylov import ProductsQuery
from ...blocks.moments import Frame, FramePlan
from ...blocks.sensitivity import MomentWeights
from ...blocks.shrinkage import clip_radius, consistency
from ...budget import Allowance, Part
from ...core import Release, Stage
from ...ground import Ground, Preamble, PrivateFit
from ...noise.exact import Exact
from ...tape import held
from ...tree import Array
from ..gaussian_mixture.frame import frame_parts
from ..gaussian_mixture.log_density import MOST_ASKED, background_part, background_weight
from ..gaussian_mixture.model import Mixture
from ..gaussian_mixture.query import BoundedQuery
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
_FRAME_SHARES = (0.3, 0.7)
# A second look, in the frame of the first, is worth its budget where the noise of each of its
# numbers is below this, against variances of about one (measured in experiments/factors).
_SHARP = 0.7


# The mean in the data's coordinates, and what follows from the covariance.
Factors = tuple[Array, FactorFit]


@dataclass(frozen=True)
class PrivateCovariancePlan:
    """Count, bounds, and mean and covariance.

    ``"joint"`` is one release about the region's centre; ``"whitened"`` is two, the
    second in the frame of the first: more accurate where the region is much wider than the data and
    the noise is small. ``"auto"`` looks once, and then decides from the noise level alone whether
    to look closer or to repeat the same look and average, which is as good as one of both budgets.
    ``steps``: what follows the covariance, and is free. ``background``: whether the fit asks how
    large a uniform background should be; ``"auto"``: if it is not ``"joint"``, up to so many
    columns that asking takes less time than the moments do.
    """

    preamble: Preamble
    recipe: str
    steps: FactorSteps
    background: bool | str = "auto"

    def parts(self) -> list[Part]:
        """How the budget is shared out."""
        d, left = self.preamble.d, 1.0 - self.preamble.share()
        size = 1 + d + d * (d + 1) // 2
        shares = (1.0,) if self.recipe == "joint" else _FRAME_SHARES
        parts = self.preamble.parts()
        if self._above:
            parts.append(background_part(left))
            left -= parts[-1].share
        return parts + frame_parts(left, shares, [size] * len(shares))

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
        auto = self.recipe == "auto"
        closer = self.recipe == "whitened" or (auto and held(lambda: self._sharp(ground)))
        moments = yield from self._look(ground, "frame 1")
        if self.recipe != "joint" and not closer:
            moments = moments.averaged((yield from self._look(ground, "frame 2")))
        # Records spread evenly over a box have a third of its half width squared as variance.
        even = region.reach**2 / region.d / 3
        mean, covariance = moments.gaussian(even, 1e-6 * even, region.reach**2)
        if closer:
            frame = held(lambda: (mean, covariance))
            mean, covariance = yield from self._closer(ground, *frame)
        mean = region.to_data(region.inside(mean[None])[0])
        covariance = covariance * np.outer(region.scale, region.scale)
        fit, weight = self.steps.fit(Whole(covariance), ground.count), 0.0
        if self._above:
            shape = fit.components.T @ fit.components + np.diag(fit.noise_variance)
            mixture = Mixture("full", np.ones(1), mean[None], shape[None])
            weight = yield from background_weight(mixture, ground)
        return PrivateFit((mean, fit), ground, background=weight)

    def _sharp(self, ground: Ground) -> bool:
        """Whether a look in the frame of an earlier one sees more than noise; needs no data."""
        d = self.preamble.d
        w = MomentWeights.balanced(d, clip_radius(d), count=False)
        sensitivity = w.l2(ground.allowance.neighbours) * self.preamble.cap_weight
        deviation = ground.allowance.multiplier("frame 2") * sensitivity / (w.w2 * ground.count)
        return deviation < _SHARP

    def _look(self, ground: Ground, part: str) -> Generator[Stage, Release[Any], NoisyMoments]:
        """The moments in unit coordinates: nothing is clipped but to the region."""
        w = MomentWeights.balanced(self.preamble.d, ground.region.reach, count=False)
        query = BoundedMomentsQuery(ground.region, w, self.preamble.cap_weight)
        release = yield ground.stage(query, part)
        return NoisyMoments.of(release, w, ground.count)

    def _closer(
        self, ground: Ground, centre: Array, covariance: Array
    ) -> Generator[Stage, Release[Any], tuple[Array, Array]]:
        """The moments again, in coordinates whitened by what is known already."""
        d = self.preamble.d
        r = clip_radius(d)
        w = MomentWeights.balanced(d, r, count=False)
        mixture = Mixture("full", np.ones(1), centre[None], covariance[None])
        query = BoundedQuery(
            mixture, ground.region, w, "whitened", ground.rows, self.preamble.cap_weight
        )
        release = yield ground.stage(query, "frame 2")
        moments = NoisyMoments.of(release, w, ground.count)
        mean, white = moments.gaussian(1.0, 0.02, 1e3, consistency(d, r))
        lower = np.linalg.cholesky(covariance)
        return centre + lower @ mean, lower @ white @ lower.T
