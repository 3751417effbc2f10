"""Files that outlive a crash, readable by their owner only."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["append", "write_whole"]


def write_whole(path: Path, content: bytes) -> None:
    """Replace a file at once and for good, readable by its owner only."""
    part = path.with_name(f".{path.name}.part")
    handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(part, path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def append(path: Path, content: bytes) -> None:
    """Add to a file for good."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    with os.fdopen(handle, "ab") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
