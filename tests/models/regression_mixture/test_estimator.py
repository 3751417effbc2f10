"""Mixtures of regressions: the classic fit, the likelihood's maximum, and private ones."""

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize

import privem
from privem import RegressionMixture

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def tones():
    folder = Path(os.environ.get("PRIVEM_DATA", ROOT.parent / "shared" / "data"))
    path = folder / "tonedata.csv"
    if not path.exists():
        pytest.skip(f"no tonedata.csv in {folder}: set PRIVEM_DATA to the folder of real data")
    return path


def drawn(n, d=2, k=2, seed=0, deviation=0.4):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * np.linspace(1, 2, d) + np.arange(d)
    coef, intercept = rng.normal(size=(k, d)) * 2, rng.normal(size=k) * 2
    z = rng.integers(k, size=n)
    y = intercept[z] + np.sum(coef[z] * X, axis=1) + deviation * rng.normal(size=n)
    return X, y, coef, intercept, z


def matched(model, coef):
    """Largest error of a coefficient, components matched."""
    apart = np.abs(model.coef_[:, None] - coef[None]).max(axis=2)
    return max(apart.min(axis=1).max(), apart.min(axis=0).max())


def direct(X, y, k, start):
    """The log-likelihood's maximum by a general optimiser."""
    d = X.shape[1]

    def loss(t):
        t = t.reshape(k, d + 3)
        logs = t[:, 0] - np.logaddexp.reduce(t[:, 0])
        residual = (y[:, None] - X @ t[:, 1 : d + 1].T - t[:, d + 1]) / np.exp(t[:, d + 2])
        joint = logs - residual**2 / 2 - t[:, d + 2] - 0.5 * np.log(2 * np.pi)
        return -np.logaddexp.reduce(joint, axis=1).sum()

    rng = np.random.default_rng(0)
    tries = [
        minimize(loss, (start + 0.1 * rng.normal(size=start.shape)).ravel(), method="BFGS")
        for _ in range(3)
    ]
    return -min(t.fun for t in tries)


def as_start(model):
    columns = [np.log(model.weights_), model.intercept_, np.log(model.noise_variance_) / 2]
    return np.column_stack([columns[0], model.coef_, columns[1], columns[2]])


def test_the_classic_tone_perception_fit(tones):
    """Tuned on stretch ratio: one line is the identity, the other constant (mixtools' regmixEM)."""
    data = pd.read_csv(tones)
    X, y = data[["stretchratio"]], data["tuned"]
    for seed in range(3):
        model = RegressionMixture(2, epsilon=None, tol=1e-13, random_state=seed).fit(X, y)
        order = np.argsort(model.coef_[:, 0])
        np.testing.assert_allclose(model.coef_[order, 0], [0.0425, 0.9923], atol=1e-4)
        np.testing.assert_allclose(model.intercept_[order], [1.9164, -0.0193], atol=1e-4)
        np.testing.assert_allclose(model.weights_[order], [0.6977, 0.3023], atol=1e-4)
        sigma = np.sqrt(model.noise_variance_[order])
        np.testing.assert_allclose(sigma, [0.0462, 0.1328], atol=1e-4)
        assert 150 * model.score(X, y) == pytest.approx(141.198, abs=1e-3)
    best = direct(X.to_numpy(), y.to_numpy(), 2, as_start(model))
    assert 150 * model.score(X, y) == pytest.approx(best, abs=1e-6)
    again = RegressionMixture(2, epsilon=None, tol=1e-13, random_state=0).fit(tones, "tuned")
    assert again.score(tones, "tuned") == pytest.approx(model.score(X, y), abs=1e-10)


@pytest.mark.parametrize("k", [1, 2, 3])
def test_an_exact_fit_maximises_the_likelihood(k):
    X, y, coef, _, _ = drawn(600, k=k, seed=k)
    model = RegressionMixture(k, epsilon=None, tol=1e-13, random_state=0, n_init=2).fit(X, y)
    assert matched(model, coef) < 0.2
    assert 600 * model.score(X, y) == pytest.approx(direct(X, y, k, as_start(model)), abs=1e-5)


@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
@pytest.mark.parametrize("bounds", [(15.0, (-40, 40)), (None, None), (15.0, None)])
def test_a_private_fit_finds_the_lines(bounds, neighbours):
    """All comparisons are more than forty deviations from their bounds (tests/margins.py)."""
    X, y, coef, _, _ = drawn(100_000)
    model = RegressionMixture(
        2, bounds=bounds[0], target_bounds=bounds[1], neighbours=neighbours, random_state=0
    ).fit(X, y)
    assert model.structure_ == "full"
    assert matched(model, coef) < 0.05
    exact = RegressionMixture(2, epsilon=None).fit(X, y)
    assert model.score(X, y) > exact.score(X, y) - 0.02
    alike = (model.component_labels(X, y) == exact.component_labels(X, y)).mean()
    assert max(alike, 1 - alike) > 0.9
    assert model.privacy_.spent <= 1
    assert not hasattr(model, "lower_bound_")
    said = model.privacy_.public
    assert said["bounds"].startswith("estimated" if bounds[0] is None else ("all", "0 [-15"))
    if bounds == (15.0, None):
        assert said["target bounds"].startswith("estimated from noisy histograms, paid for")
    assert ("estimated from noisy histograms, paid for" in str(model.privacy_)) == (None in bounds)
    low, high = model.target_bounds_
    assert low < y.min() + 5
    assert high > y.max() - 5


def test_too_much_noise_gives_one_regression():
    X, y, *_ = drawn(1000)
    model = RegressionMixture(3, epsilon=0.05, bounds=15.0, target_bounds=40.0)
    # The number named is the noisy count, which was paid for.
    with pytest.warns(UserWarning, match=r"about -?[\d,]+ records are too few for 3 regressions"):
        model.fit(X, y)
    assert model.structure_ == "single"
    assert np.ptp(model.coef_, axis=0).max() == 0
    assert np.isfinite(model.coef_).all()
    assert (model.noise_variance_ > 0).all()


def test_a_given_start_is_heeded_however_large_the_noise():
    X, y, *_ = drawn(1000)
    start = RegressionMixture(2, epsilon=None, random_state=0).fit(X, y)
    names = ("weights", "coef", "intercept", "noise_variance")
    given = {f"{name}_init": getattr(start, f"{name}_") for name in names}
    model = RegressionMixture(2, epsilon=0.05, bounds=15.0, target_bounds=40.0, **given).fit(X, y)
    assert model.structure_ == "full"
    assert np.ptp(model.coef_, axis=0).max() > 0


def test_the_target_has_a_name_if_the_last_data_had_one(tmp_path):
    X, y, *_ = drawn(100)
    model = RegressionMixture(1, epsilon=None).fit(X, pd.Series(y, name="wage"))
    assert model.target_name_in_ == "wage"
    model.save(tmp_path / "m.json")
    assert privem.load(tmp_path / "m.json").target_name_in_ == "wage"
    assert not hasattr(model.fit(X, y), "target_name_in_")


def test_predictions_and_samples():
    X, y, *_ = drawn(20_000)
    model = RegressionMixture(2, epsilon=None, random_state=0).fit(X, y)
    parts = model.predict_components(X)
    np.testing.assert_allclose(parts, X @ model.coef_.T + model.intercept_)
    np.testing.assert_allclose(model.predict(X), parts @ model.weights_)
    np.testing.assert_allclose(model.component_proba(X, y).sum(axis=1), 1)
    new, label = model.sample(X)
    assert new.shape == label.shape == y.shape
    assert model.score(X, new) == pytest.approx(model.score(X, y), abs=0.05)


def test_a_round_trip_keeps_every_bit(tmp_path):
    X, y, *_ = drawn(2000)
    for model in (
        RegressionMixture(2, epsilon=None, random_state=0),
        RegressionMixture(2, bounds=(-20, 20), target_bounds=50.0, random_state=0),
    ):
        model.fit(X, y)
        again = privem.load(model.save(tmp_path / "m.json") and tmp_path / "m.json")
        np.testing.assert_array_equal(again.log_likelihood(X, y), model.log_likelihood(X, y))
        np.testing.assert_array_equal(again.sample(X)[0], model.sample(X)[0])
        assert hasattr(again, "privacy_") == (model.epsilon is not None)


def test_a_given_start_is_used():
    X, y, coef, intercept, _ = drawn(3000)
    start = {
        "weights_init": [0.5, 0.5],
        "coef_init": coef,
        "intercept_init": intercept,
        "noise_variance_init": [0.16, 0.16],
    }
    model = RegressionMixture(2, epsilon=None, **start).fit(X, y)
    np.testing.assert_allclose(model.coef_, coef, atol=0.1)
    private = RegressionMixture(2, epsilon=4.0, bounds=15.0, target_bounds=40.0, **start)
    np.testing.assert_allclose(private.fit(X, y).coef_, coef, atol=0.2)
    with pytest.raises(ValueError, match="together"):
        RegressionMixture(2, epsilon=None, coef_init=coef).fit(X, y)


def untouched(*args, **kwargs):
    raise AssertionError("data were asked for")


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"target_bounds": (3, 1)}, "target_bounds of feature 0"),
        ({"target_bounds": -1.0}, "target_bounds must be above 0"),
        ({"target_bounds": ([0, 0], [1, 1])}, "target_bounds must be"),
        ({"bounds": (0, [1, 2, 3])}, "bounds must be"),
        ({"n_init": 2}, "n_init > 1"),
        ({"noise_variance_init": [1.0, -1]}, "together"),
        ({"epsilon": -1.0}, "epsilon must be above 0"),
        ({"delta": 2.0}, "delta must be below 1"),
    ],
)
def test_errors_come_before_anything_is_asked(parameters, words, monkeypatch):
    monkeypatch.setattr("privem.fit.run", untouched)
    X, y, *_ = drawn(50)
    with pytest.raises(ValueError, match=words):
        RegressionMixture(2, **parameters).fit(X, y)


@pytest.mark.parametrize("epsilon", [None, 1.0])
def test_bad_targets_are_refused(epsilon, tmp_path, monkeypatch):
    monkeypatch.setattr("privem.fit.run", untouched)
    X, y, *_ = drawn(50)
    model = RegressionMixture(2, epsilon=epsilon)
    with pytest.raises(ValueError, match="requires y"):
        model.fit(X)
    with pytest.raises(ValueError, match="inconsistent numbers"):
        model.fit(X, y[:-1])
    with pytest.raises(ValueError, match="y should be a 1d array"):
        model.fit(X, np.column_stack([y, y]))
    with pytest.raises(ValueError, match=r"y must be numbers|convert string"):
        model.fit(X, np.full(50, "word"))
    with pytest.raises(ValueError, match="y contains NaN"):
        model.fit(X, np.where(np.arange(50) == 3, np.nan, y))
    frame = pd.DataFrame(np.column_stack([X, y]), columns=["a", "b", "c"])
    frame.to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(ValueError, match="no column 'wage'"):
        model.fit(tmp_path / "t.csv", "wage")
    with pytest.raises(TypeError, match="give its name"):
        model.fit(tmp_path / "t.csv", y)


@pytest.mark.parametrize("value", [0.0, 1.0, -1e6])
def test_degenerate_data_give_valid_models(value):
    X, y = np.full((60, 2), value), np.full(60, value)
    for model in (
        RegressionMixture(2, epsilon=None),
        RegressionMixture(2, bounds=3.0, target_bounds=3.0),
        RegressionMixture(2, bounds=3.0, target_bounds=3.0, epsilon=0.01),
    ):
        model.fit(X, y)
        for name in ("coef_", "intercept_", "weights_", "noise_variance_"):
            assert np.isfinite(getattr(model, name)).all()
        assert (model.noise_variance_ > 0).all()


def test_outliers_pass_silently_in_a_private_fit():
    X, y, *_ = drawn(500)
    X[::50], y[1::50] = 1e308, -1e308
    X[2::50, 0], y[3::50] = np.inf, -np.inf
    model = RegressionMixture(2, bounds=10.0, target_bounds=20.0).fit(X, y)
    assert np.isfinite(model.coef_).all()
