"""How mixtures of Poisson distributions are fitted, exactly and privately."""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...blocks.moments import FramePlan
from ...blocks.region import Region
from ...blocks.sensitivity import MomentWeights
from ...blocks.shrinkage import clip_radius
from ...budget import Allowance, Iterated, Part
from ...core import Release, Stage
from ...em import ExactEM, Fit, LateMean, PrivateEM, gains_less
from ...ground import Ground, Preamble, PrivateFit
from ...tape import given, held
from ..gaussian_mixture.frame import PrivateGaussian, gaussian_parts, pack
from ..kmeans.plan import SplitStart
from .model import FLOOR, PoissonModel, Poissons, PrivatePoissonModel

# Of what the count and the bounds leave.
# More iterations than this never helped.
_MOST = 20
# A component's share of the records is to be known to this part of itself in each iteration.
_LEVEL = 0.1
# Where one release with all of EM's budget would not tell it from this part, one rate serves all.
_DROWNED = 0.5


@dataclass(frozen=True)
class PoissonPlan:
    """Frame, a start by splitting clusters, EM; the best of several runs."""

    names: Sequence[str]
    components: int
    max_iter: int
    tol: float
    n_init: int
    rng: np.random.Generator

    def stages(self) -> Generator[Stage, Release[Any], Fit[Poissons]]:
        """Generate the stages."""
        k, best = self.components, None
        frame = yield from FramePlan(self.names, min_rows=k).stages()
        for run in range(self.n_init):
            start = SplitStart(frame, k, self.rng if run else None)
            centres = (yield from start.stages()).centres
            state = Poissons(np.full(k, 1 / k), np.maximum(centres, FLOOR))
            em = ExactEM(PoissonModel(), state, self.max_iter, gains_less(self.tol))
            fit = yield from em.stages()
            best = fit if best is None or fit.objective > best.objective else best
        assert best is not None
        return best


@dataclass(frozen=True)
class PrivatePoissonPlan(Iterated):
    """Count, bounds, one Gaussian to start from, EM; the mean of the second half."""

    preamble: Preamble
    components: int
    n_iter: int | None
    max_iter: int
    rng: np.random.Generator

    def parts(self) -> list[Part]:
        """How the budget is shared out."""
        d, k, left = self.preamble.d, self.components, 1.0 - self.preamble.share()
        frame = gaussian_parts(left, d)
        left -= sum(part.share for part in frame)
        releases = [("gaussian", k * (1 + d))] * self.planned
        return [*self.preamble.parts(), *frame, Part("em", left, releases)]

    def stages(self, allowance: Allowance) -> Generator[Stage, Release[Any], PrivateFit[Poissons]]:
        """Generate the stages."""
        ground = yield from self.preamble.stages(allowance)
        ground = replace(ground, region=where_counts_lie(ground.region))
        region, cap = ground.region, ground.cap_weight
        known = yield from given(PrivateGaussian(ground).stages())
        weights = MomentWeights.without_second(clip_radius(self.preamble.d))
        model = PrivatePoissonModel(region, weights, cap, ground.count)
        iterations, single = held(lambda: self._iterations(weights, ground))
        k = 1 if single else self.components
        mean, covariance = known.mean, known.covariance
        points = held(lambda: pack(mean, covariance, k, self.rng)) if k > 1 else mean[None]
        start = model.valid(np.full(k, 1 / k), region.to_data(region.inside(points)))
        noise = ground.noise("em", iterations)
        path = LateMean(start, iterations, "weights", "rates")
        em = PrivateEM(model, start, iterations, lambda t: noise, path)
        state = yield from em.stages()
        structure = "single" if single else "full"
        return PrivateFit(self._repeated(state), ground, iterations, structure)

    def _iterations(self, weights: MomentWeights, ground: Ground) -> tuple[int, bool]:
        """How many, and whether the noise drowns any mixture; from the noise level alone."""
        allowance, k = ground.allowance, self.components
        moved = weights.l2(allowance.neighbours) * ground.cap_weight / weights.w0
        level = allowance.multiplier("em", 1) * moved * k / ground.count
        single = k > 1 and level > _DROWNED
        if self.n_iter is not None or not allowance.adaptive:
            return self.planned, single
        most = min(self.max_iter, _MOST)
        return int(np.clip((_LEVEL / level) ** 2, min(4, most), most)), single

    def _repeated(self, state: Poissons) -> Poissons:
        """As many components as were asked for, all alike where there is one."""
        k = self.components
        if len(state.weights) == k:
            return Poissons(state.weights / state.weights.sum(), state.rates)
        return Poissons(np.full(k, 1 / k), np.repeat(state.rates, k, axis=0))


def where_counts_lie(region: Region) -> Region:
    """The part of a region in which counts can lie, and whose log-densities are computed well."""
    low, high = region.sides
    high = np.clip(high, 1.0, largest_count(len(high)))
    return Region.box(np.clip(low, 0.0, high - 0.5), high)


def largest_count(d: int) -> float:
    """The largest count in d columns for which rounding has a bound.

    A log joint density has d terms of at most 22 times a count; rounded, their sum must be off by
    less than an eighth (:meth:`~.model.BoundedPoissonQuery.rounding`).
    """
    return min(1e9, math.floor(2e13 / (d * (d + 16))))
