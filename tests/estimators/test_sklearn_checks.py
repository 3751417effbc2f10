"""scikit-learn's own checks: all of them for exact fits; few are exempt by default, in private."""

import pytest
from sklearn.utils.estimator_checks import (
    check_methods_sample_order_invariance,
    check_methods_subset_invariance,
    parametrize_with_checks,
)

from privem import (
    CategoricalMixture,
    FactorAnalysis,
    GaussianMixture,
    KMeans,
    MissingCovariateRegression,
    RegressionMixture,
    SymmetricMixture,
    SymmetricRegressionMixture,
)

EXACT = [
    *(GaussianMixture(n_components=k, epsilon=None) for k in (1, 3)),
    *(
        GaussianMixture(n_components=3, covariance_type=c, epsilon=None)
        for c in ("tied", "diag", "spherical")
    ),
    GaussianMixture(n_components=3, prior="map", epsilon=None),
    KMeans(epsilon=None),
    *(KMeans(n_clusters=k, epsilon=None) for k in (1, 3)),
    FactorAnalysis(epsilon=None),
    *(FactorAnalysis(n_components=k, epsilon=None) for k in (1, 3)),
    FactorAnalysis(n_components=3, update="em", epsilon=None),
    SymmetricMixture(epsilon=None),
    SymmetricRegressionMixture(epsilon=None),
    *(CategoricalMixture(k, epsilon=None) for k in (1, 2)),
    *(RegressionMixture(k, epsilon=None) for k in (1, 2)),
    MissingCovariateRegression(epsilon=None),
]


WHY = "the check fits on some categories (an exact fit reads them off) and predicts others"
NOT_DECLARED = {"check_sample_weight_equivalence_on_dense_data": WHY}


def not_for_categories(estimator):
    if not isinstance(estimator, CategoricalMixture):
        return {}
    return NOT_DECLARED


@pytest.mark.filterwarnings("ignore:Number of distinct clusters:UserWarning")
@parametrize_with_checks(EXACT, expected_failed_checks=not_for_categories)
def test_exact_fits(estimator, check):
    check(estimator)


# As they come, and at K = 3.
PRIVATE = [
    GaussianMixture(),
    GaussianMixture(n_components=3),
    KMeans(),
    KMeans(n_clusters=3),
    FactorAnalysis(),
    FactorAnalysis(n_components=3),
]
PRIVATE += [
    cls(epsilon=1.0, method=method)
    for cls in (SymmetricMixture, SymmetricRegressionMixture)
    for method in ("moments", "gradient")
]
PRIVATE += [
    CategoricalMixture(2, categories=list(range(8))),
    *(RegressionMixture(k) for k in (1, 2)),
    *(MissingCovariateRegression(method=method) for method in ("auto", "moments", "gradient")),
]
# What no honest differentially private estimator can do. Beside these, scikit-learn itself does not
# compare two fits where the tag non_deterministic says that they differ: pipelines, transformers.
FRESH = {
    "check_fit_idempotent": "noise is fresh in every fit",
    "check_sample_weight_equivalence_on_dense_data": "noise is fresh in every fit",
    "check_sample_weight_equivalence_on_sparse_data": "noise is fresh in every fit",
}
SILENT = {
    "check_all_zero_sample_weights_error": "an error about values would be a release",
    "check_estimators_nan_inf": "NaN is refused; infinity is clamped, an error would be a release",
}
EXEMPT = {
    # So few rows support one Gaussian only: everybody belongs to it in every fit.
    GaussianMixture: SILENT,
    KMeans: SILENT | FRESH | {"check_clustering": "fifty rows; labels_ would be a release"},
    FactorAnalysis: SILENT | FRESH,
    SymmetricMixture: SILENT,
    SymmetricRegressionMixture: SILENT | FRESH,
    MissingCovariateRegression: SILENT,
    RegressionMixture: SILENT | FRESH,
    CategoricalMixture: SILENT | FRESH | NOT_DECLARED,
}
# On so few rows two fits may agree by chance, where labels are two (in one of three draws) or where
# coefficients are shrunk to zero (rarely): neither a pass nor a failure would mean anything.
CHANCE = {SymmetricMixture: FRESH, MissingCovariateRegression: FRESH}


@pytest.mark.filterwarnings("ignore:no bounds stood out of the noise:UserWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks(PRIVATE, expected_failed_checks=lambda estimator: EXEMPT[type(estimator)])
def test_private_fits(estimator, check):
    if check.func.__name__ in CHANCE.get(type(estimator), ()):
        pytest.skip("noise is fresh in every fit, and two may agree by chance")
    check(estimator)


# The tag makes scikit-learn leave these out too, but they look at a single fit.
@pytest.mark.filterwarnings("ignore:no bounds stood out of the noise:UserWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    "check", [check_methods_sample_order_invariance, check_methods_subset_invariance]
)
@pytest.mark.parametrize("estimator", PRIVATE, ids=str)
def test_predictions_of_a_private_fit(estimator, check):
    check(type(estimator).__name__, estimator)
