"""What a fitted Gaussian mixture says about records."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import logsumexp
from sklearn.base import DensityMixin

from ...core import Scratch
from ...estimator.density import Components, OfBlock
from ...estimator.score import PrivatelyScored
from ...tree import Array
from .model import Mixture, MixtureQuery

# Far beyond any record, and still a number when whitened and squared.
_HUGE = 1e100


@dataclass(frozen=True)
class GaussianLogDensity:
    """The log-density of a mixture, computed number by number."""

    mixture: Mixture

    @property
    def peak(self) -> float:
        """No density is above the sum of the components' peaks, and of the background."""
        with np.errstate(divide="ignore"):
            peaks = self.mixture.constants
        flat = self.mixture.background
        return float(logsumexp(peaks if flat is None else np.append(peaks, flat.level)))

    def log_joint(self, X: Array, scratch: Scratch) -> Array:
        """Log joint density (K, b) of component and record; no matrix products.

        Under a background, which is one more component, records are clamped to its region first.
        """
        b, count, flat = len(X), len(self.mixture.means), self.mixture.background
        joint = scratch.take("joint", (count + (flat is not None), b))
        x, z = scratch.take("moved", X.T.shape), scratch.take("white", (b,))
        term = scratch.take("term", (b,))
        with np.errstate(all="ignore"):
            if flat is not None:
                X, joint[count] = flat.clamped(X, scratch), flat.level
            for k, (mean, w) in enumerate(
                zip(self.mixture.means, self.mixture.whiteners, strict=True)
            ):
                np.subtract(X.T, mean[:, None], out=x)
                np.clip(x, -_HUGE, _HUGE, out=x)
                joint[k] = 0.0
                for j in range(len(mean)):
                    if w.ndim == 1:
                        np.multiply(x[j], w[j], out=z)
                    else:
                        z[:] = 0.0
                        for i in np.flatnonzero(w[j]):
                            np.multiply(x[i], w[j, i], out=term)
                            z += term
                    np.multiply(z, z, out=term)
                    joint[k] += term
                joint[k] *= -0.5
                joint[k] += self.mixture.constants[k]
        return joint


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
        k, d = self.means_.shape
        per = {"full": k * d * (d + 1) / 2, "tied": d * (d + 1) / 2, "diag": k * d, "spherical": k}
        return int(per[self.covariance_type] + d * k + k - 1) + (self._background() is not None)
