"""The weighted mean of noisy steps, shrunk towards the start.

Gradient EM takes T noisy steps, each from where the steps before it have led, and each points at
the solution. The estimate is their weighted mean, shrunk towards the start. The weight of a step
follows from public numbers: it misses the solution by its noise, and by a part of the distance that
it began at, because EM contracts and does not jump (by a factor below 1/4 for the models of Wang et
al. 2023, Lemmas 2 and 4). That distance is what the steps before leave, and at first that of the
start. So early steps count if noise is large, and are forgotten if it is small. Far from the
solution plain EM contracts slowly (scoring does not): see
:meth:`Course.resumed` and :meth:`Course.believing`.

A given start is taken to lie about a quarter of its length from the solution: Wang et al. prove
convergence from there (Lemma 2). (Of the length, the records' deviation added in quadrature, so
that zero is not taken to be exact.) If noise is longer than that, its share of the estimate stays
below an eighth of the length.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from ...tree import Array
from .model import Symmetric

__all__ = ["Course", "shortened"]

_QUARTER = 1 / 16  # squared
# How well the square of the start's distance is known, over itself.
_SURE = 0.5
# A step whose square is so many times what noise hardly exceeds needs no others to be believed.
_CLEAR = 2.0


def noise_length(d: int, variance: float) -> float:
    """What the squared length of noise hardly exceeds: two deviations above its mean."""
    return variance * (d + 2 * math.sqrt(2 * d))


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


@dataclass(frozen=True)
class Course:
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
    def begin(cls, state: Symmetric, near: bool = True) -> Course:
        """From a state that is near the solution, or anywhere."""
        square = float(state.beta @ state.beta) + state.variance
        size = max(_QUARTER * square if near else square, 1e-200)
        return cls(state.beta, size, np.zeros_like(state.beta))

    def resumed(self, state: Symmetric, near: bool, t: int, iterations: int) -> Course:
        """The course of iteration t > 0 of plain EM.

        A start that is not ``near`` may be anywhere, where EM contracts slowly: until half of the
        iterations are done it is better to forget where they came from.
        """
        half = iterations // 2
        return self if near or t > half else Course.begin(state, t == half)

    def believing(self, state: Symmetric, step: Array, variance: float) -> Course:
        """The course that a step of plain EM is part of; parameters as :meth:`to`.

        A new one, if the step is long beyond doubt: the start was worse than it was taken to be,
        and the steps before have not arrived.
        """
        if float(step @ step) <= _CLEAR * noise_length(step.size, variance):
            return self
        return Course(state.beta, self.size, np.zeros_like(state.beta))

    def to(self, state: Symmetric, step: Array, variance: float) -> Course:
        """A step more: from where, and its noise's variance in each entry."""
        variance = min(variance, 1e100 * self.size)  # what says nothing has a weight all the same
        noise = step.size * variance / self.size
        left = max(1 / (1 + self.weight), 1e-30)
        weight = 1 / (noise + _QUARTER * left)
        return replace(
            self,
            total=self.total + weight * (state.beta + step),
            weight=self.weight + weight,
            blur=self.blur + weight * weight * variance,
        )

    def estimate(self) -> Array:
        """The solution, as far as it stands out of the noise."""
        step = self.total / self.weight - self.start
        variance = self.blur / self.weight / self.weight
        return self.start + shortened(step, variance, self.size)
