"""Schemas as TOML, and drafts of them for a person to complete."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

import polars as pl

from .mixed import open_columns
from .values import is_frame

# What a person has yet to fill in.
BLANK = "?"
DRAFT = """\
# A draft of a schema. Complete every "?" from what is known without looking at the rows.
#   type: "int", "float", "bool", "str", "date", "datetime", or "skip" to leave the column out
#   bounds: [lowest, highest], as numbers or like ["2019-01-31", "2025-12-31"]. Leave them out
#     ("int" and "float" only), and a private fit finds them, out of its budget; in [0, inf] the
#     upper one
#   categories: ["a", "b"], instead of a type. With type = "str" instead, a private fit finds those
#     that many records have, out of its budget; all others count as one more, "other"
#   others: true if the last category stands for all that are not listed; may be left out
#   decimals: how many digits numbers have behind the point; may be left out
#   format: how dates are written, like "%m/%d/%Y"; not needed for 2025-01-31 or 31.01.2025
#   missing: true if values may be missing, else false
# If something holds between columns, say so before [columns]:
#   constraints = ["years_employed <= age", "education -> education_num"]
# All of it becomes public with a model: describe what values can be, not those of the rows.
[columns]
"""


def draft_of(source: Any, header: bool | None) -> str:
    """The draft of a table's schema; see :meth:`privem.Schema.draft`."""
    opened = open_columns(source.head(0) if is_frame(source) else source, header)
    if opened.header.public is not None:
        raise ValueError(
            f"{opened.label}: a draft shows the column names; header=True (--header at the "
            "command line) says that the first line is a header, and not somebody's record"
        )
    lines = [
        f"{toml_key(name)} = {drafted(kind, opened.typed)}\n" for name, kind in opened.types.items()
    ]
    return DRAFT + "".join(lines)


def drafted(kind: Any, typed: bool) -> str:
    """What a column is as far as its polars type says, if its table declares one (``typed``).

    Examples
    --------
    >>> drafted(pl.Boolean, typed=True)
    '{type = "bool", missing = "?"}'
    """
    if not typed:
        return '{type = "?", missing = "?"}'
    if kind == pl.Boolean:
        return '{type = "bool", missing = "?"}'
    if kind.is_numeric():
        said = "int" if kind.is_integer() else "float"
        return f'{{type = "{said}", bounds = "?", missing = "?"}}'
    if kind in (pl.Date, pl.Datetime):
        said = "date" if kind == pl.Date else "datetime"
        return f'{{type = "{said}", bounds = "?", missing = "?"}}'
    if kind in (pl.String, pl.Categorical, pl.Enum):
        return '{categories = "?", missing = "?"}'
    return '{type = "skip"}  # of a type that a schema cannot describe'


def toml_text(saved: Mapping[str, Any]) -> str:
    """A schema as values that files can hold, as TOML."""
    held = "".join(f"  {toml(each)},\n" for each in saved.get("constraints", ()))
    lines = (f"{toml_key(name)} = {toml(each)}\n" for name, each in saved["columns"].items())
    known = f"constraints = [\n{held}]\n\n" if held else ""
    return f"{known}[columns]\n{''.join(lines)}"


def toml_key(name: str) -> str:
    """A name as a key of TOML."""
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else toml(name)


def toml(value: Any) -> str:
    """A value in TOML, on one line."""
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{toml_key(key)} = {toml(each)}' for key, each in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(toml, value))}]"
    if isinstance(value, float) and math.isinf(value):
        return "inf" if value > 0 else "-inf"
    # JSON's numbers, booleans and text are TOML's too, but for one control character.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
