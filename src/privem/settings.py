"""``privem.toml``: what a project takes for granted, and where it is looked up.

The file is looked up in the current folder and then upwards, as far as the root of the repository
or the home folder that it lies in; where there is neither, in the current folder alone. So a
project's file is found from everywhere in the project, and nobody else's is. ``PRIVEM_CONFIG``
names another file, or none if it is empty.

The library takes the ledger from it and nothing else: fits of a project that keeps a budget must
not miss it, wherever they are started. What a fit computes, and how private it is, is said in the
program. The command line takes the rest as defaults of its options.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FILE = "privem.toml"
VARIABLE = "PRIVEM_CONFIG"


class SettingsError(ValueError):
    """A ``privem.toml`` that cannot be read, or says what nobody understands."""


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return _is_whole(value) or (
        isinstance(value, str) and re.fullmatch(r"\d+\.\.\d+", value) is not None
    )


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def _are_bounds(value: Any) -> bool:
    return isinstance(value, dict) and all(
        isinstance(each, list)
        and len(each) == 2
        and all(map(_is_number, each))
        and each[0] < each[1]
        for each in value.values()
    )


_TEXT = "a text", _is_text
_NUMBER = "a number", _is_number
_WHOLE = "a whole number", _is_whole
_TEXTS = "a list of texts", _are_texts
# What the file may say: what it looks like in words, and whether it does.
KEYS: Mapping[str, tuple[str, Callable[[Any], bool]]] = {
    "ledger": _TEXT,
    "epsilon": _NUMBER,
    "delta": _NUMBER,
    "neighbours": _TEXT,
    "accountant": _TEXT,
    "groups": _TEXT,
    "weight": _TEXT,
    "max_weight": _NUMBER,
    "max_rows": _WHOLE,
    "bounds": ("a table of columns, each [low, high] with low below high", _are_bounds),
    "categories": (
        "a table of columns, each a list of texts",
        lambda value: isinstance(value, dict) and all(map(_are_texts, value.values())),
    ),
    "exclude": _TEXTS,
    "target": _TEXT,
    "schema": _TEXT,
    "model": _TEXT,
    "components": ('a whole number, or a range like "2..8"', _is_count),
    "seed": _WHOLE,
    "n_jobs": _WHOLE,
}


@dataclass(frozen=True)
class Settings:
    """What a file says, checked; nothing, if there is none."""

    path: Path | None = None
    values: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Settings:
        """The settings of a file."""
        import tomllib

        where = repr(os.fspath(path))
        try:
            found = tomllib.loads(Path(path).read_text(encoding="utf-8"))
        except OSError as error:
            raise SettingsError(f"{where} cannot be read: {error.strerror}") from None
        except ValueError as error:  # not UTF-8, or not TOML
            raise SettingsError(f"{where} is not TOML: {error}") from None
        values = {key.replace("-", "_"): value for key, value in found.items()}
        for key, value in values.items():
            if key not in KEYS:
                near = difflib.get_close_matches(key, KEYS, n=1)
                known = f"did you mean {near[0]!r}?" if near else f"keys are {', '.join(KEYS)}"
                raise SettingsError(f"{where} has an unknown key {key!r}: {known}")
            form, fits = KEYS[key]
            if not fits(value):
                raise SettingsError(f"{where}: {key} is {form}, got {value!r}")
        here = Path(path).resolve()
        for key in ("ledger", "schema"):
            if key in values:
                values[key] = _from(here.parent, values[key])
        return cls(here, values)

    @property
    def ledger(self) -> str | None:
        """The data set's ledger, if the file names one."""
        return self.values.get("ledger")


def _from(folder: Path, place: str) -> str:
    """A path as it is meant in a file in ``folder``; URLs and absolute paths as they are."""
    return place if "://" in place else str(folder / place)


def find_settings() -> Path | None:
    """The file that holds here, if there is one."""
    named = os.environ.get(VARIABLE)
    if named is not None:
        return Path(named) if named else None
    # A folder of this name, or a link that leads nowhere, is an error and not passed over: the
    # ledger that it should name would be missed.
    return next((folder / FILE for folder in _folders() if os.path.lexists(folder / FILE)), None)


def _folders() -> Iterator[Path]:
    """The current folder, and those above it that belong to the same project."""
    try:
        here = Path.cwd()
    except FileNotFoundError:  # it was removed
        return
    above = (here, *here.parents)
    # The current folder has no links in its path, so that of home may have none either.
    home = Path(os.path.realpath(os.path.expanduser("~")))
    ends = [k for k, folder in enumerate(above) if folder == home or (folder / ".git").exists()]
    yield from above[: ends[0] + 1 if ends else 1]


def current_settings() -> Settings:
    """What holds here."""
    path = find_settings()
    return Settings() if path is None else Settings.read(path)
