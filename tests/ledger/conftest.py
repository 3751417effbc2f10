"""Ledgers in both databases. PostgreSQL is started here, where it is installed."""

import os
import pwd
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

from privem import Budget, Ledger


def _user() -> str | None:
    """PostgreSQL refuses to run as root."""
    if os.getuid() != 0:
        return None
    names = {each.pw_name for each in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"


@pytest.fixture(scope="session")
def postgresql(postgresql_folder):
    """The URL of a server of our own, with a database for every test."""
    user, folder = _user(), Path(tempfile.mkdtemp(prefix="privem-pg-"))
    if user is not None:
        shutil.chown(folder, user)
    run = {"user": user, "cwd": folder, "check": True, "stdout": subprocess.DEVNULL}
    environment = {"PATH": os.environ["PATH"], "LC_ALL": "C", "HOME": str(folder)}
    run |= {"env": environment, "stderr": subprocess.DEVNULL}
    data = str(folder / "data")
    made = ["-D", data, "-U", "privem", "-A", "trust", "--no-sync", "-E", "UTF8"]
    subprocess.run([postgresql_folder / "initdb", *made], **run)
    # No test pulls the plug: fsync would only take time.
    options = f"-k {folder} -c listen_addresses= -c fsync=off -c max_connections=200"
    start = ["-D", data, "-w", "-t", "300", "-l", str(folder / "log"), "-o", options, "start"]
    subprocess.run([postgresql_folder / "pg_ctl", *start], **run)
    try:
        yield f"postgresql://privem@/postgres?host={folder}"
    finally:
        subprocess.run([postgresql_folder / "pg_ctl", "-D", data, "-m", "immediate", "stop"], **run)
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(params=["sqlite", "postgresql"])
def where(request, tmp_path):
    """A place for ledgers in each of the databases."""
    if request.param == "sqlite":
        return str(tmp_path / "budget.db")
    import psycopg

    server = request.getfixturevalue("postgresql")
    name = f"test_{os.getpid()}_{time.monotonic_ns()}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return server.replace("/postgres?", f"/{name}?")


@pytest.fixture
def ledger(tmp_path):
    """A ledger in SQLite."""
    with Ledger(tmp_path / "budget.db", "cohort", Budget(3.0, 1e-6)) as found:
        yield found
