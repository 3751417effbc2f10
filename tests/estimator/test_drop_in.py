"""Code written for scikit-learn's classes runs with epsilon=None; without it, it is private."""

import inspect
import pickle
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.cluster import KMeans as SklearnKMeans
from sklearn.decomposition import FactorAnalysis as SklearnFactorAnalysis
from sklearn.exceptions import NotFittedError
from sklearn.mixture import GaussianMixture as SklearnGaussianMixture
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from privem import FactorAnalysis, GaussianMixture, KMeans

PAIRS = {
    "GaussianMixture": (GaussianMixture, SklearnGaussianMixture),
    "KMeans": (KMeans, SklearnKMeans),
    "FactorAnalysis": (FactorAnalysis, SklearnFactorAnalysis),
}
every_pair = pytest.mark.parametrize(("ours", "theirs"), PAIRS.values(), ids=PAIRS)
every_class = pytest.mark.parametrize("cls", [p[0] for p in PAIRS.values()], ids=PAIRS)

# Parameters whose default differs on purpose: our starts are made of weighted sums; scikit-learn's
# factor analysis starts from a randomised decomposition, ours takes exact eigenvectors always.
OTHER_DEFAULTS = {"init", "svd_method"}


def data(n=300, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 3)) + 5.0 * rng.integers(0, 3, size=(n, 1))


@every_pair
def test_every_parameter_of_scikit_learns_is_taken_with_the_same_default(ours, theirs):
    mine, reference = (inspect.signature(c).parameters for c in (ours, theirs))
    assert [name for name in reference if name not in mine] == []
    differing = {
        name for name, p in reference.items() if p.default != mine[name].default
    } - OTHER_DEFAULTS
    assert differing == set()
    positional = [n for n, p in reference.items() if p.kind is p.POSITIONAL_OR_KEYWORD]
    assert list(mine)[: len(positional)] == positional


@every_pair
def test_every_method_and_fitted_attribute_of_scikit_learns_exists(ours, theirs):
    X = data()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mine, reference = ours(epsilon=None).fit(X), theirs().fit(X)
    public = [name for name in dir(reference) if not name.startswith("_")]
    assert [name for name in public if not hasattr(mine, name)] == []
    for name, value in vars(reference).items():
        if name.endswith("_") and not name.startswith("_") and isinstance(value, np.ndarray):
            assert getattr(mine, name).shape == value.shape, name


@every_pair
def test_every_method_takes_what_scikit_learns_takes(ours, theirs):
    missing = []
    for name, _ in inspect.getmembers(theirs, inspect.isfunction):
        if name.startswith("_"):
            continue
        wanted, taken = (inspect.signature(getattr(c, name)).parameters for c in (theirs, ours))
        if not any(p.kind is p.VAR_KEYWORD for p in taken.values()):
            missing += [f"{name}({p})" for p in wanted if p not in taken]
        # By position too: fit(X, y, sample_weight).
        places = [n for n, p in wanted.items() if p.kind is p.POSITIONAL_OR_KEYWORD]
        ours_by_place = [n for n, p in taken.items() if p.kind is p.POSITIONAL_OR_KEYWORD]
        if ours_by_place[: len(places)] != places:
            missing.append(f"{name}{tuple(places)} by position")
    assert missing == []


@every_class
def test_the_methods_of_the_design_have_the_design_signature(cls):
    parameters = inspect.signature(cls.fit).parameters
    assert list(parameters) == ["self", "X", "y", "sample_weight", "groups"]
    assert parameters["groups"].kind is inspect.Parameter.KEYWORD_ONLY
    terms = inspect.signature(cls).parameters
    assert (terms["epsilon"].default, terms["delta"].default) == (1.0, 1e-6)


UNPAID = ("labels_", "inertia_", "lower_bound_", "lower_bounds_", "converged_")


@every_class
def test_what_nobody_asked_for_is_private(cls):
    model = cls().fit(data(4000))
    assert (model.privacy_.epsilon, model.privacy_.delta) == (1.0, 1e-6)
    assert model.privacy_.recount() <= 1.0
    assert not any(hasattr(model, name) for name in UNPAID)


@every_class
def test_neither_kind_of_fit_leaves_anything_to_the_other(cls):
    X = data(4000)
    model = cls(epsilon=None).fit(X)
    exact = set(vars(model))
    assert not hasattr(model, "privacy_")
    model.set_params(epsilon=1.0).fit(X)
    assert model.privacy_.epsilon == 1.0
    assert not any(hasattr(model, name) for name in UNPAID)
    # The statement of a private fit would be a lie about an exact one.
    # Only the count of its private fits goes on.
    assert set(vars(model.set_params(epsilon=None).fit(X))) - {"_lineage"} == exact


def test_pipeline_and_grid_search():
    X = data(400)
    pipeline = Pipeline([("scale", StandardScaler()), ("mixture", GaussianMixture(epsilon=None))])
    grid = {"mixture__n_components": [1, 2, 3], "mixture__covariance_type": ["full", "diag"]}
    search = GridSearchCV(pipeline, grid, cv=3).fit(X)
    assert search.best_params_["mixture__n_components"] == 3
    assert search.best_estimator_.predict(X).shape == (400,)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert np.isfinite(cross_val_score(GaussianMixture(2, epsilon=None), X, cv=3)).all()


def test_transformers_feed_the_next_step():
    X = data()
    stacked = make_pipeline(FactorAnalysis(2, epsilon=None), KMeans(3, epsilon=None)).fit(X)
    assert len(set(stacked.predict(X))) == 3


@pytest.mark.parametrize(
    ("estimator", "names"),
    [
        (FactorAnalysis(2, epsilon=None), ["factoranalysis0", "factoranalysis1"]),
        (KMeans(2, epsilon=None), ["kmeans0", "kmeans1"]),
    ],
    ids=["FactorAnalysis", "KMeans"],
)
@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_set_output(estimator, names, library):
    frames = pytest.importorskip(library)
    frame = frames.DataFrame(dict(zip("abc", data().T, strict=True)))
    out = clone(estimator).set_output(transform=library).fit_transform(frame)
    assert type(out).__module__.startswith(library)
    assert list(out.columns) == names
    plain = clone(estimator).fit(data()).transform(data())
    np.testing.assert_allclose(out.to_numpy(), plain, rtol=1e-10, atol=1e-12)


@every_class
def test_feature_names_are_kept_and_checked(cls):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(data(), columns=["a", "b", "c"])
    model = cls(epsilon=None).fit(frame)
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    with pytest.raises(ValueError, match="feature names"):
        model.score(frame.rename(columns={"b": "z"}))
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        model.score(frame.to_numpy())
    model.fit(frame.to_numpy())
    assert not hasattr(model, "feature_names_in_")


@every_class
def test_clone_and_parameters_round_trip(cls):
    values = {name: object() for name in inspect.signature(cls).parameters}
    model = cls(**values)  # no work, no checks in the constructor
    assert all(model.get_params(deep=False)[name] is value for name, value in values.items())
    plain = cls()
    assert clone(plain).get_params() == plain.get_params()
    plain.set_params(max_iter=7)
    assert clone(plain).max_iter == 7
    assert repr(plain) == f"{cls.__name__}(max_iter=7)"


@every_class
def test_pickled_models_predict_the_same(cls):
    model = cls(epsilon=None).fit(data())
    again = pickle.loads(pickle.dumps(model))
    assert again.score(data(seed=1)) == model.score(data(seed=1))


@every_class
def test_nothing_works_before_fit(cls):
    for method in ("predict", "transform", "score", "score_samples", "predict_proba", "bic"):
        if hasattr(cls, method):
            with pytest.raises(NotFittedError):
                getattr(cls(), method)(data())
    with pytest.raises(NotFittedError):
        cls().save("never-written.json")


class Untouchable:
    """Data that explode when anything looks at them."""

    def __getattribute__(self, name):
        raise AssertionError(f"the data were touched: {name}")


@every_class
@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"epsilon": 0.0}, "epsilon must be above 0"),
        ({"epsilon": -1.0}, "epsilon must be above 0"),
        ({"epsilon": float("nan")}, "epsilon must be above 0"),
        ({"epsilon": float("inf")}, "epsilon must be above 0"),
        ({"epsilon": 1.0, "delta": -1e-9}, "delta must be at least 0"),
        ({"epsilon": 1.0, "delta": 0.0}, "delta=0"),
        ({"epsilon": 1.0, "delta": 1.0}, "delta must be below 1"),
        ({"epsilon": 1.0, "bounds": (1.0, -1.0)}, "low must be below high"),
        ({"epsilon": 1.0, "bounds": ([0.0, 1.0], [1.0, 1.0])}, "low must be below high"),
        ({"epsilon": 1.0, "bounds": 0.0}, "bounds must be above 0"),
        ({"epsilon": 1.0, "mechanism": "wishart"}, "mechanism must be one of"),
        ({"epsilon": 1.0, "accountant": "guess"}, "accountant must be one of"),
        ({"epsilon": 1.0, "neighbours": "all"}, "neighbours must be one of"),
        ({"epsilon": 1.0, "max_weight": 0.0}, "max_weight must be above 0"),
    ],
    ids=str,
)
def test_bad_terms_of_privacy_are_refused_before_the_data_are_touched(cls, wrong, words):
    with pytest.raises(ValueError, match=words):
        cls(**wrong).fit(Untouchable())


@pytest.mark.parametrize("cls", [GaussianMixture, KMeans])
@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"n_iter": 0}, "n_iter must be at least 1"),
        ({"n_init": 2}, "would read the data again"),
    ],
)
def test_what_a_private_fit_cannot_do_is_refused_first(cls, wrong, words):
    with pytest.raises(ValueError, match=words):
        cls(epsilon=1.0, **wrong).fit(Untouchable())


@every_class
def test_parameters_are_checked_before_the_data_are_touched(cls):
    with pytest.raises(ValueError, match="max_iter"):
        cls(max_iter=-1).fit(Untouchable())
    with pytest.raises(TypeError, match="max_iter must be an integer, got 'many'"):
        cls(max_iter="many").fit(Untouchable())
