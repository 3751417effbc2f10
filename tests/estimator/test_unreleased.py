"""What a private fit does not release is absent, and says why."""

import copy
import pickle

import numpy as np
import pytest
from sklearn.base import clone

from privem import CategoricalMixture, GaussianMixture, KMeans

from ..examples import every_model, exact, fit, private

X = np.random.default_rng(0).normal(size=(200, 2))


@pytest.mark.parametrize(
    ("model", "name", "instead"),
    [
        (KMeans(2, bounds=5.0), "labels_", r"predict\(X\)"),
        (KMeans(2, bounds=5.0), "inertia_", r"score\(X\)"),
        (GaussianMixture(bounds=5.0), "lower_bound_", r"score\(X\)"),
        (GaussianMixture(bounds=5.0), "converged_", "n_iter_"),
    ],
)
def test_absent_and_said_why(model, name, instead):
    model = clone(model)
    with pytest.raises(AttributeError, match=f"no attribute '{name}'"):
        getattr(model, name)
    model.fit(X)
    with pytest.raises(AttributeError, match=f"does not release {name}.*{instead}") as caught:
        getattr(model, name)
    assert caught.value.name == name
    assert not hasattr(model, name)
    assert getattr(model, name, None) is None
    for twin in (copy.copy(model), copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert not hasattr(twin, name)
        assert twin.n_iter_ == model.n_iter_
    assert not hasattr(clone(model), "privacy_")
    model.set_params(epsilon=None).fit(X)
    assert hasattr(model, name)


def test_other_names_are_as_anywhere():
    model = GaussianMixture(bounds=5.0).fit(X)
    with pytest.raises(AttributeError, match="'GaussianMixture' object has no attribute 'labels'"):
        model.labels  # noqa: B018
    with pytest.raises(AttributeError):
        CategoricalMixture(2).weights_  # noqa: B018


@every_model
def test_an_exact_fit_of_the_same_object_meanwhile_leaves_nothing(declared):
    """As one in another thread; the model would hold exact sums beside its statement."""
    data, model = declared.example().data, private(declared)
    alone = set(vars(fit(private(declared), *data)))
    left = set(vars(fit(exact(declared), *data))) - alone

    def meanwhile(stage, release):
        terms, model._watch = model.get_params(deep=False), None
        fit(model.set_params(**exact(declared).get_params(deep=False)), *data)
        assert left <= set(vars(model))
        model.set_params(**terms)

    model._watch = meanwhile
    fit(model, *data)
    assert set(vars(model)) - {"_watch"} == alone
