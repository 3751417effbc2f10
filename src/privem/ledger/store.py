"""Where ledgers are kept: SQLite in a file, or PostgreSQL by URL; through SQLAlchemy Core.

One table holds the rows of all data sets, and rows are only ever added. Whoever adds one holds the
data set's lock from reading the last row to the commit: in SQLite the lock on the file (``BEGIN
IMMEDIATE``), in PostgreSQL that on the data set's own row. A commit that has returned survives a
crash of the machine (``synchronous=FULL``; ``synchronous_commit=on``).
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

from ..files import synchronise
from .budget import LedgerError
from .chain import Row
from .connections import (
    HOW,
    File,
    dispose,
    explaining,
    library,
    make_engine,
    shown,
    url_of,
)

# Of all privem's ledgers in a PostgreSQL database, while tables are made.
_LOCK = 0x7072_6976_656D


@dataclass(frozen=True)
class _Tables:
    metadata: Any
    version: Any
    datasets: Any
    entries: Any


@cache
def _tables() -> _Tables:
    sa = library()
    metadata = sa.MetaData()
    version = sa.Table("privem_schema", metadata, sa.Column("version", sa.Integer, nullable=False))
    datasets = sa.Table("privem_datasets", metadata, sa.Column("name", sa.Text, primary_key=True))
    entries = sa.Table(
        "privem_entries",
        metadata,
        sa.Column("dataset", sa.Text, sa.ForeignKey(datasets.c.name), primary_key=True),
        sa.Column("sequence", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("settles", sa.BigInteger),
        sa.Column("body", sa.Text, nullable=False),
        sa.Column("hash", sa.Text, nullable=False),
        sa.UniqueConstraint("dataset", "settles"),
    )
    return _Tables(metadata, version, datasets, entries)


def _first(connection: Any) -> None:
    """Version 1: data sets and entries."""
    tables = _tables()
    tables.metadata.create_all(connection, tables=[tables.datasets, tables.entries])


# What brings a database from each version to the next; an empty one has version 0.
MIGRATIONS: list[Callable[[Any], None]] = [_first]


class Store:
    """The database of some ledgers.

    Parameters
    ----------
    where : str
        A path, or a database URL of SQLAlchemy.
    create : bool
        Whether a file that does not exist is made, with its tables.
    """

    def __init__(self, where: str, create: bool = False) -> None:
        self._url, self._file = url_of(where), None
        self.name = shown(self._url)
        if self._url.get_backend_name() == "sqlite":
            self.name = str(self._url.database)
            self._file = File.of(self.name, create)
        self._process = 0
        self._engine: Any = None
        with self._reading() as connection:
            version = self._version(connection)
        if version is None and not create:
            raise LedgerError(f"{self.name!r} is not a ledger: {HOW}")
        if version != len(MIGRATIONS):
            with self._writing() as connection:
                self._migrate(connection)
            if self._file is not None:
                synchronise(self._file.path.parent)

    @property
    def address(self) -> str:
        """Where another process finds it, a password included."""
        found: str = self._url.render_as_string(hide_password=False)
        return found if self._file is None else str(self._file.path)

    def datasets(self) -> list[str]:
        """The names of the data sets in it."""
        sa, tables = library(), _tables()
        with self._reading() as connection:
            found = connection.execute(sa.select(tables.datasets.c.name))
            return sorted(name for (name,) in found)

    def open(self, row: Row) -> Row:
        """Begin a data set with its first row, unless it has one; the first row."""
        tables = _tables()
        with self._writing() as connection:
            self._lock_tables(connection)
            known = Rows(connection, row.dataset).number(0)
            if known is not None:
                return known
            connection.execute(tables.datasets.insert(), {"name": row.dataset})
            self._insert(connection, row)
            return row

    @contextmanager
    def reading(self, dataset: str) -> Iterator[Rows]:
        """The rows of a data set as they are now."""
        with self._reading() as connection:
            yield Rows(connection, dataset)

    def append(self, dataset: str, make: Callable[[Row, Rows], Row]) -> Row:
        """Add a row, and return it when it is on the disk.

        ``make`` makes it of the last row, while nobody else can add one; it may look others up.
        What it raises leaves everything as it was.
        """
        sa, tables = library(), _tables()
        with self._writing() as connection:
            if connection.dialect.name == "postgresql":  # SQLite has locked the file already
                names = tables.datasets.c.name
                lock = sa.select(names, _durably()).where(names == dataset)
                connection.execute(lock.with_for_update())
            known = Rows(connection, dataset)
            last = known.last()
            if last is None:
                raise LedgerError(f"the ledger {self.name!r} has no data set {dataset!r}")
            row = make(last, known)
            self._insert(connection, row)
        return row

    def close(self) -> None:
        """Close the connections."""
        dispose(self._engine, self._process)

    def _insert(self, connection: Any, row: Row) -> None:
        connection.execute(_queries().insert, vars(row))

    def _version(self, connection: Any) -> int | None:
        """That of the tables, if there are any."""
        sa, table = library(), _tables().version
        if not sa.inspect(connection).has_table(table.name):
            return None
        version = int(connection.execute(sa.select(table.c.version)).scalar_one())
        if version > len(MIGRATIONS):
            raise LedgerError(
                f"the ledger {self.name!r} has schema version {version}; this privem knows up to "
                f"{len(MIGRATIONS)}: upgrade privem"
            )
        return version

    def _migrate(self, connection: Any) -> None:
        """Bring the tables to this version."""
        self._lock_tables(connection)
        table, version = _tables().version, self._version(connection)  # another may have done it
        if version is None:
            version = 0
            table.create(connection)
            connection.execute(table.insert(), {"version": 0})
        for migrate in MIGRATIONS[version:]:
            migrate(connection)
        connection.execute(table.update(), {"version": len(MIGRATIONS)})

    def _lock_tables(self, connection: Any) -> None:
        """Wait for others who make tables or data sets; SQLite has one writer anyway."""
        if connection.dialect.name == "postgresql":
            sa = library()
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_LOCK), _durably()))

    def _connections(self) -> Any:
        """Those of this process: what was opened before a fork belongs to the parent."""
        if self._process != os.getpid():
            _FORKED.append(self._engine)  # never closed here: that would disturb the parent's
            self._engine, self._process = make_engine(self._file or self._url), os.getpid()
            weakref.finalize(self, dispose, self._engine, self._process)
        return self._engine

    @contextmanager
    def _reading(self) -> Iterator[Any]:
        file = self._file
        with explaining(self.name, "read"):
            if file is not None and file.read_only:
                with file.only_reading() as engine, _began(engine, "BEGIN") as connection:
                    yield connection
            else:
                with _began(self._connections(), file and "BEGIN") as connection:
                    yield connection

    @contextmanager
    def _writing(self) -> Iterator[Any]:
        file = self._file
        with explaining(self.name, "written"):
            if file is not None:
                file.check()
            # Who will write waits for the lock now: having read first, he could not get it any
            # more.
            with _began(self._connections(), file and "BEGIN IMMEDIATE") as connection:
                yield connection
                connection.commit()


def _durably() -> Any:
    """Has PostgreSQL wait for the disk when this transaction commits.

    Said in each transaction: a pooler in between may change connections after each.
    """
    return library().func.set_config("synchronous_commit", "on", True)


@contextmanager
def _began(engine: Any, statement: Any) -> Iterator[Any]:
    """A connection in a transaction, which SQLite must be told to begin."""
    with engine.connect() as connection:
        if statement:
            connection.exec_driver_sql(statement)
        yield connection


_FORKED: list[Any] = []


@dataclass(frozen=True)
class _Queries:
    insert: Any
    every: Any
    last: Any
    number: Any
    outcome: Any
    after: Any


@cache
def _queries() -> _Queries:
    """Made once, as making them takes longer than running them."""
    sa, entries = library(), _tables().entries
    every = sa.select(entries).where(entries.c.dataset == sa.bindparam("dataset"))
    return _Queries(
        entries.insert(),
        every.order_by(entries.c.sequence),
        every.order_by(entries.c.sequence.desc()).limit(1),
        every.where(entries.c.sequence == sa.bindparam("number")),
        every.where(entries.c.settles == sa.bindparam("number")),
        every.where(entries.c.sequence > sa.bindparam("number")).order_by(entries.c.sequence),
    )


@dataclass(frozen=True)
class Rows:
    """The rows of a data set, in one transaction."""

    connection: Any
    dataset: str

    def __iter__(self) -> Iterator[Row]:
        """All of them, in order."""
        return self._some(_queries().every)

    def after(self, sequence: int) -> Iterator[Row]:
        """Those after the one of a number, in order."""
        return self._some(_queries().after, number=sequence)

    def last(self) -> Row | None:
        """The last one."""
        return self._one(_queries().last)

    def number(self, sequence: int) -> Row | None:
        """The one of a number."""
        return self._one(_queries().number, number=sequence)

    def outcome(self, sequence: int) -> Row | None:
        """The one that settles a reservation."""
        return self._one(_queries().outcome, number=sequence)

    def _named(self, **more: int) -> dict[str, Any]:
        return {"dataset": self.dataset, **more}

    def _some(self, query: Any, **more: int) -> Iterator[Row]:
        in_parts = {"yield_per": 1000}
        found = self.connection.execute(query, self._named(**more), execution_options=in_parts)
        return (Row(*each) for each in found)

    def _one(self, query: Any, **more: int) -> Row | None:
        found = self.connection.execute(query, self._named(**more)).first()
        return None if found is None else Row(*found)
