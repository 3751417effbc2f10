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
    PoissonMixture,
    SymmetricMixture,
    TableMixture,
)
from privem.declaration import declarations, declared

# As they come, with two components, and variants.
EXACT = [
    *(each.estimator(epsilon=None) for each in declarations()),
    *(each.estimator(**{each.count: 2}, epsilon=None) for each in declarations() if each.count),
    *(
        GaussianMixture(n_components=3, covariance_type=c, epsilon=None)
        for c in ("full", "tied", "diag", "spherical")
    ),
    GaussianMixture(n_components=3, prior="map", epsilon=None),
    KMeans(n_clusters=3, epsilon=None),
    FactorAnalysis(n_components=3, epsilon=None),
    FactorAnalysis(n_components=3, update="em", epsilon=None),
]


WHY = "the check fits on some categories (an exact fit reads them off) and predicts others"
NOT_DECLARED = {"check_sample_weight_equivalence_on_dense_data": WHY}


# The same of bounds, of which rows without weight are a part: declared, weights are copies
# (tests/models/table_mixture).
def not_for_categories(estimator):
    each = declared(type(estimator).__name__)
    return NOT_DECLARED if each.categories or each.schema else {}


@pytest.mark.filterwarnings("ignore:Number of distinct clusters:UserWarning")
@parametrize_with_checks(EXACT, expected_failed_checks=not_for_categories)
def test_exact_fits(estimator, check):
    check(estimator)


def as_it_comes(each, **more):
    """Whatever the checks fit it on, categories must be public; few rows show no bounds."""
    if each.categories:
        return each.estimator(**more, categories=list(range(8)))
    if each.schema:
        return each.estimator(**more, schema=(-1.0, 1.0))
    bounds = {"bounds": 1.0} | ({"target_bounds": 1.0} if each.target else {})
    return each.estimator(**more, **bounds)


# As they come, with other numbers of components, and by each method there is.
PRIVATE = [
    *(as_it_comes(each) for each in declarations()),
    *(as_it_comes(each, **{each.count: 3}) for each in declarations() if each.count),
    *(
        as_it_comes(each, method=method)
        for each in declarations()
        for method in ("moments", "gradient")
        if "method" in each.estimator().get_params()
    ),
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
# On so few rows two fits may agree by chance, where labels are two (in one of three draws), where
# there is one component, or where coefficients are shrunk to zero (rarely): neither a pass nor a
# failure would mean anything.
CHANCE = (
    *(SymmetricMixture, MissingCovariateRegression, PoissonMixture, CategoricalMixture),
    TableMixture,
)


def exempt(estimator):
    found = dict(SILENT)
    # So few rows support one Gaussian only: everybody belongs to it in every fit.
    if not isinstance(estimator, (GaussianMixture, *CHANCE)):
        found |= FRESH
    if declared(type(estimator).__name__).categories:
        found |= NOT_DECLARED
    if isinstance(estimator, KMeans):
        found["check_clustering"] = "fifty rows; labels_ would be a release"
    return found


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks(PRIVATE, expected_failed_checks=exempt)
def test_private_fits(estimator, check):
    if check.func.__name__ in FRESH and isinstance(estimator, CHANCE):
        pytest.skip("noise is fresh in every fit, and two may agree by chance")
    check(estimator)


# The tag makes scikit-learn leave these out too, but they look at a single fit.
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    "check", [check_methods_sample_order_invariance, check_methods_subset_invariance]
)
@pytest.mark.parametrize("estimator", PRIVATE, ids=str)
def test_predictions_of_a_private_fit(estimator, check):
    check(type(estimator).__name__, estimator)
