"""A private mean of log-densities.

``private_score`` releases a count, unless it is public, and one bounded sum. A record contributes
``f(x) = clip(log p(x), low, high) - (low + high)/2``, where p, low and high are public. |f| <= w/2
with w = high - low, so adding or removing a record moves the sum by at most w/2, and replacing one
by at most w; times the cap on weights. Proof, and why the computed sum keeps to it:
``docs/proofs/score.md``.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import logsumexp
from scipy.stats import chi2
from sklearn.utils.validation import check_is_fitted

from ..blocks.region import Region
from ..blocks.robust_mean import MeanSums
from ..blocks.sensitivity import UP, capped, moved
from ..budget import Allowance, Part, Terms
from ..core import Block, Group, Release, Scratch, Stage
from ..fit import fund, pay
from ..ground import Preamble
from ..linalg import gamma
from ..models.gaussian_mixture.model import Mixture
from ..parameters import check_float, check_sizes
from ..statement import Statement
from ..tree import Array
from .base import Estimator
from .measured import Measured, say_measured
from .warnings import advise

# Far beyond any record, and still a number when whitened and squared.
_HUGE = 1e100
# How far exp and log may differ from one place in a block to another; they err by a few 2^-53.
_EXP = 2.0**-38
# Of a component's own records, those within the ellipsoid that sets the lower limit.
_INSIDE = 0.999
_LEAST_WEIGHT = 1e-3


@dataclass(frozen=True)
class LogDensityQuery:
    """Sums log-densities under ``mixture``, clipped to [low, high]; NaN counts as ``low``.

    Under a background, records are clamped to its region first.
    """

    mixture: Mixture
    low: float
    high: float
    cap_weight: float = 1.0
    block_rows: int = 4088

    def contributions(self, block: Block, scratch: Scratch) -> Array:
        """What each record of a block adds, (b,), before weights.

        Additions and products of single numbers only, no matrix products: IEEE arithmetic rounds
        each in one way, so that up to exp and log a record's value is its own, wherever in a block
        it stands.
        """
        b, rows, background = len(block.X), block.X, self.mixture.background
        count = len(self.mixture.means)
        joint = scratch.take("joint", (count + (background is not None), b))
        x, z = scratch.take("moved", block.X.T.shape), scratch.take("white", (b,))
        term = scratch.take("term", (b,))
        with np.errstate(all="ignore"):
            if background is not None:
                rows = background.clamped(rows, scratch)
                joint[count] = background.level
            for k, (mean, w) in enumerate(
                zip(self.mixture.means, self.mixture.whiteners, strict=True)
            ):
                np.subtract(rows.T, mean[:, None], out=x)
                np.clip(x, -_HUGE, _HUGE, out=x)
                joint[k] = 0.0
                for j in range(len(mean)):
                    if w.ndim == 1:
                        np.multiply(x[j], w[j], out=z)
                    else:
                        z[:] = 0.0
                        for i in np.flatnonzero(w[j]):
                            np.multiply(x[i], w[j, i], out=term)
                            z += term
                    np.multiply(z, z, out=term)
                    joint[k] += term
                joint[k] *= -0.5
                joint[k] += self.mixture.constants[k]
            top = np.fmax.reduce(joint, axis=0)
            total = np.zeros(b)
            for row in joint:
                np.subtract(row, top, out=term)
                np.exp(term, out=term)
                total += term
            value = top + np.log(total)
        # fmax: what is not a number (a missing value, no density at all) becomes the lower limit.
        value = np.minimum(np.fmax(value, self.low), self.high)
        return np.asarray(value - self.middle)

    @property
    def middle(self) -> float:
        """What contributions are taken about."""
        return self.low / 2 + self.high / 2

    def __call__(self, block: Block, scratch: Scratch) -> MeanSums:
        """Sum a block."""
        f = self.contributions(block, scratch)
        weight = capped(block.weight, self.cap_weight, len(f))
        return MeanSums(np.atleast_1d(f.sum() if weight is None else f @ weight))

    def groups(self, neighbours: str) -> list[Group]:
        """A record adds a number in [-w/2, w/2]; two of them are at most w apart."""
        bound = (self.high - self.low) / 2 * moved(neighbours, 1.0, 2.0)
        return [Group("score", slice(0, 1), bound * self.cap_weight * UP)]

    def rounding(self, rows: float) -> float:
        """Where a record stands may move its value a little; and a rounding per row of a block."""
        moved = _EXP * (1 + abs(self.low) + abs(self.high))
        half = (self.high - self.low) / 2
        return rows * self.cap_weight * (moved + gamma(self.block_rows + 32) * (half + moved))


def highest(mixture: Mixture) -> float:
    """No density is above the sum of the components' peaks, and of the background."""
    with np.errstate(divide="ignore"):
        peaks = mixture.constants
    if mixture.background is not None:
        peaks = np.append(peaks, mixture.background.level)
    return float(logsumexp(peaks))


def lowest(mixture: Mixture) -> float:
    """Below the density of all but a thousandth of the records of every component that counts.

    No density is below that of the background.
    """
    with np.errstate(divide="ignore"):
        peaks = mixture.constants
    counts = mixture.weights >= min(_LEAST_WEIGHT, float(mixture.weights.max()))
    reach = float(chi2.ppf(_INSIDE, mixture.means.shape[1]))
    low = float(np.min(peaks[counts])) - reach / 2 - math.log(2.0)
    return low if mixture.background is None else max(low, mixture.background.level)


@dataclass(frozen=True)
class PrivateScorePlan:
    """Count and sum; the mean within its limits, and the deviation of its noise."""

    preamble: Preamble
    query: LogDensityQuery

    def parts(self) -> list[Part]:
        """How the budget is shared out."""
        share = 1.0 - self.preamble.share()
        return [*self.preamble.parts(), Part("score", share, [("gaussian", 1)])]

    def stages(self, allowance: Allowance) -> Generator[Stage, Release[Any], tuple[float, float]]:
        """Generate the stages."""
        ground = yield from self.preamble.stages(allowance)
        release = yield ground.stage(self.query, "score")
        assert release.deviation is not None
        away = float(release.statistics.total[0]) / ground.count
        # To first order, of a ratio of two noisy numbers.
        count = 0.0 if self.preamble.count is not None else allowance.multiplier("count")
        deviation = math.hypot(float(release.deviation.total[0]), away * count) / ground.count
        mean = self.query.middle + away
        return float(np.clip(mean, self.query.low, self.query.high)), deviation


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

        Each record's log-density is clipped to public limits, summed, and released with noise. (A
        model with a background clamps records to its bounds first, as ``score_samples`` does.) The
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
