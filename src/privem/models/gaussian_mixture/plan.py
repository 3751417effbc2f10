"""Exact Gaussian mixtures: frame, start, EM, the best of several runs."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...blocks.moments import MANY_COLUMNS, Frame, FramePlan
from ...core import Release, Stage
from ...em import ExactEM, Fit
from ...noise.exact import Exact
from ...tree import Array
from ..kmeans.plan import lloyd
from ..kmeans.start import SplitStart
from .assigned import AssignedQuery
from .model import GaussianMixtureModel, Mixture
from .prior import Prior


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

    Parameters mirror the estimator's; ``warm`` continues from the given mixture and lower bound.
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

    def stages(self) -> Generator[Stage, Release[Any], tuple[Frame, Fit[Mixture]]]:
        """Generate the stages."""
        wide = len(self.names) > MANY_COLUMNS and self.covariance_type in ("diag", "spherical")
        frame = yield from FramePlan(
            self.names, self.n_components, np.inf if wide else 0.0
        ).stages()
        model = GaussianMixtureModel(self.covariance_type, frame, self.reg_covar, self.prior)
        if self.warm is not None:
            state, bound = self.warm
            return frame, (yield from self._em(model, state, bound))
        best: Fit[Mixture] | None = None
        for start in self.starts:
            state = yield from self._begin(model, start)
            fit = yield from self._em(model, state, -np.inf)
            if best is None or fit.objective > best.objective:
                best = fit
        assert best is not None
        return frame, best

    def _em(
        self, model: GaussianMixtureModel, state: Mixture, bound: float
    ) -> Generator[Stage, Release[Any], Fit[Mixture]]:
        def stop(change: float, old: Mixture, new: Mixture) -> bool:
            return abs(change) < self.tol

        em = ExactEM(model, state, self.max_iter, stop, "EM", bound)
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
        state = replace(state, covariances=_floored(model, state))
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


def _floored(model: GaussianMixtureModel, state: Mixture) -> Array:
    if state.covariance_type == "tied":
        return model._valid(state.covariances, state.covariances, "tied")
    kind = state.covariance_type
    return np.stack([model._valid(c, c, kind) for c in state.covariances])
