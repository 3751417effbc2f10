"""Private k-means: count, bounds, frame, a noisy grid to start from, Lloyd on noisy sums.

*The frame* is where the records lie: a ball of their size first, then the axes within it. Its first
release asks for the mean and the mean square only, d + 1 numbers that survive much noise; the
second for the covariance, in the ball of the first. What differs from a ball is kept as far as it
stands out of its noise (James and Stein), so that the frame of very noisy data is a ball of about
the right size at about the right place, never one drawn out by noise.

With many columns the second release asks for variances only, 2 d numbers instead of d^2/2: the
frame is diagonal, and its axes are the columns. It is the same query with another covariance type,
under the same bound (:mod:`privem.blocks.sensitivity`: a diagonal is a projection).
"""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...blocks.sensitivity import MomentWeights
from ...blocks.shrinkage import (
    clip_radius,
    consistency,
    james_stein,
    kept_share,
    soften,
    soften_each,
)
from ...budget import Allowance, Iterated, Part
from ...core import Release, Stage
from ...em import LateMean, PrivateEM
from ...ground import Ground, Preamble, PrivateFit, without_evidence
from ...linalg import Array
from ...run import given, held
from ..gaussian_mixture.frame import frame_parts, frame_size, look_at
from ..gaussian_mixture.known import Look
from ..gaussian_mixture.model import Mixture
from ..gaussian_mixture.start import filled, pack
from .grid import MOST_CELLS, GridStart
from .model import PrivateKMeansModel, SpreadClusters
from .query import cluster_releases, whitened_weights

FRAME_SHARES = (0.06, 0.10)
# Up to so many columns the frame has axes of its own. Their covariances are 33,000 numbers there, a
# twentieth of a second of noise; 2,000 columns would need two million. And noise on so many drowns
# them: with 20,000 rows of 300 columns the inertia was 0.89 of the total from variances and 0.92
# from covariances at epsilon 1, 0.66 and 0.71 at epsilon 4 (better data), 0.87 and 0.62 exact.
_MOST_TURNED = 256
# Least variance, in unit coordinates.
_FLOOR = 1e-6


def frame_sizes(d: int) -> tuple[int, int]:
    """How many numbers the two releases have."""
    return 2 + d, frame_size(d, d > _MOST_TURNED)


def cluster_frame(
    ground: Ground, guess: float
) -> Generator[Stage, Release[Any], tuple[Array, Array]]:
    """Mean and covariance in unit coordinates; of many columns its diagonal, (d,).

    ``guess``: of the records' variance, in squares of the region's reach.
    """
    region = ground.region
    d, unit = region.d, region.reach**2
    # In units of the region's reach nothing is clipped.
    mixture = Mixture("spherical", np.ones(1), np.zeros((1, d)), np.array([unit]))
    w = MomentWeights(0.0, 0.8, 0.6, 1.0)
    look = yield from look_at(ground, "frame 1", mixture, w)
    mean = _shrunk(look)
    square = _between(float(look.second) - float(mean @ mean), look.noise, guess)
    centre = region.inside(mean[None] * region.reach)[0]
    variance = float(np.clip(square * unit / d, _FLOOR, unit))

    r = clip_radius(d)
    if d > _MOST_TURNED:
        ball = Mixture("diag", np.ones(1), centre[None], np.full((1, d), variance))
        half = math.sqrt(0.5)
        w = MomentWeights(0.0, half / r, half / r**2, r)
    else:
        ball = Mixture("full", np.ones(1), centre[None], np.eye(d)[None] * variance)
        w = MomentWeights.balanced(d, r, count=False)
    look = yield from look_at(ground, "frame 2", ball, w)
    # A fit played again was asked in other coordinates than it would ask in now.
    scale = math.sqrt(float(np.ravel(look.coordinates.covariances)[0]))
    away = (look.coordinates.means[0] - centre) / scale
    mean = _shrunk(look, away)
    about, second = mean - away, look.second / consistency(d, r)
    if d > _MOST_TURNED:
        white = _nearly_equal(second - about**2, look.noise)
    else:
        white = _nearly_round(second - np.outer(about, about), look.noise)
    return region.inside((centre + scale * mean)[None])[0], white * scale**2


def _shrunk(look: Look, away: Array | float = 0.0) -> Array:
    """Its mean, from a point that lies so far from it, drawn to that by what noise explains."""
    return np.asarray(james_stein((look.mean + away)[None], np.array([look.mean_noise**2]))[0])


def _moved(centres: Array, old: tuple[Array, Array], new: tuple[Array, Array]) -> Array:
    """Centres that lie in a new frame as they did in an old one."""
    if old is new:
        return centres
    (at, before), (to, after) = old, new
    if before.ndim == 1:
        return to + (centres - at) * np.sqrt(after / before)
    turn = np.linalg.cholesky(after) @ np.linalg.inv(np.linalg.cholesky(before))
    return np.asarray(to + (centres - at) @ turn.T)


def _between(value: float, noise: float, guess: float) -> float:
    """What to take a variance for, given a noisy one and a guess that may be as wrong as large."""
    drawn = (value * guess**2 + guess * noise**2) / (guess**2 + noise**2)
    return max(drawn, min(noise, guess) / 2)  # no narrower than what the noise can tell


def _nearly_round(matrix: Array, noise: float) -> Array:
    """A valid covariance: its deviation from a ball shrunk by what noise on its svec explains."""
    d = len(matrix)
    size = float(np.trace(matrix)) / d
    away = matrix - size * np.eye(d)
    kept = kept_share(away, d * (d + 1) // 2 - 1, noise)
    size, low = _size_and_least(size, noise, d)
    return soften(size * np.eye(d) + kept * away, low, 0.0, 1e3)


def _nearly_equal(variances: Array, noise: float) -> Array:
    """The same of a diagonal."""
    d = len(variances)
    away = variances - variances.mean()
    kept = kept_share(away, d - 1, noise)
    size, low = _size_and_least(float(variances.mean()), noise, d)
    return soften_each(size + kept * away, low, 0.0, 1e3)


def _size_and_least(size: float, noise: float, d: int) -> tuple[float, float]:
    size = float(np.clip(_between(size, noise / math.sqrt(d), 1.0), 0.1, 4.0))
    return size, float(np.clip(noise, 0.02, 0.5 * size))


# Of what the count, the bounds and the frame leave.
_GRID_SHARE = 0.4
# Recipes that start from the grid; the papers' own start from a packing.
_GRIDDED = ("whitened", "joint")
# So much noise on a centre, in spreads of its cluster, is worth all the iterations together.
_LEVEL = 0.25
_MOST_ROUNDS = 12
# Least spread of clusters, in unit coordinates.
_NARROWEST = 1e-4


@dataclass(frozen=True)
class PrivateKMeansPlan(Iterated):
    """Count, bounds, frame, Lloyd."""

    usual = 8
    preamble: Preamble
    clusters: int
    recipe: str
    n_iter: int | None
    rng: np.random.Generator
    start: Array | None = None
    max_iter: int = _MOST_ROUNDS

    def parts(self) -> list[Part]:
        """How the budget is shared out."""
        d = self.preamble.d
        parts, left = self.preamble.parts(), 1.0 - self.preamble.share()
        # A pure fit starts without looking.
        given_start = self.start is not None or self.preamble.pure
        if not given_start:
            parts += frame_parts(left, FRAME_SHARES, frame_sizes(d))
            left *= 1 - sum(FRAME_SHARES)
        each = cluster_releases(self.recipe, self.clusters, d)
        if not given_start and self.recipe in _GRIDDED:
            parts.append(Part("grid", left * _GRID_SHARE, [("gaussian", MOST_CELLS)]))
            left *= 1 - _GRID_SHARE
        return [*parts, Part("em", left, each * self.planned)]

    def stages(self, allowance: Allowance) -> Generator[Stage, Release[Any], PrivateFit[Array]]:
        """Generate the stages."""
        ground = yield from self.preamble.stages(allowance)
        if not ground.fixed_count:
            # A count below its own noise says nothing, and everything is divided by it.
            least = ground.allowance.multiplier("count") * ground.cap_weight
            ground = replace(ground, count=max(ground.count, least))
        rounds, allowance = held(lambda: self._rounds(ground))
        ground = replace(ground, allowance=allowance)
        start = self._start(ground)  # where no iteration follows, it is the result
        state = yield from (given(start) if rounds else start)
        model = PrivateKMeansModel(ground, self.recipe)
        each = len(cluster_releases(self.recipe, *state.centres.shape))
        em = PrivateEM(
            model,
            state,
            rounds,
            lambda t: ground.noise("em", each * rounds),
            LateMean(state, rounds, "centres"),
            "k-means",
        )
        state = yield from em.stages()
        centres, structure = ground.region.to_data(state.centres), "full" if rounds else "grid"
        lost = without_evidence(state.evidence)
        return PrivateFit(centres, ground, rounds, structure, lost=lost)

    def _start(self, ground: Ground) -> Generator[Stage, Release[Any], SpreadClusters]:
        region, d, k = ground.region, self.preamble.d, self.clusters
        # K clusters share the volume: each is about K^(-1/d) as wide as the whole.
        narrower = k ** (-1.0 / d)
        if self.start is not None:
            centres = region.inside((self.start - region.centre) / region.scale)
            return SpreadClusters(centres, region.reach / math.sqrt(d) * narrower)
        # Given bounds are taken to be filled; estimated ones are some eight scales away.
        guess = 1 / 3 if self.preamble.region is not None else 1 / 30
        # Gaussian noise has no place in a pure fit, whose bounds are given: they are filled.
        pure = self.preamble.pure
        looked = filled(region) if pure else (yield from cluster_frame(ground, guess))
        middle, covariance = frame = held(lambda: looked)
        if self.recipe in _GRIDDED:
            inside = region.inside(middle[None])[0]
            start = GridStart(ground, inside, covariance, k, self.rng)
            centres, square = yield from start.stages()
            centres = _moved(centres, frame, looked)
            return SpreadClusters(centres, max(math.sqrt(square / d), _NARROWEST))
        centres = region.inside(pack(middle, covariance, k, self.rng))
        variances = covariance if covariance.ndim == 1 else np.diag(covariance)
        return SpreadClusters(centres, math.sqrt(float(variances.mean())) * narrower)

    def _rounds(self, ground: Ground) -> tuple[int, Allowance]:
        """How many iterations, and the allowance; where they would only move noise, none.

        From the noise level alone, so within what was reserved.
        """
        allowance = ground.allowance
        if self.n_iter is not None or not allowance.adaptive or self.recipe == "dplloyd":
            return self.planned, allowance
        # Noise of one release with all of the budget, against the records of a cluster.
        level = allowance.multiplier("em", 1) * self.clusters / ground.count
        if self.recipe not in _GRIDDED or self.start is not None:
            return min(int(np.clip(0.02 / level**2, 2, 12)), self.max_iter), allowance
        # The same as noise of a centre's coordinate, in spreads of its cluster.
        w = whitened_weights(self.preamble.d, clip_radius(self.preamble.d))
        level *= w.l2(allowance.neighbours) / w.w1
        rounds = int(min((_LEVEL / level) ** 2, _MOST_ROUNDS, self.max_iter))
        if rounds:
            return rounds, allowance
        # What they would cost goes to the frame and the grid, not yet spent, in proportion.
        share = {part.name: part.share for part in allowance.parts}
        start = [name for name in share if name == "grid" or name.startswith("frame")]
        more = 1 + share["em"] / sum(share[name] for name in start)
        parts = [
            replace(part, share=part.share * more) if part.name in start else part
            for part in allowance.parts
            if part.name != "em"
        ]
        return 0, replace(allowance, parts=tuple(parts))
