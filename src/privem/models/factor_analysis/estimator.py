"""The factor analysis estimator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import inv, pinvh
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from ...blocks.moments import Frame
from ...budget import Terms
from ...core import Block, Scratch
from ...data.table import Table
from ...em import Stream
from ...estimator.density import OfBlock
from ...estimator.streamed import Streamed
from ...estimator.warnings import advise_at_end
from ...ground import PrivateFit
from ...linalg import Array, invert_cholesky
from ...parameters import (
    check_array_shape,
    check_float,
    check_int,
    check_option,
)
from ...report.shapes import Shapes
from ..gaussian_mixture.density import GaussianScored, WithBackground
from ..gaussian_mixture.model import Mixture
from .model import Covariance, FactorFit, FactorSteps, Whole, rotate
from .plan import FACTOR_RECIPES, CovariancePlan, Factors, PrivateCovariancePlan

_MOST_FRAMED = 1024  # features
# Steps, in all, of fits that are played again.
_STEPS_AGAIN = 4000


@dataclass(repr=False, eq=False, kw_only=True)
class FactorAnalysis(
    ClassNamePrefixFeaturesOutMixin,  # type: ignore[misc]
    TransformerMixin,  # type: ignore[misc]
    Streamed,
    WithBackground,
    GaussianScored,
):
    """Factor analysis: a few hidden factors plus independent noise in each feature.

    The fit is differentially private unless ``epsilon=None``. Then it is exact, and a drop-in for
    :class:`sklearn.decomposition.FactorAnalysis`, which reads the data twice (mean, then second
    moment), or four times where it has fewer rows than columns. Every iteration works on a d x d
    second moment alone, or on its factors where it has few.

    Parameters
    ----------
    n_components : int, optional
        Number of factors; as many as features by default; 0 leaves independent features.
    tol : float, default=1e-2
        Stop when the log-likelihood of all records gains less than this.
    copy : accepted for compatibility
        Data are never changed.
    max_iter : int, default=1000
        Maximum number of iterations.
    noise_variance_init : array-like of shape (n_features,), optional
        Starting noise variances; ones by default.
    svd_method, iterated_power : accepted for compatibility
        Every step takes the exact eigenvectors, as scikit-learn's ``"lapack"``.
    rotation : {None, "varimax", "quartimax"}, default=None
        Rotate the factors towards simple structure.
    random_state : int, RandomState or None, default=0
        For ``sample``.
    update : {"eigen", "em"}, default="eigen"
        ``"eigen"`` solves for the loadings in one step; ``"em"`` is the slower EM update of
        Rubin and Thayer 1982. Both reach the same maximum.
    epsilon : float or None, default=1.0
        The privacy budget of the whole fit; ``None`` fits exactly, without any privacy.
    delta, bounds, neighbours, max_weight : see :class:`privem.GaussianMixture`
    background : bool or "auto", default="auto"
        Whether the density is ``(1 - w)`` times the Gaussian plus ``w`` times a uniform density on
        the bounds. ``"auto"``: in private fits of up to 256 columns, unless ``mechanism="joint"``.
        Exact fits have none.
    accountant : str, default="auto"
        ``"auto"`` takes the tightest valid one. The others raise an error where they are not valid:
        ``"gdp" "zcdp" "zcdp-loose" "rdp" "pld" "moments" "advanced" "advanced-classical" "linear"
        "linear-classical"``.
    mechanism : {"auto", "whitened", "joint"}, default="auto"
        ``"joint"`` releases the second moment once, as Park et al. 2017 do; ``"whitened"`` finds
        where the records lie first, as ``GaussianMixture(1)`` does. ``"auto"``: the latter, up to
        1024 features.
    n_jobs : int, optional
        Number of threads over blocks of rows; ``None`` uses as many as BLAS would.
    ledger : see :class:`privem.GaussianMixture`

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
    noise_variance_ : ndarray of shape (n_features,)
    mean_ : ndarray of shape (n_features,)
    loglike_ : list of float
        Log-likelihood at each iteration: of all records; in a private fit, of the noisy moments.
    background_weight_ : float
        w, zero if there is no background.
    n_iter_ : int
    privacy_, bounds_ : private fits only
        The statement, and the bounds used.
    outside_ : float
        Private fits without given bounds only: at most that share of the records lies outside of
        what was found, in any column.
    structure_ : {"full"}, private fits only
    n_features_in_, feature_names_in_ : as in scikit-learn
    feature_types_in_ : list of str, the declared type of each column

    Examples
    --------
    >>> import numpy as np
    >>> from privem import FactorAnalysis
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(500, 1)) @ [[1.0, 2.0, -1.0]] + 0.1 * rng.normal(size=(500, 3))
    >>> private = FactorAnalysis(n_components=1, bounds=(-8, 8)).fit(X)
    >>> private.transform(X).shape
    (500, 1)
    >>> exact = FactorAnalysis(n_components=1, epsilon=None).fit(X)
    >>> bool(np.all(exact.noise_variance_ < 0.05))
    True
    """

    n_components: int | None = field(default=None, kw_only=False)
    tol: float = 0.01
    copy: bool = True
    max_iter: int = 1000
    noise_variance_init: Any = None
    svd_method: str = "lapack"
    iterated_power: int = 3
    rotation: str | None = None
    random_state: Any = 0
    update: str = "eigen"
    bounds: Any = None
    background: Any = "auto"

    _needed: ClassVar[tuple[str, ...]] = (
        "components_",
        "noise_variance_",
        "mean_",
        "background_weight_",
    )
    _effects: ClassVar[tuple[str, ...]] = ("components_",)
    _mechanisms: ClassVar[Mapping[str, str]] = FACTOR_RECIPES

    def _exact_plan(self, table: Table) -> CovariancePlan:
        self._steps()
        return CovariancePlan(self._called())

    def _set_exact(self, result: tuple[Frame, Covariance], table: Table) -> None:
        frame, covariance = result
        self._set_exact_background(None)
        self._set_factors(frame.mean, self._steps().fit(covariance, frame.count))
        if isinstance(covariance, Whole):  # in factors it is that of these rows, and no others
            self._keep(Stream(frame.count, {}, frame=frame))

    def _online(self, table: Table) -> tuple[None, None]:
        """The moments of all records say it all."""
        return None, None

    def _set_state(self, state: Frame) -> None:
        self._set_factors(state.mean, self._steps().fit(Whole(state.covariance), state.count))

    def _private_plan(self, table: Table, terms: Terms) -> PrivateCovariancePlan:
        d = self.n_features_in_
        steps = self._steps()
        # With very many features, whitening takes longer than it is worth.
        recipe = "joint" if self.mechanism == "auto" and d > _MOST_FRAMED else self.mechanism
        preamble = self._preamble(table, terms)
        return PrivateCovariancePlan(preamble, recipe, steps, self.background)

    @property
    def _merges(self) -> bool:
        return True

    def _merged(self, fit: PrivateFit[Factors]) -> PrivateFit[Factors]:
        """Fewer factors of the covariance that more of them make."""
        mean, found = fit.state
        covariance = found.components.T @ found.components + np.diag(found.noise_variance)
        return replace(fit, state=(mean, self._steps().fit(Whole(covariance), fit.ground.count)))

    def _set_private(self, result: PrivateFit[Factors]) -> None:
        self._set_factors(*result.state)
        self._set_bounds(result.ground)
        self._set_private_background(result.background)

    def _steps(self) -> FactorSteps:
        """What follows the moments; starting noise variances are checked."""
        d, noise = self.n_features_in_, self.noise_variance_init
        q = d if self.n_components is None else min(self.n_components, d)
        if noise is not None:
            noise = check_array_shape("noise_variance_init", noise, (d,))
            if (noise <= 0).any():
                raise ValueError("noise_variance_init must be positive")
        return FactorSteps(q, noise, self.update, self.tol, self.max_iter)

    def _set_factors(self, mean: Array, found: FactorFit) -> None:
        self.mean_, self.noise_variance_ = mean, found.noise_variance
        self.components_, self.loglike_ = found.components, found.log_likelihoods
        self.n_iter_ = len(self.loglike_)
        if self.rotation is not None:
            self.components_ = rotate(self.components_, self.rotation)
        if not found.converged:
            advise_at_end(
                "FactorAnalysis did not converge: increase max_iter or tol",
                ConvergenceWarning,
            )

    def _set_again(self, result: PrivateFit[Factors]) -> None:
        """Loadings get the signs they had."""
        before = self.components_
        self._set_private(result)
        same = np.einsum("ij,ij->i", before, self.components_) >= 0
        self.components_ = np.where(same[:, None], self.components_, -self.components_)

    @property
    def _replays(self) -> int:
        return _STEPS_AGAIN // max(self.n_iter_, 1)

    def transform(self, X: Any) -> Array:
        """Expected factors of each record, ``(n_samples, n_components)``."""
        check_is_fitted(self)
        weighted = self.components_ / self.noise_variance_
        gain = inv(np.eye(len(weighted)) + weighted @ self.components_.T)
        return np.asarray(self._all(X, lambda b, s: (b.X - self.mean_) @ weighted.T @ gain))

    def get_covariance(self) -> Array:
        """Covariance of the features under the model."""
        check_is_fitted(self)
        low_rank = self.components_.T @ self.components_
        return np.asarray(low_rank + np.diag(self.noise_variance_))

    def get_precision(self) -> Array:
        """Inverse of :meth:`get_covariance`."""
        return np.asarray(pinvh(self.get_covariance()))

    def _log_density(self) -> OfBlock:
        """By the factors: no d x d matrix is formed."""
        q, d = self.components_.shape
        root = np.sqrt(self.noise_variance_)
        loadings = self.components_ / root
        # The expected factors z minimise |r - W'z|^2 + |z|^2, and the least is r'(I + W'W)^-1 r.
        factor = invert_cholesky(np.eye(q) + loadings @ loadings.T)
        expect = factor.T @ (factor @ loadings)
        constant = np.log(np.diag(factor)).sum() - np.log(root).sum() - 0.5 * d * np.log(2 * np.pi)

        def density(block: Block, scratch: Scratch) -> Array:
            scaled = (block.X - self.mean_) / root
            z = scaled @ expect.T
            scaled -= z @ loadings
            square = np.einsum("ij,ij->i", scaled, scaled) + np.einsum("ij,ij->i", z, z)
            return np.asarray(constant - 0.5 * square)

        return density

    def sample(self, n_samples: int = 1, *, background: bool = True) -> Array:
        """Draw records, ``(n_samples, n_features)``; as a table: :meth:`sample_frame`.

        ``background=False`` leaves out those of a background.
        """
        check_is_fitted(self)
        model = self if background else self._without_background()
        rng = check_random_state(self.random_state)
        X, component = model._draws(n_samples, rng)
        return X[rng.permutation(n_samples)] if (component < 0).any() else X

    def _draw(self, n_samples: int, rng: Any) -> tuple[Array, NDArray[np.int64]]:
        factors = rng.standard_normal((n_samples, len(self.components_)))
        noise = rng.standard_normal((n_samples, len(self.mean_)))
        X = self.mean_ + factors @ self.components_ + noise * np.sqrt(self.noise_variance_)
        return X, np.zeros(n_samples, dtype=np.int64)

    def _density(self) -> Mixture:
        covariance = self.get_covariance()[None]
        return Mixture("full", np.ones(1), self.mean_[None], covariance, self._background())

    def _shapes(self) -> Shapes:
        def covariance(k: int, at: Sequence[int]) -> Array:
            some = self.components_[:, list(at)]
            return np.asarray(some.T @ some + np.diag(self.noise_variance_[list(at)]))

        return Shapes(self.mean_[None], np.ones(1), covariance)

    def _n_parameters(self) -> int:
        q, d = self.components_.shape
        return int(d * (q + 2) - q * (q - 1) // 2 + (self._background() is not None))

    def _marginals(self) -> tuple[Array, Array]:
        variances = np.sum(self.components_**2, axis=0) + self.noise_variance_
        return self.mean_[None], np.sqrt(variances)[None]

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def _check_parameters(self) -> None:
        if self.n_components is not None:
            check_int("n_components", self.n_components, 0)
        check_float("tol", self.tol, 0.0)
        check_int("max_iter", self.max_iter, 1)
        check_option("svd_method", self.svd_method, ("lapack", "randomized"))
        check_option("rotation", self.rotation, (None, "varimax", "quartimax"))
        check_option("update", self.update, ("eigen", "em"))
        self._check_background()
        if self.epsilon is None and self._asks_for_background:
            raise ValueError(
                "background=True: an exact factor analysis has none, since it is fitted to one "
                "second moment of all records. Fit privately, or GaussianMixture(1, "
                "background=True, epsilon=None)"
            )
        if self.epsilon is not None:
            self._terms()
