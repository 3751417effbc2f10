"""Text for people: plain at 80 columns, a little colour where the terminal has some."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Console, RenderableType
from rich.table import Table

from ..report.numbers import cells_of
from .failures import writing_stdout

# How the library's warnings name what is an option at the command line; the longest first.
_OPTIONS = {
    "bounds= and target_bounds=": "--bound COLUMN=LOW:HIGH",
    "give target_bounds=": "give --bound COLUMN=LOW:HIGH",
    "give bounds=": "give --bound COLUMN=LOW:HIGH",
    "max_iter or tol": "--max-iter or --tol",
    "max_iter, tol,": "--max-iter, --tol,",
    "than n_clusters (": "than -k (",
    "with groups=": "with --groups COLUMN",
    " (structure_ is 'single')": "",
    "give init=, or use": "use",
}
_MAX_COLUMNS, _MAX_ROWS, _MAX_NAME = 24, 24, 20


def emit(text: str) -> None:
    """Write to standard output, at once; what its encoding cannot say is replaced."""
    encoding = sys.stdout.encoding or "utf-8"
    with writing_stdout():
        sys.stdout.write(text.encode(encoding, "replace").decode(encoding))
        sys.stdout.flush()


def emit_json(value: dict[str, Any]) -> None:
    """Write one JSON object to standard output."""
    emit(json.dumps(value, indent=2, allow_nan=False) + "\n")


def emit_line(value: dict[str, Any]) -> None:
    """Write one JSON object on a line of its own: one of many."""
    emit(json.dumps(value, allow_nan=False) + "\n")


def emit_either(as_json: bool, value: dict[str, Any], text: str) -> None:
    """Write one JSON object, or the same for people."""
    if as_json:
        emit_json(value)
    else:
        emit(text)


def note(text: str) -> None:
    """A remark that is not a result: to standard error."""
    print(f"note: {' '.join(text.split())}", file=sys.stderr, flush=True)


def remarks(caught: Sequence[Any]) -> list[str]:
    """What a fit warned of, each once, with options for parameters."""
    said = (str(warning.message) for warning in caught)
    return list(dict.fromkeys(in_options(text) for text in said))


def in_options(text: str) -> str:
    """The library's words, with options for parameters."""
    for parameter, option in _OPTIONS.items():
        text = text.replace(parameter, option)
    return text


def show(*things: RenderableType) -> None:
    """Print text and tables to standard output."""
    # Text from data (column names) must not be read as markup, nor numbers be coloured in.
    console = Console(highlight=False, markup=False, emoji=False)
    with writing_stdout(), console.capture() as capture:  # its end flushes standard output
        for thing in things:
            console.print(thing, soft_wrap=isinstance(thing, str))
    emit("".join(f"{line.rstrip()}\n" for line in capture.get().splitlines()))


def aligned(title: str, facts: Mapping[str, Any]) -> str:
    """A title, and facts below it.

    Examples
    --------
    >>> print(aligned("people.csv", {"rows": 400, "columns": 6}))
    people.csv
      rows                   400
      columns                6
    """
    return "\n".join([title, *(f"  {key:<22} {value}" for key, value in facts.items())])


def numbers(
    corner: str,
    rows: Sequence[str],
    columns: Sequence[str],
    values: Sequence[Sequence[float]],
    errors: Sequence[Sequence[float]] | None = None,
) -> list[RenderableType]:
    """A table of numbers with row and column names, cut into pieces as wide as the terminal.

    ``errors``: their standard errors, where they have any.
    """
    width = Console().width
    labels = [corner, *(_short(row) for row in rows[:_MAX_ROWS])]
    used = first = max(map(len, labels)) + 2
    pieces: list[RenderableType] = []
    group: list[tuple[str, list[str]]] = []
    for j, column in enumerate(columns[:_MAX_COLUMNS]):
        column_errors = None if errors is None else [line[j] for line in errors]
        cells = cells_of([line[j] for line in values[:_MAX_ROWS]], column_errors)
        name = _short(column)
        wide = max(map(len, [name, *cells])) + 2
        if group and used + wide > width:
            pieces += [table_of(labels, group), ""]
            group, used = [], first
        group.append((name, cells))
        used += wide
    pieces.append(table_of(labels, group))
    left_out = [
        f"{len(all_) - limit} more {what}"
        for all_, limit, what in ((rows, _MAX_ROWS, "rows"), (columns, _MAX_COLUMNS, "columns"))
        if len(all_) > limit
    ]
    if left_out:
        pieces.append(f"  ... and {' and '.join(left_out)}: all are in the model file, or --json\n")
    return pieces


def table_of(labels: list[str], group: list[tuple[str, list[str]]]) -> Table:
    """Rows with labels, the first for their corner; and columns, each a name and its cells."""
    made = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
    made.add_column(labels[0], no_wrap=True)
    for name, _ in group:
        made.add_column(name, justify="right", no_wrap=True)
    for i, label in enumerate(labels[1:]):
        made.add_row(label, *(cells[i] for _, cells in group))
    return made


def _short(name: str) -> str:
    return name if len(name) <= _MAX_NAME else name[: _MAX_NAME - 3] + "..."
