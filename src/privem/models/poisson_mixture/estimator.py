"""The Poisson mixture estimator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln
from sklearn.base import DensityMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from ...blocks.region import Region
from ...blocks.shrinkage import alike, means_of, weights_of
from ...budget import Terms
from ...data import Table
from ...em import Fit, Stream
from ...estimator.density import Components, OfBlock, log_sums
from ...estimator.score import PrivatelyScored
from ...estimator.streamed import Streamed
from ...estimator.synthetic import Synthetic
from ...estimator.warnings import say_alike, say_lost, say_single
from ...ground import PrivateFit
from ...linalg import Array
from ...parameters import check_float, check_int, check_one_start, check_samples
from ...report.shapes import Shapes
from ...run import held
from .model import PoissonLogDensity, PoissonModel, Poissons
from .plan import PoissonPlan, PrivatePoissonPlan, where_counts_lie


@dataclass(repr=False, eq=False, kw_only=True)
class PoissonMixture(
    Synthetic,
    Streamed,
    Components,
    DensityMixin,  # type: ignore[misc]
    PrivatelyScored,
):
    """A mixture of Poisson distributions, for columns of counts.

    Within a component the columns are independent, each with a rate of its own. The fit is
    differentially private unless ``epsilon=None``.

    Parameters
    ----------
    n_components : int, default=1
        Number of components.
    max_iter : int, default=200
        Maximum number of iterations, also of a private fit (see ``n_iter``).
    tol : float, default=1e-6
        Exact fits stop when the mean log-likelihood gains less than this.
    n_init : int, default=1
        Starts of an exact fit; the best result is kept.
    epsilon : float or None, default=1.0
        The privacy budget of the whole fit; ``None`` fits exactly, without any privacy.
    delta, neighbours, max_weight : see :class:`privem.GaussianMixture`
    bounds : (low, high), dict, float or None
        Public limits of each column; records outside are pulled in. ``(0, 50)``: counts of at most
        50. What lies below 0 or above 1e9 (less with hundreds of columns) is cut off; ``bounds_``
        says what was used. ``None``: estimated by noisy histograms, out of the budget.
    mechanism : {"auto", "whitened"}, default="auto"
        How sums are released: about the rates known already, in units of their deviations.
    accountant : str, default="auto"
        The tightest that is valid; or, raising where it is not: ``"gdp" "zcdp" "zcdp-loose" "rdp"
        "pld" "moments" "advanced" "advanced-classical" "linear" "linear-classical"``.
    n_iter : int, optional
        Iterations of a private fit; chosen from the noise level by default.
    random_state : int, RandomState or None
        For starts and for ``sample``.
    n_jobs : int, optional
        Number of threads over blocks of rows; ``None`` uses as many as BLAS would.
    ledger : see :class:`privem.GaussianMixture`

    Attributes
    ----------
    weights_ : ndarray of shape (n_components,)
    rates_ : ndarray of shape (n_components, n_features)
        The expected count of each column in each component.
    n_iter_ : int
    privacy_, bounds_, structure_ : private fits only
        The statement; the bounds used; ``"single"`` where the noise drowns any mixture, else
        ``"full"``.
    outside_ : float
        Private fits without given bounds only: at most that share of the records lies outside of
        what was found, in any column.
    converged_, lower_bound_ : exact fits only
    n_features_in_, feature_names_in_ : as in scikit-learn
    feature_types_in_ : list of str, the declared type of each feature

    Examples
    --------
    >>> import numpy as np
    >>> from privem import PoissonMixture
    >>> rng = np.random.default_rng(0)
    >>> visits = np.concatenate([rng.poisson([1, 4], (6000, 2)), rng.poisson([9, 2], (4000, 2))])
    >>> model = PoissonMixture(2, epsilon=1.0, bounds=(0, 40), random_state=0).fit(visits)
    >>> np.round(model.rates_[model.rates_[:, 0].argsort()]).tolist()
    [[1.0, 4.0], [9.0, 2.0]]
    """

    n_components: int = field(default=1, kw_only=False)
    max_iter: int = 200
    tol: float = 1e-6
    n_init: int = 1
    bounds: Any = None
    n_iter: int | None = None
    random_state: Any = None

    _needed: ClassVar[tuple[str, ...]] = ("weights_", "rates_")
    _fixed: ClassVar[tuple[str, ...]] = ("n_components",)
    _mechanisms: ClassVar[Mapping[str, str]] = {"whitened": "gaussian"}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = self.epsilon is None
        return tags

    def _exact_plan(self, table: Table) -> PoissonPlan:
        self._refuse_negative(table)
        known = (self.n_components, self.max_iter, self.tol, self.n_init)
        return PoissonPlan(self._called(), *known, self._rng())

    def _refuse_negative(self, table: Table) -> None:
        if table.any(lambda block, _: bool((block.X < 0).any()), self.n_jobs):
            raise ValueError("Negative values in data passed to PoissonMixture: it is for counts")

    def _set_exact(self, result: Fit[Poissons], table: Table) -> None:
        self._set_state(result.state)
        self._set_converged(result)
        self._keep(Stream.after(result.release))

    def _online(self, table: Table) -> tuple[Any, Poissons]:
        self._refuse_negative(table)
        return lambda frame: PoissonModel(), Poissons(self.weights_, self.rates_)

    def _set_state(self, state: Poissons) -> None:
        self.weights_, self.rates_ = state.weights, state.rates

    def _private_plan(self, table: Table, terms: Terms) -> PrivatePoissonPlan:
        known = (self.n_components, self.n_iter, self.max_iter)
        return PrivatePoissonPlan(self._preamble(table, terms), *known, self._rng())

    @property
    def _merges(self) -> bool:
        return True

    def _merged(self, fit: PrivateFit[Poissons]) -> PrivateFit[Poissons]:
        weights, rates = fit.state.weights, fit.state.rates

        def part(group: list[int]) -> float:
            rate = means_of(weights, rates, [group])[0]
            return -float(weights[group].sum() * (rate @ np.log(rate)))

        groups = held(lambda: alike(range(len(weights)), self.n_components, part))
        state = Poissons(weights_of(weights, groups), means_of(weights, rates, groups))
        structure = fit.structure if self.n_components > 1 else "full"
        return replace(fit, state=state, structure=structure, lost=())

    def _set_private(self, result: PrivateFit[Poissons]) -> None:
        self._set_state(result.state)
        self.n_iter_ = result.iterations
        self.bounds_ = result.ground.region.sides
        self._set_outside(result.ground)
        if result.structure == "single":
            say_single(self, result, "components", "one")
        say_lost(result, "components")

    def _advise(self) -> None:
        if self.n_components > 1 and self.structure_ != "single":
            say_alike(self)

    @property
    def _apart(self) -> tuple[str, ...]:
        return ("rates_",)

    def _shapes(self) -> Shapes:
        return Shapes.of_mixture(self.weights_, self.rates_, self.rates_)

    def _region(self, d: int) -> Region | None:
        region = super()._region(d)
        return None if region is None else where_counts_lie(region)

    def _log_joint(self) -> OfBlock:
        state = Poissons(self.weights_, self.rates_)
        return lambda block, scratch: state.log_joint(np.asarray(block.X, dtype=np.float64))

    def _log_density(self) -> OfBlock:
        sums = log_sums(self._log_joint())
        # The factorials, which all components share.
        return lambda block, scratch: sums(block, scratch) - gammaln(block.X + 1).sum(axis=1)

    def _scored(self) -> PoissonLogDensity:
        return PoissonLogDensity(Poissons(self.weights_, self.rates_))

    def _n_parameters(self) -> int:
        return self.weights_.size - 1 + self.rates_.size

    def _log_uniform(self) -> float:
        low, high = self.bounds_
        return -float(np.sum(np.log(np.floor(high) - np.ceil(low) + 1)))

    def sample(self, n_samples: int = 1) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Draw records, and the component of each; as a table: :meth:`sample_frame`."""
        check_is_fitted(self)
        check_samples(n_samples)
        rng = check_random_state(self.random_state)
        counts = rng.multinomial(n_samples, self.weights_ / self.weights_.sum())
        label = np.repeat(np.arange(len(counts)), counts)
        return rng.poisson(self.rates_[label]).astype(np.int64), label

    def _marginals(self) -> tuple[Array, Array]:
        return self.rates_, np.sqrt(self.rates_)

    def _check_parameters(self) -> None:
        for name in ("n_components", "max_iter", "n_init"):
            check_int(name, getattr(self, name), 1)
        check_float("tol", self.tol, 0.0)
        if self.epsilon is not None:
            self._terms()
            check_one_start(self.n_init)
