"""What the estimators fitted by bounded gradients share: parameters, checks, bounds, statement."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ...blocks.region import Region
from ...budget import Terms
from ...data.table import Table
from ...em import Fit
from ...estimator.base import Estimator
from ...estimator.warnings import say_few
from ...ground import Preamble
from ...linalg import Array
from ...norms import NormBounds
from ...parameters import check_array_shape, check_float, check_int, check_option, check_sizes
from .gradient_em import GradientSettings
from .model import Symmetric
from .plan import GradientFit

# People who answer once are spread over fewer rounds, as noise is what limits them.
_LOCAL_ROUNDS = 3


@dataclass(repr=False, eq=False, kw_only=True)
class GradientEstimator(Estimator):
    """Abstract base of estimators that are fitted by sums of bounded gradients."""

    noise_variance: float | None = None
    init: Any = None
    method: str = "auto"
    max_iter: int = 500
    tol: float = 1e-9
    bounds: Any = None
    trust: str = "central"
    n_iter: int | None = None
    clip: float | None = None
    step: float = 1.0
    tau: float | None = None
    failure: float = 0.05
    batch: str = "full"
    averaging: bool = True
    random_state: Any = None

    _mechanisms: ClassVar[dict[str, str]] = {"clip": "gaussian", "robust": "gaussian"}

    def _check_parameters(self) -> None:
        if self.noise_variance is not None:
            check_float("noise_variance", self.noise_variance, 0.0, strict=True)
        check_option("method", self.method, ("auto", "moments", "gradient"))
        self._check_trust()
        check_option("batch", self.batch, ("full", "partition"))
        check_int("max_iter", self.max_iter, 1)
        check_float("tol", self.tol, 0.0)
        check_float("step", self.step, 0.0, strict=True)
        for name in ("clip", "tau"):
            if getattr(self, name) is not None:
                check_float(name, getattr(self, name), 0.0, strict=True)
        if check_float("failure", self.failure, 0.0, strict=True) >= 1:
            raise ValueError(f"failure is a probability below 1, got {self.failure}")
        if isinstance(self.averaging, bool | np.bool_) is False:
            raise TypeError(f"averaging must be True or False, got {self.averaging!r}")
        if self.epsilon is None:
            return
        self._terms()
        for name in ("noise_variance", "clip", "tau", "step"):
            if getattr(self, name) is not None:
                check_sizes(name, getattr(self, name))
        if self.method != "gradient" and (self.mechanism == "robust" or self.batch == "partition"):
            raise ValueError(
                f"mechanism={self.mechanism!r}, batch={self.batch!r}: robust gradients and the "
                "partition belong to gradient EM; ask for method='gradient'"
            )

    def _given_init(self) -> Array | None:
        if self.init is None:
            return None
        return check_array_shape("init", self.init, (self.n_features_in_,))

    def _settings(self, terms: Terms, method: str) -> GradientSettings:
        """What the private plans of all of them are told."""
        rounds = _LOCAL_ROUNDS if self._local and self.n_iter is None else self.n_iter
        return GradientSettings(
            self.n_features_in_,
            method,
            mechanism="clip" if self.mechanism == "auto" else self.mechanism,
            n_iter=rounds,
            most=self.max_iter,
            variance=self.noise_variance,
            init=self._given_init(),
            clip=self.clip,
            tau=self.tau,
            step=self.step,
            averaging=bool(self.averaging),
            # On devices everyone answers once anyway.
            partition=self.batch == "partition" and not self._local,
            terms=(terms.epsilon, terms.delta, self.failure),
        )

    def _norm_bounds(self) -> NormBounds:
        """The regions that bounds mean; those not given have to be found."""
        d = self.n_features_in_
        if self._target:
            return NormBounds(self._region(d), self._target_region(), (d, 1))
        return NormBounds(self._region(d), None, (d,))

    def _ungrounded(
        self, table: Table, terms: Terms, settings: GradientSettings, bounds: NormBounds
    ) -> Preamble:
        """The count alone: these plans find their own regions."""
        self._refuse_search(bounds.needed)
        count = table.people.public_count(terms.neighbours)
        if count is not None and settings.iterations > count:
            raise ValueError(
                f"n_iter={settings.iterations} iterations are more than n_samples={int(count)} "
                "records"
            )
        return Preamble.of(terms, table.people, settings.d, Region.around_origin(1.0, settings.d))

    def _set_beta(self, state: Symmetric) -> None:
        """Set coefficients and variance."""
        self.noise_variance_ = float(state.variance)
        setattr(self, self._needed[0], state.beta)

    def _set_private(self, result: GradientFit) -> None:
        self._set_beta(result.state)
        self.n_iter_, ground = result.iterations, result.ground
        self.bounds_ = ground.region.sides
        if ground.target is not None:
            self.target_bounds_ = tuple(float(side[0]) for side in ground.target.sides)
        self._set_outside(ground)
        if result.structure == "lost":
            instead = "its direction is mostly noise; give init=, or "
            say_few(self, ground, f"a start in {self.n_features_in_} dimensions", instead)

    def _set_exact(self, result: Fit[Symmetric], table: Table) -> None:
        self._set_beta(result.state)
        self._set_converged(result)

    def _known(self, plan: Any, terms: Terms) -> dict[str, str]:
        known = self._known_bounds(getattr(self, "feature_names_in_", None))
        for name in ("noise_variance", "tau"):
            if getattr(self, name) is not None:
                known[name] = f"{getattr(self, name):g}"
        return known | ({} if self.init is None else {"init": "given"})
