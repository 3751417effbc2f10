"""The private fit of a :class:`~privem.GaussianMixture`: from its parameters to a plan and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils import check_random_state

from ...estimator.advice import advise_at_end
from ...estimator.inits import given_covariances, given_means, given_weights
from ...estimator.verbose import Verbose
from .fit_mixture import PrivateMixturePlan
from .model import Mixture
from .shapes import as_asked
from .start import given_prior

if TYPE_CHECKING:
    from .estimator import GaussianMixture

__all__ = ["fit_privately", "refuse_exact_only"]


def fit_privately(
    model: GaussianMixture, X: Any, y: Any, sample_weight: Any, groups: Any
) -> GaussianMixture:
    """Fit ``model`` under its ``epsilon`` and ``delta``."""
    source, people = model._open_privately(X, y, sample_weight, groups)
    d = model.n_features_in_
    isotropic = model.covariance_type == "spherical"
    terms = model._terms(d, isotropic=isotropic)
    preamble = terms.preamble(people, d, isotropic)
    start = _given_start(model, d)
    parts = PrivateMixturePlan.parts(
        preamble,
        model.n_components,
        model.covariance_type,
        terms.recipe,
        model.n_iter,
        start is not None,
        model.max_iter,
    )
    counted = preamble.count is None
    plan = PrivateMixturePlan(
        preamble,
        terms.allowance(parts, counted),
        model.n_components,
        model.covariance_type,
        terms.recipe,
        model.n_iter,
        terms.adaptive,
        np.random.default_rng(check_random_state(model.random_state).randint(2**31, size=4)),
        start,
        given_prior(model, d),
        model.mechanism == "auto",
        model.max_iter,
    )
    meter = terms.meter(counted)
    with Verbose(model, model.verbose, model.verbose_interval):
        fit = model._run_privately(plan, source, meter)
    model._set_mixture(as_asked(fit.mixture, model.covariance_type))
    model.n_iter_ = fit.structure.iterations
    model.structure_ = fit.structure.name
    model._set_ground(fit.ground, terms, meter, people)
    if fit.structure.single and model.n_components > 1:
        # From the noise and the paid count alone: it says nothing about the data that was not paid.
        how = "about " if counted else ""
        advise_at_end(
            f"{how}{fit.ground.count:,.0f} records are too few for {model.n_components} components "
            f"at epsilon={terms.epsilon:g}: all of them are one Gaussian (structure_ is 'single'); "
            "use more records, fewer features or a larger epsilon",
        )
    return model


def refuse_exact_only(model: GaussianMixture) -> None:
    """Refuse what looks at single rows, or fits more than once: it cannot be private."""
    reasons = {
        "n_init > 1: choosing the best of several fits would read the data again": model.n_init > 1,
        "max_iter=0: it needs an iteration": model.max_iter == 0,
        f"init_params={model.init_params!r}, which looks at single rows": model.init_params
        != "kmeans",
        "warm_start=True: pass weights_init, means_init and precisions_init instead, which "
        "count as public": model.warm_start,
    }
    for reason, applies in reasons.items():
        if applies:
            raise ValueError(f"a private fit cannot use {reason}; or fit with epsilon=None")


def _given_start(model: GaussianMixture, d: int) -> Mixture | None:
    given = (model.weights_init, model.means_init, model.precisions_init)
    if all(part is None for part in given):
        return None
    if any(part is None for part in given):
        raise ValueError(
            "a private fit takes weights_init, means_init and precisions_init together or none"
        )
    k = model.n_components
    return Mixture(
        model.covariance_type,
        given_weights(model.weights_init, k),
        given_means(model.means_init, k, d),
        given_covariances(model.precisions_init, model.covariance_type, k, d),
    )
