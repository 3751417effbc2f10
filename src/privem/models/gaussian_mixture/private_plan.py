"""The private fit of a mixture: count, bounds, frame, start, EM, contest, background.

The frame is one Gaussian of all records. EM starts from a noisy grid along its longest axes or,
where there are many columns and few iterations, from points that lie far apart; where the noise
allows, with more components than are asked for (:mod:`.start`). When most of its iterations are
done, a contest shows whether the mixture is worth its noise: if records are not more likely under
it than under one Gaussian of the same moments, what is left goes into that Gaussian. In the end the
fit asks how large a uniform background should be (:mod:`.density`). The papers' recipes have
neither grid nor contest nor background.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from ...blocks.region import Region
from ...blocks.sensitivity import MomentWeights, apart
from ...blocks.shrinkage import clip_radius, operator_noise
from ...budget import Allowance, Iterated, Part
from ...core import Release, Stage
from ...em import PrivateEM, SearchThenMean
from ...ground import Ground, Preamble, PrivateFit
from ...linalg import Array
from ...run import given, held
from ..kmeans.grid import MOST_AXES, MOST_CELLS
from .density import MOST_ASKED, background_part, background_weight
from .frame import LOOKS, PrivateGaussian, for_columns, frame_size, gaussian_parts, only_variances
from .known import Known
from .m_step import Prior
from .model import Mixture
from .private_m_step import Estimate, PrivateMixtureModel, halved
from .query import TAIL, releases
from .start import MORE, OVERSTEP, SETTLE, filled, from_grid, packed, searched, searching
from .structure import (
    FAR,
    MOST_ITERATIONS,
    MOST_POOLED,
    NEAR,
    Structure,
    as_type,
    choose,
    collapsed,
    contest,
    copies,
    in_data,
    prior_in_unit,
    replaced,
    to_unit,
    too_many,
    with_copies,
)

# Of what the rest leaves: a grid to start from; the contest.
_GRID_SHARES, _CONTEST_SHARE = (0.2, 0.05), 0.02
# Where the frame is blurred, a part of what is for EM looks closer first: as much as leaves so many
# nats, between these parts.
_LEFT, _CLOSER = 0.125, (0.05, 1 / 3)
# The part of the iterations before the contest, and before averaging.
_BEFORE, _SEARCH = 0.75, 0.6
# From so many iterations on, EM gets from a grid of a few axes to what the others hold.
_ENOUGH = 10
# Clip radius of EM: the noise at which it is widened.
_TOLERATED = 0.02
# Relative noise on a pooled covariance below which it need not be released in every iteration.
_SHARP = 0.05
# The least and the most that lost components weigh together; between, a deviation of a count.
_BACKGROUND = (0.005, 0.1)


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
        Whether the fit asks how large a uniform background should be; ``"auto"``: the whitened
        recipe does, those of the papers do not.
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
        if self._above:
            parts.append(background_part(left))
            left -= parts[-1].share
        if self.start is None and not self.preamble.pure:
            parts += (frame := gaussian_parts(left, d, self._flat))
            left -= sum(part.share for part in frame)
        if self._single:
            looks = [("gaussian", frame_size(d, self._flat))] * (self.n_iter or LOOKS)
            return [*parts, Part("em", left, looks)]
        rest = left
        if self._gridded:
            share = left * _GRID_SHARES[self.preamble.d > MOST_AXES]
            parts.append(Part("grid", share, [("gaussian", MOST_CELLS)]))
            rest -= share
        if self._contested:
            share = left * _CONTEST_SHARE
            parts.append(Part("contest", share, [("gaussian", 1)]))
            rest -= share
        most = MORE * self.components if self._alone else self.components
        each = releases(self.recipe, self.covariance_type, most, d)
        return [*parts, Part("em", rest, each * self.planned)]

    @property
    def _whitened(self) -> bool:
        return self.recipe == "whitened"

    @property
    def _above(self) -> bool:
        """Whether the density lies above a background."""
        auto = self._whitened and not self._wide
        return auto if self.background == "auto" else bool(self.background)

    @property
    def _wide(self) -> bool:
        """Whether log-densities, computed number by number, would take longer than the fit."""
        return self.covariance_type in ("full", "tied") and self.preamble.d > MOST_ASKED

    @property
    def _flat(self) -> bool:
        return only_variances(self.covariance_type, self.preamble.d)

    @property
    def _alone(self) -> bool:
        """Whether nothing but the records says what the fit is."""
        return self._whitened and self.start is None and self.prior is None

    @property
    def _free(self) -> bool:
        """Whether the fit may turn into one Gaussian."""
        return self._alone and self.choose_structure

    @property
    def _single(self) -> bool:
        """Whether one Gaussian is all that was asked for."""
        return self._alone and self.components == 1

    @property
    def _gridded(self) -> bool:
        """Whether EM starts from a grid, and so near its end; one that sees all columns."""
        return self._whitened and self.components > 1 and self.start is None and not self._flat

    @property
    def _contested(self) -> bool:
        return self._free and self.components > 1 and not self._wide

    def ruled_out(self, ground: Ground) -> str | None:
        """Why so many components are too many for the noise, if they are; from that alone."""
        if not self._alone or self.components == 1:
            return None
        structure = self._structure(None, self._weights(ground.region), for_columns(ground))
        return too_many(self.components, structure)

    def stages(self, allowance: Allowance) -> Generator[Stage, Release[Any], PrivateFit[Mixture]]:
        """Generate the stages."""
        ground = yield from self.preamble.stages(allowance)
        fit = self._fit(ground) if self._whitened else self._by_recipe(ground)
        mixture, structure = yield from fit
        mixture = in_data(with_copies(mixture, self.covariance_type), ground.region)
        weight = 0.0
        if self._above:
            weight = yield from background_weight(mixture, ground)
        how = structure.iterations, structure.name, weight, structure.lost, structure.beaten
        return PrivateFit(mixture, ground, *how)

    def _by_recipe(
        self, ground: Ground
    ) -> Generator[Stage, Release[Any], tuple[Mixture, Structure]]:
        """A mixture in unit coordinates, as the papers have it: frame and EM."""
        region, pure = ground.region, self.preamble.pure
        known: Known | None = None
        if self.start is not None:
            state = to_unit(self.start, region)
        elif pure:
            # Gaussian noise has no place in a pure fit, whose bounds are given: they are filled.
            state = held(partial(self._pack, *filled(region, self._flat), region))
        else:
            ground = for_columns(ground)
            known = yield from given(self._gaussian(ground).stages())
            state = held(partial(self._pack, known.mean, known.covariance, region))
        w = self._weights(region)
        structure = held(partial(self._structure, state, w, ground))
        if structure.single and known is not None:
            return (yield from self._one_gaussian(known, structure, ground))
        if structure.single and pure and self.start is None:
            return (yield from self._alike(structure, ground)), structure
        em = self._em(as_type(state, structure.covariance_type), w, structure, ground)
        return (yield from em.stages()).mixture, structure

    def _fit(self, ground: Ground) -> Generator[Stage, Release[Any], tuple[Mixture, Structure]]:
        """A mixture in unit coordinates."""
        region, w = ground.region, self._weights(ground.region)
        if self.start is None:
            ground = for_columns(ground)
        structure = held(partial(self._structure, None, w, ground))
        if self.start is not None:
            start = as_type(to_unit(self.start, region), structure.covariance_type)
            end = yield from self._em(start, w, structure, ground).stages()
            return self._finished(end, structure)
        frame = self._gaussian(ground)
        if self._single or (self._free and structure.single):
            known = yield from given(frame.stages())
            return (yield from self._one_gaussian(known, structure, ground))
        known = yield from frame.stages()  # its noise is in components that are lost
        if self._packed(structure, ground):
            ground = replace(ground, allowance=ground.allowance.merged("em", "grid"))
            frame = self._gaussian(ground)
        blurred = self._contested and frame.blurred(known)
        closer = held(lambda: float(np.clip(frame.loss / _LEFT, *_CLOSER)) if blurred else 0.0)
        if closer > 0:
            known = yield from frame.refine(known, 1 / closer)
        overall = known.mean, known.covariance
        many = searching(self.components, structure) if self._alone else self.components
        state = yield from given(self._started(*overall, structure, ground, many))
        em = self._em(as_type(state, structure.covariance_type), w, structure, ground, 1 - closer)
        before, contested = em.iterations, self._contested and em.iterations > 1
        if contested:
            before -= max(1, int((1 - _BEFORE) * em.iterations))
        begun, estimate = yield from given(searched(em, self.components))
        estimate = yield from em.steps(estimate, range(begun, before))
        if contested:
            found, _ = self._finished(estimate, structure, overall)
            one = collapsed(found)
            if one[1].ndim == 1 and not self._flat:
                one = one[0], np.diag(one[1])
            if closer > 0:
                one = overall
            other = as_type(copies(*one, 1), self.covariance_type)  # what would be fitted instead
            both = in_data(found, region), in_data(other, region)
            ahead = yield from given(contest(*both, ground))
            if not ahead:
                left = em.iterations - before
                looks = min(LOOKS, left) if ground.allowance.adaptive else left
                if closer == 0:
                    known = frame.told(known, *one, em.iterations / before)
                releases = em.iterations / left / (1 - closer)
                known = yield from frame.refine(known, releases, looks)
                single = replace(structure, single=True, iterations=before + looks, beaten=True)
                return self._as_asked(known), single
        estimate = yield from em.steps(estimate, range(before, em.iterations))
        return self._finished(em.path.end(estimate), structure, overall)

    def _started(
        self, centre: Array, covariance: Array, structure: Structure, ground: Ground, many: int
    ) -> Generator[Stage, Release[Any], Mixture]:
        if not self._gridded or self._packed(structure, ground):
            return packed(centre, covariance, many, ground.region, self.rng)
        return (yield from from_grid(centre, covariance, many, ground, self.rng))

    def _packed(self, structure: Structure, ground: Ground) -> bool:
        """Whether iterations are too few to get from a grid to axes that it does not see."""
        partly = self._gridded and self.preamble.d > MOST_AXES and ground.allowance.adaptive
        return partly and structure.iterations < _ENOUGH

    def _one_gaussian(
        self, known: Known, structure: Structure, ground: Ground
    ) -> Generator[Stage, Release[Any], tuple[Mixture, Structure]]:
        """One Gaussian, measured with all that is left: the same whatever mixture was asked for.

        Where shares may not change after the count: with as much noise as a mixture's iterations.
        """
        looks = structure.iterations
        if self._single or ground.allowance.adaptive:
            ground = replace(ground, allowance=ground.allowance.merged("em", "grid", "contest"))
            looks = self.n_iter or self._gaussian(ground).looks(known)
        known = yield from self._gaussian(ground).refine(known, looks=looks)
        structure = Structure(self.covariance_type, self.components > 1, looks)
        return self._as_asked(known), structure

    def _gaussian(self, ground: Ground) -> PrivateGaussian:
        return PrivateGaussian(ground, self._flat, self._above)

    def _as_asked(self, known: Known) -> Mixture:
        """One Gaussian as often as there are components."""
        same = copies(known.mean, known.covariance, self.components)
        return as_type(same, self.covariance_type)

    def _finished(
        self, end: Estimate, structure: Structure, overall: tuple[Array, Array] | None = None
    ) -> tuple[Mixture, Structure]:
        """The mixture, and which components noise has swallowed.

        They become the Gaussian of all records, if that is known and the shape asked for allows it.
        """
        kind, (lost, halves, hidden) = self.covariance_type, held(end.lost)
        structure = replace(structure, lost=tuple(np.flatnonzero(lost).tolist()))
        if overall is None or "tied" in (kind, end.mixture.covariance_type):
            return halved(end.mixture, halves, apart=0.0), structure
        one, weight = as_type(copies(*overall, 1), kind), float(np.clip(hidden, *_BACKGROUND))
        return replaced(with_copies(end.mixture, kind), lost, one, weight), structure

    def _weights(self, region: Region) -> MomentWeights:
        if self._whitened:
            return MomentWeights.balanced(region.d, clip_radius(region.d, TAIL))
        if self.recipe == "joint":
            return MomentWeights.balanced(region.d, region.reach)
        return MomentWeights(1.0, 1.0, 1.0, region.reach)

    def _em(
        self,
        start: Mixture,
        w: MomentWeights,
        structure: Structure,
        ground: Ground,
        rest: float = 1.0,
    ) -> PrivateEM[Estimate]:
        search, sharp = int(_SEARCH * structure.iterations), False
        path: SearchThenMean[Estimate] = SearchThenMean(search)
        if self._whitened:
            w, sharp = self._widened(w, structure, ground)
            path = SearchThenMean(search, OVERSTEP, search - SETTLE)
        prior = None if self.prior is None else prior_in_unit(self.prior, ground.region)
        model = PrivateMixtureModel(ground, self.recipe, w, prior, search if sharp else None)
        each = len(releases(self.recipe, structure.covariance_type, *start.means.shape))
        noise = ground.noise("em", each * structure.iterations / rest)
        return PrivateEM(model, Estimate(model, start), structure.iterations, lambda t: noise, path)

    def _alike(
        self, structure: Structure, ground: Ground
    ) -> Generator[Stage, Release[Any], Mixture]:
        """One Gaussian by the same recipe, as often as there are components."""
        one = replace(self, components=1, n_iter=structure.iterations, choose_structure=False)
        found, _ = yield from one._by_recipe(ground)
        k, tied = self.components, found.covariance_type == "tied"
        covariances = found.covariances if tied else np.repeat(found.covariances, k, axis=0)
        means = np.repeat(found.means, k, axis=0)
        return replace(found, weights=np.full(k, 1 / k), means=means, covariances=covariances)

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

    def _structure(self, state: Mixture | None, w: MomentWeights, ground: Ground) -> Structure:
        """Look at the noise of a second-moment entry, in the coordinates of a start or whitened."""
        k, d = self.components, self.preamble.d
        kind, allowance = self.covariance_type, ground.allowance
        each = releases(self.recipe, kind, k, d)
        bound = w.l2(allowance.neighbours)
        if len(each) > 1:
            bound = apart("second", each[-1][0], kind, allowance.neighbours, d, w.radius)
        noise = bound * allowance.multiplier("em", len(each)) / w.w2
        if state is not None:
            noise *= float(np.sum(state.whiteners**2)) / (k * d)
        n_iter = self.n_iter if allowance.adaptive else self.planned
        bears = [NEAR if self._gridded and d <= MOST_AXES else FAR, *[MOST_POOLED] * self._whitened]
        chosen = choose(kind, k, d, ground.count, noise, n_iter, self.max_iter, *bears)
        if self.choose_structure:
            return chosen
        return replace(chosen, covariance_type=kind, single=False)

    def _pack(self, centre: Array, covariance: Array, region: Region) -> Mixture:
        return packed(centre, covariance, self.components, region, self.rng)
