""":func:`plan`: a forecast of a private fit, and what a wanted accuracy takes."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sklearn.utils import check_random_state

from ..declaration import Declaration, declarations
from ..parameters import check_float, check_int
from ..schema import Schema
from .forecast import EPSILONS, ROWS, Forecast, finite
from .rehearsal import Rehearsals

# Rehearsals of each that is tried, and of the fit with one component.
_FEW = 5


def plan(
    estimator: Any,
    rows: int,
    features: int | None = None,
    *,
    accuracy: float | None = 0.1,
    separation: float = 4.0,
    categories: int = 4,
    rehearsals: int | None = None,
    random_state: Any = 0,
    watch: Callable[[int], None] | None = None,
) -> Forecast:
    """Say what to expect of a private fit, before anything is spent.

    It looks at no data and needs public numbers only. The fit is rehearsed on made-up records:
    groups (lines, classes, factors) as far apart as ``separation`` says, in wide bounds. A
    rehearsal is the real fit, with as much noise as the real one will have.

    Real records may be easier or harder to describe than those. Take the loss as its order of
    magnitude.

    Parameters
    ----------
    estimator : estimator
        Of any model of privem, with its parameters: budget, components, covariance type, ... If it
        has ``bounds``, bounds of made-up records are given too; otherwise they have to be found.
    rows : int
        About how many records there are; persons, if a fit with ``groups=`` is planned.
    features : int, optional
        How many columns. Not needed where ``schema``, ``categories`` or ``bounds`` by name of the
        estimator say.
    accuracy : float or None, default=0.1
        The loss that is wanted, in the unit of the forecast: how much epsilon, or how many rows, it
        needs. ``None``: do not look for it.
    separation : float, default=4
        How far apart made-up components are, in standard deviations within one.
    categories : int, default=4
        Categories of a column where the estimator does not list them.
    rehearsals : int, optional
        More of them take longer, and depend less on chance. By default 7, or what the model says
        if its fits take long.
    random_state : int, RandomState or None, default=0
        The same number gives the same forecast.
    watch : callable, optional
        Called after each rehearsal with how many there were.

    Returns
    -------
    Forecast
        ``print`` it; ``.loss``, ``.structure``, ``.useless``, ``.plot()``, ``.to_dict()``.

    Examples
    --------
    >>> from privem import KMeans, plan
    >>> found = plan(KMeans(3, bounds=1.0), rows=20_000, features=4, accuracy=None, rehearsals=3)
    >>> found.structure, found.useless is None
    ('full', True)
    >>> found.loss < found.one_component < found.bounds_alone
    True
    """
    declared = _declared(estimator)
    if estimator.epsilon is None:
        raise ValueError("an exact fit (epsilon=None) has no noise: there is nothing to forecast")
    rows = check_int("rows", rows, 1)
    features = _features(declared, estimator, features)
    check_float("separation", separation, 0.0, strict=True)
    times = declared.rehearsals if rehearsals is None else check_int("rehearsals", rehearsals, 1)
    if accuracy is not None:
        check_float("accuracy", accuracy, 0.0, strict=True)
    seed = int(check_random_state(random_state).randint(2**31))
    sizes = features, separation, check_int("categories", categories, 2)
    rehearsed = Rehearsals(declared, estimator, *sizes, seed, watch)
    return _forecast(rehearsed, times, rows, accuracy)


def _forecast(rehearsed: Rehearsals, times: int, rows: int, accuracy: float | None) -> Forecast:
    estimator, declared = rehearsed.estimator, rehearsed.declared
    epsilon = float(estimator.epsilon)
    found = rehearsed.losses(times, rows, epsilon)
    outcomes, losses = [outcome for outcome, _ in found], sorted(loss for _, loss in found)
    structure = statistics.mode(outcome.structure for outcome in outcomes)
    usual = [i for i, outcome in enumerate(outcomes) if outcome.structure == structure]
    stopped = structure == "stopped"
    several = rehearsed.components is not None and rehearsed.components > 1
    one = None
    if several and not stopped:
        alone = rehearsed.losses(min(times, _FEW), rows, epsilon, alone=True)
        one = finite(statistics.median(loss for _, loss in alone))
    epsilon_needed = rows_needed = None
    if accuracy is not None:
        few, enough = min(times, _FEW), statistics.median(losses) <= accuracy
        epsilon_needed = _least(
            _beside(EPSILONS, epsilon, enough),
            lambda each: rehearsed.median_loss(few, rows, each) <= accuracy,
        )
        rows_needed = _least(
            _beside(ROWS, rows, enough),
            lambda each: rehearsed.median_loss(few, each, epsilon) <= accuracy,
        )
        if enough:  # what is planned
            epsilon_needed, rows_needed = epsilon_needed or epsilon, rows_needed or rows
    quarter = times // 4
    return Forecast(
        declared.name,
        rows,
        rehearsed.features,
        rehearsed.components,
        epsilon,
        float(estimator.delta),
        structure,
        round(statistics.median(outcomes[i].iterations for i in usual)),
        finite(statistics.median(losses)),
        None if stopped or times < 4 else (losses[quarter], losses[-1 - quarter]),
        one,
        rehearsed.bounds_alone(times, rows),
        {} if stopped else rehearsed.noise(usual[0], rows, outcomes[usual[0]]),
        "nats per record" if declared.density else "of the mean squared distance",
        accuracy,
        epsilon_needed,
        None if rows_needed is None else int(rows_needed),
        times,
        rehearsed.separation,
        rehearsed,
    )


def _declared(estimator: Any) -> Declaration:
    for each in declarations():
        if each.name == type(estimator).__name__:
            return each
    raise TypeError(
        f"plan takes an estimator of privem, such as GaussianMixture(3); got {estimator!r}"
    )


def _features(declared: Declaration, estimator: Any, given: int | None) -> int:
    """How many columns."""
    bounds = getattr(estimator, "bounds", None)
    known = len(bounds) if isinstance(bounds, Mapping) else None  # by name: each column has some
    if declared.schema and estimator.schema is not None and not isinstance(estimator.schema, tuple):
        known = len(Schema.of(estimator.schema).columns)
    if declared.categories and estimator.categories is not None:
        lists = [part for part in estimator.categories if not isinstance(part, str)]
        known = len(lists) if lists and all(hasattr(part, "__len__") for part in lists) else None
    if given is None and known is None:
        raise ValueError("features= says how many columns there are, or bounds= by column name")
    if given is not None and known is not None and given != known:
        raise ValueError(f"features={given}, but the estimator knows of {known} columns")
    return check_int("features", known if given is None else given, 1)


def _beside(ladder: Sequence[float], planned: float, enough: bool) -> list[float]:
    """Where to look: for less, if what is planned is enough; otherwise for more."""
    return [each for each in ladder if (each < planned if enough else each > planned)]


def _least(ladder: Sequence[float], enough: Callable[[float], bool]) -> float | None:
    """The first of an ascending list that is enough; ``None`` if none is. More is never worse."""
    low, high = 0, len(ladder)
    while low < high:
        middle = (low + high) // 2
        if enough(ladder[middle]):
            high = middle
        else:
            low = middle + 1
    return ladder[low] if low < len(ladder) else None
