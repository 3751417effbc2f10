"""scikit-learn's own checks of an estimator, all of them, with no expected failures."""

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
