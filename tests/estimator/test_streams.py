"""Exact fits that go on with more records: ``partial_fit``."""

import pickle

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import multivariate_normal
from sklearn.base import clone
from sklearn.cluster import MiniBatchKMeans

import privem
from privem import FactorAnalysis, GaussianMixture, KMeans, PoissonMixture, em
from privem.blocks.moments import FramePlan
from privem.data import LocalSource, read_rows
from privem.declaration import declarations
from privem.federation import Federation, Party
from privem.models.gaussian_mixture import m_step
from privem.models.gaussian_mixture.m_step import GaussianMixtureModel
from privem.models.gaussian_mixture.model import COVARIANCE_TYPES, Mixture, MixtureQuery
from privem.run import run

from ..examples import exact, fit, fitted, private

STREAMED = [each for each in declarations() if hasattr(each.estimator, "partial_fit")]
every_stream = pytest.mark.parametrize("declared", STREAMED, ids=lambda each: each.name)


def blocks(X, size):
    return [X[at : at + size] for at in range(0, len(X), size)]


def streamed(model, parts):
    for part in parts:
        model.partial_fit(part)
    return model


def example(declared):
    (X,) = declared.example().data
    return X


def parameters(model):
    """Numbers without which there is no model."""
    found = [getattr(model, name) for name in model._needed if name != "categories_"]
    return np.concatenate([np.ravel(part) for parts in found for part in _list(parts)])


def _list(parts):
    return parts if isinstance(parts, list) else [parts]


def groups(n=2000, d=2, apart=4.0, seed=0):
    rng = np.random.default_rng(seed)
    centres = apart * np.array([[0.0] * d, [1.0] * d, [2.0] + [-1.0] * (d - 1)])
    label = rng.choice(3, n, p=[0.5, 0.3, 0.2])
    return centres[label] + rng.normal(size=(n, d)) * np.array([1.0, 0.7, 1.3])[label, None]


def test_there_are_streams():
    assert len(STREAMED) >= 5


# What online EM does, written down once more.


def covariance_of(kind, second):
    """A matrix for each component, from second moments about its mean."""
    d = second.shape[-1]
    match kind:
        case "diag":
            return np.stack([np.diag(np.diag(s)) for s in second])
        case "spherical":
            return np.stack([np.trace(s) / d * np.eye(d) for s in second])
    return second


def online_em(kind, start, parts, reg_covar):
    """Means and matrices after a stream: the first part is what the mixture was fitted to."""
    weights, means, matrices = start
    seen, sums = 0, None
    for part in parts:
        joint = [np.log(w) + multivariate_normal.logpdf(part, m, c)
                 for w, m, c in zip(weights, means, matrices, strict=True)]  # fmt: skip
        share = np.exp(joint - logsumexp(joint, axis=0))
        ones = np.column_stack([np.ones(len(part)), part])
        new = np.einsum("kn,ni,nj->kij", share, ones, ones) / len(part)
        seen += len(part)
        step = (len(part) / seen) ** 0.6
        sums = new if sums is None else (1 - step) * sums + step * new
        if seen == len(part):
            continue  # the fit has made its last step of these sums already
        weights = sums[:, 0, 0]
        means = sums[:, 0, 1:] / weights[:, None]
        about = sums[:, 1:, 1:] / weights[:, None, None] - np.einsum("ki,kj->kij", means, means)
        if kind == "tied":
            about = np.broadcast_to(np.einsum("k,kij->ij", weights, about), about.shape)
        matrices = covariance_of(kind, about) + reg_covar * np.eye(part.shape[1])
    return weights, means, matrices


def matrices_of(model):
    k, d = model.means_.shape
    match model.covariance_type:
        case "tied":
            return np.broadcast_to(model.covariances_, (k, d, d))
        case "diag":
            return np.stack([np.diag(c) for c in model.covariances_])
        case "spherical":
            return np.stack([c * np.eye(d) for c in model.covariances_])
    return model.covariances_


@pytest.mark.parametrize("kind", COVARIANCE_TYPES)
@pytest.mark.parametrize("columns", [2, 12])  # 12: sums are about each component's own mean
def test_a_mixture_follows_the_formulas(kind, columns):
    X = groups(1500, columns)
    parts = [X[:600], X[600:700], X[700:1300], X[1300:]]
    model = GaussianMixture(3, covariance_type=kind, epsilon=None, tol=1e-13, max_iter=3000)
    model.partial_fit(parts[0])  # converged: sums under these parameters are the fit's last ones
    start = model.weights_, model.means_, matrices_of(model)
    expected = online_em(kind, start, parts, model.reg_covar)
    streamed(model, parts[1:])
    found = model.weights_, model.means_, matrices_of(model)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("kind", COVARIANCE_TYPES)
@pytest.mark.parametrize("before", [False, True])
@pytest.mark.parametrize("after", [False, True])
def test_sums_are_moved_to_other_origins(kind, before, after):
    X = groups()
    source = LocalSource(read_rows(X))
    frame = run(FramePlan(["a", "b"]), source)
    model = GaussianMixtureModel(kind, frame)
    whole = {"full": [frame.covariance] * 3, "tied": frame.covariance}
    whole |= {"diag": [frame.diagonal] * 3, "spherical": [frame.scale] * 3}
    means = np.array([[0.0, 1.0], [3.0, 3.0], [9.0, -2.0]])
    state = Mixture(kind, np.full(3, 1 / 3), means, np.array(whole[kind]))
    other = Mixture(kind, np.full(3, 1 / 3), means + 1.5, np.array(whole[kind]))

    def sums(query):
        return source.partial(query, private=False).value()

    # The same responsibilities, about other points.
    query = MixtureQuery(state, frame.origin, before)
    asked = MixtureQuery(other, frame.origin, after)
    moved = model.carried(sums(query), query.origins, asked)
    back = model.carried(moved, asked.origins, query)
    if before == after and not before:
        np.testing.assert_allclose(moved.total, sums(query).total, rtol=1e-9, atol=1e-7)
    again = sums(query)
    np.testing.assert_allclose(back.total, again.total, rtol=1e-9, atol=1e-7)
    assert (back.second is None) == (again.second is None)
    if back.second is not None:
        np.testing.assert_allclose(back.second, again.second, rtol=1e-9, atol=1e-6)
    # The mean of each component is where it was, whatever its sum is about.
    first = query.origins + again.total / again.count[:, None]
    second = asked.origins + moved.total / moved.count[:, None]
    np.testing.assert_allclose(first, second, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kind", COVARIANCE_TYPES)
def test_it_does_not_matter_what_sums_are_about(kind, monkeypatch):
    parts = blocks(groups(1600), 200)
    plain = streamed(GaussianMixture(3, covariance_type=kind, epsilon=None), parts)
    model = GaussianMixture(3, covariance_type=kind, epsilon=None)
    for part, limit in zip(parts, [1e5, 0.0, 0.0, 1e5, 1e5, 0.0, 1e5, 0.0], strict=True):
        monkeypatch.setattr(m_step, "CONDITION_LIMIT", limit)  # 0: about each component's mean
        model.partial_fit(part)
    np.testing.assert_allclose(parameters(model), parameters(plain), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kind", COVARIANCE_TYPES)
def test_components_that_lie_far_apart_keep_their_digits(kind):
    """Nobody doubts whose a record is, so each component's sums can be made about its centre."""
    rng = np.random.default_rng(1)
    label, noise = (rng.random(3000) < 0.5).astype(int), rng.normal(size=(3000, 2))
    centres = np.array([[0.0, 0.0], [1e5, 3e5]])
    model = GaussianMixture(2, covariance_type=kind, epsilon=None, reg_covar=0)
    streamed(model, blocks(centres[label] + noise, 500))
    sums = 0
    for t, (part, own) in enumerate(zip(blocks(noise, 500), blocks(label, 500), strict=True)):
        ones = np.column_stack([np.ones(500), part])
        new = np.stack([ones[own == k].T @ ones[own == k] / 500 for k in (0, 1)])
        sums = sums + (t + 1) ** -0.6 * (new - sums)
    means = sums[:, 0, 1:] / sums[:, :1, 0]
    about = sums[:, 1:, 1:] / sums[:, :1, :1] - np.einsum("ki,kj->kij", means, means)
    if kind == "tied":
        about = np.broadcast_to(np.einsum("k,kij->ij", sums[:, 0, 0], about), about.shape)
    order = np.argsort(model.means_[:, 0])
    expected = covariance_of(kind, about)
    np.testing.assert_allclose(model.means_[order], centres + means, rtol=1e-12, atol=1e-10)
    np.testing.assert_allclose(matrices_of(model)[order], expected, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("size", [400, 1000])
def test_without_forgetting_k_means_is_scikit_learns(size, monkeypatch):
    monkeypatch.setattr(em, "_DECAY", 1.0)
    X = groups(4000)
    parts = blocks(X, size)
    model = KMeans(5, epsilon=None, tol=0).fit(parts[0])
    theirs = MiniBatchKMeans(5, init=model.cluster_centers_, n_init=1, reassignment_ratio=0)
    streamed(model, parts[1:])
    streamed(theirs, parts)
    np.testing.assert_allclose(model.cluster_centers_, theirs.cluster_centers_, rtol=1e-9)


@pytest.mark.parametrize("sizes", [[100] * 20, [1500, 499, 1]])
def test_factor_analysis_of_a_stream_is_that_of_all_its_records(sizes):
    X = groups(2000, 6) * [1, 10, 100, 1, 1, 1] + 1000
    weight = np.random.default_rng(2).random(2000)
    model, at = FactorAnalysis(2, epsilon=None), 0
    for size in sizes:
        model.partial_fit(X[at : at + size], sample_weight=weight[at : at + size])
        at += size
    whole = FactorAnalysis(2, epsilon=None).fit(X, sample_weight=weight)
    np.testing.assert_allclose(model.mean_, whole.mean_, rtol=1e-12)
    np.testing.assert_allclose(model.get_covariance(), whole.get_covariance(), rtol=1e-8)
    assert model.n_iter_ == whole.n_iter_


@every_stream
def test_weights_are_copies(declared):
    X, model, copies = example(declared), exact(declared), exact(declared)
    weight = np.random.default_rng(3).integers(1, 4, len(X))
    for part, counts in zip(blocks(X, 200), blocks(weight, 200), strict=True):
        model.partial_fit(part, sample_weight=counts)
        copies.partial_fit(np.repeat(part, counts, axis=0))
    np.testing.assert_allclose(parameters(model), parameters(copies), rtol=1e-5, atol=1e-7)


@every_stream
def test_a_stream_says_what_a_fit_of_all_records_says(declared):
    """On records of one kind, to a few standard errors of what a stream forgets."""
    rng = np.random.default_rng(4)
    X = example(declared)
    X = X[rng.integers(len(X), size=12_000)]
    model = streamed(exact(declared), blocks(X, 600))
    whole = fit(exact(declared), X)
    np.testing.assert_allclose(model.score(X), whole.score(X), rtol=4e-3)


# What is kept, and what is not.


@every_stream
def test_the_first_block_is_fitted_and_each_other_one_counts(declared):
    X = example(declared)
    first, second = blocks(X, 400)
    model, other = exact(declared).partial_fit(first), fit(exact(declared), first)
    np.testing.assert_array_equal(parameters(model), parameters(other))
    begun = model.n_iter_
    with pytest.raises(AttributeError, match="no attribute 'labels_': a stream looks at"):
        model.labels_  # noqa: B018
    for name in ("labels_", "inertia_", "converged_", "lower_bound_", "lower_bounds_"):
        assert not hasattr(model, name)
    # A fit is gone on from as the first block is.
    model.partial_fit(second)
    other.partial_fit(second)
    np.testing.assert_array_equal(parameters(model), parameters(other))
    assert not np.array_equal(parameters(model), parameters(fit(exact(declared), first)))
    assert not hasattr(other, "labels_")
    assert model.n_iter_ == begun + 1 or declared.count != "n_clusters"
    assert not hasattr(clone(model), "_stream")


@every_stream
def test_a_stream_goes_on_from_a_file(declared, tmp_path):
    X, path = example(declared), tmp_path / "m.json"
    first, second, third = blocks(X, 200)
    model = streamed(exact(declared), [first, second])
    pickled = pickle.loads(pickle.dumps(model))
    loaded = privem.load(model.save(path) and path)
    again = privem.load(loaded.save(path) and path)
    model.partial_fit(third)
    for other in (pickled, loaded, again):
        np.testing.assert_array_equal(parameters(other.partial_fit(third)), parameters(model))
    # Of a fit the file keeps no sums.
    whole = privem.load(fit(exact(declared), first).save(path) and path)
    with pytest.raises(ValueError, match="no sums to go on from"):
        whole.partial_fit(second)


@every_stream
def test_threads_change_no_bit(declared):
    X = example(declared)
    one, two = (streamed(exact(declared, n_jobs=n), blocks(X, 200)) for n in (1, 3))
    np.testing.assert_array_equal(parameters(one), parameters(two))


def test_a_fit_begins_anew():
    X = groups()
    model = streamed(GaussianMixture(3, epsilon=None), blocks(X, 500)).fit(X[:500])
    fresh = GaussianMixture(3, epsilon=None).fit(X[:500])
    np.testing.assert_array_equal(model.means_, fresh.means_)
    assert model.partial_fit(X[500:]).means_.tolist() == fresh.partial_fit(X[500:]).means_.tolist()


def test_a_mixture_with_a_prior_comes_to_its_records():
    X = groups(6000)
    model = GaussianMixture(3, prior="map", epsilon=None)
    streamed(model, blocks(X, 300))
    # With ever more records the prior counts for less: the sums are as large as all of these.
    plain = streamed(GaussianMixture(3, epsilon=None), blocks(X, 300))
    np.testing.assert_allclose(model.score(X), plain.score(X), atol=5e-3)


@pytest.mark.parametrize("kind", COVARIANCE_TYPES)
def test_a_background_on_a_stream(kind):
    rng = np.random.default_rng(5)
    X = np.concatenate([groups(3000), rng.uniform(-20, 20, (1000, 2))])[rng.permutation(4000)]
    options = {"background": True, "bounds": 20.0 if kind == "spherical" else (-20, 20)}
    model = GaussianMixture(3, covariance_type=kind, epsilon=None, **options)
    streamed(model, blocks(X, 800))
    whole = GaussianMixture(3, covariance_type=kind, epsilon=None, **options).fit(X)
    assert model.background_weight_ == pytest.approx(whole.background_weight_, abs=0.05)
    assert 0.1 < model.background_weight_ < 0.4


def test_a_background_needs_bounds_on_a_stream():
    model = GaussianMixture(2, background=True, epsilon=None)
    with pytest.raises(ValueError, match="on a stream needs bounds"):
        model.partial_fit(groups())
    assert not hasattr(model, "means_")


# What is refused.


@every_stream
def test_a_private_fit_has_no_stream(declared):
    model = private(declared)
    assert not hasattr(model, "partial_fit")
    with pytest.raises(AttributeError, match=r"partial_fit is for exact fits.*fit that"):
        model.partial_fit(None)
    X = example(declared)
    fit(model, X)
    model.set_params(epsilon=None)
    with pytest.raises(ValueError, match="no sums to go on from"):
        model.partial_fit(X)
    assert hasattr(model, "privacy_")


@every_stream
@pytest.mark.parametrize("begun", [False, True])
def test_nor_by_a_method_that_was_looked_up_before_epsilon_was_set(declared, begun):
    X = example(declared)
    model = exact(declared)
    take = model.partial_fit
    if begun:
        take(X)
    before = dict(vars(model.set_params(epsilon=1.0)))
    with pytest.raises(AttributeError, match="partial_fit is for exact fits"):
        take(X)
    assert vars(model) == before


@every_stream
def test_nothing_of_an_exact_stream_is_left_in_a_private_fit(declared):
    X = example(declared)
    model = exact(declared).partial_fit(X)
    fit(model.set_params(**private(declared).get_params()), X)
    assert not {"_stream", "_ended"} & set(vars(model))
    assert not {"_stream", "_ended"} & set(vars(fitted(declared, True)[0]))


@every_stream
def test_a_bad_block_changes_nothing(declared):
    X = example(declared)
    first, second, third = blocks(X, 200)
    model = streamed(exact(declared), [first, second])
    before = dict(vars(model))
    nothing = np.zeros(len(third))
    with pytest.raises(ValueError, match=r"is expecting \d+ features"):
        model.partial_fit(third[:, :-1])
    with pytest.raises(ValueError, match="sum to zero"):
        model.partial_fit(third, sample_weight=nothing)
    with pytest.raises(ValueError, match="0 sample"):
        model.partial_fit(third[:0])
    if not declared.categories:
        with pytest.raises(ValueError, match="overflow"):
            model.partial_fit(np.full((3, X.shape[1]), 1e308))
        with pytest.raises(ValueError, match="NaN"):
            model.partial_fit(np.where(np.arange(len(third))[:, None] == 7, np.nan, third))
    else:
        with pytest.raises(ValueError, match="declare it in categories="):
            model.partial_fit(np.where(np.arange(len(third))[:, None] == 7, "perhaps", third))
    assert vars(model).keys() == before.keys()
    assert all(vars(model)[name] is before[name] for name in before)


def test_negative_counts_are_refused_in_every_block():
    X = np.random.default_rng(6).poisson(3.0, (400, 2))
    model = PoissonMixture(2, epsilon=None).partial_fit(X)
    with pytest.raises(ValueError, match="Negative values"):
        model.partial_fit(X - 5)


@every_stream
def test_the_first_block_must_be_large_enough(declared):
    if declared.estimator is FactorAnalysis:
        model, few = exact(declared), np.random.default_rng(7).normal(size=(20, 40))
    else:
        model, few = exact(declared, **{declared.count: 5}), example(declared)[:4]
    with pytest.raises(ValueError, match=r"as many rows as columns|at least 5 are needed"):
        model.partial_fit(few)
    assert not hasattr(model, "n_features_in_")


def test_what_sums_depend_on_must_stay():
    X = groups()
    model = GaussianMixture(3, epsilon=None).partial_fit(X)
    model.set_params(covariance_type="diag")
    with pytest.raises(ValueError, match="covariance_type was 'full' when the stream began"):
        model.partial_fit(X)
    model.set_params(covariance_type="full", n_components=2)
    with pytest.raises(ValueError, match="n_components was 3"):
        model.partial_fit(X)
    # The moments of a factor analysis are those of any number of factors.
    factors = FactorAnalysis(1, epsilon=None).partial_fit(X)
    assert factors.set_params(n_components=2).partial_fit(X).components_.shape == (2, 2)


def test_rows_that_lie_elsewhere_are_no_stream():
    parties = Federation(
        [Party(groups(), "a"), Party(groups(seed=1), "b")], protection="plain", minimum=2
    )
    model = KMeans(3, epsilon=None)
    with pytest.raises(TypeError, match="rows of this process"):
        model.partial_fit(parties)
    assert not hasattr(model, "n_features_in_")
    with pytest.raises(TypeError, match="not a Federation"):
        model.partial_fit(groups()).partial_fit(parties)


def test_frames_and_files(tmp_path):
    polars = pytest.importorskip("polars")
    X = groups()
    frame = polars.DataFrame(X, schema=["a", "b"])
    frame[1000:].write_parquet(tmp_path / "rest.parquet")
    model = GaussianMixture(3, epsilon=None).partial_fit(frame[:1000])
    model.partial_fit(tmp_path / "rest.parquet")
    plain = GaussianMixture(3, epsilon=None).partial_fit(X[:1000]).partial_fit(X[1000:])
    np.testing.assert_allclose(model.means_, plain.means_, rtol=1e-12)
    with pytest.raises(ValueError, match="feature names"):
        model.partial_fit(frame[:1000].rename({"a": "c"}))


def test_no_statement_stands_beside_exact_sums(tmp_path):
    X, path = groups(), tmp_path / "m.json"
    statement = fit(KMeans(3, bounds=20.0), X).privacy_
    model = KMeans(3, epsilon=None).partial_fit(X)
    model.privacy_ = statement  # by whoever confuses the two
    model.save(path)
    with pytest.raises(privem.ModelFileError, match="beside the exact sums"):
        privem.load(path)
    assert not hasattr(model.partial_fit(X), "privacy_")


def test_exact_sums_are_not_written_with_private_parameters(tmp_path):
    X, path = groups(), tmp_path / "m.json"
    model = KMeans(3, epsilon=None, bounds=20.0).partial_fit(X).set_params(epsilon=1.0)
    loaded = privem.load(model.save(path) and path)
    assert not hasattr(loaded, "_stream")
    assert not hasattr(loaded, "privacy_")
    assert hasattr(model, "_stream")
