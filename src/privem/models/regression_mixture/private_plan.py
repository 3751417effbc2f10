"""Private mixtures of regressions: count, bounds, one Gaussian of (x, y), directions, EM."""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...blocks.region import Region
from ...blocks.sensitivity import MomentWeights
from ...blocks.shrinkage import clip_radius
from ...budget import Allowance, Part
from ...core import Release, Stage
from ...ground import Ground, Preamble
from ...tree import Array
from ..gaussian_mixture.gaussian import PrivateGaussian
from ..gaussian_mixture.private_plan import MOST_ITERATIONS, Structure, choose
from .directions import ResidualDirections, apart_along
from .model import Bounded, RegressionMixtureModel, Regressions
from .plan import given, one_regression, spread

__all__ = ["PrivateRegressionsFit", "PrivateRegressionsPlan"]

_FRAME_SHARE = (0.05, 0.10)
_START_SHARE = 0.10
# Iterations reserved for when neither the caller nor the noise level can say.
_ITERATIONS = 10
# Smallest variance, in units of the target's half range.
_FLOOR = 1e-6
# Where the noise allows fewer iterations than this, one regression predicts better (measured).
_FEWEST = 5
# Looks at a single regression.
_SINGLE = 3
# Records are pulled onto a ball beyond which one in exp(tail) lies: further in where noise is each
# person's own, and so large that what clipping costs is nothing beside it (measured).
_TAIL, _LOCAL_TAIL = 3.0, 0.1


@dataclass(frozen=True)
class PrivateRegressionsFit:
    """Weights (K,), slopes (K, d), intercepts (K,), variances (K,) in the data's units. Public."""

    weights: Array
    slopes: Array
    intercepts: Array
    variances: Array
    structure: Structure
    ground: Ground


@dataclass(frozen=True)
class PrivateRegressionsPlan:
    """A fit in the unit coordinates of the joined region of (x, y).

    Parameters
    ----------
    preamble : Preamble
        Of d + 1 columns, the target last.
    sides : pair of arrays or None
        Bounds that are known where the preamble has to look for others: NaN where not.
    start : (weights, slopes, intercepts, variances) or None
        In the data's units; counts as public.
    local : bool
        Whether noise is each person's own (:mod:`privem.local`).
    max_iter : int
        Maximum number of iterations, if ``n_iter`` does not say how many.
    """

    preamble: Preamble
    components: int
    n_iter: int | None
    rng: np.random.Generator
    sides: tuple[Array, Array] | None = None
    start: tuple[Array, Array, Array, Array] | None = None
    local: bool = False
    max_iter: int = MOST_ITERATIONS

    def parts(self) -> list[Part]:
        """How the budget is shared out."""
        q, left, k = self.preamble.d, 1.0 - self.preamble.share(), self.components
        pairs = q * (q + 1) // 2
        shares = {f"frame {i}": s for i, s in enumerate(_FRAME_SHARE, start=1)}
        parts = [Part(n, left * s, [("gaussian", 1 + q + pairs)]) for n, s in shares.items()]
        if k > 1 and self.start is None:
            parts.append(Part("residuals", left * _START_SHARE, [("gaussian", pairs)]))
        left -= sum(part.share for part in parts)
        releases = [("gaussian", k * (1 + q + pairs))] * self._planned
        return [*self.preamble.parts(), *parts, Part("em", left, releases)]

    def stages(self, allowance: Allowance) -> Generator[Stage, Release[Any], PrivateRegressionsFit]:
        """Generate the stages."""
        ground = yield from self.preamble.stages(allowance)
        ground = self._with_known(ground)
        region, q, cap = ground.region, self.preamble.d, self.preamble.cap_weight
        frame = PrivateGaussian(region, ground.count, ground.rows, ground.allowance, cap)
        mean, covariance = yield from frame.stages()
        one = one_regression(mean, covariance, _FLOOR)
        w = MomentWeights.balanced(q, clip_radius(q, _LOCAL_TAIL if self.local else _TAIL))
        bounded = Bounded(region, w, cap)
        structure = self._structure(w, ground)
        if self.components == 1 or (structure.single and self.start is None):
            # One regression (or noise that drowns any mixture): measured with all that is left.
            left = min(_SINGLE, self.max_iter) if allowance.adaptive else self._planned
            structure = replace(structure, single=True, iterations=left)
            single = self._all_for_em(ground) if allowance.adaptive else ground
            state = yield from self._em(one, bounded, single, left)
        else:
            start = yield from self._start(one, ground)
            state = yield from self._em(start, bounded, ground, structure.iterations)
        return self._in_data(state, structure, ground)

    def _with_known(self, ground: Ground) -> Ground:
        """The ground with those bounds that were known put back."""
        if self.sides is None or ground.found is None:
            return ground
        region = ground.region
        low, high = region.to_data(-region.limit), region.to_data(region.limit)
        missing = np.isnan(self.sides[0])
        low, high = (np.where(missing, f, s) for f, s in zip((low, high), self.sides, strict=True))
        return replace(ground, region=Region.box(low, high), found=ground.found | ~missing)

    def _structure(self, w: MomentWeights, ground: Ground) -> Structure:
        noise = w.l2(ground.allowance.neighbours) * ground.allowance.multiplier("em", 1) / w.w2
        k, q = self.components, self.preamble.d
        found = choose("full", k, q, ground.count, noise, self.n_iter)
        if self.n_iter is None and found.iterations < _FEWEST:
            found = replace(found, single=True)
        adaptive = ground.allowance.adaptive
        iterations = min(found.iterations, self.max_iter) if adaptive else self._planned
        return replace(found, iterations=iterations)

    @property
    def _planned(self) -> int:
        """Iterations where their number may not depend on the count."""
        return self.n_iter or min(_ITERATIONS, self.max_iter)

    @staticmethod
    def _all_for_em(ground: Ground) -> Ground:
        """What the residuals' directions would have cost goes to EM as well."""
        parts = {part.name: part for part in ground.allowance.parts}
        saved, em = parts.pop("residuals", None), parts["em"]
        if saved is not None:
            parts["em"] = replace(em, share=em.share + saved.share)
        return replace(ground, allowance=replace(ground.allowance, parts=tuple(parts.values())))

    def _start(
        self, one: Regressions, ground: Ground
    ) -> Generator[Stage, Release[Any], Regressions]:
        region, k = ground.region, self.components
        if self.start is not None:
            return given(one, *_to_unit(self.start, region))
        query = ResidualDirections(one, region, self.preamble.cap_weight)
        noise = ground.allowance.noise("residuals", ground.rows)
        release = yield Stage(query, noise, "residuals")
        blur = max(release.spread, 0.25 * math.sqrt(ground.count))
        axes = apart_along(release.statistics.second, self.preamble.d, k, blur)
        return spread(one, axes, k, self.rng)

    def _em(
        self,
        state: Regressions,
        bounded: Bounded,
        ground: Ground,
        iterations: int,
    ) -> Generator[Stage, Release[Any], Regressions]:
        """EM, and the mean of the second half of the iterates."""
        model = RegressionMixtureModel(_FLOOR, bounded, ground.count)
        late: list[Regressions] = []
        for t in range(iterations):
            noise = ground.allowance.noise("em", ground.rows, iterations)
            state = model.m_step(state, (yield Stage(model.query(state), noise, f"EM {t + 1}")))
            if t >= iterations // 2:
                late.append(state)
        return replace(
            state,
            weights=np.mean([s.weights for s in late], axis=0),
            coefficients=np.mean([s.coefficients for s in late], axis=0),
            variances=np.mean([s.variances for s in late], axis=0),
        )

    def _in_data(
        self, state: Regressions, structure: Structure, ground: Ground
    ) -> PrivateRegressionsFit:
        region, k = ground.region, self.components
        slopes, intercepts = state.in_data()
        x, y = region.scale[:-1], float(region.scale[-1])
        slopes = slopes * (y / x)
        intercepts = region.centre[-1] + y * intercepts - slopes @ region.centre[:-1]
        weights, variances = state.weights / state.weights.sum(), y**2 * state.variances
        if len(weights) < k:
            weights, variances = np.full(k, 1 / k), np.repeat(variances, k)
            slopes, intercepts = np.repeat(slopes, k, axis=0), np.repeat(intercepts, k)
        return PrivateRegressionsFit(weights, slopes, intercepts, variances, structure, ground)


def _to_unit(
    start: tuple[Array, Array, Array, Array], region: Region
) -> tuple[Array, Array, Array, Array]:
    weights, slopes, intercepts, variances = start
    y = float(region.scale[-1])
    first = (intercepts + slopes @ region.centre[:-1] - region.centre[-1]) / y
    # Within what an M-step may lead to.
    slopes = np.clip(slopes * (region.scale[:-1] / y), -1e6, 1e6)
    return weights, slopes, np.clip(first, -1e6, 1e6), np.clip(variances / y**2, _FLOOR, 4.0)
