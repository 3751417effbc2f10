"""How a fit is conducted: rows and an estimator in, fitted attributes and a statement out.

An estimator says what to do, in a few methods, and this module does it, exactly or privately::

    fit(estimator, X, y, ...)
        estimator._check_parameters()      bad parameters are refused before a row is read
        estimator._open_table(X, y, ...)   a Table: rows, names, who they belong to
        fit_exactly(estimator, table)      run(estimator._exact_plan(table)); estimator._set_exact
        fit_privately(estimator, table)    fund(estimator._private_plan(table, terms)), pay for it;
                                           estimator._set_private; the statement, privacy_
    go_on(estimator, X, ...)               another block of a stream, exactly: ``partial_fit``

:func:`fund` and :func:`pay` are the only way from a private plan to a result: estimators,
``private_mean`` and ``private_score`` all go through them. Between the two stands
:func:`entered`, which has the data set's ledger, if there is one, reserve the cost.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from .budget import Funded, PrivatePlan, Terms
from .core import Plan, Release, Source, Stage
from .data.frame import FrameKind
from .data.sums import effective_threads, one_blas_thread
from .data.values import is_frame
from .em import OnlineEM
from .estimator.uncertainty import Played
from .estimator.warnings import advise, advise_at_end, at_end, count_fit
from .ledger import Asked, Entry, LedgerError, open_ledger
from .local import OnDevices, Rounds
from .meter import Meter, Statement
from .parameters import BoundsNotFound, check_all_sizes, check_jobs
from .run import Charge, Tape, run
from .settings import FILE as SETTINGS_FILE
from .settings import VARIABLE as CONFIG
from .settings import current_settings

Result = TypeVar("Result")
Watch = Callable[[Stage, Release[Any]], None]

# The environment variable that names the ledger of fits that are given none.
LEDGER = "PRIVEM_LEDGER"
# Whoever publishes a few records at random keeps every promise with a delta above this.
_LARGE_DELTA = 1e-2
# What fits set besides the model's own parameters, and another kind of fit must not leave behind.
_PRIVATE = (
    *("privacy_", "bounds_", "target_bounds_", "outside_", "structure_", "missing_probability_"),
    *("_played", "_uncertainty", "selection_"),
)
_EXACT = ("converged_", "lower_bound_", "lower_bounds_", "labels_", "inertia_")
# And the sums that a fit has ended with, or a stream has come to.
_SUMS = ("_ended", "_stream")


def fit(estimator: Any, X: Any, y: Any, sample_weight: Any, groups: Any) -> None:
    """Fit an estimator: all of its attributes are set or, if anything is wrong, none."""
    with _whole(estimator):
        table = _opened(estimator, X, y, sample_weight, groups)
        (fit_exactly if estimator.epsilon is None else fit_privately)(estimator, table)


def go_on(estimator: Any, X: Any, y: Any, sample_weight: Any) -> None:
    """Take the next block of a stream into a model, exactly: all attributes are set, or none.

    The first block is fitted as any data are.
    """
    with _whole(estimator):
        estimator._check_stream()
        if not hasattr(estimator, estimator._needed[0]):
            table = _opened(estimator, X, y, sample_weight, None)
            if not table.single_rows:
                raise TypeError(
                    "partial_fit takes rows of this process: arrays, frames and files. Fit what "
                    "lies elsewhere in one piece"
                )
            fit_exactly(estimator, table)
            begun = estimator._begun()
            forget(estimator, (*_EXACT, *_SUMS))
            estimator._stream = replace(begun, blocks=1)
            return
        stream = estimator._begun()
        _check(estimator)
        table = estimator._reopen(X, y, sample_weight, flags=estimator._takes_flags())
        model, state = estimator._online(table)
        plan: OnlineEM[Any] = OnlineEM(model, state, stream, estimator._called())
        result = _run_exactly(estimator, plan, table)
        # A block's sums are exact: whatever promise the object has been given must not outlive it.
        forget(estimator, (*_PRIVATE, *_EXACT, *_SUMS))
        estimator._set_online(*result)


@contextmanager
def _whole(estimator: Any) -> Iterator[None]:
    """A change of an estimator that is made as a whole or, if anything is wrong, not at all.

    Otherwise a refit that fails could leave the last fit's parameters and statement beside the
    columns of other data. Warnings about the result come when all of it is set.
    """
    before = dict(vars(estimator))
    try:
        with at_end() as waiting:
            yield
    except BaseException:
        # All but the lineage: what was spent before the failure stays counted.
        before |= {name: vars(estimator)[name] for name in vars(estimator) if name == "_lineage"}
        vars(estimator).clear()
        vars(estimator).update(before)
        raise
    for message, category in waiting:
        advise(message, category)


def _opened(estimator: Any, X: Any, y: Any, sample_weight: Any, groups: Any) -> Any:
    """The table of a fit, once all parameters are checked."""
    _check(estimator)
    table = estimator._open_table(X, y, sample_weight, groups)
    # Tables that the model returns are of the same kind.
    estimator._frame = FrameKind.of(X) if is_frame(X) else None
    return table


def _check(estimator: Any) -> None:
    """Refuse bad parameters before a row is read."""
    if estimator.epsilon is not None:
        # Numbers that sums over records cannot be computed with.
        check_all_sizes(estimator.get_params(deep=False))
    elif estimator.ledger is not None and estimator.ledger is not False:
        raise ValueError(
            "an exact fit (epsilon=None) has no finite cost that a ledger could be charged"
        )
    check_jobs(estimator.n_jobs)
    estimator._check_parameters()


def fit_exactly(estimator: Any, table: Any) -> None:
    """Fit without privacy."""
    result = _run_exactly(estimator, estimator._exact_plan(table), table)
    # An exact fit promises nothing: a private fit's statement must not outlive it.
    forget(estimator, (*_PRIVATE, *_EXACT, *_SUMS))
    estimator._set_exact(result, table)


def _run_exactly(estimator: Any, plan: Plan[Result], table: Any) -> Result:
    # Counted before BLAS is held: None means as many threads as BLAS had.
    threads = effective_threads(estimator.n_jobs)
    with estimator._progress(), one_blas_thread():
        return run(plan, table.source(threads), estimator._watch)


def fit_privately(estimator: Any, table: Any) -> None:
    """Fit under the estimator's budget, and set its statement."""
    terms, people, local = estimator._terms(), table.people, estimator._local
    plan = estimator._private_plan(table, terms)
    funded, meter = fund(plan, terms, table.rows.n_features if local else None)
    if estimator._before is not None:
        estimator._before(estimator, plan.preamble.count)
    tape, trust = Tape(), "local" if local else "central"
    asked = asking(type(estimator).__name__, plan, terms, people.unit, trust)
    with entered(estimator.ledger, asked, funded, meter) as entry:
        count_fit(estimator)
        with estimator._progress(), tape.recording(table.source(estimator.n_jobs)) as source:
            result = pay(funded, meter, source, estimator._watch, entry)
        # Not before: another thread may have fitted the same object exactly meanwhile.
        forget(estimator, (*_PRIVATE, *_EXACT, *_SUMS))
        estimator.structure_ = result.structure
        estimator._set_private(result)
        estimator._played = Played(funded, tape)
        known = {**people.public(terms.neighbours), **estimator._known(plan, terms)}
        known |= limits(terms, people.weighted) | estimator._known_types()
        statement = Statement.of(meter, people.unit, terms.neighbours, known, trust=trust)
        estimator.privacy_ = settle(entry, people.signed(statement))
    estimator._advise()


def fund(
    plan: PrivatePlan[Result], terms: Terms, device: int | None = None
) -> tuple[Funded[Result] | OnDevices[Result], Meter]:
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


def asking(name: str, plan: PrivatePlan[Any], terms: Terms, unit: str, trust: str) -> Asked:
    """What a ledger remembers of a fit that begins."""
    releases = tuple(part.name for part in plan.parts())
    return Asked(name, releases, terms.epsilon, terms.delta, terms.neighbours, unit, trust)


@contextmanager
def entered(
    ledger: Any, asked: Asked, funded: Funded[Any] | OnDevices[Any], meter: Meter
) -> Iterator[Entry | None]:
    """Reserve the cost of a fit in its ledger; no entry, where it has none (or ``False``).

    It is on the disk before any row enters a sum. A fit that fails gives back what it has not used.
    """
    named = ledger_of(ledger)
    if named is None:
        yield None
        return
    book = open_ledger(named)
    try:
        entry = book.reserve(asked, funded.allowance, meter)
        try:
            yield entry
        except BaseException as error:
            try:
                entry.failed()
            except LedgerError as problem:
                error.add_note(_unchanged(entry, problem))
            raise
    finally:
        if book is not named:
            book.close()


def ledger_of(given: Any) -> Any:
    """The ledger of a fit: the one it is given, else that of the environment, else of a file.

    ``False`` is none, and an empty variable says that there is none. Whether a file that lies above
    holds here is for :mod:`privem.settings` to say.
    """
    if given is not None:
        return None if given is False else given
    named, file = os.environ.get(LEDGER), os.environ.get(CONFIG)
    if named is None and (file or (file is None and _lies_above(SETTINGS_FILE))):
        settings = current_settings()
        named = settings.ledger
        if settings.path is None:
            advise(
                f"a {SETTINGS_FILE} lies above this folder, but outside of its repository or home: "
                f"the ledger that it may name is not charged. Name the file in {CONFIG}, or set "
                "that to nothing"
            )
    return named or None


def _lies_above(name: str) -> bool:
    try:
        here = Path.cwd()
    except FileNotFoundError:  # the current folder was removed
        return False
    # As settings.find_settings: a link that leads nowhere is an error there, and not passed over.
    return any(os.path.lexists(folder / name) for folder in (here, *here.parents))


def settle(entry: Entry | None, statement: Statement) -> Statement:
    """The statement of a fit that has ended, which its ledger hears of."""
    if entry is None:
        return statement
    signed = entry.sign(statement)
    try:
        entry.released(signed)
    except LedgerError as problem:
        # It changes nothing about the fit: all is reserved already.
        advise_at_end(_unchanged(entry, problem))
    return signed


def _unchanged(entry: Entry, problem: LedgerError) -> str:
    """What became of an entry whose outcome could not be written."""
    number = entry.row.sequence
    return f"{problem}. Entry {number} of the ledger stays as it is, and counts in full"


def pay(
    funded: Funded[Result] | OnDevices[Result],
    meter: Meter,
    source: Source,
    watch: Watch | None = None,
    entry: Entry | None = None,
) -> Result:
    """Carry out what :func:`fund` has prepared; the meter prices each stage before it runs."""
    charge: Charge = meter
    if entry is not None:
        charge, source = entry, _Own(source, entry)
    try:
        # A caller's np.seterr(all="raise") must not end a fit that is being paid for.
        with np.errstate(divide="warn", over="warn", under="ignore", invalid="warn"):
            return run(funded, source, watch, charge)
    except BoundsNotFound as problem:
        raise problem.costing(meter.spent if meter.releases else 0.0, meter.delta) from None


@dataclass(frozen=True)
class _Own:
    """A source whose releases stay in the process that has reserved for them.

    Rows may be read by code that forks. Both processes come to a release of the same stage then,
    each with noise of its own.
    """

    source: Source
    entry: Entry

    def release(self, stage: Stage) -> Release[Any]:
        found = self.source.release(stage)
        self.entry.check_own()
        return found


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
