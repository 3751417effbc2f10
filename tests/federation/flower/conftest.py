"""Real processes on loopback: a SuperLink, nodes, a fit."""

from __future__ import annotations

import json
import os
import random
import shlex
import socket
import subprocess
import sys
import time
import warnings
from itertools import count
from pathlib import Path

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from privem import KMeans, load

from .zygote import Spawned, Zygote

PARTIES = ("north", "west", "south")
EXACT = "privem federate run fed/server -m kmeans -k 2 --exact --max-iter 1 --seed 1 -o model.json"
ENV = {"COLUMNS": "80", "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}


def free_port() -> socket.socket:
    """A port for a server, ours until what is returned is closed.

    Below 32768, where systems take no ports for connections from; and other tests, of this run or
    of another one on this machine, see by the same number of UDP that it is taken.
    """
    for port in random.SystemRandom().sample(range(20_000, 32_000), 200):
        claim = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            claim.bind(("127.0.0.1", port))
            with socket.create_server(("127.0.0.1", port)):
                return claim
        except OSError:
            claim.close()
    raise AssertionError("no port is free")


class Stage:
    """A folder, and the processes started in it; all are gone at the end."""

    def __init__(
        self, folder: Path, zygote: Zygote | None, parties: tuple[str, ...] = PARTIES
    ) -> None:
        self.folder, self.parties, self._zygote = folder, parties, zygote
        self._claim = free_port()
        self.port = self._claim.getsockname()[1]
        self.epsilon = ""
        self.spoilt: set[str] = set()
        self.running: dict[str, subprocess.Popen | Spawned] = {}
        self._logs: dict[str, Path] = {}
        self._number = count()

    def words(self, command: str) -> list[str]:
        program, *words = shlex.split(command)
        assert program == "privem"
        if words[:2] == ["federate", "init"]:
            words += ["--address", f"127.0.0.1:{self.port}"]
        return words

    def _launch(self, command: str, deeds: tuple[dict, ...], out: Path, err: Path):
        words = self.words(command)
        if self._zygote is None:
            assert not deeds
            program = [sys.executable, "-m", "privem.cli", *words]
            with open(out, "ab") as one, open(err, "ab") as other:
                return subprocess.Popen(
                    program, cwd=self.folder, env=os.environ | ENV, stdout=one, stderr=other
                )
        places = {"cwd": str(self.folder), "out": str(out), "err": str(err)}
        return self._zygote.spawn(words=words, deeds=deeds, env=ENV, **places)

    def do(self, command: str, *deeds: dict, code: int = 0) -> str:
        """Run to its end; standard output, and error where it went wrong as expected."""
        number = next(self._number)
        out, err = (self.folder / f"do-{number}.{what}.log" for what in ("out", "err"))
        process = self._launch(command, deeds, out, err)
        try:
            done = process.wait(180)
        except subprocess.TimeoutExpired:
            process.kill()
            done = None
        said = out.read_text(), err.read_text()
        assert done == code, (command, done, *said)
        return said[0] if code == 0 else said[1]

    def start(self, name: str, command: str, *deeds: dict) -> subprocess.Popen | Spawned:
        """In the background, by a name; with deeds, one that misbehaves (``mischief.py``)."""
        log = self._logs[name] = self.folder / f"{name}-{next(self._number)}.log"
        self.running[name] = self._launch(command, deeds, log, log)
        return self.running[name]

    def log(self, name: str) -> str:
        path = self._logs[name]
        return path.read_text() if path.exists() else ""

    def kill(self, name: str) -> None:
        """SIGKILL."""
        self.running[name].kill()
        self.running[name].wait(60)

    def until(self, what, seconds: float = 90) -> None:
        """Wait for a condition; say what everybody said if it does not come."""
        end = time.monotonic() + seconds
        while not what():
            if time.monotonic() > end:
                said = {name: self.log(name)[-2000:] for name in self._logs}
                raise AssertionError(f"waited {seconds} s; {said}")
            time.sleep(0.05)

    def rounds(self) -> int:
        """How many rounds of the fit under way are done."""
        found = sorted((self.folder / "fed/server/runs").glob("0*/progress.json"))
        progress = json.loads(found[-1].read_text()) if found else {"state": "finished"}
        return 0 if progress["state"] == "finished" else progress["rounds"]

    def connected(self) -> None:
        self.until(lambda: all("connected" in self.log(name) for name in self.parties))

    def federation(self, *, epsilon: str = "", terms: str = "", persons: bool = False) -> None:
        """A federation with its server and its parties, all connected; a person has four rows."""
        rng = np.random.default_rng(0)
        self.epsilon = epsilon
        for name, centre in zip(self.parties, (0.0, 4.0, 8.0, 6.0), strict=False):
            rows = rng.normal(centre, 1.5, (200, 2))
            header = "x,y"
            if persons:
                rows, header = np.column_stack([rows, np.arange(200) // 4]), "x,y,who"
            np.savetxt(self.folder / f"{name}.csv", rows, delimiter=",", header=header, comments="")
        names = " ".join(f"--party {name}" for name in self.parties)
        bounds = f"--bound x=-10:20 --bound y=-10:20 --rows {200 * len(self.parties)}"
        self.do(f"privem federate init fed {names} {bounds} {terms}")
        self.start("server", "privem federate server fed/server")
        for name in self.parties:
            self.party(name)
        self.connected()

    def party(self, name: str, *deeds: dict) -> subprocess.Popen:
        """Start a party, or start it again."""
        if name in self.running and self.running[name].poll() is None:
            self.kill(name)
        self.spoilt = self.spoilt | {name} if deeds else self.spoilt - {name}
        command = f"privem federate party fed/{name} {name}.csv {self.epsilon}"
        return self.start(name, command, *deeds)

    def honest(self) -> None:
        """Everybody is there again and behaves."""
        if self.running["server"].poll() is not None:
            self.start("server", "privem federate server fed/server")
        for name in self.parties:
            if name in self.spoilt or self.running[name].poll() is not None:
                self.party(name)
        self.connected()

    def pooled(self) -> np.ndarray:
        files = [self.folder / f"{name}.csv" for name in self.parties]
        return np.vstack([np.loadtxt(f, delimiter=",", skiprows=1) for f in files])

    def same_as_central(self) -> None:
        """The exact fit over the parties (EXACT) is the one on all rows."""
        model = load(self.folder / "model.json")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            central = KMeans(2, epsilon=None, max_iter=1, random_state=1).fit(self.pooled())
        np.testing.assert_allclose(
            np.sort(model.cluster_centers_, axis=0),
            np.sort(central.cluster_centers_, axis=0),
            atol=1e-6,
        )

    def close(self) -> None:
        for process in self.running.values():
            if process.poll() is None:
                process.kill()
            process.wait(60)
        self._claim.close()


@pytest.fixture(scope="session")
def zygote():
    pytest.importorskip("flwr")
    found = Zygote(ENV)
    yield found
    found.close()


@pytest.fixture
def stage(tmp_path, zygote):
    found = Stage(tmp_path, zygote)
    yield found
    found.close()


@pytest.fixture(scope="module")
def shared(tmp_path_factory, zygote):
    """One federation for the exact fits of a module."""
    found = Stage(tmp_path_factory.mktemp("shared"), zygote)
    found.federation()
    yield found
    found.close()
