"""The chain of rows: what was changed, cut off or restored is found."""

import json
import shutil
import sqlite3
from dataclasses import replace

import numpy as np
import pytest

import privem
from privem import Budget, Ledger, LedgerError
from privem.accounting import Gaussian
from privem.ledger import Asked
from privem.ledger.chain import digest, problems
from privem.ledger.filter import Cost

X = np.random.default_rng(0).uniform(-1, 1, size=(200, 1))


def spend(ledger, epsilon=0.2):
    return privem.private_mean(X, tau=1.0, epsilon=epsilon, ledger=ledger).privacy


@pytest.fixture
def spent(ledger):
    return ledger, [spend(ledger) for _ in range(3)]


def rows_of(ledger):
    with ledger.store.reading(ledger.dataset) as rows:
        return list(rows)


def rewrite(row, **values):
    """A row with other values, and the hash that goes with them."""
    body = json.dumps(row.values | values, sort_keys=True, separators=(",", ":"))
    return replace(row, body=body, hash=digest(body))


def test_an_untouched_ledger_verifies(spent):
    ledger, statements = spent
    found = ledger.verify(*statements)
    assert (found.entries, found.pending) == (7, ())
    assert found.head == rows_of(ledger)[-1].hash
    assert len({s.ledger.head for s in statements}) == 3


@pytest.mark.parametrize("number", range(7))
def test_any_changed_row_is_found(spent, number):
    ledger, _ = spent
    rows = rows_of(ledger)
    key = "who" if "who" in rows[number].values else "statement"
    changed = rows[number].body.replace(json.dumps(rows[number].values[key]), '"nobody"')
    for bad in (replace(rows[number], body=changed), rewrite(rows[number], **{key: "nobody"})):
        assert bad != rows[number]
        wrong = problems([*rows[:number], bad, *rows[number + 1 :]], "cohort")
        last = number == len(rows) - 1 and bad.hash == digest(bad.body)
        # The last row's hash stands nowhere else: a statement tells, below.
        assert bool(wrong) != last
    without = [*rows[:number], *rows[number + 1 :]]
    assert bool(problems(without, "cohort")) == (number < len(rows) - 1)


def test_numbers_are_computed_anew(spent):
    """Also where somebody has hashed all rows again."""
    ledger, _ = spent
    rows = rows_of(ledger)
    whole = rows[1].values
    free = Cost().to_dict()
    budget = rows[0].values["budget"]
    for number, values, why in [
        (0, {"budget": budget | {"epsilon": 0.1}}, "exceeds the budget"),
        (1, {"cost": free}, "not what its numbers come to"),
        (2, {"totals": free}, "not what its numbers come to"),
        (2, {"cost": free, "totals": free, "kind": "void", "statement": None}, "statement"),
        (2, {"settles": 3}, "not pending"),
        (2, {"cost": {k: str(2 * int(v)) for k, v in whole["cost"].items()}}, "another cost"),
        (3, {"limits": whole["limits"] | {"squares": "1" + whole["limits"]["squares"]}}, "come to"),
        (3, {"cost": {k: f"-{v}" for k, v in whole["cost"].items()}}, "a cost below zero"),
        (4, {"kind": "erased"}, "unknown kind"),
    ]:
        forged = []
        for row in rows:
            more = values if row.sequence == number else {}
            if forged:
                more = more | {"previous": forged[-1].hash}
            again = rewrite(row, **more)
            forged.append(replace(again, settles=again.values.get("settles")))
        wrong = problems(forged, "cohort")
        if why == "statement":
            continue  # a void entry is consistent by itself: only the statement tells
        assert why in wrong[0], (number, wrong)


def test_statements_find_rows_that_are_cut_off_or_restored(spent, tmp_path):
    ledger, statements = spent
    copy = tmp_path / "copy.db"
    ledger.close()
    shutil.copy(tmp_path / "budget.db", copy)
    later = spend(ledger)
    ledger.verify(later, *statements)
    ledger.close()
    # An older copy is put in the place of the ledger.
    shutil.copy(copy, tmp_path / "budget.db")
    restored = Ledger(tmp_path / "budget.db")
    restored.verify(*statements)
    with pytest.raises(LedgerError, match="entry 7 of the statement is missing"):
        restored.verify(later)
    spend(restored)
    restored.verify()
    with pytest.raises(LedgerError, match="older copy was restored and went on"):
        restored.verify(later)
    # Rows are cut off.
    with sqlite3.connect(tmp_path / "budget.db") as connection:
        connection.execute("DELETE FROM privem_entries WHERE sequence > 4")
    restored.verify(*statements[:2])
    with pytest.raises(LedgerError, match="is missing"):
        restored.verify(statements[2])


@pytest.mark.parametrize("goes_on", [False, True])
def test_a_run_gives_nothing_back_to_a_ledger_without_its_reservation(ledger, tmp_path, goes_on):
    """An older copy is restored while a run goes on: what it reserved is not in the totals."""
    spend(ledger)
    ledger.close()
    shutil.copy(tmp_path / "budget.db", tmp_path / "copy.db")
    asked = Asked("model", (), 0.2, 1e-6, "add-remove", "record")
    cost = Cost.of(Gaussian(20.0), ledger.budget.epsilon)
    held = ledger.hold(asked, cost, 1)
    ledger.close()
    (tmp_path / "budget.db").write_bytes((tmp_path / "copy.db").read_bytes())
    if goes_on:  # another reservation has its number
        assert ledger.hold(asked, cost, 1).sequence == held.sequence
    before = ledger.state()
    with pytest.raises(LedgerError, match="has no entry 3 as this run knows it"):
        ledger.settle(held, "void", Cost())
    assert ledger.state() == before
    ledger.verify()


def test_statements_of_others_are_told_apart(spent, tmp_path):
    ledger, statements = spent
    with pytest.raises(LedgerError, match="another statement"):
        ledger.verify(replace(statements[0], epsilon=0.1))
    with pytest.raises(LedgerError, match="names no ledger"):
        ledger.verify(replace(statements[0], ledger=None))
    other = Ledger(tmp_path / "budget.db", "other", Budget(1.0, 1e-6))
    with pytest.raises(LedgerError, match="about the data set 'cohort'"):
        other.verify(statements[0])


@pytest.mark.parametrize(
    ("number", "body"),
    [(5, "x"), (5, "[]"), (6, "x"), (6, "[]"), (6, '{"kind":"released"}'), (6, b"\xff")],
)
def test_rows_that_cannot_be_read_are_told_in_words(tmp_path, number, body):
    path = tmp_path / "budget.db"
    with Ledger(path, "cohort", Budget(3.0, 1e-6)) as ledger:
        statements = [spend(ledger) for _ in range(3)]
    with sqlite3.connect(path) as database:
        database.execute("UPDATE privem_entries SET body = ? WHERE sequence = ?", (body, number))
    with Ledger(path) as ledger:
        with pytest.raises(LedgerError, match=f"does not verify: entry {number}: it cannot be"):
            ledger.verify(*statements)
        with pytest.raises(LedgerError, match="has a row that cannot be read"):
            ledger.history()
        if number == 6:
            with pytest.raises(LedgerError, match="has a row that cannot be read"):
                ledger.spent  # noqa: B018
            with pytest.raises(LedgerError, match="has a row that cannot be read"):
                spend(ledger)


def test_a_row_in_another_place_is_found(spent):
    ledger, _ = spent
    rows = rows_of(ledger)
    assert "stands in place" in problems([*rows[:3], replace(rows[3], sequence=9)], "cohort")[0]
    assert "stands in place" in problems([replace(r, dataset="x") for r in rows], "cohort")[0]
    assert "cannot be read" in problems([replace(rows[0], body="{}", hash=digest("{}"))], "x")[0]
    assert problems([], "cohort") == ["there are no rows"]


def test_outcomes_carry_no_time(spent):
    ledger, _ = spent
    for row in rows_of(ledger):
        assert ("when" in row.values) == (row.settles is None)
