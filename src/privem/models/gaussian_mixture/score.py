"""``private_score``: how well a model describes records, without giving the records away."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

from sklearn.utils.validation import check_is_fitted

from ...advice import advise
from ...blocks.region import Region
from ...budget import Terms
from ...estimator.base import Estimator
from ...estimator.measured import Measured, say_measured
from ...fit import fund, pay
from ...ground import Preamble
from ...parameters import check_float, check_sizes
from ...statement import Statement
from .log_density import LogDensityQuery, highest, lowest
from .model import Mixture
from .score_plan import PrivateScorePlan


@dataclass(frozen=True, eq=False, repr=False)
class PrivateScore(Measured):
    """A mean log-density that may be published, and the statement that says so.

    It passes for a number where one is expected: ``float(score)``, ``f"{score:.2f}"``,
    ``score - other``. Printed, it is the score with its noise, and the statement.

    Parameters
    ----------
    value : float
        Mean of the records' log-densities, each within ``limits``, and noise.
    privacy : Statement
    deviation : float
        Standard deviation of what the noise did to it, that on the count included.
    limits : (float, float)
        What each record's log-density was clipped to.
    """

    value: float
    privacy: Statement
    deviation: float
    limits: tuple[float, float]

    def _lines(self) -> list[str]:
        """The score, its noise and its limits."""
        low, high = self.limits
        return [f"{say_measured(self.value, self.deviation)}, records within [{low:g}, {high:g}]"]


class PrivatelyScored(Estimator):
    """Abstract base of estimators whose density is a Gaussian mixture."""

    @abstractmethod
    def _density(self) -> Mixture:
        """The fitted density."""

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
    ) -> PrivateScore:
        """Mean log-density of records under differential privacy.

        Each record's log-density is clipped to public limits, summed, and released with noise. The
        budget is this release's own: it adds to that of the fit if these are the same people.

        Parameters
        ----------
        X : array, data frame, path or rows
            The records, as in ``fit``. Those of another table than the one fitted say more.
        epsilon, delta : float
            The whole budget of the score.
        floor : float, optional
            The lower limit: lower log-densities count as this. By default from the model alone:
            below all but a thousandth of its own records. The upper limit is the density's own.
        groups : array-like of shape (n_samples,) or str, optional
            Who each record belongs to, as in ``fit``. Without it the score hides single records,
            also where the fit hid persons (which it then warns about).
        accountant, neighbours : as the parameters of the model

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
        check_is_fitted(self)
        if not hasattr(self, "privacy_"):
            raise ValueError(
                "private_score takes the model as public, and this one was fitted exactly "
                "(epsilon=None): the model itself would give records away"
            )
        d, density = self.n_features_in_, self._density()
        terms = Terms.check(epsilon, delta, accountant, neighbours)
        high = highest(density)
        low = lowest(density) if floor is None else check_float("floor", floor, -math.inf)
        check_sizes("floor, and the largest log-density", (low, high), least=0.0)
        if not low < high:
            raise ValueError(f"floor={low:g} is not below {high:g}, the largest log-density")
        table = self._reopen(X, groups=groups, private=True)
        people = table.people
        if people.weighted:
            raise ValueError("private_score has no weights: open the rows without")
        if self.privacy_.unit == "person" and people.unit != "person":
            advise(
                "the fit hid persons, and this score hides single records: whoever has several is "
                "hidden less. Say whose they are with groups=, or score one record a person",
            )
        # There is nothing to find out about the region: the limits are the model's.
        preamble = Preamble.of(terms, people, d, Region.around_origin(1.0, d))
        plan = PrivateScorePlan(preamble, LogDensityQuery(density, low, high))
        funded, meter = fund(plan, terms)
        value, deviation = pay(funded, meter, table.source(self.n_jobs))
        public = people.public(neighbours)
        public["model"] = "a private one, whose own budget is not counted here"
        public["limits of log-densities"] = f"[{low:g}, {high:g}]"
        statement = Statement.of(meter, people.unit, neighbours, public, subject="score")
        return PrivateScore(value, statement, deviation, (low, high))
