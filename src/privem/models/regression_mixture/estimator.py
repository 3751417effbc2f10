"""The estimator of a mixture of linear regressions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from ...blocks.region import Region
from ...budget import Terms
from ...core import Block, Scratch
from ...data.table import Table
from ...em import Fit
from ...estimator.density import OfBlock, TargetDensity, log_sums, shares
from ...estimator.inits import given_weights
from ...estimator.warnings import say_alike, say_few
from ...ground import Preamble, PrivateFit
from ...linalg import Array, first_largest
from ...parameters import TARGET, check_array_shape, check_float, check_int, check_one_start
from .model import Regressions
from .plan import Lines, PrivateRegressionsPlan, RegressionMixturePlan


@dataclass(repr=False, eq=False, kw_only=True)
class RegressionMixture(TargetDensity):
    """Mixture of linear regressions: each record follows one of K unknown lines.

    Every component has its own intercept, coefficients, weight and noise variance.

    Parameters
    ----------
    n_components : int, default=2
        Number of regressions.
    max_iter : int, default=1000
        Maximum number of iterations, also of a private fit (see ``n_iter``).
    tol : float, default=1e-9
        Exact fits stop when the mean log-likelihood gains less than this.
    n_init : int, default=1
        Starts of an exact fit, the first along the directions in which residuals grow, later ones
        random; the best result is kept.
    weights_init, coef_init, intercept_init, noise_variance_init : array-like, optional
        A given start, all four or none; counts as public.
    epsilon : float or None, default=1.0
        The privacy budget of the whole fit; ``None`` fits exactly, without any privacy.
    delta, neighbours, max_weight : see :class:`privem.GaussianMixture`
    accountant : str, default="auto"
        ``"auto"`` takes the tightest valid one. The others raise an error where they are not valid:
        ``"gdp" "zcdp" "zcdp-loose" "rdp" "pld" "moments" "advanced" "advanced-classical" "linear"
        "linear-classical"``.
    bounds, target_bounds : (low, high), float, (``bounds``) dict by column name, or None
        Public limits of X and of y; records outside are clipped. A number r stands for (-r, r).
        ``None``: estimated by noisy histograms, out of the budget (which pay for both if one is
        missing).
    mechanism : {"auto", "whitened"}, default="auto"
        ``"whitened"``: covariates in the frame of a first private release, residuals in units of
        each component's own deviation, pulled onto a ball.
    trust : {"central", "local"}, default="central"
        ``"local"``: each person's own device adds noise and sends one message; see
        :mod:`privem.local`. It needs both bounds and very many people.
    n_iter : int, optional
        Iterations of a private fit; chosen from the noise level by default (10 if local).
    random_state : int, RandomState or None
        For starts and ``sample``.
    n_jobs : int, optional
        Number of threads over blocks of rows; ``None`` uses as many as BLAS would.
    ledger : see :class:`privem.GaussianMixture`

    Attributes
    ----------
    coef_ : ndarray of shape (n_components, n_features)
    intercept_, weights_, noise_variance_ : ndarray of shape (n_components,)
    n_iter_ : int
    structure_ : {"full", "single"}
        Private fits only: ``"single"`` if the noise is too large for a mixture; all components
        are then the same regression.
    privacy_, bounds_, target_bounds_ : private fits only
    outside_ : float
        Private fits without given bounds only: at most that share of the records lies outside of
        what was found, in any column.
    lower_bound_, converged_ : exact fits only
    n_features_in_, feature_names_in_ : as in scikit-learn
    feature_types_in_ : list of str, the declared type of each feature

    Examples
    --------
    >>> import numpy as np
    >>> from privem import RegressionMixture
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(30_000, 1))
    >>> y = np.where(rng.random(30_000) < 0.4, 2 * X[:, 0], 1 - X[:, 0])
    >>> y += 0.1 * rng.normal(size=30_000)
    >>> model = RegressionMixture(2, bounds=1, target_bounds=3, random_state=0).fit(X, y)
    >>> bool(np.allclose(np.sort(model.coef_[:, 0]), [-1, 2], atol=0.1))
    True
    """

    n_components: int = field(default=2, kw_only=False)
    max_iter: int = 1000
    tol: float = 1e-09
    n_init: int = 1
    weights_init: Any = None
    coef_init: Any = None
    intercept_init: Any = None
    noise_variance_init: Any = None
    bounds: Any = None
    target_bounds: Any = None
    trust: str = "central"
    n_iter: int | None = None
    random_state: Any = None

    _needed: ClassVar[tuple[str, ...]] = ("coef_", "intercept_", "weights_", "noise_variance_")
    _target: ClassVar[bool] = True
    _mechanisms: ClassVar[Mapping[str, str]] = {"whitened": "gaussian"}
    _effects: ClassVar[tuple[str, ...]] = ("coef_",)

    def _exact_plan(self, table: Table) -> RegressionMixturePlan:
        start = self._given_start()
        names = [*self._called(), "the target"]
        known = (self.n_components, self.max_iter, self.tol, self.n_init)
        return RegressionMixturePlan(names, *known, self._rng(), start)

    def _set_exact(self, result: Fit[Regressions], table: Table) -> None:
        self.coef_, self.intercept_ = result.state.in_data()
        self.weights_, self.noise_variance_ = result.state.weights, result.state.variances
        self._set_converged(result)

    def _private_plan(self, table: Table, terms: Terms) -> PrivateRegressionsPlan:
        d = self.n_features_in_
        region, known = _join(self._region(d), self._target_region(), d)
        self._refuse_search(region is None)
        names = [*self._called(), TARGET]
        return PrivateRegressionsPlan(
            Preamble.of(terms, table.people, d + 1, region, names=names, known=known),
            self.n_components,
            self.n_iter,
            self._rng(),
            self._given_start(),
            self._local,
            self.max_iter,
        )

    def _set_private(self, result: PrivateFit[Lines]) -> None:
        k = self.n_components
        self.weights_, self.coef_, self.intercept_, self.noise_variance_ = result.state
        self.n_iter_, self.structure_ = result.iterations, result.structure
        if self.structure_ != "single" or self.weights_init is not None or k == 1:
            self.structure_ = "full"  # a given start is heeded however large the noise
        else:
            instead = "all of them are one (structure_ is 'single'); "
            say_few(self, result.ground, f"{k} regressions", instead)
        self._set_outside(result.ground)
        low, high = result.ground.region.sides
        self.bounds_ = (low[:-1], high[:-1])
        self.target_bounds_ = (float(low[-1]), float(high[-1]))

    def _advise(self) -> None:
        if self.n_components > 1 and self.structure_ != "single":
            say_alike(self)

    @property
    def _apart(self) -> tuple[str, ...]:
        return ("coef_", "intercept_", "noise_variance_")

    def _known(self, plan: PrivateRegressionsPlan, terms: Terms) -> dict[str, str]:
        names, joined = self._names(), plan.preamble.region
        if joined is not None:
            return {"bounds": joined.in_words([*names, "the target"])}
        if plan.preamble.known is None:
            return {"bounds": self._in_words(None), "target bounds": self._in_words(None)}
        # What was given, though the rest had to be found.
        return self._known_bounds(names)

    def predict(self, X: Any) -> Array:
        """The mean of y given each record, over all components."""
        return np.asarray(self.predict_components(X) @ self.weights_)

    def predict_components(self, X: Any) -> Array:
        """What each component expects of y, ``(n_samples, n_components)``."""
        return np.asarray(self._all(X, lambda b, s: b.X @ self.coef_.T + self.intercept_))

    def component_proba(self, X: Any, y: Any) -> Array:
        """Probability of each component given x and y, ``(n_samples, n_components)``."""
        return np.asarray(self._all(X, shares(self._log_joint), y=y, target=True))

    def component_labels(self, X: Any, y: Any) -> NDArray[np.int64]:
        """The most probable component given x and y."""
        return first_largest(self.component_proba(X, y), 1)

    def _log_density(self) -> OfBlock:
        return log_sums(self._log_joint)

    def sample(self, X: Any) -> tuple[Array, NDArray[np.int64]]:
        """Draw a target for each record, and the component it was drawn from."""
        means = self.predict_components(X)
        rng = check_random_state(self.random_state)
        label = rng.choice(len(self.weights_), size=len(means), p=self.weights_)
        noise = rng.standard_normal(len(means)) * np.sqrt(self.noise_variance_[label])
        return means[np.arange(len(means)), label] + noise, label

    def _log_joint(self, block: Block, scratch: Scratch) -> Array:
        d = self.n_features_in_
        coefficients = np.concatenate([self.intercept_[:, None], self.coef_], axis=1)
        state = Regressions(
            self.weights_, coefficients, self.noise_variance_, np.eye(d), np.zeros(d)
        )
        rows = np.asarray(block.X, dtype=np.float64).T
        return state.log_joint(rows[:-1], rows[-1])[2]

    def _check_parameters(self) -> None:
        for name in ("n_components", "max_iter", "n_init"):
            check_int(name, getattr(self, name), 1)
        check_float("tol", self.tol, 0.0)
        self._check_trust()
        if self.epsilon is None:
            return
        self._terms()
        self._target_region()
        check_one_start(self.n_init)

    def _given_start(self) -> Lines | None:
        given = (self.weights_init, self.coef_init, self.intercept_init, self.noise_variance_init)
        if all(part is None for part in given):
            return None
        if any(part is None for part in given):
            raise ValueError(
                "give weights_init, coef_init, intercept_init and noise_variance_init together, "
                "or none of them"
            )
        k, d = self.n_components, self.n_features_in_
        variances = check_array_shape("noise_variance_init", self.noise_variance_init, (k,))
        if not (variances > 0).all():
            raise ValueError("noise_variance_init must be above 0")
        return (
            given_weights(self.weights_init, k),
            check_array_shape("coef_init", self.coef_init, (k, d)),
            check_array_shape("intercept_init", self.intercept_init, (k,)),
            variances,
        )


def _join(x: Region | None, y: Region | None, d: int) -> tuple[Region | None, Any]:
    """The box of both; or what is known of it, NaN elsewhere, where one has to be found."""
    if x is None and y is None:
        return None, None
    low, high = np.full(d + 1, np.nan), np.full(d + 1, np.nan)
    for part, where in ((x, slice(0, d)), (y, slice(d, d + 1))):
        if part is not None:
            low[where], high[where] = part.sides
    if x is None or y is None:
        return None, (low, high)
    return Region.box(low, high), None
