"""Arguments that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["Data", "Json", "ModelFile"]

# Described in each command's own text and hidden from the list of arguments: typer 0.20 loses an
# argument's help under click 8.5.
Data = Annotated[Path, typer.Argument(metavar="DATA", hidden=True)]
ModelFile = Annotated[Path, typer.Argument(metavar="MODEL", hidden=True)]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object, errors included.")]
