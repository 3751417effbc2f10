"""How a fit is conducted: rows and an estimator in, fitted attributes and a statement out.

An estimator says what to do, in a few methods, and this module does it, exactly or privately::

    fit(estimator, X, y, ...)
        estimator._check_parameters()      bad parameters are refused before a row is read
        estimator._open_table(X, y, ...)   a Table: rows, names, who they belong to
        fit_exactly(estimator, table)      run(estimator._exact_plan(table)); estimator._set_exact
        fit_privately(estimator, table)    fund(estimator._private_plan(table, terms)), pay for it;
                                           estimator._set_private; the statement, privacy_

:func:`fund` and :func:`pay` are the only way from a private plan to a result: estimators,
``private_mean`` and ``private_score`` all go through them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import numpy as np

from .budget import Funded, PrivatePlan, Terms
from .core import Plan, Release, Source, Stage
from .data.sums import effective_threads, one_blas_thread
from .estimator.uncertainty import Played
from .estimator.warnings import advise, at_end, count_fit
from .local import Rounds
from .meter import Meter, Statement
from .parameters import BoundsNotFound, check_all_sizes
from .run import Tape, run

Result = TypeVar("Result")
Watch = Callable[[Stage, Release[Any]], None]

# Whoever publishes a few records at random keeps every promise with a delta above this.
_LARGE_DELTA = 1e-2
# What fits set besides the model's own parameters, and another kind of fit must not leave behind.
_PRIVATE = (
    *("privacy_", "bounds_", "target_bounds_", "outside_", "structure_", "missing_probability_"),
    *("_played", "_uncertainty"),
)
_EXACT = ("converged_", "lower_bound_", "lower_bounds_", "labels_", "inertia_")


def fit(estimator: Any, X: Any, y: Any, sample_weight: Any, groups: Any) -> None:
    """Fit an estimator: all of its attributes are set or, if anything is wrong, none.

    Otherwise a refit that fails could leave the last fit's parameters and statement beside the
    columns of other data. Warnings about the result come when all of it is set.
    """
    before = dict(vars(estimator))
    try:
        with at_end() as waiting:
            if estimator.epsilon is not None:
                # Numbers that sums over records cannot be computed with.
                check_all_sizes(estimator.get_params(deep=False))
            estimator._check_parameters()
            table = estimator._open_table(X, y, sample_weight, groups)
            (fit_exactly if estimator.epsilon is None else fit_privately)(estimator, table)
    except BaseException:
        # All but the lineage: what was spent before the failure stays counted.
        before |= {name: vars(estimator)[name] for name in vars(estimator) if name == "_lineage"}
        vars(estimator).clear()
        vars(estimator).update(before)
        raise
    for message, category in waiting:
        advise(message, category)


def fit_exactly(estimator: Any, table: Any) -> None:
    """Fit without privacy."""
    plan = estimator._exact_plan(table)
    # Counted before BLAS is held: None means as many threads as BLAS had.
    threads = effective_threads(estimator.n_jobs)
    with estimator._progress(), one_blas_thread():
        result = run(plan, table.source(threads), estimator._watch)
    # An exact fit promises nothing: a private fit's statement must not outlive it.
    forget(estimator, (*_PRIVATE, *_EXACT))
    estimator._set_exact(result, table)


def fit_privately(estimator: Any, table: Any) -> None:
    """Fit under the estimator's budget, and set its statement."""
    terms, people, local = estimator._terms(), table.people, estimator._local
    plan = estimator._private_plan(table, terms)
    funded, meter = fund(plan, terms, table.rows.n_features if local else None)
    count_fit(estimator)
    forget(estimator, (*_PRIVATE, *_EXACT))
    tape = Tape()
    with estimator._progress(), tape.recording(table.source(estimator.n_jobs)) as source:
        result = pay(funded, meter, source, estimator._watch)
    estimator.structure_ = result.structure
    estimator._set_private(result)
    estimator._played = Played(funded, tape)
    known = {**people.public(terms.neighbours), **estimator._known(plan, terms)}
    known |= limits(terms, people.weighted) | estimator._known_types()
    trust = "local" if local else "central"
    statement = Statement.of(meter, people.unit, terms.neighbours, known, trust=trust)
    estimator.privacy_ = people.signed(statement)
    estimator._advise()


def fund(
    plan: PrivatePlan[Result], terms: Terms, device: int | None = None
) -> tuple[Plan[Result], Meter]:
    """Share the budget out over a plan's parts; the plan with its noise, and a meter for it.

    ``device``: the columns of a person's record, where people's own devices add the noise; every
    stage then becomes a round of messages.
    """
    if terms.delta > _LARGE_DELTA:
        advise(
            f"delta={terms.delta:g} is large: the promise may fail altogether with that "
            "probability; below one over the number of records is usual",
        )
    parts, counted = plan.parts(), plan.preamble.count is None
    if device is not None:
        rounds = Rounds.of(parts, terms, plan.preamble.count)
        funded = Funded(plan, rounds.allowance())
        return rounds.ask(funded, device), terms.meter(counted)
    return Funded(plan, terms.allowance(parts, counted)), terms.meter(counted)


def pay(funded: Plan[Result], meter: Meter, source: Source, watch: Watch | None = None) -> Result:
    """Carry out what :func:`fund` has prepared; the meter prices each stage before it runs."""
    try:
        # A caller's np.seterr(all="raise") must not end a fit that is being paid for.
        with np.errstate(divide="warn", over="warn", under="ignore", invalid="warn"):
            return run(funded, source, watch, meter)
    except BoundsNotFound as problem:
        raise problem.costing(meter.spent if meter.releases else 0.0, meter.delta) from None


def limits(terms: Terms, weighted: bool) -> dict[str, str]:
    """What a statement says of limits on the number of records and on their weights."""
    found = {}
    if terms.max_rows is not None:
        found["number of records at most"] = f"{terms.max_rows}"
    if weighted:
        found["largest sample weight"] = f"{terms.max_weight:g}"
    return found


def forget(estimator: Any, names: Iterable[str]) -> None:
    """Remove what an earlier fit has set."""
    for name in names:
        if name in vars(estimator):
            delattr(estimator, name)
