"""EM looks for groups with more components than are asked for, and merges those that are alike."""

from dataclasses import replace

import numpy as np
import pytest

from privem import GaussianMixture
from privem.models.gaussian_mixture import private_plan
from privem.models.gaussian_mixture.start import MORE, searching
from privem.models.gaussian_mixture.structure import NEAR, Structure, copies


def groups(rng: np.random.Generator, n: int = 6000) -> np.ndarray:
    """Three groups on a line: two close together, one far away."""
    return np.concatenate([rng.normal(c, 0.3, (n, 2)) for c in ([-8, 0], [6, 0], [8, 0])])


def sizes(model: GaussianMixture) -> list[int]:
    """How many numbers each iteration has released."""
    iterations = (each for each in model.privacy_.releases if each.name.startswith("EM "))
    return [each.groups[0].dimension for each in iterations]


def test_the_first_third_asks_of_twice_as_many_components() -> None:
    X = groups(np.random.default_rng(0))
    model = GaussianMixture(3, bounds=(-10, 10), epsilon=20).fit(X)
    found = sizes(model)
    assert len(found) == model.n_iter_ == 30
    assert found[:10] == [MORE * 3 * (1 + 2 + 3)] * 10
    assert found[10:] == [3 * (1 + 2 + 3)] * 20
    assert model.means_.shape == (3, 2)


@pytest.mark.parametrize("covariance_type", ["full", "diag", "spherical"])
def test_a_start_that_leaves_groups_without_a_component_is_mended(
    covariance_type: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two components share the far group, one the two others: plain EM does not get out of that."""
    X = groups(np.random.default_rng(1))

    def bad(centre, covariance, k, ground, rng):
        yield from ()
        places = np.array([[-0.83, 0], [-0.77, 0], [0.7, 0], [-0.8, 0], [0.5, 0], [0.9, 0]])
        return replace(copies(centre, 0.01 * np.eye(2), k), means=places[:k])

    monkeypatch.setattr(private_plan, "from_grid", bad)
    kind = {"covariance_type": covariance_type, "bounds": (-10, 10), "epsilon": 20}

    def fit() -> np.ndarray:
        model = GaussianMixture(3, random_state=0, **kind).fit(X)
        return np.sort(model.means_[:, 0])

    assert fit() == pytest.approx([-8, 6, 8], abs=0.1)
    monkeypatch.setattr(private_plan, "searching", lambda components, structure: components)
    assert abs(fit()[1] - 6) > 1, "this start is not bad enough to show anything"


def test_only_as_the_noise_allows() -> None:
    bears = NEAR / np.sqrt(30)
    for kind in ("full", "diag", "spherical"):
        assert searching(4, Structure(kind, False, 30, noise=0.99 * bears)) == MORE * 4
        assert searching(4, Structure(kind, False, 30, noise=1.01 * bears)) == 4
    # A pooled covariance does not tell which components are alike.
    assert searching(4, Structure("tied", False, 30, noise=0.0)) == 4
    # Too few iterations for a search.
    assert searching(4, Structure("full", False, 11, noise=0.0)) == 4


def test_ten_columns_at_epsilon_one_lose_no_group() -> None:
    """A grid sees three of ten axes; without a search one fit in three merged two of the groups."""
    rng = np.random.default_rng(0)
    means = rng.normal(size=(3, 10))
    means *= 4.8 / np.linalg.norm(means, axis=1, keepdims=True)
    shapes = [np.eye(10) + 0.3 * rng.normal(size=(10, 10)) for _ in means]
    group = rng.choice(3, 20_000, p=[1 / 2, 1 / 3, 1 / 6])
    X = np.stack([means[k] + shapes[k] @ rng.normal(size=10) for k in group])
    exact = GaussianMixture(3, epsilon=None, init_params="random", means_init=means).fit(X)
    losses = [
        exact.score(X) - GaussianMixture(3, bounds=(-16, 16), random_state=seed).fit(X).score(X)
        for seed in range(6)
    ]
    assert max(losses) < 0.2


def test_other_recipes_and_given_starts_do_as_they_are_told() -> None:
    X = groups(np.random.default_rng(2))
    told = {"bounds": (-10, 10), "epsilon": 20, "n_iter": 15}
    means = [[-8.0, 0], [6, 0], [8, 0]]
    given = {"means_init": means, "weights_init": [1 / 3] * 3, "precisions_init": [np.eye(2)] * 3}
    for more in (given, {"prior": "map"}, {"mechanism": "joint"}):
        assert set(sizes(GaussianMixture(3, **told, **more).fit(X))) == {3 * (1 + 2 + 3)}
