"""``privem.select``: several private models, one budget, the best of them."""

from __future__ import annotations

import pickle
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sklearn.base import BaseEstimator, clone

from ..budget import Funded, Terms
from ..core import Release, Stage
from ..data import Table
from ..estimator.measured import PrivateScores
from ..estimator.score import PrivatelyScored
from ..estimator.uncertainty import Played
from ..estimator.warnings import advise, at_end, count_fit
from ..fit import asking, entered, fund, limits, pay, settle
from ..ground import PrivateFit
from ..meter import Statement
from ..parameters import check_all_sizes, check_float, check_jobs
from ..run import Tape
from .plan import Candidate, Selected, SelectionPlan
from .result import Outcome, Selection, remembered

# What need not be equal in models of one family.
_APART = ("n_components", "random_state")
# What must be, in all candidates: they share count, bounds and limits of log-densities.
_COMMON = ("bounds", "categories", "max_weight", "max_rows")


def select(
    estimators: Sequence[Any] | Mapping[str, Any],
    X: Any,
    *,
    epsilon: float = 1.0,
    delta: float = 1e-6,
    share: float = 0.1,
    sample_weight: Any = None,
    groups: Any = None,
    accountant: str = "auto",
    neighbours: str = "add-remove",
    ledger: Any = None,
) -> Selection:
    """The best of several private models: number of components, covariance type, kind of model.

    One budget pays for everything, and one statement covers it. Count and bounds are released once
    for all. Candidates that have too many components for the noise are ruled out without looking at
    the data. Of those that differ in ``n_components`` alone, the largest is fitted and the others
    are made of it by merging components, which costs nothing. Candidates that differ in anything
    else are fitted each, with an equal part of the budget. One joint release then has the mean
    log-density of the records under every candidate, and the best is returned. Of candidates that
    noise cannot tell from the best, the simplest is taken.

    Parameters
    ----------
    estimators : sequence of estimators, or dict of estimators by name
        Densities of the same kind: :class:`privem.GaussianMixture` and
        :class:`privem.FactorAnalysis`, or :class:`privem.PoissonMixture`, or
        :class:`privem.CategoricalMixture`. They are not changed, and their own ``epsilon``,
        ``delta``, ``accountant`` and ``neighbours`` do not count. Bounds must be the same in all.
    X : array, data frame, path or rows
        The records, as in ``fit``.
    epsilon, delta : float
        The whole budget.
    share : float, default=0.1
        The part of the budget that is for the scores.
    sample_weight, groups : as in ``fit``
    accountant, neighbours : str
        As the parameters of the estimators. The accountant must be one that adds up noise, since
        the budget is shared out after the count.
    ledger : Ledger, path or str, optional
        What everything is charged to, in one entry; by default the ledger of the estimators.

    Returns
    -------
    Selection
        With ``best_``, ``scores_`` and ``candidates_``.

    Raises
    ------
    BoundsNotFound
        Before any candidate is fitted, where bounds were not given and cannot be found.

    Examples
    --------
    >>> import numpy as np
    >>> import privem
    >>> rng = np.random.default_rng(0)
    >>> X = rng.choice([-6.0, 0.0, 6.0], (20_000, 1)) + rng.normal(size=(20_000, 2))
    >>> models = [privem.GaussianMixture(k, bounds=12.0, random_state=0) for k in range(1, 7)]
    >>> chosen = privem.select(models, X, epsilon=1.0)
    >>> chosen.best_.n_components
    3
    >>> chosen.privacy_.epsilon
    1.0
    """
    names, given = _named(estimators)
    terms = Terms.check(epsilon, delta, accountant, neighbours)
    _check_terms(terms, share)
    _check_kinds(given)
    named = {"epsilon": epsilon, "delta": delta, "accountant": accountant, "neighbours": neighbours}
    charged = _ledger(given, ledger)
    # The best one keeps the ledger: fitted again, it spends from the same.
    models = [clone(model).set_params(**named, ledger=charged) for model in given]
    _check_parameters(models, X)
    with at_end() as waiting:
        tables = [model._open_table(X, None, sample_weight, groups) for model in models]
        found = _selected(models, names, tables, share, charged, given[0]._watch, given[0]._before)
    for message, category in waiting:
        advise(message, category)
    return found


def _selected(
    models: Sequence[Any],
    names: Sequence[str],
    tables: Sequence[Table],
    share: float,
    ledger: Any,
    watch: Any,
    before: Any,
) -> Selection:
    """Fund, pay, and set the best."""
    terms, table, people = models[0]._terms(), tables[0], tables[0].people
    candidates = _candidates(models, names, tables)
    preamble = replace(candidates[0].plan.preamble, isotropic=False)
    plan = SelectionPlan(preamble, candidates, share)
    funded, meter = fund(plan, terms)
    assert isinstance(funded, Funded)
    if before is not None:
        before(models[0], preamble.count)
    count_fit(models[0])
    tape = Tape()
    asked = asking("select", plan, terms, people.unit, "central")
    with entered(ledger, asked, funded, meter) as entry:
        with tape.recording(table.source(models[0].n_jobs)) as source:
            found = pay(funded, meter, source, watch, entry)
        chosen = candidates[found.best]
        best, fit = chosen.estimator, found.fits[found.best]
        best.structure_ = fit.structure
        best._set_private(fit)
        best._played = Played(_Best(funded, found.best), tape)
        known = {**people.public(terms.neighbours), **best._known(chosen.plan, terms)}
        known |= limits(terms, people.weighted) | best._known_types()
        known["candidates"] = f"{len(names)}: " + "; ".join(names)
        subject = "selection of a model"
        statement = Statement.of(meter, people.unit, terms.neighbours, known, subject=subject)
        best.privacy_ = settle(entry, statement)
    scores, outcomes = _scores(found, names, best.privacy_), _outcomes(found, names)
    best.selection_ = remembered(outcomes, scores)
    best._advise()
    return Selection(best, scores, outcomes, best.privacy_)


@dataclass(frozen=True)
class _Best:
    """The plan of a selection, as that of its best model's fit: to be played again."""

    plan: Funded[Selected]
    best: int

    def stages(self) -> Generator[Stage, Release[Any], PrivateFit[Any]]:
        """Generate the stages."""
        return (yield from self.plan.stages()).fits[self.best]


def _candidates(
    models: Sequence[Any], names: Sequence[str], tables: Sequence[Table]
) -> list[Candidate]:
    """Every estimator with its plan; those that can be made of one another in one family."""
    families: dict[Any, int] = {}
    found = []
    for i, (model, name, table) in enumerate(zip(models, names, tables, strict=True)):
        plan = model._private_plan(table, model._terms())
        key = _family(model) if model._merges else i
        family = families.setdefault(key, len(families))
        size = model.n_features_in_ if model.n_components is None else model.n_components
        found.append(Candidate(name, model, plan, family, size))
    return found


def _family(model: Any) -> bytes:
    """All parameters but those that models of one family may differ in."""
    params = model.get_params(deep=False).items()
    kept = sorted((name, value) for name, value in params if name not in (*_APART, "ledger"))
    return pickle.dumps((type(model), kept))


def _named(estimators: Any) -> tuple[list[str], list[Any]]:
    """Names of the candidates, and these."""
    if isinstance(estimators, Mapping):
        names, given = [str(name) for name in estimators], list(estimators.values())
    elif isinstance(estimators, BaseEstimator):
        raise TypeError(f"select takes a list of estimators to choose from, got {estimators!r}")
    else:
        names, given = [], list(estimators)
    if not given:
        raise ValueError("select needs at least one estimator")
    for model in given:
        if not isinstance(model, PrivatelyScored):
            raise TypeError(
                "select compares log-densities of records, and so takes estimators with a method "
                f"private_score (densities), not {model!r}: clusters without a density, and "
                "regressions, have none"
            )
    return names or _told_apart(given), given


def _told_apart(given: Sequence[Any]) -> list[str]:
    """Each estimator by what it does not have in common with others of its kind.

    Examples
    --------
    >>> from privem import FactorAnalysis, GaussianMixture
    >>> _told_apart([FactorAnalysis(1), GaussianMixture(2), GaussianMixture(3)])
    ['FactorAnalysis(1)', 'GaussianMixture(2)', 'GaussianMixture(3)']
    """
    kinds = len({type(model) for model in given}) > 1
    names = []
    for model in given:
        own = model.get_params(deep=False)
        like = [other.get_params(deep=False) for other in given if type(other) is type(model)]
        varies = [
            name
            for name in sorted(own, key=lambda name: name != "n_components")
            if name not in ("ledger", "random_state")
            and any(repr(other[name]) != repr(own[name]) for other in like)
        ]
        if varies and not kinds:
            names.append(", ".join(f"{name}={own[name]!r}" for name in varies))
            continue
        others = [f"{name}={own[name]!r}" for name in varies if name != "n_components"]
        said = ", ".join([repr(own["n_components"]), *others])
        names.append(f"{type(model).__name__}({said})")
    return names


def _check_terms(terms: Terms, share: float) -> None:
    if not 0 < check_float("share", share, 0.0, strict=True) < 1:
        raise ValueError(f"share must be between 0 and 1, got {share}")
    if terms.delta == 0:
        raise ValueError("select needs a delta above 0: scores have Gaussian noise")
    if not terms.adaptive:
        raise ValueError(
            f"accountant={terms.accountant!r} fixes every share beforehand, and select shares the "
            "budget out after the count; use 'auto'"
        )


def _check_kinds(given: Sequence[Any]) -> None:
    """Densities of one kind, whose noise adds up."""
    for model in given:
        if model._unselected:
            raise TypeError(f"select takes no {type(model).__name__}: {model._unselected}")
        if model.epsilon is None:
            raise ValueError(
                "select is for private models, and epsilon=None asks for an exact fit: compare "
                "exact fits by bic(X)"
            )
        if model._local:
            raise ValueError(
                "select is for trust='central': on people's own devices each answers once, and "
                "nobody would be left to score the candidates"
            )
    if len({type(model)._scored for model in given}) > 1:
        kinds = ", ".join(sorted({type(model).__name__ for model in given}))
        raise TypeError(
            f"select compares densities of one kind, not those of {kinds}: probabilities of counts "
            "or categories and densities of numbers are in different units"
        )


def _check_parameters(models: Sequence[Any], X: Any) -> None:
    """Whatever is wrong with an estimator, and with all of them together; before rows are read."""
    if callable(getattr(X, "release", None)):
        raise TypeError(
            "select takes the rows of one holder, not a Federation, whose parties do not answer "
            "about the scores of several models"
        )
    for model in models:
        check_all_sizes(model.get_params(deep=False))
        check_jobs(model.n_jobs)
        model._check_parameters()
        if model._terms().noise != "gaussian":
            raise ValueError(
                f"mechanism={model.mechanism!r} has Laplace noise, which does not add up with that "
                "of the scores; select takes those with Gaussian noise"
            )
    for name in _COMMON:
        if len({pickle.dumps(getattr(model, name, None)) for model in models}) > 1:
            raise ValueError(
                f"{name} must be the same in all candidates: they share count, bounds and the "
                "limits of their scores"
            )


def _ledger(given: Sequence[Any], ledger: Any) -> Any:
    """The one ledger to charge."""
    if ledger is not None:
        return ledger
    own = [model.ledger for model in given]
    if any(other is not own[0] and other != own[0] for other in own):
        raise ValueError("the estimators have different ledgers: say which with ledger=")
    return own[0]


def _scores(found: Selected, names: Sequence[str], statement: Statement) -> PrivateScores | None:
    if found.scores is None:
        return None
    scored, scores = tuple(names[i] for i in found.fits), found.scores
    deviations = (scores.deviations, found.limits, scored, scores.difference)
    return PrivateScores(scores.means, statement, *deviations)


def _outcomes(found: Selected, names: Sequence[str]) -> tuple[Outcome, ...]:
    """What became of each candidate."""
    order = {i: at for at, i in enumerate(found.fits)}
    outcomes = []
    for i, name in enumerate(names):
        if i in found.ruled_out:
            outcomes.append(Outcome(name, "ruled out", found.ruled_out[i]))
            continue
        first, at = found.made_of[i], order[i]
        how = "fitted" if first == i else f"made of {names[first]}, at no cost"
        status = "chosen" if i == found.best else "scored"
        score = deviation = None
        if found.scores is not None:
            score, deviation = float(found.scores.means[at]), float(found.scores.deviations[at])
        outcomes.append(Outcome(name, status, how, score, deviation, found.parameters[at]))
    return tuple(outcomes)
