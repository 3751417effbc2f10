"""How the text of options is read: columns and what is said of them, and a party's limit."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Sequence
from typing import Any

import click
from click.shell_completion import CompletionItem

from ..declaration import declarations


def read_columns(texts: Sequence[str]) -> list[str] | None:
    """Names between commas; a name with a comma in it goes in double quotes."""
    if not texts:
        return None
    found: list[str] = []
    for text in texts:
        names = _between_commas(text)
        if not names or not all(names):
            raise click.UsageError(f"--columns {text!r} does not name columns: expected a,b,c")
        found += names
    return found


def read_types(texts: Sequence[str]) -> dict[str, str]:
    """``COLUMN=TYPE``, checked."""
    if not texts:
        return {}
    from ..data.values import check_type

    return _by_column("--type", "COLUMN=TYPE", texts, check_type)


def read_bounds(texts: Sequence[str]) -> dict[str, tuple[float, float]]:
    """``COLUMN=LOW:HIGH``, checked."""
    return _by_column("--bound", "COLUMN=LOW:HIGH", texts, _low_high)


def _low_high(text: str) -> tuple[float, float]:
    try:
        low, high = map(float, text.split(":"))
    except ValueError:
        raise ValueError("expected two numbers") from None
    if not low < high:
        raise ValueError("expected LOW below HIGH")
    return low, high


def read_categories(texts: Sequence[str]) -> dict[str, list[str]]:
    """``COLUMN=A,B,...``, checked; one with a comma in it goes in double quotes."""
    return _by_column("--category", "COLUMN=A,B,...", texts, _categories, str.partition)


def _categories(text: str) -> list[str]:
    names = _between_commas(text)
    if not names or len(set(names)) < len(names):
        raise ValueError("expected every category once")
    return names


def _by_column(
    option: str,
    form: str,
    texts: Sequence[str],
    read: Callable[[str], Any],
    split: Any = str.rpartition,
) -> dict[str, Any]:
    """What each text says of a column; ``split`` cuts it at the equals sign."""
    found: dict[str, Any] = {}
    for text in texts:
        column, equals, value = split(text, "=")
        try:
            if not equals:
                raise ValueError("there is no equals sign")
            if column in found:
                raise ValueError(f"there is a {option[2:]} of {column!r} already")
            found[column] = read(value)
        except ValueError as error:
            raise click.UsageError(
                f"{option} {text!r} is not {form}, once per column: {error}"
            ) from error
    return found


class Count(click.ParamType):
    """A number of components, or several to choose from: ``5`` or ``2..8``.

    Examples
    --------
    >>> Count().convert("5", None, None), Count().convert("2..4", None, None)
    (5, range(2, 5))
    """

    name = "integer"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number, or the range with both ends."""
        if isinstance(value, range):
            return value
        first, dots, last = str(value).partition("..")
        try:
            low, high = int(first), int(last if dots else first)
        except ValueError:
            self.fail(f"{value!r} is neither a number nor a range like 2..8.", param, ctx)
        if not 1 <= low <= high:
            self.fail(f"{value!r}: numbers are at least 1, and ranges go upwards.", param, ctx)
        return range(low, high + 1) if dots else low


def read_limit(text: str | None) -> float | str | None:
    """A party's ``--epsilon``: a number above zero, ``none``, or nothing said."""
    if text is None:
        return None
    if text.lower() == "none":
        return "none"
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < math.inf:
        raise click.UsageError(f"--epsilon {text!r} is neither a number above 0 nor none")
    return value


def _between_commas(text: str) -> list[str]:
    return [name.strip() for name in next(csv.reader([text], skipinitialspace=True), [])]


def reading(read: Callable[[Any], Any]) -> Callable[[Any, Any, Any], Any]:
    """A callback of click that reads the text of an option."""
    return lambda context, option, value: read(value)


class ModelName(click.ParamType):
    """The name of a model, turned into its declaration."""

    name = "model"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Its declaration."""
        known = {model.command: model for model in declarations()}
        if value not in known:
            self.fail(f"{value!r} is not one of {', '.join(map(repr, known))}.", param, ctx)
        return known[value]

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """The models, for the shell."""
        names = [(model.command, model.description) for model in declarations()]
        return [CompletionItem(n, help=text) for n, text in names if n.startswith(incomplete)]
