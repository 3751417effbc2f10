"""``private_score``: bounded, replayed, recounted, and close to the truth."""

from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp

from privem import FactorAnalysis, GaussianMixture
from privem import fit as module
from privem.blocks.background import Background
from privem.blocks.region import Region
from privem.core import Block, Scratch
from privem.data import read_file
from privem.estimator.score import LogDensityQuery, highest, lowest
from privem.federation import Federation, Party
from privem.models.gaussian_mixture.model import Mixture
from privem.run import Record, Recorded, run
from privem.statement import Statement

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


def query_of(kind: str, seed: int, **more: Any) -> LogDensityQuery:
    density = mixture(kind, seed)
    return LogDensityQuery(density, lowest(density), highest(density), **more)


@pytest.mark.parametrize("seed", range(len(REGIONS)))
@pytest.mark.parametrize("kind", TYPES)
def test_the_sum_is_of_clipped_log_densities(kind: str, seed: int) -> None:
    query = query_of(kind, seed)
    X = rows = np.random.default_rng(1).normal(0, 4, (500, 2))
    background = query.mixture.background
    if background is not None:
        X = background.clamped(rows, Scratch()).copy()
        assert 0 < (rows == X).all(axis=1).mean() < 1
    w, m = query.mixture.whiteners, query.mixture
    moved = X[:, None] - m.means
    white = np.einsum("kij,nkj->nki", w, moved) if w.ndim == 3 else w * moved
    joint = m.constants - 0.5 * (white**2).sum(axis=2)
    if background is not None:
        joint = np.column_stack([joint, np.full(len(X), background.level)])
    expected = logsumexp(joint, axis=1)
    assert (expected < query.low).any() or background is not None
    assert (expected > query.low).any()
    found = query.contributions(Block(rows), Scratch()) + query.middle
    np.testing.assert_allclose(found, np.clip(expected, query.low, query.high), rtol=1e-12)
    assert expected.max() <= query.high


@pytest.mark.parametrize("neighbours", NEIGHBOURS)
@pytest.mark.parametrize("kind", TYPES)
@settings(max_examples=15)
@given(seed=st.integers(0, 2**32 - 1), floor=st.sampled_from([None, -1e6, -1e300]))
def test_no_record_moves_the_sum_further(kind: str, neighbours: str, seed: int, floor: Any) -> None:
    query = query_of(kind, seed % 50, cap_weight=1.5)
    if floor is not None:
        query = LogDensityQuery(query.mixture, floor, query.high, 1.5)
    rng = np.random.default_rng(seed)
    X = rng.standard_t(1, (40, 2)) * 10.0 ** rng.integers(-3, 4)
    X[:8] = rng.choice([np.nan, np.inf, -np.inf, 1e308, -1e308, 5e-324, 0.0], (8, 2))
    X[8:11] = query.mixture.means
    weight = rng.choice([0.0, 1.5, 0.3, 1e300, np.inf, -1.0, np.nan], 40)
    (group,) = query.groups(neighbours)
    slack = query.rounding(1.0)
    sums = np.array(
        [query(Block(X[i : i + 1], weight[i : i + 1]), Scratch()).total[0] for i in range(40)]
    )
    assert np.isfinite(sums).all()
    if neighbours == "add-remove":
        assert np.abs(sums).max() <= group.sensitivity + slack
    else:
        assert sums.max() - sums.min() <= group.sensitivity + slack


@pytest.mark.parametrize("neighbours", NEIGHBOURS)
def test_the_bound_is_attained(neighbours: str) -> None:
    density = Mixture("spherical", np.ones(1), np.zeros((1, 2)), np.ones(1))
    query = LogDensityQuery(density, lowest(density), highest(density))
    peak, far = query.contributions(Block(np.array([[0.0, 0.0], [1e9, 0.0]])), Scratch())
    moved = peak - far if neighbours == "replace-one" else max(abs(peak), abs(far))
    assert moved == pytest.approx(query.groups(neighbours)[0].sensitivity, rel=1e-9)
    with pytest.raises(ValueError, match="neighbours"):
        query.groups("bounded")


@pytest.mark.parametrize("kind", TYPES)
@settings(max_examples=15)
@given(seed=st.integers(0, 2**32 - 1))
def test_a_value_is_the_records_own(kind: str, seed: int) -> None:
    """Wherever a record stands, whoever stands beside it."""
    query, rng = query_of(kind, seed % 20), np.random.default_rng(seed)
    X = rng.normal(0, 4, (37, 2))
    alone = [query.contributions(Block(x[None]), Scratch())[0] for x in X]
    order = rng.permutation(37)
    together = query.contributions(Block(np.asfortranarray(X[order])), Scratch())
    # A thousandth of what is charged.
    assert np.abs(together - np.array(alone)[order]).max() <= query.rounding(1.0) / 1000


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
    assert names == (["count", "score"] if neighbours == "add-remove" else ["score"])


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
    assert run(plans[0], Recorded(record.releases)) == (score.value, score.deviation)


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
    # Infinities are far away, and that is all.
    score = model.private_score(np.full((9000, 2), np.inf), neighbours="replace-one", epsilon=50.0)
    assert score.value == pytest.approx(score.limits[0], abs=0.01)


def test_a_federation_is_refused_before_anybody_is_asked():
    X = np.random.default_rng(0).normal(size=(300, 1))
    parties = [Party(part, name) for part, name in zip(np.split(X, 3), "abc", strict=True)]
    model = GaussianMixture(bounds=6.0).fit(X)
    with pytest.raises(TypeError, match="not a Federation"):
        model.private_score(Federation(parties))
