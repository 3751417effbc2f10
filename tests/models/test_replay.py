"""Nothing but the releases ever touched the data, and the price can be counted again."""

import json
import math
from typing import Any

import dp_accounting
import numpy as np
import pytest
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant
from sklearn.base import clone

from privem import FactorAnalysis, GaussianMixture, KMeans
from privem.data.table import People, Table
from privem.meter import Statement
from privem.run import Record, Recorded

N = 3000
START = {
    "weights_init": [0.5, 0.5],
    "means_init": np.array([[0.0, 0.0, 0.0], [4.0, 4.0, 4.0]]),
    "precisions_init": np.stack([np.eye(3)] * 2),
}
MODELS = [
    GaussianMixture(2, epsilon=4.0),
    GaussianMixture(2, epsilon=1.0, bounds=8.0, neighbours="replace-one", covariance_type="tied"),
    GaussianMixture(
        2, epsilon=1.0, bounds=(-9, 9), covariance_type="diag", mechanism="joint", prior="map"
    ),
    GaussianMixture(
        2, epsilon=1.0, bounds=(-9, 9), covariance_type="spherical", mechanism="ggg", n_iter=3
    ),
    GaussianMixture(2, bounds=8.0, mechanism="llg", epsilon=4.0, accountant="zcdp"),
    GaussianMixture(2, bounds=8.0, mechanism="laplace", epsilon=4.0),
    GaussianMixture(3, bounds=8.0, epsilon=0.02),
    GaussianMixture(3, bounds=8.0, epsilon=0.02, accountant="linear"),
    GaussianMixture(2, epsilon=1.0, bounds=8.0, **START, accountant="rdp"),
    GaussianMixture(2, bounds=8.0, accountant="advanced", epsilon=8.0),
    KMeans(3, epsilon=4.0),
    KMeans(3, epsilon=1.0, bounds=8.0, neighbours="replace-one", mechanism="joint"),
    KMeans(3, epsilon=1.0, bounds=8.0, mechanism="gg", init=np.eye(3)),
    KMeans(3, epsilon=1.0, bounds=8.0, mechanism="ll", accountant="moments"),
    KMeans(3, bounds=8.0, mechanism="dplloyd", accountant="linear", epsilon=5.0),
    GaussianMixture(2, bounds=8.0, epsilon=8.0, delta=0, max_rows=9000),
    GaussianMixture(3, bounds=8.0, epsilon=0.02, delta=0, max_rows=9000),
    KMeans(3, bounds=(-9, 9), delta=0, neighbours="replace-one"),
    FactorAnalysis(1, epsilon=4.0),
    FactorAnalysis(2, epsilon=1.0, bounds=8.0, neighbours="replace-one", mechanism="joint"),
]


@pytest.fixture(scope="module")
def data() -> np.ndarray:
    rng = np.random.default_rng(1)
    X = rng.standard_normal((N, 3)) @ rng.standard_normal((3, 3))
    X[: N // 3] += 4
    return X


def same(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and a.tobytes() == b.tobytes()
    if isinstance(a, tuple | list):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    return bool(a == b)


@pytest.mark.parametrize("grouped", [False, True], ids=["records", "persons"])
@pytest.mark.parametrize("model", MODELS, ids=lambda m: repr(m).replace("\n", ""))
@pytest.mark.filterwarnings("ignore:FactorAnalysis did not", "ignore:noise hides much")
def test_a_fit_is_a_function_of_its_releases(
    model: Any, grouped: bool, data: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = clone(model).set_params(random_state=3)
    record = Record()
    model._watch = record
    groups = np.arange(N) // 2 if grouped else None
    model.fit(data, groups=groups)
    public = (N // 2 if grouped else N) if model.neighbours == "replace-one" else None

    def without_data(self: Any, X: Any, y: Any, weight: Any, groups: Any) -> Any:
        self.n_features_in_, self.feature_types_in_ = 3, ["float64"] * 3  # the public schema
        people = People("person" if grouped else "record", public, weighted=False)
        return Table(None, people, elsewhere=Recorded(record.releases))

    again = clone(model)
    monkeypatch.setattr(type(again), "_open_table", without_data)
    again.fit(None)
    names = {name for name in vars(model) if name.endswith("_")}
    assert names == {name for name in vars(again) if name.endswith("_")}
    for name in names:
        assert same(getattr(model, name), getattr(again, name)), name
    for value in (v for v in vars(model).values() if isinstance(v, np.ndarray)):
        assert np.isfinite(value).all()
    check_price(model, record)


def check_price(model: Any, record: Record) -> None:
    """Recount from the saved statement alone, by dp_accounting."""
    saved = json.loads(json.dumps(model.privacy_.to_dict()))
    groups = [group for release in saved["releases"] for group in release["groups"]]
    assert sum(g["dimension"] for g in groups) == sum(
        int(np.size(leaf))
        for r in record.releases
        for leaf in vars(r.statistics).values()
        if leaf is not None
    )
    mu_squared, laplace = 0.0, []
    for g in groups:
        gaussian = g["kind"] == "gaussian"
        unit = math.sqrt(g["dimension"]) if gaussian else g["dimension"]
        moves = (g["sensitivity"] + g["slack"]) / g["grid"] + unit
        if gaussian:
            mu_squared += (moves / g["steps"]) ** 2
        else:
            laplace.append(g["steps"] / moves)
    delta = saved["delta"] - saved["failure"]
    additive = saved["accountant"] in ("auto", "gdp", "pld") and not laplace
    if saved["delta"] == 0:
        assert not mu_squared
        assert math.fsum(1 / multiplier for multiplier in laplace) <= saved["epsilon"]
    elif additive:
        found = dp_accounting.get_epsilon_gaussian(1 / math.sqrt(mu_squared), delta)
        assert saved["epsilon"] * (1 - 1e-4) < found <= saved["epsilon"]
    else:
        pld = PLDAccountant(value_discretization_interval=1e-3)
        rdp = RdpAccountant()
        for accountant in (pld, rdp):
            if mu_squared:
                accountant.compose(dp_accounting.GaussianDpEvent(1 / math.sqrt(mu_squared)))
            for multiplier in laplace:
                accountant.compose(dp_accounting.LaplaceDpEvent(multiplier))
        assert pld.get_epsilon(delta) <= saved["epsilon"]
        if (
            saved["accountant"] in ("auto", "zcdp", "rdp")
            and not model.privacy_.spent < 0.5 * (saved["epsilon"])
        ):
            assert rdp.get_epsilon(delta) > 0.5 * saved["epsilon"]
    assert Statement.from_dict(saved).recount() <= saved["epsilon"]
    assert model.privacy_.spent <= model.epsilon
