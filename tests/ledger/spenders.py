"""Processes that spend from a ledger until they are killed, or until nothing is left.

A program of its own, so that it may fork: each process then starts in a few milliseconds. It reads
commands, one a line, and answers each with ``0`` or with how many processes failed:

    kill  WHERE FOLDER COUNT    kills COUNT processes at random instants, one after the other
    spend WHERE FOLDER COUNT    lets COUNT processes spend all there is, at once
"""

import os
import random
import signal
import sys
import tempfile
import time
import uuid
import warnings

import numpy as np

import privem

X = np.random.default_rng(0).uniform(-1, 1, size=(40, 1))


def fit(where: str, folder: str) -> None:
    """Fit a model and save it."""
    model = privem.KMeans(1, epsilon=0.1, bounds=1.0, n_iter=1, random_state=0, ledger=where)
    model.fit(X).save(os.path.join(folder, f"{uuid.uuid4().hex}.json"))


def fork(where: str, folder: str) -> int:
    """A process that fits as long as the ledger allows it."""
    child = os.fork()
    if child:
        return child
    try:
        while True:
            fit(where, folder)
    except privem.BudgetExceeded:
        os._exit(0)
    except BaseException as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
        os._exit(1)


def written(folder: str) -> int:
    """How many models are whole."""
    return sum(not name.startswith(".") for name in os.listdir(folder))


def kill(where: str, folder: str, count: int) -> int:
    """Processes that are killed at random instants."""
    privem.Ledger(where).close()  # what has to be imported for this database is
    instants = random.Random(count)
    for number in range(count):
        before = written(folder)
        child = fork(where, folder)
        # Every other one is killed in its first fit, the rest after it.
        while number % 2 and written(folder) == before:
            if os.waitpid(child, os.WNOHANG)[0]:
                return 1  # it has ended by itself: waiting for its model would take for ever
            time.sleep(0.001)
        time.sleep(instants.uniform(0.0, 1.5 * TIME))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    return 0


def spend(where: str, folder: str, count: int) -> int:
    """Processes that end when nothing is left."""
    children = [fork(where, folder) for _ in range(count)]
    return sum(os.waitpid(child, 0)[1] != 0 for child in children)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as scratch:
        trial = os.path.join(scratch, "trial.db")
        privem.Ledger(trial, "x", privem.Budget(9.0, 1e-3)).close()
        for _ in range(3):
            start = time.perf_counter()
            fit(trial, scratch)
            TIME = time.perf_counter() - start
    for line in sys.stdin:
        what, where, folder, count = line.rstrip("\n").split("\t")
        print({"kill": kill, "spend": spend}[what](where, folder, int(count)), flush=True)
