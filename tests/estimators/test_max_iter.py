"""``max_iter`` is an upper limit of private fits too."""

import numpy as np
import pytest
from sklearn.base import clone

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

rng = np.random.default_rng(0)
X = np.concatenate([rng.normal(-4, 1, (2000, 2)), rng.normal(4, 1, (2000, 2))])
y = X @ [1.0, -1.0] / 8
WITH_TARGET = (SymmetricRegressionMixture, MissingCovariateRegression, RegressionMixture)
MODELS = [
    GaussianMixture(2, bounds=9.0, epsilon=20.0),
    GaussianMixture(2, bounds=9.0, epsilon=20.0, accountant="linear"),
    KMeans(2, bounds=9.0, epsilon=20.0),
    KMeans(2, bounds=9.0, epsilon=20.0, accountant="advanced"),
    KMeans(2, bounds=9.0, epsilon=20.0, mechanism="dplloyd"),
    SymmetricMixture(bounds=9.0, epsilon=20.0),
    SymmetricMixture(bounds=9.0, epsilon=20.0, method="gradient"),
    SymmetricRegressionMixture(bounds=9.0, target_bounds=9.0, epsilon=20.0),
    MissingCovariateRegression(bounds=9.0, target_bounds=9.0, epsilon=20.0),
    RegressionMixture(bounds=9.0, target_bounds=9.0, epsilon=20.0),
    RegressionMixture(bounds=9.0, target_bounds=9.0, epsilon=20.0, accountant="linear"),
    CategoricalMixture(categories=[[-1, 1]] * 2, epsilon=20.0),
    CategoricalMixture(categories=[[-1, 1]] * 2, epsilon=20.0, accountant="linear"),
]


def fit(model, **parameters):
    model = clone(model).set_params(**parameters)
    if isinstance(model, CategoricalMixture):
        return model.fit(np.sign(X).astype(int))
    return model.fit(X, y) if isinstance(model, WITH_TARGET) else model.fit(X)


@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_no_more_iterations_than_max_iter(model):
    free, capped = fit(model), fit(model, max_iter=2)
    assert free.n_iter_ > 2 == capped.n_iter_
    looks = len(free.privacy_.releases) - len(capped.privacy_.releases)
    assert looks == free.n_iter_ - 2
    assert capped.privacy_.epsilon == 20.0


@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_n_iter_above_max_iter_is_refused_before_there_are_data(model):
    with pytest.raises(ValueError, match="n_iter=3 is above max_iter=2"):
        clone(model).set_params(n_iter=3, max_iter=2).fit(object())
    assert fit(model, n_iter=2, max_iter=2).n_iter_ == 2


def test_none_at_all():
    with pytest.raises(ValueError, match="max_iter=0"):
        GaussianMixture(max_iter=0).fit(X)


def test_factors_iterate_on_what_was_released():
    with pytest.warns(Warning, match="did not converge"):
        assert FactorAnalysis(1, bounds=9.0, max_iter=1, tol=0.0).fit(X).n_iter_ == 1
