"""Events as dictionaries that JSON can hold, and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from .events import Composed, Event, Failure, Gaussian, Laplace, NoPrivacy, Nothing

_KINDS: dict[str, type[Gaussian | Laplace | Failure | NoPrivacy | Nothing]] = {
    "gaussian": Gaussian,
    "laplace": Laplace,
    "failure": Failure,
    "no-privacy": NoPrivacy,
    "nothing": Nothing,
}
_NAMES = {kind: name for name, kind in _KINDS.items()}


def to_dict(event: Event) -> dict[str, Any]:
    """The event as a dictionary that JSON can hold.

    Examples
    --------
    >>> from privem.accounting.events import Laplace
    >>> to_dict(Laplace(4.0))
    {'kind': 'laplace', 'noise_multiplier': 4.0, 'dimension': 1}
    """
    if isinstance(event, Composed):
        parts = [{"count": count, "event": to_dict(part)} for part, count in event.parts]
        return {"kind": "composed", "parts": parts}
    values = {field.name: getattr(event, field.name) for field in fields(event)}
    return {"kind": _NAMES[type(event)], **values}


def from_dict(data: Mapping[str, Any]) -> Event:
    """The event that `to_dict` wrote.

    Examples
    --------
    >>> from_dict({"kind": "laplace", "noise_multiplier": 4.0})
    Laplace(noise_multiplier=4.0, dimension=1)
    """
    if not isinstance(data, Mapping) or "kind" not in data:
        raise ValueError(f"a privacy event is a dictionary with a 'kind', got {data!r}")
    given = {key: value for key, value in data.items() if key != "kind"}
    kind = data["kind"]
    try:
        if kind == "composed":
            parts = given.pop("parts")
            if not given:
                return Composed(tuple((from_dict(part["event"]), part["count"]) for part in parts))
            raise TypeError(f"unexpected {sorted(given)}")
        if kind in _KINDS:
            return _KINDS[kind](**given)
    except (TypeError, KeyError) as problem:
        raise ValueError(f"malformed privacy event of kind {kind!r}: {problem}") from problem
    known = ", ".join(sorted([*_KINDS, "composed"]))
    raise ValueError(f"unknown privacy event kind {kind!r}; known kinds: {known}")
