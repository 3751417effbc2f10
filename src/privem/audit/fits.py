"""Auditing whole fits: the model that comes out, and everything released on the way."""

from __future__ import annotations

import math
import warnings
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..core import Release, Stage
from ..estimator.verbose import watching
from ..linalg import ravel
from .curves import Claim, dearest_cell, mu_at
from .evidence import Evidence, judge
from .neighbours import Dataset
from .releases import Layout, exact_sum, log_ratio, random_sum
from .report import Finding


class Transcript:
    """Keeps every stage with its release: everything an adversary sees.

    Examples
    --------
    >>> from privem import KMeans
    >>> from privem.estimator.verbose import watching
    >>> model, transcript = KMeans(2, bounds=(-1, 1), n_iter=2), Transcript()
    >>> with watching(model, transcript):
    ...     _ = model.fit(np.linspace(-1, 1, 40)[:, None])
    >>> names = [stage.name for stage, release in transcript.entries]
    >>> names == [record.name for record in model.privacy_.releases]
    True
    """

    def __init__(self) -> None:
        self.entries: list[tuple[Stage, Release[Any]]] = []

    def __call__(self, stage: Stage, release: Release[Any]) -> None:
        """Keep one."""
        self.entries.append((stage, release))


def watched_fit(estimator: Any, data: Dataset) -> tuple[Any, Transcript]:
    """Fit an estimator and keep what it released."""
    transcript = Transcript()
    with watching(estimator, transcript), warnings.catch_warnings():
        # Tiny data make tiny models: advice on them is not what an audit is for.
        warnings.simplefilter("ignore", UserWarning)
        return data.fit(estimator), transcript


@dataclass(frozen=True)
class FitAudit:
    """What an audit of whole fits proved, with so many ``fits`` on each data set.

    ``share`` is how much of the claim this pair of data sets uses: the distance of the two data
    sets' sums over all Gaussian releases of a fit, in deviations of their noise, over the mu
    claimed; root mean square over fits. Far below one, little could have been found. (Sums that
    are themselves random do not count, here or in the likelihood ratio.)

    Examples
    --------
    >>> from privem import FactorAnalysis
    >>> make = lambda: FactorAnalysis(1, epsilon=4.0, bounds=(-1, 1))
    >>> X = np.linspace(-1, 1, 20)[:, None]
    >>> audit = audit_fit(make, X, X[:-1], fits=4, name="a record at the edge")
    >>> audit.fits, audit.finding().passed
    (4, True)
    """

    name: str
    evidence: Evidence
    fits: int
    share: float = math.nan

    @property
    def violated(self) -> bool:
        """Whether the statement is refuted."""
        return self.evidence.violated

    def finding(self) -> Finding:
        """As a line of a report."""
        found = f"{self.fits} fits on each data set: "
        return self.evidence.finding(self.name, found, "fits", self.share, fits=self.fits)


def transcript_ratio(
    transcript: Transcript, data: Dataset, neighbour: Dataset
) -> tuple[float, float]:
    """Log-likelihood ratio of everything a fit released, between two data sets; and mu^2.

    The latter is how far apart the two data sets' sums lie, in deviations of the Gaussian noise.

    Every query is public once the releases before it are, so both data sets' sums for it are known
    to whoever holds them: no statistic of the model tells more. Sums that are themselves random
    have no one value and are left out.
    """
    total = moved = 0.0
    for stage, release in transcript.entries:
        query: Any = stage.query
        if random_sum(query, data) or random_sum(query, neighbour) or not release.spent:
            continue
        a, b = (ravel(exact_sum(query, side)) for side in (data, neighbour))
        at = Layout(query, stage.noise, release.spent, a.size)
        x = ravel(release.statistics)[None]
        total += float(log_ratio(at.laplace, at.scale, x, a, b)[0])
        with np.errstate(all="ignore"):
            moved += float(np.sum((1 - at.laplace) * ((a - b) / at.scale) ** 2))
    return total, moved


def statement_claim(statements: list[Any], epsilon: float, delta: float) -> Claim:
    """What the statements of many fits claim together.

    Plans may adapt to their releases, so one fit's noise binds another only where all had the same;
    otherwise what binds all of them is the advertised budget.
    """
    claims = [
        Claim.of(dearest_cell(group for record in s.releases for group in record.groups))
        for s in statements
    ]
    mus = [claim.mu for claim in claims]
    failure = max(s.failure + claim.failure for s, claim in zip(statements, claims, strict=True))
    top = claims[int(np.argmax(mus))]
    if max(mus) - min(mus) > 1e-3 * max(mus):
        gaussian = all(claim.pure == 0 for claim in claims)
        mu = mu_at(epsilon, delta) if gaussian else math.inf
        top = Claim(max(mu, top.mu), max(claim.pure for claim in claims), top.drift)
    return replace(top, failure=min(1.0, failure), epsilon=epsilon, delta=delta)


def audit_fit(
    make_estimator: Callable[[], Any],
    data: Any,
    neighbour: Any,
    fits: int = 1000,
    statistic: Callable[[Any], float] | Mapping[str, Callable[[Any], float]] | None = None,
    *,
    transcript: bool = True,
    alpha: float = 1e-6,
    name: str = "fit",
) -> FitAudit:
    """Fit many times on two neighbouring data sets and test what the statements claim.

    Parameters
    ----------
    make_estimator : callable
        Gives a fresh private estimator.
    data, neighbour : array of shape (n, d) or Dataset
        Neighbours in the sense of the estimator.
    fits : int
        How many fits to run on each data set.
    statistic : callable or mapping of callables, optional
        Numbers of the fitted model, such as ``lambda m: m.weights_[0]`` or the density at the
        target. The best one is chosen on half of the fits.
    transcript : bool
        Also use the likelihood ratio of everything released: the strongest adversary.
    alpha : float
        A correct estimator fails with at most this probability.

    Examples
    --------
    >>> import numpy as np
    >>> from privem import FactorAnalysis
    >>> make = lambda: FactorAnalysis(1, epsilon=4.0, bounds=(-1, 1))
    >>> X = np.linspace(-1, 1, 20)[:, None]
    >>> audit_fit(make, X, X[:-1], fits=10, statistic=lambda m: m.mean_[0]).violated
    False
    """
    pair = (Dataset.of(data), Dataset.of(neighbour))
    views = statistic or {}
    if not isinstance(views, Mapping):
        views = {"the statistic": views}
    if not views and not transcript:
        raise ValueError("give a statistic, or leave transcript=True: there is nothing to look at")
    samples: dict[str, tuple[list[float], list[float]]] = defaultdict(lambda: ([], []))
    statements: list[Any] = []
    moved: list[float] = []
    for number, side in enumerate(pair):
        for _ in range(fits):
            model, released = watched_fit(make_estimator(), side)
            statements.append(model.privacy_)
            for key, view in views.items():
                samples[key][number].append(float(view(model)))
            if transcript:
                ratio, apart = transcript_ratio(released, *pair)
                moved.append(apart)
                samples["the likelihood ratio of all releases"][number].append(ratio)
    epsilon, delta = statements[0].epsilon, statements[0].delta
    claim = statement_claim(statements, epsilon, delta)
    gaussian = moved and claim.mu > 0
    share = math.sqrt(np.mean(moved)) / claim.mu if gaussian else math.nan
    return FitAudit(name, judge(samples, claim, delta, alpha), fits, share)
