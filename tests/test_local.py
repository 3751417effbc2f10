"""Local privacy: what a device sends depends on its record, the stage, and its own noise."""

import itertools
import tracemalloc

import numpy as np
import pytest

from privem import SymmetricMixture, SymmetricRegressionMixture, private_mean
from privem.audit import recount
from privem.blocks.bounded_sums import Cell
from privem.blocks.bounding import Clip, Robust
from privem.blocks.gradient import BoundedGradientQuery, Squares
from privem.blocks.region import Region
from privem.blocks.robust_mean import RobustMeanQuery
from privem.core import Stage
from privem.data import ArrayRows
from privem.local import Crowd, Server, message, messages
from privem.models.symmetric.query import (
    DirectionsQuery,
    SquaresQuery,
    SymmetricGradient,
    SymmetricRegressionGradient,
)
from privem.noise.discrete import Discrete

D = 3
REGION, TARGET = Region.around_origin(5.0, D), Region.around_origin(9.0, 1)
QUERIES = {
    "mean": RobustMeanQuery(np.zeros(D), np.ones(D), Robust(2.0, 1.73)),
    "gradient": BoundedGradientQuery(
        SymmetricGradient(np.ones(D), 1.0), Clip(2.0), REGION, None, Squares(0.1, 9.0)
    ),
    "regression": BoundedGradientQuery(
        SymmetricRegressionGradient(np.ones(D), 1.0), Clip(2.0), REGION, TARGET
    ),
    "directions": DirectionsQuery(REGION, 1.0, None, TARGET, 2.0),
    "squares": SquaresQuery(REGION, (5.0, 9.0), TARGET),
}
every_query = pytest.mark.parametrize("name", QUERIES)


def stage_of(name, multiplier=4.0):
    return Stage(QUERIES[name], Discrete(multiplier, "replace-one", 1.0), name)


def people(n, seed=0):
    return np.random.default_rng(seed).normal(size=(n, D + 1)) * 3


def records_for(name, n, seed=0):
    X = people(n, seed)
    return (
        X
        if QUERIES[name].__class__ in (SquaresQuery, DirectionsQuery) or name == "regression"
        else X[:, :D]
    )


@pytest.fixture
def silent(monkeypatch):
    """Devices without noise: what is left of a message is a function of the record."""
    monkeypatch.setattr(
        "privem.noise.discrete.discrete_gaussian",
        lambda variance, size, entropy: np.zeros(size, dtype=np.int64),
    )


@every_query
def test_a_message_is_a_function_of_one_record(name, silent):
    X = records_for(name, 50)
    stage = stage_of(name)
    alone = np.stack([message(stage, x) for x in X])
    np.testing.assert_array_equal(alone, np.stack([message(stage, x) for x in X]))
    # Among others, in another order, after a change of everybody else: to rounding, the same.
    together = messages(stage, X)
    assert np.abs(together - alone).max() <= 1
    other = X.copy()
    other[1:] = people(49, 1)[:, : X.shape[1]]
    assert np.abs(messages(stage, other)[0] - alone[0]).max() <= 1
    # And it does depend on the record.
    assert (np.abs(messages(stage, other)[1:] - alone[1:]).max(axis=1) > 1).all()


@every_query
def test_messages_are_integers_within_what_is_charged(name, silent):
    """Any two records, however far out: no further apart than the noise was made for."""
    X = np.concatenate([records_for(name, 30), 1e9 * records_for(name, 10, 5)])
    stage = stage_of(name)
    sent = messages(stage, X)
    assert sent.dtype == np.int64
    (spent,) = stage.noise.price(stage.query)
    most = max(np.linalg.norm((a - b).astype(float)) for a, b in itertools.combinations(sent, 2))
    assert most <= spent.steps / spent.multiplier


def test_every_device_draws_its_own_noise():
    sent = messages(stage_of("mean"), np.zeros((2000, D)))
    (spent,) = stage_of("mean").noise.price(QUERIES["mean"])
    assert len(np.unique(sent)) > 5900
    assert np.std(sent) == pytest.approx(spent.steps, rel=0.05)
    correlation = np.corrcoef(sent.T)
    assert np.abs(correlation - np.eye(D)).max() < 0.15


@every_query
def test_the_server_only_sums(name):
    stage = stage_of(name)
    X = records_for(name, 40)
    server, sent = Server(stage), [message(stage, x) for x in X]
    for one in sent:
        server.add(one)
    release = server.release()
    (spent,) = stage.noise.price(stage.query)
    from privem.linalg import ravel

    np.testing.assert_array_equal(ravel(release.statistics), np.sum(sent, axis=0) * spent.grid)
    assert server.people == 40
    np.testing.assert_allclose(ravel(release.deviation), spent.deviation * np.sqrt(40))
    assert Server(stage).release().statistics  # a round in which nobody answers


def test_noise_for_sums_is_not_taken_for_a_device():
    query = QUERIES["mean"]
    for noise in (Discrete(1.0, "add-remove", 1.0), Discrete(1.0, "replace-one", 50.0)):
        with pytest.raises(ValueError, match="a device adds noise for its one record"):
            message(Stage(query, noise), np.zeros(D))


def test_everyone_answers_one_round_only(monkeypatch):
    asked = []
    monkeypatch.setattr(
        "privem.local.messages",
        lambda stage, X: asked.append(X) or np.zeros((len(X), D), dtype=np.int64),
    )
    X = np.arange(3000.0).reshape(1000, D)
    crowd = Crowd(ArrayRows(X))
    for index in range(4):
        query = RobustMeanQuery(np.zeros(D), np.ones(D), Clip(1.0), cell=Cell(index, 4))
        crowd.release(Stage(query, Discrete(1.0, "replace-one", 1.0)))
    np.testing.assert_array_equal(np.sort(np.concatenate(asked)[:, 0]), X[:, 0])


def test_a_million_people_in_bounded_memory():
    X = np.random.default_rng(0).standard_t(3, size=1_000_000)
    X += 1.0
    tracemalloc.start()
    mean = private_mean(X, tau=4.0, trust="local")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 40e6  # X itself has 8 MB and is not copied
    # Five deviations of the noise and the bound on the bias: fails once in a million.
    assert abs(float(mean) - 1.0) < 5 * mean.deviation + mean.bias
    assert mean.deviation < 0.1


def test_local_fits_state_what_they_are():
    rng = np.random.default_rng(0)
    X = rng.choice([-1, 1], 30_000)[:, None] * [2.0, 1.0] + rng.normal(size=(30_000, 2))
    model = SymmetricMixture(epsilon=2.0, bounds=8, trust="local").fit(X)
    assert model.privacy_.trust == "local"
    assert model.privacy_.neighbours == "replace-one"
    assert "own device" in str(model.privacy_)
    assert recount(model.privacy_).passed
    cells = [group.cell for r in model.privacy_.releases for group in r.groups]
    assert sorted(cells) == list(range(len(cells)))
    y = X @ [1.0, -1.0]
    fitted = SymmetricRegressionMixture(epsilon=2.0, bounds=8, target_bounds=9, trust="local")
    assert fitted.fit(X, y).privacy_.trust == "local"


@pytest.mark.parametrize(
    ("change", "given", "complaint"),
    [
        ({"bounds": None}, {}, "needs bounds"),
        ({}, {"sample_weight": np.ones(20)}, "no groups and no sample weights"),
        ({}, {"groups": np.arange(20)}, "no groups and no sample weights"),
        ({"epsilon": None}, {}, "is for private fits"),
        ({"n_iter": 21}, {}, "more than n_samples=20"),
    ],
)
def test_what_local_fits_refuse(change, given, complaint):
    model = SymmetricMixture(**{"epsilon": 1.0, "bounds": 3, "trust": "local", **change})
    with pytest.raises(ValueError, match=complaint):
        model.fit(np.ones((20, 2)), **given)
