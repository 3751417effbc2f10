"""Arguments that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["Data", "Header", "Json", "ModelFile"]

# Described in each command's own text and hidden from the list of arguments: typer 0.20 loses an
# argument's help under click 8.5.
Data = Annotated[Path, typer.Argument(metavar="DATA", hidden=True)]
ModelFile = Annotated[Path, typer.Argument(metavar="MODEL", hidden=True)]
Header = Annotated[
    bool | None,
    typer.Option(
        "--header/--no-header",
        help="Whether the first line of a CSV file is a header, or data (columns are then called "
        "x0, x1, ...). Default: it is, and one that could be data is refused.",
        show_default=False,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object, errors included.")]
