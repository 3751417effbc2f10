"""Regression with missing covariates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.utils import check_random_state

from ...blocks.region import Region
from ...budget import Terms
from ...data.table import Table
from ...em import Fit
from ...estimator.density import OfBlock, TargetDensity
from ...estimator.unscaled import off_centre, unlike_standard_normal
from ...estimator.warnings import advise, advise_at_end
from ...linalg import Array
from ...parameters import check_array_shape
from ..symmetric.base import GradientEstimator
from ..symmetric.model import Symmetric
from ..symmetric.plan import GradientFit
from .model import log_density
from .plan import MissingPlan, PrivateMissingPlan


@dataclass(repr=False, eq=False, kw_only=True)
class MissingCovariateRegression(TargetDensity, GradientEstimator):
    """Linear regression where entries of X are missing (NaN) at random: y = <b, x> + noise.

    This is the third model of Wang et al. 2023, and its assumptions are strong. **There is no
    intercept**: y must have mean zero. **Covariates are independent and standard
    normal**: a missing value is assumed to have mean zero and variance one. Raw columns (an age, a
    heart rate) and a target away from zero give wrong results, so centre and scale them first, by
    means and deviations that are public or found by :func:`privem.private_mean`. Nothing is scaled
    automatically: bounds are limits and tell neither mean nor deviation. A private fit warns if
    ``bounds`` or ``target_bounds`` show that this was not done. Entries are missing independently
    of everything; NaN means missing in X, and is refused in y.

    Parameters
    ----------
    missing_probability : float or array-like of shape (n_features,), optional
        How often entries are missing, if known; counts as public. By default it is estimated, in
        a private fit out of the budget. Exact EM does not need it.
    noise_variance : float, optional
        Variance of the noise on y, if known; estimated (privately) by default.
    init : array-like of shape (n_features,), optional
        Where to start; counts as public. Zero by default: the first step is then the moment of x y.
    method : {"auto", "moments", "gradient"}, default="auto"
        ``"auto"``: private fits compare clipped EM gradients with what the model expects of them
        and take Fisher's scoring steps; exact fits are EM. ``"moments"``: second moments of
        observed entries, corrected by how often they are; one release, no assumption about the
        covariates' distribution, less accurate. ``"gradient"``: gradient EM, with
        ``mechanism``, ``clip``, ``step``, ``tau``, ``failure``, ``batch`` and ``averaging``.
    max_iter : int, default=5000
        Maximum number of iterations, also of a private fit (see ``n_iter``).
    tol : float, default=1e-10
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
        For ``method="gradient"``: norm to clip gradients at, 1 by default.
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
        b. A column that is always missing has coefficient 0 in an exact fit, and whatever the
        noise leaves in a private one, which cannot know; it is then of no use but does no harm, as
        what is missing never enters a prediction.
    noise_variance_ : float
    missing_probability_ : ndarray of shape (n_features,)
        Private fits only: as given or found.
    n_iter_ : int
    privacy_, bounds_, target_bounds_ : private fits only
    outside_ : float
        Private fits without given bounds only: at most that share of the records lies outside of
        what was found, in any column.
    structure_ : {"full"}, private fits only
    lower_bound_, converged_ : exact fits only
    n_features_in_, feature_names_in_ : as in scikit-learn
    feature_types_in_ : list of str, the declared type of each feature

    Examples
    --------
    >>> import numpy as np
    >>> from privem import MissingCovariateRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(50_000, 3))
    >>> y = X @ [1.0, -2.0, 0.5] + 0.5 * rng.normal(size=50_000)
    >>> X[rng.random(X.shape) < 0.1] = np.nan
    >>> model = MissingCovariateRegression(epsilon=1.0, bounds=6, target_bounds=12).fit(X, y)
    >>> bool(np.allclose(model.coef_, [1, -2, 0.5], atol=0.1))
    True
    """

    missing_probability: Any = None
    max_iter: int = 5000
    tol: float = 1e-10
    target_bounds: Any = None

    _needed: ClassVar[tuple[str, ...]] = ("coef_", "noise_variance_")
    _effects: ClassVar[tuple[str, ...]] = ("coef_",)
    _released: ClassVar[tuple[str, ...]] = ("coef_", "noise_variance_", "missing_probability_")

    _target: ClassVar[bool] = True
    _missing: ClassVar[bool] = True

    def _exact_plan(self, table: Table) -> MissingPlan:
        d = self.n_features_in_
        method = "moments" if self.method == "moments" else "em"
        known = (self.noise_variance, self._given_missing(d), self._given_init())
        return MissingPlan(d, method, *known, self.max_iter, self.tol)

    def _set_exact(self, result: Fit[Symmetric], table: Table) -> None:
        super()._set_exact(result, table)
        if self.method == "moments":  # which has no likelihood
            del self.lower_bound_

    def _private_plan(self, table: Table, terms: Terms) -> PrivateMissingPlan:
        bounds = self._norm_bounds()
        self._warn_unscaled(bounds.region, bounds.target)
        settings = self._settings(terms, "em" if self.method == "auto" else self.method)
        missing = self._given_missing(settings.d)
        preamble = self._ungrounded(table, terms, settings, bounds)
        return PrivateMissingPlan(settings, preamble, bounds, missing)

    def _set_private(self, result: GradientFit) -> None:
        super()._set_private(result)
        self.missing_probability_ = result.missing
        if self.bounds is None:  # bounds that were found say as much as those that are given
            self._warn_unscaled(result.ground.region, None, advise_at_end)

    def _known(self, plan: Any, terms: Terms) -> dict[str, str]:
        given = {} if self.missing_probability is None else {"missing_probability": "given"}
        return super()._known(plan, terms) | given

    def _warn_unscaled(
        self, region: Region | None, target: Region | None, say: Callable[[str], None] = advise
    ) -> None:
        """From the public bounds alone: columns that cannot be what the model takes them for."""
        odd = [] if self.method == "moments" else unlike_standard_normal(region, self._called())
        said = [f"covariates that are standard normal, unlike the bounds of {', '.join(odd)}"]
        said *= bool(odd)
        if target is not None and off_centre(target).any():
            said.append("a target with mean zero (there is no intercept), unlike target_bounds")
        if said:
            say(
                f"MissingCovariateRegression assumes {'; and '.join(said)}. Centre and scale by "
                "public means and deviations first, bounds too, or the coefficients mean nothing",
            )

    def _given_missing(self, d: int) -> Array | None:
        if self.missing_probability is None:
            return None
        given = self.missing_probability
        given = np.full(d, given) if np.ndim(given) == 0 else given
        array = check_array_shape("missing_probability", given, (d,))
        if (array < 0).any() or (array > 1).any():
            raise ValueError("missing_probability must lie in [0, 1]")
        return array

    def predict(self, X: Any) -> Array:
        """What y is expected to be given what is observed of each record."""
        # Row by row and not as a product: the same record gives the same number in any company.
        return np.asarray(self._all(X, lambda b, s: np.nansum(b.X * self.coef_, axis=1)))

    def _log_density(self) -> OfBlock:
        state = Symmetric(self.coef_, self.noise_variance_)
        return lambda b, s: log_density(b.X[:, :-1], b.X[:, -1], state)

    def sample(self, X: Any) -> Array:
        """Draw a target for each record, what is missing included."""
        mean = self.predict(X)
        hidden = self._all(X, lambda b, s: np.isnan(b.X) @ self.coef_**2)
        noise = check_random_state(self.random_state).standard_normal(len(mean))
        return np.asarray(mean + noise * np.sqrt(self.noise_variance_ + hidden))
