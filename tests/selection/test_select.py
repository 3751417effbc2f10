"""Selections: one budget, one statement, one entry of a ledger, and the right model."""

import os
import subprocess
import sys
import warnings
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

import privem
from privem import (
    BoundsNotFound,
    Budget,
    FactorAnalysis,
    GaussianMixture,
    KMeans,
    Ledger,
    PoissonMixture,
    SymmetricRegressionMixture,
    TableMixture,
    select,
)
from privem.estimator.store import ModelFileError
from privem.federation import Federation, Party
from privem.report import Report
from privem.report.numbers import rounded
from privem.selection.result import say_choice
from privem.selection.select import _told_apart

from ..report.pages import check

RNG = np.random.default_rng(0)
X = RNG.choice([-6.0, 0.0, 6.0], (4000, 1)) + RNG.normal(size=(4000, 2))


def seeded(models, data, seed=0, **options):
    """A selection whose noise comes from a seed: always the same. It hides nothing."""
    with mock.patch("os.urandom", np.random.default_rng(seed).bytes):
        return select(models, data, **options)


def gaussians(most=4, **more):
    options = {"bounds": 12.0, "random_state": 0} | more
    return [GaussianMixture(k, **options) for k in range(1, most + 1)]


def statuses(chosen):
    return [(each.name, each.status, each.how) for each in chosen.candidates_]


def test_what_a_selection_returns(tmp_path):
    given_models = gaussians()
    chosen = seeded(given_models, X, epsilon=2.0)
    best = chosen.best_
    assert best.n_components == 3
    assert best.privacy_ is chosen.privacy_
    assert chosen.scores_.privacy is chosen.privacy_
    assert (best.epsilon, chosen.privacy_.epsilon, chosen.privacy_.subject) == (
        2.0,
        2.0,
        "selection of a model",
    )
    assert all("privacy_" not in vars(model) for model in given_models)
    assert [each.status for each in chosen.candidates_] == ["scored", "scored", "chosen", "scored"]
    assert [each.how for each in chosen.candidates_][-1] == "fitted"
    assert "made of n_components=4" in chosen.candidates_[0].how
    assert chosen.scores_.names == tuple(f"n_components={k}" for k in range(1, 5))
    assert [each.parameters for each in chosen.candidates_] == [6, 12, 18, 24]
    assert chosen.scores_.deviation.min() > 0
    exact = [float(best.score(X)), float(chosen.scores_[2])]
    assert abs(exact[0] - exact[1]) < 8 * float(chosen.scores_.deviation[2])
    said = str(chosen)
    assert "selection of a model is (2, 1e-06)-differentially private" in said
    assert "candidates 4: n_components=1;" in said
    assert repr(chosen) == "<Selection: n_components=3, of 4 candidates>"
    assert chosen._repr_html_() == best._repr_html_()
    best.save(tmp_path / "model.json")
    again = privem.load(tmp_path / "model.json")
    assert str(again.privacy_) == str(chosen.privacy_)
    assert np.array_equal(again.means_, best.means_)
    assert best.uncertainty()["means_"].shape == (3, 2)
    # What it was chosen from is saved with it, as it was printed.
    assert again.selection_ == best.selection_
    assert say_choice(again.selection_) == chosen._lines()
    noise = chosen.scores_.difference_deviation
    assert again.selection_["difference_deviation"] == noise
    assert f"a difference of two scores has noise of deviation {noise:.3g}" in said
    assert 0 < noise < min(chosen.scores_.deviation)
    page = check(Report(again).html).text
    assert "Chosen from" in page
    assert f"noise of deviation {noise:.3g}" in page
    for each in chosen.candidates_:
        assert all(cell in page for cell in rounded(each.score, each.deviation, 3))
    # An exact fit of the same estimator was not chosen.
    assert not hasattr(best.set_params(epsilon=None).fit(X), "selection_")


def test_one_that_is_left_has_no_scores_on_its_page():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        best = select(gaussians(6)[2:], X[:100], epsilon=0.1).best_
    assert best.selection_["difference_deviation"] is None
    page = check(Report(best).html).text
    assert "nothing was scored" in page
    assert page.count("ruled out") >= 3


@pytest.mark.parametrize(
    "change",
    [
        lambda known: known["candidates"][0].update(name=3),
        lambda known: known["candidates"][0].update(score="<b>"),
        lambda known: known["candidates"][0].pop("how"),
        lambda known: known.pop("difference_deviation"),
        lambda known: known.update(candidates="all"),
        lambda known: known.update(difference_deviation=float("inf")),
    ],
)
def test_a_file_with_another_choice_is_damaged(change, tmp_path):
    best = seeded(gaussians(2), X, epsilon=2.0).best_
    change(best.selection_)
    best.save(tmp_path / "model.json")
    with pytest.raises(ModelFileError, match="damaged"):
        privem.load(tmp_path / "model.json")


def test_names_are_short():
    """Each by what differs among those of its kind."""
    kinds = [FactorAnalysis(1), GaussianMixture(2), GaussianMixture(3, covariance_type="diag")]
    assert _told_apart(kinds) == [
        "FactorAnalysis(1)",
        "GaussianMixture(2, covariance_type='full')",
        "GaussianMixture(3, covariance_type='diag')",
    ]
    assert _told_apart(kinds[1:])[0] == "n_components=2, covariance_type='full'"
    assert _told_apart([GaussianMixture(2, bounds=9.0)]) == ["GaussianMixture(2)"]


def counts():
    rates = np.where(RNG.random((3000, 1)) < 0.5, [2.0, 9.0], [12.0, 3.0])
    return RNG.poisson(rates)


def answers():
    likes = np.where(RNG.random((4000, 1)) < 0.4, [0.9, 0.1, 0.9, 0.1], [0.1, 0.9, 0.2, 0.8])
    return np.where(RNG.random((4000, 4)) < likes, "yes", "no")


@pytest.mark.parametrize(
    ("models", "data", "fitted"),
    [
        ([PoissonMixture(k, bounds=(0, 40), random_state=0) for k in (1, 2, 3)], counts, 1),
        (
            [
                privem.CategoricalMixture(k, categories=["no", "yes"], random_state=0)
                for k in (1, 2, 3)
            ],
            answers,
            1,
        ),
        (
            [
                GaussianMixture(k, covariance_type=kind, bounds=12.0, random_state=0)
                for kind in ("tied", "diag", "spherical")
                for k in (1, 3)
            ],
            lambda: X,
            3,
        ),
        (
            [
                FactorAnalysis(0, bounds=(-12, 12)),
                FactorAnalysis(1, bounds=(-12, 12)),
                GaussianMixture(2, bounds=(-12, 12)),
            ],
            lambda: X,
            2,
        ),
    ],
    ids=["poisson", "classes", "types", "mixed"],
)
def test_kinds_of_models(models, data, fitted):
    data = data()
    chosen = seeded(models, data, epsilon=4.0)
    assert sum(each.how == "fitted" for each in chosen.candidates_) == fitted
    assert 0.98 * 4.0 < chosen.privacy_.spent <= 4.0
    scores = [each.score for each in chosen.candidates_]
    assert None not in scores
    # The best is not clearly behind any: noise, and what parameters gain by chance.
    at = [each.status for each in chosen.candidates_].index("chosen")
    assert scores[at] > max(scores) - 4 * chosen.scores_.difference_deviation
    if models[0].__class__ is not FactorAnalysis:
        # Groups are clear: one component is no match.
        assert chosen.best_.n_components > 1
    assert np.isfinite(chosen.best_.score(data))


@settings(max_examples=6, deadline=None)
@given(
    most=st.integers(1, 6),
    kinds=st.integers(1, 2),
    budget=st.sampled_from([(0.5, 12.0), (1.0, 12.0), (3.0, 12.0), (3.0, None)]),
    share=st.sampled_from([0.05, 0.3]),
    neighbours=st.sampled_from(["add-remove", "replace-one"]),
)
def test_the_whole_budget_is_spent_and_no_more(most, kinds, budget, share, neighbours):
    """Whatever the number of candidates, and of those that are ruled out."""
    # To find bounds, these records are enough at epsilon 3, and never at 0.5.
    epsilon, bounds = budget
    models = [
        model
        for kind in ("full", "diag")[:kinds]
        for model in gaussians(most, covariance_type=kind, bounds=bounds)
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        chosen = seeded(models, X, epsilon=epsilon, share=share, neighbours=neighbours)
    statement = chosen.privacy_
    assert 0.98 * epsilon < statement.spent <= epsilon
    assert statement.recount() == pytest.approx(statement.spent, rel=1e-12)
    assert (chosen.scores_ is None) == (
        sum(each.status != "ruled out" for each in chosen.candidates_) == 1
    )


def test_what_is_ruled_out_does_not_depend_on_the_data():
    """Where the number of records is public, nothing else is looked at."""
    models = gaussians(6, bounds=(-12, 12))
    few = {"epsilon": 1.0, "neighbours": "replace-one"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = [
            [each for each in statuses(seeded(models, data, **few)) if each[1] == "ruled out"]
            for data in (X[:1500], np.zeros((1500, 2)), np.full((1500, 2), 1e6))
        ]
    assert 0 < len(found[0]) < 6
    assert found[0] == found[1] == found[2]
    assert "of a component's covariance" in found[0][-1][2]


def test_if_all_are_ruled_out_the_smallest_is_left():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        chosen = seeded(gaussians(6)[2:], X[:100], epsilon=0.1)
    assert [each.status for each in chosen.candidates_] == ["chosen"] + 3 * ["ruled out"]
    assert chosen.scores_ is None
    assert chosen.privacy_.spent > 0.098


def test_persons_and_weights():
    owners = np.arange(4000) // 4
    chosen = seeded(gaussians(3), X, epsilon=8.0, groups=owners)
    assert chosen.privacy_.unit == "person"
    weights = np.where(X[:, 0] < 3, 1.0, 0.0)
    models = gaussians(3, max_weight=0.5)
    chosen = seeded(models, X, epsilon=8.0, sample_weight=weights)
    # Of those at six nothing counts.
    assert chosen.best_.n_components == 2
    assert chosen.best_.means_.max() < 2
    assert chosen.privacy_.public["largest sample weight"] == "0.5"


def test_three_clear_clusters_are_found():
    """With noise from a seed: the result is always the same. Of seeds 0 to 39, 39 find three."""
    for seed in range(5):
        chosen = seeded(gaussians(6, random_state=seed), X, seed)
        assert chosen.best_.n_components == 3


def test_the_releases_lead_to_the_same_model_without_the_data():
    best = seeded(gaussians(4), X, epsilon=2.0).best_
    with best._played.tape.playing(lambda release: release) as source:
        fit = privem.run.run(best._played.plan, source)
    assert np.array_equal(fit.state.means, best.means_)
    assert np.array_equal(fit.state.covariances, best.covariances_)


def test_one_entry_in_a_ledger(tmp_path):
    with Ledger(tmp_path / "b.db", "x", Budget(3.0, 1e-5)) as ledger:
        chosen = select(gaussians(3), X, epsilon=1.0, ledger=ledger)
        (entry,) = ledger.history()
        assert (entry.state, entry.what.model, entry.what.epsilon) == ("released", "select", 1.0)
        assert entry.what.releases == ("count", "fits", "scores")
        ledger.verify(chosen.best_.privacy_)
        # The estimators' own ledger, where select is given none.
        again = select(gaussians(2, ledger=ledger), X, epsilon=1.0)
        assert len(ledger.history()) == 2
        # Who fits the chosen one again spends from the same ledger.
        assert chosen.best_.ledger is again.best_.ledger is clone(again.best_).ledger is ledger
        with pytest.raises(privem.BudgetExceeded):
            select(gaussians(3), X, epsilon=2.9, ledger=ledger)


KILLED = """
import os, sys
import numpy as np, privem
models = [privem.GaussianMixture(k, bounds=9.0, random_state=0) for k in (1, 2)]
def watch(stage, release):
    if stage.name == "disagreement":
        os._exit(9)
models[0]._watch = watch
privem.select(models, np.zeros((9000, 1)), epsilon=1.0, ledger=sys.argv[1])
"""


def test_killed_between_fits_and_scores_stays_pending(tmp_path):
    where = f"{tmp_path / 'b.db'}#x"
    Ledger(tmp_path / "b.db", "x", Budget(3.0, 1e-5)).close()
    run = subprocess.run([sys.executable, "-W", "ignore", "-c", KILLED, where], check=False)
    assert run.returncode == 9
    with Ledger(where) as ledger:
        (entry,) = ledger.history()
        assert entry.state == "pending"
        assert ledger.spent > 0.8


def test_bounds_that_are_not_found_stop_all_before_any_fit(tmp_path):
    with Ledger(tmp_path / "b.db", "x", Budget(3.0, 1e-5)) as ledger:
        with pytest.raises(BoundsNotFound, match="epsilon"):
            seeded(gaussians(3, bounds=None), X[:30], ledger=ledger)
        (entry,) = ledger.history()
        assert entry.state == "released"
        assert ledger.spent < 0.2


WRONG = {
    "none": ([], {}, ValueError, "at least one"),
    "one alone": (GaussianMixture(2), {}, TypeError, "a list of estimators to choose from"),
    "clusters": ([KMeans(2, bounds=9.0)], {}, TypeError, "private_score"),
    "regression": (
        [GaussianMixture(1), SymmetricRegressionMixture()],
        {},
        TypeError,
        "private_score",
    ),
    "tables": ([TableMixture()], {}, TypeError, "n_components='auto'"),
    "units": ([GaussianMixture(1), PoissonMixture(2)], {}, TypeError, "different units"),
    "exact": ([GaussianMixture(1, epsilon=None)], {}, ValueError, "bic"),
    "laplace": (
        [GaussianMixture(2, bounds=9.0, mechanism="laplace")],
        {},
        ValueError,
        "Laplace",
    ),
    "bounds": (
        [GaussianMixture(1, bounds=9.0), GaussianMixture(2)],
        {},
        ValueError,
        "bounds must be the same",
    ),
    "bad": ([GaussianMixture(0)], {}, ValueError, "n_components"),
    "pure": (gaussians(2), {"delta": 0.0, "accountant": "auto"}, ValueError, "delta"),
    "accountant": (gaussians(2), {"accountant": "linear"}, ValueError, "accountant"),
    "share": (gaussians(2), {"share": 1.0}, ValueError, "share"),
    "epsilon": (gaussians(2), {"epsilon": None}, (TypeError, ValueError), "epsilon"),
    "weights": (gaussians(2), {"sample_weight": [1.0]}, ValueError, "sample_weight"),
}


@pytest.mark.parametrize("case", WRONG)
def test_refused_before_anything_is_spent(case, tmp_path):
    models, options, error, words = WRONG[case]
    with Ledger(tmp_path / "b.db", "x", Budget(3.0, 1e-5)) as ledger:
        with pytest.raises(error, match=words):
            select(models, X, ledger=ledger, **options)
        assert ledger.history() == []


def test_a_federation_is_refused():
    parties = [Party(X[at::3], str(at)) for at in range(3)]
    with pytest.raises(TypeError, match="one holder"):
        select(gaussians(2), Federation(parties, protection="plain"))


def test_ledgers_that_differ_are_refused():
    models = [GaussianMixture(1, bounds=9.0, ledger="a.db#x"), GaussianMixture(2, bounds=9.0)]
    for other in ("b.db#x", None, False):
        models[1].ledger = other
        with pytest.raises(ValueError, match="different ledgers"):
            select(models, X)
    assert not os.path.exists("a.db")


def test_count_bounds_and_scores_are_released_once():
    """Whatever the number of fits; all candidates are scored in one release, with one clip."""
    models = [
        GaussianMixture(k, covariance_type=kind, random_state=0)
        for kind in ("full", "diag")
        for k in (1, 2)
    ]
    chosen = seeded(models, X, epsilon=8.0)
    names = [record.name for record in chosen.privacy_.releases]
    fitted = sum(each.how == "fitted" for each in chosen.candidates_)
    assert fitted == names.count("frame 1") == 2
    # Count and bounds come first, what scores differ by and the scores last.
    once = ["count", "scale", "place", "ends", "outside", "disagreement", "scores"]
    assert names[:5] + names[-2:] == once
    assert [names.count(name) for name in once] == [1] * 7
    assert len(chosen.scores_) == 4
