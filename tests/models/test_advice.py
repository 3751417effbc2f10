"""Advice comes from releases, which were paid for, and nothing else.

About too few records: from the noisy count. About components that are alike: from standard errors.
"""

import re
import warnings

import numpy as np
import pytest

from privem import GaussianMixture, KMeans, PrivacyCompositionWarning
from privem.declaration import declarations
from privem.estimator.warnings import at_end, say_alike

pytestmark = pytest.mark.usefixtures("seeded")


def _advice(neighbours: str) -> tuple[str, GaussianMixture]:
    X = np.random.default_rng(0).normal(size=(200, 4))
    model = GaussianMixture(5, epsilon=0.1, bounds=5.0, neighbours=neighbours)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X)
    assert model.structure_ == "single"
    return str(caught[0].message), model


def test_the_number_named_is_the_noisy_one() -> None:
    """At epsilon 0.1 the count's noise has a deviation above 300: 200 itself is unlikely.

    The advice of two fits differs though the data are the same (they agree with a probability below
    1e-3 each time; ten fits all alike: below 1e-27).
    """
    told = [re.match(r"about ([\d,]+) records are too few", _advice("add-remove")[0])]
    told += [re.match(r"about ([\d,]+) records", _advice("add-remove")[0]) for _ in range(9)]
    assert len({found.group(1) for found in told if found}) > 1


def test_a_public_number_is_named_as_it_is() -> None:
    text, _ = _advice("replace-one")
    assert text.startswith("200 records are too few for 5 components at epsilon=0.1")


def test_enough_records_bring_no_advice() -> None:
    X = np.random.default_rng(0).normal(size=(20_000, 2))
    X[:9000] += 4.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert GaussianMixture(2, epsilon=1.0, bounds=5.0).fit(X).structure_ == "full"


def test_one_component_is_no_news() -> None:
    X = np.random.default_rng(0).normal(size=(50, 4))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        GaussianMixture(1, epsilon=0.1, bounds=5.0, background=False).fit(X)


def alike(centres: list[float], epsilon: float, fits: int) -> list[str]:
    """What is said of fits that start from two components, at one place or apart."""
    X = np.random.default_rng(0).normal(size=(4000, 2))
    X[:2000] += 4.0
    start = {
        "weights_init": [0.5, 0.5],
        "means_init": [[c, c] for c in centres],
        "precisions_init": [np.eye(2)] * 2,
    }
    model = GaussianMixture(2, epsilon=epsilon, bounds=9.0, n_iter=2, mechanism="whitened", **start)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        warnings.simplefilter("ignore", PrivacyCompositionWarning)
        for _ in range(fits):
            model.fit(X)
    return [str(warning.message) for warning in caught]


def test_components_that_differ_by_noise_are_named() -> None:
    """Two that start as one are told the same, but for noise; at least half of such fits say so.

    That none of 20 does has a probability below 1e-6.
    """
    said = alike([2.0, 2.0], epsilon=1.0, fits=20)
    assert said
    assert said[0].startswith("components 0 and 1 cannot be told apart")
    assert alike([0.0, 4.0], epsilon=4.0, fits=3) == []


def test_alike_is_within_two_standard_errors() -> None:
    class Model:
        def __init__(self, errors: float) -> None:
            self.rates_ = np.array([[1.0], [2.0], [2.0]])
            self.tables_ = [np.zeros((3, 1)), np.zeros((3, 2))]
            self._errors = errors
            self._parts = "components"
            self._apart: tuple[str, ...] = ()
            self._nearby: np.ndarray | None = None

        def _near(self) -> np.ndarray | None:
            return self._nearby

        def _rough_errors(self, draws: int) -> dict[str, object]:
            zeros = [np.zeros((3, 1)), np.zeros((3, 2))]
            return {"rates_": np.full((3, 1), self._errors), "tables_": zeros}

    def said(model: Model, *names: str, near: np.ndarray | None = None) -> list[str]:
        model._apart, model._nearby = names, near
        with at_end() as waiting:
            say_alike(model)
        return [message for message, _ in waiting]

    # Their difference, one, is 2.2 standard errors of it, and 1.8.
    (text,) = said(Model(0.32), "rates_")
    assert text.startswith("components 1 and 2 cannot")
    (text,) = said(Model(0.39), "rates_")
    assert text.startswith("components 0 and 1, 0 and 2, 1 and 2 cannot")
    assert said(Model(0.39), "rates_", near=np.zeros((3, 3), bool)) == []
    # Three more numbers that are equal say that they are alike.
    (text,) = said(Model(0.39), "rates_", "tables_")
    assert "0 and 1" in text


def test_every_private_fit_has_a_structure() -> None:
    for each in declarations():
        example = each.example()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = each.estimator(**example.arguments, **example.bounds).fit(*example.data)
            assert model.structure_ in ("full", "single", "grid", "lost", "tied", "diag")
            model.set_params(epsilon=None).fit(*example.data)
        assert not hasattr(model, "structure_")


def test_clusters_that_are_alike_are_named() -> None:
    X = np.repeat([[-2.0], [2.0]], 5000, axis=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = KMeans(2, bounds=4.0, epsilon=1.0).fit(X)
    model.cluster_centers_[1] = model.cluster_centers_[0] + 1e-12  # far less than noise
    with at_end() as waiting:
        model._advise()
    assert waiting[0][0].startswith("clusters 0 and 1 cannot be told apart")


def test_clusters_of_noise_alone_are_named() -> None:
    """Thirty clusters of 2,000 records at one of two places: most of them have none."""
    X = np.repeat([[-2.0], [2.0]], 1000, axis=0)
    with pytest.warns(UserWarning, match=r"clusters \d+, .* no more records than noise"):
        KMeans(30, bounds=4.0, epsilon=0.3, n_iter=3).fit(X)
