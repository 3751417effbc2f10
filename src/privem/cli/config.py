"""``privem.toml`` as defaults of options; ``privem config`` shows what is in force.

An option goes before the environment, the environment before the file, and the file before the
default. The ledger is no default of an option: the library itself takes it from the environment or
from the file (:mod:`privem.fit`).
"""

from __future__ import annotations

import csv
import io
import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from ..settings import KEYS, VARIABLE, Settings, SettingsError, current_settings
from . import options
from .failures import PROBLEM, Command
from .ledger import VARIABLE as LEDGER

# What each command takes from the file: keys, by the names of the parameters of its function.
_FITTED = (
    *("model", "components", "target", "weight", "groups", "exclude", "schema", "categories"),
    *("epsilon", "delta", "bounds", "neighbours", "accountant", "max_weight", "max_rows"),
    *("n_jobs", "seed"),
)
_TAKEN: Mapping[tuple[str, ...], Sequence[str]] = {
    ("fit",): _FITTED,
    ("synth",): ("target", "weight", "groups", "exclude", "schema", "epsilon", "delta", "seed"),
    ("score",): ("delta", "groups"),
    ("federate", "run"): ("model", "components", "epsilon", "delta", "neighbours", "seed"),
    ("report",): ("ledger",),
    **{("ledger", name): ("ledger",) for name in ("init", "show", "history", "export")},
}


def use_settings(named: Path | None) -> None:
    """Make the file that holds here the defaults of the command that follows."""
    context = click.get_current_context()
    if named is not None:
        _set(VARIABLE, str(named.absolute()))
    try:
        context.default_map = defaults(current_settings())
    except SettingsError as problem:
        context.meta[PROBLEM] = str(problem)


def _set(name: str, value: str) -> None:
    """Set a variable of the environment until the command has ended."""
    before = os.environ.get(name)
    os.environ[name] = value

    def restore() -> None:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before

    click.get_current_context().call_on_close(restore)


def from_file() -> frozenset[str]:
    """The parameters of the command that the file says, and nobody else."""
    context = click.get_current_context()
    source = context.get_parameter_source
    return frozenset(n for n in context.params if source(n) is ParameterSource.DEFAULT_MAP)


def defaults(settings: Settings) -> dict[str, Any]:
    """What a file says, as click takes it: by commands, and as texts of options."""
    found: dict[str, Any] = {}
    for command, keys in _TAKEN.items():
        inner = found
        for word in command:
            inner = inner.setdefault(word, {})
        for key in keys:
            if key in settings.values:
                inner[_parameter(command, key)] = _texts(key, settings.values[key])
    return found


def _parameter(command: Sequence[str], key: str) -> str:
    """The name of the command's parameter that a key is the default of."""
    if key == "ledger" and command[0] == "ledger":
        return "where"
    return "random_state" if key == "seed" else key


def _texts(key: str, value: Any) -> Any:
    """A value as the option is written."""
    match key:
        case "bounds":
            return [f"{name}={low}:{high}" for name, (low, high) in value.items()]
        case "categories":
            return [f"{name}={_with_commas(each)}" for name, each in value.items()]
    return value


def _with_commas(names: Sequence[str]) -> str:
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(names)
    return line.getvalue()


@click.command(cls=Command)
@options.as_json
def config(as_json: bool) -> None:
    """Show the defaults that are in force here, and where they come from.

    An option goes before the environment, the environment before the file privem.toml, and the
    file before the default. The file is looked up in the current folder and upwards, as far as the
    root of the repository or the home folder; --config or PRIVEM_CONFIG names another.
    """
    from .console import emit_either

    settings = current_settings()
    _refuse_bad(settings)
    facts = {key: _in_force(key, settings) for key in KEYS}
    where = None if settings.path is None else str(settings.path)
    said = f"File: {where}\n" if where else "There is no privem.toml here.\n"
    width = max(map(len, facts))
    for key, (value, origin) in facts.items():
        if value is not None:
            said += f"  {key:<{width}}  {json.dumps(value)}  ({origin})\n"
    each = {key: {"value": value, "from": origin} for key, (value, origin) in facts.items()}
    emit_either(as_json, {"file": where, "settings": each}, said)


def _refuse_bad(settings: Settings) -> None:
    """Raise for what an option would not take, whose default it is."""
    for words, keys in _TAKEN.items():
        command: Any = click.get_current_context().find_root().command
        for word in words:
            command = command.commands[word]
        context = command.make_context(words[-1], [], resilient_parsing=True)
        known = {option.name: option for option in command.get_params(context)}
        for key in keys:
            if key not in settings.values:
                continue
            option = known[_parameter(words, key)]
            try:
                option.type_cast_value(context, _texts(key, settings.values[key]))
            except click.BadParameter as problem:
                said = f"{str(settings.path)!r}: {key}: {problem.message}"
                raise click.UsageError(said) from None


def _in_force(key: str, settings: Settings) -> tuple[Any, str]:
    """A value, and where it comes from."""
    if key == "ledger" and LEDGER in os.environ:
        return _without_password(os.environ[LEDGER]) or None, LEDGER
    if key in settings.values:
        value = settings.values[key]
        return _without_password(value) if key == "ledger" else value, "file"
    return options.DEFAULT_MODEL if key == "model" else options.default_of(key), "default"


def _without_password(place: str) -> str:
    """A path or URL that may be shown."""
    shown = re.sub(r"(://[^/@:]*):.*@", r"\1:***@", place)
    return re.sub(r"(password=)[^&#]*", r"\1***", shown)
