"""Reports, attacks, and the whole battery, small."""

import json

import numpy as np
import pytest

from privem.audit import AuditReport, Finding, attacks, self_audit


def test_reports_say_and_save():
    findings = (
        Finding("one", True, "fine", {"mu": np.float64(0.5), "none": None}),
        Finding("two", False, "broken", {"epsilon": float("inf"), "moved": (("a", 1.0, 2.0),)}),
    )
    report = AuditReport("a thing", findings, 1e-6)
    assert "FAILED (1 of 2 checks); false-alarm rate at most 1e-06" in str(report)
    saved = json.loads(report.to_json())
    assert saved["findings"][1]["numbers"] == {"epsilon": "inf", "moved": [["a", 1.0, 2.0]]}
    assert not saved["passed"]
    assert (
        str(AuditReport("it", findings[:1])) == "Audit of it: passed (1 checks)\n  ok    one: fine"
    )


@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
@pytest.mark.parametrize("d", [1, 3])
def test_attacks_are_neighbours(neighbours, d):
    for pair in attacks(neighbours, d):
        people = []
        for side in (pair.data, pair.neighbour):
            who = np.arange(len(side.X)) if side.groups is None else side.groups
            rows = {tuple(x) for x in np.column_stack([who, np.nan_to_num(side.X)])}
            people.append({p: {r for r in rows if r[0] == p} for p in np.unique(who)})
        first, second = people
        changed = [p for p in first.keys() | second.keys() if first.get(p) != second.get(p)]
        assert len(changed) == 1, pair.name
        assert (len(first) == len(second)) == (neighbours == "replace-one")


def test_attacks_have_the_weak_points():
    names = {pair.name for pair in attacks()}
    assert {
        "empty component",
        "outlier at the bound",
        "duplicated record",
        "record at the grid's edge",
        "one person with many rows",
        "far outlier",
        "infinite record",
        "all records identical",
    } <= names


def test_the_library_passes_its_own_audit(monkeypatch):
    monkeypatch.setenv("PRIVEM_LEDGER", "lost.db")  # people who do not exist need no budget
    report = self_audit(["KMeans"], draws=100, fits=4)
    assert report.passed, report
    assert len(report.findings) > 40


def test_unknown_estimators_are_refused():
    with pytest.raises(ValueError, match="unknown estimators"):
        self_audit(["MeanShift"])
