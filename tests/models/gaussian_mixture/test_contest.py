"""What a private fit asks about mixtures it has: a contest, and a profile of density ratios."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privem.blocks.conditions import Unsound
from privem.blocks.log_density import ContestQuery
from privem.blocks.region import Background, Region
from privem.core import Block, Scratch
from privem.linalg import Array
from privem.models.gaussian_mixture.density import (
    LEAST,
    MOST,
    RATIOS,
    GaussianLogDensity,
    RatioQuery,
    forecast_weight,
    weight_of,
)
from privem.models.gaussian_mixture.model import Mixture

REGIONS = {"box": Region.box(np.full(3, -4.0), np.full(3, 6.0)), "ball": Region.around_origin(5, 3)}


def mixture(seed: int, k: int = 2, d: int = 3) -> Mixture:
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(k, d, d)) * rng.choice([1e-3, 1.0, 10.0])
    covariances = root @ np.swapaxes(root, 1, 2) + 1e-6 * np.eye(d)
    return Mixture("full", rng.dirichlet(np.ones(k)), rng.normal(size=(k, d)), covariances)


def records(seed: int, n: int) -> Array:
    """Inside, far outside, infinite, NaN."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3)) * rng.choice([0.1, 3.0, 1e9], (n, 1))
    X[:3] = np.inf, -np.inf, np.nan
    return X


def contest(seed: int, region: Region, limit: float = 4.0, cap: float = 1.0) -> ContestQuery:
    flat = Background(0.05, region)
    one, two = (replace(mixture(s), background=flat) for s in (seed, seed + 1))
    return ContestQuery(GaussianLogDensity(one), GaussianLogDensity(two), limit, cap)


@settings(max_examples=12)
@given(
    seed=st.integers(0, 2**32 - 2),
    region=st.sampled_from(sorted(REGIONS)),
    cap=st.sampled_from([1.0, 0.25, 3.0]),
)
def test_no_record_says_more_than_the_limit(seed: int, region: str, cap: float) -> None:
    query = contest(seed, REGIONS[region], 0.5, cap)
    X = records(seed, 40)
    weight = np.random.default_rng(seed).choice([0.0, cap, 1e300, np.inf, -1.0, np.nan], 40)
    each = [query(Block(X[i : i + 1], weight[i : i + 1]), Scratch()).total[0] for i in range(40)]
    moved = {"add-remove": np.abs(each).max(), "replace-one": np.max(each) - np.min(each)}
    for neighbours, most in moved.items():
        (group,) = query.groups(neighbours)
        bound = 0.5 * cap * (2 if neighbours == "replace-one" else 1)
        assert bound <= group.sensitivity <= bound * (1 + 2.0**-39)
        assert most <= group.sensitivity + query.rounding(2.0) * 2


@settings(max_examples=12)
@given(seed=st.integers(0, 2**32 - 2), region=st.sampled_from(sorted(REGIONS)))
def test_a_records_place_moves_sums_within_the_rounding(seed: int, region: str) -> None:
    where, X = REGIONS[region], records(seed, 101)
    queries = [contest(seed, where), RatioQuery(mixture(seed), where, RATIOS)]
    for query in queries:
        whole, scratch = query(Block(X, None), Scratch()), Scratch()
        parts = [query(Block(X[i : i + 1], None), scratch) for i in range(len(X))]
        name = "total" if isinstance(query, ContestQuery) else "counts"
        away = getattr(whole, name) - np.sum([getattr(part, name) for part in parts], axis=0)
        assert np.linalg.norm(away) <= query.rounding(len(X))


def test_the_contest_is_the_mean_gain_of_log_densities() -> None:
    region = REGIONS["box"]
    query = contest(3, region, limit=1e3)
    X = np.random.default_rng(0).uniform(-4, 6, (50, 3))
    found = float(query(Block(X, None), Scratch()).total[0])

    def score(m: Mixture) -> float:
        values = []
        for x in X:
            z = np.einsum("kij,kj->ki", m.whiteners, x - m.means)
            dense = np.exp(m.constants - 0.5 * np.sum(z**2, axis=1)).sum()
            values.append(math.log(dense + math.exp(m.background.level)))  # type: ignore[union-attr]
        return sum(values)

    first, second = (score(side.mixture) for side in (query.first, query.second))
    assert found == pytest.approx(first - second, rel=1e-9)


def test_ratios_are_to_the_uniform_density() -> None:
    region = REGIONS["box"]
    wide = Mixture("diag", np.ones(1), np.ones((1, 3)), np.full((1, 3), 1e12))
    sharp = Mixture("diag", np.ones(1), np.ones((1, 3)), np.full((1, 3), 1e-12))
    X = np.ones((10, 3))
    for m, expected in ((wide, RATIOS[0]), (sharp, RATIOS[-1])):
        counts = RatioQuery(m, region, RATIOS)(Block(X, None), Scratch()).counts
        assert counts[np.equal(RATIOS, expected)] == 10
    # A Gaussian as dense as the box at its middle: the ratio is zero.
    equal = np.full((1, 3), 100 / (2 * math.pi))
    same = Mixture("diag", np.ones(1), np.ones((1, 3)), equal)
    counts = RatioQuery(same, region, RATIOS)(Block(X, None), Scratch()).counts
    assert counts[np.equal(RATIOS, 0.0)] == pytest.approx(10)


def test_the_rounding_holds_for_a_tiny_cap_on_weights() -> None:
    """``rows`` is a bound on the sum of weights: the cap is in it already."""
    query = contest(3, REGIONS["box"], cap=1e-9)
    X, rng = records(3, 4088), np.random.default_rng(3)
    weight = rng.uniform(0.5e-9, 1e-9, 4088)
    each = query.contributions(Block(X, None, 0), Scratch())
    exact = float(sum(Fraction(w) * Fraction(f) for w, f in zip(weight, each, strict=True)))
    found = float(query(Block(X, weight, 0), Scratch()).total[0])
    assert abs(found - exact) <= query.rounding(float(weight.sum()))


def test_a_party_refuses_more_components_than_it_holds() -> None:
    k = 100_000
    many = Mixture("spherical", np.full(k, 1 / k), np.zeros((k, 3)), np.ones(k))
    region = REGIONS["box"]
    ratio = RatioQuery(many, region, RATIOS)
    density = GaussianLogDensity(replace(many, background=Background(0.1, region)))
    for query in (ratio, ContestQuery(density, density, 4.0)):
        with pytest.raises(Unsound, match="more than a party computes"):
            query.check(3, private=True)


def test_a_party_refuses_a_contest_without_backgrounds() -> None:
    query = contest(0, REGIONS["box"])
    query.check(3, private=True)
    for broken in (
        replace(query, first=GaussianLogDensity(mixture(0))),
        replace(query, limit=math.inf),
        replace(query, limit=-1.0),
    ):
        with pytest.raises(Unsound):
            broken.check(3, private=True)
    ratio = RatioQuery(mixture(0), REGIONS["box"], RATIOS)
    ratio.check(3, private=True)
    with pytest.raises(Unsound):
        replace(ratio, grid=RATIOS[::-1]).check(3, private=True)


def profile_of(share: float, n: int, above: float) -> Array:
    """Records of which a share is explained by the background alone, the others by the mixture."""
    counts = np.zeros(len(RATIOS))
    counts[0], counts[np.searchsorted(RATIOS, above)] = share * n, (1 - share) * n
    return counts


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9, 1.0])
def test_the_weight_is_the_share_that_only_a_background_explains(share: float) -> None:
    found = weight_of(profile_of(share, 10_000, 6.0), 0.0, 10_000, 1)
    # A little less, where it costs little.
    expected = float(np.clip(share, LEAST, MOST))
    assert 0.5 * expected - 0.002 <= found <= expected + 1e-9


def test_columns_that_fill_their_bounds_keep_the_model() -> None:
    """The uniform density is a little better there, and knows nothing of means."""
    counts = np.zeros(len(RATIOS))
    counts[np.equal(RATIOS, 0.0)], counts[np.equal(RATIOS, -1.0)] = 8_000, 2_000
    assert weight_of(counts, 0.0, 10_000, 4) < 0.2
    # But not a model that is wrong about most records.
    assert weight_of(profile_of(0.8, 10_000, 3.0), 0.0, 10_000, 4) > 0.5


def test_more_than_outliers_only_where_it_would_cost_twice_what_is_spared() -> None:
    """And then no more of it than that."""
    few = 0.1
    for share in (0.05, 0.12, 0.3, 0.8, 1.0):
        counts = profile_of(share, 10_000, 3.0)
        weights = np.array([weight_of(counts, 0.0, 10_000, 4, few), few, MOST])
        gains = np.log(weights[:, None] + (1 - weights)[:, None] * np.exp(RATIOS))
        lost = float((gains @ (counts / 10_000)).max() - (gains @ (counts / 10_000))[0])
        best = weight_of(counts, 0.0, 10_000, 4)
        assert weights[0] == pytest.approx(min(best, few)) or few < weights[0] <= best
        assert lost <= 2 * (0.05 + 0.025 * 4) + 1e-6
    assert weight_of(profile_of(1.0, 10_000, 3.0), 0.0, 10_000, 4, few) > 0.7


def test_noise_makes_the_background_larger_and_all_of_it_in_the_end() -> None:
    clean = profile_of(0.01, 1000, 6.0)
    weights = [weight_of(clean, noise, 1000, 3) for noise in (0.0, 10.0, 100.0, 1000.0)]
    assert weights == sorted(weights)
    assert weights[-1] == MOST
    forecasts = [forecast_weight(10, 1.0, n) for n in (10, 100, 10_000)]
    assert forecasts == sorted(forecasts, reverse=True)
    assert forecasts[-1] < 0.01
