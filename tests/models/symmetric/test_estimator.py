"""SymmetricMixture and SymmetricRegressionMixture: exact, private, saved, refused."""

import warnings

import numpy as np
import polars as pl
import pytest
from scipy.optimize import minimize
from scipy.special import logsumexp
from sklearn.base import clone

import privem
from privem import SymmetricMixture, SymmetricRegressionMixture
from privem.audit import Dataset, audit_model_file, recount, structure_checks
from privem.models.symmetric.model import log_cosh

pandas = pytest.importorskip("pandas")
BETA = np.array([2.0, -1.0, 0.5])


def mixture(n, beta=BETA, seed=0, sigma=1.0):
    rng = np.random.default_rng(seed)
    sign = rng.choice([-1.0, 1.0], n)
    return sign[:, None] * beta + sigma * rng.normal(size=(n, len(beta)))


def regression(n, beta=BETA, seed=0, sigma=1.0, shape=None):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, len(beta)))
    X = X if shape is None else X @ shape
    return X, rng.choice([-1.0, 1.0], n) * (X @ beta) + sigma * rng.normal(size=n)


def error(found, beta):
    return min(np.linalg.norm(found - beta), np.linalg.norm(found + beta))


def best(negative, start):
    return minimize(negative, start, method="BFGS", options={"gtol": 1e-9}).x


def test_the_exact_mixture_maximises_the_likelihood():
    X = mixture(800)
    model = SymmetricMixture(epsilon=None).fit(X)

    def negative(p):
        s = np.exp(p[-1])
        square = np.sum(X**2, axis=1) + p[:-1] @ p[:-1]
        return -np.mean(log_cosh(X @ p[:-1] / s) - square / (2 * s) - 1.5 * np.log(s))

    found = best(negative, np.append(BETA, 0.0))
    assert error(model.mean_, found[:-1]) < 1e-4
    assert model.noise_variance_ == pytest.approx(np.exp(found[-1]), rel=1e-4)
    assert model.converged_
    known = SymmetricMixture(epsilon=None, noise_variance=1.3, init=-BETA).fit(X)
    assert known.noise_variance_ == 1.3
    assert known.mean_ @ BETA < 0


def test_the_exact_regression_maximises_the_likelihood():
    shape = np.array([[3.0, 1.0, 0.0], [0.0, 0.2, 0.1], [0.0, 0.0, 1.0]])
    X, y = regression(800, shape=shape)
    model = SymmetricRegressionMixture(epsilon=None).fit(X, y)

    def negative(p):
        s, fitted = np.exp(p[-1]), X @ p[:-1]
        squares = np.stack([(y - fitted) ** 2, (y + fitted) ** 2])
        return -np.mean(logsumexp(-squares / (2 * s), axis=0) - 0.5 * np.log(s))

    found = best(negative, np.append(BETA, 0.0))
    assert error(model.coef_, found[:-1]) < 1e-4
    assert model.noise_variance_ == pytest.approx(np.exp(found[-1]), rel=1e-4)
    np.testing.assert_allclose(
        model.score(X, y), -negative(found) - np.log(2) - 0.5 * np.log(2 * np.pi), rtol=1e-9
    )


@pytest.mark.parametrize("method", ["moments", "gradient"])
@pytest.mark.parametrize("mechanism", ["clip", "robust"])
def test_without_noise_every_method_finds_the_maximum(method, mechanism):
    """A huge budget stands in for none: gradients unclipped, steps many."""
    if method == "moments" and mechanism == "robust":
        pytest.skip("robust gradients are the gradient method's")
    # Standard normal covariates, as gradient EM takes them to be: its step is then EM's.
    given = {"epsilon": 1e5, "n_iter": 40, "method": method, "mechanism": mechanism}
    given["neighbours"] = "replace-one"
    if method == "gradient":
        given |= {"clip": 50.0} if mechanism == "clip" else {"tau": 1.0}
    tolerance = {"moments": 0.02, "gradient": 2e-3 if mechanism == "clip" else 0.01}[method]
    X = mixture(5000)
    exact = SymmetricMixture(epsilon=None, noise_variance=1.0).fit(X)
    model = SymmetricMixture(bounds=50, noise_variance=1.0, **given).fit(X)
    assert error(model.mean_, exact.mean_) < tolerance
    X, y = regression(5000)
    exact = SymmetricRegressionMixture(epsilon=None, noise_variance=1.0).fit(X, y)
    model = SymmetricRegressionMixture(bounds=50, target_bounds=50, noise_variance=1.0, **given)
    assert error(model.fit(X, y).coef_, exact.coef_) < 2 * tolerance


def test_private_mixture_is_close_to_exact():
    """The issue's target, with a paid start and an estimated variance: 1.5 times exact EM.

    Of 12 fits the ratio had mean 1.24, deviation 0.04 and maximum 1.32: three of five fits would
    have to be six deviations away.
    """
    d, n = 40, 50_000
    rng = np.random.default_rng(5)
    beta = rng.normal(size=d)
    beta *= 3 / np.linalg.norm(beta)
    X = mixture(n, beta, seed=6)
    exact = error(SymmetricMixture(epsilon=None).fit(X).mean_, beta)
    found = [error(SymmetricMixture(epsilon=0.5, bounds=8.0).fit(X).mean_, beta) for _ in range(5)]
    assert np.median(found) < 1.5 * exact


@pytest.mark.parametrize("bounds", [8.0, (-9.0, 9.0), None])
@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
def test_private_fits(bounds, neighbours):
    """Limits are more than 80 deviations of 12 fits away in every case."""
    given = {"epsilon": 2.0, "neighbours": neighbours, "bounds": bounds}
    X = mixture(20_000)
    model = SymmetricMixture(**given).fit(X)
    assert error(model.mean_, BETA) < 0.3
    assert 0.7 < model.noise_variance_ < 1.4
    assert model.privacy_.spent <= 2.0
    assert recount(model.privacy_).passed
    X, y = regression(20_000, shape=np.diag([2.0, 1.0, 0.5]))
    target = None if bounds is None else 30.0
    fitted = SymmetricRegressionMixture(target_bounds=target, **given).fit(X, y)
    assert error(fitted.coef_, BETA) < 0.4
    assert recount(fitted.privacy_).passed
    assert not hasattr(fitted, "lower_bound_")


def test_a_start_that_noise_hides_is_announced(seeded):
    """From n, d and the noise level alone: the same for any data of that shape."""
    given = {"epsilon": 0.5, "bounds": 8.0, "target_bounds": 12.0, "neighbours": "replace-one"}
    X, y = regression(2000, np.eye(10)[0])
    for data in ((X, y), (np.zeros_like(X), np.zeros_like(y))):
        with pytest.warns(UserWarning, match="^2,000 records are too few for a start in 10 dim"):
            SymmetricRegressionMixture(n_iter=1, **given).fit(*data)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        SymmetricRegressionMixture(n_iter=1, init=np.eye(10)[0], **given).fit(X, y)
        SymmetricRegressionMixture(n_iter=1, **{**given, "epsilon": 4.0}).fit(X, y)
        SymmetricMixture(n_iter=1, epsilon=0.5, bounds=8.0).fit(X)


CASES = [
    {},
    {"bounds": None},
    {"neighbours": "replace-one", "noise_variance": 1.0},
    {"method": "gradient", "accountant": "zcdp"},
    {"method": "gradient", "mechanism": "robust", "batch": "partition"},
    {"init": [1.0, 1.0], "noise_variance": 1.0, "method": "gradient", "tau": 3.0},
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_structure(case):
    """Replay without data, lattice, charges, and noise on every number."""
    given = {"epsilon": 4.0, "bounds": 5.0, "n_iter": 2, **case}
    n = 3000 if case == {"bounds": None} else 120
    X = mixture(n, BETA[:2])
    report = structure_checks(SymmetricMixture(**given), X, repeats=60)
    assert report.passed, str(report)
    X, y = regression(n, BETA[:2])
    model = SymmetricRegressionMixture(target_bounds=given["bounds"], **given)
    report = structure_checks(model, np.column_stack([X, y]), repeats=60)
    assert report.passed, str(report)


def test_persons_count_once():
    X = mixture(300)
    groups = np.repeat(np.arange(100), 3)
    model = SymmetricMixture(epsilon=3.0, bounds=8.0).fit(X, groups=groups)
    assert model.privacy_.unit == "person"
    report = structure_checks(
        SymmetricMixture(epsilon=3.0, bounds=8.0, method="gradient", batch="partition", n_iter=2),
        Dataset(X, groups),
        repeats=60,
    )
    assert report.passed


def test_predictions():
    X = mixture(2000)
    model = SymmetricMixture(epsilon=None, random_state=0).fit(X)
    proba = model.predict_proba(X)
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    np.testing.assert_array_equal(model.predict(X), proba[:, 1] > 0.5)
    drawn, label = model.sample(50_000)
    np.testing.assert_allclose(drawn[label == 1].mean(axis=0), model.mean_, atol=0.05)
    assert model.score(drawn) == pytest.approx(model.score(X), abs=0.1)
    X, y = regression(2000)
    model = SymmetricRegressionMixture(epsilon=None, random_state=0).fit(X, y)
    np.testing.assert_allclose(model.predict(X), X @ model.coef_)
    sure = model.predict_sign(X, y)
    assert np.mean(np.abs(sure - 0.5) > 0.4) > 0.5
    assert model.sample(X).shape == (2000,)
    assert model.score(X, model.sample(X)) == pytest.approx(model.score(X, y), abs=0.15)


def test_tables_give_the_same_as_arrays(tmp_path):
    X, y = regression(300)
    expected = SymmetricRegressionMixture(epsilon=None).fit(X, y)
    names = ["a", "b", "c"]
    frame = pl.DataFrame({**dict(zip(names, X.T, strict=True)), "out": y})
    frame = frame.select("a", "out", "b", "c")  # the target may stand anywhere
    frame.write_csv(tmp_path / "x.csv")
    frame.write_parquet(tmp_path / "x.parquet")
    features = frame.select(names)
    for source, target in (
        (tmp_path / "x.csv", "out"),
        (tmp_path / "x.parquet", "out"),
        (features, y),
        (pandas.DataFrame(X, columns=names), pandas.Series(y, name="out")),
    ):
        model = SymmetricRegressionMixture(epsilon=None).fit(source, target)
        np.testing.assert_allclose(np.abs(model.coef_), np.abs(expected.coef_), rtol=1e-9)
        assert list(model.feature_names_in_) == names
        assert model.n_features_in_ == 3
        again = model.score(source, target)
        assert again == pytest.approx(expected.score(X, y), rel=1e-9)
        private = SymmetricRegressionMixture(epsilon=9.0, bounds=5, target_bounds=9)
        assert private.fit(source, target).privacy_.spent <= 9.0


def test_saved_and_loaded(tmp_path):
    X, y = regression(500)
    for model, data in (
        (SymmetricMixture(epsilon=1.0, bounds=8), (mixture(500),)),
        (SymmetricRegressionMixture(epsilon=1.0, bounds=8, target_bounds=9), (X, y)),
        (SymmetricMixture(epsilon=None), (mixture(500),)),
        (SymmetricMixture(epsilon=1.0, bounds=8, trust="local"), (mixture(500),)),
    ):
        model.fit(*data).save(tmp_path / "m.json")
        again = privem.load(tmp_path / "m.json")
        assert again.score(*data) == model.score(*data)
        assert getattr(again, "privacy_", None) == getattr(model, "privacy_", None)
        if model.epsilon is not None:
            assert audit_model_file(tmp_path / "m.json").passed


def test_an_exact_fit_promises_nothing():
    X = mixture(400)
    model = SymmetricMixture(epsilon=1.0, bounds=8).fit(X)
    model.set_params(epsilon=None).fit(X)
    assert not hasattr(model, "privacy_")
    model.set_params(epsilon=1.0).fit(X)
    assert not hasattr(model, "lower_bound_")


BAD = [
    ({"noise_variance": 0.0}, "noise_variance must be above 0"),
    ({"noise_variance": -1.0}, "noise_variance must be above 0"),
    ({"noise_variance": np.nan}, "noise_variance must be above 0"),
    ({"tau": 0.0}, "tau must be above 0"),
    ({"clip": -1.0}, "clip must be above 0"),
    ({"step": 0.0}, "step must be above 0"),
    ({"failure": 1.0}, "failure is a probability"),
    ({"method": "newton"}, "method must be one of"),
    ({"mechanism": "ggg"}, "mechanism must be one of"),
    ({"mechanism": "robust"}, "ask for method='gradient'"),
    ({"batch": "partition"}, "ask for method='gradient'"),
    ({"batch": "some"}, "batch must be one of"),
    ({"trust": "me"}, "trust must be one of"),
    ({"init": [1.0]}, "init should have the shape"),
    ({"n_iter": 0}, "n_iter must be at least 1"),
    ({"epsilon": 0.0}, "epsilon must be above 0"),
    ({"bounds": -1.0}, "bounds must be above 0"),
    ({"n_iter": 500, "neighbours": "replace-one"}, "more than n_samples=60"),
]


@pytest.mark.parametrize(("change", "complaint"), BAD, ids=lambda v: str(v))
def test_bad_parameters_cost_nothing(change, complaint, monkeypatch):
    monkeypatch.setattr(
        "privem.data.sums.LocalSource.release", lambda *a: pytest.fail("data were touched")
    )
    X, y = regression(60)
    for model, data in (
        (SymmetricMixture(epsilon=1.0, bounds=5.0), (X,)),
        (SymmetricRegressionMixture(epsilon=1.0, bounds=5.0), (X, y)),
    ):
        with pytest.raises((ValueError, TypeError), match=complaint):
            clone(model).set_params(**change).fit(*data)


def test_bad_targets(tmp_path):
    X, y = regression(60)
    model = SymmetricRegressionMixture(epsilon=1.0, bounds=5.0, target_bounds=5.0)
    hole = np.where(np.arange(60) == 7, np.nan, y)
    frame = pl.DataFrame({"a": X[:, 0], "y": y})
    frame.write_csv(tmp_path / "x.csv")
    np.save(tmp_path / "x.npy", X)
    for bad, target, complaint in (
        (X, None, "requires y to be passed"),
        (X, y[:-1], "inconsistent numbers of samples"),
        (X, np.column_stack([y, y]), "should be a 1d array"),
        (X, ["a"] * 60, "y must be numbers"),
        (X, hole, "y contains NaN"),
        (X, "y", "which arrays do not have"),
        (tmp_path / "x.csv", "z", "has no column 'z'"),
        (frame, "z", "y names a column 'z', and X has none; it has a, y"),
        (tmp_path / "x.csv", y, "give its name as y"),
        (tmp_path / "x.npy", "y", "no column names"),
    ):
        with pytest.raises((ValueError, TypeError), match=complaint):
            clone(model).fit(bad, target)
    frame.select("y").write_csv(tmp_path / "only.csv")
    with pytest.raises(ValueError, match="no column besides the target"):
        clone(model).fit(tmp_path / "only.csv", "y")
    # Infinity lies outside the bounds, like 1e308.
    clone(model).fit(X, np.where(np.arange(60) == 7, np.inf, y))
    with pytest.raises(ValueError, match="y contains NaN or infinity"):
        clone(model).set_params(epsilon=None).fit(X, np.where(np.arange(60) == 7, np.inf, y))
