"""Whether the first line of a CSV file is a header: the one place that decides.

Column names are published: they are in the model, in its statement and, in a federation, with the
server. The first line of a file without a header is somebody's record, and must not become names.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

# What stands for "no value": its letters and digits, in lower case ("N/A", "n.a." are "na").
_MISSING = frozenset(
    ["na", "nana", "nan", "nat", "nd", "ka", "null", "none", "nil", "missing", "unknown"]
) | {"undefined", "nodata", "notavailable", "notapplicable"}
# Between cells of files that are separated by something else than commas.
_SEPARATORS = {";": "';'", "\t": "tabs", "|": "'|'"}
# Also names of columns, so they are data only where nothing else is a name.
_PERHAPS = frozenset(["", "yes", "no", "y", "n", "t", "f", "on", "off"])
_MONTHS = "jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec"
_DATE = re.compile(rf"((mon|tue|wed|thu|fri|sat|sun)[a-z]*,?\s+)?({_MONTHS})[a-z]*[\s./-]+\d.*")
_LONGEST = 2**26


@dataclass(frozen=True)
class Header:
    """The names in the first line of CSV files, and which of them a message may quote.

    Until somebody has said that the line is a header, a message quotes only names that the caller
    gave: any other cell may be a record's.
    """

    names: Sequence[str]
    public: Collection[str] | None = ()
    """Names that may be quoted; ``None``: all of them."""

    def quotes(self, name: str) -> bool:
        """Whether a message may quote this name."""
        return self.public is None or name in self.public

    def say(self, name: str) -> str:
        """A column in a message: its name if that may be quoted, else its position."""
        if self.quotes(name):
            return f"column {name!r}"
        return f"column number {list(self.names).index(name) + 1}"

    def has_none(self, label: str, name: str) -> ValueError:
        """The error that there is no column of this name."""
        if self.public is None:
            return ValueError(f"{label} has no column {name!r}; it has {', '.join(self.names)}")
        return ValueError(
            f"{label} has no column {name!r} in its first line; header=True (--header at the "
            "command line) says that this line is a header, and then it is shown here"
        )


def read_header(
    files: Sequence[Path], label: str, header: bool | None, declared: Collection[str] = ()
) -> Header:
    """The names in the first line of CSV files, which all must have the same one.

    Parameters
    ----------
    files : sequence of Path
    label : str
        What errors call the files.
    header : bool or None
        Whether the first line is a header; ``False`` names the columns x0, x1, ...; ``None``
        refuses a line that could be data.
    declared : collection of str
        Names that the caller gave. If every cell is one of them, the line is a header.
    """
    lines = [_first_line(file, label) for file in files]
    if header is False:
        return Header(numbered(len(lines[0])), None)
    if any(line != lines[0] for line in lines):
        raise ValueError(
            f"{label} is not a readable table: its files do not begin with the same first line "
            "(if they have no header, say header=False, or --no-header)"
        )
    cells = lines[0]
    if header:
        twice = sorted({cell for cell in cells if cells.count(cell) > 1})
        if twice:
            raise ValueError(f"{label} names a column twice in its header: {', '.join(twice)}")
        return Header(cells, None)
    named = len(set(cells)) == len(cells) and set(cells) <= set(declared)
    if not (cells and named):
        _refuse_separator(cells, label)
        if could_be_data(cells):
            raise refuse_header(label)
    return Header(cells, frozenset(declared))


def numbered(count: int) -> list[str]:
    """Names of columns that have none: x0, x1, ..."""
    return [f"x{j}" for j in range(count)]


def refuse_header(label: str) -> ValueError:
    """The error that the first line may be a record; says nothing of what is in it."""
    return ValueError(
        f"{label} seems to have no header: its first line could be a record, which must not become "
        "column names. header=True (in read_file, read_table or Party; --header at the command "
        "line) says that it is a header; header=False (--no-header) that it is data, and then "
        "columns are called x0, x1, ..."
    )


def could_be_data(cells: Iterable[str]) -> bool:
    """Whether a first line could be a record rather than names.

    It could, unless every cell is a name, each occurs once, and there is at least one. Numbers,
    dates, times, booleans, missing markers, what begins with ``#`` (a comment, a spreadsheet's
    error), what goes over several lines and whatever has a digit before its first letter are no
    names. Empty cells (pandas writes one above its index) and words like ``yes`` are allowed
    beside a name.

    Examples
    --------
    >>> could_be_data(["age", "height"]), could_be_data(["", "age"])
    (False, False)
    >>> could_be_data(["31", "1.75"]), could_be_data(["age", "1.75"]), could_be_data(["NA", "true"])
    (True, True, True)
    """
    plain = [cell.strip().strip("\"'").strip().lower() for cell in cells]
    if len(set(plain)) < len(plain):
        return True
    rest = [cell for cell in plain if cell not in _PERHAPS]
    return not rest or not all(_is_name(cell) for cell in rest)


def _is_name(cell: str) -> bool:
    """Whether text in lower case can be nothing but a name."""
    first = next((character for character in cell if character.isalnum() or character == "_"), "")
    letters = "".join(character for character in cell if character.isalnum())
    if not (first.isalpha() or first == "_") or cell.startswith("#") or not cell.isprintable():
        return False
    if cell in ("true", "false", "\\n") or letters in _MISSING or _DATE.fullmatch(cell):
        return False
    try:
        float(cell)  # inf, nan, infinity
    except ValueError:
        return True
    return False


def _refuse_separator(cells: Sequence[str], label: str) -> None:
    """Raise for a line that would be one long name because commas are not what separates it."""
    for separator, name in _SEPARATORS.items():
        if len(cells) == 1 and separator in cells[0]:
            raise ValueError(f"{label} is separated by {name}; privem reads commas")


def _first_line(path: Path, label: str) -> list[str]:
    """The cells of the first line that is not empty, as they are written."""
    try:
        # Bytes of later lines that are no text are none of its business.
        with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
            cells = next(filter(None, csv.reader(_lines(file), strict=True)), [])
    except csv.Error:
        cells = ["\0"]
    if any("\0" in cell or "\ufffd" in cell for cell in cells):
        raise ValueError(f"{label} is not a readable table: its first line is not text (UTF-8)")
    return cells


def _lines(file: IO[str]) -> Iterator[str]:
    while line := file.readline(_LONGEST):
        if len(line) == _LONGEST:
            raise csv.Error("a line without an end")
        yield line
