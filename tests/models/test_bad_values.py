"""Whatever the values are, a private fit neither fails on them nor says a word about them."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privem import BoundsNotFound, FactorAnalysis, GaussianMixture, KMeans
from privem.blocks.region import Region
from privem.blocks.sensitivity import MomentWeights
from privem.core import Block, Stage
from privem.data import LocalSource, kinds, read_file, read_rows
from privem.data.persons import per_person
from privem.linalg import ravel
from privem.models.factor_analysis.query import BoundedMomentsQuery
from privem.models.gaussian_mixture.model import Mixture
from privem.models.gaussian_mixture.query import BoundedQuery
from privem.models.kmeans.query import BoundedClusterQuery
from privem.noise.discrete import Discrete

ESTIMATORS = [
    GaussianMixture(2, epsilon=1.0, n_iter=3),
    KMeans(2, epsilon=1.0, n_iter=3),
    FactorAnalysis(1, epsilon=1.0),
]


def fitted(model: Any, X: Any, **fit: Any) -> Any:
    from sklearn.base import clone

    with warnings.catch_warnings():
        # What noise has done is said from releases alone.
        warnings.filterwarnings("ignore", ".*(cannot be told apart|no more records than noise)")
        model = clone(model).fit(X, **fit)
    for name, value in vars(model).items():
        if isinstance(value, np.ndarray) and value.dtype.kind == "f":
            assert np.isfinite(value).all(), name
    return model


@pytest.fixture
def odd() -> np.ndarray:
    X = np.random.default_rng(0).standard_normal((400, 2))
    X[::50] = np.inf
    X[1::50, 0] = -np.inf
    X[2::50] = [1e308, -1e308]
    X[3::50] = [5e-324, -0.0]
    return X


@pytest.mark.parametrize("model", ESTIMATORS, ids=lambda m: type(m).__name__)
@pytest.mark.parametrize("bounds", [2.0, (-3, 3)], ids=["ball", "box"])
def test_infinities_and_outliers_pass_silently(model: Any, bounds: Any, odd: np.ndarray) -> None:
    model = type(model)(**{**model.get_params(), "bounds": bounds})
    fitted(model, odd)
    fitted(model, odd[:1])
    fitted(model, np.clip(odd, -3e38, 3e38).astype(np.float32))
    fitted(model, pd.DataFrame(odd))
    fitted(model, pl.DataFrame(odd, schema=["a", "b"]))


@pytest.mark.parametrize("model", ESTIMATORS, ids=lambda m: type(m).__name__)
@pytest.mark.parametrize("value", [0.0, 1.0, 123456789.0, -1e15, 1e28])
def test_constant_columns_pass_silently(model: Any, value: float) -> None:
    # Far from zero, their scale is below what doubles can tell apart.
    fitted(model, np.full((3000, 2), value))


@pytest.mark.parametrize("model", ESTIMATORS, ids=lambda m: type(m).__name__)
def test_nan_is_refused_in_arrays_and_frames_before_anything_is_asked(
    model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def explode(self: Any, stage: Stage) -> Any:
        raise AssertionError("the data were touched")

    monkeypatch.setattr(LocalSource, "release", explode)
    X = np.ones((10, 2))
    X[7, 1] = np.nan
    X[3] = np.inf
    for data in (X, pd.DataFrame(X), pl.DataFrame(X), X.astype(np.float32)):
        with pytest.raises(ValueError, match="contains NaN"):
            fitted(model, data)


@pytest.mark.parametrize("model", ESTIMATORS, ids=lambda m: type(m).__name__)
def test_streams_map_bad_rows(
    model: Any, odd: np.ndarray, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The backstop, for files that change after the one look at them."""
    monkeypatch.setattr(kinds, "refuse_missing", lambda *known: None)
    odd[5::20] = np.nan
    model = type(model)(**{**model.get_params(), "bounds": (-3, 3)})
    np.save(tmp_path / "x.npy", odd)
    fitted(model, tmp_path / "x.npy")
    weight = np.where(np.arange(len(odd)) % 7, 0.5, np.nan)
    weight[:3] = [-1.0, np.inf, 1e300]
    pl.DataFrame({"a": odd[:, 0], "b": odd[:, 1], "w": weight}).write_parquet(
        tmp_path / "x.parquet"
    )
    fitted(model, tmp_path / "x.parquet", sample_weight="w")
    fitted(model, read_file(tmp_path / "x.parquet", columns=["a", "b"]))
    fitted(model, read_file(tmp_path / "x.npy"))
    # Exact fits still refuse them.
    with pytest.raises(ValueError, match=r"NaN|infinity"):
        fitted(type(model)(**{**model.get_params(), "epsilon": None}), tmp_path / "x.npy")


@pytest.mark.parametrize("model", ESTIMATORS, ids=lambda m: type(m).__name__)
def test_no_rows_and_few_rows(model: Any, tmp_path: Path) -> None:
    given = type(model)(**{**model.get_params(), "bounds": 2.0})
    for n in (0, 1, 2):
        np.save(tmp_path / "x.npy", np.zeros((n, 2)))
        fitted(given, tmp_path / "x.npy")
        with pytest.raises(BoundsNotFound, match="too few to find bounds of columns 0, 1"):
            fitted(model, tmp_path / "x.npy")


def test_every_query_can_be_asked_about_nothing() -> None:
    region = Region.around_origin(1.0, 3)
    w = MomentWeights.balanced(3, 2.0)
    source = LocalSource(read_rows(np.empty((0, 3))))
    for kind, covariances in (
        ("full", np.stack([np.eye(3)] * 2)),
        ("tied", np.eye(3)),
        ("diag", np.ones((2, 3))),
        ("spherical", np.ones(2)),
    ):
        mixture = Mixture(kind, np.full(2, 0.5), np.zeros((2, 3)), covariances)
        for direct in (False, True):
            query = BoundedQuery(mixture, region, w, "whitened", 10)
            query.__dict__["direct"] = direct
            release = source.release(Stage(query, Discrete(1.0, "add-remove", 10.0)))
            assert np.isfinite(ravel(release.statistics)).all()
    for other in (
        BoundedClusterQuery(np.zeros((2, 3)), region, w, 1.0, "whitened"),
        BoundedMomentsQuery(region, w),
    ):
        release = source.release(Stage(other, Discrete(1.0, "add-remove", 10.0)))
        assert np.isfinite(ravel(release.statistics)).all()


@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
def test_a_cap_below_one_does_not_cheapen_what_nobody_weighs(neighbours: str) -> None:
    """Records without weights count one, and are charged one, whatever max_weight says."""
    X = np.random.default_rng(0).uniform(-1, 1, (200, 2))
    sensitivities = []
    for cap in (1.0, 0.01, 50.0):
        for groups in (None, np.arange(200) // 4):
            model = KMeans(
                2, epsilon=1.0, bounds=1.0, max_weight=cap, n_iter=1, neighbours=neighbours
            )
            model.fit(X, groups=groups)
            sensitivities.append(model.privacy_.releases[-1].groups[0].sensitivity)
    assert len(set(sensitivities)) == 1
    weighted = KMeans(2, epsilon=1.0, bounds=1.0, max_weight=0.5, n_iter=1, neighbours=neighbours)
    weighted.fit(X, sample_weight=np.ones(200))
    assert weighted.privacy_.releases[-1].groups[0].sensitivity == pytest.approx(
        sensitivities[0] / 2
    )


@settings(max_examples=50)
@given(st.lists(st.integers(0, 9), min_size=1, max_size=60))
def test_each_person_counts_once(labels: list[int]) -> None:
    weight, chosen = per_person(labels, len(labels))
    sums = np.bincount(labels, weights=weight)
    present = np.unique(labels)
    np.testing.assert_allclose(sums[present], 1.0, rtol=1e-15 * len(labels))
    assert sorted(np.asarray(labels)[chosen].tolist()) == present.tolist()
    with pytest.raises(ValueError, match="groups has shape"):
        per_person(labels, len(labels) + 1)


def test_any_row_of_a_person_may_be_the_chosen_one() -> None:
    seen = {int(per_person([0, 1, 0, 0], 4)[1][0]) for _ in range(400)}  # misses one: 1e-70
    assert seen == {0, 2, 3}
    assert all(int(per_person([0, 1, 0, 0], 4)[1][1]) == 1 for _ in range(20))


@pytest.mark.parametrize(
    "wrong",
    [
        {"bounds": (0.0, 5e-324)},
        {"bounds": (-1e308, 1.7e308)},
        {"bounds": (1.0, 1.0)},
        {"max_weight": 1e-200},
        {"max_weight": 1e200},
    ],
    ids=str,
)
def test_what_double_precision_cannot_hold_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"bounds|max_weight"):
        GaussianMixture(2, epsilon=1.0, **wrong).fit(np.zeros((5, 2)))


def test_the_statement_names_the_cap_on_weights() -> None:
    X = np.random.default_rng(0).normal(size=(60, 2))
    model = KMeans(2, epsilon=1.0, bounds=4.0, max_weight=3.0, n_iter=1)
    assert "largest sample weight" not in model.fit(X).privacy_.public
    weighted = model.fit(X, sample_weight=np.full(60, 2.0)).privacy_
    assert weighted.public["largest sample weight"] == "3"
    assert "largest sample weight 3" in str(weighted)


def test_weights_are_data_of_which_only_nan_is_refused(tmp_path: Path) -> None:
    """Negative, infinite and huge weights pass without a word; they are pulled into the cap."""
    X = np.random.default_rng(0).normal(size=(60, 2))
    odd = np.ones(60)
    odd[:4] = [-1.0, np.inf, 1e300, -np.inf]
    np.save(tmp_path / "x.npy", X)
    for where in (X, tmp_path / "x.npy"):
        model = KMeans(2, epsilon=1.0, bounds=4.0, n_iter=1)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert np.isfinite(fitted(model, where, sample_weight=odd).cluster_centers_).all()
        with pytest.raises(ValueError, match="not negative; row 0 has -1"):
            KMeans(2, epsilon=None).fit(where, sample_weight=odd)
    odd[9] = np.nan
    with pytest.raises(ValueError, match=r"^sample_weight contains NaN$"):
        model.fit(X, sample_weight=odd)


@pytest.mark.parametrize("none", [np.nan, None, pd.NA, np.datetime64("NaT")])
def test_rows_of_nobody_known_are_refused(none: Any) -> None:
    """They would share one person's weight, and nobody of them would be hidden."""
    X = np.random.default_rng(0).normal(size=(6, 2))
    ids: Any = [1.0, none, 2.0, none, 3.0, 3.0]
    if isinstance(none, np.datetime64):
        ids = np.array([none] * 6)
    with pytest.raises(ValueError, match="groups contains missing values"):
        KMeans(2, bounds=3.0).fit(X, groups=pd.Series(ids) if none is pd.NA else np.array(ids))
    with pytest.raises(TypeError, match="groups names a column, which arrays do not have"):
        KMeans(2, bounds=3.0).fit(X, groups="patient")


def test_a_large_delta_is_remarked_upon() -> None:
    X = np.random.default_rng(0).normal(size=(300, 2))
    with pytest.warns(UserWarning, match="delta=0.5 is large"):
        KMeans(2, bounds=5.0, delta=0.5).fit(X)


def test_longer_blocks_than_asked_for_are_cut() -> None:
    """Error bounds rest on the length of a block, and any object with blocks may be fitted."""
    X = np.random.default_rng(0).normal(size=(50_000, 2))

    class Whole:
        n_features, names = 2, None

        def blocks(self, rows: int) -> Any:
            yield Block(X, np.ones(len(X)))

    seen = list(LocalSource(Whole(), 1).each(lambda block, _: len(block.X), 512))
    assert max(seen) <= 512
    assert sum(seen) == 50_000


def test_laplace_noise_alone_is_never_refused_in_mid_fit() -> None:
    """There "auto" prices by the sum of epsilons, so iterations may not be chosen afterwards."""
    X = np.random.default_rng(0).uniform(-1, 1, size=(20_000, 2))
    given = {"epsilon": 5.0, "neighbours": "replace-one", "bounds": (-1.0, 1.0)}
    KMeans(2, mechanism="ll", init=np.array([[-0.5, 0.0], [0.5, 0.0]]), **given).fit(X)
    GaussianMixture(
        1,
        mechanism="laplace",
        weights_init=[1.0],
        means_init=[[0.0, 0.0]],
        precisions_init=[np.eye(2)],
        **given,
    ).fit(X)


@pytest.mark.parametrize("kind", ["diag", "spherical"])
def test_a_given_start_of_any_shape_in_any_recipe(kind: str) -> None:
    X = np.random.default_rng(0).uniform(-1, 1, size=(2_000, 2))
    precisions = np.ones((2, 2)) if kind == "diag" else np.ones(2)
    for mechanism in ("joint", "ggg", "llg", "laplace"):
        model = GaussianMixture(2, covariance_type=kind, mechanism=mechanism, bounds=(-1, 1))
        model.set_params(weights_init=[0.5, 0.5], means_init=[[-0.5, 0], [0.5, 0]])
        assert np.isfinite(model.set_params(precisions_init=precisions).fit(X).means_).all()
