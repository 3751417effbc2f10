"""Private scores: mean log-densities of records under one public model, or under several.

The records are counted, unless their number is public; several models then have a release that
says how far they disagree; and one release has all scores (:mod:`privem.blocks.log_density`).
Limits of log-densities are common to all models of the same bounds: the lower one is a thousandth
of the uniform density on them, the upper one is the densities' own and clips nothing.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..blocks.histograms import Histogram
from ..blocks.log_density import (
    NODES,
    ClippedLogs,
    DisagreementQuery,
    LogDensity,
    LogDensityQuery,
    LogDensitySums,
    best_clip,
)
from ..blocks.region import Region
from ..budget import Allowance, Part, Terms
from ..core import Release, Stage
from ..fit import asking, entered, fund, pay, settle
from ..ground import Ground, Preamble, PrivateFit
from ..linalg import Array
from ..meter import Statement
from ..parameters import check_float, check_sizes
from .base import Estimator
from .measured import PrivateScore, PrivateScores
from .warnings import advise

# The lower limit: this part of the uniform density.
_LEAST_PART = 1e-3
# Of the budget, to learn how far several models disagree.
_DISAGREEMENT_SHARE = 0.1


@dataclass(frozen=True)
class Scores:
    """Means (m,), the deviations of their noise, and that of a difference of two."""

    means: Array
    deviations: Array
    difference: float


@dataclass(frozen=True)
class PrivateScorePlan:
    """Count, disagreement of several models, and the sums."""

    preamble: Preamble
    logs: ClippedLogs

    def parts(self) -> list[Part]:
        """How the budget is shared out."""
        left, logs = 1.0 - self.preamble.share(), self.logs
        several, counted = len(logs.densities) > 1, self.preamble.count is None
        numbers = LogDensityQuery(logs, 1.0 if several else None, counted).numbers
        first = _DISAGREEMENT_SHARE * left if several else 0.0
        parts = [*self.preamble.parts(), Part("scores", left - first, [("gaussian", numbers)])]
        if several:
            parts.append(Part("disagreement", first, [("gaussian", NODES)]))
        return parts

    def stages(self, allowance: Allowance) -> Generator[Stage, Release[Any], Scores]:
        """Generate the stages."""
        ground = yield from self.preamble.stages(allowance)
        clip = yield from self._clip(ground)
        counted, cap = self.preamble.count is None, ground.cap_weight
        query = LogDensityQuery(self.logs, clip, counted, cap)
        release = yield ground.stage(query, "scores")
        sums: LogDensitySums = release.statistics
        count, count_noise = ground.count, 0.0
        level, apart, counts = (unit * release.spread for unit in query.units)
        if sums.count is not None:
            # Counted twice; the sums of a plan's first stage are for bounds, and noisier.
            before = allowance.multiplier("count") * cap
            share = before**2 / (before**2 + counts**2)
            count = share * float(sums.count[0]) * query.units[2] + (1 - share) * ground.count
            count, count_noise = max(count, 1.0), counts * math.sqrt(share)
        away = sums.level * query.units[0] / count
        spread = level / count
        if sums.apart is not None:
            # They sum to zero but for noise.
            away = away + (sums.apart - sums.apart.mean()) * query.units[1] / count
            spread = math.hypot(spread, apart / count * math.sqrt(1 - 1 / len(away)))
        # To first order, of a ratio of two noisy numbers.
        deviations = np.hypot(spread, away * count_noise / count)
        means = np.clip(self.logs.middle + away, self.logs.low, self.logs.high)
        return Scores(means, deviations, apart / count * math.sqrt(2.0))

    def _clip(self, ground: Ground) -> Generator[Stage, Release[Any], float | None]:
        """Where disagreements are clipped; one model has none."""
        m = len(self.logs.densities)
        if m == 1:
            return None
        allowance, cap = ground.allowance, ground.cap_weight
        query = DisagreementQuery(self.logs, cap)
        release = yield ground.stage(query, "disagreement")
        counts: Histogram = release.statistics
        # The noise on the sum of disagreements, where they are clipped to one nat.
        then = LogDensityQuery(self.logs, 1.0, cap_weight=cap)
        unit = then.units[1] * then.groups(allowance.neighbours)[0].sensitivity
        unit *= allowance.multiplier("scores")
        return best_clip(counts.counts[0], release.spread, query.nodes, ground.count, unit, m)


class PrivatelyScored(Estimator):
    """Abstract base of estimators whose density of records is scored privately."""

    @abstractmethod
    def _scored(self) -> LogDensity:
        """The fitted density."""

    @abstractmethod
    def _log_uniform(self) -> float:
        """The log-density of a uniform distribution on the public bounds."""

    def _n_parameters(self) -> int:
        """How many numbers of the fitted model are free."""
        raise NotImplementedError

    # Why :func:`privem.select` has nothing to choose among models of this kind, if so.
    _unselected: ClassVar[str] = ""

    @property
    def _merges(self) -> bool:
        """Whether the fit of fewer components can be made of that of more."""
        return False

    def _merged(self, fit: PrivateFit[Any]) -> PrivateFit[Any]:
        """The fit of this many components, made of one of more."""
        raise NotImplementedError

    def private_score(
        self,
        X: Any,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        floor: float | None = None,
        groups: Any = None,
        accountant: str = "auto",
        neighbours: str = "add-remove",
        ledger: Any = None,
    ) -> PrivateScore:
        """Mean log-density of records under differential privacy.

        Each record's log-density is clipped to public limits, summed, and released with noise. (A
        model with a background clamps records to its bounds first, as ``score_samples`` does.) The
        budget is this release's own: it adds to that of the fit if these are the same people.
        To compare models, score them in one release: :func:`privem.private_scores`.

        Parameters
        ----------
        X : array, data frame, path or rows
            The records, as in ``fit``. Those of another table than the one fitted say more.
        epsilon, delta : float
            The whole budget of the score.
        floor : float, optional
            The lower limit: lower log-densities count as this. By default a thousandth of the
            uniform density on the bounds, the same for all models with these bounds. The upper
            limit is the density's own.
        groups : array-like of shape (n_samples,) or str, optional
            Who each record belongs to, as in ``fit``. Without it the score hides single records,
            also where the fit hid persons (which it then warns about).
        accountant, neighbours, ledger : as the parameters of the model
            The model's own ledger is not asked: the records may be of another data set.

        Returns
        -------
        PrivateScore
            The mean with its statement (``.privacy``) and the standard deviation of its noise
            (``.deviation``); passes for a number.

        Examples
        --------
        >>> import numpy as np
        >>> from privem import GaussianMixture
        >>> X = np.random.default_rng(0).normal(size=(20_000, 2))
        >>> model = GaussianMixture(bounds=6.0).fit(X[::2])
        >>> score = model.private_score(X[1::2], epsilon=0.5)
        >>> abs(float(score) - model.score(X[1::2])) < 0.2
        True
        >>> score.privacy.epsilon
        0.5
        """
        terms = Terms.check(epsilon, delta, accountant, neighbours)
        found, limits, statement = _score("private_score", [self], X, terms, floor, groups, ledger)
        return PrivateScore(float(found.means[0]), statement, float(found.deviations[0]), limits)


def private_scores(
    models: Mapping[str, Any] | Sequence[Any],
    X: Any,
    *,
    epsilon: float = 1.0,
    delta: float = 1e-6,
    floor: float | None = None,
    groups: Any = None,
    accountant: str = "auto",
    neighbours: str = "add-remove",
    ledger: Any = None,
) -> PrivateScores:
    """Mean log-densities of the same records under several private models, in one release.

    All models have the same limits, so the scores can be compared. They also share most of their
    noise: differences are known better than the scores. The budget is this release's own: it adds
    to those of the fits if these are the same people.

    Parameters
    ----------
    models : sequence of models, or dict of models by name
        Privately fitted to the same columns: those with a method ``private_score``.
    X : array, data frame, path or rows
        The records, as in ``fit``. Those of another table than the one fitted say more.
    epsilon, delta : float
        The whole budget of all scores together.
    floor : float, optional
        The lower limit: lower log-densities count as this. By default a thousandth of the uniform
        density on the bounds, or the lowest of these where models have different bounds.
    groups : array-like of shape (n_samples,) or str, optional
        Who each record belongs to, as in ``fit``.
    accountant, neighbours, ledger : as the parameters of the models

    Returns
    -------
    PrivateScores

    Examples
    --------
    >>> import numpy as np
    >>> import privem
    >>> rng = np.random.default_rng(0)
    >>> X = rng.choice([-3, 3], (20_000, 1)) + rng.normal(size=(20_000, 2))
    >>> fit = {k: privem.GaussianMixture(k, bounds=9.0, random_state=0).fit(X[::2]) for k in (1, 2)}
    >>> scores = privem.private_scores({"one": fit[1], "two": fit[2]}, X[1::2])
    >>> scores["two"] > scores["one"], bool(scores.stands_out[0, 1])
    (True, True)
    """
    terms = Terms.check(epsilon, delta, accountant, neighbours)
    if isinstance(models, Mapping):
        names, models = tuple(map(str, models)), list(models.values())
    else:
        models = list(models)
        names = tuple(f"{i} {type(model).__name__}" for i, model in enumerate(models))
    if not models:
        raise ValueError("private_scores needs at least one model")
    found, limits, statement = _score("private_scores", models, X, terms, floor, groups, ledger)
    return PrivateScores(found.means, statement, found.deviations, limits, names, found.difference)


def _score(
    name: str,
    models: Sequence[Any],
    X: Any,
    terms: Terms,
    floor: float | None,
    groups: Any,
    ledger: Any,
) -> tuple[Scores, tuple[float, float], Statement]:
    """The scores, the limits of log-densities, and the statement."""
    for model in models:
        _check_scored(name, model, models[0])
    densities, d = tuple(model._scored() for model in models), models[0].n_features_in_
    low, high = common_limits(models)
    if floor is not None:
        low = check_float("floor", floor, -math.inf)
    check_sizes("floor, and the largest log-density", (low, high), least=0.0)
    if not low < high:
        raise ValueError(f"floor={low:g} is not below {high:g}, the largest log-density")
    table = models[0]._reopen(X, groups=groups, private=True)
    people = table.people
    if people.weighted:
        raise ValueError(f"{name} has no weights: open the rows without")
    if people.unit != "person" and any(model.privacy_.unit == "person" for model in models):
        advise(
            "the fit hid persons, and this score hides single records: whoever has several is "
            "hidden less. Say whose they are with groups=, or score one record a person",
        )
    # There is nothing to find out about the region: the limits are the models'.
    preamble = Preamble.of(terms, people, d, Region.around_origin(1.0, d))
    plan = PrivateScorePlan(preamble, ClippedLogs(densities, low, high))
    funded, meter = fund(plan, terms)
    public = people.public(terms.neighbours)
    if len(models) == 1:
        subject, public["model"] = "score", "a private one, whose own budget is not counted here"
    else:
        subject = "set of scores"
        public["models"] = f"{len(models)} private ones, whose own budgets are not counted here"
    public["limits of log-densities"] = f"[{low:g}, {high:g}]"
    with entered(ledger, asking(name, plan, terms, people.unit, "central"), funded, meter) as entry:
        found = pay(funded, meter, table.source(models[0].n_jobs), entry=entry)
        statement = Statement.of(meter, people.unit, terms.neighbours, public, subject=subject)
        statement = settle(entry, statement)
    return found, (low, high), statement


def common_limits(models: Sequence[Any]) -> tuple[float, float]:
    """Limits of log-densities that are the same for all models, from these alone."""
    high = max(model._scored().peak for model in models)
    uniform = min(model._log_uniform() for model in models)
    return min(uniform, high) + math.log(_LEAST_PART), high


def _check_scored(name: str, model: Any, first: Any) -> None:
    """A private density, of the same columns as the first."""
    if not isinstance(model, PrivatelyScored):
        raise TypeError(f"{name} scores models with a method private_score, not {model!r}")
    check_is_fitted(model)
    if not hasattr(model, "privacy_"):
        raise ValueError(
            f"{name} takes the model as public, and this one was fitted exactly (epsilon=None): "
            "the model itself would give records away"
        )
    if model._names() != first._names() or not _same_categories(model, first):
        raise ValueError(
            f"{name} compares models of the same columns and categories; these were fitted to "
            "different ones"
        )


def _same_categories(model: Any, other: Any) -> bool:
    if getattr(model, "schema_", None) != getattr(other, "schema_", None):
        return False
    one, two = ([list(c) for c in getattr(m, "categories_", ())] for m in (model, other))
    return one == two
