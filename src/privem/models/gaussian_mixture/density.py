"""What a fitted Gaussian mixture says about records."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import DensityMixin

from ...estimator.density import Components, OfBlock
from ...estimator.score import PrivatelyScored
from ...tree import Array
from .log_density import GaussianLogDensity
from .model import Mixture, MixtureQuery


def divergences(mixture: Mixture) -> Array:
    """Jeffreys' divergence of each pair of components, (K, K): both Kullback-Leibler's together.

    Examples
    --------
    >>> two = Mixture("diag", np.ones(2) / 2, np.array([[0.0], [3.0]]), np.ones((2, 1)))
    >>> divergences(two).tolist()
    [[0.0, 9.0], [9.0, 0.0]]
    """
    p, kind = mixture.precisions, mixture.covariance_type
    apart = mixture.means[:, None] - mixture.means
    d = apart.shape[2]
    along = "jab,jka,jkb->jk" if p.ndim == 3 else "ja,jka,jka->jk"
    moved = np.einsum(along, p, *[apart] * 2)
    match kind:
        case "full":
            wider = np.einsum("jab,kab->jk", p, mixture.covariances)
        case "tied":
            wider = np.full(moved.shape, float(d))
        case _:
            wider = p @ mixture.deviations.T**2
    return np.asarray((moved + moved.T + wider + wider.T) / 2 - d)


class GaussianScored(PrivatelyScored):
    """Abstract base of estimators whose density is a Gaussian mixture within ``bounds_``."""

    bounds_: tuple[Array, Array]

    @abstractmethod
    def _density(self) -> Mixture:
        """The fitted density."""

    def _scored(self) -> GaussianLogDensity:
        return GaussianLogDensity(self._density())

    def _log_uniform(self) -> float:
        low, high = self.bounds_
        return -float(np.sum(np.log(high - low)))


class MixtureDensity(Components, DensityMixin, GaussianScored):  # type: ignore[misc]
    """Abstract base: densities and responsibilities under ``weights_ means_ covariances_``."""

    covariance_type: str
    weights_: Array
    means_: Array
    covariances_: Array

    def _log_joint(self) -> OfBlock:
        query = MixtureQuery.for_evaluation(replace(self._density(), background=None))
        return lambda block, scratch: query.log_joint(block.X, scratch)

    def aic(self, X: Any) -> float:
        """Akaike's information criterion on ``X``; lower is better."""
        densities = self.score_samples(X)
        return float(-2 * densities.sum() + 2 * self._n_parameters())

    def bic(self, X: Any) -> float:
        """Bayesian information criterion on ``X``; lower is better."""
        densities = self.score_samples(X)
        return float(-2 * densities.sum() + self._n_parameters() * np.log(len(densities)))

    def _density(self) -> Mixture:
        parameters = (self.weights_, self.means_, self.covariances_)
        return Mixture(self.covariance_type, *parameters, self._background())

    def _n_parameters(self) -> int:
        return self._density().n_parameters + (self._background() is not None)
