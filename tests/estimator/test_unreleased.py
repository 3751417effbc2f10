"""What a private fit does not release is absent, and says why."""

import copy
import pickle

import numpy as np
import pytest
from sklearn.base import clone

from privem import CategoricalMixture, GaussianMixture, KMeans

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
