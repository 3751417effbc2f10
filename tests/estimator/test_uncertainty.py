"""The standard errors that noise causes: they cover what the fit would be without that noise."""

import pickle
import warnings
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom, chi2
from sklearn.base import clone

import privem
from privem import CategoricalMixture, FactorAnalysis, GaussianMixture, KMeans, PoissonMixture
from privem.core import Release, Stage
from privem.estimator import uncertainty
from privem.estimator.warnings import at_end
from privem.linalg import map_leaves
from privem.noise.exact import Exact
from privem.run import NotAsRecorded, run

from ..examples import every_model, fit, private


def again(model: Any, changed: Any) -> Any:
    """The parameters of the same fit with its releases changed."""
    with model._played.tape.playing(changed) as source, at_end():
        return uncertainty._again(model, run(model._played.plan, source))


def without_noise(model: Any, X: Any) -> Any:
    """The same fit, had its releases no noise and said so: their queries answered exactly."""
    source = model._open_table(X).source(None)

    def answered(release: Release[Any]) -> Release[Any]:
        sums = source.release(Stage(release.query, Exact())).statistics
        next_to_none = map_leaves(lambda deviation: 1e-6 * deviation, release.deviation)
        return Release(release.query, sums, next_to_none, release.spent)

    return again(model, answered)


# Of each, a number that is some tenth of a fraction of a Gaussian, not clipped, not at a floor.
ONE_NUMBER = {
    "one Gaussian": (GaussianMixture(bounds=8.0, n_iter=2), "covariances_", (0, 0, 0)),
    "factor covariance": (FactorAnalysis(1, bounds=8.0, mechanism="joint"), "mean_", 0),
    "clusters": (
        KMeans(2, bounds=8.0, n_iter=4, init=[[3.0, -2.0], [-3.0, 2.0]]),
        "cluster_centers_",
        (0, 0),
    ),
}


@pytest.mark.parametrize("name", ONE_NUMBER)
@pytest.mark.filterwarnings("ignore::privem.PrivacyCompositionWarning")
def test_two_standard_errors_cover_the_fit_without_that_noise(name: str) -> None:
    """False alarms: 4e-7 for too few that are covered, as many for errors that are too large."""
    model, attribute, where = ONE_NUMBER[name]
    rng, fits = np.random.default_rng(3), 30
    X = rng.normal([3.0, -2.0], [1.0, 0.5], (1000, 2))
    X[:400] *= -1
    z = np.empty(fits)
    for i in range(fits):
        model = clone(model).set_params(random_state=i).fit(X)
        true = without_noise(model, X)[attribute][where]
        error = model.uncertainty()[attribute][where]
        z[i] = (getattr(model, attribute)[where] - true) / error
    # Errors come from 32 draws: z has Student's distribution, 0.946 of it within 2 (if linear).
    assert np.sum(np.abs(z) <= 2) >= binom.ppf(4e-7, fits, 0.9)
    assert np.sum(z**2) >= chi2.ppf(4e-7, fits)


def flat(found: dict[str, Any]) -> list[Any]:
    return [e for error in found.values() for e in (error if isinstance(error, list) else [error])]


def assert_same_shape(value: Any, error: Any) -> None:
    if isinstance(value, list):
        assert [np.shape(v) for v in value] == [np.shape(e) for e in error]
    else:
        assert np.shape(value) == np.shape(error)


def same(a: dict[str, Any], b: dict[str, Any]) -> bool:
    return a.keys() == b.keys() and all(
        np.array_equal(x, y) for x, y in zip(flat(a), flat(b), strict=True)
    )


@every_model
def test_every_released_parameter_has_one(declared: Any, tmp_path: Any) -> None:
    """A function of the releases, kept in place of them."""
    model = fit(private(declared), *declared.example().data)
    assert same(again(model, lambda release: release), uncertainty._values(model))
    found = uncertainty.standard_errors(model, model._played)
    assert same(found, uncertainty.standard_errors(model, model._played))
    assert set(declared.results or model._needed) <= {*found, "categories_"}
    for name, error in found.items():
        assert_same_shape(getattr(model, name), error)
    errors = np.concatenate([np.ravel(e) for e in flat(found)])
    assert ((errors >= 0) & (errors < 1e6)).all()
    assert (errors > 0).mean() > 0.5

    model.save(tmp_path / "model.json")
    for kept in (privem.load(tmp_path / "model.json"), pickle.loads(pickle.dumps(model)), model):
        assert same(found, kept.uncertainty())
        assert "_played" not in vars(kept)

    fit(model.set_params(epsilon=None), *declared.example().data)
    with pytest.raises(ValueError, match="no noise was added"):
        model.uncertainty()


OTHERS = [
    GaussianMixture(3, epsilon=8.0),
    GaussianMixture(3, epsilon=0.05, bounds=8.0),
    GaussianMixture(2, epsilon=0.05, accountant="linear", bounds=8.0),
    GaussianMixture(2, bounds=8.0, covariance_type="tied", neighbours="replace-one"),
    GaussianMixture(2, bounds=8.0, covariance_type="spherical", mechanism="ggg", n_iter=2),
    GaussianMixture(2, bounds=8.0, mechanism="laplace", delta=0, max_rows=9000),
    GaussianMixture(2, bounds=8.0, prior="map", covariance_type="diag"),
    KMeans(3, epsilon=0.03, bounds=8.0),
    KMeans(3, bounds=8.0, mechanism="dplloyd", accountant="linear"),
    FactorAnalysis(1, rotation="varimax", epsilon=8.0),
    FactorAnalysis(2, epsilon=0.1, bounds=8.0, mechanism="whitened"),
    PoissonMixture(2, epsilon=0.05, bounds=(0, 20)),
]


@pytest.mark.parametrize("model", OTHERS, ids=lambda m: repr(m).replace("\n", ""))
def test_whatever_a_plan_does_it_does_again(model: Any) -> None:
    """Counts that are drawn anew change no choice: structure, iterations, radii, grids."""
    rng = np.random.default_rng(5)
    X = np.abs(rng.normal(2.0, 1.0, (1500, 3)))
    X[:500] += 3.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model.fit(X, groups=np.arange(1500) // 2)
    errors = np.concatenate([np.ravel(e) for e in flat(model.uncertainty())])
    assert (errors < np.finfo(float).max).all()
    assert errors.max() > 0


def test_devices_have_one() -> None:
    words = np.random.default_rng(0).choice(["a", "b"], (3000, 2))
    model = CategoricalMixture(2, categories=["a", "b"], trust="local", epsilon=8.0, n_iter=2)
    found = fit(model, words).uncertainty()
    assert 0 < found["weights_"].max() < 1


def test_a_model_is_not_lost_where_nobody_can_tell(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any, data: NDArray[np.float64]
) -> None:
    def stray(*args: Any) -> Any:
        raise NotAsRecorded

    model = GaussianMixture(bounds=8.0, n_iter=1).fit(data)
    monkeypatch.setattr(uncertainty, "_again", stray)
    model.save(tmp_path / "model.json")
    found = privem.load(tmp_path / "model.json").uncertainty()
    assert (found["means_"] == np.finfo(float).max).all()


@pytest.fixture
def data() -> NDArray[np.float64]:
    return np.random.default_rng(1).normal(size=(500, 2))


def test_files_from_before_have_none(tmp_path: Any, data: NDArray[np.float64]) -> None:
    model = GaussianMixture(bounds=8.0, n_iter=1).fit(data)
    del model._played
    model.save(tmp_path / "model.json")
    with pytest.raises(ValueError, match="fit it again"):
        privem.load(tmp_path / "model.json").uncertainty()
