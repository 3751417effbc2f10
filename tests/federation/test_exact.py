"""A federated exact fit is the central fit, however rows are split and whatever protects them."""

import warnings

import numpy as np
import pytest
from sklearn.decomposition import PCA

from privem import FactorAnalysis, GaussianMixture, KMeans
from privem.data import ArrayRows
from privem.federation import Federation, FederationError, Party, PartyRefused

from .conftest import federate, split

SPLITS = ("even", "one row each", "one empty", "unequal")
MASKED = {"bounds": (-30.0, 30.0), "rows": 1000}


def estimators():
    kinds = ("full", "tied", "diag", "spherical")
    return [
        *(GaussianMixture(3, epsilon=None, covariance_type=kind, max_iter=30) for kind in kinds),
        GaussianMixture(2, epsilon=None, n_init=2, random_state=3),
        KMeans(4, epsilon=None),
        FactorAnalysis(1, epsilon=None),
    ]


def fitted(model):
    names = ("weights_", "means_", "covariances_", "cluster_centers_", "components_", "mean_")
    names += ("noise_variance_", "lower_bound_", "inertia_", "n_iter_")
    return {name: np.asarray(getattr(model, name)) for name in names if hasattr(model, name)}


def fit(model, data):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return fitted(model.fit(data))


def assert_same(central, other, tolerance):
    assert set(other) == set(central)
    assert other["n_iter_"] == central["n_iter_"]
    for name, value in central.items():
        size = max(1.0, float(np.abs(value).max()))
        assert np.abs(other[name] - value).max() <= tolerance * size, name


@pytest.mark.parametrize("how", SPLITS)
@pytest.mark.parametrize("model", estimators(), ids=repr)
def test_plain_is_the_central_fit(blobs, model, how):
    X = blobs[:40] if how == "one row each" else blobs
    assert_same(fit(model, X), fit(model, federate(split(X, how))), 1e-9)


@pytest.mark.parametrize("how", ["even", "one empty", "unequal"])
@pytest.mark.parametrize(
    ("protection", "terms"),
    [("encrypted", {}), ("encrypted", MASKED), ("masked", MASKED)],
    ids=["encrypted", "encrypted on a grid", "masked"],
)
def test_protected_is_the_central_fit(blobs, protection, terms, how):
    for model in (GaussianMixture(2, epsilon=None, max_iter=5), KMeans(2, epsilon=None)):
        federation = federate(split(blobs, how), protection, **terms)
        assert_same(fit(model, blobs), fit(model, federation), 1e-9)


@pytest.mark.parametrize("protection", ["encrypted", "masked"])
@pytest.mark.parametrize("kind", ["full", "tied", "diag", "spherical"])
def test_sums_fit_their_grid_for_every_statistic(blobs, kind, protection):
    model = GaussianMixture(3, epsilon=None, covariance_type=kind, max_iter=4)
    central = fit(model, blobs)
    assert_same(central, fit(model, federate(split(blobs, "even"), protection, **MASKED)), 1e-9)


@pytest.mark.parametrize("protection", ["plain", "masked"])
@pytest.mark.parametrize(
    "model",
    [
        KMeans(3, epsilon=None),
        GaussianMixture(2, epsilon=None, covariance_type="diag", max_iter=3),
        FactorAnalysis(1, epsilon=None, max_iter=20),
    ],
    ids=repr,
)
def test_wide_rows_are_fitted_without_matrices_of_their_columns(model, protection):
    """More columns than rows: products with vectors travel instead."""
    rng = np.random.default_rng(0)
    X = 3 * rng.normal(size=(3, 150))[rng.integers(0, 3, 40)] + rng.normal(size=(40, 150))
    federation = federate(split(X, "unequal"), protection, **MASKED)
    assert_same(fit(model, X), fit(model, federation), 1e-7)


@pytest.mark.parametrize("protection", ["plain", "encrypted"])
def test_weights_stay_with_their_rows(blobs, protection):
    weight = np.linspace(0.1, 3.0, len(blobs))
    model = GaussianMixture(2, epsilon=None, max_iter=5)
    central = fitted(model.fit(ArrayRows(blobs, weight)))
    parts = [ArrayRows(blobs[i::3], weight[i::3]) for i in range(3)]
    assert_same(central, fitted(model.fit(federate(parts, protection))), 1e-9)


def grid_point(n, k, d=2):
    """As Abu Hussein and Rodel 2023 draw them: random clusters; the start of its section 3.5."""
    rng = np.random.default_rng(1000 * k + n)
    centres = rng.uniform(-10, 10, (k, d))
    X = np.vstack([rng.normal(c, rng.uniform(0.5, 2.5, d), (n // k + 1, d)) for c in centres])[:n]
    start = {
        "weights_init": np.full(k, 1 / k),
        "means_init": rng.uniform(-10, 10, (k, d)),
        "precisions_init": np.stack([np.eye(d)] * k),
    }
    return X, GaussianMixture(k, epsilon=None, max_iter=30, tol=1e-6, **start)


@pytest.mark.parametrize(("n", "k", "parties"), [(200, 2, 2), (1100, 3, 6), (2000, 4, 10)])
def test_encrypted_over_the_grid_of_001(n, k, parties):
    X, model = grid_point(n, k)
    central = fit(model, X)
    federation = federate([X[i::parties] for i in range(parties)], "encrypted", minimum=2)
    other = fit(model, federation)
    assert other["n_iter_"] == central["n_iter_"]
    assert abs(other["lower_bound_"] - central["lower_bound_"]) * n < 5e-4


def parkinsons(root):
    import os
    from pathlib import Path

    folder = Path(os.environ.get("PRIVEM_DATA", root.parent / "shared" / "data"))
    path = folder / "parkinsons.data"
    if not path.exists():
        pytest.skip(f"no parkinsons.data in {folder}: set PRIVEM_DATA")
    table = np.genfromtxt(path, delimiter=",", skip_header=1, dtype=float)
    # The first column is a name, the one called status a diagnosis.
    features = np.delete(table, [0, 17], axis=1)
    assert np.isfinite(features).all()
    return PCA(2).fit_transform(features)


@pytest.mark.parametrize("parties", [2, 3])
def test_encrypted_on_parkinsons_in_two_components(root, parties):
    X = parkinsons(root)
    model = GaussianMixture(2, epsilon=None, tol=1e-5, max_iter=40)
    central = fit(model, X)
    federation = federate([X[i::parties] for i in range(parties)], "encrypted", minimum=2)
    other = fit(model, federation)
    assert other["n_iter_"] == central["n_iter_"]
    assert abs(other["lower_bound_"] - central["lower_bound_"]) * len(X) < 5e-4


def test_the_way_of_001_agrees_to_three_decimals():
    X, model = grid_point(200, 2)
    model.set_params(max_iter=4)
    central = fit(model, X)
    other = fit(model, federate([X[::2], X[1::2]], "ckks", minimum=2))
    assert other["n_iter_"] == central["n_iter_"]
    assert abs(other["lower_bound_"] - central["lower_bound_"]) * len(X) < 5e-4


def test_labels_are_not_set_and_rows_cannot_be_read(blobs):
    federation = federate(split(blobs, "even"))
    model = KMeans(2, epsilon=None).fit(blobs)
    model.fit(federation)
    assert not hasattr(model, "labels_")
    with pytest.raises(TypeError, match="stay with the parties"):
        model.predict(federation)


@pytest.mark.parametrize(
    "model",
    [
        GaussianMixture(2, epsilon=None, init_params="k-means++"),
        GaussianMixture(2, epsilon=None, init_params="random"),
        GaussianMixture(2, epsilon=None, init_params="random_from_data"),
        KMeans(2, epsilon=None, init="k-means++"),
        KMeans(2, epsilon=None, init=lambda X, k, rng: X[:k]),
    ],
    ids=["k-means++", "random", "rows", "k-means++ clusters", "a function"],
)
def test_starts_that_read_rows_are_refused(blobs, model):
    with pytest.raises(ValueError, match="a federation gives sums only"):
        model.fit(federate(split(blobs, "even")))


def test_masked_exact_fits_need_bounds_and_check_them(blobs):
    parts = split(blobs, "even")
    model = KMeans(2, epsilon=None)
    with pytest.raises(ValueError, match="bounds= and rows="):
        model.fit(federate(parts, "masked"))
    with pytest.raises(PartyRefused, match="exceed the bounds"):
        model.fit(federate(parts, "masked", bounds=(-0.1, 0.1), rows=1000))
    with pytest.raises(PartyRefused, match="exceed the bounds"):
        model.fit(federate(parts, "masked", bounds=(-30, 30), rows=10))


def test_bad_values_are_refused_without_a_word_about_them(blobs):
    bad = blobs[:100].copy()
    bad[17, 1] = np.nan
    with pytest.raises(PartyRefused) as caught:
        KMeans(2, epsilon=None).fit(federate([blobs[100:300], blobs[300:], bad]))
    assert "17" not in str(caught.value)
    assert "not finite" in str(caught.value)


def test_columns_must_match(blobs):
    with pytest.raises(RuntimeError, match="different numbers of columns"):
        KMeans(2, epsilon=None).fit(federate([blobs, blobs, blobs[:, :1]]))


@pytest.mark.parametrize("protection", ["masked", "encrypted"])
@pytest.mark.parametrize("parties", [5, 9, 16, 33])
def test_totals_beyond_what_was_agreed_are_refused(protection, parties):
    """``rows=`` taken for each party's: every party's sum fits, their total is not let wrap."""
    rng = np.random.default_rng(0)
    rows = [rng.uniform(0.8, 0.9, (50, 2)) for _ in range(parties)]
    federation = Federation(
        [Party(part, f"party {i}") for i, part in enumerate(rows)],
        protection=protection,
        bounds=(-1.0, 1.0),
        rows=50,
    )
    with pytest.raises(FederationError, match="rows= is about all parties together"):
        GaussianMixture(1, epsilon=None).fit(federation)
