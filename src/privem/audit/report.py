"""The findings of an audit: one line per check, in words and in numbers."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Finding:
    """One question of an audit and its answer.

    Examples
    --------
    >>> print(Finding("lattice", True, "5 releases are multiples of their grids"))
    ok    lattice: 5 releases are multiples of their grids
    """

    name: str
    passed: bool
    detail: str
    numbers: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{'ok   ' if self.passed else 'FAIL '} {self.name}: {self.detail}"

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON values."""
        return {
            "name": self.name,
            "passed": self.passed,
            "detail": self.detail,
            "numbers": _plain(dict(self.numbers)),
        }


@dataclass(frozen=True)
class AuditReport:
    """All findings of an audit.

    A correct mechanism fails any of them with at most probability ``alpha``; 0: never.

    Examples
    --------
    >>> report = AuditReport("model.json", (Finding("grid", False, "0.3 is no power of two"),))
    >>> print(report)
    Audit of model.json: FAILED (1 of 1 checks)
      FAIL  grid: 0.3 is no power of two
    >>> report.to_dict()["passed"]
    False
    """

    title: str
    findings: Sequence[Finding]
    alpha: float = 0.0

    @property
    def passed(self) -> bool:
        """Whether nothing was found wrong."""
        return all(finding.passed for finding in self.findings)

    @property
    def failures(self) -> list[Finding]:
        """What was found wrong."""
        return [finding for finding in self.findings if not finding.passed]

    def __str__(self) -> str:
        wrong, asked = len(self.failures), len(self.findings)
        verdict = f"FAILED ({wrong} of {asked} checks)" if wrong else f"passed ({asked} checks)"
        sure = f"; false-alarm rate at most {self.alpha:g}" if self.alpha else ""
        lines = [f"Audit of {self.title}: {verdict}{sure}"]
        return "\n  ".join([*lines, *map(str, self.findings)])

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON values."""
        return {
            "title": self.title,
            "passed": self.passed,
            "alpha": self.alpha,
            "findings": [finding.to_dict() for finding in self.findings],
        }

    def to_json(self) -> str:
        """As JSON text."""
        return json.dumps(self.to_dict(), indent=1, allow_nan=False)


def _plain(value: Any) -> Any:
    """JSON has no infinities and knows no NumPy."""
    match value:
        case Mapping():
            return {str(key): _plain(item) for key, item in value.items()}
        case list() | tuple():
            return [_plain(item) for item in value]
        case None | bool() | int() | str():
            return value
        case _ if hasattr(value, "item"):
            return _plain(value.item())
        case float():
            return value if math.isfinite(value) else str(value)
    return str(value)
