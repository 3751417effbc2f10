"""Private fits of many columns: no release of the size d x d, under the same bounds."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

from privem import BoundsNotFound, GaussianMixture, KMeans
from privem.blocks.histograms import CELLS
from privem.blocks.sensitivity import MomentWeights
from privem.blocks.shrinkage import clip_radius
from privem.ground import Preamble
from privem.models.gaussian_mixture.model import Mixture
from privem.models.gaussian_mixture.query import BoundedQuery
from privem.models.kmeans.private_plan import frame_sizes

from .test_sensitivity import NEIGHBOURS, nasty, opposites, region_of, vectors, worst


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "model",
    [
        KMeans(3),
        KMeans(3, mechanism="dplloyd"),
        GaussianMixture(3, covariance_type="diag"),
        GaussianMixture(3, covariance_type="spherical", mechanism="joint"),
    ],
    ids=repr,
)
def test_no_release_grows_with_the_square_of_the_columns(model):
    """A histogram of half octaves, about 2,000 numbers in all, is the most that a column needs."""
    d = 300
    X = np.random.default_rng(0).normal(size=(500, d))
    model = clone(model).set_params(random_state=0, bounds=(-8.0, 8.0)).fit(X)
    means = model.cluster_centers_ if isinstance(model, KMeans) else model.means_
    assert means.shape == (3, d)
    assert np.isfinite(means).all()
    numbers = [group.dimension for one in model.privacy_.releases for group in one.groups]
    assert max(numbers) <= 80 * d
    assert model.privacy_.spent <= 1.0
    bounds = [size for part in Preamble(d, None, None).parts() for _, size in part.releases]
    assert max(bounds) == CELLS * d
    assert sum(bounds) < 2000 * d


@pytest.mark.parametrize("d", [10, 257])
def test_the_frame_asks_for_as_many_numbers_as_it_says(d):
    assert frame_sizes(256) == (258, 257 + 256 * 257 // 2)
    X = np.random.default_rng(0).normal(size=(50, d))
    asked = []

    class Watched(KMeans):
        def _watch(self, stage, release):
            asked.append((stage.name, sum(s.dimension for s in release.spent)))

    Watched(2, bounds=(-5, 5)).fit(X)
    assert tuple(n for name, n in asked if name.startswith("frame")) == frame_sizes(d)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["diag", "spherical"])
def test_a_wide_mixture_is_near_the_exact_one(kind):
    """With a generous budget: variances within a fifth, means within a quarter of a deviation.

    The noise on a variance is some 0.005 of it and on a mean some 0.01 deviations: what is allowed
    is more than 20 of its deviations.
    """
    rng = np.random.default_rng(0)
    scales = rng.uniform(0.5, 2.0, 300) if kind == "diag" else np.ones(300)
    X = rng.normal(size=(20_000, 300)) * scales + 1.0
    model = GaussianMixture(1, covariance_type=kind, epsilon=100.0, bounds=(-16, 16)).fit(X)
    np.testing.assert_allclose(model.covariances_[0] / scales**2, 1.0, atol=0.2)
    assert np.abs((model.means_[0] - 1.0) / scales).max() < 0.25


@pytest.mark.parametrize("neighbours", NEIGHBOURS)
@settings(max_examples=25)
@given(seed=st.integers(0, 2**32 - 1), d=st.integers(1, 4))
def test_a_diagonal_frame_keeps_its_bound(neighbours, seed, d):
    rng = np.random.default_rng(seed)
    region = region_of("box", d)
    r, half = clip_radius(d), math.sqrt(0.5)
    ball = Mixture(
        "diag", np.ones(1), rng.uniform(-1, 1, (1, d)), np.full((1, d), rng.uniform(1e-4, 1))
    )
    weights = MomentWeights(0.0, half / r, half / r**2, r)
    query = BoundedQuery(ball, region, weights, "whitened", 1000.0)
    X = np.concatenate([nasty(region, ball.means, rng), opposites(query, rng)])
    worst(query, vectors(query, X), neighbours)
    balanced = MomentWeights.balanced(d, r, count=False, diagonal=True)
    query = BoundedQuery(ball, region, balanced, "whitened", 1000.0)
    worst(query, vectors(query, X), neighbours)


def test_long_columns_are_found_and_split():
    """Four clusters along two of 300 columns, one deviation of noise each; epsilon is generous.

    Cells hold hundreds of deviations of their noise, and the two columns have 50 times the variance
    of the others: nothing here is near an edge.
    """
    rng = np.random.default_rng(0)
    corner = rng.integers(0, 2, (20_000, 2)) * 14.0 - 7.0
    X = rng.normal(size=(20_000, 300))
    X[:, [5, 200]] += corner
    model = KMeans(4, epsilon=50.0, bounds=(-16, 16), random_state=0).fit(X)
    found = np.sort(np.round(model.cluster_centers_[:, [5, 200]] / 7).astype(int), axis=0)
    assert found.tolist() == [[-1, -1], [-1, -1], [1, 1], [1, 1]]
    others = np.delete(model.cluster_centers_, [5, 200], axis=1)
    assert np.abs(others).max() < 1.5


def test_an_error_about_many_columns_names_a_few_of_them():
    X = np.random.default_rng(0).normal(size=(50, 300))
    with pytest.raises(BoundsNotFound, match=r"find bounds of columns .* 9 and 290 more "):
        KMeans(2, epsilon=0.1, random_state=0).fit(X)
