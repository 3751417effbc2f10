"""How a ledger's database is reached: its file or its URL, connections, errors in one line."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

from .budget import LedgerError

# How long to wait for others who write, in seconds.
_PATIENCE = 120
# How far apart changes of a file must be to show as two, in seconds.
_TICK = 2.0
# What is mounted where, on Linux.
_MOUNTS = Path("/proc/self/mountinfo")


@cache
def library() -> Any:
    """SQLAlchemy, which only ledgers need."""
    try:
        import sqlalchemy
    except ImportError:
        raise ImportError("a ledger needs SQLAlchemy: pip install 'privem[ledger]'") from None
    return sqlalchemy


class BadAddress(ValueError):
    """A path or URL where no ledger can be kept."""


HOW = "begin one with Ledger(path, dataset=..., budget=Budget(...)), or with privem ledger init"


def place_and_name(where: str) -> tuple[str, str | None]:
    """A path or URL, and the data set that it names after its last "#".

    That of a folder's name begins no data set's.

    Examples
    --------
    >>> place_and_name("budget.db#cohort-2026"), place_and_name("budget.db")
    (('budget.db', 'cohort-2026'), ('budget.db', None))
    """
    place, mark, name = where.rpartition("#")
    folder = os.path.dirname(where)
    if not mark or (len(folder) > len(place) and os.path.isdir(folder)):
        return where, None
    return place, name


def shown(url: Any) -> str:
    """A URL without what may be a password."""
    found: str = url.set(query={}).render_as_string(hide_password=True)
    return found


def url_of(where: str) -> Any:
    """The URL of a path or a URL."""
    sa = library()
    if "://" not in where:
        return sa.URL.create("sqlite", database=where)
    try:
        url = sa.make_url(where)
    except (sa.exc.ArgumentError, ValueError):  # whose texts may show a part of a password
        raise BadAddress(
            "the ledger's URL cannot be read: it is like postgresql://host/db"
        ) from None
    if url.drivername == "postgresql":
        url = url.set(drivername="postgresql+psycopg")
    if url.get_backend_name() not in ("sqlite", "postgresql"):
        raise BadAddress(f"a ledger is kept in SQLite or PostgreSQL, not {url.get_backend_name()}")
    return url


@dataclass(frozen=True)
class File:
    """A ledger's file: what is written must go to the one that its name leads to."""

    path: Path
    named: Path
    """As it was given: it may lead there by links, which may come to lead elsewhere."""
    identity: tuple[int, int]

    @classmethod
    def of(cls, given: str, create: bool) -> File:
        """The file of a path, which must exist unless it may be made."""
        if given in ("", ":memory:", "None"):
            raise BadAddress("a ledger must outlive this process: give a path")
        path = Path(given)
        try:
            if path.is_dir():
                raise LedgerError(f"{given!r} is a folder: a ledger is a file")
            if not path.resolve().parent.is_dir():
                where = str(path.parent)
                raise LedgerError(f"there is no folder {where!r} for the ledger {given!r}")
            if not path.exists():
                if not create:
                    raise LedgerError(f"there is no ledger {given!r}: {HOW}")
                path.touch()
            if _is_mount(path.resolve()):
                raise LedgerError(
                    f"the ledger {given!r} is a file that is mounted by itself: SQLite keeps a log "
                    "beside it, which others would not see, and they would spend the same budget "
                    "again. Mount the folder that it lies in"
                )
            return cls(path.resolve(), path.absolute(), _identity(path))
        except OSError as error:
            raise LedgerError(f"the ledger {given!r} could not be read: {error.strerror}") from None

    def check(self) -> None:
        """Refuse to write to a file that was removed or replaced: what is open is the old one.

        And to one that may only be read: SQLite would make files beside it that its owner could
        not write to.
        """
        try:
            same = _identity(self.path) == _identity(self.named) == self.identity
        except OSError:
            same = False
        if not same:
            raise LedgerError(
                f"the ledger {str(self.named)!r} was removed or replaced since it was opened: open "
                "it again"
            )
        if self.read_only:
            raise LedgerError(
                f"the ledger {str(self.named)!r} could not be written: you may only read it, or "
                "its folder"
            )

    def connect(self, how: str = "mode=rw") -> Any:
        """A connection; a file that is missing is not made anew."""
        place = f"file:{quote(str(self.path))}?{how}"
        return sqlite3.connect(place, _PATIENCE, check_same_thread=False, uri=True)

    @property
    def read_only(self) -> bool:
        """Whether this user may read it, and write neither to it nor beside it."""
        return os.access(self.path, os.R_OK) and not (
            os.access(self.path, os.W_OK) and os.access(self.path.parent, os.W_OK)
        )

    @contextmanager
    def only_reading(self) -> Iterator[Any]:
        """A way to read a file that may not be written to, which makes no file beside it.

        Where its log and the log's index are there, SQLite reads all three, and others may write
        meanwhile. Without a log all is in the file: SQLite reads it as if nobody wrote. Who writes
        makes a log first, beside the file, and removes it last. So nobody has, where neither the
        file nor its folder was changed from before to after.
        """
        log, index = (Path(f"{self.path}-{end}") for end in ("wal", "shm"))
        if log.exists():
            if not index.exists():
                raise LedgerError(
                    f"the ledger {str(self.named)!r} was not closed, and only who may write to it "
                    f"can read it as it is: copy it, with {log.name!r}, to a folder of your own"
                )
            yield _engine(lambda: self.connect("mode=ro"), pooled=False)
            return
        before = self._changed()
        # A change within a clock's tick of another would not show.
        time.sleep(max(0.0, min(_TICK, _TICK + before[-1] / 1e9 - time.time())))
        yield _engine(lambda: self.connect("mode=ro&immutable=1"), pooled=False)
        if log.exists() or self._changed() != before:
            raise LedgerError(
                f"the ledger {str(self.named)!r} was written to while it was read: read it again"
            )

    def _changed(self) -> tuple[int, ...]:
        """Which file it is, its size, and when it or its folder was last changed."""
        file, folder = self.path.stat(), self.path.parent.stat()
        times = sorted((file.st_mtime_ns, folder.st_mtime_ns))
        return (file.st_ino, file.st_size, *times)


def _identity(path: Path) -> tuple[int, int]:
    found = path.stat()
    if found.st_nlink > 1:
        # SQLite keeps a log beside each name: what is spent under one is not seen under another.
        raise LedgerError(f"the ledger {str(path)!r} has several names (hard links): leave it one")
    return found.st_dev, found.st_ino


def _is_mount(path: Path) -> bool:
    """Whether a file is a place of its own among the mounts, as in a container that is given it."""
    try:
        mounts = _MOUNTS.read_bytes()
    except OSError:  # a system without: it has no such mounts
        return False
    named = os.fsencode(path)
    for letter in b"\\ \t\n":  # the backslash first: it stands before the codes of the others
        named = named.replace(bytes([letter]), b"\\%03o" % letter)
    return any(line.split(b" ")[4] == named for line in mounts.splitlines())


def make_engine(place: Any) -> Any:
    """SQLAlchemy's way to a file or a URL; it opens connections when they are needed."""
    sa = library()
    if isinstance(place, File):
        engine = _engine(place.connect)
        sa.event.listen(engine, "connect", _set_up_sqlite)
        return engine
    try:
        # Who has waited for a lock must see what was committed meanwhile, whatever the database's
        # own setting.
        engine = sa.create_engine(place, pool_pre_ping=True, isolation_level="READ COMMITTED")
    except ImportError:
        raise ImportError(
            "a ledger in PostgreSQL needs psycopg: pip install 'privem[postgres]'"
        ) from None
    return engine


def _engine(connect: Callable[[], Any], pooled: bool = True) -> Any:
    """SQLAlchemy's way to an SQLite file."""
    sa = library()
    pool = sa.pool.QueuePool if pooled else sa.pool.NullPool
    engine = sa.create_engine("sqlite://", creator=connect, poolclass=pool)
    sa.event.listen(engine, "connect", _leave_transactions)
    return engine


def _leave_transactions(raw: Any, record: Any) -> None:
    raw.isolation_level = None  # they begin where the store says so


def _set_up_sqlite(raw: Any, record: Any) -> None:
    # Without fullfsync, macOS leaves what was written in the disk's own memory.
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "fullfsync=ON", "foreign_keys=ON"):
        raw.execute(f"PRAGMA {pragma}").close()


def dispose(engine: Any, process: int) -> None:
    """Close the connections of a process, in that process only."""
    if process == os.getpid():
        engine.dispose()


@contextmanager
def explaining(name: str, done: str) -> Iterator[None]:
    """Errors of the database as one line, without its statement or its parameters."""
    exc = library().exc
    try:
        yield
    except exc.DBAPIError as error:
        why = " ".join(str(error.orig).split()) or type(error.orig).__name__
        raise LedgerError(f"the ledger {name!r} could not be {done}: {why}") from None
    except (exc.SQLAlchemyError, sqlite3.Error) as error:
        why = " ".join(str(error).split())
        raise LedgerError(f"the ledger {name!r} could not be {done}: {why}") from None
