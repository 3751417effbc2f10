"""Regression with missing covariates."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from ...blocks.region import Region
from ...core import Block, Rows, Scratch
from ...data import LocalSource, is_rows, is_table
from ...data.checks import refuse_weights
from ...estimator.advice import advise, advise_at_end
from ...estimator.opening import unchecked
from ...estimator.parameters import check_array_shape
from ...estimator.targets import TargetEstimator
from ...estimator.terms import forget_private
from ...estimator.unscaled import off_centre, unlike_standard_normal
from ...federation import Federation
from ...statement import Statement
from ...tree import Array
from ..symmetric.base import (
    _LOCAL_ROUNDS,
    GRADIENT_MECHANISMS,
    _box,
    _known,
    _source,
    _terms,
    check_gradient_parameters,
)
from ..symmetric.model import Symmetric
from .model import log_density
from .plan import MissingPlan
from .private_plan import MissingTask, PrivateMissingPlan

__all__ = ["MissingCovariateRegression"]


class MissingCovariateRegression(TargetEstimator):
    """Linear regression where entries of X are missing (NaN) at random: y = <b, x> + noise.

    Paper 000's third model, and its assumptions are strong. **There is no intercept**: y must have
    mean zero. **Covariates are independent and standard normal**: what is missing is taken to be
    zero on average, with variance one. Columns in units of their own (an age, a heart rate) and a
    target away from zero give nonsense, so centre and scale them first, by means and deviations
    known publicly or found by :func:`privem.private_mean`. Nothing is scaled for you: bounds are
    limits, and say neither mean nor deviation. A private fit warns where ``bounds`` or
    ``target_bounds`` show that this was not done. Each entry is missing independently of
    everything; NaN is missing in X, and refused in y.

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
        covariates' distribution, less accurate. ``"gradient"``: paper 000's gradient EM, with
        ``mechanism``, ``clip``, ``step``, ``tau``, ``failure``, ``batch`` and ``averaging``.
    max_iter : int, default=5000
        At most so many iterations, also of a private fit (see ``n_iter``).
    tol : float, default=1e-10
        Exact fits stop when the mean log-likelihood gains less than this.
    epsilon : float or None, default=1.0
        The privacy budget of the whole fit; ``None`` fits exactly, without any privacy.
    delta, neighbours, max_weight : see :class:`privem.GaussianMixture`
    accountant : str, default="auto"
        The tightest that is valid; or, raising where it is not: ``"gdp" "zcdp" "zcdp-loose" "rdp"
        "pld" "moments" "advanced" "advanced-classical" "linear" "linear-classical"``.
    bounds, target_bounds : float, (low, high) or (``bounds``) dict by column name, optional
        A ball about the origin, or a box, that X and y are pulled into. ``None``: a ball is found
        privately from a histogram of norms. Wide bounds cost little.
    mechanism : {"auto", "clip", "robust"}, default="auto"
        For ``method="gradient"``: Algorithm 1 (``"auto"``) or Algorithm 2 of paper 000.
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
        ``"partition"``: each step of gradient EM uses records of its own, drawn at random.
    averaging : bool, default=True
        Gradient EM returns the mean of the second half of its iterates.
    random_state : int, RandomState or None
        For ``sample``.
    n_jobs : int, optional
        Threads over blocks of rows; ``None`` uses as many as BLAS may.

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

    _saved: ClassVar[tuple[str, ...]] = (
        "coef_",
        "noise_variance_",
        "missing_probability_",
        "n_iter_",
        "privacy_",
        "bounds_",
        "target_bounds_",
        "lower_bound_",
        "converged_",
    )
    _needed: ClassVar[tuple[str, ...]] = _saved[:2]
    _mechanisms: ClassVar[tuple[str, ...]] = GRADIENT_MECHANISMS

    def __init__(
        self,
        *,
        missing_probability: Any = None,
        noise_variance: float | None = None,
        init: Any = None,
        method: str = "auto",
        max_iter: int = 5000,
        tol: float = 1e-10,
        epsilon: float | None = 1.0,
        delta: float = 1e-6,
        bounds: Any = None,
        target_bounds: Any = None,
        mechanism: str = "auto",
        accountant: str = "auto",
        neighbours: str = "add-remove",
        trust: str = "central",
        n_iter: int | None = None,
        clip: float | None = None,
        step: float = 1.0,
        tau: float | None = None,
        failure: float = 0.05,
        batch: str = "full",
        averaging: bool = True,
        max_weight: float = 1.0,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.missing_probability = missing_probability
        self.noise_variance = noise_variance
        self.init = init
        self.method = method
        self.max_iter = max_iter
        self.tol = tol
        self.epsilon = epsilon
        self.delta = delta
        self.bounds = bounds
        self.target_bounds = target_bounds
        self.mechanism = mechanism
        self.accountant = accountant
        self.neighbours = neighbours
        self.trust = trust
        self.n_iter = n_iter
        self.clip = clip
        self.step = step
        self.tau = tau
        self.failure = failure
        self.batch = batch
        self.averaging = averaging
        self.max_weight = max_weight
        self.random_state = random_state
        self.n_jobs = n_jobs

    _missing: ClassVar[bool] = True

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, *, groups: Any = None) -> Self:
        """Fit b and the noise variance.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), frame or path
            NaN (in a file: an empty field) is missing.
        y : array-like of shape (n_samples,), or the name of a column of the frame or file X
        sample_weight, groups : as :meth:`privem.GaussianMixture.fit`
        """
        self._check_parameters()
        exact = self.epsilon is None
        rows = self._open_joined(X, y, sample_weight, finite=exact, missing=True, groups=groups)
        d = self.n_features_in_
        missing = self._given_missing(d)
        init = None if self.init is None else check_array_shape("init", self.init, (d,))
        if not exact:
            return self._fit_privately(rows, groups, missing, init)
        if not isinstance(rows, Federation):  # whose parties look themselves
            _refuse_infinite(rows)
        method = "moments" if self.method == "moments" else "em"
        plan = MissingPlan(d, method, self.noise_variance, missing, init, self.max_iter, self.tol)
        fit = self._run(plan, rows)
        forget_private(self)
        for name in ("missing_probability_", "lower_bound_"):
            if hasattr(self, name):
                delattr(self, name)
        self._set(fit.state)
        self.n_iter_, self.converged_ = fit.n_iter, fit.converged
        if method == "em":
            self.lower_bound_ = fit.objective
        if not fit.converged:
            advise_at_end(
                "MissingCovariateRegression did not converge: increase max_iter or tol",
                ConvergenceWarning,
            )
        return self

    def _fit_privately(
        self, rows: Rows, groups: Any, missing: Array | None, init: Array | None
    ) -> Self:
        d, local = self.n_features_in_, self.trust == "local"
        terms, target = _terms(self, self.bounds, d), _terms(self, self.target_bounds, 1).region
        self._warn_unscaled(terms.region, target)
        source, people = _source(self, rows, groups, local)
        task = MissingTask(
            d,
            "scoring" if self.method == "auto" else self.method,
            "clip" if self.mechanism == "auto" else self.mechanism,
            _LOCAL_ROUNDS if local and self.n_iter is None else self.n_iter,
            self.noise_variance,
            missing,
            init,
            self.clip,
            self.tau,
            self.step,
            bool(self.averaging),
            self.batch == "partition",
            (terms.epsilon, terms.delta, self.failure),
        )
        task = replace(task, n_iter=min(task.iterations, self.max_iter))
        norms = terms.region is None or target is None
        if local and norms:
            raise ValueError(
                "trust='local' needs bounds and target_bounds: nobody may look at all records to "
                "find them"
            )
        count = people.public_count(terms.neighbours)
        if count is not None and task.iterations > count:
            raise ValueError(
                f"n_iter={task.iterations} iterations are more than n_samples={int(count)} records"
            )
        # The plan finds its own region; what the preamble is told keeps it from looking for one.
        preamble = replace(terms, region=Region.around_origin(1.0, d)).preamble(people, d)
        parts = PrivateMissingPlan.parts(task, preamble, norms, local)
        allowance = terms.allowance(parts, count is None)
        plan = PrivateMissingPlan(task, preamble, allowance, terms.region, target, local)
        meter = terms.meter(count is None)
        fit = self._run_privately(plan, source, meter)
        self._set(fit.state)
        self.n_iter_, self.missing_probability_ = fit.iterations, fit.missing
        if not fit.found:
            advise_at_end(
                "no bounds stood out of the noise: a ball of radius 1 was used; give bounds= and "
                "target_bounds=, or use more records or a larger epsilon",
            )
        public = _known(self, people, terms, target, norms, True)
        if missing is not None:
            public["missing_probability"] = "given"
        statement = Statement.of(
            meter, people.unit, terms.neighbours, public, "local" if local else "central"
        )
        self.privacy_ = people.signed(statement)
        self.bounds_ = _box(fit.ground.region)
        self.target_bounds_ = tuple(float(side[0]) for side in _box(fit.target))
        return self

    def _warn_unscaled(self, region: Region | None, target: Region | None) -> None:
        """From the public bounds alone: columns that cannot be what the model takes them for."""
        odd = [] if self.method == "moments" else unlike_standard_normal(region, self._called())
        said = [f"covariates that are standard normal, unlike the bounds of {', '.join(odd)}"]
        said *= bool(odd)
        if target is not None and off_centre(target).any():
            said.append("a target with mean zero (there is no intercept), unlike target_bounds")
        if said:
            advise(
                f"MissingCovariateRegression assumes {'; and '.join(said)}. Centre and scale by "
                "public means and deviations first, bounds too, or the coefficients mean nothing",
            )

    def _check_parameters(self) -> None:
        check_gradient_parameters(self)

    def _set(self, state: Symmetric) -> None:
        self.coef_, self.noise_variance_ = state.beta, float(state.variance)

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
        rows = self._reopen_missing(X)
        return self._each_row(rows, lambda X: np.nansum(X * self.coef_, axis=1))

    def log_likelihood(self, X: Any, y: Any) -> Array:
        """Log-density of each target given what is observed of its record."""
        check_is_fitted(self)
        state = Symmetric(self.coef_, self.noise_variance_)
        joined = self._reopen_joined(X, y, missing=True)
        return self._each_row(joined, lambda X: log_density(X[:, :-1], X[:, -1], state))

    def score(self, X: Any, y: Any) -> float:
        """Mean log-density of the targets."""
        return float(np.mean(self.log_likelihood(X, y)))

    def sample(self, X: Any) -> Array:
        """Draw a target for each record, what is missing included."""
        mean = self.predict(X)
        hidden = self._each_row(self._reopen_missing(X), lambda X: np.isnan(X) @ self.coef_**2)
        noise = check_random_state(self.random_state).standard_normal(len(mean))
        return np.asarray(mean + noise * np.sqrt(self.noise_variance_ + hidden))

    def _reopen_missing(self, X: Any) -> Rows:
        """Rows to predict on, of which values may be missing."""
        check_is_fitted(self)
        if is_table(X) or is_rows(X):
            return unchecked(self._reopen_rows(X, None, None, finite=True))
        return self._open_array(X, None, None, reset=False, missing=True)

    def _each_row(self, rows: Rows, function: Any) -> Array:
        """A function of blocks of rows."""

        def one(block: Block, scratch: Scratch) -> Array:
            return np.asarray(function(np.asarray(block.X, dtype=np.float64)))

        return np.concatenate(list(LocalSource(rows, self.n_jobs).each(one, 4088)))


def _refuse_infinite(rows: Rows) -> None:
    """Exact fits: NaN is missing in X only, and infinity is nothing at all."""
    empty = True
    for block in rows.blocks(65_536):
        empty = empty and not len(block.X)
        if block.weight is not None:
            refuse_weights(block.weight, block.start)
        if np.isinf(block.X).any():
            raise ValueError("Input X contains infinity; remove or impute such rows first")
        if np.isnan(block.X[:, -1]).any():
            raise ValueError("Input y contains NaN: remove or impute missing values first")
    if empty:
        raise ValueError("Found array with 0 sample(s): there are no rows to fit")
