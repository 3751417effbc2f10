"""Whatever a record holds, a private query gives finite, bounded sums and says nothing of it.

Bounds, starts and other numbers lie at the very limits of what is allowed.
"""

import math
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pytest

from privem import (
    CategoricalMixture,
    FactorAnalysis,
    GaussianMixture,
    KMeans,
    MissingCovariateRegression,
    PrivacyCompositionWarning,
    RegressionMixture,
    SymmetricMixture,
    SymmetricRegressionMixture,
    private_mean,
)
from privem.blocks.bounding import Clip
from privem.blocks.histograms import CountQuery
from privem.blocks.log_density import ClippedLogs, DisagreementQuery, LogDensityQuery
from privem.core import Block, Release, Scratch, Stage
from privem.data import ArrayRows, LocalSource
from privem.data.sums import finite_sums
from privem.data.values import quietly
from privem.declaration import declarations, declared
from privem.federation import Federation, Party
from privem.linalg import LARGEST, SMALLEST, ravel
from privem.local import messages
from privem.noise import discrete
from privem.noise.discrete import Discrete

N = 60
MANY = 20_000  # so that bounds can be found
WIDE, NARROW = LARGEST * (1 - 2.0**-50), SMALLEST * 2
BOUNDS: dict[str, Any] = {
    "wide ball": WIDE,
    "narrow ball": NARROW,
    "wide box": (-WIDE, WIDE),
    "mixed box": ([-WIDE, -NARROW], [WIDE, NARROW]),
    "far box": (WIDE * (1 - 1e-10), WIDE),
}
START = {"weights_init": [0.5, 0.5], "means_init": [[WIDE, -WIDE], [0, 0]]}
WORST = [WIDE, -WIDE]
# As they come, and where their other numbers lie at the limits too.
MODELS: list[Any] = [
    *(
        each.estimator(**{each.count: 2} if each.count else {})
        for each in declarations()
        if not (each.categories or each.schema)
    ),
    GaussianMixture(2, n_iter=2, covariance_type="tied", mechanism="joint"),
    GaussianMixture(2, n_iter=2, covariance_type="diag", neighbours="replace-one"),
    GaussianMixture(2, n_iter=2, covariance_type="spherical", mechanism="laplace"),
    GaussianMixture(2, n_iter=2, **START, precisions_init=[np.eye(2) * WIDE] * 2),
    GaussianMixture(
        2, n_iter=2, **START, precisions_init=[NARROW] * 2, covariance_type="spherical"
    ),
    GaussianMixture(2, n_iter=2, prior="map", mean_prior=WORST, covariance_prior=NARROW),
    KMeans(2, n_iter=2, max_weight=WIDE),
    KMeans(2, n_iter=2, mechanism="dplloyd", init=[[WIDE, WIDE], [-WIDE, NARROW]]),
    FactorAnalysis(1, max_weight=NARROW),
    FactorAnalysis(1, mechanism="joint"),
    SymmetricMixture(n_iter=3, method="gradient", mechanism="robust", init=WORST, tau=WIDE),
    SymmetricRegressionMixture(n_iter=3, noise_variance=NARROW, init=WORST),
    SymmetricRegressionMixture(n_iter=3, method="gradient", clip=NARROW, step=WIDE),
    MissingCovariateRegression(n_iter=3, noise_variance=NARROW, init=WORST),
    MissingCovariateRegression(n_iter=3, method="moments"),
    MissingCovariateRegression(n_iter=3, method="gradient", mechanism="robust", init=WORST),
    RegressionMixture(
        2,
        n_iter=2,
        weights_init=[0.5, 0.5],
        coef_init=[WORST, [NARROW, 0]],
        intercept_init=[WIDE, -WIDE],
        noise_variance_init=[WIDE, NARROW],
    ),
]
VALUES = [np.nan, np.inf, -np.inf, 1e308, -1e308, 5e-324, -0.0, WIDE, NARROW]


def hostile(columns: int) -> np.ndarray:
    """Every value in all columns, in the first alone, and with the next one beside it."""
    rows = [[v] * columns for v in VALUES] + [[v] + [0.0] * (columns - 1) for v in VALUES]
    rows += [
        [a] + [b] * (columns - 1) for a, b in zip(VALUES, VALUES[1:] + VALUES[:1], strict=True)
    ]
    return np.array(rows)


def data(regression: bool, others: int = N) -> tuple[np.ndarray, ...]:
    """Hostile records, less NaN, which arrays are refused for; and others."""
    odd = hostile(3)
    odd = odd[~np.isnan(odd).any(axis=1)]
    rows = np.concatenate([odd, np.random.default_rng(0).normal(size=(others, 3))])
    return (rows[:, :2], rows[:, 2]) if regression else (rows[:, :2],)


def check_query(query: Any, neighbours: str, columns: int) -> None:
    """No record, alone or in company, moves a sum by more than was charged for it."""
    rows, scratch = hostile(columns), Scratch()
    ask, off = finite_sums(query), query.rounding(1.0) * query.__dict__.get("cap_weight", 1.0)
    groups = query.groups(neighbours)
    with quietly():
        none = ravel(query(Block(rows[:0]), scratch))
        alone = [ravel(query(Block(row[None]), scratch)) for row in rows]
        for weight in (None, np.full(len(rows), np.inf)):
            assert np.isfinite(ravel(ask(Block(rows, weight), scratch))).all()
    for row, sums in zip(rows, alone, strict=True):
        assert np.isfinite(sums).all(), (query, row)
        for group in groups:
            moved = (sums - none)[group.where]
            size = np.abs(moved).sum() if group.kind == "laplace" else math.hypot(*moved)
            assert size <= group.sensitivity + off * math.sqrt(group.dimension), (query, row)


@pytest.mark.parametrize("name", BOUNDS)
@pytest.mark.parametrize("model", MODELS, ids=lambda m: f"{MODELS.index(m)}-{type(m).__name__}")
@pytest.mark.filterwarnings("ignore:MissingCovariateRegression assumes", "ignore:.*did not conv")
@pytest.mark.filterwarnings("ignore:.*too few for")
def test_at_the_limits_of_what_is_allowed(model: Any, name: str) -> None:
    """Fits end well, with finite parameters, and no warning escapes: warnings are errors here."""
    asked: list[tuple[Any, str]] = []

    def watch(stage: Stage, release: Release[Any]) -> None:
        assert np.isfinite(ravel(release.statistics)).all()
        asked.append((stage.query, stage.noise.neighbours))  # type: ignore[attr-defined]

    regression = declared(type(model).__name__).target
    given = {**model.get_params(), "bounds": BOUNDS[name], "n_jobs": 2}
    if regression:
        given["target_bounds"] = NARROW if name == "wide ball" else WIDE
    model = type(model)(**given)
    model._watch = watch
    odd = np.resize(VALUES, len(data(False)[0]))
    weight = None if model.max_weight == 1 else np.nan_to_num(odd, nan=1.0, posinf=np.inf)
    model.fit(*data(regression), sample_weight=weight)
    for key, value in vars(model).items():
        if isinstance(value, np.ndarray) and key.endswith("_"):
            assert np.isfinite(value).all(), key
    for query, neighbours in asked:
        check_query(query, neighbours, 3 if regression else 2)


@pytest.mark.parametrize("view", ["octaves", "norms", "regressions"])
@pytest.mark.filterwarnings("ignore:.*too few for")
def test_bounds_are_found_whatever_records_hold(view: str) -> None:
    asked: list[tuple[Any, str]] = []
    model: Any = {
        "octaves": FactorAnalysis(1, epsilon=4.0),
        "norms": SymmetricRegressionMixture(n_iter=2, epsilon=4.0),
        "regressions": RegressionMixture(1, n_iter=2, epsilon=4.0),
    }[view]
    model._watch = lambda stage, release: asked.append((stage.query, stage.noise.neighbours))
    model.fit(*data(view != "octaves", MANY))
    for query, neighbours in asked:
        check_query(query, neighbours, 2 if view == "octaves" else 3)


def test_categories_a_count_and_a_score() -> None:
    asked: list[tuple[Any, str]] = []
    model = CategoricalMixture(2, categories=[0, 1], n_iter=2)
    model._watch = lambda stage, release: asked.append((stage.query, stage.noise.neighbours))
    model.fit(np.resize([0, 1, 1], (N, 2)))
    for query, neighbours in asked:
        check_query(query, neighbours, 2)
    check_query(CountQuery(WIDE), "add-remove", 2)
    density = GaussianMixture(1, bounds=WIDE).fit(data(False)[0])._scored()
    for several in ((density,), (density, density)):
        logs = ClippedLogs(several, -WIDE, density.peak)
        check_query(LogDensityQuery(logs, None if len(several) == 1 else 1.0), "replace-one", 2)
        check_query(DisagreementQuery(logs), "replace-one", 2)


@pytest.mark.parametrize("tau", [None, WIDE**2 * (1 - 2.0**-50), NARROW**2])
def test_means(tau: float | None) -> None:
    for method in ("auto", "theorem 2", "lemma 1"):
        x = data(False, N if tau else MANY)[0]
        mean = private_mean(x, tau=tau, centre=WIDE if tau else 0.0, method=method)
        assert np.isfinite(np.asarray(mean)).all()


def test_nothing_is_heard_from_threads_parties_and_devices() -> None:
    """Also where the caller has asked NumPy to raise at the first overflow."""
    rows = np.tile(hostile(2), (200, 1))
    stage_of: list[Stage] = []
    with np.errstate(all="raise"):
        source = LocalSource(ArrayRows(rows), n_jobs=2)
        query = _Overflowing(2.0)
        release = source.release(Stage(query, Discrete(5.0, "add-remove", len(rows))))
        assert np.isfinite(release.statistics.total).all()
        stage = Stage(query, Discrete(5.0, "replace-one", 1.0))
        assert messages(stage, rows).shape == (len(rows), 2)
        parties = [Party(rows[i::3], name) for i, name in enumerate("abc")]
        federation = Federation(parties, protection="plain")
        model = KMeans(2, bounds=WIDE, n_iter=2)
        model._watch = lambda stage, release: stage_of.append(stage)
        model.fit(federation)
    assert stage_of


@dataclass(frozen=True)
class _Total:
    total: np.ndarray


@dataclass(frozen=True)
class _Overflowing:
    """A query that forgot to clip: squares overflow, and NaN stays NaN."""

    bound: float
    block_rows: int = 4096
    cell: None = None
    size: int = 2

    def contributions(self, block: Block, scratch: Scratch) -> np.ndarray:
        with np.errstate(under="ignore"):
            return (block.X * block.X / np.where(np.isnan(block.X), 1.0, 1e300)).T * 0 + block.X.T

    def __call__(self, block: Block, scratch: Scratch) -> _Total:
        return _Total(self.contributions(block, scratch).sum(axis=1))

    def unravel(self, vector: np.ndarray) -> _Total:
        return _Total(vector)

    def groups(self, neighbours: str) -> Any:
        from privem.core import Group

        return [Group("total", slice(0, 2), self.bound)]

    def rounding(self, rows: float) -> float:
        return 0.0


def test_a_record_that_is_not_finite_counts_as_zero_and_the_rest_is_kept() -> None:
    """It once took the whole sum with it."""
    rows = np.array([[0.5, 1.0], [np.nan, 1.0], [0.25, np.inf], [1.0, -1.0]])
    sums = finite_sums(_Overflowing(2.0))
    with quietly():
        assert sums(Block(rows), Scratch()).total.tolist() == [1.5, 0.0]
        assert sums(Block(rows[1:3]), Scratch()).total.tolist() == [0.0, 0.0]
    source = LocalSource(ArrayRows(np.tile(rows, (2000, 1))), n_jobs=2)
    noise = Discrete(5.0, "add-remove", 8000.0)
    total = source.release(Stage(_Overflowing(2.0), noise)).statistics.total
    assert abs(total[0] - 3000) < 100  # ten deviations


TOO_LARGE: list[Any] = [
    GaussianMixture(bounds=1e77),
    GaussianMixture(bounds=(-1e300, 1e300)),
    GaussianMixture(bounds=([0, 1], [1, 1 + 1e-16 * 2.5]), max_weight=1e40),
    GaussianMixture(bounds=1e-100),
    GaussianMixture(bounds={"a": (0, 1e-40), "b": (0, 1)}),
    GaussianMixture(bounds=1.0, prior="map", mean_prior=[1e200, 0]),
    GaussianMixture(bounds=1.0, prior="map", covariance_prior=1e200),
    GaussianMixture(
        bounds=1.0, weights_init=[1.0], means_init=[[0, 1e31]], precisions_init=[np.eye(2)]
    ),
    GaussianMixture(
        bounds=1.0, weights_init=[1.0], means_init=[[0, 1]], precisions_init=[np.eye(2) * 1e200]
    ),
    GaussianMixture(bounds=1.0, reg_covar=1e300),
    KMeans(1, bounds=1.0, init=[[1e31, 0]]),
    KMeans(1, bounds=1.0, max_weight=1e31),
    KMeans(1, bounds=1.0, max_weight=1e-31),
    FactorAnalysis(1, bounds=1.0, noise_variance_init=[1.0, 1e300]),
    SymmetricMixture(bounds=1.0, noise_variance=1e-200),
    SymmetricMixture(bounds=1.0, init=[1e99, 0]),
    SymmetricRegressionMixture(bounds=1.0, target_bounds=1e150),
    SymmetricRegressionMixture(bounds=1.0, target_bounds=1e-150),
    MissingCovariateRegression(bounds=1.0, target_bounds=1.0, method="gradient", clip=1e-140),
    MissingCovariateRegression(bounds=1.0, target_bounds=1.0, method="gradient", step=1e40),
    RegressionMixture(1, bounds=1.0, target_bounds=(0, 1e40)),
]


@pytest.mark.parametrize("model", TOO_LARGE, ids=lambda m: f"{TOO_LARGE.index(m)}")
def test_numbers_beyond_the_limits_are_refused_before_anything_is_spent(
    model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(self: Any, stage: Stage) -> Any:
        raise AssertionError("something was released")

    monkeypatch.setattr(LocalSource, "release", never)
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(N, 2)), columns=["a", "b"])
    with pytest.raises(ValueError, match="a private fit computes with numbers of a size"):
        model.fit(X, X["a"].to_numpy()) if "Regression" in type(model).__name__ else model.fit(X)


@pytest.mark.parametrize(
    "given", [{"tau": 1e-90}, {"tau": 1e90}, {"tau": 1.0, "centre": 1e31}], ids=str
)
def test_means_and_scores_refuse_them_too(given: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="a private fit computes with numbers of a size"):
        private_mean(np.ones(9), **given)
    model = GaussianMixture(bounds=5.0).fit(np.ones((9, 1)))
    with pytest.raises(ValueError, match="a private fit computes with numbers of a size"):
        model.private_score(np.ones((9, 1)), floor=-1e40)


def test_an_exact_fit_has_no_such_limits() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        KMeans(1, epsilon=None, init=[[1e99]], n_init=1).fit(np.ones((9, 1)))


@pytest.mark.parametrize("kind", ["full", "tied"])
@pytest.mark.filterwarnings("ignore:.*too few for")
def test_a_prior_far_from_the_data_gives_a_model_all_the_same(kind: str) -> None:
    """LinAlgError, once, after all releases had been paid for."""
    X = np.random.default_rng(0).normal(size=(300, 2))
    for low in (1e9, 1e15, 1e30):
        model = GaussianMixture(
            2, bounds=(low, low * (1 + 1e-9)), prior="map", n_iter=2, covariance_type=kind
        )
        assert np.isfinite(model.fit(X).precisions_).all()


def test_large_weights_leave_room_for_their_sums() -> None:
    """A cap of 1e9 was once counted twice, and refused after the count had been paid for."""
    X = np.random.default_rng(0).normal(size=(300, 2))
    for cap in (1e9, WIDE):
        weight = np.full(300, cap)
        KMeans(2, bounds=5.0, max_weight=cap, n_iter=2).fit(X, sample_weight=weight)


def test_a_length_does_not_hang_on_whether_its_square_overflows() -> None:
    g = np.array([[1e200, 1e154, 3.0], [1e200, 1e154, 4.0]])
    with quietly():
        clipped = Clip(1.0).apply(g, Scratch())
    root = math.sqrt(0.5)
    assert np.allclose(clipped, [[root, root, 0.6], [root, root, 0.8]], rtol=1e-14)


def _without_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no noise be drawn: nothing may be released."""

    def none(*_: Any, **__: Any) -> Any:
        raise AssertionError("released")

    monkeypatch.setattr(discrete, "draw", none)


def test_what_cannot_be_computed_is_refused_before_anything_is_released(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _without_draws(monkeypatch)
    X = np.random.default_rng(0).normal(size=(N, 2))
    with pytest.raises(ValueError, match="delta must be 0 or at least"):
        KMeans(2, delta=5e-324, bounds=5.0).fit(X)
    with pytest.raises(ValueError, match="epsilon must be at least"):
        KMeans(2, epsilon=5e-324, bounds=5.0).fit(X)
    for method in ("lemma 1", "theorem 2"):
        with pytest.raises(ValueError, match="failure is a probability"):
            private_mean(X, tau=1.0, method=method, failure=5e-324)
    for huge in (
        KMeans(4097, bounds=5.0),
        GaussianMixture(10**12, bounds=5.0),
        CategoricalMixture(10**5, categories=["no", "yes"]),
    ):
        with pytest.raises(ValueError, match="a private fit has at most 4096"):
            huge.fit(X)
    many = {"max_rows": 2**36, "epsilon": 30.0}
    for fit in (
        lambda: private_mean(X, tau=1.0, delta=0, max_rows=2**36, epsilon=4.0),
        lambda: private_mean(X, tau=1.0, **many),
        lambda: KMeans(2, bounds=5.0, **many).fit(X),
        lambda: KMeans(2, bounds=5.0, delta=0, **many).fit(X),
        lambda: GaussianMixture(2, epsilon=100.0, max_rows=2**36).fit(X),
    ):
        with pytest.raises(ValueError, match="max_rows=68719476736 is too large for epsilon"):
            fit()


@pytest.mark.filterwarnings("ignore:.*too few for")
def test_a_limit_on_rows_leaves_usual_budgets_alone() -> None:
    X = np.random.default_rng(0).normal(size=(MANY, 2))
    KMeans(2, epsilon=8.0, max_rows=10**9).fit(X)
    KMeans(2, epsilon=1.0, max_rows=2**36).fit(X)
    GaussianMixture(2, bounds=5.0, delta=0, epsilon=20.0, max_rows=10**9).fit(X)


@pytest.mark.parametrize("cap", [1e20, WIDE])
@pytest.mark.parametrize("weight", [1.0, 1e-3])
@pytest.mark.filterwarnings("ignore:.*too few for")
def test_bounds_are_found_whatever_records_weigh(cap: float, weight: float) -> None:
    X = np.random.default_rng(0).normal(size=(MANY, 2))
    model = KMeans(2, max_weight=cap).fit(X, sample_weight=np.full(MANY, weight * cap))
    low, high = model.bounds_
    assert ((low < -2) & (low > -9) & (high > 2) & (high < 9)).all()


LONG = np.longdouble("1e400")


@pytest.mark.skipif(not np.isfinite(LONG), reason="long doubles are doubles here")
def test_a_number_too_large_for_double_precision_says_nothing() -> None:
    x = np.random.default_rng(0).normal(size=(N, 2))
    long, mixed, weight = x.astype(np.longdouble), x.astype(object), np.ones(N, np.longdouble)
    long[3, 0] = mixed[3, 0] = weight[3] = LONG
    model = KMeans(2, bounds=5.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", PrivacyCompositionWarning)
        for advice in ("too few for", "cannot be told apart", "no more records than noise"):
            warnings.filterwarnings("ignore", f".*{advice}")
        for rows in (long, mixed, pd.DataFrame(long), pd.DataFrame(mixed), mixed.tolist()):
            model.fit(rows)
            private_mean(rows, tau=1.0)
        model.fit(x, sample_weight=weight)
        SymmetricRegressionMixture(bounds=5.0, target_bounds=(-5, 5)).fit(x, weight)


def test_a_complex_number_among_objects_is_refused_without_a_word() -> None:
    mixed = np.random.default_rng(0).normal(size=(N, 2)).astype(object)
    mixed[3, 0] = np.complex128(41 + 2j)
    weight = np.ones(N, object)
    weight[3] = 10**400
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for fit in (
            lambda: KMeans(2, bounds=5.0).fit(mixed),
            lambda: KMeans(2, bounds=5.0).fit(pd.DataFrame(mixed)),
            lambda: private_mean(mixed, tau=1.0),
            lambda: KMeans(2, bounds=5.0).fit(np.ones((N, 2)), sample_weight=mixed[:, 0]),
            lambda: KMeans(2, bounds=5.0).fit(np.ones((N, 2)), sample_weight=weight),
        ):
            with pytest.raises(ValueError, match=r"number|convert|Complex") as error:
                fit()
            assert "41" not in str(error.value)
