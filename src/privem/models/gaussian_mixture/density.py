"""What a fitted Gaussian mixture says about records."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import DensityMixin
from sklearn.utils.validation import check_is_fitted

from ...core import Block, Scratch
from ...kernels.mixture import log_normaliser
from ...tree import Array
from .model import Mixture, MixtureQuery
from .score import PrivatelyScored


class MixtureDensity(DensityMixin, PrivatelyScored):  # type: ignore[misc]
    """Abstract base: densities and responsibilities under ``weights_ means_ covariances_``.

    Evaluating a model on records is not private, however the model was fitted.
    """

    covariance_type: str
    weights_: Array
    means_: Array
    covariances_: Array

    def predict(self, X: Any) -> NDArray[np.int64]:
        """The most probable component of each record."""
        query = self._query()
        labels = self._each(X, lambda b, s: query.log_joint(b.X, s).argmax(axis=0))
        return np.concatenate(list(labels))

    def predict_proba(self, X: Any) -> Array:
        """Probability of each component given each record, ``(n_samples, n_components)``."""
        query = self._query()

        def responsibilities(block: Block, scratch: Scratch) -> Array:
            joint = query.log_joint(block.X, scratch)
            log_normaliser(joint, scratch)
            return joint.T.copy()

        return np.concatenate(list(self._each(X, responsibilities)))

    def _log_densities(self, X: Any) -> Iterator[Array]:
        query = self._query()
        return self._each(X, lambda b, s: log_normaliser(query.log_joint(b.X, s), s).copy())

    def score_samples(self, X: Any) -> Array:
        """Log-density of each record under the mixture."""
        return np.concatenate(list(self._log_densities(X)))

    def score(self, X: Any, y: Any = None) -> float:
        """Mean log-density of the records, in memory that does not grow with them."""
        total, rows = 0.0, 0
        for densities in self._log_densities(X):
            total, rows = total + float(densities.sum()), rows + len(densities)
        return total / rows

    def aic(self, X: Any) -> float:
        """Akaike's information criterion on ``X``; lower is better."""
        densities = self.score_samples(X)
        return float(-2 * densities.sum() + 2 * self._n_parameters())

    def bic(self, X: Any) -> float:
        """Bayesian information criterion on ``X``; lower is better."""
        densities = self.score_samples(X)
        return float(-2 * densities.sum() + self._n_parameters() * np.log(len(densities)))

    def _mixture(self) -> Mixture:
        return Mixture(self.covariance_type, self.weights_, self.means_, self.covariances_)

    def _density(self) -> Mixture:
        return self._mixture()

    def _query(self) -> MixtureQuery:
        check_is_fitted(self)
        return MixtureQuery.for_evaluation(self._mixture())

    def _n_parameters(self) -> int:
        k, d = self.means_.shape
        per = {"full": k * d * (d + 1) / 2, "tied": d * (d + 1) / 2, "diag": k * d, "spherical": k}
        return int(per[self.covariance_type] + d * k + k - 1)
