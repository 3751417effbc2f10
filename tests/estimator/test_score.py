"""Private scores: bounded, replayed, recounted, and close to the truth."""

from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp

import privem
from privem import CategoricalMixture, FactorAnalysis, GaussianMixture, PoissonMixture
from privem import fit as module
from privem.blocks.log_density import (
    ClippedLogs,
    DisagreementQuery,
    LogDensityQuery,
    best_clip,
)
from privem.blocks.region import Background, Region
from privem.core import Block, Scratch
from privem.data import read_file
from privem.federation import Federation, Party
from privem.linalg import ravel
from privem.meter import Statement
from privem.models.categorical_mixture.model import Classes, ClassLogDensity
from privem.models.gaussian_mixture.density import GaussianLogDensity
from privem.models.gaussian_mixture.model import Mixture
from privem.models.poisson_mixture.model import PoissonLogDensity, Poissons
from privem.run import Record, Recorded, run

TYPES = ("full", "tied", "diag", "spherical")
NEIGHBOURS = ("add-remove", "replace-one")
# Under every other seed there is a background, on a box or on a ball.
REGIONS = (None, Region.box(np.full(2, -5.0), np.array([4.0, 6.0])), None)
REGIONS += (Region.around_origin(5.0, 2),)


def mixture(kind: str, seed: int, k: int = 3, d: int = 2) -> Mixture:
    rng = np.random.default_rng(seed)
    roots = rng.normal(size=(k, d, d))
    full = roots @ np.swapaxes(roots, 1, 2) + 0.05 * np.eye(d)
    covariances = {
        "full": full,
        "tied": full[0],
        "diag": np.diagonal(full, axis1=1, axis2=2),
        "spherical": full[:, 0, 0],
    }[kind]
    region = REGIONS[seed % len(REGIONS)] if d == 2 else None
    background = None if region is None else Background(float(rng.uniform(0.01, 0.99)), region)
    weights, means = rng.dirichlet(np.ones(k)), rng.normal(0, 3, (k, d))
    return Mixture(kind, weights, means, covariances, background)


def counts_and_categories(seed: int) -> tuple[Any, ...]:
    rng = np.random.default_rng(seed)
    profiles = rng.dirichlet(np.ones(3), (2, 2)).reshape(2, 6)
    weights = rng.dirichlet(np.ones(2))
    rates = rng.uniform(0.1, 9.0, (2, 2))
    return ClassLogDensity(Classes(weights, profiles), (3, 3)), PoissonLogDensity(
        Poissons(weights, rates)
    )


def logs_of(kind: str, seed: int, models: int = 1, width: float = 12.0) -> ClippedLogs:
    """The densities of ``kind``, and for several models others besides."""
    others = [GaussianLogDensity(mixture(t, seed + 1)) for t in TYPES]
    others += counts_and_categories(seed)
    densities = (GaussianLogDensity(mixture(kind, seed)), *others)[:models]
    high = max(density.peak for density in densities)
    return ClippedLogs(densities, high - width, high)


def query_of(kind: str, seed: int, models: int = 1, **more: Any) -> LogDensityQuery:
    clip = None if models == 1 else 0.7
    return LogDensityQuery(logs_of(kind, seed, models), clip, **more)


def hostile(seed: int, means: np.ndarray) -> np.ndarray:
    rng = np.random.default_rng(seed)
    X = rng.standard_t(1, (40, 2)) * 10.0 ** rng.integers(-3, 4)
    X[:8] = rng.choice([np.nan, np.inf, -np.inf, 1e308, -1e308, 5e-324, 0.0], (8, 2))
    X[8:11], X[11:20] = means, rng.integers(-1, 12, (9, 2))
    return X


@pytest.mark.parametrize("seed", range(len(REGIONS)))
@pytest.mark.parametrize("kind", TYPES)
def test_the_sum_is_of_clipped_log_densities(kind: str, seed: int) -> None:
    query = query_of(kind, seed)
    X = rows = np.random.default_rng(1).normal(0, 4, (500, 2))
    density: Any = query.logs.densities[0]
    m = density.mixture
    if m.background is not None:
        X = m.background.clamped(rows, Scratch()).copy()
        assert 0 < (rows == X).all(axis=1).mean() < 1
    moved = X[:, None] - m.means
    w = m.whiteners
    white = np.einsum("kij,nkj->nki", w, moved) if w.ndim == 3 else w * moved
    joint = m.constants - 0.5 * (white**2).sum(axis=2)
    if m.background is not None:
        joint = np.column_stack([joint, np.full(len(X), m.background.level)])
    expected = logsumexp(joint, axis=1)
    logs = query.logs
    assert (expected < logs.low).any() or m.background is not None
    assert (expected > logs.low).any()
    assert expected.max() <= logs.high
    clipped = np.clip(expected, logs.low, logs.high)
    found = query.contributions(Block(rows), Scratch())
    np.testing.assert_allclose(found[0] * query.units[0] + logs.middle, clipped, rtol=1e-12)
    np.testing.assert_allclose(found[1] * query.units[2], 1.0)


def test_log_densities_of_counts_and_categories() -> None:
    """Those that the estimators' own ``score_samples`` have."""
    classes, poissons = counts_and_categories(3)
    rng = np.random.default_rng(0)
    codes, counts = rng.integers(0, 3, (200, 2)), rng.poisson(4.0, (200, 2))
    first = CategoricalMixture(2, categories=[0, 1, 2]).fit(codes)
    first.weights_ = classes.state.weights
    first.category_probs_ = np.split(classes.state.profiles, 2, axis=1)
    second = PoissonMixture(2, bounds=(0, 20)).fit(counts)
    second.weights_, second.rates_ = poissons.state.weights, poissons.state.rates
    for model, density, X in ((first, classes, codes), (second, poissons, counts)):
        found = logsumexp(density.log_joint(X.astype(float), Scratch()), axis=0)
        np.testing.assert_allclose(found, model.score_samples(X), rtol=1e-12)
        assert found.max() <= density.peak
    odd = np.array(
        [[np.nan, 1.0], [7.0, 1.0], [-1.0, 1.0], [0.5, 1.0]]
    )  # what nobody declared is not seen
    found = logsumexp(classes.log_joint(odd, Scratch()), axis=0)
    share = classes.state.weights @ classes.state.profiles[:, 4]
    np.testing.assert_allclose(found, np.log(share), rtol=1e-12)
    assert first._log_uniform() == pytest.approx(-2 * np.log(3))
    assert second._log_uniform() == pytest.approx(-2 * np.log(21))


def test_levels_and_disagreements_are_the_scores() -> None:
    """Undone, what a record adds are its clipped log-densities, up to the clip."""
    for clip in (2.0, 1e6):
        query = LogDensityQuery(logs_of("full", 0, 5), clip)
        X = np.random.default_rng(1).normal(0, 3, (300, 2))
        logs = query.logs(X, Scratch()) * query.logs.half
        f = query.contributions(Block(X), Scratch())
        away = f[1:-1] * query.units[1]
        np.testing.assert_allclose(away.sum(axis=0), 0.0, atol=1e-9)
        length = np.linalg.norm(logs - logs.mean(axis=0), axis=0)
        np.testing.assert_allclose(np.linalg.norm(away, axis=0), np.minimum(length, clip))
        if clip > 1e3:
            np.testing.assert_allclose(f[0] * query.units[0] + away, logs, atol=1e-9)
        else:
            assert 0.1 < (length > clip).mean() < 0.9


@pytest.mark.parametrize("neighbours", NEIGHBOURS)
@pytest.mark.parametrize("kind", [*TYPES, "disagreement"])
@settings(max_examples=15)
@given(
    seed=st.integers(0, 2**32 - 1),
    width=st.sampled_from([0.1, 12.0, 1e6, 1e300]),
    models=st.sampled_from([1, 2, 7]),
    counted=st.booleans(),
)
def test_no_record_moves_the_sum_further(
    kind: str, neighbours: str, seed: int, width: float, models: int, counted: bool
) -> None:
    logs = logs_of("full" if kind == "disagreement" else kind, seed % 50, models, width)
    query: Any = DisagreementQuery(logs, 1.5)
    if kind != "disagreement":
        clip = None if models == 1 else width * (seed % 100 + 1) / 100
        query = LogDensityQuery(logs, clip, counted, 1.5)
    rng = np.random.default_rng(seed)
    X = hostile(seed, logs.densities[0].mixture.means)  # type: ignore[attr-defined]
    weight = rng.choice([0.0, 1.5, 0.3, 1e300, np.inf, -1.0, np.nan], 40)
    (group,) = query.groups(neighbours)
    slack = query.rounding(1.0)
    each = [ravel(query(Block(X[i : i + 1], weight[i : i + 1]), Scratch())) for i in range(40)]
    sums = np.array(each)
    assert np.isfinite(sums).all()
    assert sums.shape[1] == group.where.stop
    if neighbours == "add-remove":
        assert np.linalg.norm(sums, axis=1).max() <= group.sensitivity + slack
    else:
        apart = np.linalg.norm(sums[:, None] - sums, axis=2)
        assert apart.max() <= group.sensitivity + slack


@pytest.mark.parametrize("neighbours", NEIGHBOURS)
def test_the_bound_is_attained(neighbours: str) -> None:
    """By records at the peak and far away, of one model; by opposite records, of two."""
    ball = Mixture("spherical", np.ones(1), np.zeros((1, 2)), np.ones(1))
    logs = ClippedLogs((GaussianLogDensity(ball),), -12.0, GaussianLogDensity(ball).peak)
    counted = neighbours == "add-remove"
    query = LogDensityQuery(logs, None, counted)
    peak, far = query.contributions(Block(np.array([[0.0, 0.0], [1e9, 0.0]])), Scratch()).T
    moved = np.linalg.norm(far if counted else peak - far)
    assert moved == pytest.approx(query.groups(neighbours)[0].sensitivity, rel=1e-9)
    with pytest.raises(ValueError, match="neighbours"):
        query.groups("bounded")
    there = Mixture("spherical", np.ones(1), np.full((1, 2), 1e4), np.ones(1))
    both = ClippedLogs(tuple(map(GaussianLogDensity, (ball, there))), -12.0, logs.high)
    nodes = DisagreementQuery(both)
    here, beyond = nodes.contributions(Block(np.array([[0.0, 0.0], [1e9, 0.0]])), Scratch()).T
    moved = np.linalg.norm(here if counted else here - beyond)
    assert moved == pytest.approx(nodes.groups(neighbours)[0].sensitivity, rel=1e-9)


@pytest.mark.parametrize("kind", [*TYPES, "several", "disagreement"])
@settings(max_examples=15)
@given(seed=st.integers(0, 2**32 - 1))
def test_a_value_is_the_records_own(kind: str, seed: int) -> None:
    """Wherever a record stands, whoever stands beside it."""
    query: Any = query_of(kind if kind in TYPES else "full", seed % 20, 1 if kind in TYPES else 7)
    if kind == "disagreement":
        query = DisagreementQuery(query.logs)
    rng = np.random.default_rng(seed)
    X = np.abs(np.rint(rng.normal(0, 4, (37, 2)) * 4) / 4)
    alone = [query.contributions(Block(x[None]), Scratch())[:, 0] for x in X]
    order = rng.permutation(37)
    together = query.contributions(Block(np.asfortranarray(X[order])), Scratch())
    # A thousandth of what is charged.
    moved = np.linalg.norm(together.T - np.array(alone)[order], axis=1)
    assert moved.max() <= query.rounding(1.0) / 1000


def test_where_disagreements_are_clipped() -> None:
    """Wide where many records disagree, narrow where none do, as usual where nothing is known."""
    nodes = 40.0 * 2.0 ** (-0.5 * np.arange(16))
    wide, narrow, nothing = np.zeros(16), np.zeros(16), np.zeros(16)
    wide[0], narrow[12] = 1e5, 1e5
    known = (nodes, 1e5, 5.0, 4)
    assert best_clip(wide, 10.0, *known) == nodes[0]
    assert best_clip(narrow, 10.0, *known) < nodes[0] / 4
    assert 1.0 < best_clip(nothing, 1e6, *known) < 10.0


@pytest.fixture(scope="module")
def data() -> np.ndarray:
    rng = np.random.default_rng(0)
    return np.concatenate([rng.normal(-3, 1, (6000, 2)), rng.normal(3, 1, (4000, 2))])


@pytest.fixture(scope="module")
def model(data: np.ndarray) -> GaussianMixture:
    return GaussianMixture(2, bounds=9.0, epsilon=4.0, random_state=0).fit(data)


@pytest.mark.parametrize("neighbours", NEIGHBOURS)
def test_close_to_the_truth(model: Any, data: np.ndarray, neighbours: str) -> None:
    """Within seven deviations: fails less than once in 1e11 runs."""
    score = model.private_score(data, epsilon=0.5, neighbours=neighbours)
    clipped = np.clip(model.score_samples(data), *score.limits)
    off = abs(float(score) - clipped.mean())
    assert off < 7 * score.deviation < 0.5
    assert abs(clipped.mean() - model.score(data)) < 0.05
    assert score.privacy.epsilon == 0.5
    assert score.privacy.spent <= 0.5
    saved = Statement.from_dict(score.privacy.to_dict())
    assert 0.5 * (1 - 1e-3) < saved.recount() <= 0.5
    assert "limits of log-densities" in score.privacy.public
    names = [release.name for release in score.privacy.releases]
    assert names == (["count", "scores"] if neighbours == "add-remove" else ["scores"])


def test_it_is_a_function_of_its_releases(
    model: Any, data: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    record, plans = Record(), []

    def watched(plan: Any, source: Any, watch: Any, meter: Any) -> Any:
        plans.append(plan)
        return run(plan, source, record, meter)

    monkeypatch.setattr(module, "run", watched)
    score = model.private_score(data, groups=np.arange(len(data)) // 2)
    assert score.privacy.unit == "person"
    again: Any = run(plans[0], Recorded(record.releases))
    assert (again.means[0], again.deviations[0]) == (score.value, score.deviation)


def test_files_frames_and_factors(data: np.ndarray, tmp_path: Any) -> None:
    table = pl.DataFrame({"a": data[:, 0], "b": data[:, 1], "who": np.arange(len(data)) // 2})
    table.write_parquet(tmp_path / "t.parquet")
    factors = FactorAnalysis(1, bounds=9.0).fit(table.select("a", "b"))
    sources = (tmp_path / "t.parquet", table, read_file(tmp_path / "t.parquet", ["a", "b"]))
    for X, groups in zip(sources, ("who", "who", None), strict=True):
        score = factors.private_score(X, groups=groups, neighbours="replace-one")
        people = 5000 if groups else None
        assert score.privacy.public.get("number of persons") == (people and str(people))
        clipped = np.clip(factors.score_samples(table.select("a", "b")), *score.limits).mean()
        assert abs(float(score) - clipped) < 7 * score.deviation < 0.5


def test_what_is_refused(model: Any, data: np.ndarray, tmp_path: Any) -> None:
    exact = GaussianMixture(2, epsilon=None).fit(data)
    with pytest.raises(ValueError, match="fitted exactly"):
        exact.private_score(data)
    with pytest.raises(ValueError, match="floor=99 is not below"):
        model.private_score(data, floor=99)
    with pytest.raises(ValueError, match="epsilon must be above 0"):
        model.private_score(data, epsilon=0)
    with pytest.raises(ValueError, match="3 features"):
        model.private_score(np.ones((9, 3)))
    with pytest.raises(ValueError, match="contains NaN"):
        model.private_score(np.where(data > 3, np.nan, data))
    pl.DataFrame({"a": [1.0, 2.0], "b": [1.0, 2.0], "w": [1.0, 1.0]}).write_csv(tmp_path / "w.csv")
    with pytest.raises(ValueError, match="no weights"):
        model.private_score(read_file(tmp_path / "w.csv", weight="w"))
    # Infinities count as the corner of the bounds.
    score = model.private_score(np.full((9000, 2), np.inf), neighbours="replace-one", epsilon=50.0)
    assert score.value == pytest.approx(model.score(np.full((1, 2), 1e300)), abs=0.01)


def test_a_federation_is_refused_before_anybody_is_asked():
    X = np.random.default_rng(0).normal(size=(300, 1))
    parties = [Party(part, name) for part, name in zip(np.split(X, 3), "abc", strict=True)]
    model = GaussianMixture(bounds=6.0).fit(X)
    with pytest.raises(TypeError, match="not a Federation"):
        model.private_score(Federation(parties))


@pytest.fixture(scope="module")
def several(data: np.ndarray) -> dict[str, Any]:
    fits: dict[str, Any] = {
        f"K={k}": GaussianMixture(k, bounds=9.0, epsilon=4.0, random_state=0).fit(data)
        for k in (1, 2, 5)
    }
    return fits | {"factors": FactorAnalysis(1, bounds=9.0, epsilon=4.0).fit(data)}


@pytest.mark.parametrize("accountant", ["auto", "linear"])
@pytest.mark.parametrize("neighbours", NEIGHBOURS)
def test_several_models(several: Any, data: np.ndarray, neighbours: str, accountant: str) -> None:
    """Scores and differences within seven deviations: fails less than once in 1e10 runs."""
    terms: Any = {"neighbours": neighbours, "accountant": accountant, "epsilon": 3.0}
    scores = privem.private_scores(several, data, **terms)
    logs = np.array([model.score_samples(data) for model in several.values()])
    clipped = np.clip(logs, *scores.limits).mean(axis=1)
    # What is clipped of the disagreements is no more than a few deviations, or it would not be.
    off = np.asarray(scores) - clipped
    assert np.abs(off).max() < 7 * scores.deviation.max() + 7 * scores.difference_deviation
    assert np.abs(off - off.mean()).max() < 10 * scores.difference_deviation < 0.5
    assert scores.privacy.spent <= scores.privacy.epsilon == 3.0
    saved = Statement.from_dict(scores.privacy.to_dict())
    assert 3.0 * (1 - 1e-3) < saved.recount() <= 3.0
    names = [release.name for release in scores.privacy.releases]
    assert names == ["count"] * (neighbours == "add-remove") + ["disagreement", "scores"]
    assert scores["K=2"] == scores[1] == scores.value[1]
    assert scores.ranking[0] in (1, 2)
    assert scores.stands_out[0, 1]
    assert not scores.stands_out[1, 1]
    assert len(scores) == 4


def test_scores_print_as_a_table(several: Any, data: np.ndarray) -> None:
    scores = privem.private_scores(several, data)
    text = str(scores)
    assert text.startswith("K=1      -")
    assert f"difference has noise of deviation {scores.difference_deviation:.3g}" in text
    assert "This set of scores is (1, 1e-06)-differentially private" in text
    assert "best: K=" in text
    listed = privem.private_scores(list(several.values())[:1], data)
    assert listed.names == ("0 GaussianMixture",)
    assert "best" not in str(listed)
    assert listed.difference_deviation == 0.0


def test_several_scores_are_a_function_of_their_releases(
    several: Any, data: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    record, plans = Record(), []

    def watched(plan: Any, source: Any, watch: Any, meter: Any) -> Any:
        plans.append(plan)
        return run(plan, source, record, meter)

    monkeypatch.setattr(module, "run", watched)
    scores = privem.private_scores(several, data, groups=np.arange(len(data)) // 2)
    assert scores.privacy.unit == "person"
    again: Any = run(plans[0], Recorded(record.releases))
    assert (again.means == scores.value).all()
    assert again.difference == scores.difference_deviation


def test_one_at_a_time_models_have_the_same_floor(several: Any, data: np.ndarray) -> None:
    """So that they can be compared: it depends on the bounds alone."""
    floors = {model.private_score(data).limits[0] for model in several.values()}
    assert floors == {privem.private_scores(several, data).limits[0]}
    assert floors.pop() == pytest.approx(-2 * np.log(18.0) + np.log(1e-3))


def test_models_that_cannot_be_compared(several: Any, data: np.ndarray) -> None:
    one = several["K=1"]
    with pytest.raises(ValueError, match="at least one model"):
        privem.private_scores([], data)
    with pytest.raises(TypeError, match="not KMeans"):
        privem.private_scores([one, privem.KMeans(2, bounds=9.0).fit(data)], data)
    with pytest.raises(ValueError, match="fitted exactly"):
        privem.private_scores([one, GaussianMixture(epsilon=None).fit(data)], data)
    named = GaussianMixture(bounds=9.0).fit(pl.DataFrame(data, ["a", "b"], orient="row"))
    with pytest.raises(ValueError, match="same columns"):
        privem.private_scores([one, named], data)
    codes = np.random.default_rng(0).integers(0, 2, (500, 2))
    classes = [CategoricalMixture(1, categories=c).fit(codes) for c in ([0, 1], [0, 1, 2])]
    with pytest.raises(ValueError, match="same columns and categories"):
        privem.private_scores(classes, codes)
