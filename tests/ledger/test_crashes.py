"""kill -9 at any instant, and many processes at once: no release without its entry."""

import subprocess
import sys
from pathlib import Path

import pytest

import privem
from privem import Budget, BudgetExceeded, Ledger


@pytest.fixture(scope="module")
def spenders():
    """Asks a process that forks spenders, and waits until they are done."""
    command = [sys.executable, Path(__file__).with_name("spenders.py")]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipes) as process:

        def ask(what, where, folder, count):
            print(what, f"{where}#cohort", folder, count, sep="\t", file=process.stdin, flush=True)
            assert process.stdout.readline() == "0\n"

        yield ask
        process.stdin.close()


def check(where, folder):
    """Every model has its entry, the budget holds and the ledger verifies; all runs."""
    # A file whose name begins with a dot was being written when its process was killed.
    models = [privem.load(path) for path in folder.glob("[!.]*.json")]
    with Ledger(f"{where}#cohort") as ledger:
        found = ledger.verify(*(model.privacy_ for model in models))
        history = ledger.history()
        # Each model has an entry of its own, which is not void.
        entries = {model.privacy_.ledger.entry for model in models}
        alive = {run.entry for run in history if run.state in ("released", "pending")}
        assert len(entries) == len(models)
        assert entries <= alive
        assert {run.entry for run in history if run.state == "pending"} == set(found.pending)
        assert sum(run.part for run in history) <= 1
        assert ledger.spent <= ledger.budget.epsilon
    return models, history


@pytest.mark.parametrize("count", [10, pytest.param(200, marks=pytest.mark.slow)])
def test_processes_killed_at_random_instants(where, tmp_path, spenders, count):
    folder = tmp_path / "models"
    folder.mkdir()
    Ledger(where, "cohort", Budget(20.0, 1e-5)).close()
    spenders("kill", where, folder, count)
    models, history = check(where, folder)
    # Every other one has written something first.
    assert len(history) >= count // 2
    assert models
    with Ledger(where) as ledger:
        before = ledger.spent
        for each in history:
            if each.state == "pending":
                ledger.abandon(each.entry)
        assert ledger.verify().pending == ()
        assert ledger.spent == before


@pytest.mark.parametrize("count", [6, pytest.param(32, marks=pytest.mark.slow)])
def test_processes_spend_all_there_is_and_no_more(where, tmp_path, spenders, count):
    folder = tmp_path / "models"
    folder.mkdir()
    with Ledger(where, "cohort", Budget(0.5 if count < 32 else 1.5, 1e-6)) as ledger:
        spenders("spend", where, folder, count)
        models, history = check(where, folder)
        assert len(models) == len(history) > count
        assert 1 - sum(run.part for run in history) <= 1.01 * history[0].part
        assert {run.state for run in history} == {"released"}
        one = privem.KMeans(1, epsilon=0.1, bounds=1.0, n_iter=1, ledger=ledger)
        with pytest.raises(BudgetExceeded, match="would still fit"):
            one.fit([[0.5]] * 40)
