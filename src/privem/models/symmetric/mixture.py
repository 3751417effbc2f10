"""The symmetric mixture estimator."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from ...budget import Terms
from ...core import Block, Scratch
from ...data.table import Table
from ...estimator.synthetic import Synthetic
from ...parameters import check_samples
from ...tree import Array
from .base import GradientEstimator
from .model import log_cosh
from .plan import SymmetricPlan
from .private_plan import PrivateSymmetricFit, PrivateSymmetricPlan, set_symmetric, symmetric_plan

__all__ = ["SymmetricMixture"]


@dataclass(repr=False, eq=False, kw_only=True)
class SymmetricMixture(Synthetic, GradientEstimator):
    """Two spherical Gaussians of equal weight that mirror each other: y = z b + noise, z = +-1.

    This is the first model of Wang et al. 2023. b and -b are the same model; which of the two
    ``mean_`` is, is random.

    Parameters
    ----------
    noise_variance : float, optional
        Variance of the noise in each feature, if known; estimated (privately) by default.
    init : array-like of shape (n_features,), optional
        Where EM starts; counts as public. By default a spectral start: the direction in which
        records lie, which a private fit pays for.
    method : {"auto", "moments", "gradient"}, default="auto"
        ``"moments"``, the default: EM on residuals clipped at their own length, with the full
        M-step. ``"gradient"``: gradient EM, with ``mechanism``, ``clip``, ``step``,
        ``tau``, ``failure``, ``batch`` and ``averaging``. Exact fits are plain EM.
    max_iter : int, default=500
        Maximum number of iterations, also of a private fit (see ``n_iter``).
    tol : float, default=1e-9
        Exact fits stop when the mean log-likelihood gains less than this.
    epsilon : float or None, default=1.0
        The privacy budget of the whole fit; ``None`` fits exactly, without any privacy.
    delta, neighbours, max_weight : see :class:`privem.GaussianMixture`
    accountant : str, default="auto"
        ``"auto"`` takes the tightest valid one. The others raise an error where they are not valid:
        ``"gdp" "zcdp" "zcdp-loose" "rdp" "pld" "moments" "advanced" "advanced-classical" "linear"
        "linear-classical"``.
    bounds : float, (low, high) or dict by column name, optional
        A ball about the origin, or a box, that records are clipped to. ``None``: a ball is found
        privately from a histogram of norms. Wide bounds cost little.
    mechanism : {"auto", "clip", "robust"}, default="auto"
        For ``method="gradient"``: Algorithm 1 (``"auto"``) or 2 of Wang et al. 2023.
    trust : {"central", "local"}, default="central"
        ``"local"``: each person's own device adds noise and sends one message; see
        :mod:`privem.local`. It needs ``bounds`` and very many people.
    n_iter : int, optional
        Iterations of a private fit.
    clip : float, optional
        Norm to clip gradients at, 1 by default.
    step : float, default=1.0
        Step size of gradient EM.
    tau : float, optional
        Public bound on the second moment of a gradient's coordinate, for ``"robust"``; found
        privately by default.
    failure : float, default=0.05
        Failure probability (zeta) in the parameters of ``"robust"``.
    batch : {"full", "partition"}, default="full"
        ``"partition"``: each step of gradient EM uses its own random subset of the records.
    averaging : bool, default=True
        Gradient EM returns the mean of the second half of its iterates.
    random_state : int, RandomState or None
        For ``sample``.
    n_jobs : int, optional
        Number of threads over blocks of rows; ``None`` uses as many as BLAS would.

    Attributes
    ----------
    mean_ : ndarray of shape (n_features,)
        b: the components lie at ``mean_`` and ``-mean_``.
    noise_variance_ : float
    n_iter_ : int
    privacy_, bounds_ : private fits only
    lower_bound_, converged_ : exact fits only
    n_features_in_, feature_names_in_ : as in scikit-learn
    feature_types_in_ : list of str, the declared type of each feature

    Examples
    --------
    >>> import numpy as np
    >>> from privem import SymmetricMixture
    >>> rng = np.random.default_rng(0)
    >>> y = rng.choice([-1, 1], 20_000)[:, None] * [2.0, 1.0] + rng.normal(size=(20_000, 2))
    >>> model = SymmetricMixture(epsilon=1.0, bounds=8).fit(y)
    >>> bool(np.allclose(np.abs(model.mean_), [2, 1], atol=0.2))
    True
    """

    _saved: ClassVar[tuple[str, ...]] = (
        "mean_",
        "noise_variance_",
        "n_iter_",
        "privacy_",
        "bounds_",
        "lower_bound_",
        "converged_",
    )
    _needed: ClassVar[tuple[str, ...]] = _saved[:2]

    def _exact_plan(self, table: Table) -> SymmetricPlan:
        names = self._called()
        known = (self.noise_variance, self._given_init(), self.max_iter, self.tol)
        return SymmetricPlan(names, False, *known)

    def _private_plan(self, table: Table, terms: Terms) -> PrivateSymmetricPlan:
        return symmetric_plan(self, table, terms, None)

    def _set_private(
        self, result: PrivateSymmetricFit, plan: PrivateSymmetricPlan, terms: Terms
    ) -> None:
        set_symmetric(self, result, plan, terms)

    def _marginals(self) -> tuple[Array, Array]:
        means = np.stack([-self.mean_, self.mean_])
        return means, np.full_like(means, math.sqrt(self.noise_variance_))

    def predict(self, X: Any) -> NDArray[np.int64]:
        """1 for records more likely about ``mean_``, 0 for those about ``-mean_``."""
        check_is_fitted(self)
        parts = self._each(X, lambda block, scratch: (block.X @ self.mean_ > 0).astype(np.int64))
        return np.concatenate(list(parts))

    def predict_proba(self, X: Any) -> Array:
        """Probabilities of ``-mean_`` and ``mean_``, (n_samples, 2)."""
        check_is_fitted(self)

        def posterior(block: Block, scratch: Scratch) -> Array:
            upper = expit(2 * (block.X @ self.mean_) / self.noise_variance_)
            return np.stack([1 - upper, upper], axis=1)

        return np.concatenate(list(self._each(X, posterior)))

    def score_samples(self, X: Any) -> Array:
        """Log-density of each record under the model."""
        check_is_fitted(self)
        b, s = self.mean_, self.noise_variance_

        def density(block: Block, scratch: Scratch) -> Array:
            square = np.einsum("ij,ij->i", block.X, block.X) + b @ b
            constant = 0.5 * len(b) * math.log(math.tau * s)
            return np.asarray(log_cosh(block.X @ b / s) - square / (2 * s) - constant)

        return np.concatenate(list(self._each(X, density)))

    def score(self, X: Any, y: Any = None) -> float:
        """Mean log-density of the records."""
        return float(np.mean(self.score_samples(X)))

    def sample(self, n_samples: int = 1) -> tuple[Array, NDArray[np.int64]]:
        """Draw records and their components (1 for ``mean_``) from the fitted model."""
        check_is_fitted(self)
        check_samples(n_samples)
        rng = check_random_state(self.random_state)
        label = rng.randint(2, size=n_samples).astype(np.int64)
        noise = rng.standard_normal((n_samples, len(self.mean_))) * math.sqrt(self.noise_variance_)
        return np.where(label[:, None] == 1, 1.0, -1.0) * self.mean_ + noise, label
