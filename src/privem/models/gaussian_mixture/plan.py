"""Exact Gaussian mixtures: frame, start, EM, the best of several runs; and what a caller gives."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils import check_random_state

from ...blocks.moments import MANY_COLUMNS, Frame, FramePlan
from ...blocks.region import Background, Region
from ...core import Release, Rows, Stage
from ...em import ExactEM, Fit, gains_less
from ...estimator.inits import given_covariances, given_means, given_weights, row_centres
from ...linalg import Array
from ...noise.exact import Exact
from ...parameters import check_array_shape, check_float
from ..kmeans.plan import SplitStart, lloyd
from .m_step import GaussianMixtureModel, Prior
from .model import AssignedQuery, Mixture

if TYPE_CHECKING:
    from .estimator import GaussianMixture

# The weight of a background that EM starts with.
_BACKGROUND = 0.05


@dataclass(frozen=True)
class Start:
    """How one run begins. Given parts win over what the responsibilities would have said.

    ``how``: ``"kmeans"`` (splitting, then Lloyd), ``"random"`` responsibilities, or an array of
    centres to assign records to.
    """

    how: str | Array = "kmeans"
    rng: np.random.Generator | None = None
    weights: Array | None = None
    means: Array | None = None
    covariances: Array | None = None

    @property
    def complete(self) -> bool:
        """Whether nothing is left to be found."""
        return not any(p is None for p in (self.weights, self.means, self.covariances))


@dataclass(frozen=True)
class MixturePlan:
    """Frame, then EM from each start; keeps the highest lower bound.

    Parameters mirror the estimator's; ``warm`` continues from the given mixture and lower bound;
    ``region`` is that of a background, if there is one.
    """

    names: Sequence[str]
    n_components: int
    covariance_type: str
    reg_covar: float
    prior: Prior | None
    max_iter: int
    tol: float
    starts: Sequence[Start]
    warm: tuple[Mixture, float] | None = None
    region: Region | None = None

    def stages(self) -> Generator[Stage, Release[Any], tuple[Frame, Fit[Mixture]]]:
        """Generate the stages."""
        wide = len(self.names) > MANY_COLUMNS and self.covariance_type in ("diag", "spherical")
        whole_from = np.inf if wide else 0.0
        frame = yield from FramePlan(self.names, self.n_components, whole_from).stages()
        model = GaussianMixtureModel(self.covariance_type, frame, self.reg_covar, self.prior)
        if self.warm is not None:
            state, bound = self.warm
            return frame, (yield from self._em(model, self._over(state), bound))
        fits = []
        for start in self.starts:
            state = yield from self._begin(model, start)
            fits.append((yield from self._em(model, self._over(state), -np.inf)))
        return frame, max(fits, key=lambda fit: fit.objective)

    def _over(self, state: Mixture) -> Mixture:
        """The same with or without a background, as asked for."""
        if self.region is None:
            return replace(state, background=None)
        weight = _BACKGROUND if state.background is None else state.background.weight
        return replace(state, background=Background(weight, self.region))

    def _em(
        self, model: GaussianMixtureModel, state: Mixture, bound: float
    ) -> Generator[Stage, Release[Any], Fit[Mixture]]:
        em = ExactEM(model, state, self.max_iter, gains_less(self.tol), "EM", bound)
        return (yield from em.stages())

    def _begin(
        self, model: GaussianMixtureModel, start: Start
    ) -> Generator[Stage, Release[Any], Mixture]:
        frame, k = model.frame, self.n_components
        # Something valid for the M-step to fall back on where a component gets no records.
        match self.covariance_type:
            case "full":
                whole = np.stack([frame.covariance] * k)
            case "tied":
                whole = frame.covariance
            case "diag":
                whole = np.stack([frame.diagonal] * k)
            case _:
                whole = np.full(k, frame.scale)
        state = Mixture(self.covariance_type, np.full(k, 1 / k), np.stack([frame.mean] * k), whole)
        floored = model.valid(whole, whole, np.ones(k, dtype=bool))
        state = replace(state, covariances=floored)
        if not start.complete:
            query = yield from self._assignment(model, start)
            release = yield Stage(query, Exact(), "start")
            state = model.m_step(state, release)
        return replace(
            state,
            weights=state.weights if start.weights is None else start.weights,
            means=state.means if start.means is None else start.means,
            covariances=state.covariances if start.covariances is None else start.covariances,
        )

    def _assignment(
        self, model: GaussianMixtureModel, start: Start
    ) -> Generator[Stage, Release[Any], AssignedQuery]:
        frame = model.frame
        seed = None
        if isinstance(start.how, np.ndarray):
            centres = start.how
        elif start.how == "random":
            rng = start.rng or np.random.default_rng()
            seed = int(rng.integers(2**32))
            centres = np.zeros((self.n_components, len(frame.origin)))
        else:
            clusters = yield from SplitStart(frame, self.n_components, start.rng).stages()
            fit = yield from lloyd(frame, clusters, max_iter=20, tol=1e-4).stages()
            centres = fit.state.centres
        return AssignedQuery(self.covariance_type, frame.origin, centres, seed)


def given_prior(model: GaussianMixture, d: int) -> Prior:
    """The prior that the parameters describe, checked."""
    alpha = check_float("weight_concentration_prior", model.weight_concentration_prior, 0, True)
    kappa = check_float("mean_precision_prior", model.mean_precision_prior, 0, True)
    nu = model.degrees_of_freedom_prior
    nu = d + 2.0 if nu is None else check_float("degrees_of_freedom_prior", nu, d - 1, True)
    mean = np.zeros(d)
    if model.mean_prior is not None:
        mean = check_array_shape("mean_prior", model.mean_prior, (d,))
    if np.ndim(model.covariance_prior) == 0:
        size = check_float("covariance_prior", model.covariance_prior, 0, True)
        return Prior(alpha, mean, kappa, nu, size * np.eye(d))
    scatter = check_array_shape("covariance_prior", model.covariance_prior, (d, d))
    if not np.allclose(scatter, scatter.T) or np.linalg.eigvalsh(scatter)[0] <= 0:
        raise ValueError("covariance_prior must be symmetric and positive definite")
    return Prior(alpha, mean, kappa, nu, scatter)


def _given(model: GaussianMixture, d: int) -> tuple[Any, Any, Any]:
    """Starting weights, means and covariances, checked, each ``None`` if it is not given."""
    k, (weights, means, precisions) = model.n_components, model._given
    return (
        None if weights is None else given_weights(weights, k),
        None if means is None else given_means(means, k, d),
        None if precisions is None else given_covariances(precisions, model.covariance_type, k, d),
    )


def given_start(model: GaussianMixture, d: int) -> Mixture:
    """The start of a private fit, of which some part is given."""
    if any(part is None for part in model._given):
        raise ValueError(
            "a private fit takes weights_init, means_init and precisions_init together or none"
        )
    return Mixture(model.covariance_type, *_given(model, d))


def starts(model: GaussianMixture, rows: Rows) -> list[Start]:
    """How each run of an exact fit begins."""
    k, given = model.n_components, _given(model, rows.n_features)
    random = check_random_state(model.random_state)
    found = []
    for turn in range(model.n_init):
        rng = np.random.default_rng(random.randint(2**31, size=4))
        how: Any = model.init_params
        if how in ("k-means++", "random_from_data"):
            how = row_centres(rows, k, how, rng)
        # The first splitting start is the deterministic one.
        draw = None if model.init_params == "kmeans" and turn == 0 else rng
        found.append(Start(how, draw, *given))
    return found


def warm(model: GaussianMixture) -> tuple[Mixture, float] | None:
    """Mixture and lower bound of the last fit, where a warm start goes on from it."""
    if not (model.warm_start and hasattr(model, "converged_")):
        return None
    if len(model.means_) != model.n_components:
        raise ValueError(
            f"warm_start: the last fit had {len(model.means_)} components, "
            f"n_components is {model.n_components}; fit a fresh estimator"
        )
    return model._density(), model.lower_bound_


def model_of(model: GaussianMixture) -> Callable[[Frame], GaussianMixtureModel]:
    """The model of a frame, on a stream."""
    prior = model._prior()
    return lambda frame: GaussianMixtureModel(
        model.covariance_type, frame, float(model.reg_covar), prior
    )


def check_stream(model: GaussianMixture) -> None:
    """Refuse a background whose region is not known yet."""
    if model._asks_for_background and model.bounds is None:
        raise ValueError(
            "background=True on a stream needs bounds: the range of records that are yet to come "
            "is not known"
        )
