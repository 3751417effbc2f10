"""The private M-step of a Gaussian mixture: from noisy sums to moments, from moments to a mixture.

A release gives counts, means and covariances with noise of a known size (:class:`Moments`). What is
averaged, or taken further than EM would go, are these moments; a valid mixture is made of them only
when one is needed (:class:`Estimate`). All of it is arithmetic on what was released.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2

from ...blocks.sensitivity import MomentWeights
from ...blocks.shrinkage import consistency, james_stein, operator_noise, soften, soften_each
from ...core import Release
from ...ground import Ground
from ...linalg import Array, smat
from ...run import held
from .m_step import Prior
from .model import Mixture
from .query import BoundedQuery, BoundedSums

# No whitened covariance is trusted to shrink, or to grow, further than this in one iteration. It
# never shrinks below the noise on it, or small components would walk to nothing.
_LEAST_STEP, _MOST_STEP = 0.25, 20.0
# Components never count for less than this share of an equal part.
_LEAST_PART = 0.02
# Components with fewer records than so many deviations of the noise are not seen.
_SEEN = 2.0
# The least variance, in unit coordinates: bounds may be ten thousand times as wide as a component.
_FLOOR = 1e-8
# The smallest eigenvalue under a prior, over the sum of all.
_RATIO = 1e-10
# Halves of a component lie so many deviations from its mean, along its longest axis.
_APART = 0.7

Halves = list[tuple[int, int]]  # each lost component, and the one whose half it becomes


@dataclass(frozen=True)
class Moments:
    """Moments in unit coordinates; ``size`` of the covariance noise in whitened ones.

    ``seen``: whether each component had more records than the noise on their number; of a mean, how
    often. ``hidden``: that noise, of the largest, as a share of all records. ``terms``: how many
    releases of second moments the covariances are the mean of; 0 where none was asked for and they
    are the last ones.
    """

    count: Array
    means: Array
    covariances: Array
    size: Array
    seen: Array
    hidden: float
    terms: int = 1

    def beyond(self, state: Mixture, factor: float) -> Moments:
        """A step ``factor`` times as long, from ``state``; covariances where they stay positive."""
        before = state.weights * self.count.sum()
        count = np.maximum(before + factor * (self.count - before), 0.3 * self.count)
        means = state.means + factor * (self.means - state.means)
        covariances = self.covariances
        if state.covariance_type == "full":
            covariances = state.covariances + factor * (covariances - state.covariances)
            white, _ = whiten(state, covariances, self.size)
            valid = np.linalg.eigvalsh(white)[:, 0] > _LEAST_STEP
            covariances = np.where(valid[:, None, None], covariances, self.covariances)
        return replace(self, count=count, means=means, covariances=covariances)

    def towards(self, new: Moments, terms: int) -> Moments:
        """The running mean over ``terms`` iterates, ``new`` being the last."""
        count = self.count + (new.count - self.count) / terms
        means = self.means + (new.means - self.means) / terms
        often = self.seen + (new.seen - self.seen) / terms
        if new.terms == 0:
            return replace(self, count=count, means=means, seen=often, hidden=new.hidden)
        seen = self.terms + 1
        covariances = self.covariances + (new.covariances - self.covariances) / seen
        return Moments(count, means, covariances, new.size, often, new.hidden, seen)


@dataclass(frozen=True)
class Estimate:
    """Where private EM stands: moments, and the mixture in whose coordinates they become valid.

    Without moments (a start) it is that mixture itself.
    """

    model: PrivateMixtureModel
    frame: Mixture
    moments: Moments | None = None

    @cached_property
    def mixture(self) -> Mixture:
        """The valid mixture."""
        return self.frame if self.moments is None else self.model.valid(self.frame, self.moments)

    @property
    def means(self) -> Array:
        """Those of the valid mixture."""
        if self.moments is None or self.model.prior is not None:
            return self.mixture.means
        return self.model.ground.region.inside(self.moments.means)

    def beyond(self, factor: float) -> Estimate:
        """A step ``factor`` times as long as EM's."""
        assert self.moments is not None
        return replace(self, moments=self.moments.beyond(self.frame, factor))

    def towards(self, new: Estimate, terms: int) -> Estimate:
        """The running mean over ``terms`` iterates, ``new`` being the last.

        In the frame of the first term: in a later, smaller one its noise would look large, be
        softened again and again, and the component would walk to nothing.
        """
        assert self.moments is not None
        assert new.moments is not None
        return replace(self, moments=self.moments.towards(new.moments, terms))

    def restarted(self) -> Estimate:
        """Another try for components that noise has swallowed; it is given in a replay."""
        again = held(self._another_try)
        return self if again is None else again

    def _another_try(self) -> Estimate | None:
        assert self.moments is not None
        lost = self.moments.seen < 1
        halves = halves_of(self.mixture.weights, lost)
        return Estimate(self.model, halved(self.mixture, halves)) if lost.any() else None

    def lost(self) -> tuple[NDArray[np.bool_], Halves, float]:
        """Components that were seen in less than half of the iterates, and whose halves they are.

        And what part of all records the noise may hide.
        """
        assert self.moments is not None
        lost = np.asarray(self.moments.seen < 0.5)
        return lost, halves_of(self.mixture.weights, lost), self.moments.hidden


@dataclass(frozen=True)
class PrivateMixtureModel:
    """A mixture in unit coordinates, from noisy sums.

    Parameters
    ----------
    ground : Ground
        Region, number of records and a bound on it.
    recipe : str
        A key of :data:`privem.models.gaussian_mixture.query.RECIPES`.
    weights : MomentWeights
        Of counts, sums and second moments in a release, and the radius.
    prior : Prior or None
        In unit coordinates.
    sharp : int or None
        If second moments have so little noise that not every iteration needs them: the iteration
        from which on every other asks.
    """

    ground: Ground
    recipe: str
    weights: MomentWeights
    prior: Prior | None = None
    sharp: int | None = None

    def query(self, state: Estimate, round: int = 0) -> BoundedQuery:
        """The bounded sums under ``state``.

        A sharp second moment is asked for in the first, then in every other iteration: in those
        between, means and weights have less noise.
        """
        w, ground = self.weights, self.ground
        if self.sharp is not None and round > 0 and (round - self.sharp) % 2 != 0:
            w = MomentWeights.without_second(w.radius)
        return BoundedQuery(
            state.mixture, ground.region, w, self.recipe, ground.rows, ground.cap_weight
        )

    def m_step(self, state: Estimate, release: Release[BoundedSums]) -> Estimate:
        """New moments, in the frame of the mixture they were asked under."""
        frame = release.query.mixture
        return Estimate(self, frame, self._moments(frame, state.means, release))

    def _moments(self, state: Mixture, before: Array, release: Release[BoundedSums]) -> Moments:
        """Counts, means and covariances in unit coordinates, before they are made valid.

        Of sums about ``state``; means are shrunk towards ``before``.
        """
        sums, noise, w = release.statistics, release.deviation, release.query.weights
        assert noise is not None
        k, d = state.means.shape
        whitened = self.recipe == "whitened"
        count = sums.count / w.w0
        if self.ground.fixed_count:
            count = count + (self.ground.count - count.sum()) / k
        # A component whose count drowns in noise stays where it is: moving it would be a walk.
        unseen = count < _SEEN * noise.count / w.w0
        seen = np.where(unseen, 0.0, 1.0)
        hidden = float(np.max(noise.count)) / (w.w0 * self.ground.count)
        count = np.maximum(count, _LEAST_PART * self.ground.count / k)
        n = count[:, None]
        whitener = state.whiteners
        matrix = whitener.ndim == 3
        moves = sums.total / (w.w1 * n)
        spread = noise.total[:, 0] / (w.w1 * count)
        if not whitened:  # moves from the centre: make them moves from the last means
            moves = _times(whitener, moves - state.means)
            size = np.sum(whitener**2, axis=(1, 2)) if matrix else np.sum(whitener**2, axis=1)
            spread = spread * np.sqrt(size / d)
        away = _times(whitener, state.means - before)
        moves = james_stein(moves + away, spread**2)
        if whitened:  # no mean of clipped records lies further out
            lengths = np.linalg.norm(moves, axis=1, keepdims=True)
            moves *= np.minimum(1.0, w.radius / np.maximum(lengths, 1e-300))
        moves[unseen] = 0.0
        lower = np.asarray(np.linalg.inv(whitener) if matrix else 1.0 / whitener)
        means = before + _times(lower, moves)
        if sums.second.size == 0:
            return Moments(count, means, state.covariances, np.zeros(()), seen, hidden, 0)
        factor = w.w2
        if release.query.shared:
            factor *= _shared_consistency(state, w.radius)
        elif whitened:
            factor *= consistency(d, w.radius)
        second, deviation = sums.second / factor, noise.second / factor
        about = moves - away if whitened else means
        match state.covariance_type:
            case "full":
                spreads = smat(second, d) / n[:, :, None] - np.einsum("ki,kj->kij", about, about)
                size = operator_noise(d, deviation[:, 0] / count)
            case "tied":
                share = count / count.sum()
                spreads = smat(second, d) / self.ground.count
                spreads = spreads - np.einsum("k,ki,kj->ij", share, about, about)
                size = operator_noise(d, deviation[0] / self.ground.count)
            case "diag":
                spreads = second / n - about**2
                size = deviation[:, 0] / count
            case _:
                spreads = (second / count - np.sum(about**2, axis=1)) / d
                size = deviation / (count * d)
        if not whitened:
            spreads, size = whiten(state, spreads, size)
        if spreads.ndim == state.covariances.ndim == 3:
            spreads[unseen] = np.eye(d)
        elif state.covariance_type != "tied":
            spreads[unseen] = 1.0
        return Moments(count, means, _unwhiten(state, spreads), size, seen, hidden)

    def valid(self, frame: Mixture, moments: Moments) -> Mixture:
        """A mixture from (averaged) moments. Total: any finite moments give one.

        Eigenvalues are softened in the coordinates of ``frame``, and floored.
        """
        kind, ceiling = frame.covariance_type, self.ground.region.reach**2
        white, _ = whiten(frame, moments.covariances, moments.size)
        size = moments.size / math.sqrt(max(moments.terms, 1))
        least = np.clip(size, _LEAST_STEP, 1.0)
        if kind in ("full", "tied"):
            steps = soften(white, least, size, _MOST_STEP)
            covariances = soften(_unwhiten(frame, steps), _FLOOR, 0.0, ceiling)
        else:
            low, noise = (x[:, None] if kind == "diag" else x for x in (least, size))
            step = soften_each(white, low, noise, _MOST_STEP)
            covariances = np.clip(_unwhiten(frame, step), _FLOOR, ceiling)
        weights, means = moments.count, moments.means
        if self.prior is not None:
            n = moments.count[:, None]
            means, covariances = self.prior.shrink(means, n, covariances, kind)
            if kind in ("full", "tied"):  # a prior mean far away makes them all but singular
                tops = np.maximum(np.trace(covariances, axis1=-2, axis2=-1), _FLOOR)
                covariances = soften(covariances, np.maximum(_FLOOR, _RATIO * tops), 0.0, tops)
            weights = self.prior.counts(moments.count)
        weights = np.maximum(weights, 1e-12 * self.ground.count)
        weights = weights / weights.sum()
        means = self.ground.region.inside(means)
        return replace(frame, weights=weights, means=means, covariances=covariances)


def _times(matrices: Array, vectors: Array) -> Array:
    """Of each component: its matrix, or a diagonal, times its vector."""
    if matrices.ndim == 2:
        return matrices * vectors
    return np.asarray(np.einsum("kij,kj->ki", matrices, vectors))


def whiten(state: Mixture, covariances: Array, size: Array) -> tuple[Array, Array]:
    """Covariances in the whitened coordinates of ``state``, and the size of their noise there."""
    w = state.whiteners
    match state.covariance_type:
        case "full":
            scale = np.sum(w**2, axis=(1, 2)) / w.shape[1]
            return w @ covariances @ np.swapaxes(w, 1, 2), size * scale
        case "tied":
            return w[0] @ covariances @ w[0].T, size * np.sum(w[0] ** 2) / w.shape[1]
        case "diag":
            return w**2 * covariances, size * np.max(w**2, axis=1)
        case _:
            return w[:, 0] ** 2 * covariances, size * w[:, 0] ** 2


def _unwhiten(state: Mixture, white: Array) -> Array:
    """The inverse of :func:`whiten`, of covariances."""
    w = state.whiteners
    match state.covariance_type:
        case "full":
            lower = np.linalg.inv(w)
            return np.asarray(lower @ white @ np.swapaxes(lower, 1, 2))
        case "tied":
            lower = np.linalg.inv(w[0])
            return np.asarray(lower @ white @ lower.T)
        case "diag":
            return np.asarray(white / w**2)
        case _:
            return np.asarray(white / w[:, 0] ** 2)


def _shared_consistency(state: Mixture, radius: float) -> float:
    """As :func:`~privem.blocks.shrinkage.consistency`, one factor per record, of a tied mixture.

    A record of the k-th component is taken to have F = q - 2 log t, with t that of its mean.
    """
    white = state.means @ state.whiteners[0].T
    apart = np.sum((white[:, None] - white) ** 2, axis=2)
    t = np.exp(-0.5 * apart) @ state.weights
    q = _squared_lengths(state.means.shape[1])
    unlikely = q - 2 * np.log(t)[:, None]
    kept = np.minimum(1.0, radius**2 / np.maximum(unlikely, 1e-300)) @ q / q.sum()
    return float(state.weights @ kept)


@lru_cache(maxsize=64)
def _squared_lengths(d: int) -> Array:
    """Quantiles of chi squared, as many records of a standard Gaussian."""
    return np.asarray(chi2.ppf((np.arange(1024) + 0.5) / 1024, d))


def halves_of(weights: Array, lost: NDArray[np.bool_]) -> Halves:
    """Each lost component, and the one that is then the heaviest, whose half it becomes.

    Examples
    --------
    >>> halves_of(np.array([0.7, 0.05, 0.2, 0.05]), np.array([False, True, False, True]))
    [(1, 0), (3, 0)]
    """
    if lost.all():
        return []
    left, halves = np.where(lost, 0.0, weights), []
    for k in np.flatnonzero(lost):
        j = int(np.argmax(left))
        left[k] = left[j] = left[j] / 2
        halves.append((int(k), j))
    return halves


def halved(state: Mixture, halves: Halves, apart: float = _APART) -> Mixture:
    """Each lost component becomes one half of another, which keeps its moments.

    A component with fewer records than the noise on their count is not seen. Left alone it would
    stay where it fell, often at the border of the region, with the least weight a component may
    have: too little to notice, enough to put impossible records into synthetic data. With
    ``apart=0`` it becomes a copy of the other: the density does without it.
    """
    if not halves:
        return state
    kind = state.covariance_type
    weights, means = state.weights.copy(), state.means.copy()
    covariances = state.covariances.copy()
    weights[[k for k, _ in halves]] = 0.0
    for k, j in halves:
        step, half = _halves(covariances if kind == "tied" else covariances[j], means.shape[1])
        means[k], means[j] = means[j] + apart * step, means[j] - apart * step
        if kind != "tied":
            covariances[k] = covariances[j] = half(apart)
        weights[k] = weights[j] = weights[j] / 2
    return replace(state, weights=weights / weights.sum(), means=means, covariances=covariances)


def _halves(covariance: Array, d: int) -> tuple[Array, Callable[[float], Array]]:
    """One deviation along the longest axis; the covariance with so much less along that axis."""
    covariance = np.asarray(covariance)
    if covariance.ndim == 2:
        values, vectors = np.linalg.eigh(covariance)
        step = np.sqrt(values[-1]) * vectors[:, -1]
        return step, lambda a: covariance - a * a * np.outer(step, step)
    step = np.zeros(d)
    if covariance.ndim == 1:
        axis = int(np.argmax(covariance))
        step[axis] = np.sqrt(covariance[axis])
        return step, lambda a: covariance - a * a * step**2
    step[0] = np.sqrt(covariance)
    return step, lambda a: covariance * (1 - a * a / d)
