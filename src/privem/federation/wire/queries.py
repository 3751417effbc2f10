"""Which public values travel, and what a party checks before it believes one.

A class whose objects may travel says so itself: ``travels`` names the fields that do. All others
keep their defaults at a party, because a query's proof may rest on them (``view``,
``block_rows``). Such classes are in the building blocks and in the modules that models declare
(:attr:`privem.declaration.Declaration.queries`). No other class is ever built from a message.

Before a party answers, every part of the query must have the type that its class declares, and
the query must meet the conditions of its own proof (:mod:`privem.blocks.conditions`).
"""

from __future__ import annotations

import pkgutil
import types
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

import numpy as np

from ... import blocks
from ...blocks.conditions import Unsound, need
from ...core import Spent
from ...declaration import declarations
from ...linalg import Array
from ...noise.discrete import Discrete
from ...noise.exact import Exact
from .codec import BadMessage, decode, encode

T = TypeVar("T")

_SPENT = ("name", "kind", "dimension", "sensitivity", "slack", "grid", "steps", "cell")


@cache
def vocabulary() -> dict[str, tuple[type, dict[str, Any]]]:
    """What travels, by name: the class, and the fields that do with their types."""
    travels = [(Discrete, ("multiplier", "neighbours", "rows")), (Exact, ()), (Spent, _SPENT)]
    modules = {f"{blocks.__name__}.{found.name}" for found in pkgutil.iter_modules(blocks.__path__)}
    modules |= {f"privem.{module}" for each in declarations() for module in each.queries}
    for module in sorted(modules):
        for name, value in vars(import_module(module)).items():
            here = getattr(value, "__module__", None) == module and not name.startswith("_")
            if here and hasattr(value, "travels"):
                travels.append((value, value.travels))
    found: dict[str, tuple[type, dict[str, Any]]] = {}
    for cls, fields in travels:
        if cls.__name__ in found:
            raise TypeError(f"two classes named {cls.__name__} travel; a message could mean either")
        hints = _types(cls)
        found[cls.__name__] = cls, {name: hints[name] for name in fields}
    return found


def _fields(value: Any) -> dict[str, Any] | None:
    """The fields of a value that travel, with their types; ``None`` if it does not travel."""
    cls, fields = vocabulary().get(type(value).__name__, (None, {}))
    return fields if cls is type(value) else None


def _take_apart(value: Any) -> tuple[str, dict[str, Any]] | None:
    fields = _fields(value)
    if fields is None:
        return None
    if getattr(value, "seed", None) is not None:
        raise TypeError("random responsibilities go by row number, which a federation has not")
    return type(value).__name__, {name: getattr(value, name) for name in fields}


def _build(name: str, fields: dict[str, Any]) -> Any:
    cls, wanted = vocabulary().get(name, (None, {}))
    if cls is None or set(fields) != set(wanted):
        raise BadMessage("the message holds a value of an unknown kind")
    return cls(**fields)


def pack(kind: str, body: Any) -> bytes:
    """A message that may hold public values."""
    return encode(kind, body, _take_apart)


def unpack(message: bytes, kind: str, own: bool = False) -> dict[str, Any]:
    """The body of a message of this kind, a mapping; raises :class:`BadMessage`.

    ``own``: the caller wrote the bytes itself, so they may be of any size.
    """
    found, body = decode(message, _build, own)
    if found != kind or not isinstance(body, dict):
        raise BadMessage(f"expected a message of kind {kind!r}")
    return body


@cache
def _types(cls: Any) -> dict[str, Any]:
    return get_type_hints(cls)


def read(cls: type[T], message: bytes, kind: str) -> T:
    """A message that holds the fields of ``cls``, each of its type; raises :class:`BadMessage`."""
    body, hints = unpack(message, kind), _types(cls)  # type: ignore[arg-type]
    if body.keys() != hints.keys() or not all(_is_a(body[key], hints[key]) for key in hints):
        raise BadMessage(f"the {kind} is malformed")
    return cls(**body)


def check_query(query: Any, d: int, private: bool) -> None:
    """Raise :class:`BadMessage` unless the query is sound for rows of ``d`` columns.

    ``private``: it is to be answered with noise, so that what one record adds must be bounded.
    """
    if _fields(query) is None or not _is_query(type(query)):
        known = sorted(name for name, (cls, _) in vocabulary().items() if _is_query(cls))
        raise BadMessage(f"unknown query type; this party answers: {', '.join(known)}")
    try:
        need(_is_typed(query))
        need(hasattr(query, "groups") or not private)
        query.check(d, private)
    except (Unsound, OverflowError) as problem:  # or a number too large to compare
        raise BadMessage(str(problem)) from None


def _is_query(cls: type) -> bool:
    return hasattr(cls, "block_rows") and hasattr(cls, "check")


def _is_typed(value: Any) -> bool:
    """Whether all fields of a value that travel have the types they are declared with."""
    fields = _fields(value)
    return fields is not None and all(
        _is_a(getattr(value, name), hint) for name, hint in fields.items()
    )


def _is_a(value: Any, hint: Any) -> bool:
    """Whether a value has this type, all the way down; arrays are of doubles."""
    if hint in (int, bool, str, bytes, types.NoneType):
        return type(value) is hint
    if hint is Any:
        return True
    origin, parts = get_origin(hint), get_args(hint)
    if origin is types.UnionType:
        return any(_is_a(value, part) for part in parts)
    if origin is tuple:
        if not isinstance(value, tuple):
            return False
        parts = parts[:1] * len(value) if parts[-1] is Ellipsis else parts
        return len(value) == len(parts) and all(map(_is_a, value, parts))
    if hint == Array:
        return isinstance(value, np.ndarray) and value.dtype == np.float64 and value.ndim > 0
    if hint is float:
        return isinstance(value, (float, int)) and not isinstance(value, bool)
    if origin is Mapping:
        return isinstance(value, dict) and all(_is_a(part, parts[1]) for part in value.values())
    return _is_typed(value) and isinstance(value, hint)


def check_persons(query: Any) -> None:
    """Raise :class:`BadMessage` unless the query's bound for a record holds for a person.

    The rows of a person with m of them weigh 1/m each. Where a query caps weights at less than one,
    it caps each row's, and together they may move the sum by more than the cap times the bound.
    """
    caps = [value for value in _caps(query) if value is not None]
    sampled = getattr(query, "view", "rows") == "persons"
    if not (caps or sampled) or any(cap < 1 for cap in caps):
        raise BadMessage("the question caps the weight of records, and this party's are persons'")


def _caps(value: Any) -> Iterator[Any]:
    """Every cap on weights in a public value."""
    for name in _fields(value) or ():
        part = getattr(value, name)
        if name == "cap_weight":
            yield part
        yield from _caps(part)
