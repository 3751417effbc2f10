"""The audit of privem itself, which ``privem audit`` runs without arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from .fits import audit_fit, watched_fit
from .neighbours import Pair, attacks
from .recount import recount
from .releases import ReleaseAudit, audit_release, random_sum
from .report import AuditReport, Finding
from .structure import structure_checks
from .weak_points import weak_point

__all__ = ["ESTIMATORS", "self_audit", "tiny"]

# More noise hides mistakes from statistics: a generous budget is the easiest to audit.
_EPSILON = 6.0
# Sums that are themselves random are summed anew for each draw, which is this much slower.
_RANDOM_SLOWER = 20


def _mixture(**more: Any) -> Any:
    from .. import GaussianMixture

    # Not "auto", which has the sense to fit one Gaussian to data this small.
    given = {"mechanism": "whitened", **more}
    return GaussianMixture(2, n_jobs=1, random_state=0, **given)


def _clusters(**more: Any) -> Any:
    from .. import KMeans

    return KMeans(2, n_jobs=1, random_state=0, **more)


def _factors(**more: Any) -> Any:
    from .. import FactorAnalysis

    return FactorAnalysis(1, n_jobs=1, **more)


def _symmetric(**more: Any) -> Any:
    from .. import SymmetricMixture

    return SymmetricMixture(n_jobs=1, **more)


def _symmetric_regression(**more: Any) -> Any:
    from .. import SymmetricRegressionMixture

    return SymmetricRegressionMixture(n_jobs=1, **{"target_bounds": more.get("bounds"), **more})


def _regressions(**more: Any) -> Any:
    from .. import RegressionMixture

    given = {"target_bounds": more.get("bounds"), **more}
    return RegressionMixture(2, n_jobs=1, random_state=0, **given)


def _missing(**more: Any) -> Any:
    from .. import MissingCovariateRegression

    return MissingCovariateRegression(n_jobs=1, **{"target_bounds": more.get("bounds"), **more})


def _classes(**more: Any) -> Any:
    from .. import CategoricalMixture

    more.pop("bounds", None)
    return CategoricalMixture(2, categories=[0, 1], n_jobs=1, random_state=0, **more)


ESTIMATORS: dict[str, Callable[..., Any]] = {
    "GaussianMixture": partial(_mixture, n_iter=2),
    "KMeans": partial(_clusters, n_iter=2),
    "FactorAnalysis": _factors,
    "SymmetricMixture": partial(_symmetric, n_iter=2),
    "SymmetricRegressionMixture": partial(_symmetric_regression, n_iter=2),
    "RegressionMixture": partial(_regressions, n_iter=2),
    "MissingCovariateRegression": partial(_missing, n_iter=2),
    "CategoricalMixture": partial(_classes, n_iter=2),
}
# Those whose last column is a target.
_WITH_TARGET = ("SymmetricRegressionMixture", "RegressionMixture", "MissingCovariateRegression")


def tiny(name: str, **more: Any) -> Any:
    """A private estimator of that name that fits in milliseconds.

    Examples
    --------
    >>> tiny("KMeans", neighbours="replace-one").n_clusters
    2
    """
    given = {"epsilon": _EPSILON, "bounds": (-1.0, 1.0), **more}
    return ESTIMATORS[name](**given)


def _views(name: str) -> Mapping[str, Callable[[Any], float]]:
    """Numbers of a fitted model that the target record would move."""
    match name:
        case "GaussianMixture":
            return {
                "the largest weight": lambda m: float(m.weights_.max()),
                "the furthest mean": lambda m: float(m.means_.sum(axis=1).max()),
                "the density at the target": lambda m: float(
                    m.score_samples(np.ones((1, m.n_features_in_)))[0]
                ),
            }
        case "SymmetricMixture" | "SymmetricRegressionMixture":
            beta = "mean_" if name == "SymmetricMixture" else "coef_"
            return {
                "the coefficients' length": lambda m: float(np.linalg.norm(getattr(m, beta))),
                "the noise variance": lambda m: float(m.noise_variance_),
            }
        case "RegressionMixture" | "MissingCovariateRegression":
            return {
                "the coefficients' length": lambda m: float(np.linalg.norm(m.coef_)),
                "the noise variance": lambda m: float(np.max(m.noise_variance_)),
            }
        case "CategoricalMixture":
            return {
                "the smallest weight": lambda m: float(m.weights_.min()),
                "the corner's density": lambda m: float(
                    m.score_samples(np.ones((1, m.n_features_in_)))[0]
                ),
            }
        case "KMeans":
            return {"the furthest centre": lambda m: float(m.cluster_centers_.sum(axis=1).max())}
    return {
        "the mean": lambda m: float(m.mean_.sum()),
        "the noise variance": lambda m: float(m.noise_variance_.sum()),
    }


def _releases(name: str, neighbours: str, draws: int, alpha: float, d: int) -> list[Finding]:
    """Every release of a fit, on every attack; what passed is summed up in one line per release."""
    findings: list[Finding] = []
    pairs: list[Pair] = attacks(neighbours, d + (name in _WITH_TARGET))
    for bounds in ((-1.0, 1.0), None):
        estimator = tiny(name, neighbours=neighbours, bounds=bounds)
        _, transcript = watched_fit(estimator, pairs[1].data)
        for stage, _ in transcript.entries:
            query: Any = stage.query
            # Bounds are found first; what comes after them is audited with bounds given.
            if bounds is None and not hasattr(query, "view"):
                continue
            title = f"{name}, {neighbours}, {stage.name}"
            found = []
            for pair in pairs:
                slow = random_sum(query, pair.data)
                size = max(draws // _RANDOM_SLOWER, 50) if slow else draws
                one = audit_release(
                    query, stage.noise, pair.data, pair.neighbour, size, alpha=alpha, name=title
                )
                found.append((pair.name, one))
            findings += _sum_up(title, found)
    return findings


def _sum_up(title: str, found: list[tuple[str, ReleaseAudit]]) -> list[Finding]:
    wrong = [(key, audit.finding()) for key, audit in found if audit.violated]
    if wrong:
        return [Finding(f"{title}: {key}", False, f.detail, f.numbers) for key, f in wrong]
    key, worst = max(found, key=lambda item: (item[1].evidence.mu, item[1].share))
    line = worst.finding()
    detail = f"{len(found)} attacks; most from {key}: {line.detail}"
    return [Finding(title, True, detail, line.numbers)]


def self_audit(
    estimators: list[str] | None = None,
    draws: int = 5000,
    fits: int = 300,
    *,
    alpha: float = 1e-6,
    d: int = 1,
) -> AuditReport:
    """Audit the estimators on neighbouring data sets that attack weak points.

    Parameters
    ----------
    estimators : list of str, optional
        Names of estimators (``audit.battery.ESTIMATORS``); all by default.
    draws : int
        How often each release is drawn on each data set.
    fits : int
        How many whole fits to run on each data set; fewer than 300 cannot refute anything.
    alpha : float
        If privem is correct, the whole audit fails with at most this probability.
    d : int
        Number of features.

    Returns
    -------
    AuditReport

    Examples
    --------
    >>> self_audit(["FactorAnalysis"], draws=20, fits=4).passed
    True
    """
    names = list(ESTIMATORS) if estimators is None else estimators
    unknown = sorted(set(names) - set(ESTIMATORS))
    if unknown:
        raise ValueError(f"unknown estimators {unknown}; known are {sorted(ESTIMATORS)}")
    # Shared out over all statistical questions; there are fewer than this many per estimator.
    part = alpha / (len(names) * 400)
    findings: list[Finding] = []
    for name in names:
        for neighbours in ("add-remove", "replace-one"):
            where = f"{name}, {neighbours}"
            columns = d + (name in _WITH_TARGET)
            pairs = {pair.name: pair for pair in attacks(neighbours, columns, finite=True)}
            for key in ("empty component", "one person with many rows"):
                report = structure_checks(
                    tiny(name, neighbours=neighbours), pairs[key].data, alpha=part
                )
                findings += [
                    Finding(f"{where}, {key}: {f.name}", f.passed, f.detail, f.numbers)
                    for f in report.findings
                ]
            model, _ = watched_fit(
                tiny(name, neighbours=neighbours), pairs["outlier at the bound"].data
            )
            findings += [
                Finding(f"{where}: {f.name}", f.passed, f.detail, f.numbers)
                for f in recount(model.privacy_).report.findings
            ]
            findings += _releases(name, neighbours, draws, part, d)
            target = weak_point(name, neighbours)
            found = audit_fit(
                partial(tiny, name, neighbours=neighbours),
                target.data,
                target.neighbour,
                fits,
                _views(name),
                alpha=part,
                name=f"{where}, whole fits: {target.name}",
            )
            findings.append(found.finding())
    return AuditReport("the library", tuple(findings), alpha)
