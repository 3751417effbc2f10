"""The three models of Wang et al. 2023, made data of them, and the real data of figure 5.

All with noise of variance one, which is known to every method.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from privem import MissingCovariateRegression, SymmetricMixture, SymmetricRegressionMixture
from privem.datasets import load_adult, load_ipums

Array = NDArray[np.float64]
Data = tuple[Array, ...]

KINDS: dict[str, Any] = {
    "GMM": SymmetricMixture,
    "MRM": SymmetricRegressionMixture,
    "RMC": MissingCovariateRegression,
}
MISSING = 0.1
# Public limits of records, covariates and targets. Wide ones cost little.
RADIUS, TARGET = 16.0, 16.0


def draw(
    kind: str, n: int, d: int, snr: float, start: str, repetition: int
) -> tuple[Data, Array, Array]:
    """Data, the truth of length ``snr``, and where all methods start.

    A "near" start is a quarter of the truth's length away from it, in a random direction; a
    "random" one is as long as the truth and has nothing to do with it.
    """
    rng = np.random.default_rng([list(KINDS).index(kind), n, d, repetition])
    truth, away = rng.normal(size=(2, d))
    truth *= snr / np.linalg.norm(truth)
    away *= snr / np.linalg.norm(away)
    first = truth + away / 4 if start == "near" else away
    sign = rng.choice([-1.0, 1.0], n) if kind != "RMC" else np.ones(n)
    if kind == "GMM":
        return (sign[:, None] * truth + rng.normal(size=(n, d)),), truth, first
    X = rng.normal(size=(n, d))
    y = sign * (X @ truth) + rng.normal(size=n)
    if kind == "RMC":
        X[rng.random(X.shape) < MISSING] = np.nan
    return (X, y), truth, first


def gradients(kind: str, data: Data, beta: Array) -> Array:
    """Of each record, at beta."""
    if kind == "GMM":
        return np.tanh(data[0] @ beta)[:, None] * data[0] - beta
    X, y = data
    if kind == "MRM":
        fitted = X @ beta
        return (np.tanh(y * fitted) * y - fitted)[:, None] * X
    # y m - (m m' + V) b, m = (x_obs, r b_mis/D), V = diag(missing) - b_mis b_mis'/D.
    hidden = np.isnan(X)
    seen = np.where(hidden, 0.0, X)
    residual, total = y - seen @ beta, 1 + hidden @ beta**2
    factor = (residual**2 / total - 1) / total
    return seen * (residual / total)[:, None] + hidden * beta * factor[:, None]


def second_moment(kind: str, data: Data, beta: Array) -> float:
    """The largest of a gradient's coordinates: tau, which the paper takes to be known.

    From the data, which favours Algorithm 2 and is not private.
    """
    return float(np.max(np.mean(gradients(kind, data, beta) ** 2, axis=0)))


def error(kind: str, found: Array, truth: Array) -> float:
    """Distance from the truth, up to the sign that mixtures do not have."""
    away = float(np.linalg.norm(found - truth))
    return away if kind == "RMC" else min(away, float(np.linalg.norm(found + truth)))


def bounds(kind: str) -> dict[str, float]:
    """For privem."""
    return {"bounds": RADIUS} | ({} if kind == "GMM" else {"target_bounds": TARGET})


# Round numbers near the centre and deviation of each column, so that the model, which is
# symmetric about zero, can say anything. Everybody is given them.
_ADULT = {
    "age": (40, 14),
    "fnlwgt": (190_000, 105_000),
    "education-num": (10, 2.5),
    "capital-gain": (1000, 7500),
    "capital-loss": (90, 400),
    "hours-per-week": (40, 12),
}
_IPUMS = {"AGE": (40, 20), "EDUC": (6, 3), "UHRSWORK": (20, 20), "INCTOT": (30_000, 40_000)}


def real(name: str, repetition: int) -> tuple[Data, Array, Array]:
    """As :func:`draw`; the truth is what exact EM finds in all records."""
    scales = _ADULT if name == "Adult" else _IPUMS
    frame = load_adult() if name == "Adult" else load_ipums(list(scales))
    centre, scale = np.array(list(scales.values())).T
    X = (frame.select(list(scales)).drop_nulls().to_numpy() - centre) / scale
    model = SymmetricMixture(epsilon=None, noise_variance=None, n_jobs=1).fit(X)
    deviation = model.noise_variance_**0.5
    truth = model.mean_ / deviation
    away = np.random.default_rng([7, repetition]).normal(size=len(truth))
    away *= np.linalg.norm(truth) / 4 / np.linalg.norm(away)
    return (X / deviation,), truth, truth + away
