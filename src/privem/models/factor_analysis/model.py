"""Factor analysis from one statistic: count, sum and second moment. The rest is arithmetic on them.

x = mean + components' z + noise, with z ~ N(0, I) and noise variances psi: the covariance of x is
``components' components + diag(psi)``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from scipy.linalg import eigh

from ...linalg import Array, positive

# Scikit-learn's guard against a noise variance of zero.
_SMALL = 1e-12


@dataclass(frozen=True)
class Factors:
    """Loadings (q, d), noise variances (d,), and how they were reached."""

    components: Array
    noise_variance: Array
    log_likelihood: float
    """Mean log-likelihood the step computed on its way."""
    began_with: Array
    """The noise variances at the start of the step."""


class Covariance(Protocol):
    """What a factor analysis asks of a covariance matrix."""

    @property
    def variance(self) -> Array:
        """Its diagonal, (d,)."""

    def times(self, columns: Array) -> Array:
        """Its product with a (d, m) matrix."""

    def leading(self, root: Array, q: int) -> tuple[Array, Array]:
        """Largest eigenvalues (m,), descending, and eigenvectors (d, m) of it, scaled.

        Scaled means divided by ``root`` along rows and columns. ``m`` is q, or all there are that
        are not zero.
        """


@dataclass(frozen=True)
class Whole:
    """A d x d matrix, symmetric; negative eigenvalues count as zero."""

    matrix: Array

    @cached_property
    def _valid(self) -> Array:
        return _valid_covariance(self.matrix)

    @property
    def variance(self) -> Array:
        """Its diagonal."""
        return np.diag(self._valid)

    def times(self, columns: Array) -> Array:
        """Its product with a matrix."""
        return np.asarray(self._valid @ columns)

    def leading(self, root: Array, q: int) -> tuple[Array, Array]:
        """Largest eigenvalues and eigenvectors."""
        d = len(root)
        scaled = self._valid / np.outer(root, root)
        values, vectors = eigh(scaled, subset_by_index=[d - q, d - 1])
        return values[::-1], vectors[:, ::-1]


@dataclass(frozen=True)
class LowRank:
    """F'F of a factor F (k, d) with k < d: the d x d matrix is never formed.

    F F' has the same eigenvalues but for zeros, and F' times its eigenvectors are the others'.
    """

    factor: Array

    @cached_property
    def variance(self) -> Array:
        """Its diagonal."""
        return np.asarray(np.einsum("ki,ki->i", self.factor, self.factor))

    def times(self, columns: Array) -> Array:
        """Its product with a matrix."""
        return self.factor.T @ (self.factor @ columns)

    def leading(self, root: Array, q: int) -> tuple[Array, Array]:
        """Largest eigenvalues and eigenvectors."""
        scaled, k = self.factor / root, len(self.factor)
        values, vectors = eigh(scaled @ scaled.T, subset_by_index=[max(k - q, 0), k - 1])
        values, vectors = values[::-1], vectors[:, ::-1]
        # Without rounding none would be below zero. Of one that is zero nothing is used.
        values = np.maximum(values, 0.0)
        return values, (scaled.T @ vectors) / np.sqrt(np.where(values > 0, values, 1.0))


def _valid_covariance(covariance: Array) -> Array:
    """The nearest positive semi-definite matrix, with columns divided by their deviations.

    Any finite symmetric input is made usable.
    """
    covariance = (covariance + covariance.T) / 2
    # Columns in units of their own keep their digits, and eigh stays away from overflow.
    tiny = np.finfo(float).tiny  # also of columns that are all zero
    largest = max(float(np.max(np.abs(covariance), initial=0.0)), tiny)
    unit = np.sqrt(np.clip(np.diag(covariance), max(1e-32 * largest, tiny), largest))
    scaled = covariance / unit / unit[:, None]
    try:  # A tenth of the time of eigenvalues, and most often enough.
        np.linalg.cholesky(scaled)
    except np.linalg.LinAlgError:
        pass
    else:
        return np.asarray(covariance)
    values, vectors = np.linalg.eigh(scaled)
    if values[0] >= 0:
        return np.asarray(covariance)
    valid = (vectors * np.maximum(values, 0.0)) @ vectors.T
    return np.asarray(valid * unit * unit[:, None])


def initial_factors(d: int, n_components: int, noise_variance: Array | None) -> Factors:
    """Noise variances of one unless given, as scikit-learn starts; loadings follow from them."""
    psi = np.ones(d) if noise_variance is None else np.asarray(noise_variance, dtype=float)
    return Factors(np.zeros((n_components, d)), psi, -np.inf, psi)


def eigen_updates(covariance: Covariance, start: Factors) -> Iterator[Factors]:
    """Conditional maximisation: the best loadings for the noise, then the noise for the loadings.

    The same steps as scikit-learn's ``svd_method="lapack"``, on the covariance: whiten by
    the noise, keep the leading eigenvalues above one. Yields one iterate per step; the
    log-likelihood is that of the loadings found with the noise variances the step began with.
    (Scikit-learn's is off where fewer than q eigenvalues exceed one.)
    """
    variance = covariance.variance
    d, q = len(variance), len(start.components)
    psi = start.noise_variance
    while True:
        root = np.sqrt(psi) + _SMALL
        nothing = np.empty(0), np.empty((d, 0))
        values, vectors = covariance.leading(root, q) if q else nothing
        used = values > 1.0  # A direction with less variance than the noise carries no factor.
        explained = np.sum(np.log(values[used]) + 1.0 - values[used])
        trace = np.sum(variance / root**2)
        score = -0.5 * (d * np.log(2 * np.pi) + np.log(psi).sum() + trace + explained)
        components = np.zeros((q, d))
        lengths = np.sqrt(np.maximum(values - 1.0, 0.0))
        components[: len(values)] = lengths[:, None] * positive(vectors.T) * root
        began, psi = psi, np.maximum(variance - np.sum(components**2, axis=0), _SMALL)
        yield Factors(components, psi, float(score), began)


def em_updates(covariance: Covariance, start: Factors) -> Iterator[Factors]:
    """The EM update of Rubin and Thayer 1982, on the centred second moment.

    W_new = L P^-1 W G (G + G W' P^-1 L P^-1 W G)^-1 and P_new = diag(L - W_new G W' P^-1 L).
    """
    q = len(start.components)
    psi = start.noise_variance
    # Loadings of zero are a fixed point of EM: begin with the first eigen step's.
    first = next(eigen_updates(covariance, start))
    loadings = first.components.T
    while True:
        weighted = loadings / psi[:, None]
        G = np.asarray(np.linalg.inv(np.eye(q) + loadings.T @ weighted), dtype=np.float64)
        score = _log_likelihood(covariance, loadings, psi, G)
        cross = covariance.times(weighted) @ G
        moment = G + G @ weighted.T @ cross
        loadings = np.asarray(np.linalg.solve(moment, cross.T).T, dtype=np.float64)
        began = psi
        psi = np.maximum(covariance.variance - np.sum(loadings * cross, axis=1), _SMALL)
        yield Factors(loadings.T, psi, score, began)


@dataclass(frozen=True)
class FactorFit:
    """Where the iterations ended: loadings (q, d), noise variances (d,)."""

    components: Array
    noise_variance: Array
    log_likelihoods: list[float]
    """Of all records, at each iteration."""
    converged: bool


@dataclass(frozen=True)
class FactorSteps:
    """Everything after the moments: arithmetic on (public) numbers.

    Parameters mirror the estimator's; ``n_components`` is the number of factors.
    """

    n_components: int
    noise_variance: Array | None
    update: str
    tol: float
    max_iter: int

    def fit(self, covariance: Covariance, count: float) -> FactorFit:
        """Iterate until the log-likelihood of ``count`` records gains less than ``tol``."""
        start = initial_factors(len(covariance.variance), self.n_components, self.noise_variance)
        eigen = self.update == "eigen"
        updates = (eigen_updates if eigen else em_updates)(covariance, start)
        values, before, found = [], -np.inf, start
        for found, _ in zip(updates, range(self.max_iter), strict=False):
            value = found.log_likelihood * count
            values.append(float(value))
            if value - before < self.tol:
                # The loadings belong to the noise variances this step began with.
                noise = found.began_with if eigen else found.noise_variance
                return FactorFit(found.components, noise, values, True)
            before = value
        return FactorFit(found.components, found.noise_variance, values, False)


def _log_likelihood(covariance: Covariance, loadings: Array, psi: Array, G: Array) -> float:
    """Mean log-likelihood, by the matrix inversion and determinant lemmas."""
    d = len(psi)
    weighted = loadings / psi[:, None]
    log_det = float(np.log(psi).sum() - np.linalg.slogdet(G)[1])
    trace = float(np.sum(covariance.variance / psi))
    trace -= float(np.sum(covariance.times(weighted) * (weighted @ G)))
    return float(-0.5 * (d * np.log(2 * np.pi) + log_det + trace))


def rotate(components: Array, method: str, tol: float = 1e-6, max_iter: int = 100) -> Array:
    """Rotate loadings (q, d) by varimax or quartimax (Kaiser 1958), by repeated polar factors.

    The criterion is the sum of fourth powers; varimax subtracts the squared means of squares.
    """
    loadings = components.T
    rotation = np.eye(loadings.shape[1])
    reached = 0.0
    for _ in range(max_iter):
        turned = loadings @ rotation
        gradient = turned**3
        if method == "varimax":
            gradient -= turned * np.mean(turned**2, axis=0)
        left, values, right = np.linalg.svd(loadings.T @ gradient)
        rotation = left @ right
        before, reached = reached, float(values.sum())
        if before and reached < before * (1 + tol):
            break
    return np.asarray((loadings @ rotation).T)
