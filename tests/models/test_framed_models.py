"""Models that live in a frame, from random states: sums add up, the M-step is total, EM climbs.

As tests/contracts/test_every_model.py has it for every model, by way of its fits.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from privem.blocks.moments import FramePlan
from privem.core import Block, Release, Scratch
from privem.data import LocalSource, read_rows
from privem.em import ExactEM
from privem.linalg import add, leaves, map_leaves, unravel
from privem.models.gaussian_mixture.m_step import GaussianMixtureModel, Prior
from privem.models.gaussian_mixture.model import COVARIANCE_TYPES, Mixture
from privem.models.kmeans.model import Clusters, KMeansModel
from privem.noise import Exact
from privem.run import run


def usual_prior(d):
    return Prior(2.0, np.zeros(d), 1.0, d + 2.0, 0.1 * np.eye(d))


def frame_of(X):
    return run(FramePlan([str(j) for j in range(X.shape[1])]), LocalSource(read_rows(X), 1))


@dataclass(frozen=True)
class MixtureCase:
    """How to make a mixture model and a random valid state for it, and what valid means."""

    covariance_type: str
    prior: bool
    direct: bool = False

    def model(self, frame, reg_covar=1e-6):
        prior = usual_prior(len(frame.origin)) if self.prior else None
        return GaussianMixtureModel(self.covariance_type, frame, reg_covar, prior)

    def state(self, frame, k, rng):
        d = len(frame.origin)
        means = rng.multivariate_normal(frame.mean, frame.covariance, size=k, method="eigh")
        a = rng.normal(size=(k, 2 * d, d)) * np.sqrt(np.diag(frame.covariance) / (2 * d))
        full = np.einsum("kni,knj->kij", a, a)
        covariances = {
            "full": full,
            "tied": full[0],
            "diag": np.einsum("kii->ki", full),
            "spherical": np.einsum("kii->k", full) / d,
        }[self.covariance_type]
        return Mixture(self.covariance_type, rng.dirichlet(np.ones(k)), means, covariances)

    def query(self, model, state):
        return replace(model.query(state), direct=self.direct)

    def check_valid(self, state):
        k, d = state.means.shape
        assert (state.weights > 0).all()
        assert state.weights.sum() == pytest.approx(1.0, abs=1e-12)
        assert np.isfinite(state.means).all()
        c = state.covariances
        match self.covariance_type:
            case "full":
                matrices = c
            case "tied":
                matrices = c[None]
            case "diag":
                matrices = c[..., None] * np.eye(d)
            case _:
                matrices = c[..., None, None] * np.eye(d)
        assert matrices.shape == (1 if self.covariance_type == "tied" else k, d, d)
        assert np.isfinite(matrices).all()
        np.linalg.cholesky(matrices)  # raises unless positive definite
        assert np.isfinite(state.whiteners).all()


class KMeansCase:
    def model(self, frame, reg_covar=0.0):
        return KMeansModel(frame)

    def state(self, frame, k, rng):
        return Clusters(rng.multivariate_normal(frame.mean, frame.covariance, k, method="eigh"))

    def query(self, model, state):
        return model.query(state)

    def check_valid(self, state):
        assert np.isfinite(state.centres).all()


MODELS: dict[str, Any] = {"k-means": KMeansCase()}
for kind in COVARIANCE_TYPES:
    MODELS[kind] = MixtureCase(kind, prior=False)
    MODELS[f"{kind}-map"] = MixtureCase(kind, prior=True)
    MODELS[f"{kind}-direct"] = MixtureCase(kind, prior=False, direct=True)

every_model = pytest.mark.parametrize("case", MODELS.values(), ids=MODELS)
seeds = st.integers(0, 2**32 - 1)


def made(case, seed, n=60, reg_covar=1e-6, scale=1.0):
    """Rows in two heaps, a model of them and a random state."""
    rng = np.random.default_rng(seed)
    d, k = int(rng.integers(1, 6)), int(rng.integers(1, 5))
    X = rng.normal(size=(n, d)) + 3.0 * rng.integers(0, 2, size=(n, 1)) + rng.normal(size=d)
    X *= scale
    frame = frame_of(X)
    return X, case.model(frame, reg_covar), case.state(frame, k, rng), rng


def assert_same_sums(first, second, size):
    """Equal to the rounding of sums of ``size`` records."""
    for (name, a), b in zip(leaves(first).items(), leaves(second).values(), strict=True):
        atol = 1e-14 * size * max(1.0, float(np.max(np.abs(a), initial=0.0)))
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=atol, err_msg=name)


@every_model
@settings(max_examples=15)
@given(seed=seeds)
def test_sums_add_up_over_any_split_in_any_order(case, seed):
    X, model, state, rng = made(case, seed)
    query, scratch = case.query(model, state), Scratch()
    weight = rng.uniform(0, 3, len(X))
    whole = query(Block(X, weight), scratch)
    order = rng.permutation(len(X))
    cuts = np.sort(rng.integers(0, len(X) + 1, size=rng.integers(0, 8)))  # empty parts too
    parts = [query(Block(X[i], weight[i]), scratch) for i in np.split(order, cuts)]
    total = parts[0]
    for part in parts[1:]:
        total = add(total, part)
    assert_same_sums(whole, total, weight.sum())


@every_model
def test_sums_add_up_across_the_tiles_of_a_kernel(case):
    # More rows than one tile of any kernel holds, and not a multiple of it.
    X, model, state, _rng = made(case, 5, n=20_011)
    query, scratch = case.query(model, state), Scratch()
    whole = query(Block(X), scratch)
    parts = add(query(Block(X[:7]), scratch), query(Block(X[7:]), scratch))
    assert_same_sums(whole, parts, len(X))


@every_model
@settings(max_examples=15)
@given(seed=seeds)
def test_a_weight_is_a_number_of_copies(case, seed):
    X, model, state, rng = made(case, seed)
    query, scratch = case.query(model, state), Scratch()
    copies = rng.integers(0, 4, len(X))
    weighted = query(Block(X, copies.astype(float)), scratch)
    repeated = query(Block(np.repeat(X, copies, axis=0)), scratch)
    assert_same_sums(weighted, repeated, copies.sum() + 1)
    ones = query(Block(X, np.ones(len(X))), scratch)
    assert_same_sums(ones, query(Block(X), scratch), len(X))


@every_model
def test_memory_used_again_leaves_no_trace(case):
    X, model, state, _ = made(case, 8, n=500)
    query, used = case.query(model, state), Scratch()
    query(Block(1e3 * X), used)
    first, fresh = query(Block(X[:100]), used), query(Block(X[:100]), Scratch())
    for a, b in zip(leaves(first).values(), leaves(fresh).values(), strict=True):
        np.testing.assert_array_equal(a, b)
    kept = map_leaves(np.copy, first)
    query(Block(X[100:]), used)  # must not overwrite what was handed out
    for a, b in zip(leaves(kept).values(), leaves(first).values(), strict=True):
        np.testing.assert_array_equal(a, b)


anything = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False),
    st.floats(-10, 10),
    st.sampled_from([0.0, -0.0, 5e-324, -5e-324, 1e-300, 1e150, -1e150, 1e300, -1e300, 1.7e308]),
)


@every_model
@settings(max_examples=300)
@given(
    seed=st.integers(0, 20), scale=st.sampled_from([1e-100, 1e-5, 1, 1e5, 1e100]), data=st.data()
)
def test_the_m_step_is_total(case, seed, scale, data):
    reg_covar = data.draw(st.sampled_from([1e-6, 0.0]))
    _, model, state, _ = made(case, seed, reg_covar=reg_covar, scale=scale)
    query = case.query(model, state)
    like = query(Block(np.zeros((1, len(model.frame.origin)))), Scratch())
    size = sum(leaf.size for leaf in leaves(like).values())
    statistics = unravel(like, data.draw(arrays(float, size, elements=anything)))
    new = model.m_step(state, Release(query, statistics))
    case.check_valid(new)
    model.query(new)  # the next question can be asked


@every_model
@settings(max_examples=25)
@given(seed=seeds)
def test_the_m_step_survives_noise_on_real_sums(case, seed):
    """What a private release looks like: true sums plus noise many times their size."""
    X, model, state, rng = made(case, seed)
    for _ in range(4):
        query = case.query(model, state)
        sums = query(Block(X), Scratch())
        size = 10.0 ** rng.uniform(-2, 6)
        noisy = map_leaves(lambda leaf, s=size: leaf + s * rng.normal(size=leaf.shape), sums)
        state = model.m_step(state, Release(query, noisy, size))
        case.check_valid(state)


@every_model
@settings(max_examples=12)
@given(seed=seeds)
def test_exact_em_never_lowers_its_objective(case, seed):
    X, model, state, _ = made(case, seed, n=120, reg_covar=0.0)
    fit = run(
        ExactEM(model, state, 25, lambda change, old, new: False), LocalSource(read_rows(X), 1)
    )
    gains = np.diff(fit.history)
    assert gains.min() >= -1e-10 * np.max(np.abs(fit.history))
    assert fit.history[-1] > fit.history[0]


@pytest.mark.parametrize("kind", COVARIANCE_TYPES)
@settings(max_examples=15)
@given(seed=seeds)
def test_both_kernels_give_the_same_parameters(kind, seed):
    X, model, state, _ = made(MixtureCase(kind, prior=False), seed, n=300)
    new, values = [], []
    for direct in (False, True):
        query = MixtureCase(kind, False, direct).query(model, state)
        release = Exact().release(query, query(Block(X), Scratch()))
        new.append(model.m_step(state, release))
        values.append(model.objective(state, release))
    assert values[0] == pytest.approx(values[1], rel=1e-11)
    for name in ("weights", "means", "covariances"):
        a, b = getattr(new[0], name), getattr(new[1], name)
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-9, err_msg=name)
