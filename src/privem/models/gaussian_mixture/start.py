"""From a mixture's parameters to its prior and its starts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils import check_random_state

from ...core import Rows
from ...estimator.inits import given_covariances, given_means, given_weights, row_centres
from ...parameters import check_array_shape, check_float
from .model import Mixture
from .plan import Start
from .prior import Prior

if TYPE_CHECKING:
    from .estimator import GaussianMixture


def given_prior(model: GaussianMixture, d: int) -> Prior | None:
    """The prior that the parameters describe, checked."""
    if model.prior is None:
        return None
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


def given_start(model: GaussianMixture, d: int) -> Mixture | None:
    """The start of a private fit, if one is given."""
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


def starts(model: GaussianMixture, rows: Rows) -> list[Start]:
    """How each run of an exact fit begins."""
    k, d = model.n_components, rows.n_features
    weights, means, covariances = None, None, None
    if model.weights_init is not None:
        weights = given_weights(model.weights_init, k)
    if model.means_init is not None:
        means = given_means(model.means_init, k, d)
    if model.precisions_init is not None:
        covariances = given_covariances(model.precisions_init, model.covariance_type, k, d)
    random = check_random_state(model.random_state)
    found = []
    for turn in range(model.n_init):
        rng = np.random.default_rng(random.randint(2**31, size=4))
        how: Any = model.init_params
        if how in ("k-means++", "random_from_data"):
            how = row_centres(rows, k, how, rng)
        # The first splitting start is the deterministic one.
        draw = None if model.init_params == "kmeans" and turn == 0 else rng
        found.append(Start(how, draw, weights, means, covariances))
    return found
