"""A federated fit needs nothing but its releases: played again without parties, the same model."""

import numpy as np
import pytest

from privem import FactorAnalysis, GaussianMixture, KMeans
from privem.data.table import Table
from privem.federation.server.table import federated_people
from privem.run import Record, Recorded

from ..conftest import federate, split


@pytest.mark.parametrize(
    "model",
    [
        GaussianMixture(2, epsilon=3.0, random_state=1),
        KMeans(2, epsilon=3.0, random_state=1),
        FactorAnalysis(1, epsilon=3.0),
    ],
    ids=lambda m: type(m).__name__,
)
@pytest.mark.parametrize("protection", ["plain", "masked"])
def test_releases_are_all_there_is(blobs, model, protection, monkeypatch):
    record = Record()
    model._watch = record
    federation = federate(split(np.tile(blobs, (10, 1)), "even"), protection)
    model.fit(federation)
    del model._watch
    again = type(model)(**model.get_params())
    again.n_features_in_ = 2
    again.feature_types_in_ = model.feature_types_in_
    source = Recorded(record.releases)
    monkeypatch.setattr(
        type(model),
        "_open_table",
        lambda self, *args: Table(None, federated_people(federation), elsewhere=source),
    )
    again.fit(None)
    for name in ("means_", "covariances_", "cluster_centers_", "components_", "noise_variance_"):
        if hasattr(model, name):
            assert np.array_equal(getattr(again, name), getattr(model, name))
    assert again.privacy_ == model.privacy_
