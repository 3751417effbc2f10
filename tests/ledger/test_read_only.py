"""Ledgers that may be read and not written to."""

import os
import shutil
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from privem import Budget, GaussianMixture, Ledger, LedgerError
from privem.cli import app
from privem.ledger import connections

from .test_store import forked, spend

X = np.random.default_rng(0).normal(size=(300, 2))


def run(*arguments):
    result = CliRunner().invoke(app, ["ledger", *map(str, arguments)])
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture
def folder():
    found = Path(tempfile.mkdtemp())  # pytest's own folders are closed to others
    found.chmod(0o755)
    yield found
    found.chmod(0o755)
    shutil.rmtree(found)


def as_somebody(look, folder, mode=0o555):
    """Look at a folder's ledger in a process that may not write to it."""
    (folder / "budget.db").chmod(0o444)
    folder.chmod(mode)
    before = sorted(folder.iterdir())

    def process():
        if os.getuid() == 0:  # who may write anything
            os.setuid(65534)
        look()

    assert forked(process) == 0
    assert sorted(folder.iterdir()) == before
    (folder / "budget.db").chmod(0o644)
    folder.chmod(0o755)


@pytest.mark.parametrize("mode", [0o555, 0o777])
def test_a_ledger_that_nobody_uses_can_be_looked_at(folder, mode):
    """Whether the folder or the file alone may not be written to; nothing is left beside it."""
    where = f"{folder / 'budget.db'}#cohort"
    model = GaussianMixture(1, bounds=4.0, epsilon=0.5)
    with Ledger(where, budget=Budget(3.0, 1e-6)) as ledger:
        model.set_params(ledger=ledger).fit(X).save(folder / "model.json")

    def read():
        assert "1 released" in run("show", where)
        assert "GaussianMixture" in run("history", where)
        assert "3 rows and 1 model verified" in run("verify", where, folder / "model.json")
        assert len(run("export", where).splitlines()) == 3

    def look():
        read()
        with Ledger(where) as found, pytest.raises(LedgerError, match="could not be written"):
            spend(found)

    read()  # imports what somebody else may not read where Python is in a folder of root's
    as_somebody(look, folder, mode)
    with Ledger(where) as ledger:
        assert spend(ledger).privacy.ledger.entry == 3


def test_one_that_others_write_to_is_read_as_it_is_now(folder):
    with Ledger(folder / "budget.db", "cohort", Budget(3.0, 1e-6)) as ledger:
        spend(ledger)  # which is in the log alone
        assert (folder / "budget.db-wal").stat().st_size
        as_somebody(lambda: [Ledger(folder / "budget.db").verify()], folder)

        def look():
            with Ledger(folder / "budget.db") as found:
                assert [run.state for run in found.history()] == ["released"]

        as_somebody(look, folder)


def test_one_that_was_not_closed_is_not_read_without_its_log(folder):
    """What is in the log would be missing: as if it had not been spent."""
    with Ledger(folder / "budget.db", "cohort", Budget(3.0, 1e-6)) as ledger:
        spend(ledger)
        (folder / "copy").mkdir()
        for name in ("budget.db", "budget.db-wal"):
            shutil.copy(folder / name, folder / "copy")

    def look():
        with pytest.raises(LedgerError, match=r"was not closed.*with 'budget.db-wal'"):
            Ledger(folder / "copy" / "budget.db")

    as_somebody(look, folder / "copy")
    with Ledger(folder / "copy" / "budget.db") as copied:  # whoever may write can read it
        assert len(copied.history()) == 1


def test_one_that_is_written_to_meanwhile_is_not_believed(folder, monkeypatch):
    where = folder / "budget.db"
    other = Ledger(where, "cohort", Budget(3.0, 1e-6))
    other.close()
    for path in (where, folder):
        os.utime(path, (time.time() - 9,) * 2)
    monkeypatch.setattr(connections.File, "read_only", True)
    looking = Ledger(where)

    def look():
        with looking.store.reading("cohort") as rows:
            assert len(list(rows)) == 1
            with monkeypatch.context() as now:
                now.setattr(connections.File, "read_only", False)
                spend(other)
                other.close()
            assert sorted(folder.iterdir()) == [where]  # the log has come and gone

    with pytest.raises(LedgerError, match="written to while it was read"):
        look()
    assert len(looking.history()) == 1


def test_changes_within_a_tick_of_the_clock_are_waited_for(folder, monkeypatch):
    waited = []
    monkeypatch.setattr(connections.time, "sleep", waited.append)
    where = folder / "budget.db"
    Ledger(where, "cohort", Budget(3.0, 1e-6)).close()
    monkeypatch.setattr(connections.File, "read_only", True)
    looking = Ledger(where)
    assert 1.0 < max(waited) <= 2.0
    waited.clear()
    for path in (where, folder):
        os.utime(path, (time.time() - 9,) * 2)
    assert looking.history() == []
    assert waited == [0.0]
