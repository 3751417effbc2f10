"""prior="map": the posterior mode, against a direct numerical maximiser."""

import warnings

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import log_softmax, logsumexp
from sklearn.exceptions import ConvergenceWarning

from privem import GaussianMixture
from privem.models.gaussian_mixture.model import COVARIANCE_TYPES

N, D, K = 40, 2, 2
RNG = np.random.default_rng(1)
X = RNG.normal(size=(N, D)) @ [[1.0, 0.4], [0.0, 0.7]] + 3.0 * RNG.integers(0, 2, (N, 1))
SETTINGS = {
    "papers": {},
    "own": {
        "weight_concentration_prior": 1.5,
        "mean_prior": [0.5, -1.0],
        "mean_precision_prior": 3.0,
        "degrees_of_freedom_prior": 5.5,
        "covariance_prior": [[0.8, 0.2], [0.2, 0.5]],
    },
}
every_prior = pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)


def log_posterior(weights_log, means, covariances, settings, tied):
    """Written down from the densities of Dirichlet, normal and inverse Wishart; no constants."""
    alpha = settings.get("weight_concentration_prior", 2.0)
    kappa = settings.get("mean_precision_prior", 1.0)
    nu = settings.get("degrees_of_freedom_prior", D + 2.0)
    m0 = np.asarray(settings.get("mean_prior", np.zeros(D)))
    s0 = np.asarray(settings.get("covariance_prior", 0.1 * np.eye(D)))

    def normal(x, mean, covariance):
        e = x - mean
        return -0.5 * (
            np.einsum("...i,ij,...j->...", e, np.linalg.inv(covariance), e)
            + np.linalg.slogdet(covariance)[1]
            + D * np.log(2 * np.pi)
        )

    parts = [weights_log[k] + normal(X, means[k], covariances[k]) for k in range(K)]
    value = logsumexp(parts, axis=0).sum() + (alpha - 1) * np.sum(weights_log)
    for k in range(K):
        value += normal(m0, means[k], covariances[k] / kappa)
    for k in range(1 if tied else K):
        c = covariances[k]
        value -= 0.5 * (nu + D + 1) * np.linalg.slogdet(c)[1]
        value -= 0.5 * np.trace(s0 @ np.linalg.inv(c))
    return value


def matrices(kind, covariances):
    match kind:
        case "full":
            return covariances
        case "tied":
            return np.stack([covariances] * K)
        case "diag":
            return covariances[..., None] * np.eye(D)
        case _:
            return covariances[:, None, None] * np.eye(D)


def unpack(kind, v):
    """Unconstrained numbers to parameters: softmax, logarithms, Cholesky factors."""
    weights_log = log_softmax(np.array([v[0], 0.0]))
    means, rest = v[1 : 1 + K * D].reshape(K, D), v[1 + K * D :]
    if kind in ("diag", "spherical"):
        shape = (K, D) if kind == "diag" else (K,)
        return weights_log, means, np.exp(rest).reshape(shape)
    out = []
    for a, b, c in rest.reshape(-1, 3):
        lower = np.array([[np.exp(a), 0.0], [c, np.exp(b)]])
        out.append(lower @ lower.T)
    return weights_log, means, np.array(out) if kind == "full" else out[0]


def fit(kind, settings, **parameters):
    common = {"covariance_type": kind, "prior": "map", "reg_covar": 0.0, **settings, **parameters}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return GaussianMixture(K, epsilon=None, **common).fit(X)


@every_prior
@pytest.mark.parametrize("kind", COVARIANCE_TYPES)
def test_em_ends_where_a_direct_maximiser_does(kind, settings):
    model = fit(kind, settings, max_iter=2000, tol=1e-14)

    def minus(v):
        w, m, c = unpack(kind, v)
        return -log_posterior(w, m, matrices(kind, c), settings, kind == "tied")

    size = {"full": 3 * K, "tied": 3, "diag": K * D, "spherical": K}[kind]
    start = np.concatenate([[0.0], np.round(model.means_.ravel()), np.zeros(size)])
    best = minimize(minus, start, method="BFGS", options={"gtol": 1e-6, "maxiter": 500})
    weights_log, means, covariances = unpack(kind, best.x)
    ours = log_posterior(
        np.log(model.weights_),
        model.means_,
        matrices(kind, model.covariances_),
        settings,
        kind == "tied",
    )
    assert ours >= -best.fun - 1e-7
    np.testing.assert_allclose(model.weights_, np.exp(weights_log), atol=1e-4)
    np.testing.assert_allclose(model.means_, means, atol=1e-4)
    np.testing.assert_allclose(model.covariances_, covariances, atol=1e-4)


@every_prior
@pytest.mark.parametrize("kind", COVARIANCE_TYPES)
def test_the_lower_bound_is_the_mean_log_posterior_up_to_a_constant(kind, settings):
    gaps = []
    for iterations in (1, 3, 6):
        model = fit(kind, settings, max_iter=iterations, tol=0.0)
        after = fit(kind, settings, max_iter=iterations + 1, tol=0.0)
        exact = log_posterior(
            np.log(model.weights_),
            model.means_,
            matrices(kind, model.covariances_),
            settings,
            kind == "tied",
        )
        # The bound of iteration t + 1 is the objective of the parameters after t.
        gaps.append(after.lower_bounds_[-1] - exact / N)
    assert np.ptp(gaps) < 1e-11
    assert np.diff(after.lower_bounds_).min() > -1e-13


def test_a_strong_prior_wins_and_a_weak_one_loses():
    strong = fit("full", {"mean_prior": [9.0, 9.0], "mean_precision_prior": 1e9})
    np.testing.assert_allclose(strong.means_, 9.0, atol=1e-6)
    plain = GaussianMixture(1, reg_covar=0.0, epsilon=None).fit(X)
    weak = GaussianMixture(
        1,
        prior="map",
        reg_covar=0.0,
        mean_precision_prior=1e-9,
        covariance_prior=1e-9,
        degrees_of_freedom_prior=1 + 1e-9,
        epsilon=None,
    ).fit(X)
    np.testing.assert_allclose(weak.means_, plain.means_, atol=1e-8)
    # The mode of an inverse Wishart divides by nu + d + 2 more than the count.
    np.testing.assert_allclose(weak.covariances_ * (N + 1 + D + 2) / N, plain.covariances_, 1e-6)


@pytest.mark.parametrize(
    ("parameter", "value", "words"),
    [
        ("weight_concentration_prior", 0.0, "above 0"),
        ("mean_precision_prior", -1.0, "above 0"),
        ("degrees_of_freedom_prior", 1.0, "above 1"),
        ("mean_prior", [0.0], "shape"),
        ("covariance_prior", [[1.0, 2.0], [2.0, 1.0]], "positive definite"),
        ("covariance_prior", 0.0, "above 0"),
    ],
)
def test_impossible_priors_are_refused(parameter, value, words):
    with pytest.raises(ValueError, match=words):
        fit("full", {parameter: value})
