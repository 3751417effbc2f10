"""Files that are written whole or not at all: models, records, pictures, a party's state."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def check_destination(path: str | os.PathLike[str]) -> Path:
    """Raise OSError now rather than after an hour of work.

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
    ... except FileNotFoundError as error:
    ...     print(error.strerror)
    there is no folder 'no/such/folder'
    """
    target = _destination(path)
    with _about(path), tempfile.TemporaryFile(dir=target.parent):
        # Trying is the only test that read-only mounts, quotas and root all agree with. On Linux
        # this file never has a name, so that not even kill -9 leaves it behind.
        pass
    return target


@contextmanager
def write_whole(path: str | os.PathLike[str], *, secret: bool = False) -> Iterator[Path]:
    """Write beside the destination, then move there; on any error nothing has changed.

    Parameters
    ----------
    path : path-like
        The destination.
    secret : bool, default=False
        Only its owner may read the file, and it survives a crash of the machine from here on.

    Yields
    ------
    Path
        The temporary file to write to, with the destination's suffix.

    Raises
    ------
    OSError
        For a full disk, a missing folder, missing permission, and so on; it names the destination.

    Examples
    --------
    >>> folder = Path(tempfile.mkdtemp())
    >>> with write_whole(folder / "note.txt") as temporary:
    ...     _ = temporary.write_text("hello")
    >>> [file.name for file in folder.iterdir()]
    ['note.txt']
    """
    target = _destination(path)
    with _about(path):
        temporary = _beside(target, secret)
        try:
            yield temporary
            synchronise(temporary)
            if not secret:
                mask = os.umask(0)
                os.umask(mask)
                temporary.chmod(0o666 & ~mask)  # as other new files
            os.replace(temporary, target)
        finally:
            temporary.unlink(missing_ok=True)
        if secret:
            synchronise(target.parent)


def write_secret(path: Path, content: bytes) -> None:
    """Replace a file at once and for good, readable by its owner only."""
    with write_whole(path, secret=True) as temporary:
        temporary.write_bytes(content)


def append_secret(path: Path, content: bytes) -> None:
    """Add to a file for good, readable by its owner only."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    with os.fdopen(handle, "ab") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


@contextmanager
def _about(path: str | os.PathLike[str]) -> Iterator[None]:
    """Errors inside name the destination, not a temporary file."""
    try:
        yield
    except OSError as error:
        error.filename = os.fspath(path)
        raise


def _destination(path: str | os.PathLike[str]) -> Path:
    """The file to replace, if it is one and its folder exists."""
    given = os.fspath(path)
    with _about(path):
        target = Path(os.path.realpath(path))
        folder = target.parent
        if not folder.is_dir():
            code = errno.ENOTDIR if folder.exists() else errno.ENOENT
            raise OSError(code, f"there is no folder {str(Path(path).parent)!r}", given)
        if target.is_dir():
            raise OSError(errno.EISDIR, "it is a folder, not a regular file", given)
        # Replacing a device such as /dev/null, which root may do, would break the machine.
        if target.exists() and not target.is_file():
            raise OSError(errno.EINVAL, "it is not a regular file", given)
    return target


def _beside(target: Path, secret: bool) -> Path:
    """An empty file beside a destination, which only its owner can read."""
    if not secret:
        handle, name = tempfile.mkstemp(
            dir=target.parent, prefix=f".{target.stem}.", suffix=target.suffix
        )
    else:
        # Always the same name: what a killed process leaves behind, the next write replaces.
        name = str(target.with_name(f".{target.name}.part"))
        handle = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.close(handle)
    return Path(name)


def synchronise(path: Path) -> None:
    """Wait until a file or a folder is on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
