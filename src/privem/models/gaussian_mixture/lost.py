"""Components that noise has swallowed: another try while EM searches, the background at the end.

A component with fewer records than the noise on their count is not seen. Left alone it would stay
where it fell, often at the border of the region, with the least weight a component may have: too
little to notice, enough to put impossible records into synthetic data. All of it is arithmetic on
what was released.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ...tree import Array
from .model import Mixture

# Halves of a component lie so many deviations from its mean, along its longest axis.
_APART = 0.7


def restarted(state: Mixture, lost: NDArray[np.bool_]) -> Mixture:
    """Each lost component becomes one half of the heaviest, which keeps its moments."""
    return _given_to(state, lost, _APART)


def copied(state: Mixture, lost: NDArray[np.bool_]) -> Mixture:
    """Each lost component becomes a copy of the heaviest: the density does without it."""
    return _given_to(state, lost, 0.0)


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


def _given_to(state: Mixture, lost: NDArray[np.bool_], apart: float) -> Mixture:
    if lost.all():
        return state
    kind = state.covariance_type
    weights, means = state.weights.copy(), state.means.copy()
    covariances = state.covariances.copy()
    weights[lost] = 0.0
    for k in np.flatnonzero(lost):
        j = int(np.argmax(weights))
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
