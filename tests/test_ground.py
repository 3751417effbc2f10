"""Bounds that nobody gave: they hold the data, or the fit stops and says what it cost."""

import pickle
import warnings
from typing import Any

import numpy as np
import polars as pl
import pytest

import privem
from privem import (
    BoundsNotFound,
    FactorAnalysis,
    GaussianMixture,
    KMeans,
    MissingCovariateRegression,
    PoissonMixture,
    RegressionMixture,
    SymmetricMixture,
    private_mean,
)
from privem.accounting import epsilon as price
from privem.blocks.histograms import (
    CELLS,
    HALF_OCTAVES,
    LEVEL_CELLS,
    LEVELS,
    NormQuery,
    OctaveQuery,
    PlaceQuery,
    edge,
)
from privem.bounds import cell_widths, ends, places, radius
from privem.core import Block, Scratch
from privem.federation import Federation, Party
from privem.ground import Preamble
from privem.meter import Meter

rng = np.random.default_rng(0)
Z = rng.standard_normal(40_000)
# At epsilon 4 and two columns, 40,000 records are seven times as many as heavy tails need
# (experiments/bounds). The noise on a tail is 0.04% of the records, on what lies outside 0.03%:
# what is asserted is five deviations away, and widths of heavy tails, which hang on it most, are
# allowed to be larger.
COLUMNS = {
    "normal": Z,
    "skewed": np.exp(Z),
    "very skewed": np.exp(2 * Z),
    "heavy": rng.standard_cauchy(40_000),
    "delays": np.where(Z < 0.3, -5 + 5 * Z, rng.exponential(50, 40_000) - 10).round(),
    "far": 1e6 + Z,
    "very far": -1e9 + 1e3 * rng.random(40_000),
    "counts": rng.poisson(3.0, 40_000).astype(float),
    "two values": (rng.random(40_000) < 0.3) * 1.0,
    "mostly zero": np.where(rng.random(40_000) < 0.95, 0.0, np.exp(Z)),
    "mostly forty": np.where(rng.random(40_000) < 0.5, 40.0, np.round(40 + 12 * Z)),
    "clusters": np.where(rng.random(40_000) < 0.9, Z, 1000 + Z),
    "tiny": 1e-20 * Z,
    "huge": 1e25 * np.exp(Z),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_bounds_hold_a_column_and_are_not_wide(name: str) -> None:
    X = np.column_stack([COLUMNS[name], Z])
    model = KMeans(1, epsilon=4.0, n_iter=1).fit(X)
    outside = np.mean((model.bounds_[0] > X) | (model.bounds_[1] < X), axis=0)
    assert (outside < 0.01).all()
    middle = np.quantile(X, 0.995, axis=0) - np.quantile(X, 0.005, axis=0)
    times = {"heavy": 50, "very skewed": 20, "mostly zero": 10, "huge": 6, "skewed": 6}
    assert (model.bounds_[1] - model.bounds_[0] < times.get(name, 4) * middle).all()
    assert outside.max() - 1e-3 < model.outside_ < 0.012
    said = model.privacy_.public["bounds"]
    assert f"at most {100 * model.outside_:.2g}% of the records lie outside" in said


def test_each_end_is_found_on_its_own() -> None:
    X = np.column_stack([np.exp(Z), -np.exp(Z)])
    low, high = KMeans(1, epsilon=4.0, n_iter=1).fit(X).bounds_
    assert -3 < low[0] < 0
    assert high[0] > 10
    assert 3 > high[1] > 0
    assert low[1] < -10


@pytest.mark.parametrize("value", [0.0, 5.0, -1e6, 0.1])
def test_a_constant_column_has_bounds_about_its_value(value: float) -> None:
    X = np.column_stack([np.full(20_000, value), Z[:20_000]])
    low, high = KMeans(1, epsilon=4.0, n_iter=1).fit(X).bounds_
    assert low[0] < value < high[0]
    assert high[0] - low[0] <= 1e-6 * abs(value) + 1e-9


def few(kind: Any, **more: Any) -> BoundsNotFound:
    model = kind(**more)
    before = dict(vars(model))
    data = (Z[:300, None], Z[:300]) if "Regression" in kind.__name__ else (Z[:300, None],)
    with pytest.raises(BoundsNotFound) as caught:
        model.fit(*data)
    assert {name: value for name, value in vars(model).items() if name != "_lineage"} == before
    return caught.value


FINDERS = (GaussianMixture, KMeans, FactorAnalysis, PoissonMixture, SymmetricMixture)


@pytest.mark.parametrize("kind", [*FINDERS, RegressionMixture, MissingCovariateRegression])
def test_too_few_records_stop_a_fit_after_the_count(kind: Any) -> None:
    """A count is a hundredth of the budget: a tenth of mu, and a little less of epsilon."""
    problem = few(kind)
    assert 0.05 < problem.spent < 0.1
    assert problem.delta == 1e-6
    assert "records are too few to find bounds of" in str(problem)
    assert f"cost epsilon = {problem.spent:.4g} at delta = 1e-06" in str(problem)
    assert "give bounds" in str(problem)
    again = pickle.loads(pickle.dumps(problem))
    assert (str(again), again.columns, again.spent) == (
        str(problem),
        problem.columns,
        problem.spent,
    )


def test_a_public_count_stops_it_before_anything_is_released() -> None:
    problem = few(KMeans, neighbours="replace-one")
    assert problem.spent == 0
    assert "nothing was released" in str(problem)


def test_an_estimator_keeps_its_last_fit() -> None:
    X = np.column_stack([Z, Z])
    model = KMeans(2, epsilon=4.0).fit(X)
    before = model.privacy_, model.cluster_centers_.tobytes()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", privem.PrivacyCompositionWarning)
        with pytest.raises(BoundsNotFound, match="columns 0, 1, 2"):
            model.fit(np.zeros((10, 3)))
    assert (model.privacy_, model.cluster_centers_.tobytes()) == before


def test_a_column_without_bounds_is_named_and_the_price_is_that_of_the_releases() -> None:
    """Spread evenly over 150 octaves, nothing stands out; and what lies beyond 2^96 has no end."""
    wide = np.exp2(rng.uniform(-75, 75, 5000))
    asked: list[Any] = []
    model = KMeans(2, epsilon=1.0)
    model._watch = lambda stage, release: asked.append((stage.name, release.spent))
    frame = pl.DataFrame({"a": Z[:5000], "wide": wide, "beyond": np.full(5000, 1e40)})
    with pytest.raises(BoundsNotFound, match="out of the noise for columns wide, beyond") as caught:
        model.fit(frame)
    assert caught.value.columns == ("wide", "beyond")
    assert [name for name, _ in asked] == ["count", "scale", "place", "ends", "outside"]
    meter = Meter(1.0, 1e-6, "auto", 1e-9)
    meter.releases = asked
    assert caught.value.spent == meter.spent
    assert 0.3 < caught.value.spent < 0.4  # mu of 16% of the budget is 0.4 of its mu


def test_bounds_that_leave_much_outside_stop_a_fit() -> None:
    """A tenth of the records lies so far off and apart that no cell of it stands out."""
    far = np.exp2(rng.uniform(10, 95, 20_000))
    X = np.column_stack([np.where(rng.random(20_000) < 0.9, Z[:20_000], far)] * 2)
    with pytest.raises(BoundsNotFound, match=r"would leave about [\d.]+% of the records out"):
        KMeans(2, epsilon=1.0).fit(X)


def test_bounds_cost_fifteen_hundredths() -> None:
    parts = Preamble(7, None, None).parts()
    assert sum(part.share for part in parts if part.name != "count") == pytest.approx(0.15)
    assert Preamble(7, None, None).share() == pytest.approx(0.16)


def test_a_regression_is_not_clipped() -> None:
    """The slope of delays, which was 1.4 where bounds cut the bulk; the noise on it is 0.003."""
    late = np.where(Z < 0.3, -5 + 5 * Z, np.exp(3.5 + 1.2 * np.abs(Z)))
    y = 1.02 * late - 6 + 15 * rng.standard_normal(len(Z))
    model = RegressionMixture(1, epsilon=4.0).fit(late[:, None], y)
    assert abs(model.coef_[0, 0] - 1.02) < 0.05


def test_given_bounds_are_kept_and_only_the_others_are_looked_for() -> None:
    X, y = Z[:, None], np.full(len(Z), 1e40)
    with pytest.raises(BoundsNotFound, match="for column the target"):
        RegressionMixture(1, bounds=3.0).fit(X, y)
    model = RegressionMixture(1, target_bounds=(0.0, 7.0)).fit(X, y)
    assert model.target_bounds_ == (0.0, 7.0)
    assert model.privacy_.public["target bounds"] == "[0, 7]"
    assert -9 < model.bounds_[0][0] < -2 < 2 < model.bounds_[1][0] < 9


def test_balls_hold_the_norms() -> None:
    X = np.column_stack([Z, 20 * np.roll(Z, 1)])
    model = SymmetricMixture(epsilon=4.0, n_iter=2).fit(X)
    far = np.linalg.norm(X, axis=1)
    assert np.mean(far > model.bounds_[1][0]) < 0.01
    assert model.bounds_[1][0] < 2 * np.quantile(far, 0.995)
    assert model.outside_ < 0.012
    assert "at most" in model.privacy_.public["bounds"]


def test_persons_weights_and_parties() -> None:
    X = np.column_stack([1e4 + Z, np.exp(Z)])

    def check(model: Any) -> None:
        low, high = model.bounds_
        assert np.mean((low > X) | (high < X), axis=0).max() < 0.01
        assert (high - low < 3 * np.array([5.2, 13.0])).all()

    check(KMeans(1, epsilon=4.0, n_iter=1).fit(X, groups=np.arange(len(X)) // 2))
    # However little records weigh, they are counted.
    check(KMeans(1, epsilon=4.0, n_iter=1).fit(X, sample_weight=np.full(len(X), 0.01)))
    for protection in ("plain", "masked"):
        parties = [Party(X[i::3], str(i)) for i in range(3)]
        federation = Federation(parties, protection=protection)
        check(KMeans(1, epsilon=4.0, n_iter=1).fit(federation))
    parties = [Party(X[i:300:3], str(i)) for i in range(3)]
    with pytest.raises(BoundsNotFound, match="too few"):
        KMeans(1, epsilon=4.0).fit(Federation(parties, protection="plain"))


def test_a_mean_finds_its_own_bounds() -> None:
    """Within eight deviations of the noise, which is known."""
    x = np.exp(Z)
    mean = private_mean(x, epsilon=4.0)
    assert abs(float(mean) - x.mean()) < 8 * mean.deviation + mean.bias
    assert "at most" in mean.privacy.public["second moments about the bulk"]


def test_every_accountant_pays_for_bounds() -> None:
    X = np.column_stack([Z, Z])
    for accountant, epsilon in (("linear", 30.0), ("advanced", 20.0), ("zcdp", 4.0)):
        model = KMeans(1, epsilon=epsilon, accountant=accountant, n_iter=1).fit(X)
        assert model.privacy_.spent <= epsilon
        assert price(model.privacy_.event(), 1e-6, accountant) <= epsilon


# What histograms say, with no noise to speak of.


def histogram(query: Any, x: np.ndarray) -> np.ndarray:
    return np.asarray(query(Block(x), Scratch()).counts)


def test_half_octaves_are_what_they_say() -> None:
    values = np.array([0.0, 1.0, -1.0, 1.1, 1.5, -3.0, 2.0**-96, 2.0**-97, np.inf, -np.inf, np.nan])
    for value in values:
        cell = int(histogram(OctaveQuery(np.zeros(1)), np.array([[value]])).argmax())
        k = abs(cell - HALF_OCTAVES) - 1
        if k < 0:
            assert not abs(value) > 2.0**-96
        else:
            assert (value > 0) == (cell > HALF_OCTAVES)
            assert edge(k) < abs(value)
            assert abs(value) <= edge(k + 1) or k == HALF_OCTAVES - 1
        norm = int(histogram(NormQuery((1,)), np.array([[value]])).argmax())
        assert norm == k + 1
    assert CELLS == 2 * HALF_OCTAVES + 1


@pytest.mark.parametrize("value", [0.0, 1.0, -7.0, 123456789.0, 0.375, -1e-9, 1e18])
def test_places_are_found_to_a_part_in_a_billion(value: float) -> None:
    x = np.full((1000, 1), value)
    widths = cell_widths(histogram(OctaveQuery(np.zeros(1)), x), 1.0)
    place = places(histogram(PlaceQuery(widths), x), widths, 1000.0, 1.0)
    assert abs(place[0] - value) <= widths[0] / 2 <= max(abs(value), 2.0**-96) * 2.0**-27
    assert histogram(PlaceQuery(widths), x).size == LEVELS * LEVEL_CELLS


@pytest.mark.parametrize("missing", [0.0, 0.3, 0.6, 0.7])
def test_missing_values_make_up_no_bulk(missing: float) -> None:
    rng = np.random.default_rng(2)
    x = rng.uniform(1950, 2025, (20_000, 1))
    x[rng.random(len(x)) < missing] = np.nan
    widths = cell_widths(histogram(OctaveQuery(np.zeros(1)), x), 1.0)
    grids = histogram(PlaceQuery(widths), x)
    assert grids.sum() == LEVELS * np.isfinite(x).sum()
    assert 1950 < places(grids, widths, 20_000.0, 20.0)[0] < 2025


def test_any_histogram_gives_bounds_that_are_bounds() -> None:
    """Noise alone, and numbers that no data could have produced."""
    for scale in (0.0, 1.0, 1e3, 1e12):
        for shift in (-1e6, 0.0, 1e6):
            octaves = shift + scale * rng.standard_normal((3, CELLS))
            grids = shift + scale * rng.standard_normal((3, LEVELS, LEVEL_CELLS))
            widths = cell_widths(octaves, 1.0)
            assert (widths > 0).all()
            place = places(grids, widths, 100.0, 1.0)
            for records in (1.0, 1e3, 1e9):
                found = ends(octaves, 1.0, records, place, widths)
                assert (found.low < found.high).all()
                assert (np.abs([found.low, found.high]) <= 2.0**100).all()
                assert (found.high - found.low >= 2.0**-96).all()
                assert (found.second > 0).all()
                assert radius(octaves[0, : HALF_OCTAVES + 1], 1.0, records) >= 0
