"""The audit of privem itself, which ``privem audit`` runs without arguments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from inspect import signature
from typing import Any

import numpy as np

from ..declaration import declarations, declared
from .fits import FitAudit, audit_fit, watched_fit
from .neighbours import SAMPLES, Dataset, Pair, attacks, weak_point
from .recount import recount
from .releases import ReleaseAudit, audit_release, random_sum
from .report import AuditReport, Finding
from .structure import structure_checks

# Sums that are themselves random are summed anew for each draw, which is this much slower.
_RANDOM_SLOWER = 20
# How often records are repeated where bounds have to be found: of single releases, and of fits.
_TIMES, _AMONG = 200, 80
_BOUNDS = (-1.0, 1.0)


def tiny(name: str, **more: Any) -> Any:
    """A private estimator of that name that fits in milliseconds.

    More noise hides mistakes from statistics: a generous budget is the easiest to audit.

    Examples
    --------
    >>> tiny("KMeans", neighbours="replace-one").n_clusters
    2
    """
    model = declared(name)
    usual: dict[str, Any] = {"epsilon": 6.0, "n_iter": 2, "n_jobs": 1, "random_state": 0}
    usual |= {"bounds": _BOUNDS, "target_bounds": more.get("bounds", _BOUNDS), str(model.count): 2}
    known = signature(model.estimator).parameters
    given = {key: value for key, value in usual.items() if key in known}
    return model.estimator(**{**given, **model.audit_case(SAMPLES).arguments, **more})


def views(model: Any, target: Any) -> dict[str, Callable[[Any], float]]:
    """Numbers of fitted models like this one that the target record would move."""

    def length(name: str, fitted: Any) -> float:
        return float(np.linalg.norm(getattr(fitted, name)))

    found: dict[str, Callable[[Any], float]] = {
        f"the length of {name}": partial(length, name)
        for name, value in vars(model).items()
        if name.endswith("_") and np.asarray(value).dtype == np.float64
    }
    if hasattr(model, "score_samples") and model.n_features_in_ == len(target):
        found["the density at the target"] = lambda fitted: float(fitted.score_samples([target])[0])
    return found


def audit_model(
    name: str,
    fits: int,
    neighbours: str = "add-remove",
    rows: int = 1,
    *,
    alpha: float = 1e-6,
    **more: Any,
) -> FitAudit:
    """Audit whole fits of a model where they are weakest (:func:`weak_point`).

    ``fits``: on each data set; ``more``: arguments of the estimator. With ``bounds=None`` both data
    sets have many records besides: bounds are not found of few.
    """
    pair = weak_point(name, neighbours, rows)
    if more.get("bounds", _BOUNDS) is None:
        pair = pair.among(_AMONG)
    make = partial(tiny, name, neighbours=neighbours, **more)
    one, _ = watched_fit(make(), pair.data)
    looks = views(one, declared(name).audit_case(SAMPLES).target)
    title = f"{name}, {neighbours}, whole fits: {pair.name}"
    return audit_fit(make, pair.data, pair.neighbour, fits, looks, alpha=alpha, name=title)


def _releases(name: str, neighbours: str, draws: int, alpha: float, d: int) -> list[Finding]:
    """Every release of a fit, on every attack; what passed is summed up in one line per release.

    Also on the model's weak point, which may have more columns, and so other questions.
    """
    findings: list[Finding] = []
    pairs, weak = attacks(neighbours, d + declared(name).target), weak_point(name, neighbours)
    # Bounds are found of many records only; their queries are audited on few, as all are.
    many = Dataset(np.tile(pairs[1].data.X, (_TIMES, 1)))
    cases: list[tuple[Dataset, list[Pair], dict[str, Any]]] = [
        (pairs[1].data, pairs, {}),
        (weak.data, [weak], {}),
    ]
    if not (declared(name).categories or declared(name).schema):
        cases.append((many, pairs, {"bounds": None}))
    for data, pairs, more in cases:
        _, transcript = watched_fit(tiny(name, neighbours=neighbours, **more), data)
        for stage, _ in transcript.entries:
            query: Any = stage.query
            # Bounds are found first; what comes after them is audited with bounds given.
            if more and not hasattr(query, "view"):
                continue
            title = f"{name}, {neighbours}, {stage.name}"
            found = {}
            for pair in pairs:
                slow = random_sum(query, pair.data)
                size = max(draws // _RANDOM_SLOWER, 50) if slow else draws
                found[pair.name] = audit_release(
                    query, stage.noise, pair.data, pair.neighbour, size, alpha=alpha, name=title
                )
            findings += _sum_up(title, found)
    return findings


def _sum_up(title: str, found: dict[str, ReleaseAudit]) -> list[Finding]:
    wrong = [
        replace(audit.finding(), name=f"{title}: {key}")
        for key, audit in found.items()
        if audit.violated
    ]
    if wrong:
        return wrong
    key = max(found, key=lambda key: (found[key].evidence.mu, found[key].share))
    line = found[key].finding()
    return [replace(line, detail=f"{len(found)} attacks; most from {key}: {line.detail}")]


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
        Names of estimators; all by default.
    draws : int
        How often each release is drawn on each data set.
    fits : int
        How many whole fits to run on each data set; fewer than 300 cannot refute anything.
    alpha : float
        If privem is correct, the whole audit fails with at most this probability.
    d : int
        Number of features.

    Examples
    --------
    >>> self_audit(["FactorAnalysis"], draws=20, fits=4).passed
    True
    """
    known = [each.name for each in declarations()]
    names = known if estimators is None else estimators
    if unknown := sorted(set(names) - set(known)):
        raise ValueError(f"unknown estimators {unknown}; known are {sorted(known)}")
    # Shared out over all statistical questions; there are fewer than this many per estimator.
    part = alpha / (len(names) * 400)
    findings: list[Finding] = []
    for name in names:
        for neighbours in ("add-remove", "replace-one"):
            where, make = f"{name}, {neighbours}", partial(tiny, name, neighbours=neighbours)
            columns = d + declared(name).target
            pairs = {pair.name: pair for pair in attacks(neighbours, columns, finite=True)}
            for key in ("empty component", "one person with many rows"):
                report = structure_checks(make(), pairs[key].data, alpha=part)
                findings += [replace(f, name=f"{where}, {key}: {f.name}") for f in report.findings]
            model, _ = watched_fit(make(), pairs["outlier at the bound"].data)
            recounted = recount(model.privacy_).report.findings
            findings += [replace(f, name=f"{where}: {f.name}") for f in recounted]
            findings += _releases(name, neighbours, draws, part, d)
            findings.append(audit_model(name, fits, neighbours, alpha=part).finding())
    return AuditReport("the library", tuple(findings), alpha)
