"""How mixtures of regressions are fitted, exactly and privately.

Both look where the records lie, fit one regression to all of them, ask in which directions its
residuals grow, and start EM from regressions apart along those.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...blocks.bounded_sums import NO_CAP
from ...blocks.moments import FramePlan
from ...blocks.region import Region
from ...blocks.sensitivity import MomentWeights
from ...blocks.shrinkage import clip_radius
from ...budget import Allowance, Iterated, Part
from ...core import Release, Stage
from ...em import ExactEM, Fit, LateMean, PrivateEM, gains_less
from ...ground import Ground, Preamble, PrivateFit
from ...linalg import Array, floor_eigenvalues, invert_cholesky
from ...noise.exact import Exact
from ...run import given, held
from ..gaussian_mixture.frame import PrivateGaussian, gaussian_parts
from ..gaussian_mixture.start import pack
from ..gaussian_mixture.structure import MOST_ITERATIONS, Structure, choose
from .directions import ResidualDirections, apart_along
from .model import Bounded, RegressionMixtureModel, Regressions

# Smallest variance of a component, of the target's.
_FLOOR = 1e-8
_START_SHARE = 0.10
# Smallest variance, in units of the target's half range.
_UNIT_FLOOR = 1e-9
# Where the noise allows fewer iterations than this, one regression predicts better (measured).
_FEWEST = 5
# Looks at a single regression.
_SINGLE = 3
# Records are pulled onto a ball beyond which one in exp(tail) lies: further in where noise is each
# person's own, and so large that what clipping costs is nothing beside it (measured).
_TAIL, _LOCAL_TAIL = 3.0, 0.1


def one_regression(mean: Array, covariance: Array, floor: float) -> Regressions:
    """The regression of the last column on the others, from mean and covariance of all."""
    d = len(mean) - 1
    within = covariance[:d, :d]
    size = max(float(np.trace(within)) / max(d, 1), 1e-300)
    floors = np.maximum(1e-6 * np.diag(within), 1e-12 * size)
    whitener = invert_cholesky(floor_eigenvalues(within, floors))
    slope = whitener @ covariance[:d, d]
    left = float(covariance[d, d] - slope @ slope)
    coefficients = np.concatenate([mean[d:], slope])[None]
    return Regressions(np.ones(1), coefficients, np.array([max(left, floor)]), whitener, mean[:d])


def spread(one: Regressions, axes: Array, k: int, rng: np.random.Generator) -> Regressions:
    """K regressions about one, apart along ``axes`` by about its deviation."""
    m = axes.shape[1]
    points = pack(np.zeros(m), np.eye(m), k, rng, width=0.8 / math.sqrt(m))
    deviation = math.sqrt(one.variances[0])
    coefficients = one.coefficients + deviation * points @ axes.T
    variances = np.full(k, 0.5 * one.variances[0])
    return Regressions(np.full(k, 1 / k), coefficients, variances, one.whitener, one.centre)


# Weights (K,), slopes (K, d), intercepts (K,) and variances (K,) in the data's units.
Lines = tuple[Array, Array, Array, Array]


@dataclass(frozen=True)
class RegressionMixturePlan:
    """Frame, directions, EM until the log-likelihood gains less than ``tol``.

    The first start is along the directions residuals grow in; later ones are random.
    """

    names: Sequence[str]
    components: int
    max_iter: int
    tol: float
    n_init: int
    rng: np.random.Generator
    start: Lines | None = None
    """Given weights, slopes, intercepts and variances, in the data's units."""

    def stages(self) -> Generator[Stage, Release[Any], Fit[Regressions]]:
        """Generate the stages."""
        k = self.components
        frame = yield from FramePlan(self.names, min_rows=k).stages()
        floor = max(_FLOOR * float(frame.variances[-1]), 1e-300)
        one = one_regression(frame.mean, frame.covariance, floor)
        q = len(frame.mean)
        axes = np.eye(q)
        if k > 1 and self.start is None:
            release = yield Stage(ResidualDirections(one, cap_weight=NO_CAP), Exact(), "residuals")
            blur = 0.25 * math.sqrt(frame.count)
            axes = apart_along(release.statistics.second, q, k, blur)
        best: Fit[Regressions] | None = None
        for run in range(1 if self.start is not None or k == 1 else self.n_init):
            if self.start is not None:
                state = beside(one, *self.start)
            elif k == 1:
                state = one
            else:
                state = spread(one, axes if run == 0 else np.eye(q), k, self.rng)
            model = RegressionMixtureModel(floor)
            em = ExactEM(model, state, self.max_iter, gains_less(self.tol))
            fit = yield from em.stages()
            best = fit if best is None or fit.objective > best.objective else best
        assert best is not None
        return best


def beside(
    one: Regressions, weights: Array, slopes: Array, intercepts: Array, variances: Array
) -> Regressions:
    """Given parameters in the coordinates of ``one``."""
    inside = np.linalg.solve(one.whitener.T, slopes.T).T
    first = intercepts + slopes @ one.centre
    coefficients = np.concatenate([first[:, None], inside], axis=1)
    return Regressions(weights, coefficients, variances, one.whitener, one.centre)


@dataclass(frozen=True)
class PrivateRegressionsPlan(Iterated):
    """A fit in the unit coordinates of the joined region of (x, y).

    Parameters
    ----------
    preamble : Preamble
        Of d + 1 columns, the target last.
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
    start: Lines | None = None
    local: bool = False
    max_iter: int = MOST_ITERATIONS

    def parts(self) -> list[Part]:
        """How the budget is shared out."""
        q, left, k = self.preamble.d, 1.0 - self.preamble.share(), self.components
        pairs = q * (q + 1) // 2
        parts = gaussian_parts(left, q)
        if k > 1 and self.start is None:
            parts.append(Part("residuals", left * _START_SHARE, [("gaussian", pairs)]))
        left -= sum(part.share for part in parts)
        releases = [("gaussian", k * (1 + q + pairs))] * self.planned
        return [*self.preamble.parts(), *parts, Part("em", left, releases)]

    def stages(self, allowance: Allowance) -> Generator[Stage, Release[Any], PrivateFit[Lines]]:
        """Generate the stages."""
        ground = yield from self.preamble.stages(allowance)
        region, q = ground.region, self.preamble.d
        known = yield from given(PrivateGaussian(ground).stages())
        one = one_regression(known.mean, known.covariance, _UNIT_FLOOR)
        w = MomentWeights.balanced(q, clip_radius(q, _LOCAL_TAIL if self.local else _TAIL))
        bounded = Bounded(region, w, ground.cap_weight)
        structure = held(lambda: self._structure(w, ground))
        if self.components == 1 or (structure.single and self.start is None):
            # One regression (or noise that drowns any mixture): measured with all that is left.
            left = min(_SINGLE, self.max_iter) if allowance.adaptive else self.planned
            structure = replace(structure, single=True, iterations=left)
            single = self._all_for_em(ground) if allowance.adaptive else ground
            state = yield from self._em(one, bounded, single, left)
        else:
            start = yield from given(self._start(one, ground))
            state = yield from self._em(start, bounded, ground, structure.iterations)
        lines = self._in_data(state, region)
        return PrivateFit(lines, ground, structure.iterations, structure.name)

    def _structure(self, w: MomentWeights, ground: Ground) -> Structure:
        noise = w.l2(ground.allowance.neighbours) * ground.allowance.multiplier("em", 1) / w.w2
        k, q = self.components, self.preamble.d
        found = choose("full", k, q, ground.count, noise, self.n_iter)
        if self.n_iter is None and found.iterations < _FEWEST:
            found = replace(found, single=True)
        adaptive = ground.allowance.adaptive
        iterations = min(found.iterations, self.max_iter) if adaptive else self.planned
        return replace(found, iterations=iterations)

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
            return beside(one, *_to_unit(self.start, region))
        query = ResidualDirections(one, region, ground.cap_weight)
        release = yield ground.stage(query, "residuals")
        blur = max(release.spread, 0.25 * math.sqrt(ground.count))
        axes = apart_along(release.statistics.second, self.preamble.d, k, blur)
        return spread(one, axes, k, self.rng)

    def _em(
        self, state: Regressions, bounded: Bounded, ground: Ground, iterations: int
    ) -> Generator[Stage, Release[Any], Regressions]:
        """EM, and the mean of the second half of the iterates."""
        model = RegressionMixtureModel(_UNIT_FLOOR, bounded, ground.count)
        noise = ground.noise("em", iterations)
        path = LateMean(state, iterations, "weights", "coefficients", "variances")
        return (yield from PrivateEM(model, state, iterations, lambda t: noise, path).stages())

    def _in_data(self, state: Regressions, region: Region) -> Lines:
        k = self.components
        slopes, intercepts = state.in_data()
        x, y = region.scale[:-1], float(region.scale[-1])
        slopes = slopes * (y / x)
        intercepts = region.centre[-1] + y * intercepts - slopes @ region.centre[:-1]
        weights, variances = state.weights / state.weights.sum(), y**2 * state.variances
        if len(weights) < k:
            weights, variances = np.full(k, 1 / k), np.repeat(variances, k)
            slopes, intercepts = np.repeat(slopes, k, axis=0), np.repeat(intercepts, k)
        return weights, slopes, intercepts, variances


def _to_unit(start: Lines, region: Region) -> Lines:
    weights, slopes, intercepts, variances = start
    y = float(region.scale[-1])
    first = (intercepts + slopes @ region.centre[:-1] - region.centre[-1]) / y
    # Within what an M-step may lead to.
    slopes = np.clip(slopes * (region.scale[:-1] / y), -1e6, 1e6)
    return weights, slopes, np.clip(first, -1e6, 1e6), np.clip(variances / y**2, _UNIT_FLOOR, 4.0)
