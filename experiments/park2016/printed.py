"""What Park et al. 2016 print and is not private, for comparison. NOT what privem does.

Gamma and Wishart noise have one side only, so that outputs of one data set are impossible for its
neighbour; records are scaled by their own largest norm; noise is in floating point; and starts are
records. All of it is in the paper's favour. docs/errata.md has the reasons.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import softmax

Array = np.ndarray
# Eigenvalues and noisy counts are kept above zero by this, where the paper says "near zero".
_NEAR_ZERO, _LEAST_COUNT = 1e-4, 1.0


def constant(delta: float) -> float:
    """c of Gaussian noise, c^2 = 2 log(1.25 / delta')."""
    return math.sqrt(2 * math.log(1.25 / delta))


def cdp_share(nominal: float, iterations: int, laplaces: int, gaussians: int, c: float) -> float:
    """epsilon' of each release under (epsilon, sqrt(2 epsilon))-CDP, section 5."""
    return math.sqrt(2 * nominal / (iterations * (laplaces + gaussians / c**2)))


def advanced_share(epsilon: float, delta: float, releases: int) -> float:
    """epsilon' of each release under advanced composition, equation 31."""
    return epsilon / (2 * math.sqrt(2 * releases * math.log(1 / delta)))


def gamma(share: float, d: int, count: float, rng: np.random.Generator, size: int = 1) -> Array:
    """Noise on a variance, equation 16: Gamma(1, beta), beta = epsilon' d N_k."""
    return rng.exponential(1 / (share * d * count), size)


def wishart(share: float, d: int, count: float, rng: np.random.Generator, size: int = 1) -> Array:
    """Noise on a covariance, equations 17 and 18: d + 1 Gaussian vectors."""
    Z = rng.normal(scale=math.sqrt(1 / (2 * share * count)), size=(size, d, d + 1))
    return Z @ Z.transpose(0, 2, 1)


@dataclass(frozen=True)
class Mixture:
    """Weights, means and covariances."""

    weights: Array
    means: Array
    covariances: Array

    def terms(self, X: Array) -> Array:
        """Logarithms of weight times density, a column for each component."""
        found = np.empty((len(X), len(self.weights)))
        for k, (mean, covariance) in enumerate(zip(self.means, self.covariances, strict=True)):
            root = np.linalg.cholesky(covariance)
            u = np.linalg.solve(root, (X - mean).T)
            found[:, k] = -0.5 * np.einsum("ij,ij->j", u, u) - np.log(np.diag(root)).sum()
        found -= 0.5 * X.shape[1] * math.log(2 * math.pi)
        with np.errstate(divide="ignore"):
            return found + np.log(self.weights)

    def score(self, X: Array) -> float:
        """Mean log-likelihood."""
        return float(np.logaddexp.reduce(self.terms(X), axis=1).mean())


def mixture(
    X: Array,
    components: int,
    iterations: int,
    share: float,
    rng: np.random.Generator,
    shape: Literal["spherical", "full"],
    c: float | None = None,
    start: Array | None = None,
) -> Mixture:
    """Algorithm 1: ``share`` is epsilon' of each release; ``c``: means get Gaussian noise."""
    scale = float(np.linalg.norm(X, axis=1).max())
    Y, d = X / scale, X.shape[1]
    means = Y[rng.choice(len(Y), components, replace=False)] if start is None else start / scale
    spread = np.eye(d) * max(float(Y.var(axis=0).mean()), _NEAR_ZERO)
    now = Mixture(np.full(components, 1 / components), means, np.stack([spread] * components))
    for _ in range(iterations):
        now = _step(Y, softmax(now.terms(Y), axis=1), share, rng, shape, c)
    return Mixture(now.weights, now.means * scale, now.covariances * scale**2)


def _step(
    Y: Array, owned: Array, share: float, rng: np.random.Generator, shape: str, c: float | None
) -> Mixture:
    n, d = Y.shape
    weights = np.clip(
        owned.mean(axis=0) + rng.laplace(scale=2 / (n * share), size=owned.shape[1]), 0, 1
    )
    weights = (
        weights / weights.sum() if weights.sum() > 0 else np.full_like(weights, 1 / len(weights))
    )
    means, covariances = [], []
    for k, count in enumerate(np.maximum(n * weights, _LEAST_COUNT)):
        if c is None:
            noise = rng.laplace(scale=2 * math.sqrt(d) / (share * count), size=d)
        else:
            noise = rng.normal(scale=2 * c / (share * count), size=d)
        mean = owned[:, k] @ Y / count + noise
        means.append(mean if shape == "spherical" else count * mean / (count + 1))
        if shape == "spherical":
            square = owned[:, k] @ np.einsum("ij,ij->i", Y, Y) / (d * count)
            variance = square - mean @ mean / d + gamma(share, d, count, rng)[0]
            covariances.append(max(float(variance), _NEAR_ZERO) * np.eye(d))
            continue
        second = (Y.T * owned[:, k]) @ Y / count - np.outer(mean, mean)
        second += wishart(share, d, count, rng)[0]
        # The posterior mode under NIW(0, 1, d + 2, 0.1 I).
        total = 0.1 * np.eye(d) + count * second + count / (count + 1) * np.outer(mean, mean)
        covariances.append(_positive(total / (count + 2 * d + 4)))
    return Mixture(weights, np.array(means), np.array(covariances))


def _positive(matrix: Array) -> Array:
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    return np.asarray((vectors * np.maximum(values, _NEAR_ZERO)) @ vectors.T)


def kmeans(
    X: Array,
    centres: Array,
    iterations: int,
    share: float,
    rng: np.random.Generator,
    c: float | None = None,
) -> Array:
    """k-means by noisy weights and means: CDPlap, or CDPgau with ``c``."""
    scale = float(np.linalg.norm(X, axis=1).max())
    Y, (n, d) = X / scale, X.shape
    found = centres / scale
    for _ in range(iterations):
        counts, sums = _clusters(Y, found)
        weights = np.clip(counts / n + rng.laplace(scale=2 / (n * share), size=len(found)), 0, 1)
        noisy = np.maximum(n * weights / max(weights.sum(), 1e-300), _LEAST_COUNT)[:, None]
        if c is None:
            noise = rng.laplace(size=found.shape) * 2 * math.sqrt(d) / (share * noisy)
        else:
            noise = rng.normal(size=found.shape) * 2 * c / (share * noisy)
        found = sums / noisy + noise
    return np.asarray(found * scale)


def dplloyd(
    X: Array, centres: Array, iterations: int, deviation: float, rng: np.random.Generator
) -> Array:
    """DPLloyd as the paper describes it: Laplace noise of scale ``deviation`` on counts and sums.

    (d + 1) J / epsilon for linear composition. The sensitivity d + 1 is that of [-1, 1]^d.
    """
    scale = float(np.abs(X).max())
    Y, found = X / scale, centres / scale
    for _ in range(iterations):
        counts, sums = _clusters(Y, found)
        counts = counts + rng.laplace(scale=deviation, size=len(found))
        sums = sums + rng.laplace(scale=deviation, size=sums.shape)
        found = sums / np.maximum(counts, _LEAST_COUNT)[:, None]
    return np.asarray(np.clip(found, -1, 1) * scale)


def _clusters(Y: Array, centres: Array) -> tuple[Array, Array]:
    """Counts and sums of the records nearest to each centre."""
    nearest = (np.einsum("kj,kj->k", centres, centres) - 2 * Y @ centres.T).argmin(axis=1)
    counts = np.bincount(nearest, minlength=len(centres))
    sums = [np.bincount(nearest, column, len(centres)) for column in Y.T]
    return counts, np.stack(sums, axis=1)
