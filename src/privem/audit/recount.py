"""Epsilon from a saved statement alone, independent of the code that calibrated the noise."""

from __future__ import annotations

import json
import math
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from ..core import Spent
from .curves import Claim, dearest_cell, epsilon_at, multiplier
from .report import AuditReport, Finding

_LEAST_STEPS = 2**24
# The closed form is exact to rounding. Where Laplace noise is mixed in, dp_accounting's grid of
# privacy losses is an upper bound that lies a little above the truth.
_CLOSE, _GRID = 1e-6, 2e-3


@dataclass(frozen=True)
class Recount:
    """Epsilon computed again, and whether the statement is consistent.

    ``closed`` is by the closed Gaussian formula (``None`` where there is Laplace noise),
    ``library`` by dp_accounting's privacy loss distributions.

    Examples
    --------
    >>> import numpy as np
    >>> from privem import KMeans
    >>> X = np.linspace(-1, 1, 40)[:, None]
    >>> found = recount(KMeans(2, epsilon=0.5, bounds=(-1, 1)).fit(X).privacy_)
    >>> found.passed, found.recounted <= 0.5
    (True, True)
    """

    epsilon: float
    delta: float
    spent: float
    mu: float
    closed: float | None
    library: float
    report: AuditReport

    @property
    def recounted(self) -> float:
        """The tightest epsilon found."""
        return self.library if self.closed is None else self.closed

    @property
    def passed(self) -> bool:
        """Whether the statement's epsilon covers what it lists."""
        return self.report.passed

    def __str__(self) -> str:
        return str(self.report)

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON values."""
        return self.report.to_dict()


def recount(statement: Any, title: str = "the statement") -> Recount:
    """Compute epsilon again from what a statement lists, independently of the accountants.

    Parameters
    ----------
    statement : Statement or dict
        The statement, or its :meth:`privem.meter.Statement.to_dict`.

    Examples
    --------
    >>> from privem.core import Spent
    >>> from privem.meter import ReleaseRecord, Statement
    >>> group = Spent("count", "gaussian", 1, 1.0, 0.0, 2.0**-21, 2**24)
    >>> record = ReleaseRecord("count", (group,))
    >>> found = recount(Statement(0.6, 1e-6, 0.56, "record", "add-remove", "auto", (record,)))
    >>> found.passed, round(found.recounted, 3)
    (True, 0.504)
    >>> recount(Statement(0.5, 1e-6, 0.5, "record", "add-remove", "auto", (record,))).passed
    False
    """
    values: Mapping[str, Any] = statement if isinstance(statement, Mapping) else statement.to_dict()
    named = list(_groups(values))
    groups = dearest_cell(group for _, group in named)
    claimed, delta = float(values["epsilon"]), float(values["delta"])
    spent, failure = float(values["spent"]), _failure(values)
    findings = [_terms(values), *(_sound(name, group) for name, group in named)]
    claim = Claim.of(groups)
    left = delta - failure
    closed = epsilon_at(claim.mu, left, claim.drift) if claim.pure == 0 and left > 0 else None
    if delta == 0 and claim.mu == 0:
        closed = claim.pure  # pure releases add up
    library = _library(groups, claim.mu, left)
    best = library if closed is None else closed
    room = _GRID if closed is None else _CLOSE
    for what, promised in (("epsilon", claimed), ("what it says was spent", spent)):
        findings.append(
            Finding(
                f"recount against {what}",
                best <= promised * (1 + room),
                f"{best:.6g} recounted, {promised:.6g} stated, at delta {delta:g}",
                {"recounted": best, "stated": promised, "mu": claim.mu},
            )
        )
    if closed is not None and math.isfinite(library):
        findings.append(
            Finding(
                "two ways of counting",
                abs(library - closed) <= 1e-2 * closed + 1e-4,
                f"{closed:.6g} by the closed form, {library:.6g} by dp_accounting",
                {"closed": closed, "library": library},
            )
        )
    return Recount(claimed, delta, spent, claim.mu, closed, library, AuditReport(title, findings))


def _groups(values: Mapping[str, Any]) -> Iterator[tuple[str, Spent]]:
    for record in values["releases"]:
        for group in record["groups"]:
            made: Any = SimpleNamespace(**group)
            yield f"{record['name']} / {group['name']}", made


def _failure(values: Mapping[str, Any]) -> float:
    """What of delta is set aside: for the number of records, and for thresholds."""
    thresholds = [getattr(group, "failure", 0.0) for _, group in _groups(values)]
    return float(values.get("failure", 0.0)) + math.fsum(thresholds)


def _terms(values: Mapping[str, Any]) -> Finding:
    epsilon, delta = float(values["epsilon"]), float(values["delta"])
    failure = _failure(values)
    unit, neighbours = values["unit"], values["neighbours"]
    expected = {
        f"epsilon is {epsilon}": math.isfinite(epsilon) and epsilon > 0,
        f"delta is {delta}": 0 <= delta < 1,
        f"{failure} of delta {delta} is set aside": 0 <= failure < delta or failure == delta == 0,
        f"unit is {unit!r}": unit in ("record", "person"),
        f"neighbours is {neighbours!r}": neighbours in ("add-remove", "replace-one"),
        "no release is listed": bool(values["releases"]),
    }
    wrong = [complaint for complaint, good in expected.items() if not good]
    return Finding("terms", not wrong, "; ".join(wrong) or f"({epsilon:g}, {delta:g}) makes sense")


def _sound(name: str, group: Spent) -> Finding:
    """Whether one group's numbers can be those of a release."""
    power = math.isfinite(group.grid) and group.grid > 0 and math.frexp(group.grid)[0] == 0.5
    expected = {
        f"kind is {group.kind!r}": group.kind in ("gaussian", "laplace"),
        f"dimension is {group.dimension}": group.dimension >= 1,
        f"sensitivity is {group.sensitivity}": 0 < group.sensitivity < math.inf,
        f"slack is {group.slack}": 0 <= group.slack < math.inf,
        f"grid {group.grid} is no power of two": power,
        f"steps are {group.steps}, below 2^24": group.steps >= _LEAST_STEPS,
        f"steps are {group.steps}, no whole number": group.steps == int(group.steps),
    }
    wrong = [complaint for complaint, good in expected.items() if not good]
    if wrong:
        return Finding(f"release {name}", False, "; ".join(wrong))
    size, noise = multiplier(group), group.steps * group.grid
    wider = noise / size / group.sensitivity - 1
    detail = (
        f"{group.dimension} numbers, sensitivity {group.sensitivity:.6g} (+{wider:.2g} for "
        f"rounding), noise {noise:.6g}, multiplier {size:.6g}"
    )
    return Finding(f"release {name}", True, detail, {"multiplier": size})


def _library(groups: list[Spent], mu: float, delta: float) -> float:
    """Epsilon by dp_accounting's privacy loss distributions.

    A Gaussian of the composed mu and, per Laplace release, the worst mechanism of its epsilon;
    discreteness, below 1e-25, is left to the closed form.
    """
    if any(g.kind not in ("gaussian", "laplace") or multiplier(g) <= 0 for g in groups):
        return math.inf
    pure = Counter(1 / multiplier(group) for group in groups if group.kind == "laplace")
    spread = math.sqrt(mu * mu + sum(count * e * e for e, count in pure.items()))
    # Beyond these the library's grid would not fit memory; the closed form stands alone there.
    if delta <= 0 or not 1e-6 < spread < 40:
        return math.inf
    from dp_accounting.pld import common
    from dp_accounting.pld import privacy_loss_distribution as library

    interval = min(1e-3, spread / 2000)
    cells = {"value_discretization_interval": interval}
    parts = [library.from_gaussian_mechanism(1 / mu, **cells)] if mu > 0 else []
    for epsilon, count in pure.items():
        worst = common.DifferentialPrivacyParameters(epsilon, 0.0)
        parts.append(library.from_privacy_parameters(worst, **cells).self_compose(count))
    total = reduce(lambda one, other: one.compose(other), parts)
    return float(total.get_epsilon_for_delta(delta))


def audit_model_file(path: str | os.PathLike[str]) -> AuditReport:
    """Recount the statement in a saved model: what ``privem audit model.json`` does.

    Reads the file as plain JSON; nothing of the model is loaded. Parameters that were asked for
    must agree with what the statement promises.

    Raises
    ------
    ValueError
        If the file is not JSON.

    Examples
    --------
    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "model.json")
    >>> with open(path, "w") as file:
    ...     _ = file.write('{"format": "privem-model", "parameters": {"epsilon": null}}')
    >>> print(audit_model_file(path))  # doctest: +ELLIPSIS
    Audit of ...model.json: FAILED (1 of 1 checks)
      FAIL  statement: none in this file: the model was fitted without privacy (epsilon=None)
    """
    title = os.fspath(path)
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ValueError(f"{title!r} is not a saved model: not valid JSON ({error})") from None
    parameters = content.get("parameters", {}) if isinstance(content, dict) else {}
    statement = _find(content)
    if statement is None:
        exact = isinstance(parameters, dict) and parameters.get("epsilon", 0) is None
        why = "the model was fitted without privacy (epsilon=None)" if exact else "nothing to check"
        return AuditReport(title, (Finding("statement", False, f"none in this file: {why}"),))
    try:
        found = recount(statement, title)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        broken = Finding("statement", False, f"damaged: {type(error).__name__}: {error}")
        return AuditReport(title, (broken,))
    asked = [
        Finding(
            f"parameter {name}",
            parameters[name] == statement[name],
            f"{parameters[name]} asked for, {statement[name]} in the statement",
        )
        for name in ("epsilon", "delta", "neighbours")
        # Local privacy hides any change of a record, whichever relation was asked for.
        if name in parameters and (name != "neighbours" or statement.get("trust") != "local")
    ]
    return AuditReport(title, (*found.report.findings, *asked))


def _find(content: Any) -> dict[str, Any] | None:
    """The statement, wherever it is in the file."""
    if isinstance(content, dict):
        if {"epsilon", "delta", "releases", "neighbours"} <= content.keys():
            return content
        for value in content.values():
            found = _find(value)
            if found is not None:
                return found
    return None
