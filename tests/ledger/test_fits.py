"""Fits, means and scores that spend from a ledger."""

import pickle
import subprocess
import sys
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import FitFailedWarning
from sklearn.model_selection import GridSearchCV, cross_val_score

import privem
from privem import Budget, BudgetExceeded, GaussianMixture, KMeans, Ledger, LedgerError
from privem.audit.fits import watched_fit
from privem.audit.neighbours import Dataset
from privem.data.sums import LocalSource
from privem.declaration import declarations
from privem.ledger import WrongRelation
from privem.ledger.chain import State, cost_of

RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, size=(400, 2))
WIDE = Budget(30.0, 1e-3)


def small(**more):
    return KMeans(2, **{"bounds": 1.5, "epsilon": 0.5, "n_iter": 2, "random_state": 0} | more)


def states(ledger):
    return [run.state for run in ledger.history()]


def reserved_and_spent(ledger):
    """Of the last run."""
    with ledger.store.reading(ledger.dataset) as rows:
        *_, reserve, outcome = rows
    return cost_of(reserve), cost_of(outcome)


@pytest.mark.parametrize("declaration", declarations(), ids=lambda each: each.name)
def test_every_model_stays_within_its_reservation(declaration, tmp_path):
    example = declaration.example()
    ledger = Ledger(tmp_path / "b.db", "x", WIDE)
    arguments = {**example.arguments, **example.bounds, "ledger": ledger}
    model = declaration.estimator(**arguments).fit(*example.data)
    reserve, spent = reserved_and_spent(ledger)
    assert spent.within(reserve)
    assert spent.squares >= 0.2 * reserve.squares > 0
    ledger.verify(model.privacy_)
    (run,) = ledger.history()
    assert (run.state, run.what.model, run.what.epsilon) == ("released", declaration.name, 1.0)
    assert f"entry 1 ({model.privacy_.ledger.head[:16]})" in str(model.privacy_)
    path = tmp_path / "model.json"
    model.save(path)
    loaded = privem.load(path)
    assert loaded.ledger is None
    assert str(tmp_path) not in path.read_text()
    ledger.verify(loaded.privacy_)
    ledger.close()


@pytest.mark.parametrize(
    "model",
    [
        GaussianMixture(2, bounds=1.5, accountant="pld"),
        GaussianMixture(2, bounds=1.5, accountant="zcdp", mechanism="llg"),
        GaussianMixture(2, bounds=1.5, accountant="zcdp", mechanism="laplace"),
        GaussianMixture(2, bounds=1.5, accountant="rdp", mechanism="ggg"),
        GaussianMixture(2, bounds=1.5, accountant="linear", mechanism="laplace", max_rows=1000),
        GaussianMixture(2, bounds=1.5, mechanism="laplace", delta=0, max_rows=1000),
        KMeans(2, bounds=1.5, mechanism="dplloyd"),
        KMeans(2, bounds=1.5, mechanism="ll", accountant="zcdp"),
        KMeans(2, bounds=1.5, neighbours="replace-one"),
        privem.SymmetricMixture(bounds=2.0, trust="local", epsilon=4.0),
        privem.SymmetricMixture(bounds=2.0, method="gradient", batch="partition", n_iter=4),
        privem.SymmetricMixture(bounds=2.0, method="gradient", mechanism="robust", n_iter=4),
        GaussianMixture(2, epsilon=20.0),
        GaussianMixture(3, bounds=1.5, epsilon=0.01),
    ],
    ids=lambda model: ",".join(map(str, model.get_params().values())).replace("None,", "")[:60],
)
def test_every_way_of_spending_stays_within_its_reservation(model, tmp_path, seeded):
    data = X if not isinstance(model, privem.SymmetricMixture) else np.sign(X[:, :1]) * 0.7 + X / 5
    local = model.get_params().get("trust") == "local"
    relation = "replace-one" if local else model.neighbours
    ledger = Ledger(tmp_path / "b.db", "x", Budget(30.0, 1e-3, relation))
    model.set_params(ledger=ledger).fit(data)
    reserve, spent = reserved_and_spent(ledger)
    assert spent.within(reserve)
    assert 0.1 * reserve.squares < spent.squares
    assert ledger.history()[0].what.trust == ("local" if local else "central")
    ledger.verify(model.privacy_)
    ledger.close()


def test_a_fit_of_the_whole_budget_fits_once(tmp_path):
    for epsilon in (0.5, 1.0, 4.0):
        ledger = Ledger(tmp_path / "b.db", f"{epsilon}", Budget(epsilon, 1e-6))
        small(epsilon=epsilon, ledger=ledger).fit(X)
        assert ledger.spent == pytest.approx(epsilon, rel=1e-4)
        with pytest.raises(BudgetExceeded, match=r"Nothing more fits\. Nothing was released"):
            small(epsilon=epsilon, ledger=ledger).fit(X)
        ledger.close()


def test_what_a_refusal_says_would_fit_fits(ledger):
    small(epsilon=2.0, ledger=ledger).fit(X)
    for neighbours in ("add-remove", "replace-one"):
        model = small(epsilon=2.9, ledger=ledger, neighbours=neighbours)
        if neighbours == "replace-one":
            with pytest.raises(WrongRelation, match="use neighbours='add-remove'"):
                model.fit(X)
            continue
        with pytest.raises(BudgetExceeded, match="about epsilon ") as problem:
            model.fit(X)
        said = str(problem.value)
        assert "for KMeans: of epsilon 3 at delta 1e-06 per record (add-remove)" in said
        fits = float(said.partition("about epsilon ")[2].split()[0])
        with pytest.raises(BudgetExceeded):
            model.set_params(epsilon=fits * 1.01).fit(X)
        model.set_params(epsilon=fits).fit(X)
    assert ledger.remaining < 0.2
    assert states(ledger) == ["released", "released"]


def test_refusals_leave_rows_alone(ledger, monkeypatch):
    def release(self, stage):
        raise AssertionError("a row entered a sum")

    monkeypatch.setattr(LocalSource, "release", release)
    with pytest.raises(BudgetExceeded):
        small(epsilon=4.0, ledger=ledger).fit(X)
    assert ledger.history() == []


def test_only_laplace_noise_may_go_by_the_sum_of_epsilons(tmp_path):
    ledger = Ledger(tmp_path / "b.db", "x", Budget(1.0, 0.0))
    pure = small(epsilon=0.45, delta=0, max_rows=1000, ledger=ledger)
    pure.fit(X)
    pure.fit(X)
    assert ledger.spent == pytest.approx(0.9, rel=1e-6)
    assert ledger.remaining == pytest.approx(0.1, rel=1e-5)
    with pytest.raises(BudgetExceeded, match=r"about epsilon 0\.(1|09\d*) would"):
        pure.fit(X)
    with pytest.raises(BudgetExceeded):
        small(epsilon=0.01, ledger=ledger).fit(X)
    ledger.close()


def test_persons_and_records(tmp_path):
    persons = np.repeat(np.arange(100), 4)
    records = Ledger(tmp_path / "r.db", "x", Budget(3.0, 1e-6))
    small(ledger=records).fit(X)
    first = records.history()[0].part
    small(ledger=records).fit(X, groups=persons)
    assert records.history()[1].part == pytest.approx(4 * first, rel=1e-3)
    of_persons = Ledger(tmp_path / "p.db", "x", Budget(3.0, 1e-6, unit="person"))
    small(ledger=of_persons).fit(X, groups=persons)
    with pytest.raises(WrongRelation, match="whose the records are with groups="):
        small(ledger=of_persons).fit(X)
    replaced = Ledger(tmp_path / "o.db", "x", Budget(3.0, 1e-6, "replace-one"))
    small(ledger=replaced).fit(X)
    assert replaced.history()[0].part == pytest.approx(4 * first, rel=1e-3)
    for each in (records, of_persons, replaced):
        each.close()


def test_a_fit_that_fails_pays_for_what_ran(ledger, monkeypatch):
    with pytest.raises(privem.BoundsNotFound):
        KMeans(2, ledger=ledger).fit(X[:50])
    (run,) = ledger.history()
    assert run.state == "released"
    assert run.statement is None
    assert 0 < run.part < 0.02
    true, calls = LocalSource.release, []

    def release(self, stage):
        calls.append(stage)
        if len(calls) == 3:
            raise MemoryError
        return true(self, stage)

    monkeypatch.setattr(LocalSource, "release", release)
    with pytest.raises(MemoryError):
        small(ledger=ledger).fit(X)
    reserve, spent = reserved_and_spent(ledger)
    assert 0 < spent.squares < reserve.squares
    ledger.verify()


def test_a_fit_that_fails_before_its_first_release_is_void(ledger, monkeypatch):
    before = ledger.spent

    def charge(self, stage):
        raise RuntimeError("out of luck")

    monkeypatch.setattr("privem.meter.Meter.charge", charge)
    with pytest.raises(RuntimeError, match="out of luck"):
        small(ledger=ledger).fit(X)
    assert states(ledger) == ["void"]
    assert ledger.spent == before == 0
    assert ledger.verify().entries == 3


def test_a_stage_beyond_the_reservation_is_refused(ledger, monkeypatch):
    """Whatever the run's own meter says, which goes by another accountant."""
    monkeypatch.setattr("privem.meter.Meter._cost", lambda self, more=(): 0.0)
    true = privem.budget.Allowance.multiplier
    monkeypatch.setattr(privem.budget.Allowance, "multiplier", lambda *a: true(*a) * 0.9)
    with pytest.raises(BudgetExceeded, match="exceed what the ledger has reserved"):
        small(ledger=ledger).fit(X)
    reserve, spent = reserved_and_spent(ledger)
    assert spent.within(reserve)


def test_means_and_scores_spend_too(ledger):
    model = small(ledger=ledger)
    assert model.fit(X).ledger is ledger
    mixture = GaussianMixture(1, bounds=1.5, epsilon=0.2, ledger=ledger).fit(X)
    mixture.private_score(X, epsilon=0.1)  # another data set, for all we know
    assert len(ledger.history()) == 2
    score = mixture.private_score(X, epsilon=0.1, ledger=ledger)
    both = privem.private_scores([mixture, mixture], X, epsilon=0.1, ledger=ledger)
    mean = privem.private_mean(X, epsilon=0.1, tau=1.0, ledger=ledger)
    found = [run.what.model for run in ledger.history()]
    assert found[2:] == ["private_score", "private_scores", "private_mean"]
    ledger.verify(score.privacy, both.privacy, mean.privacy, mixture.privacy_)


def test_the_environment_names_a_ledger(ledger, tmp_path, monkeypatch):
    monkeypatch.setenv("PRIVEM_LEDGER", f"{tmp_path / 'budget.db'}#cohort")
    model = small().fit(X)
    privem.private_mean(X, epsilon=0.1, tau=1.0)
    ledger.verify(model.privacy_)
    assert len(ledger.history()) == 2
    small(epsilon=None, n_iter=None).fit(X)  # an exact fit has no cost that a ledger could know
    monkeypatch.setenv("PRIVEM_LEDGER", str(tmp_path / "lost.db"))
    with pytest.raises(LedgerError, match="there is no ledger"):
        small().fit(X)


def test_exact_fits_have_no_ledger(ledger):
    with pytest.raises(ValueError, match="no finite cost"):
        small(epsilon=None, n_iter=None, ledger=ledger).fit(X)


def test_clones_and_pickles(ledger):
    model = small(ledger=ledger)
    copy = clone(model)
    assert copy.get_params()["ledger"] is ledger
    again = pickle.loads(pickle.dumps(copy.fit(X)))
    assert again.ledger.dataset == "cohort"
    again.fit(X)
    again.ledger.close()
    assert len(ledger.history()) == 2
    assert "ledger=Ledger(" in repr(model)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_cross_validation_spends_once_per_fit(ledger, n_jobs):
    model = small(epsilon=0.4, ledger=ledger)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert np.isfinite(cross_val_score(model, X, cv=3, n_jobs=n_jobs)).all()
        assert states(ledger) == ["released"] * 3
        search = GridSearchCV(model, {"n_clusters": [1, 2, 3]}, cv=5, n_jobs=n_jobs, refit=False)
        search.set_params(estimator__epsilon=1.0).fit(X)
    # Of 15 fits those are refused that come when the budget is gone.
    assert 3 < len(ledger.history()) - 3 < 15
    assert np.isnan(search.cv_results_["mean_test_score"]).any()
    with pytest.raises(BudgetExceeded):
        model.set_params(epsilon=1.0).fit(X)
    ledger.verify()


def test_refused_fits_of_a_search_say_why(tmp_path):
    """Scikit-learn gives them NaN as score; with a clear warning, and if none fits an error."""
    with Ledger(tmp_path / "b.db", "x", Budget(0.6, 1e-6)) as ledger:
        search = GridSearchCV(small(ledger=ledger), {"n_clusters": [2]}, cv=3, refit=False)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            search.fit(X)
        (said,) = [str(each.message) for each in caught if each.category is FitFailedWarning]
        assert "2 fits failed out of a total of 3" in said
        assert "BudgetExceeded: the ledger has too little left of 'x'" in said
        assert states(ledger) == ["released"]
        assert np.isnan(search.cv_results_["mean_test_score"]).all()
        with pytest.raises(ValueError, match=r"(?s)All the 3 fits failed.*BudgetExceeded"):
            search.fit(X)
        with pytest.raises(BudgetExceeded):
            search.set_params(error_score="raise").fit(X)


def cannot_write(*args):
    raise LedgerError("the ledger 'x' could not be written: disk full")


def test_a_paid_fit_is_not_lost_where_warnings_are_errors(ledger, monkeypatch, seeded):
    monkeypatch.setattr(Ledger, "settle", cannot_write)
    model = small(ledger=ledger)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match=r"disk full\. Entry 1 of the ledger stays"):
            model.fit(X)
    assert states(ledger) == ["pending"]
    assert ledger.verify(model.privacy_).pending == (1,)


def test_a_failed_fit_whose_outcome_cannot_be_written_says_both(ledger, monkeypatch):
    def release(self, stage):
        raise MemoryError

    monkeypatch.setattr(LocalSource, "release", release)
    monkeypatch.setattr(Ledger, "settle", cannot_write)
    with pytest.raises(MemoryError) as problem:
        small(ledger=ledger).fit(X)
    assert "disk full. Entry 1 of the ledger stays" in problem.value.__notes__[0]
    assert states(ledger) == ["pending"]


@pytest.mark.parametrize("step", ["reserve", "settle"])
def test_interrupted_between_a_commit_and_its_return(ledger, monkeypatch, step):
    true = getattr(Ledger, step)

    def interrupted(*args):
        true(*args)
        raise KeyboardInterrupt

    model = small(ledger=ledger)
    with monkeypatch.context() as patch:
        patch.setattr(Ledger, step, interrupted)
        with pytest.raises(KeyboardInterrupt):
            model.fit(X)
    # A reservation that nobody holds stays; an outcome was written once.
    assert states(ledger) == ["pending" if step == "reserve" else "released"]
    assert not hasattr(model, "privacy_")
    ledger.verify()
    model.fit(X)
    ledger.verify(model.privacy_)


def test_people_who_do_not_exist_need_no_ledger(tmp_path, monkeypatch):
    """tests/test_demo.py and tests/audit/test_report.py do the same with all of a demo or audit."""
    monkeypatch.setenv("PRIVEM_LEDGER", str(tmp_path / "lost.db"))
    model = small(ledger=False).fit(X)
    assert model.privacy_.ledger is None
    assert privem.private_mean(X, epsilon=0.1, tau=1.0, ledger=False).privacy.ledger is None
    small(epsilon=None, n_iter=None, ledger=False).fit(X)
    watched_fit(small(), Dataset(X))
    with pytest.raises(LedgerError):
        small().fit(X)


def test_parties_of_a_federation_hear_of_no_ledger(ledger):
    from privem.federation import Federation, Party

    parties = [Party(X[i::3], f"p{i}", epsilon=9.0) for i in range(3)]
    model = small(ledger=ledger).fit(Federation(parties, protection="plain"))
    ledger.verify(model.privacy_)
    assert "ledger" not in str(parties[0].__dict__)


def test_the_budget_of_a_data_set_is_spent_across_names(tmp_path):
    """A data set's totals are its own."""
    one = Ledger(tmp_path / "b.db", "one", Budget(1.0, 1e-6))
    two = Ledger(tmp_path / "b.db", "two", Budget(1.0, 1e-6))
    small(epsilon=0.9, ledger=one).fit(X)
    assert two.spent == 0
    assert State.of(next(iter(_all(two)))).limits is None
    one.close()
    two.close()


def _all(ledger):
    with ledger.store.reading(ledger.dataset) as rows:
        return list(rows)


FORKED = """
import os, sys
import numpy as np
from privem import Budget, KMeans, Ledger

ledger = Ledger(sys.argv[1], "d", Budget(1.0, 1e-6))
model = KMeans(2, epsilon=0.9, bounds=4.0, n_iter=2, ledger=ledger)
parent, seen = os.getpid(), []

def watch(stage, release):
    seen.append(stage.name)
    if len(seen) == 1:
        child = os.fork()
        if not child and sys.argv[2] == "stops":
            raise SystemExit(0)
        if child:
            os.waitpid(child, 0)

model._watch = watch
try:
    model.fit(np.random.default_rng(0).normal(size=(300, 2)))
except BaseException as error:
    if os.getpid() == parent:
        raise
    print(type(error).__name__, len(seen), flush=True)
    os._exit(0)
print(model.privacy_.spent > 0.85, [run.state for run in ledger.history()], ledger.spent > 0.85)
"""


@pytest.mark.parametrize("child", ["stops", "goes on"])
def test_a_forked_copy_of_a_fit_neither_spends_nor_settles(child, tmp_path):
    words = [sys.executable, "-c", FORKED, str(tmp_path / "budget.db"), child]
    said = subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()
    assert said[0] == ("SystemExit 1" if child == "stops" else "LedgerError 1")
    assert said[1] == "True ['released'] True"


FORKED_IN_A_SUM = """
import os, sys
import numpy as np, privem
from privem.data.sums import LocalSource
ledger = privem.Ledger(sys.argv[1], "x", privem.Budget(3.0, 1e-6))
summed, forks = LocalSource._sum, []
def sums(*of):
    total = summed(*of)
    if len(forks) < 2:
        forks.append(os.fork())
    return total
LocalSource._sum = sums
try:
    mean = privem.private_mean(np.zeros((9, 1)), tau=1.0, epsilon=1.0, ledger=ledger)
except privem.LedgerError:
    said = "refused\\n"
else:
    said = "released\\n"
os.write(1, said.encode())
for child in forks:
    if child:
        os.waitpid(child, 0)
"""


def test_of_two_copies_that_part_in_a_sum_one_has_the_release(tmp_path):
    """The count, and the sum after which there is no other stage."""
    words = [sys.executable, "-c", FORKED_IN_A_SUM, str(tmp_path / "budget.db")]
    said = subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()
    assert sorted(said) == ["refused", "refused", "released"]
