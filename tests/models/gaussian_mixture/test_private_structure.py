"""What a private mixture turns out to be: it finds clear clusters, or is one Gaussian."""

import warnings
from typing import Any

import numpy as np
import pytest

from privem import GaussianMixture
from privem.core import Release, Stage
from privem.linalg import Array
from privem.models.gaussian_mixture import private_plan
from privem.models.gaussian_mixture.start import fitted as points_fit
from privem.models.kmeans.grid import Cloud


def fitted(X: Array, **parameters: Any) -> tuple[GaussianMixture, list[tuple[str, float]]]:
    """The model, and the name and the noise multiplier of each of its releases."""
    asked: list[tuple[str, float]] = []

    def watch(stage: Stage, release: Release[Any]) -> None:
        asked.append((stage.name, release.spent[0].multiplier))

    model = GaussianMixture(**parameters)
    model._watch = watch
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(X), asked


def test_two_clear_clusters_are_found_every_time() -> None:
    """The start used to be a random packing, and seven in twenty fits found one of them."""
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(0, 1, (15_000, 2)), rng.normal(6, 1, (15_000, 2))])
    for seed in range(6):
        model = GaussianMixture(2, bounds=(-10, 20), random_state=seed).fit(X)
        means = np.sort(model.means_[:, 0])
        assert np.abs(means - [0, 6]).max() < 0.5
        assert model.structure_ == "full"


GROUPS = np.array([[0, 0, 0], [6, 0, 6], [0, 6, 0], [6, 6, 3.0]])


@pytest.mark.parametrize("width", [1.5, 2.5])
def test_groups_are_found_in_cells_as_wide_as_they_are(width: float) -> None:
    """Points in the middles of cells lie in planes: flat components would seem likely."""
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(m, 1, (5_000, 3)) for m in GROUPS])
    cells, counts = np.unique(np.floor(X / width), axis=0, return_counts=True)
    cloud = Cloud((cells + 0.5) * width, counts / len(X), 1.0, np.full(3, width**2 / 12))
    for seed in range(10):
        rng = np.random.default_rng(seed)
        found = points_fit(cloud.points, cloud, X.var(axis=0), 4, rng).means
        away = np.linalg.norm(GROUPS[:, None] - found, axis=2)
        assert (away.min(axis=1) < 0.5).all()


def test_columns_far_narrower_than_their_bounds_keep_their_components() -> None:
    rng = np.random.default_rng(1)
    X = np.exp((rng.normal(size=(15_000, 6)) + rng.normal(size=(15_000, 1))) / np.sqrt(2))
    scores = [
        fitted(X[:12_000], n_components=k, bounds=(0, 1000), epsilon=4.0, random_state=0)[0].score(
            X[12_000:]
        )
        for k in (1, 3)
    ]
    assert scores[1] > scores[0] + 1


def test_what_is_said_of_one_gaussian_in_place_of_all_is_why(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    few, many = (np.random.default_rng(2).normal(size=(n, 3)) for n in (100, 20_000))
    with pytest.warns(UserWarning, match="records are too few for 2 components"):
        GaussianMixture(2, bounds=(-6, 6), epsilon=0.1).fit(few)
    asked = private_plan.contest

    def lost(*known: Any) -> Any:
        yield from asked(*known)
        return False

    monkeypatch.setattr(private_plan, "contest", lost)
    with pytest.warns(UserWarning, match="no more likely under 2 components than under one"):
        GaussianMixture(2, bounds=(-6, 6)).fit(many)


@pytest.mark.parametrize("covariance_type", ["diag", "spherical"])
def test_a_contest_is_against_what_would_be_fitted_instead(covariance_type: str) -> None:
    """One full Gaussian is best on a thin line; but nobody who asks for axes gets that one."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(20_000, 1)) + 0.02 * rng.normal(size=(20_000, 4))
    shared = {"covariance_type": covariance_type, "bounds": 5.0, "epsilon": 4.0, "random_state": 0}
    one, mixture = (fitted(X, n_components=k, **shared)[0] for k in (1, 4))
    assert mixture.structure_ == covariance_type
    assert mixture.score(X) > one.score(X) + 1


def test_a_shape_that_is_none_of_the_records_is_no_worse_than_no_model() -> None:
    """Spheres that hold the widest of these columns lie far beyond the bounds of the others."""
    X = np.random.default_rng(4).uniform(-1, 1, size=(20_000, 4)) * [1, 1, 1, 1000]
    low, high = np.array([-1, -1, -1, -1000.0]), np.array([1, 1, 1, 1000.0])
    shared = {"covariance_type": "spherical", "bounds": (low, high), "random_state": 0}
    for components in (1, 3):
        model, _ = fitted(X, n_components=components, **shared)
        # Twice what is spared, and a little for records that are less likely than any ratio.
        assert model.score(X) > -np.log(high - low).sum() - 2 * (0.05 + 0.025 * 4) - 0.02


def test_one_round_cluster_costs_a_mixture_little() -> None:
    """Noise alone tells three components apart; a contest asks whether that pays."""
    X = np.random.default_rng(0).normal(size=(8000, 20))
    model, asked = fitted(X, n_components=3, bounds=(-6, 6), random_state=0)
    assert "contest" in [name for name, _ in asked]
    if model.structure_ == "single":
        assert (model.means_ == model.means_[0]).all()
    # The entropy of the records is 28.4 nats; ten fits were within 0.2 of it.
    assert model.score(X) > -29.4


def test_too_few_records_run_the_plan_of_one_component() -> None:
    X = np.random.default_rng(0).normal(size=(300, 4))
    shared = {"bounds": 6.0, "epsilon": 0.2, "neighbours": "replace-one"}
    one, asked_one = fitted(X, n_components=1, **shared)
    three, asked_three = fitted(X, n_components=3, **shared)
    assert three.structure_ == "single"
    assert [name for name, _ in asked_three] == [name for name, _ in asked_one]
    noises = np.array([[noise for _, noise in asked] for asked in (asked_one, asked_three)])
    np.testing.assert_allclose(noises[0], noises[1], rtol=1e-4)  # on lattices of their own
    assert one.background_weight_ > 0


def test_a_closer_look_at_a_blurred_frame_costs_no_more_than_it_needs() -> None:
    """With many records a twentieth of EM's share, and the rest is EM's."""
    X = np.random.default_rng(2).normal(size=(20_000, 4))
    X[:1_000, 0] += 100
    _, asked = fitted(X, n_components=3, bounds=(-200, 200), epsilon=1.0)
    names = [name for name, _ in asked]
    assert names[names.index("frame 3") + 1 :][:4] == ["em", "em", "em", "grid"]
    spent = {
        part: sum(m**-2 for name, m in asked if name.startswith(part)) for part in ("em", "EM")
    }
    assert spent["em"] / sum(spent.values()) == pytest.approx(1 / 20, rel=1e-3)


def test_outliers_are_the_backgrounds() -> None:
    """Twenty in ten thousand records, far off, used to cost nats on average."""
    rng = np.random.default_rng(1)
    X = np.concatenate([rng.normal(0, 1, (10_000, 2)), rng.uniform(-50, 50, (100, 2))])
    model, _ = fitted(X, n_components=2, bounds=(-50, 50), epsilon=4.0, random_state=0)
    assert 0.005 <= model.background_weight_ < 0.05
    assert model.score_samples([[45.0, -45.0]])[0] > -15
