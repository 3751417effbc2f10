"""scikit-learn's own checks: all of them for exact fits; few are exempt for private ones."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from privem import FactorAnalysis, GaussianMixture, KMeans

ESTIMATORS = [
    *(GaussianMixture(n_components=k) for k in (1, 3)),
    *(GaussianMixture(n_components=3, covariance_type=c) for c in ("tied", "diag", "spherical")),
    GaussianMixture(n_components=3, prior="map"),
    KMeans(),
    *(KMeans(n_clusters=k) for k in (1, 3)),
    FactorAnalysis(),
    *(FactorAnalysis(n_components=k) for k in (1, 3)),
    FactorAnalysis(n_components=3, update="em"),
]


@parametrize_with_checks(ESTIMATORS)
def test_scikit_learn_check(estimator, check):
    check(estimator)


# What no honest differentially private estimator can do.
PRIVATE = [
    cls(**{name: k}, epsilon=1.0)
    for cls, name in (
        (GaussianMixture, "n_components"),
        (KMeans, "n_clusters"),
        (FactorAnalysis, "n_components"),
    )
    for k in (1, 3)
]
EXEMPT = {
    "check_fit_idempotent": "noise is fresh in every fit",
    "check_sample_weight_equivalence_on_dense_data": "noise is fresh in every fit",
    "check_clustering": "fifty rows, and exact labels_ would be a release",
    "check_all_zero_sample_weights_error": "an error about values would be a release",
    "check_estimators_nan_inf": "NaN is refused, infinity is clamped: an error would be a release",
}


@pytest.mark.filterwarnings("ignore:no bounds stood out of the noise:UserWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks(PRIVATE, expected_failed_checks=lambda estimator: EXEMPT)
def test_private_fits(estimator, check):
    check(estimator)
