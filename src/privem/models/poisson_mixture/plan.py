"""How mixtures of Poisson distributions are fitted, exactly and privately."""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.stats import truncnorm

from ...blocks.moments import FramePlan
from ...blocks.region import Region
from ...blocks.sensitivity import MomentWeights
from ...blocks.shrinkage import clip_radius
from ...budget import Allowance, Iterated, Part
from ...core import Release, Stage
from ...em import ExactEM, Fit, PrivateEM, gains_less
from ...ground import ALL_ALIKE, Ground, Preamble, PrivateFit, without_evidence
from ...run import given, held
from ..gaussian_mixture.frame import PrivateGaussian, for_columns, frame_size, gaussian_parts
from ..gaussian_mixture.known import Known
from ..gaussian_mixture.model import Mixture
from ..gaussian_mixture.query import BoundedQuery, BoundedSums
from ..kmeans.grid import MOST_CELLS
from ..kmeans.plan import SplitStart
from .model import FLOOR, PoissonModel, Poissons, PrivatePoissonModel
from .start import Restarts, from_grid

# Of what count, bounds and frame leave.
_GRID_SHARE = 0.1
# The mean of all records is clipped so much wider than the frame is: groups may lie far apart.
_WIDER = 2.0
# So much log-likelihood may be lost to noise on the rates of one component, rather than clipped.
_LOSS = 0.1
# Of one component's budget, for the second look.
_LAST = 0.7
# More than what was in doubt is believed if so many deviations of noise say so.
_SURE = 4.0
# Of the sensitivity, for squared lengths.
_SQUARE_SHARE = 0.05
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
    """Count, bounds, one Gaussian, a grid to start from, EM; the mean of the second half.

    One component needs the mean of all records only, measured with all that the frame leaves.
    """

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
        parts = [*self.preamble.parts(), *frame]
        if k > 1:
            parts.append(Part("grid", left * _GRID_SHARE, [("gaussian", MOST_CELLS)]))
            left *= 1 - _GRID_SHARE
        # One component asks for 1 + 2 d numbers.
        numbers = max(k * (2 + d), frame_size(d, True))
        return [*parts, Part("em", left, [("gaussian", numbers)] * self.planned)]

    def ruled_out(self, ground: Ground) -> str | None:
        """Why so many components are too many for the noise, if they are; from that alone."""
        _, single = self._iterations(self._weights, for_columns(ground))
        return ALL_ALIKE if single and self.components > 1 else None

    @property
    def _weights(self) -> MomentWeights:
        return MomentWeights.with_square(clip_radius(self.preamble.d), _SQUARE_SHARE)

    def stages(self, allowance: Allowance) -> Generator[Stage, Release[Any], PrivateFit[Poissons]]:
        """Generate the stages."""
        ground = yield from self.preamble.stages(allowance)
        ground = for_columns(replace(ground, region=where_counts_lie(ground.region)))
        frame = yield from given(PrivateGaussian(ground).stages())
        weights = self._weights
        model = PrivatePoissonModel(ground.region, weights, ground.cap_weight, ground.count)
        iterations, single = held(lambda: self._iterations(weights, ground))
        if single and iterations == 2 and self.n_iter is None and ground.allowance.adaptive:
            state = yield from self._one(frame, model, ground)
        else:
            k = 1 if single else self.components
            state = yield from self._em(frame, k, iterations, model, ground)
        lost = () if single else without_evidence(state.evidence)
        structure = "single" if single and self.components > 1 else "full"
        return PrivateFit(self._repeated(state), ground, iterations, structure, lost=lost)

    def _one(
        self, frame: Known, model: PrivatePoissonModel, ground: Ground
    ) -> Generator[Stage, Release[Any], Poissons]:
        """One component: the mean of all records.

        They are clipped in units of the frame's deviations, and then once more. Noise on rates
        costs most where these are small: so units are then at most so many times what the rates
        alone explain, as many as keep the expected loss of log-likelihood, half a squared relative
        noise a column, small.
        """
        allowance = ground.allowance.merged("em", "grid")
        ground, d = replace(ground, allowance=allowance), self.preamble.d
        region, most, r = ground.region, math.inf, clip_radius(d)
        centre, doubt = frame.mean, frame.mean_variances
        w = MomentWeights(0.0, 1 / r, 0.0, r)
        for releases in (1 / (1 - _LAST), 1 / _LAST):
            least = np.maximum(model.valid(np.ones(1), region.to_data(centre[None])).rates[0], 1.0)
            least /= region.scale**2
            wide = _WIDER**2 * np.diag(frame.covariance)
            variances = np.clip(wide, least, most**2 * least)
            about = Mixture("diag", np.ones(1), centre[None], variances[None])
            query = BoundedQuery(about, region, w, "whitened", ground.rows, ground.cap_weight)
            release = yield Stage(query, ground.noise("em", releases), "em")
            sums: BoundedSums = release.statistics
            noise = release.spread / (w.w1 * ground.count)
            asked: Mixture = release.query.mixture
            units = np.sqrt(asked.covariances[0])
            step = asked.means[0] + units * sums.total[0] / (w.w1 * ground.count) - centre
            # Believed in proportion; more than the doubt only where it stands out of all noise.
            error = (units * noise) ** 2
            doubt = np.maximum(doubt, step**2 - _SURE**2 * error)
            gain = doubt / (doubt + error)
            centre, doubt = region.inside((centre + gain * step)[None])[0], (1 - gain) * doubt
            most = max(math.sqrt(2 * _LOSS / d / (1 / _LAST - 1)) / noise, 1.0)
        # Rates that may be far lower or higher are not: they lie in the region.
        off = np.maximum(np.sqrt(doubt), 1e-9)
        ends = (-region.limit - centre) / off, (region.limit - centre) / off
        centre = np.clip(truncnorm.mean(*ends, centre, off), -region.limit, region.limit)
        return model.valid(np.ones(1), region.to_data(centre[None]))

    def _em(
        self,
        frame: Known,
        k: int,
        iterations: int,
        model: PrivatePoissonModel,
        ground: Ground,
    ) -> Generator[Stage, Release[Any], Poissons]:
        """A mixture of k components."""
        region = ground.region
        if k == 1:
            start = model.valid(np.ones(1), region.to_data(region.inside(frame.mean[None])))
        else:
            known = (frame.mean, frame.covariance, k, ground, self.rng)
            found = yield from given(from_grid(*known))
            start = model.valid(found.weights, found.rates)
        noise, path = ground.noise("em", iterations), Restarts(start, iterations, self.rng)
        return (yield from PrivateEM(model, start, iterations, lambda t: noise, path).stages())

    def _iterations(self, weights: MomentWeights, ground: Ground) -> tuple[int, bool]:
        """How many, and whether the noise drowns any mixture; from the noise level alone."""
        allowance, k = ground.allowance, self.components
        moved = weights.l2(allowance.neighbours) * ground.cap_weight / weights.w0
        level = allowance.multiplier("em", 1) * moved * k / ground.count
        single = k == 1 or level > _DROWNED
        if self.n_iter is not None or not allowance.adaptive:
            return self.planned, single
        if single:
            return min(2, self.max_iter), True
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
