"""Real processes on loopback: a SuperLink, nodes, a fit."""

from __future__ import annotations

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

PARTIES = ("north", "west", "south")


def free_port() -> int:
    with socket.socket() as trial:
        trial.bind(("127.0.0.1", 0))
        return trial.getsockname()[1]


class Stage:
    """A folder, and the processes started in it; all are gone at the end."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.running: dict[str, subprocess.Popen] = {}
        self._logs: dict[str, Path] = {}
        self.env = os.environ | {
            "COLUMNS": "80",
            "OPENBLAS_NUM_THREADS": "1",
            "OMP_NUM_THREADS": "1",
        }

    def words(self, command: str) -> list[str]:
        program, *words = shlex.split(command)
        assert program == "privem"
        if words[:2] == ["federate", "init"]:
            words += ["--address", f"127.0.0.1:{self.port}"]
        return [sys.executable, "-m", "privem.cli", *words]

    def do(self, command: str, code: int = 0, timeout: float = 180) -> str:
        """Run to its end; standard output, and error where it went wrong as expected."""
        done = subprocess.run(
            self.words(command),
            cwd=self.folder,
            env=self.env,
            capture_output=True,
            text=True,
            timeout=timeout,
        )
        assert done.returncode == code, (command, done.returncode, done.stdout, done.stderr)
        return done.stdout if code == 0 else done.stderr

    def start(self, name: str, command: str) -> subprocess.Popen:
        """In the background, by a name."""
        self._logs[name] = self.folder / f"{name}-{len(self._logs)}.log"
        with open(self._logs[name], "wb") as log:
            self.running[name] = subprocess.Popen(
                self.words(command), cwd=self.folder, env=self.env, stdout=log, stderr=log
            )
        return self.running[name]

    def log(self, name: str) -> str:
        return self._logs[name].read_text()

    def kill(self, name: str) -> None:
        self.running[name].send_signal(signal.SIGKILL)
        self.running[name].wait()

    def until(self, what, seconds: float = 90) -> None:
        """Wait for a condition; say what everybody said if it does not come."""
        end = time.monotonic() + seconds
        while not what():
            if time.monotonic() > end:
                said = {name: self.log(name)[-2000:] for name in self._logs}
                raise AssertionError(f"waited {seconds} s; {said}")
            time.sleep(0.05)

    def rounds(self) -> int:
        """How many rounds of the last fit are done."""
        found = sorted((self.folder / "fed/server/runs").glob("0*/progress.json"))
        return json.loads(found[-1].read_text())["rounds"] if found else 0

    def connected(self) -> None:
        self.until(lambda: all("connected" in self.log(name) for name in PARTIES))

    def federation(self, *, epsilon: str = "") -> None:
        """A federation with its server and its parties, all connected."""
        rng = np.random.default_rng(0)
        for name, centre in zip(PARTIES, (0.0, 4.0, 8.0), strict=True):
            rows = rng.normal(centre, 1.5, (200, 2))
            np.savetxt(self.folder / f"{name}.csv", rows, delimiter=",", header="x,y", comments="")
        names = " ".join(f"--party {name}" for name in PARTIES)
        self.do(f"privem federate init fed {names} --bound x=-10:20 --bound y=-10:20 --rows 600")
        self.start("server", "privem federate server fed/server")
        for name in PARTIES:
            self.party(name, epsilon)
        self.connected()

    def party(self, name: str, epsilon: str = "") -> None:
        self.start(name, f"privem federate party fed/{name} {name}.csv {epsilon}")

    def pooled(self) -> np.ndarray:
        files = [self.folder / f"{name}.csv" for name in PARTIES]
        return np.vstack([np.loadtxt(f, delimiter=",", skiprows=1) for f in files])

    def close(self) -> None:
        for process in self.running.values():
            if process.poll() is None:
                process.kill()
            process.wait()


@pytest.fixture
def stage(tmp_path):
    pytest.importorskip("flwr")
    found = Stage(tmp_path)
    yield found
    found.close()
