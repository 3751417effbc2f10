"""Merging components: what a whole mixture stands for stays, and the loss is bounded."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import poisson

from privem.blocks.log_density import log_density
from privem.blocks.shrinkage import alike, means_of, weights_of
from privem.core import Scratch
from privem.models.gaussian_mixture.density import GaussianLogDensity
from privem.models.gaussian_mixture.model import Mixture
from privem.models.gaussian_mixture.structure import collapsed, groups_of, merged

TYPES = ("full", "tied", "diag", "spherical")


def mixture(kind, seed, k=5, d=3):
    rng = np.random.default_rng(seed)
    factors = rng.normal(size=(k, d, d))
    full = factors @ factors.transpose(0, 2, 1) + 0.3 * np.eye(d)
    shapes = {
        "full": full,
        "tied": full[0],
        "diag": np.diagonal(full, axis1=1, axis2=2).copy(),
        "spherical": full[:, 0, 0].copy(),
    }
    return Mixture(kind, rng.dirichlet(np.ones(k)), 3 * rng.normal(size=(k, d)), shapes[kind])


@pytest.mark.parametrize("kind", TYPES)
@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 2**31), components=st.integers(1, 5))
def test_mean_and_covariance_of_all_stay(kind, seed, components):
    before = mixture(kind, seed)
    after = merged(before, groups_of(before, components))
    after.check(3)
    assert len(after.means) == components
    for one, other in zip(collapsed(before), collapsed(after), strict=True):
        if kind == "spherical" and one.ndim == 1 and one is not collapsed(before)[0]:
            one, other = one.sum(), other.sum()
        if kind == "spherical" and np.ndim(one) == 0:
            assert other == pytest.approx(one, rel=1e-9)
        elif kind != "spherical":
            np.testing.assert_allclose(other, one, rtol=1e-9, atol=1e-9)


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 2**31), components=st.integers(1, 4))
def test_the_loss_is_at_most_what_is_said(seed, components):
    """In the mean over records of the mixture, by Runnalls' bound; six deviations are 1e-9."""
    before = mixture("full", seed, d=2)
    groups = groups_of(before, components)
    after = merged(before, groups)

    def entropy(one):
        return float(np.linalg.slogdet(one.covariances)[1] @ one.weights) / 2

    rng = np.random.default_rng(seed)
    which = rng.choice(5, 4000, p=before.weights)
    roots = np.linalg.cholesky(before.covariances)
    X = before.means[which] + np.einsum("nij,nj->ni", roots[which], rng.normal(size=(4000, 2)))
    one, other = (log_density(GaussianLogDensity(each), X, Scratch()) for each in (before, after))
    loss = one - other
    assert loss.mean() < entropy(after) - entropy(before) + 6 * loss.std() / np.sqrt(4000)


def test_components_lost_to_noise_are_left_out_if_there_are_enough():
    means = np.array([[0.0], [0.2], [9.0], [4.0]])
    variances = np.array([[1.0], [1.0], [1.0], [30.0]])
    found = Mixture("diag", np.array([0.4, 0.2, 0.3, 0.1]), means, variances)
    assert groups_of(found, 2, lost=(3,)) == [[0, 1], [2]]
    assert sorted(map(len, groups_of(found, 4, lost=(3,)))) == [1, 1, 1, 1]
    assert merged(found, [[0, 1], [2]]).weights.sum() == pytest.approx(1.0)


def test_any_family_of_components():
    weights, rates = np.array([0.5, 0.3, 0.2]), np.array([[1.0], [8.0], [1.2]])

    def part(group):
        rate = means_of(weights, rates, [group])[0]
        return -float(weights[group].sum() * (rate @ np.log(rate)))

    groups = alike(range(3), 2, part)
    assert groups == [[0, 2], [1]]
    merged_rates, merged_weights = means_of(weights, rates, groups), weights_of(weights, groups)
    at = np.arange(60)
    before = weights @ poisson.pmf(at, rates)
    after = merged_weights @ poisson.pmf(at, merged_rates)
    loss = float(before @ np.log(before / after))
    bound = part([0, 2]) - part([0]) - part([2])
    assert 0 < loss <= bound
