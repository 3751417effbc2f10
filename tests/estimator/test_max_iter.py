"""``max_iter`` is an upper limit of private fits too."""

import numpy as np
import pytest
from sklearn.base import clone

from privem import FactorAnalysis, GaussianMixture, KMeans, SymmetricMixture
from privem.declaration import declarations, declared

from ..examples import private

TERMS = {"bounds": 9.0, "epsilon": 20.0}
# Those that ask the data in every iteration, and variants.
ITERATE = [each for each in declarations() if "n_iter" in each.estimator().get_params()]
FITS = [
    *((each, private(each, epsilon=20.0)) for each in ITERATE),
    *((each, private(each, epsilon=20.0, accountant="linear")) for each in ITERATE),
    *(
        (declared(type(model).__name__), model)
        for model in (
            KMeans(2, **TERMS, accountant="advanced"),
            KMeans(2, **TERMS, mechanism="dplloyd"),
            SymmetricMixture(**TERMS, method="gradient"),
        )
    ),
]
every_fit = pytest.mark.parametrize(("each", "model"), FITS, ids=lambda value: str(value)[:40])


def fit(each, model, **parameters):
    # Seven times as many records as the example has: the noise leaves room to iterate.
    data = (np.concatenate([part] * 7) for part in each.example().data)
    return clone(model).set_params(**parameters).fit(*data)


@every_fit
def test_no_more_iterations_than_max_iter(each, model):
    free, capped = fit(each, model), fit(each, model, max_iter=2)
    assert free.n_iter_ > 2 == capped.n_iter_
    looks = len(free.privacy_.releases) - len(capped.privacy_.releases)
    assert looks == free.n_iter_ - 2
    assert capped.privacy_.epsilon == 20.0


@every_fit
def test_n_iter_above_max_iter_is_refused_before_there_are_data(each, model):
    with pytest.raises(ValueError, match="n_iter=3 is above max_iter=2"):
        clone(model).set_params(n_iter=3, max_iter=2).fit(object())
    assert fit(each, model, n_iter=2, max_iter=2).n_iter_ == 2


def test_none_at_all():
    with pytest.raises(ValueError, match="max_iter=0"):
        GaussianMixture(max_iter=0).fit(np.zeros((9, 2)))


def test_factors_iterate_on_what_was_released():
    (X,) = declared("FactorAnalysis").example().data
    with pytest.warns(Warning, match="did not converge"):
        assert FactorAnalysis(1, bounds=9.0, max_iter=1, tol=0.0).fit(X).n_iter_ == 1
