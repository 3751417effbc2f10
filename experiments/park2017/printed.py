"""What Park et al. 2017 print, for comparison. NOT what privem does.

The noise is enough for records of norm one. Not private are: records scaled by their own largest
norm, starts that are records, and noise in floating point. All of it is in the paper's favour.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import brentq
from scipy.special import softmax

Array = np.ndarray
_LEAST_COUNT = 1.0


def classical(delta: float) -> float:
    """Noise per sensitivity of a Gaussian release, times its epsilon."""
    return math.sqrt(2 * math.log(1.25 / delta))


def multiplier(
    composition: str, epsilon: float, delta: float, releases: int, each: float, most: int = 10**6
) -> float:
    """Noise per sensitivity of each release of GGG, section 5; ``each`` is delta_i.

    ``most`` is the largest order that the moments accountant looks at. The baselines use all of
    delta for delta', also where the releases' own deltas exceed it, as on Stroke.
    """
    c = classical(each)
    match composition:
        case "linear":
            return c * releases / epsilon
        case "advanced":
            slope = math.sqrt(2 * releases * math.log(1 / max(delta - releases * each, delta / 2)))
            spent = lambda s: releases * s * math.expm1(s) + slope * s - epsilon  # noqa: E731
            return float(c / brentq(spent, 1e-12, 1.0))
        case "zCDP":
            rho = (math.sqrt(math.log(1 / delta) + epsilon) - math.sqrt(math.log(1 / delta))) ** 2
            return math.sqrt(releases / (2 * rho))
        case "moments":
            orders = np.arange(1.0, most + 1)
            room = orders * epsilon + math.log(delta)
            if room[-1] <= 0:
                return math.inf
            good = room > 0
            needed = releases * (orders[good] ** 2 + orders[good]) / (2 * room[good])
            return float(math.sqrt(needed.min()))
    raise ValueError(composition)


def _terms(X: Array, weights: Array, means: Array, covariances: Array) -> Array:
    found = np.empty((len(X), len(weights)))
    for k, (mean, covariance) in enumerate(zip(means, covariances, strict=True)):
        root = np.linalg.cholesky(covariance)
        u = np.linalg.solve(root, (X - mean).T)
        found[:, k] = -0.5 * np.einsum("ij,ij->j", u, u) - np.log(np.diag(root)).sum()
    found -= 0.5 * X.shape[1] * math.log(2 * math.pi)
    with np.errstate(divide="ignore"):
        return found + np.log(weights)


def _symmetric(d: int, deviation: float, rng: np.random.Generator) -> Array:
    """Analyze Gauss: the same noise above and below the diagonal."""
    noise = np.triu(rng.normal(scale=deviation, size=(d, d)))
    return np.asarray(noise + np.triu(noise, 1).T)


def ggg(
    X: Array,
    test: Array,
    components: int,
    iterations: int,
    noise: float,
    rng: np.random.Generator,
    floor: float,
) -> float:
    """Held-out log-likelihood of algorithm 1 with Gaussian noise everywhere, posterior modes.

    ``floor``: what negative eigenvalues become, "some value near zero".
    """
    scale = float(np.linalg.norm(X, axis=1).max())
    Y, (n, d) = X / scale, X.shape
    weights = np.full(components, 1 / components)
    means = Y[rng.choice(n, components, replace=False)]
    covariances = np.stack([np.eye(d) * Y.var(axis=0).mean()] * components)
    for _ in range(iterations):
        owned = softmax(_terms(Y, weights, means, covariances), axis=1)
        weights = owned.mean(axis=0) + rng.normal(scale=2 * noise / n, size=components)
        weights = np.clip(weights, 0, 1)
        total = weights.sum()
        weights = weights / total if total > 0 else np.full(components, 1 / components)
        found = []
        for k, count in enumerate(np.maximum(n * weights, _LEAST_COUNT)):
            mean = owned[:, k] @ Y / count + rng.normal(scale=2 * noise / count, size=d)
            second = (Y.T * owned[:, k]) @ Y / count - np.outer(mean, mean)
            second = _positive(second + _symmetric(d, 2 * noise / count, rng), floor)
            whole = 0.1 * np.eye(d) + count * second + count / (count + 1) * np.outer(mean, mean)
            means[k] = count * mean / (count + 1)
            found.append(whole / (count + 2 * d + 4))
        covariances = np.array(found)
        # The prior's alpha is 2.
        weights = (n * weights + 1) / (n + components)
    score = np.logaddexp.reduce(_terms(test / scale, weights, means, covariances), axis=1).mean()
    return float(score - d * math.log(scale))


def _positive(matrix: Array, floor: float) -> Array:
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray((vectors * np.maximum(values, floor)) @ vectors.T)


def kmeans(
    X: Array, centres: Array, iterations: int, counts: float, sums: float, rng: np.random.Generator
) -> Array:
    """k-means with Laplace noise of these scales on counts, and on sums (of a box [-1, 1]^d)."""
    found = centres
    for _ in range(iterations):
        away = np.einsum("kj,kj->k", found, found) - 2 * X @ found.T
        nearest = away.argmin(axis=1)
        n = np.bincount(nearest, minlength=len(found)) + rng.laplace(scale=counts, size=len(found))
        total = np.stack([np.bincount(nearest, x, len(found)) for x in X.T], axis=1)
        total = total + rng.laplace(scale=sums, size=total.shape)
        found = np.clip(total / np.maximum(n, _LEAST_COUNT)[:, None], -1, 1)
    return np.asarray(found)


def second_moment(X: Array) -> Array:
    """The mean of x x', records scaled by their own largest norm."""
    Y = X / np.linalg.norm(X, axis=1).max()
    return np.asarray(Y.T @ Y / len(Y))


def factors(
    X: Array, q: int, epsilon: float, delta: float, rng: np.random.Generator, iterations: int = 30
) -> Array:
    """Loadings of section 6: EM on the second moment with noise, eigenvalues not below zero.

    One image replaced moves the mean of x x', |x| <= 1, by at most sqrt(2)/n in Frobenius norm.
    """
    d = X.shape[1]
    noise = classical(delta) * math.sqrt(2) / len(X) / epsilon
    told = (second_moment(X) + _symmetric(d, noise, rng)).astype(np.float32)
    values, vectors = np.linalg.eigh(told)
    # The columns of a root of the matrix: products with it in place of the matrix itself.
    root = vectors[:, values > 0] * np.sqrt(values[values > 0])
    diagonal = np.einsum("ij,ij->i", root, root)
    W = rng.normal(scale=0.1 * math.sqrt(float(diagonal.mean())), size=(d, q)).astype(np.float32)
    psi = diagonal.copy()
    for _ in range(iterations):
        scaled = W / psi[:, None]
        G = np.linalg.inv(np.eye(q) + W.T @ scaled).astype(np.float32)
        across = root @ (root.T @ scaled) @ G
        W = across @ np.linalg.inv(G + G @ scaled.T @ across).astype(np.float32)
        psi = np.maximum(diagonal - np.einsum("ij,ij->i", W, across), 1e-6)
    return np.asarray(W.T)
