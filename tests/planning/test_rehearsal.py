"""A rehearsal is the fit itself, on made-up records that each count many times."""

import os
import warnings
from unittest import mock

import numpy as np
import pytest

import privem
from privem.declaration import declared
from privem.estimator.warnings import _SEEN
from privem.planning.rehearsal import rehearse

from ..examples import every_model, learned, private


def data(n: int = 900) -> np.ndarray:
    rng = np.random.default_rng(5)
    return np.concatenate([rng.normal(c, 1, (n // 3, 2)) for c in (-4, 0, 4)])


def fitted(model, seed, *arrays):
    """A fit whose noise is drawn from a seed."""
    with mock.patch("os.urandom", np.random.default_rng(seed).bytes), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(*arrays)


def rehearsed(model, seed, rows, *arrays):
    from privem.planning.rehearsal import _silence

    with _silence():
        rehearse(model, arrays, rows, seed)
    return model


@every_model
def test_with_the_same_noise_it_is_the_fit_bit_for_bit(declared):
    arrays = declared.example().data
    one, other = private(declared, n_jobs=1), private(declared, n_jobs=1)
    fit, rehearsal = fitted(one, 3, *arrays), rehearsed(other, 3, len(arrays[0]), *arrays)
    assert rehearsal.structure_ == fit.structure_
    expected, found = learned(fit), learned(rehearsal)
    for name in fit._released or fit._needed:
        if name in expected:
            np.testing.assert_array_equal(found[name], expected[name], err_msg=name)


@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
@pytest.mark.parametrize("name", ["GaussianMixture", "KMeans"])
def test_every_record_counts_as_often_as_there_are_rows_for_it(name, neighbours):
    """The same as a fit to every record three times, but for the rounding of sums."""
    X, cls = data(), declared(name).estimator
    arguments = {"bounds": (-12, 12), "neighbours": neighbours, "random_state": 0, "n_jobs": 1}
    fit = fitted(cls(3, **arguments), 3, np.tile(X, (3, 1)))
    rehearsal = rehearsed(cls(3, **arguments), 3, 3 * len(X), X)
    assert rehearsal.structure_ == fit.structure_
    assert rehearsal.n_iter_ == fit.n_iter_
    np.testing.assert_allclose(
        getattr(rehearsal, "means_" if name == "GaussianMixture" else "cluster_centers_"),
        getattr(fit, "means_" if name == "GaussianMixture" else "cluster_centers_"),
        rtol=1e-6,
    )


def test_it_is_no_fit(tmp_path, monkeypatch):
    """It has no statement, charges no ledger, is not counted and does not warn."""
    monkeypatch.setenv("PRIVEM_LEDGER", str(tmp_path / "nowhere" / "budget.db#none"))
    before = dict(_SEEN)
    model = privem.GaussianMixture(8, bounds=1.0, delta=0.02)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = privem.plan(model, 100, 2, accuracy=None, rehearsals=2)
    assert found.structure == "single"  # of which a fit would warn
    assert dict(_SEEN) == before
    assert not os.listdir(tmp_path)
    assert not [name for name in vars(model) if name.endswith("_")]
    (play,) = [p for (number, _), p in found._rehearsed._plays.items() if number == 0]
    outcome = found._rehearsed.outcome(0, 100, 1.0)
    assert len(play.fitted[0]) == 100
    assert not hasattr(outcome.model, "privacy_")


def test_on_devices_noise_is_what_that_of_all_devices_adds_up_to():
    arguments = {"bounds": 3.0, "target_bounds": 9.0, "trust": "local"}
    central = privem.plan(
        privem.SymmetricRegressionMixture(**arguments | {"trust": "central"}),
        50_000,
        2,
        accuracy=None,
        rehearsals=3,
    )
    local = privem.plan(
        privem.SymmetricRegressionMixture(**arguments), 50_000, 2, accuracy=None, rehearsals=3
    )
    # Of each of n people, and not once: sqrt(n) times the noise and more, for there are rounds.
    assert local.noise["coef_"] > 10 * central.noise["coef_"]


def test_nothing_of_a_fit_to_real_data_is_read():
    """Neither what a fit has left in the estimator, nor arrays that were given to it."""
    secret = 1e3 + data()
    model = privem.GaussianMixture(3, bounds=(0, 2000), random_state=1)
    fresh = privem.GaussianMixture(3, bounds=(0, 1))
    asked = {"rows": 2000, "features": 2, "accuracy": None, "rehearsals": 2}
    expected = privem.plan(fresh, **asked)
    fitted(model, 1, secret).set_params(means_init=secret[:3])
    assert privem.plan(model, **asked) == expected
