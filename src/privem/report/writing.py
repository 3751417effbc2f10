"""Files written whole or not at all."""

from __future__ import annotations

import os
import re
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import polars as pl

__all__ = ["CannotWrite", "check_destination", "write_whole"]


class CannotWrite(OSError):
    """The output could not be written; what was there before is still there."""

    def __init__(self, path: str | os.PathLike[str], why: str) -> None:
        super().__init__(f"cannot write {os.fspath(path)!r}: {why}")


def check_destination(path: str | os.PathLike[str]) -> Path:
    """Raise :class:`CannotWrite` now rather than after an hour of work.

    Parameters
    ----------
    path : path-like
        Where a file is to go later.

    Returns
    -------
    Path
        The file to replace; links are followed, so that a link stays a link.

    Examples
    --------
    >>> try:
    ...     check_destination("no/such/folder/model.json")
    ... except CannotWrite as error:
    ...     print(error)
    cannot write 'no/such/folder/model.json': there is no folder 'no/such/folder'
    """
    try:
        target = Path(os.path.realpath(path))
        folder = target.parent
        if not folder.is_dir():
            raise CannotWrite(path, f"there is no folder {str(Path(path).parent)!r}")
        if target.is_dir():
            raise CannotWrite(path, "it is a folder")
        # Replacing a device such as /dev/null, which root may do, would break the machine.
        if target.exists() and not stat.S_ISREG(target.stat().st_mode):
            raise CannotWrite(path, "it is not a regular file")
        # Trying is the only test that read-only mounts, quotas and root all agree with. On Linux
        # this file never has a name, so that not even kill -9 leaves it behind.
        with tempfile.TemporaryFile(dir=folder):
            pass
    except CannotWrite:
        raise
    except OSError as error:
        raise CannotWrite(path, _reason(error)) from error
    return target


@contextmanager
def write_whole(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Write beside the destination, then move there; on any error nothing has changed.

    Parameters
    ----------
    path : path-like
        The destination.

    Yields
    ------
    Path
        The temporary file to write to, with the destination's suffix.

    Raises
    ------
    CannotWrite
        For a full disk, a missing folder, missing permission, and so on.

    Examples
    --------
    >>> folder = Path(tempfile.mkdtemp())
    >>> with write_whole(folder / "note.txt") as temporary:
    ...     _ = temporary.write_text("hello")
    >>> [file.name for file in folder.iterdir()]
    ['note.txt']
    """
    target = check_destination(path)
    temporary: Path | None = None
    try:
        handle, name = tempfile.mkstemp(
            dir=target.parent, prefix=f".{target.stem}.", suffix=target.suffix
        )
        os.close(handle)
        temporary = Path(name)
        yield temporary
        _settle(temporary)
        os.replace(temporary, target)
    # polars reports a full disk as an error of its own.
    except (OSError, pl.exceptions.PolarsError) as error:
        raise CannotWrite(path, _reason(error)) from error
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def _settle(temporary: Path) -> None:
    """Make sure that the content is on the disk, and readable as other new files are."""
    with temporary.open("rb") as file:
        os.fsync(file.fileno())
    mask = os.umask(0)
    os.umask(mask)
    temporary.chmod(0o666 & ~mask)


def _reason(error: Exception) -> str:
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    line = str(text).strip().splitlines()[0]
    # polars wraps the system's words: "... IO error: No space left on device (os error 28)".
    inner = re.search(r"([^:]+) \(os error \d+\)$", line)
    return inner[1].strip() if inner else line
