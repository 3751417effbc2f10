"""The symmetric mixture estimators: of records, and of regressions."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from ...budget import Terms
from ...core import Block, Scratch
from ...data.table import Table
from ...estimator.density import Components, OfBlock, TargetDensity
from ...estimator.synthetic import Synthetic
from ...linalg import Array
from ...parameters import check_samples
from ...report.shapes import Shapes
from .base import GradientEstimator
from .model import log_cosh
from .plan import PrivateSymmetricPlan, SymmetricPlan


class SymmetricEstimator(GradientEstimator):
    """Abstract base of the two, which have the same plans."""

    def _exact_plan(self, table: Table) -> SymmetricPlan:
        names = [*self._called(), "the target"] if self._target else self._called()
        known = (self.noise_variance, self._given_init(), self.max_iter, self.tol)
        return SymmetricPlan(names, self._target, *known)

    def _private_plan(self, table: Table, terms: Terms) -> PrivateSymmetricPlan:
        settings = self._settings(terms, "gradient" if self.method == "gradient" else "em")
        bounds = self._norm_bounds()
        preamble = self._ungrounded(table, terms, settings, bounds)
        return PrivateSymmetricPlan(settings, preamble, bounds, self._target)


@dataclass(repr=False, eq=False, kw_only=True)
class SymmetricMixture(Synthetic, Components, SymmetricEstimator):
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
    ledger : see :class:`privem.GaussianMixture`

    Attributes
    ----------
    mean_ : ndarray of shape (n_features,)
        b: the components lie at ``mean_`` and ``-mean_``.
    noise_variance_ : float
    n_iter_ : int
    privacy_, bounds_ : private fits only
    outside_ : float
        Private fits without given bounds only: at most that share of the records lies outside of
        what was found, in any column.
    structure_ : {"full", "lost"}
        Private fits only: ``"lost"`` if the start's direction, and so the result, is mostly noise.
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

    _needed: ClassVar[tuple[str, ...]] = ("mean_", "noise_variance_")
    _effects: ClassVar[tuple[str, ...]] = ("mean_",)

    def _shapes(self) -> Shapes:
        means = np.stack([-self.mean_, self.mean_])
        return Shapes.of_mixture(np.full(2, 0.5), means, np.full(2, self.noise_variance_))

    def _marginals(self) -> tuple[Array, Array]:
        means = np.stack([-self.mean_, self.mean_])
        return means, np.full_like(means, math.sqrt(self.noise_variance_))

    def _log_joint(self) -> OfBlock:
        """Of ``-mean_`` and ``mean_``, but for what they share."""

        def joint(block: Block, scratch: Scratch) -> Array:
            upper = block.X @ self.mean_ / self.noise_variance_
            return np.stack([-upper, upper])

        return joint

    def _log_density(self) -> OfBlock:
        b, s = self.mean_, self.noise_variance_
        constant = 0.5 * len(b) * math.log(math.tau * s)

        def density(block: Block, scratch: Scratch) -> Array:
            square = np.einsum("ij,ij->i", block.X, block.X) + b @ b
            return np.asarray(log_cosh(block.X @ b / s) - square / (2 * s) - constant)

        return density

    def sample(self, n_samples: int = 1) -> tuple[Array, NDArray[np.int64]]:
        """Draw records and their components (1 for ``mean_``) from the fitted model."""
        check_is_fitted(self)
        check_samples(n_samples)
        rng = check_random_state(self.random_state)
        label = rng.randint(2, size=n_samples).astype(np.int64)
        noise = rng.standard_normal((n_samples, len(self.mean_))) * math.sqrt(self.noise_variance_)
        return np.where(label[:, None] == 1, 1.0, -1.0) * self.mean_ + noise, label


@dataclass(repr=False, eq=False, kw_only=True)
class SymmetricRegressionMixture(TargetDensity, SymmetricEstimator):
    """Two regressions of equal weight that mirror each other: y = z <b, x> + noise, z = +-1.

    This is the second model of Wang et al. 2023. b and -b are the same model; which of the two
    ``coef_`` is, is random. There is no intercept.

    Parameters
    ----------
    noise_variance : float, optional
        Variance of the noise on y, if known; estimated (privately) by default.
    init : array-like of shape (n_features,), optional
        Where EM starts; counts as public. By default a spectral start: the direction in which
        records with large targets lie, which a private fit pays for.
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
    bounds, target_bounds : float, (low, high) or (``bounds``) dict by column name, optional
        A ball about the origin, or a box, that X and y are clipped to. ``None``: a ball is found
        privately from a histogram of norms. Wide bounds cost little.
    mechanism : {"auto", "clip", "robust"}, default="auto"
        For ``method="gradient"``: Algorithm 1 (``"auto"``) or 2 of Wang et al. 2023.
    trust : {"central", "local"}, default="central"
        ``"local"``: each person's own device adds noise and sends one message; see
        :mod:`privem.local`. It needs both bounds and very many people.
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
    ledger : see :class:`privem.GaussianMixture`

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        b.
    noise_variance_ : float
    n_iter_ : int
    privacy_, bounds_, target_bounds_ : private fits only
    outside_ : float
        Private fits without given bounds only: at most that share of the records lies outside of
        what was found, in any column.
    structure_ : {"full", "lost"}
        Private fits only: ``"lost"`` if the start's direction, and so the result, is mostly noise.
    lower_bound_, converged_ : exact fits only
    n_features_in_, feature_names_in_ : as in scikit-learn
    feature_types_in_ : list of str, the declared type of each feature

    Examples
    --------
    >>> import numpy as np
    >>> from privem import SymmetricRegressionMixture
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(50_000, 2))
    >>> y = rng.choice([-1, 1], 50_000) * (X @ [2.0, 1.0]) + 0.5 * rng.normal(size=50_000)
    >>> model = SymmetricRegressionMixture(epsilon=1.0, bounds=5, target_bounds=10).fit(X, y)
    >>> bool(np.allclose(np.abs(model.coef_), [2, 1], atol=0.2))
    True
    """

    target_bounds: Any = None

    _needed: ClassVar[tuple[str, ...]] = ("coef_", "noise_variance_")
    _effects: ClassVar[tuple[str, ...]] = ("coef_",)
    _target: ClassVar[bool] = True

    def predict(self, X: Any) -> Array:
        """``<coef_, x>``: what y is where z = 1; where z = -1 it is the negative of that."""
        # Row by row and not as a product: the same record gives the same number in any company.
        return np.asarray(self._all(X, lambda b, s: np.sum(b.X * self.coef_, axis=1)))

    def predict_sign(self, X: Any, y: Any) -> Array:
        """The probability that z = 1, given x and y, of each record."""

        def posterior(block: Block, scratch: Scratch) -> Array:
            fitted, y = block.X[:, :-1] @ self.coef_, block.X[:, -1]
            return np.asarray(0.5 + 0.5 * np.tanh(y * fitted / self.noise_variance_))

        return np.asarray(self._all(X, posterior, y=y, target=True))

    def _log_density(self) -> OfBlock:
        s = self.noise_variance_

        def density(block: Block, scratch: Scratch) -> Array:
            fitted, y = block.X[:, :-1] @ self.coef_, block.X[:, -1]
            square = (y * y + fitted * fitted) / (2 * s)
            return np.asarray(log_cosh(y * fitted / s) - square - 0.5 * math.log(math.tau * s))

        return density

    def sample(self, X: Any) -> Array:
        """Draw a target for each record."""
        mean = self.predict(X)
        rng = check_random_state(self.random_state)
        sign = 2 * rng.randint(2, size=len(mean)) - 1
        noise = rng.standard_normal(len(mean)) * math.sqrt(self.noise_variance_)
        return np.asarray(sign * mean + noise)
