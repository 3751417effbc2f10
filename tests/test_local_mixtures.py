"""Any private plan on people's own devices: classes and regressions under local privacy."""

import tracemalloc
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from sklearn.base import clone

from privem import CategoricalMixture, RegressionMixture, TableMixture, load
from privem.audit import audit_model_file, recount
from privem.blocks.bounded_sums import Cell
from privem.blocks.sensitivity import MomentWeights
from privem.blocks.shrinkage import clip_radius
from privem.budget import Allowance, Part
from privem.core import Block, Scratch, Stage
from privem.data import ArrayRows, read_file
from privem.data.table import Table
from privem.linalg import ravel, smat
from privem.local import Crowd, OnDevices, Personal, Rounds, Server, message, messages
from privem.models.categorical_mixture.model import ClassQuery
from privem.models.categorical_mixture.pairs import PairsQuery
from privem.models.gaussian_mixture.model import Mixture
from privem.models.gaussian_mixture.query import BoundedQuery
from privem.models.regression_mixture.directions import ResidualDirections
from privem.models.regression_mixture.model import Bounded, RegressionQuery, Regressions
from privem.models.table_mixture.tables import CellCountsQuery, TablesQuery, all_pairs
from privem.noise.discrete import Discrete
from privem.run import Record, Recorded, run

from .models.test_latent_sensitivity import classes_of, codes_of, regressions_of
from .models.test_replay import same
from .models.test_sensitivity import nasty, region_of, seeds

SIZES = (2, 3, 2)
Q = 3
KINDS = ("classes", "pairs", "cells", "tables", "regressions", "residuals", "frame")
every_kind = pytest.mark.parametrize("kind", KINDS)
DEVICE = Discrete(4.0, "replace-one", 1.0)


def asked(kind: str, seed: int) -> tuple[Personal, np.ndarray]:
    """What the two fits ask devices, and records that try to be far apart."""
    rng = np.random.default_rng(seed)
    region = region_of("box", Q)
    if kind in ("cells", "tables"):
        inner: Any = CellCountsQuery(SIZES, 1.0)
        if kind == "tables":
            target = (None, 1)[seed % 2]
            maps = ((0, 1), (0, 1, 1), (1, 0))
            inner = TablesQuery(maps, all_pairs(3, target), target, 1.0)
        X = codes_of(SIZES, 25, rng)
        X[:3] = [[np.nan, np.inf, -np.inf], [1e300, -7.0, 0.5], [-1.0, -1.0, -1.0]]
        return Personal(inner, len(SIZES), Cell(1, 4)), X
    if kind in ("classes", "pairs"):
        state = classes_of(SIZES, 2, rng, float(rng.choice([1.0, 0.01])))
        inner = ClassQuery(state, SIZES, 1.0) if kind == "classes" else PairsQuery(SIZES, 1.0)
        return Personal(inner, len(SIZES), Cell(1, 4)), codes_of(SIZES, 25, rng)
    state = regressions_of(region, 2, rng, float(rng.choice([1.0, 1e-2])))
    w = MomentWeights.balanced(Q, clip_radius(Q, 0.1))
    if kind == "regressions":
        inner = RegressionQuery(state, Bounded(region, w))
    elif kind == "residuals":
        one = (state.coefficients[:1], state.variances[:1], state.whitener, state.centre)
        inner = ResidualDirections(Regressions(np.ones(1), *one), region)
    else:
        mixture = Mixture("full", np.ones(1), np.zeros((1, Q)), np.eye(Q)[None])
        inner = BoundedQuery(mixture, region, w, "whitened", 1e6)
    X = nasty(region, rng.uniform(-1, 1, (2, Q)), rng)
    return Personal(inner, Q, Cell(1, 4)), X[~np.isnan(X).any(axis=1)]


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Devices without noise: what is left of a message is a function of the record."""
    monkeypatch.setattr(
        "privem.noise.discrete.discrete_gaussian",
        lambda variance, size, entropy: np.zeros(size, dtype=np.int64),
    )


@every_kind
def test_a_message_is_a_function_of_one_record(kind, silent):
    query, X = asked(kind, 0)
    stage = Stage(query, DEVICE)
    together = messages(stage, X)
    order = np.random.default_rng(1).permutation(len(X))
    # Alone, in another order, beside others: the same to the last bit.
    np.testing.assert_array_equal(together, np.stack([message(stage, x) for x in X]))
    np.testing.assert_array_equal(together[order], messages(stage, X[order]))
    other = X.copy()
    other[1:] = X[0]
    np.testing.assert_array_equal(messages(stage, other), np.repeat(together[:1], len(X), axis=0))
    # And it does depend on the record.
    assert len(np.unique(together, axis=0)) > 5


@every_kind
@settings(max_examples=40)
@given(seed=seeds)
def test_no_two_messages_are_further_apart_than_is_charged(kind, seed):
    """In lattice steps, after the one rounding: what the noise was made for."""
    query, X = asked(kind, seed)
    (spent,) = DEVICE.price(query)
    assert spent.cell == 1
    exact = query.contributions(Block(X), Scratch())
    assert np.isfinite(exact).all()
    sent = np.rint(exact.T / spent.grid)
    most = np.linalg.norm(sent[:, None] - sent[None], axis=-1).max()
    assert most <= spent.steps / spent.multiplier


@every_kind
def test_messages_add_up_to_the_query(kind, silent):
    query, X = asked(kind, 3)
    stage = Stage(query, DEVICE)
    server = Server(stage)
    for x in X:
        server.add(message(stage, x))
    (spent,) = DEVICE.price(query)
    found, exact = server.release().statistics, query(Block(X), Scratch())
    assert type(found) is type(exact)
    np.testing.assert_allclose(ravel(found), ravel(exact), atol=len(X) * spent.grid)


def test_the_charge_is_for_any_two_records():
    """Planted: noise for a record that appears or not would be too little."""
    query, X = asked("classes", 0)
    with pytest.raises(ValueError, match="a device adds noise for its one record"):
        message(Stage(query, Discrete(4.0, "add-remove", 1.0)), X[0])
    wide, narrow = (Discrete(4.0, n, 1.0).price(query)[0] for n in ("replace-one", "add-remove"))
    assert wide.sensitivity == pytest.approx(narrow.sensitivity * 2**0.5)


class Asks:
    """A plan that counts its people so many times."""

    def __init__(self, times: int) -> None:
        self.times, self.seen = times, []

    def stages(self) -> Any:
        for t in range(self.times):
            release = yield Stage(PairsQuery((2,), 1.0), DEVICE, f"look {t}")
            self.seen.append(release)
        return self.times


def test_a_plan_on_devices_sees_the_sum_over_everyone(silent):
    X = np.random.default_rng(0).integers(0, 2, (4000, 1)).astype(float)
    plan = Asks(3)
    assert run(OnDevices(plan, 3, DEVICE, 1), Crowd(ArrayRows(X))) == 3
    (spent,) = DEVICE.price(Personal(PairsQuery((2,), 1.0), 1, Cell(0, 3)))
    for release in plan.seen:
        # A third of the people, times three: within six deviations of such a draw.
        ones = smat(release.statistics.second, 2)[1, 1]
        assert abs(ones - X.sum()) < 6 * np.sqrt(2 * X.sum())
        deviation = release.deviation.second[0] / spent.deviation
        assert deviation == pytest.approx(3 * np.sqrt(4000 / 3), rel=0.05)
        assert isinstance(release.query, PairsQuery)


def test_nobody_is_asked_twice_whatever_the_plan_does():
    crowd = Crowd(ArrayRows(np.zeros((10, 1))))
    with pytest.raises(RuntimeError, match="'look 2' comes after the last of 2 rounds"):
        run(OnDevices(Asks(3), 2, DEVICE, 1), crowd)


def test_the_allowance_says_what_noise_there_is():
    """As a plan hears it before any release, and as the releases then have it."""
    parts = [Part("a", 0.2, [("gaussian", 3)]), Part("b", 0.8, [("gaussian", 2)] * 4)]
    message_part = Rounds.message_part(parts)
    assert message_part.releases == [("gaussian", 3)]
    one = Allowance.plan([message_part], 2.0, 1e-6, "auto", "replace-one")
    rounds = Rounds(parts, one, 900.0)
    assert rounds.count == 5
    told = rounds.allowance()
    m = one.multiplier("message")
    for name in ("a", "b"):
        assert told.multiplier(name) == pytest.approx(m * np.sqrt(900 * 5))
    assert told.multiplier("b", 1) == pytest.approx(m * np.sqrt(900 * 5 / 4))
    assert rounds.ask(Asks(1), 1).noise == Discrete(m, "replace-one", 1.0)
    with pytest.raises(ValueError, match="devices add Gaussian noise"):
        Rounds.message_part([Part("a", 1.0, [("laplace", 3)])])


START = {
    "weights_init": [0.5, 0.5],
    "coef_init": np.eye(2),
    "intercept_init": [0, 0],
    "noise_variance_init": [1, 1],
}
LOCAL: dict[str, Any] = {"trust": "local", "epsilon": 4.0, "random_state": 0}
LIMITS = {"bounds": 1.0, "target_bounds": (-4, 4)}
MODELS = [
    CategoricalMixture(2, categories=[0, 1], **LOCAL),
    CategoricalMixture(3, categories=[0, 1], n_iter=2, accountant="rdp", **LOCAL),
    RegressionMixture(2, **LIMITS, **LOCAL),
    RegressionMixture(2, **LIMITS, **{**LOCAL, "epsilon": 0.1}),
    RegressionMixture(1, **LIMITS, n_iter=1, **LOCAL),
    RegressionMixture(2, **LIMITS, n_iter=2, **START, accountant="zcdp", **LOCAL),
    TableMixture(schema=[0, 1], **LOCAL),
]
every_model = pytest.mark.parametrize("model", MODELS, ids=lambda m: repr(m).replace("\n", ""))


def likes(n: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    one, two = [0.9, 0.8, 0.85, 0.8], [0.1, 0.25, 0.2, 0.15]
    return (rng.random((n, 4)) < np.where(rng.random((n, 1)) < 0.4, one, two)).astype(float)


def lines(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 2))
    y = np.where(rng.random(n) < 0.4, 2 * X[:, 0] + 0.5, -1.5 * X[:, 0] + X[:, 1] - 0.5)
    return X, y + 0.3 * rng.standard_normal(n)


def data_for(model: Any, n: int, seed: int = 0) -> tuple[Any, ...]:
    return lines(n, seed) if isinstance(model, RegressionMixture) else (likes(n, seed),)


@every_model
def test_a_local_fit_is_a_function_of_its_releases(model, monkeypatch):
    model, record = clone(model), Record()
    model._watch = record
    model.fit(*data_for(model, 600))
    again = clone(model)
    monkeypatch.setattr(Table, "source", lambda self, n_jobs: Recorded(record.releases))
    # Other people, as many: had they been looked at, it would show.
    again.fit(*(np.zeros_like(part) for part in data_for(model, 600)))
    names = {name for name in vars(model) if name.endswith("_")}
    assert names == {name for name in vars(again) if name.endswith("_")}
    for name in names:
        assert same(getattr(model, name), getattr(again, name)), name


@every_model
def test_a_local_fit_states_what_it_is(model, tmp_path):
    model = clone(model).fit(*data_for(model, 600))
    said = model.privacy_
    assert (said.trust, said.neighbours, said.unit) == ("local", "replace-one", "person")
    assert said.public["number of persons"] == "600"
    assert "own device" in str(said)
    cells = [group.cell for release in said.releases for group in release.groups]
    assert cells == list(range(len(cells)))  # one message, one round, one cell
    assert 0.99 * model.epsilon < said.spent <= model.epsilon
    assert recount(said).passed
    path = tmp_path / "model.json"
    model.save(path)
    assert audit_model_file(path).passed
    assert load(path).privacy_ == said
    # Planted: all rounds in one cell would be all messages of one person.
    together = tuple(
        replace(r, groups=tuple(replace(g, cell=0) for g in r.groups)) for r in said.releases
    )
    if len(together) > 1:
        assert not recount(replace(said, releases=together)).passed


@every_model
def test_everyone_sends_one_message(model, monkeypatch):
    seen: list[np.ndarray] = []

    def watched(stage, X):
        seen.append(X)
        return messages(stage, X)

    monkeypatch.setattr("privem.local.messages", watched)
    data = data_for(model, 300)
    clone(model).fit(*data)
    whole = np.column_stack(data)
    sent = np.concatenate(seen)
    assert 0 < len(sent) <= len(whole)
    if isinstance(model, RegressionMixture):  # whose records are all different
        assert len(np.unique(sent, axis=0)) == len(sent)


def test_memory_does_not_grow_with_people(monkeypatch):
    """A batch is 25 people here; all messages of 1200 at once would be 6 MB of integers."""
    monkeypatch.setattr("privem.local._BATCH", 2**14)
    rng = np.random.default_rng(0)
    sizes = (40,) * 8
    X = rng.integers(0, 40, (1200, 8)).astype(np.int32)
    query = Personal(ClassQuery(classes_of(sizes, 2, rng), sizes, 1.0), 8)
    peaks = []
    for n in (100, 300, 1200):  # the first warms up
        tracemalloc.start()
        Crowd(ArrayRows(X[:n])).release(Stage(query, DEVICE))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[2] < 1.2 * peaks[1]
    assert peaks[2] < 5e6


@pytest.mark.parametrize(
    ("model", "change", "given", "complaint"),
    [
        (MODELS[0], {"trust": "nobody"}, {}, "trust must be one of"),
        (MODELS[2], {"trust": "nobody"}, {}, "trust must be one of"),
        (MODELS[0], {"epsilon": None}, {}, "is for private fits"),
        (MODELS[2], {"epsilon": None}, {}, "is for private fits"),
        (MODELS[6], {"epsilon": None}, {}, "is for private fits"),
        (MODELS[6], {"trust": "nobody"}, {}, "trust must be one of"),
        (MODELS[6], {}, {"sample_weight": np.ones(20)}, "no groups and no sample weights"),
        (MODELS[6], {}, {"groups": np.arange(20)}, "no groups and no sample weights"),
        (MODELS[2], {"bounds": None}, {}, "needs bounds and target_bounds"),
        (MODELS[2], {"target_bounds": None}, {}, "needs bounds and target_bounds"),
        (MODELS[0], {}, {"sample_weight": np.ones(20)}, "no groups and no sample weights"),
        (MODELS[2], {}, {"sample_weight": np.ones(20)}, "no groups and no sample weights"),
        (MODELS[0], {}, {"groups": np.arange(20)}, "no groups and no sample weights"),
        (MODELS[2], {}, {"groups": np.arange(20)}, "no groups and no sample weights"),
        (MODELS[0], {"n_iter": 20}, {}, "21 rounds are more than n_samples=20"),
        (MODELS[2], {"n_iter": 17}, {}, "21 rounds are more than n_samples=20"),
    ],
)
def test_what_local_fits_refuse(model, change, given, complaint, monkeypatch):
    def never(self, stage):
        raise AssertionError("somebody was asked")

    monkeypatch.setattr(Crowd, "release", never)
    model = clone(model).set_params(**change)
    with pytest.raises(ValueError, match=complaint):
        model.fit(*data_for(model, 20), **given)
    assert not hasattr(model, "privacy_")


def test_rows_that_name_their_owners_are_refused(tmp_path):
    path = tmp_path / "rows.csv"
    X, y = lines(30, 0)
    table = np.column_stack([X, y, np.arange(30) // 2])
    np.savetxt(path, table, delimiter=",", header="a,b,y,who", comments="")
    rows = read_file(path, columns=["a", "b"], target="y", groups="who")
    with pytest.raises(ValueError, match="no groups and no sample weights"):
        clone(MODELS[2]).fit(rows)


@pytest.fixture
def seeded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise and cells that are the same in every run: the sampler has tests of its own."""
    rng = np.random.default_rng(7)
    monkeypatch.setattr(
        "privem.noise.discrete.discrete_gaussian",
        lambda variance, size, entropy: np.rint(rng.normal(0, float(variance) ** 0.5, size)).astype(
            np.int64
        ),
    )
    monkeypatch.setattr("privem.estimator.base.Crowd", lambda rows: Crowd(rows, bytes(32)))


def test_local_classes_beat_a_single_one(seeded):
    """At epsilon 4; the gain was between 0.30 and 0.41 in 60 fits with other noise."""
    test = likes(20_000, 9)
    single = CategoricalMixture(1, categories=[0, 1], epsilon=None).fit(test)
    model = clone(MODELS[0]).fit(likes(15_000, 1))
    assert model.score(test) > single.score(test) + 0.25


def test_local_tables_beat_independent_columns(seeded):
    """At epsilon 4; the gain was between 0.34 and 0.43 in 60 fits with other noise."""
    test = likes(20_000, 9)
    columns = TableMixture(schema=[0, 1], n_components=1, epsilon=None).fit(test)
    model = clone(MODELS[6]).fit(likes(15_000, 1))
    assert model.score(test) > columns.score(test) + 0.25


def test_local_regressions_beat_a_single_one(seeded):
    """At epsilon 8; the gain was between 0.48 and 0.87 in 40 fits with other noise."""

    def crossing(n, seed):
        rng = np.random.default_rng(seed)
        X = rng.uniform(-1, 1, (n, 1))
        sign = np.where(rng.random(n) < 0.4, 1, -1)
        return X, sign * (2 * X[:, 0] + 0.5) + 0.3 * rng.standard_normal(n)

    X, y = crossing(20_000, 9)
    single = RegressionMixture(1, epsilon=None).fit(X, y)
    model = clone(MODELS[2]).set_params(epsilon=8.0).fit(*crossing(40_000, 1))
    assert model.structure_ == "full"
    assert model.score(X, y) > single.score(X, y) + 0.4


def test_noise_that_drowns_regressions_leaves_one():
    model = clone(MODELS[2]).set_params(epsilon=0.5)
    with pytest.warns(UserWarning, match="^3,000 records are too few .*, trust local: all of them"):
        model.fit(*lines(3000, 1))
    assert model.structure_ == "single"
    assert model.n_iter_ == 10
    assert np.ptp(model.coef_, axis=0).max() == 0
