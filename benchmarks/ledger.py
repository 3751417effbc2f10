"""ledger: a reservation against a bare durable commit of as many bytes, on the same disk.

Wall time in milliseconds, medians, taking turns; in a folder below the current one. SQLite: against
``BEGIN IMMEDIATE``, ``INSERT``, ``COMMIT`` through Python's sqlite3, WAL and ``synchronous=FULL``.
PostgreSQL, if PRIVEM_BENCH_POSTGRESQL is its URL: against ``INSERT``, ``COMMIT`` through psycopg.
"entries": rows that the data set's ledger has before.
"""

from __future__ import annotations

import os
import sqlite3
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

from privem import Budget, Ledger
from privem.budget import Allowance, Part
from privem.ledger import Asked
from privem.ledger.chain import Row, State
from privem.ledger.entry import most
from privem.meter import Meter

from .table import verdict

__all__ = ["COLUMNS", "rows"]

COLUMNS = {
    "case": "<30",
    "commit ms": ">9.3f",
    "reserve ms": ">10.3f",
    "ratio": ">6.2f",
    "wanted": ">6.1f",
    "ok": "<5",
}
_WANTED = 3.0
_ASKED = Asked("GaussianMixture", ("count", "frame", "em"), 1e-3, 1e-6, "add-remove", "record")
_PLAN = Allowance((Part("em", 1.0, [("gaussian", 65)] * 10),), 4e4, "add-remove")
_METER = Meter(1e-3, 1e-6, "auto")


def rows(quick: bool) -> Iterator[dict[str, Any]]:
    times = 50 if quick else 500
    sizes = (0, 1_000) if quick else (0, 100_000)
    server = os.environ.get("PRIVEM_BENCH_POSTGRESQL")
    with tempfile.TemporaryDirectory(dir=".") as folder:
        places = [("SQLite", str(Path(folder) / "budget.db"), _sqlite(Path(folder) / "bare.db"))]
        if server:
            places.append(("PostgreSQL", server, _postgresql(server)))
        for name, where, bare in places:
            for size in sizes:
                dataset = f"{size}-{uuid.uuid4().hex}"
                with Ledger(where, dataset, Budget(3.0, 1e-6)) as ledger:
                    _fill(ledger, size)
                    yield _compare(f"{name}, {size:,} entries", ledger, bare, times)


def _compare(case: str, ledger: Ledger, bare: Callable[[str], None], times: int) -> dict[str, Any]:
    text, found = "x" * 1200, []
    for turn in range(times + 10):
        start = time.perf_counter()
        bare(text)
        middle = time.perf_counter()
        entry = ledger.reserve(_ASKED, _PLAN, _METER)
        end = time.perf_counter()
        text = entry.row.body
        entry.failed()
        if turn >= 10:
            found.append((1e3 * (middle - start), 1e3 * (end - middle)))
    commit, reserve = (median(column) for column in zip(*found, strict=True))
    ratio = reserve / commit
    figures = {"commit ms": commit, "reserve ms": reserve, "ratio": ratio, "wanted": _WANTED}
    return {"case": case, **figures, "ok": verdict(ratio <= _WANTED)}


def _sqlite(path: Path) -> Callable[[str], None]:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("CREATE TABLE rows (number INTEGER PRIMARY KEY, body TEXT)")

    def commit(text: str) -> None:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("INSERT INTO rows (body) VALUES (?)", (text,))
        connection.execute("COMMIT")

    return commit


def _postgresql(url: str) -> Callable[[str], None]:
    import psycopg

    connection = psycopg.connect(url)
    connection.execute("CREATE TEMPORARY TABLE nothing (x int)")
    connection.execute("CREATE TABLE IF NOT EXISTS bare_rows (number BIGSERIAL, body TEXT)")
    connection.commit()

    def commit(text: str) -> None:
        connection.execute("INSERT INTO bare_rows (body) VALUES (%s)", (text,))
        connection.commit()

    return commit


def _fill(ledger: Ledger, count: int) -> None:
    """Reservations and outcomes, in one transaction."""
    cost = most(_PLAN, ledger.budget.epsilon, 1)
    with ledger.store.reading(ledger.dataset) as known:
        last = known.last()
    assert last is not None
    made: list[Row] = []
    for number in range(count // 2):
        state = State.of(last)
        limits = state.limits_for(ledger.budget, cost)
        what = {"who": "somebody@host", "when": "2026-01-01T00:00:00Z", "what": _ASKED.to_dict()}
        what |= {"token": f"{number:032x}", "cost": cost.to_dict()}
        reserve = state.next("reserve", state.totals + cost, limits, **what)
        last = (
            State.of(reserve).outcome("released", reserve, cost, None)
            if number % 50
            else (State.of(reserve).outcome("abandoned", reserve, cost, None))
        )
        made += [reserve, last]
    with ledger.store._writing() as connection:
        for row in made:
            ledger.store._insert(connection, row)
