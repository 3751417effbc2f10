"""Classes, regressions and missing covariates: nothing but the releases ever touched the data."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

from privem import CategoricalMixture, MissingCovariateRegression, RegressionMixture
from privem.data import Table, kinds
from privem.data.table import People
from privem.run import Record, Recorded

from .test_replay import check_price, same

N = 3000
REGRESSION = {"bounds": 5.0, "target_bounds": (-9, 9)}
MODELS = [
    CategoricalMixture(2, categories=[0, 1, 2]),
    CategoricalMixture(3, categories=[0, 1, 2], neighbours="replace-one", n_iter=3),
    CategoricalMixture(2, categories=[0, 1], accountant="linear", epsilon=4.0),
    RegressionMixture(2, epsilon=4.0),
    RegressionMixture(2, **REGRESSION, neighbours="replace-one"),
    RegressionMixture(3, bounds=5.0, epsilon=4.0),
    RegressionMixture(3, bounds=5.0, target_bounds=9.0, epsilon=0.1),
    RegressionMixture(2, target_bounds=9.0, accountant="advanced", epsilon=40.0, n_iter=3),
    RegressionMixture(1, **REGRESSION),
    RegressionMixture(
        2,
        **REGRESSION,
        weights_init=[0.5, 0.5],
        coef_init=np.eye(2, 3),
        intercept_init=[0, 0],
        noise_variance_init=[1, 1],
        accountant="rdp",
    ),
    MissingCovariateRegression(epsilon=4.0),
    MissingCovariateRegression(**REGRESSION, neighbours="replace-one", method="moments"),
    MissingCovariateRegression(**REGRESSION, missing_probability=0.1, noise_variance=1.0),
    MissingCovariateRegression(**REGRESSION, method="gradient", accountant="rdp"),
    MissingCovariateRegression(
        **REGRESSION, method="gradient", mechanism="robust", missing_probability=[0.1, 0, 0.5]
    ),
]


@pytest.fixture(scope="module")
def data() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    X = rng.standard_normal((N, 3))
    y = np.where(rng.random(N) < 0.5, 2 * X[:, 0], 1 - X[:, 1]) + 0.3 * rng.standard_normal(N)
    return X, y


@pytest.mark.parametrize("grouped", [False, True], ids=["records", "persons"])
@pytest.mark.parametrize("model", MODELS, ids=lambda m: repr(m).replace("\n", ""))
def test_a_fit_is_a_function_of_its_releases(
    model: Any, grouped: bool, data: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = clone(model).set_params(random_state=3)
    record = Record()
    model._watch = record
    groups = np.arange(N) // 2 if grouped else None
    X, y = data
    if isinstance(model, CategoricalMixture):
        X = np.digitize(X, [-0.5, 0.5])  # of which the category 2 is not always declared
    elif isinstance(model, MissingCovariateRegression):
        X = np.where(np.random.default_rng(2).random(X.shape) < 0.1, np.nan, X)
    model.fit(X, y, groups=groups)
    public = (N // 2 if grouped else N) if model.neighbours == "replace-one" else None

    def without_data(table: Table, policy: Any) -> Table:
        people = People("person" if grouped else "record", public, weighted=False)
        return replace(table, people=people, elsewhere=Recorded(record.releases))

    again = clone(model)
    monkeypatch.setattr(kinds, "_of_people", without_data)
    # What is opened now is one row of zeros: had it been looked at, it would show.
    again.fit(np.zeros((1, 3), dtype=X.dtype), np.zeros(1))
    names = {name for name in vars(model) if name.endswith("_")}
    assert names == {name for name in vars(again) if name.endswith("_")}
    for name in names:
        assert same(getattr(model, name), getattr(again, name)), name
    for value in (v for v in vars(model).values() if isinstance(v, np.ndarray)):
        assert np.isfinite(value).all()
    check_price(model, record)
