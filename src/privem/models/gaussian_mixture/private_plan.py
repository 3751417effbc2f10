"""The private fit of a mixture: count, bounds, frame, start, EM; the rest is free."""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...blocks.region import Region
from ...blocks.sensitivity import MomentWeights, apart
from ...blocks.shrinkage import clip_radius, operator_noise
from ...budget import Allowance, Iterated, Part
from ...core import Release, Stage
from ...em import PrivateEM, SearchThenMean
from ...ground import Ground, Preamble, PrivateFit
from ...tape import given, held
from ...tree import Array
from .frame import PrivateGaussian, filled, frame_parts, frame_size, only_variances, pack
from .m_step import Prior
from .model import Mixture
from .private_m_step import Estimate, PrivateMixtureModel, halved
from .query import TAIL, releases

_FRAME_SHARE = (0.045, 0.105)
# More iterations than this never helped.
MOST_ITERATIONS = 30
# The part of the iterations before averaging.
_SEARCH = 0.6
# Until iterates are averaged, steps are so much longer than EM's.
_OVERSTEP = 1.5
# Restarted components get so many iterations, at least, before averaging.
_SETTLE = 3
# Clip radius of EM: the noise at which it is widened.
_TOLERATED = 0.02
# Relative noise on a pooled covariance below which it need not be released in every iteration.
_SHARP = 0.05
# Relative noise on a covariance, all budget in one release, beyond which a simpler one is better.
_MOST_NOISE = 0.6
# The least and the most that lost components weigh together; between, a deviation of a count.
_BACKGROUND = (0.005, 0.1)
# Variances of a given start, in unit coordinates.
_NARROWEST, _WIDEST = 1e-12, 1e12


@dataclass(frozen=True)
class Structure:
    """What the noise supports: ``single``, ``tied`` or the type asked for; iterations."""

    covariance_type: str
    single: bool
    iterations: int

    @property
    def name(self) -> str:
        """In a word: what the fit really has."""
        return "single" if self.single else self.covariance_type


def choose(
    covariance_type: str,
    components: int,
    d: int,
    count: float,
    sensitivity: float,
    n_iter: int | None,
    max_iter: int = MOST_ITERATIONS,
) -> Structure:
    """Choose structure and iterations (at most ``max_iter``) from the noise level alone.

    ``sensitivity``: noise deviation of a second-moment entry if the whole EM budget went into one
    release.
    """
    full = float(operator_noise(d, sensitivity)) / (count / components)
    if covariance_type in ("diag", "spherical"):
        full /= math.sqrt(d / 2) * 2
    pooled = full / components
    tied = covariance_type == "full" and full > _MOST_NOISE
    level = pooled if tied else full
    iterations = n_iter or min(int(np.clip((0.7 / level) ** 2, 3, MOST_ITERATIONS)), max_iter)
    return Structure("tied" if tied else covariance_type, pooled > _MOST_NOISE, iterations)


@dataclass(frozen=True)
class PrivateMixturePlan(Iterated):
    """Count, bounds, frame, EM.

    Parameters
    ----------
    preamble : Preamble
    components : int
    covariance_type, recipe : str
    n_iter : int or None
        So many iterations; ``None``: as the noise allows, at most ``max_iter``.
    rng : numpy.random.Generator
        For the data-free packing of starting points.
    start : Mixture or None
        Given and public: no frame is released.
    prior : Prior or None
    choose_structure : bool
        Whether fewer parameters than asked for may be fitted where noise would drown them.
    max_iter : int
    background : bool or "auto"
        Whether the density has a background.
    """

    preamble: Preamble
    components: int
    covariance_type: str
    recipe: str
    n_iter: int | None
    rng: np.random.Generator
    start: Mixture | None = None
    prior: Prior | None = None
    choose_structure: bool = True
    max_iter: int = MOST_ITERATIONS
    background: bool | str = "auto"

    def parts(self) -> list[Part]:
        """How the budget is shared out."""
        d = self.preamble.d
        parts = self.preamble.parts()
        left = 1.0 - self.preamble.share()
        if self.start is None and not self.preamble.pure:
            size = frame_size(d, only_variances(self.covariance_type, d))
            parts += frame_parts(left, _FRAME_SHARE, (size, size))
            left *= 1 - sum(_FRAME_SHARE)
        each = releases(self.recipe, self.covariance_type, self.components, d)
        return [*parts, Part("em", left, each * self.planned)]

    @property
    def _whitened(self) -> bool:
        return self.recipe == "whitened"

    def stages(self, allowance: Allowance) -> Generator[Stage, Release[Any], PrivateFit[Mixture]]:
        """Generate the stages."""
        ground = yield from self.preamble.stages(allowance)
        mixture, structure = yield from self._fit(ground)
        mixture = _with_copies(mixture, self.covariance_type)
        # From unit coordinates to the data's.
        region = ground.region
        mixture = _scaled(mixture, region.to_data(mixture.means), region.scale)
        return PrivateFit(mixture, ground, structure.iterations, structure.name)

    def _fit(self, ground: Ground) -> Generator[Stage, Release[Any], tuple[Mixture, Structure]]:
        """A mixture in unit coordinates."""
        region, k = ground.region, self.components
        flat = only_variances(self.covariance_type, region.d)
        frame = PrivateGaussian(ground, flat)
        if self.start is not None:
            overall, state = None, _to_unit(self.start, region)
        else:
            # Gaussian noise has no place in a pure fit, whose bounds are given: they are filled.
            pure = self.preamble.pure
            overall = filled(region, flat) if pure else (yield from given(frame.stages()))
            state = held(partial(self._pack, *overall, region))
        w = self._weights(region)
        structure = held(partial(self._structure, state, w, ground))
        if structure.single and overall is not None:
            if self.preamble.pure:
                return (yield from self._alike(structure, ground)), structure
            # The noise drowns any mixture: one Gaussian, measured with all that is left.
            # (Where shares may not change after the count: with as much noise as a mixture's.)
            releases_left = 1 if ground.allowance.adaptive else structure.iterations
            overall = yield from frame.refine(*overall, releases_left)
            return as_type(_copies(*overall, k), self.covariance_type), structure
        end = yield from self._em(as_type(state, structure.covariance_type), w, structure, ground)
        if not self._whitened:
            return end.mixture, structure
        if overall is None or self.covariance_type == "tied":
            return halved(end.mixture, end.lost, apart=0.0), structure
        return self._with_background(end, _copies(*overall, 1)), structure

    def _weights(self, region: Region) -> MomentWeights:
        if self._whitened:
            return MomentWeights.balanced(region.d, clip_radius(region.d, TAIL))
        if self.recipe == "joint":
            return MomentWeights.balanced(region.d, region.reach)
        return MomentWeights(1.0, 1.0, 1.0, region.reach)

    def _em(
        self, start: Mixture, w: MomentWeights, structure: Structure, ground: Ground
    ) -> Generator[Stage, Release[Any], Estimate]:
        search, sharp = int(_SEARCH * structure.iterations), False
        path: SearchThenMean[Estimate] = SearchThenMean(search)
        if self._whitened:
            w, sharp = self._widened(w, structure, ground)
            path = SearchThenMean(search, _OVERSTEP, search - _SETTLE)
        model = PrivateMixtureModel(
            ground,
            self.recipe,
            w,
            None if self.prior is None else _prior_in_unit(self.prior, ground.region),
            search if sharp else None,
        )
        each = len(releases(self.recipe, structure.covariance_type, *start.means.shape))
        noise = ground.noise("em", each * structure.iterations)
        em = PrivateEM(model, Estimate(model, start), structure.iterations, lambda t: noise, path)
        return (yield from em.stages())

    def _alike(
        self, structure: Structure, ground: Ground
    ) -> Generator[Stage, Release[Any], Mixture]:
        """One Gaussian by the same recipe, as often as there are components."""
        one = replace(self, components=1, n_iter=structure.iterations, choose_structure=False)
        found, _ = yield from one._fit(ground)
        k, tied = self.components, found.covariance_type == "tied"
        covariances = found.covariances if tied else np.repeat(found.covariances, k, axis=0)
        means = np.repeat(found.means, k, axis=0)
        return replace(found, weights=np.full(k, 1 / k), means=means, covariances=covariances)

    def _with_background(self, end: Estimate, overall: Mixture) -> Mixture:
        """Lost components as the Gaussian of all records, if the shape asked for allows it."""
        assert end.moments is not None
        kind, weight = self.covariance_type, float(np.clip(end.moments.hidden, *_BACKGROUND))
        return background(_with_copies(end.mixture, kind), end.lost, as_type(overall, kind), weight)

    def _widened(
        self, w: MomentWeights, structure: Structure, ground: Ground
    ) -> tuple[MomentWeights, bool]:
        """Weights for a clip radius as large as the noise of an iteration allows.

        And whether a pooled covariance has so little noise that not every iteration needs one.
        """
        d, k, allowance = ground.region.d, self.components, ground.allowance
        multiplier = allowance.multiplier("em", structure.iterations)
        noise = operator_noise(d, w.l2(allowance.neighbours) * multiplier / w.w2)
        noise = noise / (ground.count / k)
        r = clip_radius(d, TAIL, float(noise), _TOLERATED)
        sharp = structure.covariance_type == "tied" and float(noise) / k < _SHARP
        if sharp:  # room for one factor per record, which is that of unlikely ones
            r = math.hypot(r, math.sqrt(2 * math.log(k)))
        return MomentWeights.balanced(d, r), sharp

    def _structure(self, state: Mixture, w: MomentWeights, ground: Ground) -> Structure:
        """Look at the noise of a second-moment entry, in the coordinates of the start."""
        (k, d), kind, allowance = state.means.shape, self.covariance_type, ground.allowance
        each = releases(self.recipe, kind, k, d)
        bound = w.l2(allowance.neighbours)
        if len(each) > 1:
            bound = apart("second", each[-1][0], kind, allowance.neighbours, d, w.radius)
        noise = bound * allowance.multiplier("em", len(each)) / w.w2
        if not self._whitened:
            noise *= float(np.sum(state.whiteners**2)) / (len(state.whiteners) * d)
        n_iter = self.n_iter if allowance.adaptive else self.planned
        chosen = choose(kind, k, d, ground.count, noise, n_iter, self.max_iter)
        if self.choose_structure:
            return chosen
        return replace(chosen, covariance_type=kind, single=False)

    def _pack(self, centre: Array, covariance: Array, region: Region) -> Mixture:
        means = region.inside(pack(centre, covariance, self.components, self.rng))
        return replace(_copies(centre, 0.5 * covariance, self.components), means=means)


def background(state: Mixture, lost: NDArray[np.bool_], overall: Mixture, weight: float) -> Mixture:
    """Lost components become the one Gaussian of all records, with so much weight together.

    Those whom they stood for are too few to be seen, but may be far from all the others: without
    them, a few in a hundred records were impossible in the eyes of a few in a hundred fits.

    Parameters
    ----------
    state : Mixture
        Not tied.
    lost : ndarray of bool
    overall : Mixture
        Of one component and the same covariance type.
    weight : float
        What the noise could hide.
    """
    means, covariances = state.means.copy(), state.covariances.copy()
    means[lost], covariances[lost] = overall.means[0], overall.covariances[0]
    weights = state.weights
    if lost.any() and not lost.all():
        seen = np.where(lost, 0.0, weights)
        weights = np.where(lost, weight / lost.sum(), (1 - weight) * seen / seen.sum())
    return replace(state, weights=weights, means=means, covariances=covariances)


def _copies(mean: Array, covariance: Array, k: int) -> Mixture:
    """One Gaussian as often as there are components; its covariance a matrix or a diagonal."""
    kind = "full" if covariance.ndim == 2 else "diag"
    return Mixture(kind, np.full(k, 1 / k), np.stack([mean] * k), np.stack([covariance] * k))


def as_type(state: Mixture, covariance_type: str) -> Mixture:
    """A start with full covariances, or diagonal ones, as a mixture of another covariance type."""
    c = state.covariances
    if state.covariance_type == "diag" and covariance_type == "spherical":
        return replace(state, covariance_type=covariance_type, covariances=c.mean(axis=1))
    if state.covariance_type != "full" or covariance_type == "full":
        return state
    match covariance_type:
        case "tied":
            c = c.mean(axis=0)
        case "diag":
            c = np.diagonal(c, axis1=1, axis2=2).copy()
        case _:
            c = np.trace(c, axis1=1, axis2=2) / c.shape[1]
    return replace(state, covariance_type=covariance_type, covariances=c)


def _with_copies(mixture: Mixture, covariance_type: str) -> Mixture:
    """The same density with covariances of the shape that was asked for."""
    if mixture.covariance_type == covariance_type:
        return mixture
    copies = np.stack([mixture.covariances] * len(mixture.means))
    return replace(mixture, covariance_type=covariance_type, covariances=copies)


def _scaled(mixture: Mixture, means: Array, factor: Array) -> Mixture:
    match mixture.covariance_type:
        case "full" | "tied":
            covariances = mixture.covariances * np.outer(factor, factor)
        case "diag":
            covariances = mixture.covariances * factor**2
        case _:
            covariances = mixture.covariances * factor[0] ** 2
    return replace(mixture, means=means, covariances=covariances)


def _prior_in_unit(prior: Prior, region: Region) -> Prior:
    scatter = prior.scatter / np.outer(region.scale, region.scale)
    return replace(prior, mean=(prior.mean - region.centre) / region.scale, scatter=scatter)


def _to_unit(mixture: Mixture, region: Region) -> Mixture:
    """A mixture in unit coordinates, pulled into the region, deviations within public limits.

    A start that is off by more says nothing, and rounding would have no bound under it.
    """
    means = region.inside((mixture.means - region.centre) / region.scale)
    scaled = _scaled(mixture, means, 1.0 / region.scale)
    if mixture.covariance_type in ("diag", "spherical"):
        return replace(scaled, covariances=np.clip(scaled.covariances, _NARROWEST, _WIDEST))
    values, vectors = np.linalg.eigh(scaled.covariances)
    if values.min() >= _NARROWEST and values.max() <= _WIDEST:
        return scaled
    values = np.clip(values, _NARROWEST, _WIDEST)[..., None, :]
    return replace(scaled, covariances=(vectors * values) @ np.swapaxes(vectors, -1, -2))
