"""Clusters of worker processes that may die at any moment, and fits that they must not change."""

import os
import signal
import threading
import time
from contextlib import contextmanager, suppress
from types import SimpleNamespace

import numpy as np
import pytest

from privem import GaussianMixture, Ledger
from privem.ledger import Budget
from privem.linalg import ravel
from privem.noise import sampler

from ..examples import fit

dask = pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")

# What fits are compared on.
RNG = np.random.default_rng(5)
X = RNG.normal(size=(3000, 3)) + RNG.choice([-4.0, 4.0], (3000, 1))
NAMES = ["a", "b", "c"]
GIVEN = {"bounds": (-9, 9), "random_state": 0, "n_iter": 3}


@contextmanager
def started(workers, threads=1, **more):
    """Worker processes on this machine, which die as often as need be."""
    settings = {
        "distributed.scheduler.allowed-failures": 1000,
        # Else the cluster gives a worker up that happens to be dead 15 s after it died before.
        "distributed.deploy.lost-worker-timeout": "1 hour",
        # Else a fit would wait for ever where no worker has come back.
        "distributed.scheduler.no-workers-timeout": "120s",
    }
    with (
        dask.config.set(settings),
        distributed.LocalCluster(
            n_workers=workers,
            threads_per_worker=threads,
            host="127.0.0.1",
            dashboard_address=":0",
            **more,
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield SimpleNamespace(cluster=cluster, client=client)


@contextmanager
def seeded(seed=0):
    """Noise from a seed, and nothing else: dask draws the names of its tasks."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sampler, "os", SimpleNamespace(urandom=np.random.default_rng(seed).bytes))
        yield


def released(model, *data, each=lambda: None):
    """Everything a fit releases, to the last bit; ``each`` is called when something is."""
    seen = []

    def watch(stage, release):
        seen.append((stage.name, ravel(release.statistics).tobytes()))
        each()

    model._watch = watch
    with seeded():
        fit(model, *data)
    return seen


class Killer(threading.Thread):
    """Kills a worker at a random moment after something was released: the next sum is under way.

    One that is running: dask gives a worker up that is killed while it starts.
    """

    def __init__(self, cluster, kills):
        super().__init__()
        self.cluster, self.kills, self.done = cluster, kills, 0
        self.killed = set()
        self.rng, self.released = np.random.default_rng(kills), threading.Event()

    def run(self):
        while self.done < self.kills:
            self.released.wait()
            self.released.clear()
            time.sleep(self.rng.uniform(0.0, 0.1))
            processes = [nanny.process for nanny in self.cluster.workers.values()]
            running = [p.pid for p in processes if p and p.status == distributed.Status.running]
            alive = [pid for pid in running if pid and pid not in self.killed]
            if alive:
                pid = alive[self.rng.integers(len(alive))]
                with suppress(ProcessLookupError):  # it is being replaced
                    os.kill(pid, signal.SIGKILL)
                    self.killed.add(pid)
                    self.done += 1


def fits_unchanged_by_kills(cluster, rows, kills, folder):
    """The same releases bit for bit, and one entry of the ledger per fit."""
    with Ledger(folder / "budget.db", dataset="x", budget=Budget(30, 1e-2)) as ledger:
        model = GaussianMixture(2, epsilon=0.1, ledger=ledger, **GIVEN)
        expected, fits = released(model, rows), 1
        killer = Killer(cluster, kills)
        killer.start()
        try:
            while killer.is_alive():
                assert released(model, rows, each=killer.released.set) == expected
                fits += 1
        finally:
            killer.kills, done = 0, killer.done
            killer.released.set()
            killer.join()
        assert done == kills
        assert len(ledger.history()) == fits
        assert {entry.state for entry in ledger.history()} == {"released"}
