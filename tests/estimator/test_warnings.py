"""Private fits of an estimator and its clones are counted, also in other processes."""

import copy
import pickle
import warnings
from typing import Any

import joblib
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import FitFailedWarning
from sklearn.model_selection import GridSearchCV, cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from privem import GaussianMixture, KMeans, PrivacyCompositionWarning

pytestmark = pytest.mark.filterwarnings(
    "always::privem.PrivacyCompositionWarning", "ignore:.*too few for"
)

X = np.random.default_rng(0).normal(size=(90, 2))


def model(**given: Any) -> GaussianMixture:
    return GaussianMixture(**{"bounds": 5.0, "n_iter": 1, **given})


def said(task: Any) -> list[str]:
    """The warnings about composition, in order."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        task()
    return [str(w.message) for w in caught if w.category is PrivacyCompositionWarning]


def counts(task: Any) -> list[int]:
    """The numbers of fits that the warnings name."""
    return [int(text.removeprefix("up to ").split()[0]) for text in said(task)]


def test_one_fit_is_not_remarked_upon() -> None:
    for one in (
        model(),
        clone(model()),
        clone(clone(model())),
        make_pipeline(FunctionTransformer(), model()),
        pickle.loads(pickle.dumps(model())),
        copy.deepcopy(clone(model())),
    ):
        assert counts(lambda one=one: one.fit(X)) == []
    origin = model()
    several = [clone(origin) for _ in range(3)]
    assert counts(lambda: several[2].fit(X)) == []


def test_two_estimators_are_two_lineages() -> None:
    assert counts(lambda: [model().fit(X) for _ in range(3)]) == []


def test_exact_fits_do_not_count() -> None:
    exact = model(epsilon=None)
    assert counts(lambda: [clone(exact).fit(X) for _ in range(3)]) == []
    assert counts(lambda: cross_val_score(exact, X, cv=3)) == []


def test_the_same_object_fitted_again() -> None:
    one = model()
    assert counts(lambda: [one.fit(X) for _ in range(3)]) == [2, 3]


def test_a_grid_search_says_how_often_it_spends() -> None:
    """Three candidates, three folds and the refit: ten fits, each record in seven of them."""
    search = GridSearchCV(model(), {"n_components": [1, 2, 3]}, cv=3)
    texts = said(lambda: search.fit(X))
    assert [int(text.split()[0]) for text in texts] == list(range(2, 11))
    assert "epsilon (here 1)" in texts[-1]
    assert "at most epsilon 10 with delta 1e-05" in texts[-1]
    assert "about epsilon 3.52 with delta 1e-06" in texts[-1]
    assert "about epsilon 2.89" in texts[5]  # seven
    assert "groups= to the splitter, not to fit" in texts[0]


def test_cross_validation_in_one_process() -> None:
    assert counts(lambda: cross_val_score(model(), X, cv=4)) == [2, 3, 4]
    assert counts(lambda: cross_validate(KMeans(2, bounds=5.0, n_iter=1), X, cv=3)) == [2, 3]
    pipe = make_pipeline(FunctionTransformer(), model())
    assert counts(lambda: cross_val_score(pipe, X, cv=3)) == [2, 3]


def test_threads() -> None:
    with joblib.parallel_config(backend="threading"):
        found = counts(lambda: cross_val_score(model(), X, cv=4, n_jobs=2))
    assert max(found) == 4


def test_worker_processes_warn_from_the_second_clone_on() -> None:
    """scikit-learn takes warning filters along: made errors, they stop all folds but the first."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitFailedWarning)
        warnings.simplefilter("error", PrivacyCompositionWarning)
        scores = cross_val_score(model(), X, cv=4, n_jobs=2, error_score=np.nan)
    assert np.isfinite(scores).tolist() == [True, False, False, False]


def test_the_refit_after_workers_counts_what_was_sent_to_them() -> None:
    parallel = GridSearchCV(model(), {"n_components": [1, 2, 3]}, cv=3, n_jobs=2)
    assert counts(lambda: parallel.fit(X)) == [10]


def test_a_failed_fit_counts_once_it_may_have_spent() -> None:
    one = model()
    one._watch = lambda stage, release: (_ for _ in ()).throw(OSError("disk"))  # type: ignore
    with pytest.raises(OSError, match="disk"):
        one.fit(X)
    del one._watch
    assert counts(lambda: one.fit(X)) == [2]
    with pytest.raises(ValueError, match="n_components"):
        one.set_params(n_components=0).fit(X)
    assert counts(lambda: one.set_params(n_components=1).fit(X)) == [3]


def test_as_an_error_it_stops_a_fit_before_it_spends() -> None:
    one = model().fit(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error", PrivacyCompositionWarning)
        one._watch = lambda stage, release: pytest.fail("something was released")
        with pytest.raises(PrivacyCompositionWarning):
            one.fit(X)
    del one._watch
    assert counts(lambda: one.fit(X)) == [2]  # the one that was stopped spent nothing


def test_clones_and_pickles_are_otherwise_as_ever() -> None:
    exact = model(epsilon=None)
    assert joblib.hash(clone(exact)) == joblib.hash(clone(exact)) == joblib.hash(exact)
    private = model(epsilon=0.5)
    assert clone(private).get_params() == private.get_params()
    assert pickle.loads(pickle.dumps(private.fit(X))).privacy_ == private.privacy_
