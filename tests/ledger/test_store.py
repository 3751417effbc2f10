"""The databases: opening, durability, migrations, pickles, errors."""

import os
import pickle
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import traceback
import warnings
from copy import deepcopy
from pathlib import Path

import numpy as np
import pytest
import sqlalchemy as sa

import privem
from privem import Budget, Ledger, LedgerError
from privem.accounting import Gaussian
from privem.data.sums import LocalSource
from privem.ledger import Asked, connections, open_ledger, store
from privem.ledger.filter import Cost

X = np.random.default_rng(0).uniform(-1, 1, size=(200, 1))
BUDGET = Budget(3.0, 1e-6)


def spend(ledger, epsilon=0.2):
    return privem.private_mean(X, tau=1.0, epsilon=epsilon, ledger=ledger)


def test_a_ledger_is_made_once_and_opened_again(where):
    with Ledger(where, "cohort", BUDGET) as ledger:
        assert (ledger.spent, ledger.history()) == (0.0, [])
        assert ledger.remaining == pytest.approx(3.0, rel=1e-5)
        spend(ledger)
    with Ledger(where, dataset="cohort", budget=BUDGET) as again, Ledger(where) as only:
        assert again.spent == only.spent > 0
        assert only.dataset == "cohort"
        with pytest.raises(ValueError, match=r"has a budget of epsilon 3 .* cannot be changed"):
            Ledger(where, "cohort", Budget(4.0, 1e-6))
        with pytest.raises(LedgerError, match="no data set 'other'; it has 'cohort'"):
            Ledger(f"{where}#other")
        with Ledger(where, "other", Budget(1.0, 1e-6)) as other:
            assert other.spent == 0
        with pytest.raises(LedgerError, match=r"say which data set.*'cohort', 'other'"):
            Ledger(where)
        assert Ledger(f"{where}#cohort").spent == only.spent
        with pytest.raises(ValueError, match="needs a name"):
            Ledger(where, budget=BUDGET)
        with pytest.raises(TypeError, match="must be a Budget"):
            Ledger(where, "third", budget=3.0)


def while_writing(ledger, *settings):
    """The database's settings while a row is added."""
    seen = []

    def make(last, rows):
        seen.extend(rows.connection.exec_driver_sql(each).scalar() for each in settings)
        raise LookupError

    with pytest.raises(LookupError):
        ledger.store.append("cohort", make)
    return seen


def test_commits_survive_a_crash_of_the_machine(where):
    with Ledger(where, "cohort", BUDGET) as ledger:
        with ledger.store._writing() as connection:
            sqlite = connection.dialect.name == "sqlite"
            if not sqlite:
                # A pooler may hand out connections that others have changed.
                connection.exec_driver_sql("SET synchronous_commit = off")
        if sqlite:
            asked = ("PRAGMA synchronous", "PRAGMA journal_mode", "PRAGMA fullfsync")
            assert while_writing(ledger, *asked) == [2, "wal", 1]
        else:
            assert while_writing(ledger, "SHOW synchronous_commit") == ["on"]


def test_pickles_and_copies_spend_from_the_same_ledger(where):
    ledger = Ledger(where, "cohort", BUDGET, who="somebody")
    copy = pickle.loads(pickle.dumps(ledger))
    spend(copy)
    assert deepcopy(ledger) is ledger
    assert ledger.history()[0].who == "somebody"
    assert copy.spent == ledger.spent > 0
    found = []
    threads = [threading.Thread(target=lambda: found.append(spend(ledger))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ledger.verify(*(each.privacy for each in found)).entries == 11
    ledger.close()
    assert ledger.spent > 0  # opens again
    ledger.close()
    copy.close()


def forked(function):
    """Run a function in a process of its own; 0 if it raises nothing."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # newer Pythons warn of threads, which are idle here
        child = os.fork()
    if child == 0:
        try:
            function()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    return os.waitpid(child, 0)[1]


def test_a_forked_process_opens_its_own_connection(where):
    ledger = Ledger(where, "cohort", BUDGET)
    spend(ledger)
    assert forked(lambda: spend(ledger)) == 0
    spend(ledger)
    assert ledger.verify().entries == 7
    ledger.close()


def test_a_reservation_takes_as_many_statements_whatever_the_history(where):
    """The benchmark has its time (benchmarks/ledger.py): one look at the last row, one new row."""
    counts, statements = [], []
    with Ledger(where, "cohort", BUDGET) as ledger:

        def note(connection, cursor, statement, *more):
            statements.append(statement)

        spend(ledger, 0.01)
        sa.event.listen(ledger.store._engine, "before_cursor_execute", note)
        for _ in range(30):
            statements.clear()
            asked = Asked("model", (), 0.01, 1e-6, "add-remove", "record")
            ledger.hold(asked, Cost.of(Gaussian(1e3), 3.0), 1)
            counts.append([each.split()[0] for each in statements])
    first = "BEGIN" if "://" not in where else "SELECT"  # the lock on the data set's row
    assert counts == [[first, "SELECT", "INSERT"]] * 30


def test_the_last_row_is_found_without_reading_others(ledger):
    query = store._queries().last.compile(dialect=ledger.store._engine.dialect)
    with ledger.store._reading() as connection:
        plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {query}", ("cohort", 1, 0)).all()
    assert len(plan) == 1
    assert "SEARCH privem_entries USING INDEX" in plan[0][-1]


def test_missing_and_foreign_files_are_refused(tmp_path):
    with pytest.raises(LedgerError, match=r"there is no ledger .* privem ledger init"):
        Ledger(tmp_path / "none.db")
    assert not (tmp_path / "none.db").exists()
    with pytest.raises(LedgerError, match="no folder"):
        Ledger(tmp_path / "no" / "folder.db", "x", BUDGET)
    (tmp_path / "text.db").write_text("hello, this is no database at all" * 100)
    with pytest.raises(LedgerError, match="file is not a database"):
        Ledger(tmp_path / "text.db")
    (tmp_path / "empty.db").touch()
    with pytest.raises(LedgerError, match="is not a ledger"):
        Ledger(tmp_path / "empty.db")
    with pytest.raises(ValueError, match="outlive"):
        Ledger("sqlite:///:memory:", "x", BUDGET)
    with pytest.raises(ValueError, match="SQLite or PostgreSQL, not mysql"):
        Ledger("mysql://host/db", "x", BUDGET)
    with pytest.raises(TypeError, match="ledger must be a Ledger, a path"):
        spend(3)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://privem:s3cret@localhost:1/none#cohort",
        "postgresql://privem@localhost:1/none?password=s3cret#cohort",
        "postgresql://privem:s3cret#cohort",
        "postgresql://privem:s3cret@localhost:s3cret/none#cohort",
        "postgresql+nope://privem:s3cret@localhost/none#cohort",
        "postgresql://privem:s3cret@localhost:1/none?odd=s3cret#cohort",
        b"postgresql://privem:s3cret@localhost:1/none",
    ],
)
def test_passwords_are_shown_nowhere(url):
    with pytest.raises((LedgerError, ValueError, TypeError)) as problem:
        open_ledger(url)
    shown = [str(problem.value), repr(problem.value.__cause__)]
    assert "s3cret" not in "".join(shown)


def test_a_url_is_shown_without_its_password():
    with pytest.raises(LedgerError, match=r"privem:\*\*\*@localhost.* could not be read"):
        Ledger("postgresql://privem:s3cret@localhost:1/none#cohort")


def test_schemas_are_migrated_and_newer_ones_refused(where, monkeypatch):
    with Ledger(where, "cohort", BUDGET) as ledger:
        spend(ledger)
        before = list(ledger.rows())

    def second(connection):
        connection.exec_driver_sql("ALTER TABLE privem_datasets ADD COLUMN remark TEXT")

    with monkeypatch.context() as later:
        later.setattr(store, "MIGRATIONS", [*store.MIGRATIONS, second])
        with Ledger(where) as ledger:
            assert list(ledger.rows()) == before
            with ledger.store._reading() as connection:
                query = "SELECT remark FROM privem_datasets"
                assert connection.exec_driver_sql(query).scalar() is None
            spend(ledger)
        with Ledger(where) as ledger:  # migrated once
            ledger.verify()
    with pytest.raises(LedgerError, match=r"schema version 2; this privem knows up to 1: upgrade"):
        Ledger(where)


def test_a_failed_migration_changes_nothing(where, monkeypatch):
    with Ledger(where, "cohort", BUDGET) as ledger:
        spend(ledger)

    def fails(connection):
        connection.exec_driver_sql("ALTER TABLE privem_datasets ADD COLUMN remark TEXT")
        raise RuntimeError("out of luck")

    with monkeypatch.context() as later:
        later.setattr(store, "MIGRATIONS", [*store.MIGRATIONS, fails])
        with pytest.raises(RuntimeError, match="out of luck"):
            Ledger(where)
    with Ledger(where) as ledger, ledger.store._reading() as connection:
        ledger.verify()
        with pytest.raises(Exception, match="remark"):
            connection.exec_driver_sql("SELECT remark FROM privem_datasets")


@pytest.mark.parametrize("library", ["sqlalchemy", "psycopg"])
def test_without_the_library_an_error_names_the_extra(library, tmp_path, monkeypatch):
    extra = "ledger" if library == "sqlalchemy" else "postgres"
    where = str(tmp_path / "a.db") if library == "sqlalchemy" else "postgresql://localhost/x"
    monkeypatch.setitem(sys.modules, library, None)
    connections.library.cache_clear()
    with pytest.raises(ImportError, match=rf"privem\[{extra}\]"):
        Ledger(where, "x", BUDGET)


def refused_before_any_row(ledger):
    """In a process of its own: whether a fit is refused, and no row enters a sum."""

    def release(self, stage):
        raise AssertionError("a row entered a sum")

    LocalSource.release = release
    with pytest.raises(LedgerError, match="could not be"):
        spend(ledger)


def test_a_full_disk_gives_an_error_and_no_release(ledger):
    spend(ledger)

    def full():
        _ = ledger.spent
        resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
        refused_before_any_row(ledger)

    assert forked(full) == 0
    assert ledger.verify().entries == 3
    spend(ledger)


def spend_all(ledger, made):
    warnings.simplefilter("ignore")  # of an outcome that could not be written
    while len(made) < 1000:
        made.append(spend(ledger, 0.01).privacy)


def test_a_disk_that_fills_up(tmp_path):
    """A real one, where we may mount one: what was released has its entry, and then it goes on."""
    mount = ["mount", "-t", "tmpfs", "-o", "size=200k", "none", tmp_path]
    if os.getuid() != 0 or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("only root may mount a small disk")
    try:
        ledger, made = Ledger(tmp_path / "budget.db", "cohort", BUDGET), []
        with warnings.catch_warnings(), pytest.raises(LedgerError, match="disk is full"):
            spend_all(ledger, made)
        ledger.close()
        subprocess.run(["mount", "-o", "remount,size=4m", tmp_path], check=True)
        with Ledger(tmp_path / "budget.db") as again:
            assert again.verify(*made).entries > len(made) > 1
            spend(again)
            again.verify()
    finally:
        subprocess.run(["umount", tmp_path], check=True)


def test_databases_with_settings_of_their_own(postgresql):
    """Whatever the database's own isolation: who waited for the lock sees what was spent."""
    import psycopg

    with psycopg.connect(postgresql, autocommit=True) as connection:
        connection.execute("CREATE DATABASE odd")
        connection.execute("ALTER DATABASE odd SET default_transaction_isolation = serializable")
        connection.execute("ALTER DATABASE odd SET synchronous_commit = off")
    where = postgresql.replace("/postgres?", "/odd?")
    with Ledger(where, "cohort", BUDGET) as ledger:
        threads = [threading.Thread(target=lambda: spend(ledger)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert ledger.verify().entries == 17
        assert while_writing(ledger, "SHOW synchronous_commit") == ["on"]
    with psycopg.connect(postgresql, autocommit=True) as connection:
        connection.execute("ALTER DATABASE odd SET default_transaction_read_only = on")
    with Ledger(where) as ledger, pytest.raises(LedgerError, match="read-only transaction"):
        spend(ledger)


@pytest.mark.parametrize("mode", [0o555, 0o000])
def test_a_read_only_file_gives_an_error_and_no_release(mode):
    folder = Path(tempfile.mkdtemp())  # pytest's own folders are closed to others
    with Ledger(folder / "budget.db", "cohort", BUDGET) as ledger:
        spend(ledger)
    (folder / "budget.db").chmod(0o444)
    folder.chmod(mode)

    def read_only():
        if os.getuid() == 0:  # who may write anything
            os.setuid(65534)
        refused_before_any_row(folder / "budget.db")

    assert forked(read_only) == 0
    folder.chmod(0o755)
    (folder / "budget.db").chmod(0o644)
    assert ledger.verify().entries == 3
    ledger.close()
    shutil.rmtree(folder)


def test_an_outcome_that_cannot_be_written_leaves_the_entry_pending(ledger, monkeypatch):
    def settle(*args):
        raise LedgerError("the ledger 'x' could not be written: disk full")

    with monkeypatch.context() as now:
        now.setattr(Ledger, "settle", settle)
        with pytest.warns(UserWarning, match="disk full. Entry 1 of the ledger stays"):
            mean = spend(ledger)
    assert ledger.verify(mean.privacy).pending == (1,)
    assert [run.state for run in ledger.history()] == ["pending"]
    spent = ledger.spent
    ledger.abandon(1)
    assert ledger.spent == spent
    assert ledger.verify(mean.privacy).pending == ()
    with pytest.raises(LedgerError, match="entry 1 is abandoned already"):
        ledger.abandon(1)
    with pytest.raises(LedgerError, match="no reservation with the number 2"):
        ledger.abandon(2)


def test_a_ledger_that_was_removed_or_replaced_is_not_written_to(ledger, tmp_path):
    """What is open would be the old file, which nobody can see any more."""
    spend(ledger)
    path = tmp_path / "budget.db"
    path.rename(tmp_path / "moved.db")
    with pytest.raises(LedgerError, match="removed or replaced since it was opened"):
        spend(ledger)
    assert not path.exists()
    with Ledger(path, "cohort", BUDGET) as other:
        with pytest.raises(LedgerError, match="removed or replaced since it was opened"):
            spend(ledger)
        assert other.history() == []
    ledger.close()
    path.unlink()
    with pytest.raises(LedgerError, match="unable to open"):
        _ = ledger.spent
    assert not path.exists()


def test_a_file_that_is_mounted_by_itself_is_refused(tmp_path, monkeypatch):
    """As a container is given it: its log would lie elsewhere than that of the same file outside.

    Both would spend the whole budget.
    """
    folder = tmp_path / "my data\\"
    folder.mkdir()
    for name in ("budget.db", "other.db"):
        Ledger(folder / name, "cohort", BUDGET).close()
    escaped = str(folder).replace("\\", "\\134").replace(" ", "\\040")
    mounts = tmp_path / "mountinfo"
    end = "rw,relatime - ext4 /dev/vda rw"
    mounts.write_text(
        f"22 1 254:0 / / {end}\n63 43 254:0 /a/budget.db {escaped}/budget.db {end}\n"
        f"64 43 254:0 /b {escaped} {end}\n"
    )
    monkeypatch.setattr(connections, "_MOUNTS", mounts)
    with pytest.raises(LedgerError, match=r"mounted by itself.*Mount the folder"):
        Ledger(folder / "budget.db")
    assert Ledger(folder / "other.db").spent == 0
    monkeypatch.setattr(connections, "_MOUNTS", tmp_path / "nothing")
    assert Ledger(folder / "budget.db").spent == 0


def test_links_lead_to_one_ledger_or_none(ledger, tmp_path):
    """Two logs of one file would be two budgets."""
    path, link = tmp_path / "budget.db", tmp_path / "link.db"
    link.symlink_to(path)
    with Ledger(link) as linked:
        spend(linked)
        assert len(ledger.history()) == 1
        other = Ledger(tmp_path / "other.db", "cohort", BUDGET)
        link.unlink()
        link.symlink_to(tmp_path / "other.db")
        with pytest.raises(LedgerError, match="removed or replaced"):
            spend(linked)
    other.close()
    (tmp_path / "hard.db").hardlink_to(path)
    for name in (path, tmp_path / "hard.db"):
        with pytest.raises(LedgerError, match="several names"):
            Ledger(name)
    with pytest.raises(LedgerError, match="several names"):
        spend(ledger)
    (tmp_path / "hard.db").unlink()
    spend(ledger)
    assert len(ledger.history()) == 2


def test_paths_are_those_of_the_folder_where_it_was_opened(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ledger = Ledger("budget.db", "cohort", BUDGET)
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    spend(pickle.loads(pickle.dumps(ledger)))
    ledger.close()
    spend(ledger)
    assert len(ledger.history()) == 2
    assert list((tmp_path / "below").iterdir()) == []
    with Ledger(tmp_path / "odd #?%.db", "cohort", BUDGET) as odd:
        spend(odd)
        assert len(pickle.loads(pickle.dumps(odd)).history()) == 1
    assert (tmp_path / "odd #?%.db").exists()
    ledger.close()


def test_a_mark_in_a_folders_name_begins_no_data_set(tmp_path):
    folder = tmp_path / "team #1"
    folder.mkdir()
    path = f"{folder}/budget.db"
    with Ledger(path, "study/2026", BUDGET) as ledger:
        spend(ledger)
    for where in (path, f"{path}#study/2026"):
        with Ledger(where) as again:
            assert again.dataset == "study/2026"
            assert len(again.history()) == 1
    with pytest.raises(ValueError, match="needs a name"):
        Ledger(f"{folder}/other.db", budget=BUDGET)
    with pytest.raises(LedgerError, match="no data set 'lost'"):
        Ledger(f"{path}#lost")
    assert [each.name for each in tmp_path.iterdir()] == [folder.name]


def test_what_is_verified_are_statements(ledger):
    with pytest.raises(TypeError, match=r"statements \(model\.privacy_\), got a str"):
        ledger.verify("model.json")


def test_a_folder_is_no_ledger(tmp_path):
    with pytest.raises(LedgerError, match="is a folder"):
        Ledger(tmp_path)
