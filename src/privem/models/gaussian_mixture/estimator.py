"""The Gaussian mixture estimator."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from ...blocks.moments import Frame
from ...budget import Terms
from ...data.table import Table
from ...em import Fit, Stream
from ...estimator.streamed import Streamed
from ...estimator.verbose import Verbose, watching
from ...estimator.warnings import advise_at_end, say_alike, say_lost, say_single
from ...ground import PrivateFit
from ...linalg import Array
from ...parameters import check_float, check_int, check_one_start, check_option
from ...report.shapes import Shapes
from ...run import held
from .density import MixtureDensity, WithBackground, divergences
from .m_step import Prior
from .model import COVARIANCE_TYPES, Mixture
from .plan import MixturePlan, check_stream, given_prior, given_start, model_of, starts, warm
from .private_plan import PrivateMixturePlan
from .structure import groups_of, merged

_INITS = ("kmeans", "k-means++", "random", "random_from_data")


@dataclass(repr=False, eq=False, kw_only=True)
class GaussianMixture(Streamed, WithBackground, MixtureDensity):
    """Gaussian mixture model, fitted privately by Expectation Maximization.

    The fit is differentially private unless ``epsilon=None``. Then it is exact, and a drop-in for
    :class:`sklearn.mixture.GaussianMixture`: the same parameters, attributes and methods, many
    times faster, in memory that does not grow with the data. Either fits files (``.npy``, ``.csv``,
    ``.parquet``) without loading them, takes sample weights, and offers posterior modes.

    Parameters
    ----------
    n_components : int, default=1
        Number of components.
    covariance_type : {"full", "tied", "diag", "spherical"}, default="full"
        Shape of the covariances, as in scikit-learn.
    tol : float, default=1e-3
        Exact fits stop when the mean log-likelihood gains less than this in one iteration.
    reg_covar : float, default=1e-6
        Added to every variance.
    max_iter : int, default=100
        Maximum number of iterations, also of a private fit (see ``n_iter``).
    n_init : int, default=1
        Number of starts; the best result is kept. The first is deterministic. Exact fits only.
    init_params : {"kmeans", "k-means++", "random", "random_from_data"}, default="kmeans"
        How to start. ``"kmeans"`` splits the data by sums alone, so that weighting a record by two
        and repeating it mean the same; the others look at single rows, as scikit-learn's do.
    weights_init, means_init, precisions_init : array-like, optional
        Given starting values, as in scikit-learn.
    random_state : int, RandomState or None
        For starts after the first, for starts that draw rows, and for ``sample``.
    warm_start : bool, default=False
        Continue from the last fit.
    verbose, verbose_interval : int
        Print progress, every ``verbose_interval`` iterations.
    prior : {None, "map"}, default=None
        ``"map"`` gives the posterior mode under a Dirichlet prior on the weights and a
        Normal-inverse-Wishart prior on each component, set by the next five.
    weight_concentration_prior : float, default=2
        Dirichlet parameter alpha of each component.
    mean_prior : array-like of shape (n_features,), optional
        Prior mean; zero by default.
    mean_precision_prior : float, default=1
        kappa_0: how many records the prior mean is worth.
    degrees_of_freedom_prior : float, optional
        nu_0; ``n_features + 2`` by default.
    covariance_prior : float or array-like of shape (n_features, n_features), default=0.1
        S_0; a number means that times the identity.
    epsilon : float or None, default=1.0
        The privacy budget of the whole fit; ``None`` fits exactly, without any privacy.
    delta : float, default=1e-6
        The probability with which the promise may fail; keep it well below 1 / number of records.
        ``0`` is pure differential privacy: ``mechanism="laplace"`` (which ``"auto"`` then means),
        ``bounds``, and either ``neighbours="replace-one"`` or ``max_rows``.
    bounds : (low, high), dict, float or None
        Public limits of each feature: ``(low, high)``, each a number or a list, or by column name
        ``{"age": (0, 120), ...}``; or the radius of a ball about the origin. Records outside are
        clipped. ``None``: found by noisy histograms, within the budget, or the fit stops with
        :class:`~privem.BoundsNotFound`.
    mechanism : {"auto", "whitened", "joint", "ggg", "llg", "laplace"}, default="auto"
        How sums are released; ``"auto"`` is ``"whitened"`` with the structure the noise supports.
    accountant : str, default="auto"
        ``"auto"`` takes the tightest valid one. The others raise an error where they are not valid:
        ``"gdp" "zcdp" "zcdp-loose" "rdp" "pld" "moments" "advanced" "advanced-classical" "linear"
        "linear-classical"``.
    neighbours : {"add-remove", "replace-one"}, default="add-remove"
        The change that privacy hides; with ``"replace-one"`` the number of records is public.
    n_iter : int, optional
        Iterations of a private fit; chosen from the noise level by default.
    background : bool or "auto", default="auto"
        Whether the density is ``(1 - w)`` times the mixture plus ``w`` times a uniform density on
        the bounds. In an exact fit without bounds, these are the range of the data. ``"auto"``:
        in private fits, unless ``mechanism`` is one of the papers'.
    max_weight : float, default=1
        Public cap on ``sample_weight`` in a private fit; larger weights count as the cap.
    max_rows : int, optional
        A public limit on the number of records, for the floating-point error of their sums. With
        ``delta=0`` somebody must know one; otherwise a thousandth of delta pays for a noisy bound.
        It is taken on trust and never compared with the data.
    n_jobs : int, optional
        Number of threads over blocks of rows; ``None`` uses as many as BLAS would.
    ledger : Ledger, path or str, optional
        The data set's ledger (:class:`privem.Ledger`), which the fit is charged to. ``None``: the
        one that the environment variable ``PRIVEM_LEDGER`` or the project's ``privem.toml`` names.
        ``False``: none, as for people who do not exist.

    Attributes
    ----------
    weights_, means_, covariances_, precisions_, precisions_cholesky_ : ndarray
        The fitted parameters, shaped as scikit-learn's.
        The weights sum to one, and leave a background out of account.
    background_weight_ : float
        w, zero if there is no background.
    n_iter_ : int
    privacy_, structure_ : private fits only
        The statement; ``"single"``, ``"tied"`` or ``covariance_type``.
    bounds_ : (low, high), private fits and those with a background
        The bounds used.
    outside_ : float
        Private fits without given bounds only: at most that share of the records lies outside of
        what was found, in any column.
    converged_ : bool, exact fits only
    lower_bound_ : float, exact fits only
        Mean log-likelihood (with a prior: plus the mean log prior density) at the last E-step.
    lower_bounds_ : list of float, exact fits only
        The same for every iteration.
    n_features_in_, feature_names_in_ : as in scikit-learn
    feature_types_in_ : list of str, the declared type of each column

    Notes
    -----
    A component that no record belongs to keeps its mean and covariance and its weight goes to
    (almost) zero. A covariance that is not positive definite has its eigenvalues raised to
    ``reg_covar``, or to 1e-12 of each column's variance where that is larger.

    Examples
    --------
    >>> import numpy as np
    >>> from privem import GaussianMixture
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(0, 1, (500, 2)), rng.normal(6, 1, (300, 2))])
    >>> private = GaussianMixture(n_components=2, bounds=(-5, 12)).fit(X)
    >>> private.privacy_.epsilon
    1.0
    >>> exact = GaussianMixture(n_components=2, epsilon=None).fit(X)
    >>> np.round(np.sort(exact.weights_), 3).tolist()
    [0.375, 0.625]
    """

    n_components: int = field(default=1, kw_only=False)
    covariance_type: str = "full"
    tol: float = 0.001
    reg_covar: float = 1e-06
    max_iter: int = 100
    n_init: int = 1
    init_params: str = "kmeans"
    weights_init: Any = None
    means_init: Any = None
    precisions_init: Any = None
    random_state: Any = None
    warm_start: bool = False
    verbose: int = 0
    verbose_interval: int = 10
    prior: str | None = None
    weight_concentration_prior: float = 2.0
    mean_prior: Any = None
    mean_precision_prior: float = 1.0
    degrees_of_freedom_prior: float | None = None
    covariance_prior: Any = 0.1
    bounds: Any = None
    background: Any = "auto"
    n_iter: int | None = None
    max_rows: int | None = None

    _needed: ClassVar[tuple[str, ...]] = (
        "weights_",
        "means_",
        "covariances_",
        "precisions_",
        "precisions_cholesky_",
        "background_weight_",
    )
    _fixed: ClassVar[tuple[str, ...]] = ("n_components", "covariance_type", "background")
    _mechanisms: ClassVar[Mapping[str, str]] = {
        "whitened": "gaussian",
        "joint": "gaussian",
        "ggg": "gaussian",
        "llg": "mixed",
        "laplace": "laplace",
    }

    @property
    def _isotropic(self) -> bool:
        return self.covariance_type == "spherical"

    def _progress(self) -> AbstractContextManager[Any]:
        if not self.verbose:
            return super()._progress()
        return watching(self, Verbose(self.verbose, self.verbose_interval))

    @property
    def _given(self) -> tuple[Any, Any, Any]:
        return self.weights_init, self.means_init, self.precisions_init

    def _prior(self) -> Prior | None:
        return None if self.prior is None else given_prior(self, self.n_features_in_)

    def _takes_flags(self) -> bool:
        """Only one Gaussian does: of several, some would shrink onto one of the two values."""
        return bool(self.n_components == 1)

    def _exact_plan(self, table: Table) -> MixturePlan:
        last = warm(self)
        return MixturePlan(
            self._called(),
            self.n_components,
            self.covariance_type,
            float(self.reg_covar),
            self._prior(),
            self.max_iter,
            self.tol,
            starts(self, table.rows),
            last,
            self._exact_region(table),
        )

    def _set_exact(self, result: tuple[Frame, Fit[Mixture]], table: Table) -> None:
        frame, fit = result
        self._set_state(fit.state)
        self._keep(Stream.after(fit.release, frame))
        self.converged_, self.n_iter_ = fit.converged, fit.n_iter
        self.lower_bound_, self.lower_bounds_ = fit.objective, fit.history
        if not self.converged_ and self.max_iter > 0:
            advise_at_end(
                "Best performing initialization did not converge. Try different init parameters, "
                "or increase max_iter, tol, or check for degenerate data.",
                ConvergenceWarning,
            )

    def _check_stream(self) -> None:
        check_stream(self)

    def _online(self, table: Table) -> tuple[Any, Mixture]:
        return model_of(self), self._density()

    def _set_state(self, state: Mixture) -> None:
        self._set_mixture(state)
        self._set_exact_background(state.background)

    def _private_plan(self, table: Table, terms: Terms) -> PrivateMixturePlan:
        given = any(part is not None for part in self._given)
        if self.background is True and terms.delta == 0:
            raise ValueError(
                "background=True needs a delta above 0: its weight is found with Gaussian noise"
            )
        return PrivateMixturePlan(
            self._preamble(table, terms),
            self.n_components,
            self.covariance_type,
            terms.recipe,
            self.n_iter,
            self._rng(),
            given_start(self, self.n_features_in_) if given else None,
            self._prior(),
            self.mechanism == "auto",
            self.max_iter,
            self.background,
        )

    @property
    def _merges(self) -> bool:
        return all(part is None for part in self._given)

    def _merged(self, fit: PrivateFit[Mixture]) -> PrivateFit[Mixture]:
        groups = held(lambda: groups_of(fit.state, self.n_components, fit.lost))
        structure = fit.structure if self.n_components > 1 else self.covariance_type
        return replace(fit, state=merged(fit.state, groups), structure=structure, lost=())

    def _set_private(self, result: PrivateFit[Mixture]) -> None:
        self._set_mixture(result.state)
        self.n_iter_, self.structure_ = result.iterations, result.structure
        self._set_bounds(result.ground)
        if self.structure_ == "single" and self.n_components > 1:
            say_single(self, result, "components", "one Gaussian")
        say_lost(result, "components")
        self._set_private_background(result.background)

    def _advise(self) -> None:
        if self.n_components > 1 and self.structure_ != "single":
            say_alike(self)

    @property
    def _apart(self) -> tuple[str, ...]:
        return ("means_",) if self.covariance_type == "tied" else ("means_", "covariances_")

    def _near(self) -> NDArray[np.bool_]:
        # Noise that would make equal components differ by more would leave but one.
        return np.asarray(divergences(self._density()) < 1 + 0.2 * self.n_features_in_)

    def _shapes(self) -> Shapes:
        tied = self.covariance_type == "tied"
        return Shapes.of_mixture(self.weights_, self.means_, self.covariances_, tied)

    def fit_predict(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, groups: Any = None
    ) -> NDArray[np.int64]:
        """Fit, then :meth:`predict` the same rows; the labels are not private."""
        return self.predict(self._fit_rows(X, y, sample_weight, groups))

    def sample(
        self, n_samples: int = 1, *, background: bool = True
    ) -> tuple[Array, NDArray[np.int64]]:
        """Draw records from the fitted mixture; as a table: :meth:`sample_frame`.

        Parameters
        ----------
        n_samples : int, default=1
            How many records.
        background : bool, default=True
            Whether to draw from the background too, if there is one.

        Returns
        -------
        X : ndarray of shape (n_samples, n_features)
            The records, component by component; those of the background come last.
        y : ndarray of shape (n_samples,)
            The component each was drawn from; -1 is the background.
        """
        check_is_fitted(self)
        model = self if background else self._without_background()
        return model._draws(n_samples, check_random_state(self.random_state))

    def _draw(self, n_samples: int, rng: Any) -> tuple[Array, NDArray[np.int64]]:
        mixture = self._density()
        counts = rng.multinomial(n_samples, mixture.weights / mixture.weights.sum())
        parts = []
        for k, count in enumerate(counts):
            # W (x - mean) is standard normal, so x = mean + W^-1 z.
            z = rng.standard_normal((count, self.n_features_in_))
            w = mixture.whiteners[k]
            parts.append(mixture.means[k] + (np.linalg.solve(w, z.T).T if w.ndim == 2 else z / w))
        return np.vstack(parts), np.repeat(np.arange(len(counts)), counts)

    def _marginals(self) -> tuple[Array, Array]:
        return self.means_, self._density().deviations

    def _check_parameters(self) -> None:
        check_int("n_components", self.n_components, 1)
        check_option("covariance_type", self.covariance_type, COVARIANCE_TYPES)
        check_float("tol", self.tol, 0.0)
        check_float("reg_covar", self.reg_covar, 0.0)
        check_int("max_iter", self.max_iter, 0)
        check_int("n_init", self.n_init, 1)
        check_option("init_params", self.init_params, _INITS)
        check_option("prior", self.prior, (None, "map"))
        check_int("verbose_interval", self.verbose_interval, 1)
        self._check_background()
        if self.epsilon is not None:
            self._terms()
            self._refuse_exact_only()

    def _refuse_exact_only(self) -> None:
        """Refuse what looks at single rows, or fits more than once: it cannot be private."""
        check_one_start(self.n_init)
        reasons = {
            "max_iter=0: it needs an iteration": self.max_iter == 0,
            f"init_params={self.init_params!r}, which looks at single rows": self.init_params
            != "kmeans",
            "warm_start=True: pass weights_init, means_init and precisions_init instead, which "
            "count as public": self.warm_start,
        }
        for reason, applies in reasons.items():
            if applies:
                raise ValueError(f"a private fit cannot use {reason}; or fit with epsilon=None")

    def _set_mixture(self, mixture: Mixture) -> None:
        self.weights_, self.means_ = mixture.weights, mixture.means
        self.covariances_ = mixture.covariances
        w, p = mixture.whiteners, mixture.precisions
        # Scikit-learn keeps one matrix of a tied covariance, and one number of a spherical one.
        each: Any = {"tied": 0, "spherical": np.s_[:, 0]}.get(self.covariance_type, np.s_[:])
        self.precisions_cholesky_ = (np.swapaxes(w, 1, 2) if w.ndim == 3 else w)[each].copy()
        self.precisions_ = np.ascontiguousarray(p[each])
