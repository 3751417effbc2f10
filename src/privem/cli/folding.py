"""An audit for people: releases that are alike take one line."""

from __future__ import annotations

import re

from ..audit.report import AuditReport, Finding

__all__ = ["folded"]

_FEW = 2


def folded(report: AuditReport) -> str:
    """The report as text; three or more releases that differ by their number become one line.

    Whatever failed keeps a line of its own. All of them are in the report's JSON.

    Examples
    --------
    >>> steps = [Finding(f"release EM {i} / sums", True, "", {"multiplier": i}) for i in (1, 2, 3)]
    >>> print(folded(AuditReport("m.json", steps)))
    Audit of m.json: passed (3 checks)
      ok    release EM 1 / sums to EM 3 / sums: 3 releases, multipliers 1 to 3 (each: --json)
    """
    alike: dict[str, list[Finding]] = {}
    for finding in report.findings:
        sound_release = finding.passed and "multiplier" in finding.numbers
        name = re.sub(r"\d+", "#", finding.name) if sound_release else f"{len(alike)} "
        alike.setdefault(name, []).append(finding)
    head, *_ = str(report).splitlines()
    lines = [str(line) for same in alike.values() for line in _fold(same)]
    return "\n  ".join([head, *lines])


def _fold(alike: list[Finding]) -> list[Finding]:
    if len(alike) <= _FEW:
        return alike
    multipliers = [float(finding.numbers["multiplier"]) for finding in alike]
    last = alike[-1].name.removeprefix("release ")
    between = " to ".join(dict.fromkeys(f"{f(multipliers):.6g}" for f in (min, max)))
    detail = f"{len(alike)} releases, multipliers {between} (each: --json)"
    return [Finding(f"{alike[0].name} to {last}", True, detail)]
