"""How large exact sums of regressions, symmetric models and classes can be.

As in :mod:`privem.federation.wire.magnitude`: a_j bounds a covariate, c the target. What else
enters an E-step is bounded by public parameters: a fitted value <b, x> by f = sum |b_j| a_j, a
residual by c + f, tanh by one, log cosh t by |t|.
"""

from __future__ import annotations

import math

import numpy as np

from ...blocks.directions import DirectionsQuery
from ...linalg import svec
from ...models.categorical_mixture.model import ClassQuery, PairsQuery
from ...models.missing_regression.model import MissingQuery
from ...models.regression_mixture.directions import ResidualDirections
from ...models.regression_mixture.model import RegressionQuery
from ...models.symmetric.model import SymmetricQuery
from ...tree import Array
from .magnitude import per_record

__all__: list[str] = []

# An off-diagonal entry of a packed matrix is sqrt(2) times the matrix's.
_PACKED = 1.5


def _reach(low: Array, high: Array, about: Array | float = 0.0) -> Array:
    return np.asarray(np.maximum(np.abs(low - about), np.abs(high - about)))


@per_record.register
def _(query: SymmetricQuery, low: Array, high: Array) -> Array:
    b, s, reach = np.abs(query.state.beta), query.state.variance, _reach(low, high)
    if query.target:
        a, c = reach[:-1], float(reach[-1])
        f = float(b @ a)
        along, square, size, dimension = c * f, c * c, f * f, 1
        parts = [[1.0], c * a, [square], svec(np.outer(a, a))]
    else:
        along, square, size, dimension = (
            float(b @ reach),
            float(reach @ reach),
            float(b @ b),
            len(b),
        )
        parts = [[1.0], reach, [square]]
    constant = dimension / 2 * abs(math.log(math.tau * s))
    return np.concatenate([*parts, [along / s + (square + size) / (2 * s) + constant]])


@per_record.register
def _(query: MissingQuery, low: Array, high: Array) -> Array:
    """With D >= s + b_j^2 where entry j is missing, its expectation is at most r |b_j|/D.

    No entry of V = diag(missing) - b_mis b_mis'/D is larger than one, as 2 |b_i b_j| <= D.
    """
    b, s, reach = np.abs(query.state.beta), query.state.variance, _reach(low, high)
    a, c = reach[:-1], float(reach[-1])
    r = c + float(b @ a)
    m = np.maximum(a, r * b / (s + b * b))
    constants = abs(math.log(math.tau * s)) + abs(math.log(math.tau * (s + float(b @ b))))
    likelihood = 0.5 * (r * r / s + constants)
    second = svec(np.outer(m, m) + 1.0)
    return np.concatenate([[1.0], c * m, second, [c * c], np.ones(len(b)), [likelihood]])


@per_record.register
def _(query: DirectionsQuery, low: Array, high: Array) -> Array:
    return np.full(query.size, _PACKED)


@per_record.register
def _(query: ResidualDirections, low: Array, high: Array) -> Array:
    q = len(low)
    return np.full(q * (q + 1) // 2, _PACKED)


@per_record.register
def _(query: RegressionQuery, low: Array, high: Array) -> Array:
    s = query.state
    white = np.abs(s.whitener) @ _reach(low[:-1], high[:-1], s.centre)
    heights = float(_reach(low, high)[-1]) + np.abs(s.coefficients) @ np.append(1.0, white)
    residuals = heights / np.sqrt(s.variances)
    u = [np.append(white, residual) for residual in residuals]
    likelihood = float(np.max(0.5 * residuals**2 + np.abs(s.constants))) + math.log(len(u))
    seconds = [svec(np.outer(part, part)) for part in u]
    return np.concatenate([np.ones(len(u)), *u, *seconds, [likelihood]])


@per_record.register
def _(query: ClassQuery, low: Array, high: Array) -> Array:
    k, p = query.state.profiles.shape
    logs = [np.abs(np.log(part)).max() for part in (query.state.weights, query.state.profiles)]
    likelihood = logs[0] + len(query.sizes) * logs[1] + math.log(k)
    return np.concatenate([np.ones(k * (1 + p)), [likelihood]])


@per_record.register
def _(query: PairsQuery, low: Array, high: Array) -> Array:
    p = sum(query.sizes)
    return np.full(p * (p + 1) // 2, _PACKED / len(query.sizes))
