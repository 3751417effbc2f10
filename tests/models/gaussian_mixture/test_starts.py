"""Where a mixture starts, continues, and what it draws."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture as Reference

from privem import GaussianMixture
from privem.models.gaussian_mixture.model import COVARIANCE_TYPES

CENTRES = 20.0 * np.array([[0, 0], [1, 0], [0, 1], [1, 1]])


def heaps(n=400, seed=0):
    rng = np.random.default_rng(seed)
    return CENTRES[rng.integers(0, 4, n)] + rng.normal(size=(n, 2))


@pytest.mark.parametrize("init", ["kmeans", "k-means++", "random_from_data", "random"])
@pytest.mark.parametrize("kind", COVARIANCE_TYPES)
def test_starts_are_reproducible_and_the_best_run_is_kept(kind, init):
    X = heaps()
    common = {"n_components": 4, "covariance_type": kind, "init_params": init, "max_iter": 300}
    runs = [GaussianMixture(epsilon=None, **common, random_state=s).fit(X) for s in (1, 1)]
    np.testing.assert_array_equal(runs[0].means_, runs[1].means_)
    many = GaussianMixture(epsilon=None, **common, n_init=6, random_state=1).fit(X)
    assert many.lower_bound_ >= runs[0].lower_bound_
    if init in ("kmeans", "k-means++"):
        order = np.lexsort(many.means_.round(-1).T[::-1])
        np.testing.assert_allclose(
            many.means_[order], CENTRES[np.lexsort(CENTRES.T[::-1])], atol=0.6
        )


def test_the_default_start_does_not_depend_on_the_seed_or_the_order_of_rows():
    X = heaps()
    fits = [GaussianMixture(4, random_state=s, epsilon=None).fit(X) for s in (0, 1, None)]
    shuffled = GaussianMixture(4, epsilon=None).fit(X[np.random.default_rng(0).permutation(len(X))])
    for other in fits[1:]:
        np.testing.assert_array_equal(other.means_, fits[0].means_)
    np.testing.assert_allclose(shuffled.means_, fits[0].means_, rtol=1e-10)


def test_the_default_start_is_no_worse_than_k_means_plus_plus():
    """On random mixtures, seeded: never clearly worse than scikit-learn's single start."""
    rng = np.random.default_rng(0)
    gains = []
    for seed in range(15):
        k, d = int(rng.integers(2, 9)), int(rng.integers(2, 6))
        X = 6 * rng.normal(size=(k, d))[rng.integers(0, k, 500)] + rng.normal(size=(500, d))
        ours = GaussianMixture(k, max_iter=300, epsilon=None).fit(X)
        theirs = Reference(k, max_iter=300, random_state=seed).fit(X)
        gains.append(ours.lower_bound_ - theirs.lower_bound_)
    assert min(gains) > -0.01


def test_heaps_at_the_corners_of_a_square_are_found():
    """No longest axis to split along: still one component per heap."""
    model = GaussianMixture(4, epsilon=None).fit(heaps())
    found = model.means_[np.lexsort(model.means_.round(-1).T[::-1])]
    np.testing.assert_allclose(found, CENTRES[np.lexsort(CENTRES.T[::-1])], atol=0.6)


def test_seeds_matter_where_they_should():
    X = np.random.default_rng(3).normal(size=(300, 2))
    bounds = {
        GaussianMixture(3, init_params="random", random_state=s, max_iter=500, epsilon=None)
        .fit(X)
        .lower_bound_
        for s in range(3)
    }
    assert len(bounds) == 3


def test_a_part_that_is_given_is_used():
    X = heaps()
    given = GaussianMixture(4, means_init=CENTRES[::-1], max_iter=100, epsilon=None).fit(X)
    np.testing.assert_allclose(given.means_, CENTRES[::-1], atol=0.6)  # keeps the order given
    with pytest.warns(ConvergenceWarning):
        weights = GaussianMixture(
            4,
            weights_init=[0.7, 0.1, 0.1, 0.1],
            means_init=np.zeros((4, 2)),
            max_iter=1,
            epsilon=None,
        ).fit(X)
    # All components alike but for the weights, so that is what the first E-step returns.
    assert weights.weights_.sum() == pytest.approx(1)


@pytest.mark.parametrize(
    ("parameter", "value", "words"),
    [
        ("weights_init", [0.5, 0.5], r"'weights' should have the shape of \(4,\), but got \(2,\)"),
        ("weights_init", [0.5, 0.5, 0.5, 0.5], r"normalized, but got sum\(weights\) = 2.00000"),
        ("weights_init", [1.5, -0.5, 0.0, 0.0], r"range \[0, 1\], but got values from -0.50000"),
        ("means_init", np.zeros((4, 3)), "The parameter 'means' should have the shape of"),
        ("means_init", np.full((4, 2), np.nan), "finite"),
        ("precisions_init", np.zeros((4, 2, 2)), "positive-definite"),
        ("precisions_init", np.ones((4, 2)), "'full precision' should have the shape of"),
        ("init_params", "best", "must be one of"),
        ("n_components", 0, "at least 1"),
        ("covariance_type", "round", "must be one of"),
        ("tol", -1.0, "at least 0"),
        ("reg_covar", float("nan"), "at least 0"),
        ("prior", "flat", "must be one of"),
    ],
)
def test_impossible_parameters_are_refused(parameter, value, words):
    with pytest.raises(ValueError, match=words):
        GaussianMixture(epsilon=None, **{"n_components": 4, parameter: value}).fit(heaps())


@pytest.mark.parametrize("kind", COVARIANCE_TYPES)
def test_a_warm_start_goes_on_where_the_last_fit_stopped(kind):
    X = np.random.default_rng(4).normal(size=(500, 2)) ** 3
    common = {"n_components": 3, "covariance_type": kind, "tol": 0.0}
    warm = GaussianMixture(epsilon=None, **common, max_iter=3, warm_start=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        long = GaussianMixture(epsilon=None, **common, max_iter=7).fit(X)
        warm.fit(X).set_params(max_iter=4).fit(X)
    np.testing.assert_allclose(warm.means_, long.means_, rtol=1e-10)
    np.testing.assert_allclose(warm.covariances_, long.covariances_, rtol=1e-9, atol=1e-12)
    assert warm.lower_bound_ == pytest.approx(long.lower_bound_, rel=1e-12)
    assert warm.n_iter_ == 4


def test_a_converged_warm_start_stops_at_once():
    X = heaps()
    model = GaussianMixture(4, means_init=CENTRES, warm_start=True, tol=1e-6, epsilon=None).fit(X)
    before = model.means_.copy()
    assert model.fit(X).n_iter_ <= 2
    np.testing.assert_allclose(model.means_, before, rtol=1e-6)
    with pytest.raises(ValueError, match="the last fit had 4 components"):
        model.set_params(n_components=2).fit(X)


@pytest.mark.parametrize("kind", COVARIANCE_TYPES)
def test_samples_have_the_moments_of_the_mixture(kind):
    """Counts, means and second moments of 20,000 draws, each within 6 standard errors.

    19 comparisons at 6 sigma: a false alarm in fewer than 1 of 1e6 seeds.
    """
    X = heaps()[:, :] @ [[1.0, 0.3], [0.0, 2.0]]
    model = GaussianMixture(
        3, covariance_type=kind, random_state=7, max_iter=300, epsilon=None
    ).fit(X)
    n = 20_000
    draws, label = model.sample(n)
    assert draws.shape == (n, 2)
    w = model._density().whiteners
    for k in range(3):
        inside = draws[label == k] - model.means_[k]
        count, p = len(inside), model.weights_[k]
        assert abs(count - n * p) < 6 * np.sqrt(n * p * (1 - p))
        white = inside @ w[k].T if w.ndim == 3 else inside * w[k]
        assert np.max(np.abs(white.mean(axis=0))) * np.sqrt(count) < 6
        error = (white.T @ white / count - np.eye(2)) * np.sqrt(count)
        error[np.diag_indices(2)] /= np.sqrt(2)
        assert np.max(np.abs(error)) < 6
    again, _ = model.sample(n)
    np.testing.assert_array_equal(again, draws)
    with pytest.raises(
        ValueError, match="Invalid value for 'n_samples': n_samples must be at least 1"
    ):
        model.sample(0)


def test_progress_is_printed_on_request(capsys):
    model = GaussianMixture(4, verbose=2, verbose_interval=1, n_init=2, epsilon=None).fit(heaps())
    text = capsys.readouterr().out
    assert text.count("Initialization") == 2
    assert text.count("Iteration") >= model.n_iter_ + 1
    assert "objective" in text
    GaussianMixture(4, verbose=1, verbose_interval=1000, epsilon=None).fit(heaps())
    assert capsys.readouterr().out == "Initialization 1\n"
    GaussianMixture(4, epsilon=None).fit(heaps())
    assert capsys.readouterr().out == ""
