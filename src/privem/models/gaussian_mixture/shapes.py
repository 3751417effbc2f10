"""Moments on their way to parameters: the four shapes of covariance in whitened coordinates."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from scipy.stats import chi2

from ...tree import Array
from .model import Mixture

# No whitened covariance is trusted to shrink further than this in one iteration.
LEAST_STEP = 0.25


@dataclass(frozen=True)
class Parts:
    """Moments in unit coordinates; ``size`` of the covariance noise in whitened ones.

    ``seen``: whether each component had more records than the noise on their number; of a mean, how
    often. ``terms``: how many releases of second moments the covariances are the mean of; 0 where
    none was asked for and they are the last ones.
    """

    count: Array
    means: Array
    covariances: Array
    size: Array
    seen: Array
    terms: int = 1

    def beyond(self, state: Mixture, factor: float) -> Parts:
        """A step ``factor`` times as long, from ``state``; covariances where they stay positive."""
        before = state.weights * self.count.sum()
        count = np.maximum(before + factor * (self.count - before), 0.3 * self.count)
        means = state.means + factor * (self.means - state.means)
        covariances = self.covariances
        if state.covariance_type == "full":
            covariances = state.covariances + factor * (covariances - state.covariances)
            white, _ = whiten(state, covariances, self.size)
            valid = np.linalg.eigvalsh(white)[:, 0] > LEAST_STEP
            covariances = np.where(valid[:, None, None], covariances, self.covariances)
        return Parts(count, means, covariances, self.size, self.seen, self.terms)

    def towards(self, new: Parts, terms: int) -> Parts:
        """The running mean over ``terms`` iterates, ``new`` being the last."""
        count = self.count + (new.count - self.count) / terms
        means = self.means + (new.means - self.means) / terms
        often = self.seen + (new.seen - self.seen) / terms
        if new.terms == 0:
            return replace(self, count=count, means=means, seen=often)
        seen = self.terms + 1
        covariances = self.covariances + (new.covariances - self.covariances) / seen
        return Parts(count, means, covariances, new.size, often, seen)


def as_type(state: Mixture, covariance_type: str) -> Mixture:
    """A start with full covariances, or diagonal ones, as a mixture of another covariance type."""
    c = state.covariances
    if state.covariance_type == "diag" and covariance_type == "spherical":
        return replace(state, covariance_type=covariance_type, covariances=c.mean(axis=1))
    if state.covariance_type != "full" or covariance_type == "full":
        return state
    match covariance_type:
        case "tied":
            c = c.mean(axis=0)
        case "diag":
            c = np.diagonal(c, axis1=1, axis2=2).copy()
        case _:
            c = np.trace(c, axis1=1, axis2=2) / c.shape[1]
    return replace(state, covariance_type=covariance_type, covariances=c)


def as_asked(mixture: Mixture, covariance_type: str) -> Mixture:
    """The same density with covariances of the shape that was asked for."""
    if mixture.covariance_type == covariance_type:
        return mixture
    copies = np.stack([mixture.covariances] * len(mixture.means))
    return replace(mixture, covariance_type=covariance_type, covariances=copies)


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


def unwhiten(state: Mixture, white: Array) -> Array:
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


def shared_consistency(state: Mixture, radius: float) -> float:
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
