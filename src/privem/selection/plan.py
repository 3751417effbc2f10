"""The plan of a selection: one preamble, a fit for each family, and one release of all scores.

::

    count, bounds ──▶ forecast ──▶ a fit per family ──▶ smaller members by merging ──▶ scores

A *family* is what differs in its number of components alone. Its largest member that the forecast
does not rule out is fitted, and the smaller ones are made of it by merging components (of a factor
analysis, by fewer factors), which is arithmetic on what was released. Splitting the budget over one
fit for each number of components loses far more than choosing gains (``experiments/selection``).
Candidates that cannot be made of one another are families of their own and share the budget.

Every candidate's plan runs as it would alone, with its part f of the budget: its noise multipliers
are divided by sqrt(f). What one budget pays for in all, and why it may be shared out after the
count: ``docs/proofs/selection.md``.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..blocks.log_density import NODES, ClippedLogs
from ..budget import Allowance, Funded, Part, PrivatePlan
from ..core import Release, Stage
from ..estimator.measured import CLEAR
from ..estimator.score import PrivateScorePlan, Scores, common_limits
from ..estimator.warnings import at_end
from ..ground import Ground, Preamble, PrivateFit
from ..linalg import Array
from ..run import given, held


@dataclass(frozen=True)
class Candidate:
    """An estimator that knows its columns, and the plan of its fit.

    ``family``: candidates of the same family can be made of its largest; ``size``: the number of
    components, which orders them.
    """

    name: str
    estimator: Any
    plan: PrivatePlan[Any]
    family: int
    size: int

    def on(self, ground: Ground) -> PrivatePlan[Any]:
        """The plan of its fit, on a ground that was paid for once."""
        plan: Any = self.plan
        found: PrivatePlan[Any] = replace(plan, preamble=replace(plan.preamble, laid=ground))
        return found

    def ruled_out(self, ground: Ground) -> str | None:
        """Why noise would leave nothing of such a fit, if so: from the count and the noise."""
        forecast = getattr(self.on(ground), "ruled_out", None)
        return None if forecast is None else forecast(ground)

    def fitted(self, fit: PrivateFit[Any]) -> Any:
        """The estimator with what a fit has found."""
        model = object.__new__(type(self.estimator))
        vars(model).update(vars(self.estimator))
        with at_end():  # what is to be said of it waits until it is chosen
            model.structure_ = fit.structure
            model._set_private(fit)
        return model


@dataclass(frozen=True)
class Selected:
    """What a selection has found. All public."""

    best: int
    fits: Mapping[int, PrivateFit[Any]]
    """By the number of the candidate, those ruled out left out."""
    made_of: Mapping[int, int]
    """Which candidate's fit each was made of."""
    ruled_out: Mapping[int, str]
    scores: Scores | None
    """Of ``fits``, in order; ``None`` where only one is left."""
    limits: tuple[float, float]
    parameters: tuple[int, ...]


@dataclass(frozen=True)
class SelectionPlan:
    """Count and bounds, fits, scores.

    Parameters
    ----------
    preamble : Preamble
        What all candidates begin with.
    candidates : sequence of Candidate
    share : float
        Of what the preamble leaves, for the scores.
    """

    preamble: Preamble
    candidates: Sequence[Candidate]
    share: float

    def parts(self) -> list[Part]:
        """How the budget is shared out.

        Which fits there will be is known after the count only: listed are those of all candidates,
        which is at least as many numbers.
        """
        left, several = 1.0 - self.preamble.share(), len(self.candidates) > 1
        each = [candidate.plan.parts() for candidate in self.candidates]
        releases = [release for parts in each for part in parts for release in part.releases]
        scores = left * self.share if several else 0.0
        parts = [*self.preamble.parts(), Part("fits", left - scores, releases)]
        if several:
            numbers = 2 + len(self.candidates)
            parts.append(Part("scores", scores, [("gaussian", numbers), ("gaussian", NODES)]))
        return parts

    def stages(self, allowance: Allowance) -> Generator[Stage, Release[Any], Selected]:
        """Generate the stages."""
        ground = yield from self.preamble.stages(allowance)
        shares = {part.name: part.share for part in allowance.parts}
        chosen, ruled_out = held(lambda: self._forecast(ground, shares["fits"]))
        alone = len(self.candidates) - len(ruled_out) == 1
        whole = shares["fits"] + shares.get("scores", 0.0) * alone
        fits: dict[int, PrivateFit[Any]] = {}
        made_of: dict[int, int] = {}
        for first in chosen:
            plan = self.candidates[first].on(ground)
            fit = yield from self._funded(plan, allowance, whole / len(chosen)).stages()
            for i in self._members(first):
                if i not in ruled_out:
                    smaller = self.candidates[i].estimator
                    fits[i] = fit if i == first else smaller._merged(fit)
                    made_of[i] = first
        fits = {i: fits[i] for i in sorted(fits)}
        models = held(lambda: [self.candidates[i].fitted(fit) for i, fit in fits.items()])
        limits = common_limits(models)
        parameters = tuple(model._n_parameters() for model in models)
        scores, best = None, 0
        if not alone:
            logs = ClippedLogs(tuple(model._scored() for model in models), *limits)
            scoring = PrivateScorePlan(replace(self.preamble, laid=ground), logs)
            scores = yield from given(self._funded(scoring, allowance, shares["scores"]).stages())
            best = choose(scores.means, scores.difference, parameters, ground.count)
        return Selected(list(fits)[best], fits, made_of, ruled_out, scores, limits, parameters)

    def _funded(self, plan: PrivatePlan[Any], allowance: Allowance, share: float) -> Funded[Any]:
        """A plan with a part of the budget: of 1/multiplier^2, which is what adds up.

        The preamble's parts are spent. They are listed with the noise that they had, which plans
        ask for.
        """
        base = allowance.base / math.sqrt(share)
        spent = [replace(part, share=part.share / share) for part in self.preamble.parts()]
        return Funded(plan, replace(allowance, parts=(*plan.parts(), *spent), base=base))

    def _members(self, first: int) -> list[int]:
        """Candidates that are made of one: it and the smaller ones of its family."""
        family, size = self.candidates[first].family, self.candidates[first].size
        return [
            i
            for i, other in enumerate(self.candidates)
            if other.family == family and (i == first or other.size < size)
        ]

    def _forecast(self, ground: Ground, share: float) -> tuple[list[int], dict[int, str]]:
        """Which candidates are fitted; and which are ruled out, and why. Data-free.

        From the noise that they would have if nothing were ruled out, and the paid count. If all
        were, the smallest is left.
        """
        families = len({candidate.family for candidate in self.candidates})
        ruled_out = {}
        for i, candidate in enumerate(self.candidates):
            own = self._funded(candidate.on(ground), ground.allowance, share / families)
            reason = candidate.ruled_out(replace(ground, allowance=own.allowance))
            if reason is not None:
                ruled_out[i] = reason
        if len(ruled_out) == len(self.candidates):
            del ruled_out[min(ruled_out, key=lambda i: self.candidates[i].size)]
        left = [i for i in range(len(self.candidates)) if i not in ruled_out]
        largest: dict[int, int] = {}
        for i in sorted(left, key=lambda i: -self.candidates[i].size):
            largest.setdefault(self.candidates[i].family, i)
        return sorted(largest.values()), ruled_out


def choose(means: Array, deviation: float, parameters: Sequence[int], count: float) -> int:
    """The best of several scores; of those that noise cannot tell from it, the simplest.

    A model scored on the records that it was fitted to gains, on average, its number of parameters
    over that of records (Akaike, as in a private mixture's contest): so much is taken off. The best
    of many equal ones is ahead by luck, by a standard error or two of a difference; of those that
    are not three behind it, the one with the fewest parameters is taken.

    Examples
    --------
    >>> choose(np.array([-3.0, -2.53, -2.5]), 0.02, [5, 11, 17], 1000)
    1
    >>> choose(np.array([-3.0, -2.6, -2.5]), 0.02, [5, 11, 17], 1000)
    2
    """
    free = np.asarray(parameters)
    fair = means - free / count
    close = np.flatnonzero(fair >= fair.max() - CLEAR * deviation)
    return int(min(close, key=lambda i: (free[i], -fair[i])))
