"""The weighted mean of noisy steps, shrunk towards the start.

Gradient EM takes T noisy steps, each from where the steps before it have led, and each points at
the solution. The estimate is their weighted mean, shrunk towards the start. The weight of a step
follows from public numbers: it misses the solution by its noise, and by a part of the distance that
it began at, because EM contracts and does not jump (by a factor below 1/4 for the models of Wang et
al. 2023, Lemmas 2 and 4). That distance is what the steps before leave, and at first that of the
start. So early steps count if noise is large, and are forgotten if it is small. Far from the
solution plain EM contracts slowly (scoring does not): see :meth:`WeightedSteps.resumed` and
:meth:`WeightedSteps.believing`.

A given start is taken to lie about a quarter of its length from the solution: Wang et al. prove
convergence from there (Lemma 2). (Of the length, the records' deviation added in quadrature, so
that zero is not taken to be exact.) If noise is longer than that, its share of the estimate stays
below an eighth of the length.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from ...blocks.shrinkage import stands_out
from ...linalg import Array
from .model import Symmetric

_QUARTER = 1 / 16  # squared
# How well the square of the start's distance is known, over itself.
_SURE = 0.5
# A step whose square is so many times what noise hardly exceeds needs no others to be believed.
_CLEAR = 2.0


@dataclass(frozen=True)
class Residuals:
    """What a release says of the variance, once it is known where the coefficients go.

    Parameters
    ----------
    mean : ndarray of shape (1,)
        Mean squared residual about the coefficients that it was asked with.
    unit : float
        What it is expected to be, over the variance.
    deviation : float
        Of the noise on ``mean / unit``.
    """

    mean: Array
    unit: float
    deviation: float

    def variance(self, before: float, move: Array) -> float:
        """The next variance, if the coefficients move by ``move``.

        Never more than a factor of four at once: noise must not make it vanish or explode.
        """
        change = (self.mean - float(move @ move)) / self.unit - before
        found = before + float(stands_out(change, self.deviation**2, before**2)[0])
        return before * float(np.clip(found / before, 0.25, 4.0))


@dataclass(frozen=True)
class NoisyState(Symmetric):
    """What an M-step found from a noisy release.

    ``blur`` is the variance of the noise in each coefficient. ``residuals``, where there are any,
    give the variance after the coefficients have moved; the one here is then that from before.
    """

    blur: float = 0.0
    residuals: Residuals | None = None


@dataclass(frozen=True)
class WeightedSteps:
    """Steps taken from a public start.

    Parameters
    ----------
    start : ndarray of shape (d,)
    size : float
        Its squared distance from the solution, as far as one can tell.
    total : ndarray of shape (d,)
        Sum of weighted ends.
    weight, blur : float
        Sum of the weights, each ``size`` over what the step misses by, squared; variance of the
        noise in ``total``, in each entry.
    """

    start: Array
    size: float
    total: Array
    weight: float = 0.0
    blur: float = 0.0

    @classmethod
    def begin(cls, state: Symmetric, near: bool = True) -> WeightedSteps:
        """From a state that is near the solution, or anywhere."""
        square = float(state.beta @ state.beta) + state.variance
        size = max(_QUARTER * square if near else square, 1e-200)
        return cls(state.beta, size, np.zeros_like(state.beta))

    def resumed(self, state: Symmetric, near: bool, t: int, iterations: int) -> WeightedSteps:
        """The steps that iteration t > 0 of plain EM adds to.

        A start that is not ``near`` may be anywhere, where EM contracts slowly: until half of the
        iterations are done it is better to forget where they came from.
        """
        half = iterations // 2
        return self if near or t > half else WeightedSteps.begin(state, t == half)

    def believing(self, start: Array, end: Array, variance: float) -> WeightedSteps:
        """The steps that one of plain EM, from ``start`` to ``end``, is added to.

        None, if it is long beyond doubt, two deviations above the mean length of noise and more:
        the start was worse than it was taken to be, and the steps before have not arrived.
        """
        step, d = end - start, len(start)
        if float(step @ step) <= _CLEAR * variance * (d + 2 * math.sqrt(2 * d)):
            return self
        return WeightedSteps(start, self.size, np.zeros_like(start))

    def to(self, end: Array, variance: float) -> WeightedSteps:
        """A step more: where it ends, and its noise's variance in each entry."""
        variance = min(variance, 1e100 * self.size)  # what says nothing has a weight all the same
        noise = end.size * variance / self.size
        left = max(1 / (1 + self.weight), 1e-30)
        weight = 1 / (noise + _QUARTER * left)
        return replace(
            self,
            total=self.total + weight * end,
            weight=self.weight + weight,
            blur=self.blur + weight * weight * variance,
        )

    def estimate(self) -> Array:
        """The solution, as far as it stands out of the noise."""
        step = self.total / self.weight - self.start
        variance = self.blur / self.weight / self.weight
        return self.start + shortened(step, variance, self.size)


class ShrunkPath:
    """A path of private EM (:class:`privem.em.Path`) by weighted steps.

    Parameters
    ----------
    start : Symmetric
    near : bool
        Whether it is near the solution.
    limit : float
        The longest move, in deviations of the residuals: a longer one would have been clipped
        away, so it is noise.
    most : float
        The largest |b|^2.
    iterations : int or None
        Of plain EM, which contracts slowly far off; ``None`` for scoring, which does not.
    """

    def __init__(
        self,
        start: Symmetric,
        near: bool,
        limit: float,
        most: float = math.inf,
        iterations: int | None = None,
    ) -> None:
        self._steps = WeightedSteps.begin(start, near)
        self._near, self._limit, self._most, self._iterations = near, limit, most, iterations

    @np.errstate(over="ignore")  # of noise beyond all numbers nothing stands out
    def step(self, t: int, before: NoisyState, found: NoisyState) -> NoisyState:
        """Towards the weighted mean of all steps, shrunk."""
        steps = self._steps
        if self._iterations is not None:
            steps = steps.resumed(before, self._near, t, self._iterations) if t else steps
            steps = steps.believing(before.beta, found.beta, found.blur)
        self._steps = steps.to(found.beta, found.blur)
        limit = self._limit * math.sqrt(before.variance)
        move = _within(self._steps.estimate() - before.beta, limit)
        variance = found.variance
        if found.residuals is not None:
            variance = found.residuals.variance(before.variance, move)
        return NoisyState(_within(before.beta + move, math.sqrt(self._most)), variance)

    def end(self, state: NoisyState) -> NoisyState:
        """The last state: every one of them is a mean already."""
        return state


def _within(vector: Array, limit: float) -> Array:
    """A vector no longer than ``limit``."""
    return np.asarray(vector * min(1.0, limit / max(float(np.linalg.norm(vector)), 1e-300)))


def shortened(step: Array, variance: float, size: float) -> Array:
    """A step shrunk towards zero by what its noise, of this variance in each entry, explains.

    Without noise the step's square would be s = ``size``, give or take half; with noise it is
    expected to be s + d ``variance``, and to vary by 2 d ``variance``^2 + 4 s ``variance``. The two
    statements about it are weighed by their variances: with little noise this is James' and
    Stein's estimator, which believes the step, with much it is Wiener's, which believes s.
    """
    noise = step.size * variance
    share = variance / size
    trust = _SURE**2 / (_SURE**2 + 2 * step.size * share * share + 4 * share)
    square = trust * float(np.sum(step**2)) + (1 - trust) * (size + noise)
    return np.asarray(step * max(0.0, 1.0 - noise / max(square, 1e-300)))
