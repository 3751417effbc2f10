"""What a fitted Gaussian mixture says about records."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import DensityMixin

from ...estimator.density import Components, OfBlock
from ...estimator.score import PrivatelyScored
from ...tree import Array
from .model import Mixture, MixtureQuery


class MixtureDensity(Components, DensityMixin, PrivatelyScored):  # type: ignore[misc]
    """Abstract base: densities and responsibilities under ``weights_ means_ covariances_``."""

    covariance_type: str
    weights_: Array
    means_: Array
    covariances_: Array

    def _log_joint(self) -> OfBlock:
        query = MixtureQuery.for_evaluation(self._density())
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
        return Mixture(self.covariance_type, self.weights_, self.means_, self.covariances_)

    def _n_parameters(self) -> int:
        k, d = self.means_.shape
        per = {"full": k * d * (d + 1) / 2, "tied": d * (d + 1) / 2, "diag": k * d, "spherical": k}
        return int(per[self.covariance_type] + d * k + k - 1)
