"""Finished cells, each in a file that is written whole or not at all."""

from __future__ import annotations

import hashlib
import inspect
import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import privem
from privem.files import write_whole

from .claims import Cell, Row

# Other code of these does not change what a cell computes.
_APART = {"audit", "cli", "report"}


@cache
def code() -> str:
    """What tells one state of the library's code from another."""
    folder = Path(privem.__file__).parent
    files = sorted(path for path in folder.rglob("*") if path.suffix in (".py", ".c", ".h", ".cu"))
    read = (f.read_bytes() for f in files if f.relative_to(folder).parts[0] not in _APART)
    return hashlib.sha256(b"".join(read)).hexdigest()[:12]


def plain(value: Any) -> Any:
    """What JSON holds, for NumPy's kinds of it."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    raise TypeError(f"a cell's result must be numbers and texts, not {type(value).__name__}")


def text(value: Any) -> str:
    """As JSON."""
    return json.dumps(value, indent=1, default=plain, allow_nan=False) + "\n"


@dataclass(frozen=True)
class Job:
    """A cell to be run.

    Parameters
    ----------
    cell : Cell
    seed : bytes
        Of its noise: the same whatever the code.
    key : str
        Tells it from every other cell, and from the same one in other code.
    """

    cell: Cell
    seed: bytes
    key: str

    @classmethod
    def of(cls, cell: Cell, version: int) -> Job:
        """The job of a cell, of that version of the paper's code."""
        words = text([cell.name, cell.arguments, version])
        seed = hashlib.sha256(words.encode()).digest()
        made = inspect.getsource(cell.function) + code()
        return cls(cell, seed, hashlib.sha256(seed + made.encode()).hexdigest()[:24])


@dataclass(frozen=True)
class Store:
    """The folder of finished cells."""

    folder: Path

    def path(self, job: Job) -> Path:
        """Where a cell is, or will be."""
        return self.folder / "cells" / f"{job.cell.name}-{job.key}.json"

    def has(self, job: Job) -> bool:
        """Whether it is finished."""
        return self.path(job).exists()

    def rows(self, job: Job) -> list[Row]:
        """Arguments and results of a finished cell."""
        return [job.cell.arguments | row for row in self._read(job)["rows"]]

    def seconds(self, job: Job) -> float:
        """What a cell took, of the processor; nothing, if it is not finished."""
        return float(self._read(job)["seconds"]) if self.has(job) else 0.0

    def keep(self, job: Job, rows: list[Row], seconds: float) -> None:
        """Remember what a cell came to."""
        path = self.path(job)
        path.parent.mkdir(parents=True, exist_ok=True)
        found = {"cell": job.cell.name, "arguments": job.cell.arguments, "code": code()}
        with write_whole(path) as temporary:
            temporary.write_text(text({**found, "seconds": round(seconds, 3), "rows": rows}))

    def _read(self, job: Job) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.path(job).read_text("utf-8"))
        return found
