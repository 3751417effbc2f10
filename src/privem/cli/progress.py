"""Progress of a long fit, on standard error, for people only."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from ..core import Block, Release, Rows, Stage

# Work that is over sooner needs no bar.
_PATIENCE_SECONDS = 1.0


@dataclass
class WatchedRows:
    """Rows that count themselves as they are read."""

    rows: Rows
    seen: Callable[[int], None] = lambda rows: None
    """Called with the number of rows of this pass so far."""
    count: int = 0
    """Rows of the last whole pass."""
    total_weight: float = 0.0
    """Sum of their weights."""

    @property
    def n_features(self) -> int:
        """How many columns."""
        return self.rows.n_features

    @property
    def names(self) -> Sequence[str] | None:
        """Column names, if they have any."""
        return self.rows.names

    @property
    def types(self) -> Sequence[str] | None:
        """Column types, if they are declared."""
        return getattr(self.rows, "types", None)

    @property
    def header(self) -> Any:
        """Which column names messages may quote."""
        return getattr(self.rows, "header", None)

    def blocks(self, rows: int) -> Iterator[Block]:
        """All rows in order, at most ``rows`` at a time."""
        count, weight = 0, 0.0
        for block in self.rows.blocks(rows):
            count += len(block.X)
            weight += len(block.X) if block.weight is None else float(block.weight.sum())
            self.seen(count)
            yield block
        if not count:
            raise ValueError("the data has no rows")
        self.count, self.total_weight = count, weight


class FitProgress:
    """A bar that appears if a fit takes longer than a second and a person is looking.

    Parameters
    ----------
    max_iter : int or None
        Where the bar would be full; most fits stop earlier. ``None``: nobody knows.
    quiet : bool
        Show nothing.
    timed : bool
        Show the time as well. Not of a private fit: its time depends on the rows, and screens are
        shared and recorded.
    """

    def __init__(self, max_iter: int | None, quiet: bool, timed: bool = False) -> None:
        console = Console(stderr=True)
        self._shown = console.is_terminal and not console.is_dumb_terminal and not quiet
        self._bar = Progress(
            SpinnerColumn("line"),
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=16),
            TextColumn("{task.fields[remark]}", markup=False),
            TextColumn("{task.fields[rows]}", markup=False),
            *([TimeElapsedColumn()] if timed else []),
            console=console,
            transient=True,
        )
        total = None if max_iter is None else max(max_iter, 1)
        self._task = self._bar.add_task("pass 1", total=total, remark="", rows="")
        self._passes = 0
        # A timer and not the first pass decides when to appear: a pass may take minutes.
        self._timer = threading.Timer(_PATIENCE_SECONDS, self._bar.start)
        self._timer.daemon = True

    def __enter__(self) -> Self:
        if self._shown:
            self._timer.start()
        return self

    def __exit__(self, *exc: object) -> None:
        if self._shown:
            self._timer.cancel()
            self._timer.join()
            self._bar.stop()

    def pause(self) -> None:
        """Show nothing from now on until something has happened: somebody is asked a question."""
        if self._shown:
            self._timer.cancel()
            self._bar.stop()

    def seen(self, rows: int) -> None:
        """So many rows of this pass have been read."""
        self._bar.tasks[0].fields["rows"] = f"{rows:,} rows"

    def step(self, description: str, done: int) -> None:
        """So many steps are done, and this is the next."""
        self._bar.update(self._task, description=description, completed=done)

    def watch(self, stage: Stage, release: Release[Any]) -> None:
        """A pass over the rows is over."""
        iteration = re.search(r"(\d+)$", stage.name)
        done, self._passes = int(iteration[1]) if iteration else 0, self._passes + 1
        said = f"pass {self._passes}: {stage.name}"
        self._bar.update(self._task, description=said, completed=done, remark=stage.progress)
