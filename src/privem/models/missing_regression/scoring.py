"""Fisher's scoring on noisy sums of clipped gradients: regression with missing covariates.

Each iteration asks for the mean of clipped EM gradients and capped squared residuals, and compares
it with what the model expects of them. How that mean moves with the parameters, J, is known without
data (:func:`scoring`), so one solve gives the step; at the solution nothing is left to move,
whatever was clipped. Each iteration gets twice the budget of the one before; where they lead:
:mod:`~privem.models.symmetric.path`.

The variance is a working one: what the current coefficients leave of y. It falls towards the
noise's own, and is not below that where it is known.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ...blocks.bounding import Clip
from ...blocks.gradient import BoundedGradientQuery, GradientSums, Squares
from ...blocks.shrinkage import stands_out
from ...core import Release
from ...ground import Ground
from ...linalg import Array
from ...run import held
from ..symmetric.gradient_em import SQUARES, gradient_query
from ..symmetric.model import Symmetric
from ..symmetric.path import NoisyState
from .query import MissingCovariateGradient

_CAP = 10.0  # squared residuals are capped at so many variances


@dataclass(frozen=True)
class ScoringEM:
    """Fisher's scoring, as a model for the private loop.

    Parameters
    ----------
    ground : Ground
    missing : ndarray of shape (d,)
        How often entries are missing.
    tightness : float
        Clip at so many typical lengths of a gradient.
    most : float
        What E y^2 is at most: the variance, which is a part of it, is no larger.
    known : float
        The variance of the noise; zero, if it is not known.
    """

    ground: Ground
    missing: Array
    tightness: float
    most: float
    known: float

    def query(self, state: NoisyState, round: int = 0) -> BoundedGradientQuery:
        """The sums of clipped gradients and capped squared residuals."""
        clip = self.tightness * typical_length(state, self.missing)
        cap = _CAP * state.variance
        gradient = MissingCovariateGradient(state.beta, state.variance)
        squares = Squares(SQUARES * clip / cap, cap)
        return gradient_query(self.ground, gradient, Clip(clip), squares)

    @np.errstate(over="ignore")  # of noise beyond all numbers nothing stands out
    def m_step(self, state: NoisyState, release: Release[GradientSums]) -> NoisyState:
        """What the sums say beyond what was expected of them, solved for the parameters."""
        sums, noise, query = release.statistics, release.deviation, release.query
        state = NoisyState(query.model.beta, query.model.variance)
        assert noise is not None
        assert sums.square is not None
        d, squares, count = len(state.beta), query.squares, self.ground.count
        clip = query.bounding.radius
        expected, slope = held(lambda: scoring(state, self.missing, clip, squares.cap))
        found = np.append(sums.total, sums.square / squares.weight) / count - expected
        # In units of the noise all entries of the slope are plain numbers.
        unit = np.append(np.full(d, math.sqrt(state.variance)), state.variance)
        inverse = _bounded_inverse(slope * unit / unit[:, None]) * unit[:, None] / unit
        step = inverse @ found
        spread = np.full(d + 1, float(noise.total[0]) / count)
        spread[-1] /= squares.weight
        blurs = np.sum((inverse * spread) ** 2, axis=1)
        # The variance too moves by what stands out of its noise; never more than a factor of
        # four at once, nor beyond what there is; a known one is where residuals end.
        change = float(stands_out(step[d:], float(blurs[d]), state.variance**2)[0])
        variance = float(np.clip(state.variance + change, state.variance / 4, state.variance * 4))
        variance = max(min(variance, self.most), self.known)
        return NoisyState(state.beta + step[:d], variance, float(np.mean(blurs[:d])))


def scoring(
    state: Symmetric, missing: Array, clip: float, cap: float, records: int = 40_000
) -> tuple[Array, Array]:
    """What bounded gradients and squares look like under the model: no data, only ``state``.

    A fixed simulation of records whose entries are missing with probability ``missing`` (d,): f =
    (gradient clipped at ``clip``; squared residual capped at ``cap``) and the score S of (b, s).
    Returns E f, and J = E f S': the mean of f moves by J times a small change of the parameters.
    """
    rng = np.random.default_rng(20_000)
    b, s, d = state.beta, state.variance, len(state.beta)
    hidden = rng.random((records, d)) < missing
    x = np.where(hidden, 0.0, rng.standard_normal((records, d)))
    total = s + hidden @ b**2
    r = rng.standard_normal(records) * np.sqrt(total)
    share = s / total
    even = hidden * b * (share * (r**2 / total - 1))[:, None]
    g = x * (r * share)[:, None] + even
    score = np.concatenate([g / s, ((r**2 / total - 1) / (2 * total))[:, None]], axis=1)
    size = np.linalg.norm(g, axis=1, keepdims=True)
    factor = 1 / np.maximum(size / clip, 1.0)
    squares = np.minimum((r * share) ** 2 + (total - s) * share, cap)
    f = np.concatenate([g * factor, squares[:, None]], axis=1)
    # The part that is odd in r has mean zero, which the simulation need not find out. (The length
    # is even in r: observed and missing entries are different ones.)
    mean = np.append((even * factor).mean(axis=0), squares.mean())
    return mean, (f - f.mean(axis=0)).T @ score / records


def typical_length(state: Symmetric, missing: Array) -> float:
    """Root mean square length of a gradient under the model, for entries missing so often."""
    rng = np.random.default_rng(20_001)
    b, s = state.beta, state.variance
    hidden = rng.random((2000, len(b))) < missing
    extra = hidden @ b**2
    total = s + extra
    share = s / total
    seen = np.maximum((~hidden).sum(axis=1), 1)  # a length is not zero, even where nothing is seen
    return math.sqrt(float(np.mean(s * share * seen + 2 * extra * share**2)))


def _bounded_inverse(matrix: Array) -> Array:
    """The inverse, directions that say next to nothing left out (an entry never observed)."""
    u, values, v = np.linalg.svd(matrix)
    keep = values > 0.02 * values[0]
    return np.asarray((v[keep].T / values[keep]) @ u[:, keep].T)
