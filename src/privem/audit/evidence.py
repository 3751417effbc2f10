"""What two samples of outputs prove about the mechanism that made them.

An event is chosen on one half of the samples; on the other half, which knows nothing of the choice,
its probabilities are bounded by Clopper and Pearson's exact limits. Only what holds at the worst
end of both intervals counts as evidence. So whatever statistics and thresholds were tried, a
correct mechanism fails with probability at most ``alpha``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.special import betaincinv, ndtri

from ..linalg import Array
from .curves import Claim
from .report import Finding

# Thresholds tried per statistic.
_THRESHOLDS = 300


@dataclass(frozen=True)
class Evidence:
    """What is proved, at false-alarm rate ``alpha``.

    Parameters
    ----------
    mu, epsilon : float
        The mechanism has at least this mu, and at least this epsilon at ``delta``.
    claimed_mu, claimed_epsilon : float
        What was claimed; ``claimed_mu`` is of the Gaussian noise alone.
    violated : bool
        Whether the claim is refuted.
    event : str
        A description of the decisive event.
    low, high : float
        Its probability is at least ``low`` on one data set and at most ``high`` on the other;
        ``most`` is what the claim allows there.
    reach : float
        The largest mu that this number of draws could prove. If it is below the claim, passing
        means nothing: take more draws.

    Examples
    --------
    Ten draws on each data set cannot prove anything about a claim of mu = 1:

    >>> rng = np.random.default_rng(0)
    >>> few = judge({"x": (rng.normal(1, 1, 10), rng.normal(0, 1, 10))}, Claim(mu=1.0))
    >>> few.violated, few.reach < few.claimed_mu
    (False, True)
    """

    violated: bool
    mu: float
    epsilon: float
    delta: float
    claimed_mu: float
    claimed_epsilon: float
    event: str
    low: float
    high: float
    most: float
    reach: float
    alpha: float
    draws: int

    def finding(self, name: str, found: str, tries: str, share: float, **more: Any) -> Finding:
        """As a line of a report.

        ``found``: how it begins; ``tries``: what there may have been too few of; ``share``: how
        much of what was charged the sums moved by, if that is known; ``more``: other numbers.
        """
        detail = (
            f"{found}mu >= {self.mu:.3f} of {self.claimed_mu:.3f} claimed, epsilon >= "
            f"{self.epsilon:.3f} of {self.claimed_epsilon:.3f} at delta {self.delta:g}"
        )
        if self.reach < self.claimed_mu:
            detail += f" (too few {tries}: they could show no more than mu = {self.reach:.3f})"
        if math.isfinite(share):
            detail += f"; sums moved {share:.1%} of what was charged"
        if self.violated:
            detail += f" ({self.event}: at least {self.low:.3g}, at most {self.most:.3g} claimed)"
        return Finding(name, not self.violated, detail, asdict(self) | more)


def clopper_pearson(hits: Any, trials: int, alpha: float) -> tuple[Array, Array]:
    """One-sided lower and upper confidence limits of a probability, each wrong w.p. <= alpha.

    Examples
    --------
    >>> low, high = clopper_pearson(0, 100, 0.05)
    >>> float(low), round(float(high), 4)
    (0.0, 0.0295)
    """
    hits = np.asarray(hits, dtype=np.float64)

    def lower(k: Array) -> Array:
        return np.where(k > 0, betaincinv(np.maximum(k, 1), trials - k + 1, alpha), 0.0)

    return lower(hits), 1.0 - lower(trials - hits)


@dataclass(frozen=True)
class _Event:
    """``statistic >= threshold`` (or ``==``), and which data set it is likelier on."""

    statistic: str
    threshold: float
    equal: bool
    swapped: bool

    def hits(self, samples: tuple[Array, Array]) -> tuple[int, int]:
        """How often it happened: on the likelier side, on the other."""
        found = [
            np.count_nonzero(s == self.threshold if self.equal else s >= self.threshold)
            for s in (reversed(samples) if self.swapped else samples)
        ]
        return int(found[0]), int(found[1])

    def __str__(self) -> str:
        sign = "equals" if self.equal else "is at least"
        return f"{self.statistic} {sign} {self.threshold:.6g}"


def _certain_epsilon(low: Array, high: Array, delta: float) -> Array:
    """Epsilon that an event with these probabilities, or its complement, proves at delta."""
    with np.errstate(divide="ignore", invalid="ignore"):
        one = np.log(np.maximum(low - delta, 0.0)) - np.log(high)
        other = np.log(np.maximum(1 - high - delta, 0.0)) - np.log1p(-low)
    best: Array = np.fmax(np.fmax(one, other), -np.inf)
    return best


def _certain_mu(low: Array, high: Array) -> Array:
    with np.errstate(invalid="ignore"):
        return np.asarray(np.nan_to_num(ndtri(low) - ndtri(high), nan=-np.inf))


def _extremes(trials: Any, part: float) -> tuple[Array, Array]:
    """Limits of an event that always happens on one data set and never on the other."""
    low = clopper_pearson(trials[0], int(trials[0]), part)[0]
    return low, clopper_pearson(0, int(trials[1]), part)[1]


def _excess(low: Array, high: Array, claim: Claim) -> Array:
    """How far beyond the claim, in standard deviations of a Gaussian test; positive refutes it."""
    # The claim binds the complement of an event as well, from the other side.
    both = ((low, high), (1 - high, 1 - low))
    with np.errstate(invalid="ignore"):
        gaps = [ndtri(one) - ndtri(claim.most(other)) for one, other in both]
    # Where both are infinite, the event is as likely as the claim allows: no evidence.
    return np.asarray(np.max([np.where(np.isnan(gap), -np.inf, gap) for gap in gaps], axis=0))


def _candidates(
    samples: Mapping[str, tuple[Array, Array]], claim: Claim, delta: float, part: float
) -> Iterator[tuple[float, float, _Event]]:
    """Events, with the evidence they would be against the claim and for a large epsilon."""
    for name, sides in samples.items():
        pair = [np.sort(side) for side in sides]
        pooled = np.sort(np.concatenate(pair))
        marks = np.unique(pooled[np.linspace(0, len(pooled) - 1, _THRESHOLDS).astype(int)])
        # An output without noise is an atom; its value alone gives the data away.
        atoms = np.unique([_commonest(side) for side in pair])
        hits = [
            np.concatenate(
                [
                    len(side) - np.searchsorted(side, marks, "left"),
                    np.searchsorted(side, atoms, "right") - np.searchsorted(side, atoms, "left"),
                ]
            )
            for side in pair
        ]
        limits = [clopper_pearson(k, len(side), part) for k, side in zip(hits, pair, strict=True)]
        thresholds = np.concatenate([marks, atoms])
        for swapped in (False, True):
            low, high = limits[int(swapped)][0], limits[1 - int(swapped)][1]
            excess, certain = _excess(low, high, claim), _certain_epsilon(low, high, delta)
            for i in (int(np.argmax(excess)), int(np.argmax(certain))):
                event = _Event(name, float(thresholds[i]), i >= len(marks), swapped)
                yield float(excess[i]), float(certain[i]), event


def _commonest(ordered: Array) -> float:
    values, counts = np.unique(ordered, return_counts=True)
    return float(values[counts.argmax()])


def _clean(values: Any) -> Array:
    array = np.asarray(values, dtype=np.float64).ravel()
    # NaN is an output like any other: give it a place of its own at the far end.
    return np.where(np.isnan(array), -np.inf, array)


def judge(
    samples: Mapping[str, tuple[Any, Any]], claim: Claim, delta: float = 1e-6, alpha: float = 1e-6
) -> Evidence:
    """Weigh samples of scalar statistics on two neighbouring data sets against a claim.

    Parameters
    ----------
    samples : mapping of str to (array, array)
        Independent draws of each statistic on the data set and on its neighbour. Statistics of the
        same draw may depend on each other in any way.
    claim : Claim
    delta : float
        Epsilon is reported at this delta.
    alpha : float
        A correct mechanism fails with at most this probability.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> outputs = {"x": (rng.normal(2, 1, 4000), rng.normal(0, 1, 4000))}
    >>> found = judge(outputs, Claim(mu=1.0))
    >>> found.violated, 1.6 < found.mu < 2.0
    (True, True)
    >>> judge(outputs, Claim(mu=2.0)).violated
    False
    """
    halves: list[dict[str, tuple[Array, Array]]] = [{}, {}]
    trials = np.zeros((2, 2), dtype=np.int64)
    for name, pair in samples.items():
        (one, mine), (two, other) = (np.split(_clean(s), [np.size(s) // 2]) for s in pair)
        halves[0][name], halves[1][name] = (one, two), (mine, other)
        trials = np.array([[len(one), len(two)], [len(mine), len(other)]])
    if trials.min() < 1:
        raise ValueError("an audit needs at least two draws on each data set")
    # Two events are put to the test, each with two limits that may fail.
    part = alpha / 4
    found = list(_candidates(halves[0], claim, delta, part))
    best = [max(found, key=lambda f: f[0])[2], max(found, key=lambda f: f[1])[2]]
    low, high = np.empty(2), np.empty(2)
    for i, event in enumerate(best):
        sizes = trials[1, ::-1] if event.swapped else trials[1]
        hits = event.hits(halves[1][event.statistic])
        low[i] = clopper_pearson(hits[0], int(sizes[0]), part)[0]
        high[i] = clopper_pearson(hits[1], int(sizes[1]), part)[1]
    excess = _excess(low, high, claim)
    epsilons = _certain_epsilon(low, high, delta)
    claimed = claim.epsilon_at(delta)
    chosen = 0 if excess[0] > 0 or not epsilons[1] > claimed else 1
    return Evidence(
        violated=bool(excess.max() > 0 or epsilons.max() > claimed),
        mu=max(0.0, float(_certain_mu(low, high).max())),
        epsilon=max(0.0, float(epsilons.max())),
        delta=delta,
        claimed_mu=claim.mu,
        claimed_epsilon=claimed,
        event=str(best[chosen]),
        low=float(low[chosen]),
        high=float(high[chosen]),
        most=float(claim.most(high[chosen])),
        reach=float(_certain_mu(*_extremes(trials[1], part))),
        alpha=alpha,
        draws=int(trials.sum()),
    )
