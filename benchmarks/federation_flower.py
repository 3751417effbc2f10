"""federation_flower: what an exchange costs when real processes talk over Flower on loopback.

A SuperLink with TLS, three nodes with keys, a fit: an exact k-means of a few iterations, in which a
party of 200 records has almost nothing to do, and one of millions much. "exchange" is one message
to every party and all replies, by the clock; "parties" what the slowest party needs for its part,
in this process; "polls" how long the slowest party's message and its reply lay at the SuperLink
before we looked for them. The rest is Flower's. SuperLink and a node: their CPU time per exchange.
"""

from __future__ import annotations

import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from privem import KMeans
from privem.federation import Federation, InProcess, Party

__all__ = ["COLUMNS", "rows"]

COLUMNS = {
    "case": "<28",
    "exchanges": ">9.0f",
    "exchange ms": ">11.0f",
    "longest": ">7.0f",
    "parties ms": ">10.1f",
    "polls ms": ">8.0f",
    "SuperLink CPU ms": ">16.0f",
    "node CPU ms": ">11.0f",
}
NAMES = ("north", "west", "south")
LOW, HIGH, MOST = -10.0, 20.0, 10**8


class _Timed:
    """A grid's transport, and how long each exchange takes."""

    def __init__(self, grid: Any, keys: Mapping[str, bytes]) -> None:
        from privem.federation.flower.transport import GridTransport

        self._grid, self._inner = grid, GridTransport(self, keys, 120.0)
        self.get_nodes = grid.get_nodes
        self.seconds: list[float] = []
        # Of each exchange: when the messages were there, and by node when its reply was looked for.
        self.seen: list[tuple[float, dict[int, float]]] = []

    def exchange(self, mail: Mapping[str, bytes]) -> dict[str, bytes]:
        began = time.monotonic()
        replies: dict[str, bytes] = self._inner.exchange(mail)
        self.seconds.append(time.monotonic() - began)
        return replies

    def push_messages(self, messages: list[Any]) -> Any:
        numbers = self._grid.push_messages(messages)
        self.seen.append((time.monotonic(), {}))
        return numbers

    def pull_messages(self, numbers: list[str]) -> Any:
        looked = time.monotonic()
        found = self._grid.pull_messages(numbers)
        self.seen[-1][1].update({message.metadata.src_node_id: looked for message in found})
        return found


def _noting(path: Path) -> None:
    """From now on, this party's node writes down when it looked and when it had answered."""
    from privem.federation.flower.node import Node

    receive, send = Node._receive, Node._send
    looked = 0.0

    def receiving(node: Any) -> Any:
        nonlocal looked
        looked = time.monotonic()
        return receive(node)

    def sending(node: Any, message: Any) -> None:
        began = looked
        send(node, message)
        with path.open("a") as file:
            file.write(f"{node._node.node_id} {began} {time.monotonic()}\n")

    Node._receive, Node._send = receiving, sending  # type: ignore[method-assign]


def _lying(seen: list[tuple[float, dict[int, float]]], notes: list[Path]) -> list[float]:
    """Of each exchange, how long the slowest party's message and its reply waited for a look.

    All are on one machine, whose processes share the monotonic clock.
    """
    lines = [line.split() for path in notes for line in path.read_text().splitlines()]
    said = [(int(node), float(looked), float(sent)) for node, looked, sent in lines]
    waits = []
    for there, found in seen:
        answers = [max(line for line in said if line[0] == n and line[1] < found[n]) for n in found]
        node, looked, sent = max(answers, key=lambda line: line[2])
        waits.append(max(0.0, looked - there) + max(0.0, found[node] - sent))
    return waits


class _Slowest(InProcess):
    """Parties in this process, and how long the slowest takes in each exchange."""

    def __init__(self, parties: list[Party]) -> None:
        super().__init__(parties)
        self._parties = {party.name: party for party in parties}
        self.seconds: list[float] = []

    def exchange(self, mail: Mapping[str, bytes]) -> dict[str, bytes]:
        replies, slowest = {}, 0.0
        for name, message in mail.items():
            began = time.monotonic()
            replies[name] = self._parties[name].handle(message)
            slowest = max(slowest, time.monotonic() - began)
        self.seconds.append(slowest)
        return replies


def _cpu(process: subprocess.Popen[bytes]) -> float:
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _fit(federation: Federation, iterations: int) -> None:
    KMeans(3, epsilon=None, tol=0.0, max_iter=iterations, random_state=0).fit(federation)


def _written(rows: np.ndarray, folder: Path, name: str) -> Path:
    path = folder / f"{name}.parquet"
    pl.DataFrame(rows, schema=["x", "y"]).write_parquet(path)
    return path


def _alone(rows: dict[str, np.ndarray], protection: str, iterations: int) -> list[float]:
    with tempfile.TemporaryDirectory() as place:
        members = [Party(_written(rows[name], Path(place), name), name) for name in NAMES]
        return _timed(members, protection, iterations)


def _timed(members: list[Party], protection: str, iterations: int) -> list[float]:
    federation = Federation(members, protection=protection, bounds=(LOW, HIGH), rows=MOST)
    federation.transport = slowest = _Slowest(members)
    _fit(federation, iterations)
    return slowest.seconds


def _real(rows: dict[str, np.ndarray], protection: str, iterations: int) -> dict[str, Any]:
    from flwr.serverapp import Grid, ServerApp

    from privem.federation.errors import ServerAway
    from privem.federation.flower.driver import run_app
    from privem.federation.flower.folders import Terms

    with socket.socket() as trial:
        trial.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{trial.getsockname()[1]}"
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for name in NAMES:
            _written(rows[name], folder, name)
        command = [sys.executable, "-m", "privem.cli", "federate"]
        init = ["init", "fed", "--protection", protection, "--address", address]
        init += [word for name in NAMES for word in ("--party", name)]
        init += ["--bound", f"x={LOW}:{HIGH}", "--bound", f"y={LOW}:{HIGH}", "--rows", str(MOST)]
        quiet: dict[str, Any] = {"cwd": folder, "stdout": subprocess.DEVNULL}
        subprocess.run([*command, *init], check=True, **quiet)
        quiet["stderr"] = subprocess.DEVNULL
        running = [subprocess.Popen([*command, "server", "fed/server"], **quiet)]
        for name in NAMES:
            words = [sys.executable, __file__, f"{name}.notes"]
            words += ["federate", "party", f"fed/{name}", f"{name}.parquet"]
            running.append(subprocess.Popen(words, **quiet))
        try:
            server = folder / "fed" / "server"
            terms, secret = Terms.load(server), (server / "secret").read_bytes()
            found: dict[str, Any] = {}
            app = ServerApp()

            @app.main()
            def main(grid: Grid, context: Any) -> None:
                timed = _Timed(grid, terms.keys)
                federation = Federation.over(terms.agreement, timed)
                _fit(federation, 1)  # all are there, and have been asked once
                timed.seconds.clear()
                timed.seen.clear()
                before = [_cpu(process) for process in running]
                _fit(federation, iterations)
                spent = [_cpu(process) - old for process, old in zip(running, before, strict=True)]
                time.sleep(0.2)  # until the last notes are written
                waits = _lying(timed.seen, [folder / f"{name}.notes" for name in NAMES])
                found.update(seconds=timed.seconds, spent=spent, waits=waits)

            while not found:
                try:
                    run_app(app, terms.address, terms.ca.encode("ascii"), secret)
                except ServerAway:  # it is not up yet
                    time.sleep(0.2)
            return found
        finally:
            for process in running:
                process.kill()
                process.wait()


def rows(quick: bool = False) -> Iterator[dict[str, Any]]:
    """Rows of the table."""
    rng = np.random.default_rng(0)
    many = 10**6 if quick else 10**7
    for protection, most in (("plain", 200), ("masked", 200), ("plain", many)):
        sizes = zip(NAMES, (0.0, 4.0, 8.0), (200, 200, most), strict=True)
        held = {n: np.clip(rng.normal(c, 1.5, (m, 2)), LOW, HIGH) for n, c, m in sizes}
        iterations = 2 if quick else 8
        found = _real(held, protection, iterations)
        seconds, spent = found["seconds"], found["spent"]
        yield {
            "case": f"{protection}, up to {most:,} rows",
            "exchanges": len(seconds),
            "exchange ms": 1e3 * statistics.median(seconds),
            "longest": 1e3 * max(seconds),
            "parties ms": 1e3 * statistics.median(_alone(held, protection, iterations)),
            "polls ms": 1e3 * statistics.median(found["waits"]),
            "SuperLink CPU ms": 1e3 * spent[0] / len(seconds),
            "node CPU ms": 1e3 * statistics.mean(spent[1:]) / len(seconds),
        }


if __name__ == "__main__":  # a party of the benchmark
    from privem.cli import main

    _noting(Path(sys.argv.pop(1)))
    main()
