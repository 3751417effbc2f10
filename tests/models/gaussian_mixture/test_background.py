"""Models with a background: a uniform density on the bounds, beneath the model's own."""

import json
import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner
from scipy import stats
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import privem
from privem import FactorAnalysis, GaussianMixture, ModelFileError
from privem.blocks.region import Background, Region
from privem.cli import app
from privem.core import Block, Scratch
from privem.estimator import store
from privem.federation import Federation, Party
from privem.federation.wire.codec import BadMessage
from privem.federation.wire.queries import check_query
from privem.linalg import ravel
from privem.models.factor_analysis.plan import PrivateCovariancePlan
from privem.models.gaussian_mixture.model import COVARIANCE_TYPES, Mixture, MixtureQuery
from privem.models.gaussian_mixture.private_plan import PrivateMixturePlan

SHARE = 0.1


def contaminated(n: int = 3000, d: int = 2, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Two groups and records anywhere between -20 and 20; and which these are."""
    rng = np.random.default_rng(seed)
    X = 0.5 * rng.normal(size=(n, d)) + 4.0 * rng.integers(0, 2, (n, 1))
    anywhere = np.arange(n) < SHARE * n
    X[anywhere] = rng.uniform(-20, 20, (anywhere.sum(), d))
    return X, anywhere


def exact(components: int = 2, **more: Any) -> GaussianMixture:
    return GaussianMixture(components, epsilon=None, background=True, **more)


@contextmanager
def weighing(weight: float) -> Iterator[None]:
    """While entered, private fits give their background this weight."""
    with pytest.MonkeyPatch.context() as patch:
        for plan in (PrivateMixturePlan, PrivateCovariancePlan):

            def stages(self: Any, allowance: Any, original: Any = plan.stages) -> Any:
                return replace((yield from original(self, allowance)), background=weight)

            patch.setattr(plan, "stages", stages)
        yield


def private(cls: Any = GaussianMixture, weight: float = 0.3, bounds: Any = 9.0, d: int = 2) -> Any:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(2000, d)) * np.linspace(0.5, 1.0, d)
    with weighing(weight):
        return cls(1, epsilon=8.0, bounds=bounds, random_state=0).fit(X)


BOTH = pytest.mark.parametrize("cls", [GaussianMixture, FactorAnalysis])


# Parameters.


@BOTH
def test_what_it_can_be(cls: Any) -> None:
    X = contaminated(200)[0]
    for wrong in ("yes", None, 0.5, "True"):
        with pytest.raises(ValueError, match="background must be one of 'auto', True, False"):
            cls(1, background=wrong, epsilon=None).fit(X)
    assert cls(1).get_params()["background"] == "auto"
    assert clone(cls(1, background=True)).background is True
    for none in ("auto", False):
        model = cls(1, background=none, epsilon=None).fit(X)
        assert model.background_weight_ == 0
        assert not hasattr(model, "bounds_")


def test_exact_factor_analysis_has_none() -> None:
    with pytest.raises(ValueError, match="an exact factor analysis has none"):
        FactorAnalysis(1, background=True, epsilon=None).fit(contaminated(50)[0])


# Exact fits.


@pytest.mark.parametrize("kind", COVARIANCE_TYPES)
@pytest.mark.parametrize("prior", [None, "map"])
def test_exact_em_finds_the_weight_and_leaves_outliers_to_it(kind: str, prior: Any) -> None:
    X, anywhere = contaminated()
    model = exact(covariance_type=kind, prior=prior, tol=1e-9, reg_covar=0.0).fit(X)
    assert model.background_weight_ == pytest.approx(SHARE, abs=0.01)
    assert model.weights_.sum() == pytest.approx(1.0, abs=1e-12)
    np.testing.assert_allclose(model.means_[:, 0][np.argsort(model.means_[:, 0])], [0, 4], atol=0.1)
    np.testing.assert_allclose(model._density().deviations, 0.5, atol=0.05)
    assert np.diff(model.lower_bounds_).min() > -1e-12
    if prior is None:
        assert model.lower_bound_ == pytest.approx(model.score(X), abs=1e-7)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        without = GaussianMixture(2, covariance_type=kind, epsilon=None).fit(X)
    assert model.score(X[~anywhere]) > without.score(X[~anywhere]) + 0.3
    # Components only, and the whole of them.
    assert set(model.predict(X)) == {0, 1}
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0, rtol=1e-12)
    np.testing.assert_allclose(model.bounds_, [X.min(axis=0), X.max(axis=0)], rtol=1e-14)


@pytest.mark.parametrize("direct", [False, True])
@pytest.mark.parametrize("kind", COVARIANCE_TYPES)
def test_the_e_step_is_that_of_one_more_component(kind: str, direct: bool) -> None:
    X, _ = contaminated(500)
    X = np.concatenate([X, [[30.0, 3.0]]])
    model = exact(covariance_type=kind, bounds=(-20, [20, 19])).fit(X)
    if kind == "tied" and not direct:
        return
    m = model._density()
    query = MixtureQuery(m, np.array([1.0, 2.0]), direct)
    inside = np.clip(X, -20, [20, 19])
    each = np.stack(
        [
            stats.multivariate_normal(mean, np.linalg.inv(w.T @ w) if w.ndim == 2 else w**-2.0).pdf(
                inside
            )
            for mean, w in zip(m.means, m.whiteners, strict=True)
        ]
    )
    joint = (1 - model.background_weight_) * m.weights[:, None] * each
    whole = joint.sum(axis=0) + model.background_weight_ / (40 * 39)
    sums = query(Block(X), Scratch())
    np.testing.assert_allclose(sums.count, (joint / whole).sum(axis=1), rtol=1e-9)
    assert float(sums.log_likelihood) == pytest.approx(np.log(whole).sum(), rel=1e-9)
    np.testing.assert_allclose(model.score_samples(X), np.log(whole), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(
        sums.total + sums.count[:, None] * query.origins, (joint / whole) @ inside, rtol=1e-9
    )
    for row in X[:40]:
        most = query.largest(X.min(axis=0), X.max(axis=0)) * (1 + 1e-9)
        assert (np.abs(ravel(query(Block(row[None]), Scratch()))) <= most).all()


def test_given_bounds_clamp_the_records_of_an_exact_fit_too() -> None:
    X, _ = contaminated(800)
    for bounds, inside in (
        ((-6, 8), np.clip(X, -6, 8)),
        (9.0, X / np.maximum(np.linalg.norm(X, axis=1) / 9.0, 1.0)[:, None]),
    ):
        one, other = exact(bounds=bounds).fit(X), exact(bounds=bounds).fit(inside)
        np.testing.assert_allclose(one.means_, other.means_, rtol=1e-3)
        np.testing.assert_allclose(one.score_samples(X), one.score_samples(inside), rtol=1e-9)
    named = exact(bounds={"b": (-6, 8), "a": (-6, 9)}).fit(pl.DataFrame(X, schema=["a", "b"]))
    np.testing.assert_array_equal(named.bounds_, [[-6, -6], [9, 8]])
    with pytest.raises(ValueError, match="low must be below high"):
        exact(bounds=(3, 2)).fit(X)


def test_weights_are_copies_and_records_without_weight_have_no_range() -> None:
    X, _ = contaminated(400)
    copies = np.random.default_rng(0).integers(0, 3, len(X))
    copies[np.abs(X).argmax() // 2] = 0
    one = exact(tol=1e-6).fit(X, sample_weight=copies)
    other = exact(tol=1e-6).fit(np.repeat(X, copies, axis=0))
    np.testing.assert_array_equal(one.bounds_, other.bounds_)
    assert np.abs(X).max() > np.abs(one.bounds_).max()
    assert one.background_weight_ == pytest.approx(other.background_weight_, rel=1e-9)
    np.testing.assert_allclose(one.means_, other.means_, rtol=1e-9)


def test_a_range_without_volume_is_refused(tmp_path: Path) -> None:
    X = np.column_stack([contaminated(100)[0], np.ones(100)])
    with pytest.raises(ValueError, match="needs columns that vary, and these do not: 2;"):
        exact().fit(X)
    assert exact(bounds=(-20, 20)).fit(X).background_weight_ > 0
    X[3, 0] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        exact().fit(X)
    X[:, 2] = X[:, 1]
    pl.DataFrame(X, schema=["a", "b", "c"]).write_csv(tmp_path / "x.csv")
    with pytest.raises(ValueError, match=r"'a'|number 1"):
        exact().fit(tmp_path / "x.csv")


def test_a_warm_start_goes_on_with_the_weight() -> None:
    X, _ = contaminated()
    model = exact(max_iter=1, warm_start=True, tol=0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        bounds = [model.fit(X).lower_bound_ for _ in range(6)]
        once = exact(max_iter=6, tol=0.0).fit(X)
    assert np.diff(bounds).min() > 0
    assert model.background_weight_ == pytest.approx(once.background_weight_, rel=1e-9)
    model.set_params(background=False, max_iter=100, tol=1e-3).fit(X)
    assert model.background_weight_ == 0
    assert not hasattr(model, "bounds_")


def test_a_criterion_counts_the_weight() -> None:
    X, _ = contaminated(300)
    model, without = exact().fit(X), GaussianMixture(2, epsilon=None).fit(X)
    assert model._n_parameters() == without._n_parameters() + 1
    assert model.bic(X) == pytest.approx(
        -2 * model.score_samples(X).sum() + model._n_parameters() * math.log(300)
    )


@pytest.mark.parametrize("protection", ["plain", "masked"])
@pytest.mark.parametrize("kind", ["full", "tied"])
def test_parties_fit_what_one_table_does(protection: str, kind: str) -> None:
    X, _ = contaminated(600)
    central = exact(covariance_type=kind, bounds=(-15, 15)).fit(X)
    members = [Party(X[i::3], f"party {i}") for i in range(3)]
    terms = {"rows": 1000, "bounds": (-20.0, 20.0)} if protection == "masked" else {}
    federation = Federation(members, protection=protection, **terms)
    model = exact(covariance_type=kind, bounds=(-15, 15)).fit(federation)
    assert model.background_weight_ == pytest.approx(central.background_weight_, abs=1e-7)
    np.testing.assert_allclose(model.means_, central.means_, atol=1e-6)
    if protection == "plain":
        with pytest.raises(ValueError, match="background=True needs bounds here"):
            exact().fit(Federation([Party(X, name) for name in "abc"]))


def test_a_party_refuses_a_background_where_no_proof_has_one() -> None:
    from privem.blocks.sensitivity import MomentWeights
    from privem.models.gaussian_mixture.query import BoundedQuery

    region = Region.box(-np.ones(2), np.ones(2))
    full = Mixture("full", np.ones(1), np.zeros((1, 2)), np.eye(2)[None], Background(0.1, region))
    check_query(MixtureQuery(full, np.zeros(2)), 2, False)
    tied = replace(full, covariance_type="tied", covariances=np.eye(2))
    check_query(MixtureQuery(tied, np.zeros(2), direct=True), 2, False)
    with pytest.raises(BadMessage):
        check_query(MixtureQuery(tied, np.zeros(2)), 2, False)
    bounded = BoundedQuery(full, region, MomentWeights.balanced(2, 3.0), "whitened", 1e3, 1.0)
    check_query(replace(bounded, mixture=replace(full, background=None)), 2, True)
    with pytest.raises(BadMessage):
        check_query(bounded, 2, True)


def test_a_model_put_together_by_hand_has_none() -> None:
    made = GaussianMixture(1, covariance_type="spherical")
    made.n_features_in_ = 1
    made.weights_, made.means_, made.covariances_ = np.ones(1), np.zeros((1, 1)), np.ones(1)
    assert made.score_samples([[0.0]]) == pytest.approx(stats.norm.logpdf(0.0))
    assert made.sample(3, background=False)[0].shape == (3, 1)


# Densities and samples of private fits.


@BOTH
@pytest.mark.parametrize(("bounds", "d"), [((-8, 9), 1), (9.0, 1), ((-8, 9), 2), (9.0, 2)])
def test_the_density_integrates_to_one_and_is_flat_beyond_the_bounds(
    cls: Any, bounds: Any, d: int
) -> None:
    model = private(cls, 0.3, bounds, d)
    side = np.linspace(-9, 9, 20_001 if d == 1 else 501)
    side = (side[1:] + side[:-1]) / 2
    X = np.stack(np.meshgrid(*[side] * d), axis=-1).reshape(-1, d)
    low, high = model.bounds_
    norm = np.linalg.norm(X, axis=1)
    inside = norm <= 9 if bounds == 9.0 else ((low <= X) & (high >= X)).all(axis=1)
    density = np.exp(model.score_samples(X))
    assert density[inside].sum() * (side[1] - side[0]) ** d == pytest.approx(1.0, abs=5e-3)
    far = np.full((1, d), 40.0)
    border = far * 9 / np.linalg.norm(far) if bounds == 9.0 else np.full((1, d), 9.0)
    assert model.score_samples(far) == pytest.approx(model.score_samples(border), rel=1e-9)
    assert model.score(far) == model.score_samples(far)[0]


@BOTH
def test_samples_agree_with_the_density(cls: Any) -> None:
    """The mean of -log p over 40,000 draws is the entropy, within six standard errors."""
    model = private(cls, 0.3, (-8, 9), 1)
    x = np.linspace(-8, 9, 40_001)
    log_p = model.score_samples(x[:, None])
    entropy = -np.trapezoid(np.exp(log_p) * log_p, x)
    drawn = model.sample(40_000)
    found = -model.score_samples(drawn[0] if isinstance(drawn, tuple) else drawn)
    assert abs(found.mean() - entropy) < 6 * found.std() / 200


def test_the_background_has_its_share_of_a_sample_and_the_label_minus_one() -> None:
    """Of 10,000 draws; a binomial is this far off once in a billion."""
    model = private(weight=0.3)
    X, y = model.sample(10_000)
    assert X.shape == (10_000, 2)
    assert y.shape == (10_000,)
    assert abs((y == -1).sum() - 3000) < 280
    assert set(y) == {0, -1}
    flat = X[y == -1]
    assert np.linalg.norm(flat, axis=1).max() <= 9 * (1 + 1e-12)
    assert np.abs(X[y == 0]).max() < 6 < np.abs(flat).max()
    alone, y = model.sample(10_000, background=False)
    assert set(y) == {0}
    assert np.abs(alone).max() < 6
    assert model.background_weight_ == 0.3
    model.background_weight_ = 0.95
    with pytest.warns(UserWarning, match=r"the background has weight 0.95"):
        model.sample(3, background=False)
    factors = private(FactorAnalysis, 0.3)
    far = np.abs(factors.sample(10_000)).max(axis=1) > 6
    expected = 3000 * (1 - 144 / (81 * math.pi))  # the square of side 12 is inside the disc
    assert abs(far.sum() - expected) < 250
    assert 0 < far[:500].mean() < 0.3  # in no order
    assert np.abs(factors.sample(10_000, background=False)).max() < 6


def test_frames_have_types_and_bounds_of_the_background_too() -> None:
    rng = np.random.default_rng(0)
    people = pl.DataFrame(
        {
            "age": rng.integers(40, 45, 3000),
            "member": rng.random(3000) < 0.02,
            "x": rng.random(3000),
        }
    )
    for cls in (GaussianMixture, FactorAnalysis):
        with weighing(0.4):
            model = cls(1, epsilon=8.0, bounds=([0, 0, 0], [110, 1, 1]), random_state=0).fit(people)
        drawn = model.sample_frame(5000)
        assert drawn.schema == people.schema
        assert drawn["age"].is_between(0, 110).all()
        assert (~drawn["age"].is_between(20, 70)).mean() == pytest.approx(0.4 * 60 / 110, abs=0.05)
        assert drawn["member"].mean() == pytest.approx(0.4 * 0.5 + 0.6 * 0.02, abs=0.05)
        alone = model.sample_frame(5000, background=False)
        assert alone["age"].is_between(20, 70).all()
        assert alone["member"].mean() < 0.1
    assert privem.KMeans(1, epsilon=None).fit(np.eye(3)).n_clusters == 1  # which has none


@BOTH
def test_a_file_keeps_it_and_older_files_have_none(cls: Any, tmp_path: Path) -> None:
    path, X = tmp_path / "m.json", np.random.default_rng(0).normal(size=(50, 2))
    model = private(cls)
    again = privem.load(model.save(path) and path)
    assert again.background_weight_ == model.background_weight_ == 0.3
    np.testing.assert_array_equal(again.score_samples(X), model.score_samples(X))
    content = json.loads(path.read_text())

    def loaded(**changes: Any) -> Any:
        content["attributes"].update(changes)
        content["checksum"] = store._checksum(content)
        path.write_text(json.dumps(content))
        return privem.load(path)

    for wrong in (1.0, -0.1, "much", None):
        with pytest.raises(ModelFileError, match="damaged"):
            loaded(background_weight_=wrong)
    bounds = content["attributes"].pop("bounds_")
    with pytest.raises(ModelFileError, match="background_weight_"):
        loaded(background_weight_=0.3)
    del content["attributes"]["background_weight_"], content["parameters"]["background"]
    content["version"] = 2
    assert loaded(bounds_=bounds).background_weight_ == 0


@BOTH
def test_the_statement_says_so_and_a_warning_where_little_else_is_left(cls: Any) -> None:
    said = (
        "background a uniform density on the bounds of weight 0.3, which follows from the releases"
    )
    assert said in str(private(cls).privacy_)
    with pytest.warns(UserWarning, match=r"noise hides much of the data .* weight 0.97; use"):
        model = private(cls, 0.97)
    assert model.background_weight_ == 0.97
    assert "background" not in str(private(cls, 0.0).privacy_)


@BOTH
@pytest.mark.parametrize("bounds", [(-8, 9), 9.0])
def test_a_private_score_has_the_background(cls: Any, bounds: Any) -> None:
    model = private(cls, 0.3, bounds)
    X, _ = contaminated(3000)  # a tenth of it outside
    score = model.private_score(X, epsilon=100.0, floor=-1000.0)
    assert float(score) == pytest.approx(model.score(X), abs=0.5)
    assert model.private_score(np.full((3000, 2), 1e9), epsilon=100.0) > -20


def test_the_command_line(tmp_path: Path) -> None:
    X, _ = contaminated(500)
    pl.DataFrame(X, schema=["a", "b"]).write_csv(tmp_path / "x.csv")
    data, path = str(tmp_path / "x.csv"), str(tmp_path / "m.json")

    def call(*words: str) -> Any:
        return CliRunner().invoke(app, list(words))

    fit = ("fit", data, "-o", path, "-k", "2", "--exact")
    within = ("--bound", "a=-30:30", "--bound", "b=-30:30")
    assert "--exact fits without privacy, --bound" in call(*fit, *within).output
    assert call(*fit, "--background", *within).exit_code == 0
    np.testing.assert_array_equal(privem.load(path).bounds_, [[-30, -30], [30, 30]])
    result = call(*fit, "--background")
    assert result.exit_code == 0
    assert "background weight" in result.output
    assert privem.load(path).background_weight_ == pytest.approx(SHARE, abs=0.03)
    summary = json.loads(call(*fit, "--background", "--json").stdout)
    assert summary["background_weight"] == summary["parameters"]["background_weight"] > 0
    assert "background weight" not in call(*fit).output
    assert call(*fit, "--background").exit_code == 0

    def drawn(*more: str) -> np.ndarray:
        result = call("sample", path, "-n", "2000", "--seed", "1", *more)
        return pl.read_csv(result.stdout.encode()).to_numpy()

    assert np.abs(drawn()).max() > 12 > np.abs(drawn("--no-background")).max()
    model = privem.load(path)
    model.background_weight_ = 0.96
    model.save(path)
    assert "weight 0.96" in call("sample", path, "-n", "2", "--no-background").stderr
    assert "exact factor analysis has none" in call(*fit, "-m", "fa", "--background").output
    assert "--background is for fa and gmm" in call(*fit, "-m", "kmeans", "--background").output
