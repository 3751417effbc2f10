"""Private Gaussian mixtures: count, frame, start, EM in whitened coordinates; the rest is free."""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...blocks.packing import filled, pack
from ...blocks.region import Region
from ...blocks.sensitivity import MomentWeights, apart
from ...blocks.shrinkage import (
    clip_radius,
    consistency,
    james_stein,
    operator_noise,
    soften,
    soften_each,
)
from ...budget import Allowance
from ...core import Release, Stage
from ...linalg import smat
from ...tree import Array
from .gaussian import PrivateGaussian, only_variances
from .lost import background, copied, restarted
from .model import Mixture
from .prior import Prior
from .query import TAIL, BoundedQuery, BoundedSums, releases
from .shapes import LEAST_STEP, Parts, as_asked, as_type, shared_consistency, unwhiten, whiten

# Nor is a whitened covariance trusted to grow further than this in one iteration. It never shrinks
# below the noise on it, or small components would walk to nothing.
_MOST_STEP = 20.0
# Until iterates are averaged, steps are so much longer than EM's, which is slow to converge.
_OVERSTEP = 1.5
# The part of the iterations before averaging.
_SEARCH = 0.6
# Clip radius of EM: the noise at which it is widened.
_TOLERATED = 0.02
# Relative noise on a pooled covariance below which it need not be released in every iteration.
_SHARP = 0.05
# Relative noise on a covariance, all budget in one release, beyond which a simpler one is better.
_MOST_NOISE = 0.6
# Components never count for less than this share of an equal part.
_LEAST_PART = 0.02
# Restarted components get so many iterations, at least, before averaging.
_SETTLE = 3
# Components with fewer records than so many deviations of the noise are not seen.
_SEEN = 2.0
# The least and the most that lost components weigh together; between, a deviation of a count.
_BACKGROUND = (0.005, 0.1)
# More iterations than this never helped.
MOST_ITERATIONS = 30
# Unit-coordinate variance floor: a hundred-thousandth of the region.
_FLOOR = 1e-5
# The smallest eigenvalue under a prior, over the sum of all.
_RATIO = 1e-10


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
class PrivateMixture:
    """A mixture in unit coordinates.

    Parameters
    ----------
    region : Region
    components : int
    covariance_type : str
    recipe : str
    count, rows : float
        Number of records and a bound on it.
    fixed_count : bool
        Whether ``count`` is the exact, public number (replace-one neighbours).
    allowance : Allowance
        With parts ``"frame 1"``, ``"frame 2"`` (unless ``start`` is given) and ``"em"``.
    n_iter : int or None
        So many iterations; ``None``: as the noise allows, at most ``max_iter``.
    rng : numpy.random.Generator
        For the data-free packing of starting points.
    adaptive : bool
        Whether shares may change after the count; see ``docs/proofs/release.md``, section 9.
    pure : bool
        No Gaussian noise: bounds, which are given, are taken to be filled.
    """

    region: Region
    components: int
    covariance_type: str
    recipe: str
    count: float
    rows: float
    fixed_count: bool
    allowance: Allowance
    n_iter: int | None
    rng: np.random.Generator
    cap_weight: float = 1.0
    start: Mixture | None = None
    prior: Prior | None = None
    choose_structure: bool = True
    adaptive: bool = True
    max_iter: int = MOST_ITERATIONS
    pure: bool = False

    def stages(self) -> Generator[Stage, Release[Any], tuple[Mixture, Structure]]:
        """Generate the stages."""
        d, k = self.region.d, self.components
        state = self.start
        flat = only_variances(self.covariance_type, d)
        shape = "diag" if flat else "full"
        frame = PrivateGaussian(
            self.region, self.count, self.rows, self.allowance, self.cap_weight, flat
        )
        if state is None:
            found = filled(self.region) if self.pure else (yield from frame.stages())
            centre, covariance = found
            if flat and covariance.ndim == 2:
                covariance = np.diag(covariance)
            state = self._pack(centre, covariance)
        whitened = self.recipe == "whitened"
        r = clip_radius(d, TAIL) if whitened else self.region.reach
        if self.recipe in ("whitened", "joint"):
            w = MomentWeights.balanced(d, r)
        else:
            w = MomentWeights(1.0, 1.0, 1.0, r)
        structure = self._structure(state, w)
        if structure.single and self.start is None:
            if self.pure:
                return (yield from self._alike(structure)), structure
            # The noise drowns any mixture: one Gaussian, measured with all that is left.
            # (Where shares may not change after the count: with as much noise as a mixture's.)
            releases_left = 1 if self.adaptive else structure.iterations
            centre, covariance = yield from frame.refine(centre, covariance, releases_left)
            alike = np.full(k, 1 / k), np.stack([centre] * k), np.stack([covariance] * k)
            return as_type(Mixture(shape, *alike), self.covariance_type), structure
        state = as_type(state, structure.covariance_type)
        each = len(releases(self.recipe, structure.covariance_type, k, d))
        sharp = False
        if whitened:
            w, sharp = self._widened(w, structure)
        search = int(_SEARCH * structure.iterations)
        average, anchor = None, state
        for t in range(structure.iterations):
            # A sharp second moment is asked for in the first, then in every other iteration: in
            # those between, means and weights have less noise.
            ask = not sharp or t == 0 or (t - search) % 2 == 0
            now_w = w if ask else MomentWeights.without_second(w.radius)
            query = BoundedQuery(state, self.region, now_w, self.recipe, self.rows, self.cap_weight)
            release = yield Stage(
                query,
                self.allowance.noise("em", self.rows, each * structure.iterations),
                f"EM {t + 1}",
            )
            now = self._moments(state, release, now_w)
            if average is None or t <= search:
                average, anchor = now, state
                # Not in the first step, which is long anyway, nor in the one that is averaged.
                ahead = now.beyond(state, _OVERSTEP) if whitened and 0 < t < search else now
                state = self._valid(anchor, ahead)
                if whitened and t < search - _SETTLE:
                    state = restarted(state, now.seen < 1)
            else:
                terms = t - search + 1
                average = average.towards(now, terms)
                # In the frame of the first term: in a later, smaller one its noise would look
                # large, be softened again and again, and the component would walk to nothing.
                state = self._valid(anchor, average)
        if whitened and average is not None and self.start is not None:
            state = copied(state, average.seen < 0.5)
        elif whitened and average is not None:
            assert release.deviation is not None
            hidden = float(np.max(release.deviation.count)) / (now_w.w0 * self.count)
            one = Mixture(shape, np.ones(1), centre[None], covariance[None])
            state = self._with_background(state, average.seen < 0.5, one, hidden)
        return state, structure

    def _alike(self, structure: Structure) -> Generator[Stage, Release[Any], Mixture]:
        """One Gaussian by the same recipe, as often as there are components."""
        one = replace(self, components=1, n_iter=structure.iterations, choose_structure=False)
        found, _ = yield from one.stages()
        k, tied = self.components, found.covariance_type == "tied"
        covariances = found.covariances if tied else np.repeat(found.covariances, k, axis=0)
        means = np.repeat(found.means, k, axis=0)
        return replace(found, weights=np.full(k, 1 / k), means=means, covariances=covariances)

    def _with_background(
        self, state: Mixture, lost: NDArray[np.bool_], one: Mixture, hidden: float
    ) -> Mixture:
        """Lost components as the Gaussian of all records, if the shape asked for allows it."""
        if self.covariance_type == "tied":
            return copied(state, lost)
        kind = self.covariance_type
        weight = float(np.clip(hidden, *_BACKGROUND))
        return background(as_asked(state, kind), lost, as_type(one, kind), weight)

    def _widened(self, w: MomentWeights, structure: Structure) -> tuple[MomentWeights, bool]:
        """Weights for a clip radius as large as the noise of an iteration allows.

        And whether a pooled covariance has so little noise that not every iteration needs one.
        """
        d, k, neighbours = self.region.d, self.components, self.allowance.neighbours
        multiplier = self.allowance.multiplier("em", structure.iterations)
        noise = operator_noise(d, w.l2(neighbours) * multiplier / w.w2) / (self.count / k)
        r = clip_radius(d, TAIL, float(noise), _TOLERATED)
        sharp = structure.covariance_type == "tied" and float(noise) / k < _SHARP
        if sharp:  # room for one factor per record: see shared_consistency
            r = math.hypot(r, math.sqrt(2 * math.log(k)))
        return MomentWeights.balanced(d, r), sharp

    def _structure(self, state: Mixture, w: MomentWeights) -> Structure:
        """Look at the noise of a second-moment entry, in the coordinates of the start."""
        k, d = state.means.shape
        each = releases(self.recipe, self.covariance_type, k, d)
        bound = w.l2(self.allowance.neighbours)
        if len(each) > 1:
            kind, neighbours = each[-1][0], self.allowance.neighbours
            bound = apart("second", kind, self.covariance_type, neighbours, d, w.radius)
        noise = bound * self.allowance.multiplier("em", len(each)) / w.w2
        if self.recipe != "whitened":
            noise *= float(np.sum(state.whiteners**2)) / (len(state.whiteners) * d)
        chosen = choose(self.covariance_type, k, d, self.count, noise, self.n_iter, self.max_iter)
        if self.choose_structure:
            return chosen
        return replace(chosen, covariance_type=self.covariance_type, single=False)

    def _pack(self, centre: Array, covariance: Array) -> Mixture:
        k = self.components
        means = self.region.inside(pack(centre, covariance, k, self.rng))
        covariances = np.stack([0.5 * covariance] * k)
        shape = "full" if covariance.ndim == 2 else "diag"
        return Mixture(shape, np.full(k, 1 / k), means, covariances)

    def _moments(self, state: Mixture, release: Release[BoundedSums], w: MomentWeights) -> Parts:
        """Counts, means and covariances in unit coordinates, before they are made valid."""
        sums, noise = release.statistics, release.deviation
        assert noise is not None
        k, d = state.means.shape
        count = sums.count / w.w0
        if self.fixed_count:
            count = count + (self.count - count.sum()) / k
        # A component whose count drowns in noise stays where it is: moving it would be a walk.
        unseen = count < _SEEN * noise.count / w.w0
        seen = np.where(unseen, 0.0, 1.0)
        count = np.maximum(count, _LEAST_PART * self.count / k)
        n = count[:, None]
        whitener = state.whiteners
        matrix = whitener.ndim == 3
        moves = sums.total / (w.w1 * n)
        spread = noise.total[:, 0] / (w.w1 * count)
        if self.recipe != "whitened":  # moves from the centre: make them moves from the last means
            moves = moves - state.means
            moves = np.einsum("kij,kj->ki", whitener, moves) if matrix else whitener * moves
            size = np.sum(whitener**2, axis=(1, 2)) if matrix else np.sum(whitener**2, axis=1)
            spread = spread * np.sqrt(size / d)
        moves = james_stein(moves, spread**2)
        if self.recipe == "whitened":  # no mean of clipped records lies further out
            moves *= np.minimum(1.0, w.radius / np.maximum(_norms(moves), 1e-300))
        moves[unseen] = 0.0
        lower = np.linalg.inv(whitener) if matrix else 1.0 / whitener
        step = np.einsum("kij,kj->ki", lower, moves) if matrix else lower * moves
        means = state.means + step
        if sums.second.size == 0:
            return Parts(count, means, state.covariances, np.zeros(()), seen, 0)
        factor = w.w2
        if release.query.shared:
            factor *= shared_consistency(state, w.radius)
        elif self.recipe == "whitened":
            factor *= consistency(d, w.radius)
        second, deviation = sums.second / factor, noise.second / factor
        about = moves if self.recipe == "whitened" else means
        match state.covariance_type:
            case "full":
                spreads = smat(second, d) / n[:, :, None] - np.einsum("ki,kj->kij", about, about)
                size = operator_noise(d, deviation[:, 0] / count)
            case "tied":
                share = count / count.sum()
                spreads = smat(second, d) / self.count
                spreads = spreads - np.einsum("k,ki,kj->ij", share, about, about)
                size = operator_noise(d, deviation[0] / self.count)
            case "diag":
                spreads = second / n - about**2
                size = deviation[:, 0] / count
            case _:
                spreads = (second / count - np.sum(about**2, axis=1)) / d
                size = deviation / (count * d)
        if self.recipe != "whitened":
            spreads, size = whiten(state, spreads, size)
        if spreads.ndim == state.covariances.ndim == 3:
            spreads[unseen] = np.eye(d)
        elif state.covariance_type != "tied":
            spreads[unseen] = 1.0
        return Parts(count, means, unwhiten(state, spreads), size, seen)

    def _valid(self, state: Mixture, parts: Parts) -> Mixture:
        """Parameters from averaged moments: eigenvalues softened in the last frame, floored."""
        ceiling = self.region.reach**2
        white, _ = whiten(state, parts.covariances, parts.size)
        size = parts.size / math.sqrt(max(parts.terms, 1))
        least = np.clip(size, LEAST_STEP, 1.0)
        match state.covariance_type:
            case "full":
                steps = [
                    soften(matrix, float(low), float(noise), _MOST_STEP)
                    for matrix, low, noise in zip(white, least, size, strict=True)
                ]
                covariances = unwhiten(state, np.stack(steps))
                covariances = np.stack([soften(c, _FLOOR, 0.0, ceiling) for c in covariances])
            case "tied":
                step = soften(white, float(least), float(size), _MOST_STEP)
                covariances = soften(unwhiten(state, step), _FLOOR, 0.0, ceiling)
            case "diag":
                step = soften_each(white, least[:, None], size[:, None], _MOST_STEP)
                covariances = np.clip(unwhiten(state, step), _FLOOR, ceiling)
            case _:
                step = soften_each(white, least, size, _MOST_STEP)
                covariances = np.clip(unwhiten(state, step), _FLOOR, ceiling)
        weights, means = parts.count, parts.means
        if self.prior is not None:
            n = parts.count[:, None]
            kind = state.covariance_type
            means, covariances = self.prior.shrink(means, n, covariances, kind)
            if kind in ("full", "tied"):  # a prior mean far away makes them all but singular
                stack = covariances.reshape(-1, *covariances.shape[-2:])
                tops = np.maximum(np.trace(stack, axis1=1, axis2=2), _FLOOR)
                raised = [
                    soften(c, max(_FLOOR, _RATIO * top), 0.0, top)
                    for c, top in zip(stack, tops.tolist(), strict=True)
                ]
                covariances = np.reshape(raised, covariances.shape)
            weights = self.prior.counts(parts.count)
        weights = np.maximum(weights, 1e-12 * self.count)
        weights = weights / weights.sum()
        means = self.region.inside(means)
        return replace(state, weights=weights, means=means, covariances=covariances)


def _norms(rows: Array) -> Array:
    return np.asarray(np.linalg.norm(rows, axis=1, keepdims=True))
