"""Private latent classes: a start from pairs alone, pooled tables, and whether classes pay."""

import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment
from scipy.special import logsumexp

from privem import CategoricalMixture
from privem.core import Release, Scratch
from privem.em import pooled
from privem.estimator.warnings import at_end
from privem.linalg import svec
from privem.models.categorical_mixture.model import (
    CategoricalModel,
    Classes,
    ClassLogDensity,
    ClassSums,
)
from privem.models.categorical_mixture.pairs import (
    Pairs,
    classes_from_pairs,
    fitted_to_pairs,
)

SIZES = (4, 3, 5, 2, 6, 3, 4, 2, 5, 3)


def near_deterministic(k: int, seed: int) -> Classes:
    """Classes of which each has one category in most columns."""
    rng = np.random.default_rng(seed)
    columns = []
    for size in SIZES:
        table = np.full((k, size), 0.05 / size)
        table[np.arange(k), rng.integers(size, size=k)] += 0.95
        columns.append(table)
    return Classes(rng.dirichlet(np.full(k, 5.0)), np.concatenate(columns, axis=1))


def drawn(state: Classes, n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    z = rng.choice(len(state.weights), n, p=state.weights)
    tables = np.split(state.profiles, np.cumsum(SIZES)[:-1], axis=1)
    codes = [(rng.random((n, 1)) > np.cumsum(t, axis=1)[z]).sum(axis=1) for t in tables]
    return np.minimum(np.stack(codes, axis=1), np.array(SIZES) - 1), z


def apart(found: Classes, true: Classes) -> float:
    """The largest error of a probability, classes matched in the best order."""
    errors = np.abs(found.profiles[:, None] - true.profiles).max(axis=2)
    return float(errors[linear_sum_assignment(errors)].max())


@settings(max_examples=25)
@given(seed=st.integers(0, 2**32 - 1), scale=st.sampled_from([1e-3, 1.0, 1e3, 1e200]))
def test_the_nearest_probabilities(seed: int, scale: float) -> None:
    """In every column they are nearer than any others that are tried."""
    rng, model = np.random.default_rng(seed), CategoricalModel(SIZES)
    given_ = rng.normal(size=(3, sum(SIZES))) * scale
    found = model.nearest(given_)
    assert (found >= 0).all()
    if scale > 1e6:
        return
    np.testing.assert_allclose(model.column_sums(found), 1.0, atol=1e-6 * max(scale, 1))
    others = model.nearest(found + 0.1 * rng.normal(size=found.shape))
    away = [model.column_sums((part - given_) ** 2) for part in (found, others)]
    assert (away[0] <= away[1] + 1e-9 * (1 + scale**2)).all()


@pytest.mark.parametrize("k", [2, 3, 5])
def test_pairs_without_noise_give_the_classes_away(k: int) -> None:
    true, model = near_deterministic(k, k), CategoricalModel(SIZES)
    matrix = np.einsum("k,ka,kb->ab", true.weights, true.profiles, true.profiles)
    matrix = np.where(model.inside, np.diag(true.weights @ true.profiles), matrix)
    pairs = Pairs(svec(matrix) / len(SIZES) * 1000)
    start = classes_from_pairs(pairs, SIZES, 1000.0, k, np.random.default_rng(0))
    assert apart(start, true) < 0.1
    np.testing.assert_allclose(np.sort(start.weights), np.sort(true.weights), atol=0.02)
    # The truth is where least squares stays.
    stayed, error = fitted_to_pairs(np.where(model.inside, 0.0, matrix), model, true, 5)
    assert apart(stayed, true) < 1e-6
    assert error == pytest.approx(-np.sum(np.where(model.inside, 0.0, matrix) ** 2))


@settings(max_examples=15)
@given(seed=st.integers(0, 2**32 - 1), scale=st.sampled_from([0.0, 1.0, 1e6, 1e300, np.nan]))
def test_any_pairs_give_a_valid_start(seed: int, scale: float) -> None:
    rng, p = np.random.default_rng(seed), sum(SIZES)
    pairs = Pairs(rng.normal(size=p * (p + 1) // 2) * scale)
    k = int(rng.integers(2, 5))
    start = classes_from_pairs(pairs, SIZES, float(rng.choice([1.0, 1e4])), k, rng)
    model = CategoricalModel(SIZES)
    assert (start.weights > 0).all()
    assert start.weights.sum() == pytest.approx(1)
    assert (start.profiles > 0).all()
    np.testing.assert_allclose(model.column_sums(start.profiles), 1.0, atol=1e-9)


def test_pooled_releases() -> None:
    def release(value: float, noise: float) -> Release[ClassSums]:
        sums = [ClassSums(np.full(2, x), np.full((2, 3), x)) for x in (value, noise)]
        return Release("query", *sums)  # type: ignore[arg-type]

    one = pooled([release(1.0, 3.0), release(5.0, 4.0)])
    assert (one.statistics.count == 3.0).all()
    assert one.deviation is not None
    np.testing.assert_allclose(one.deviation.table, 2.5)  # sqrt(9 + 16)/2
    assert one.statistics.likelihood is None


def fitted(X: np.ndarray, k: int = 3, **how: Any) -> CategoricalMixture:
    known = [list(range(m)) for m in SIZES]
    return CategoricalMixture(k, categories=known, random_state=0, **how).fit(X)


def test_a_rare_class_is_found() -> None:
    """Two per cent of the records, in a column of their own."""
    true = near_deterministic(3, 8)
    true = Classes(np.array([0.5, 0.48, 0.02]), true.profiles)
    X, _ = drawn(true, 20_000, 0)
    model = fitted(X, epsilon=4.0)
    assert model.structure_ == "full"
    # Noise costs less than a tenth of a nat.
    density = ClassLogDensity(true, SIZES)
    truth = logsumexp(density.log_joint(X.astype(float), Scratch()), axis=0).mean()
    assert model.score(X) > truth - 0.1
    assert np.sort(model.weights_)[0] == pytest.approx(0.02, abs=0.01)


def test_one_class_serves_all_where_noise_drowns_more() -> None:
    X, _ = drawn(near_deterministic(3, 1), 300, 0)
    with pytest.warns(UserWarning, match="too few for 3 classes .* one"):
        model = fitted(X, epsilon=0.05)
    assert model.structure_ == "single"
    assert (model.category_probs_[0] == model.category_probs_[0][0]).all()
    assert [record.name for record in model.privacy_.releases] == ["count", "EM 1"]
    # All of the budget goes into that one table.
    assert model.privacy_.spent > 0.99 * 0.05


def test_classes_that_gain_nothing_are_given_up() -> None:
    """Columns are independent, and so noisy that three classes describe noise."""
    rng = np.random.default_rng(0)
    X = np.stack([rng.integers(0, m, 3000) for m in SIZES], axis=1)
    found = []
    for _ in range(8):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found.append(fitted(X, epsilon=0.2))
    assert "contest" in [record.name for record in found[0].privacy_.releases]
    # 152 of 160 fits gave them up: that none of eight does has a probability below 1e-9.
    assert any(model.structure_ == "single" for model in found)


def test_classes_that_are_alike_are_said_to_be() -> None:
    X, _ = drawn(near_deterministic(3, 1), 4000, 0)
    model = fitted(X)  # warnings are errors: these classes are told apart
    for table in model.category_probs_:
        table[2] = table[0] + 1e-4 * (table[1] - table[0])
    with at_end() as waiting:
        model._advise()
    ((message, _),) = waiting
    assert message.startswith("classes 0 and 2 cannot be told apart")


@pytest.mark.parametrize("accountant", ["linear", "advanced"])
def test_accountants_that_fix_the_plan(accountant: str) -> None:
    X, _ = drawn(near_deterministic(2, 2), 5000, 0)
    model = fitted(X, 2, epsilon=8.0, accountant=accountant)
    assert model.privacy_.spent <= 8.0
    with pytest.warns(UserWarning, match="too few"):
        drowned = fitted(X[:200], 2, epsilon=0.05, accountant=accountant)
    assert drowned.structure_ == "single"
