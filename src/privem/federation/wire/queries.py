"""Which public values travel, and what a party checks before it believes one.

A query arrives from a server that a party does not trust. Its sensitivity is derived beside its
code under conditions (a radius that covers the region, positive scales, matching shapes) which a
plan always meets and a forged message need not. They are checked here, family by family, so that
what a party charges bounds what it sends. Fields that are part of a query's proof (``view``,
``block_rows``) never travel.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...core import Spent
from ...noise.discrete import Discrete
from ...noise.exact import Exact
from . import gradient as wire_gradient
from . import mixture as wire_mixture
from . import regression as wire_regression
from .codec import BadMessage, decode, encode

__all__ = ["check_persons", "check_query", "pack", "unpack"]

_FAMILIES = (wire_mixture, wire_gradient, wire_regression)

# What travels, by name: the class and the fields that do.
_FIELDS: dict[type, tuple[str, ...]] = {
    Discrete: ("multiplier", "neighbours", "rows"),
    Exact: (),
    Spent: ("name", "kind", "dimension", "sensitivity", "slack", "grid", "steps", "cell"),
}
for _family in _FAMILIES:
    _FIELDS |= _family.FIELDS
_BY_NAME = {cls.__name__: cls for cls in _FIELDS}
assert len(_BY_NAME) == len(_FIELDS)


def _take_apart(value: Any) -> tuple[str, dict[str, Any]] | None:
    fields = _FIELDS.get(type(value))
    if fields is None:
        return None
    if getattr(value, "seed", None) is not None:
        raise TypeError("random responsibilities go by row number, which a federation has not")
    return type(value).__name__, {name: getattr(value, name) for name in fields}


def _build(name: str, fields: dict[str, Any]) -> Any:
    cls = _BY_NAME.get(name)
    if cls is None or set(fields) != set(_FIELDS[cls]):
        raise BadMessage("the message holds a value of an unknown kind")
    return cls(**fields)


def pack(kind: str, body: Any) -> bytes:
    """A message that may hold public values."""
    return encode(kind, body, _take_apart)


def unpack(message: bytes, kind: str, own: bool = False) -> dict[str, Any]:
    """The body of a message of this kind, a mapping; raises :class:`BadMessage`.

    ``own``: it is what one wrote down oneself, which may be of any size.
    """
    found, body = decode(message, _build, own)
    if found != kind or not isinstance(body, dict):
        raise BadMessage(f"expected a message of kind {kind!r}")
    return body


def check_query(query: Any, d: int, private: bool) -> None:
    """Raise :class:`BadMessage` unless the query is sound for rows of ``d`` columns.

    ``private``: it is to be answered with noise, so that what one record adds must be bounded.
    """
    if not any(family.check(query, d, private) for family in _FAMILIES):
        raise BadMessage("the question is none that a party answers")


def check_persons(query: Any) -> None:
    """Raise :class:`BadMessage` unless the query's bound for a record holds for a person.

    The rows of a person with m of them weigh 1/m each. Where a query caps weights at less than one,
    it caps each row's, and together they may move the sum by more than the cap times the bound.
    """
    caps = [value for value in _caps(query) if value is not None]
    sampled = getattr(query, "view", "rows") in ("persons", "pairs")
    if not (caps or sampled) or any(cap < 1 for cap in caps):
        raise BadMessage("the question caps the weight of records, and this party's are persons'")


def _caps(value: Any) -> Iterator[Any]:
    """Every cap on weights in a public value."""
    for name in _FIELDS.get(type(value), ()):
        part = getattr(value, name)
        if name == "cap_weight":
            yield part
        yield from _caps(part)
