"""The contract of a model, for classes, regressions and missing covariates.

As in test_framed_models.py: sums add up, the M-step is total, EM climbs.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from privem.blocks.region import Region
from privem.blocks.sensitivity import MomentWeights
from privem.blocks.shrinkage import clip_radius
from privem.core import Block, Release, Scratch
from privem.data import LocalSource, read_rows
from privem.em import ExactEM
from privem.linalg import add, leaves, map_leaves, ravel, unravel
from privem.models.categorical_mixture.model import CategoricalModel, Classes
from privem.models.missing_regression.model import MissingCovariateModel
from privem.models.regression_mixture.model import Bounded, RegressionMixtureModel, Regressions
from privem.models.symmetric.model import Symmetric
from privem.run import Record, Recorded, run

from .test_framed_models import anything, assert_same_sums, seeds


class ClassesCase:
    def __init__(self, private):
        self.private = private

    def made(self, rng, n):
        sizes = tuple(int(m) for m in rng.integers(1, 5, rng.integers(1, 5)))
        k = int(rng.integers(1, 4))
        X = np.stack([rng.integers(0, m, n) for m in sizes], axis=1).astype(float)
        model = CategoricalModel(sizes, 1.0 if self.private else None)
        profiles = np.concatenate([rng.dirichlet(np.ones(m), size=k) for m in sizes], axis=1)
        return X, model, Classes(rng.dirichlet(np.ones(k)), model.valid(profiles, 1e-6))

    def check(self, model, state):
        assert (state.weights > 0).all()
        assert state.weights.sum() == pytest.approx(1, abs=1e-12)
        assert (state.profiles > 0).all()
        sums = np.add.reduceat(state.profiles, model._starts, axis=1)
        np.testing.assert_allclose(sums, 1, atol=1e-9)


class RegressionsCase:
    def __init__(self, private):
        self.private = private

    def made(self, rng, n):
        d, k = int(rng.integers(1, 4)), int(rng.integers(1, 4))
        X = rng.normal(size=(n, d + 1))
        X[:, -1] += np.where(rng.random(n) < 0.5, 1, -2) * X[:, 0]
        bounded = None
        if self.private:
            region = Region.box(np.full(d + 1, -3.0), np.full(d + 1, 3.0))
            bounded = Bounded(region, MomentWeights.balanced(d + 1, clip_radius(d + 1)))
        state = Regressions(
            rng.dirichlet(np.ones(k)),
            rng.normal(size=(k, d + 1)),
            rng.uniform(0.2, 2, k),
            np.eye(d) + np.tril(rng.normal(size=(d, d))) / 3,
            rng.normal(size=d) / 3,
        )
        return X, RegressionMixtureModel(1e-6, bounded), state

    def check(self, model, state):
        assert (state.weights > 0).all()
        assert state.weights.sum() == pytest.approx(1, abs=1e-12)
        assert np.isfinite(state.coefficients).all()
        assert np.isfinite(state.variances).all()
        assert (state.variances >= 1e-6).all()


class MissingCase:
    private = False

    def made(self, rng, n):
        d = int(rng.integers(1, 4))
        X = rng.normal(size=(n, d + 1))
        X[:, -1] += X[:, :-1].sum(axis=1)
        X[:, :-1][rng.random((n, d)) < 0.2] = np.nan
        return X, MissingCovariateModel(floor=1e-9), Symmetric(rng.normal(size=d), 1.3)

    def check(self, model, state):
        assert np.isfinite(state.beta).all()
        assert 1e-9 <= state.variance < np.inf


CASES: dict[str, Any] = {
    "classes": ClassesCase(False),
    "private classes": ClassesCase(True),
    "regressions": RegressionsCase(False),
    "private regressions": RegressionsCase(True),
    "missing covariates": MissingCase(),
}
every_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


@every_case
@settings(max_examples=15)
@given(seed=seeds)
def test_sums_add_up_and_weights_are_copies(case, seed):
    rng = np.random.default_rng(seed)
    X, model, state = case.made(rng, 60)
    query, scratch = model.query(state), Scratch()
    if case.private:  # weights above the cap would be cut
        cap = 4.0
        query = (
            replace(query, cap_weight=cap)
            if hasattr(query, "cap_weight")
            else replace(query, bounded=replace(query.bounded, cap_weight=cap))
        )
    weight = rng.integers(0, 4, len(X)).astype(float)
    whole = query(Block(X, weight), scratch)
    order = rng.permutation(len(X))
    cuts = np.sort(rng.integers(0, len(X) + 1, size=rng.integers(0, 6)))
    parts = [query(Block(X[i], weight[i]), scratch) for i in np.split(order, cuts)]
    total = parts[0]
    for part in parts[1:]:
        total = add(total, part)
    assert_same_sums(whole, total, weight.sum() + 1)
    repeated = query(Block(np.repeat(X, weight.astype(int), axis=0)), scratch)
    assert_same_sums(whole, repeated, weight.sum() + 1)


@every_case
def test_memory_used_again_leaves_no_trace(case):
    rng = np.random.default_rng(3)
    X, model, state = case.made(rng, 300)
    query, used = model.query(state), Scratch()
    query(Block(X), used)
    first = map_leaves(np.copy, query(Block(X[:100]), used))
    fresh = query(Block(X[:100]), Scratch())
    np.testing.assert_array_equal(ravel(first), ravel(fresh))


@every_case
@settings(max_examples=200)
@given(seed=st.integers(0, 20), noisy=st.booleans(), data=st.data())
def test_the_m_step_is_total(case, seed, noisy, data):
    X, model, state = case.made(np.random.default_rng(seed), 20)
    query = model.query(state)
    like = query(Block(X[:1]), Scratch())
    size = sum(leaf.size for leaf in leaves(like).values())
    numbers = data.draw(arrays(float, size, elements=anything))
    deviation = None
    if case.private and noisy:
        # Noise is never larger than what a lattice of 62 bits can hold.
        numbers = np.clip(numbers, -1e30, 1e30)
        deviation = unravel(like, np.full(size, data.draw(st.sampled_from([1e-9, 1.0, 1e6]))))
    new = model.m_step(state, Release(query, unravel(like, numbers), deviation))
    case.check(model, new)
    model.query(new)(Block(X), Scratch())


@pytest.mark.parametrize("size", [1e30, 1e39, 1e45, 1e79, 1e99, 1e153, 1e300])
@pytest.mark.parametrize("part", ["total", "second"])
def test_regressions_survive_sums_that_no_records_have(part, size):
    case = RegressionsCase(False)
    X, model, state = case.made(np.random.default_rng(5), 20)
    state = replace(state, variances=np.full_like(state.variances, 1e300))
    query = model.query(state)
    sums = query(Block(X), Scratch())
    sums = replace(sums, **{part: np.full_like(getattr(sums, part), size)})
    case.check(model, model.m_step(state, Release(query, sums, None)))


@every_case
@settings(max_examples=25)
@given(seed=seeds)
def test_the_m_step_survives_noise_on_real_sums(case, seed):
    rng = np.random.default_rng(seed)
    X, model, state = case.made(rng, 80)
    for _ in range(4):
        query = model.query(state)
        sums = query(Block(X), Scratch())
        size = 10.0 ** rng.uniform(-2, 6)
        noisy = map_leaves(lambda leaf, s=size: leaf + s * rng.normal(size=leaf.shape), sums)
        deviation = map_leaves(lambda leaf, s=size: np.full_like(leaf, s), sums)
        state = model.m_step(state, Release(query, noisy, deviation if case.private else None))
        case.check(model, state)


@pytest.mark.parametrize("case", [c for c in CASES.values() if not c.private])
@settings(max_examples=12)
@given(seed=seeds)
def test_exact_em_never_lowers_its_objective_and_replays(case, seed):
    X, model, state = case.made(np.random.default_rng(seed), 120)
    plan = ExactEM(model, state, 25, lambda change, old, new: False)
    record = Record()
    fit = run(plan, LocalSource(read_rows(X), 1), record)
    gains = np.diff(fit.history)
    assert gains.min() >= -1e-9 * max(1.0, np.max(np.abs(fit.history)))
    again = run(plan, Recorded(record.releases))
    for name, value in vars(fit.state).items():
        np.testing.assert_array_equal(value, getattr(again.state, name))
