"""Conjugate priors of a Gaussian mixture: Dirichlet weights, Normal-inverse-Wishart components.

Park et al. 2016 and 2017 (section 4) give the maximum a posteriori M-step for full covariances. The
other covariance types maximise the same posterior within their family.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ...tree import Array

if TYPE_CHECKING:
    from .model import Mixture


@dataclass(frozen=True)
class Prior:
    """Dirichlet(alpha) on the weights, NIW(mean, kappa, nu, scatter) on each component.

    The papers' defaults are alpha = 2, mean = 0, kappa = 1, nu = d + 2, scatter = 0.1 I.
    """

    alpha: float
    mean: Array
    kappa: float
    nu: float
    scatter: Array

    @classmethod
    def papers(cls, d: int) -> Prior:
        """The defaults of Park et al. 2016 and 2017 in d dimensions."""
        return cls(2.0, np.zeros(d), 1.0, d + 2.0, 0.1 * np.eye(d))

    def counts(self, count: Array) -> Array:
        """Posterior counts, to which the mode of the weights is proportional (Park et al. 2016)."""
        return np.maximum(count + self.alpha - 1.0, 0.0)

    def shrink(
        self, means: Array, n: Array, second: Array, covariance_type: str
    ) -> tuple[Array, Array]:
        """Posterior modes from maximum-likelihood means and covariances; n has shape (K, 1).

        mean_k = (n_k mean_k + kappa m) / (n_k + kappa), and
        cov_k = (S + n_k cov_k + kappa n_k/(kappa + n_k) e e') / (nu + n_k + d + 2), e = mean_k - m.
        """
        components, d = means.shape
        away = means - self.mean
        pull = (self.kappa * n / (self.kappa + n))[:, 0]
        modes = self.mean + away * (n / (n + self.kappa))
        denominator = self.nu + d + 2.0
        match covariance_type:
            case "full":
                outer = np.einsum("k,ki,kj->kij", pull, away, away)
                scatter = self.scatter + n[:, :, None] * second + outer
                return modes, scatter / (n[:, :, None] + denominator)
            case "tied":
                # One covariance under K means: each mean's density adds one to the exponent.
                outer = np.einsum("k,ki,kj->ij", pull, away, away)
                total = n.sum()
                scatter = self.scatter + total * second + outer
                return modes, scatter / (total + self.nu + d + 1.0 + components)
            case "diag":
                scatter = np.diag(self.scatter) + n * second + pull[:, None] * away**2
                return modes, scatter / (n + denominator)
            case _:
                trace = np.trace(self.scatter) + n[:, 0] * d * second
                trace = trace + pull * np.sum(away**2, axis=1)
                return modes, trace / (d * (n[:, 0] + denominator))

    def log_density(self, mixture: Mixture) -> float:
        """Log prior density of the parameters, up to a constant."""
        away = mixture.means - self.mean
        w = mixture.whiteners
        d = away.shape[1]
        if w.ndim == 3:
            white = np.einsum("kij,kj->ki", w, away)
            traces = np.einsum("kij,jl,kil->k", w, self.scatter, w)
        else:
            white = w * away
            traces = w**2 @ np.diag(self.scatter)
        weights = (self.alpha - 1.0) * np.log(mixture.weights).sum()
        mean_part = -0.5 * self.kappa * np.sum(white**2)
        if mixture.covariance_type == "tied":
            exponent = self.nu + d + 1.0 + len(away)
            cov_part = exponent * mixture.log_determinants[0] - 0.5 * traces[0]
        else:
            cov_part = np.sum((self.nu + d + 2.0) * mixture.log_determinants - 0.5 * traces)
        return float(weights + mean_part + cov_part)
