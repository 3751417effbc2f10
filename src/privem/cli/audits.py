"""``privem audit`` without a model: what it is about to do, how long that takes, and doing it."""

from __future__ import annotations

from inspect import signature

from .. import audit
from ..audit import battery
from ..audit.report import AuditReport, Finding
from ..declaration import declarations
from .console import note
from .progress import FitProgress

# Of one core: most of it is 12,000 fits of some 20 milliseconds, and as many draws of releases.
_MINUTES = 10


def audit_library() -> AuditReport:
    """Audit every estimator, one after the other; the whole fails as rarely as one call would."""
    names = [each.name for each in declarations()]
    usual = {name: each.default for name, each in signature(battery.self_audit).parameters.items()}
    note(
        f"auditing {len(names)} estimators, each for adding or removing a record and for replacing "
        f"one: every release is drawn {usual['draws']:,} times and every fit run {usual['fits']} "
        "times on neighbouring data sets, all made up. Nothing is read, written or spent. It takes "
        f"about {_MINUTES} minutes on one core; privem audit MODEL checks one model in seconds"
    )
    alpha, findings = usual["alpha"], list[Finding]()
    with FitProgress(len(names), quiet=False, timed=True) as progress:
        for done, name in enumerate(names):
            progress.step(f"auditing {name}", done)
            # An audit shares alpha out over its estimators.
            findings += audit.self_audit([name], alpha=alpha / len(names)).findings
    return AuditReport("the library", tuple(findings), alpha)
