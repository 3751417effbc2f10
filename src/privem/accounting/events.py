"""What a release costs, as data.

A mechanism knows how much noise it adds; an accountant knows what that noise buys. Between them
stands an *event*: a small frozen record of the noise, with no data and no opinion on how to price
it. Every accountant prices every event, or says why it cannot, and a saved statement can be priced
again years later.

Leaves are `Gaussian`, `Laplace`, `Failure`, `NoPrivacy` and `Nothing`; `Composed` holds them with
counts. `tally` sorts a whole tree of events by kind, which is all an accountant ever looks at.
`to_dict` and `from_dict` save and load them.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import lru_cache
from typing import Any, TypeAlias


def _positive(name: str, value: float) -> float:
    number = float(value)
    if not (math.isfinite(number) and number > 0):
        raise ValueError(f"{name} must be a finite number above 0, got {value!r}")
    return number


def _whole(name: str, value: int, least: int) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        number = least - 1
    if number < least:
        raise ValueError(f"{name} must be an integer of at least {least}, got {value!r}")
    return number


@dataclass(frozen=True)
class Gaussian:
    """One release with Gaussian noise.

    Parameters
    ----------
    noise_multiplier : float
        Standard deviation over L2 sensitivity, the sensitivity already widened for rounding to the
        lattice.
    dimension : int
        How many coordinates are released.
    steps : float or None
        Standard deviation in lattice steps, where the noise is the discrete Gaussian added to an
        integer vector. None means continuous noise, which no estimator uses; it serves to
        reproduce figures of papers.

    Examples
    --------
    >>> Gaussian(2.0, dimension=3, steps=2**24)
    Gaussian(noise_multiplier=2.0, dimension=3, steps=16777216.0)
    """

    noise_multiplier: float
    dimension: int = 1
    steps: float | None = None

    def __post_init__(self) -> None:
        set_ = object.__setattr__
        set_(self, "noise_multiplier", _positive("noise_multiplier", self.noise_multiplier))
        set_(self, "dimension", _whole("dimension", self.dimension, 1))
        if self.steps is not None:
            set_(self, "steps", _positive("steps", self.steps))


@dataclass(frozen=True)
class Laplace:
    """One release with Laplace noise: pure differential privacy at epsilon = 1 / noise_multiplier.

    Parameters
    ----------
    noise_multiplier : float
        Scale over L1 sensitivity. Discrete Laplace noise on a lattice has the same epsilon,
        exactly.
    dimension : int
        How many coordinates are released; the price does not depend on it.

    Examples
    --------
    >>> Laplace(4.0).epsilon
    0.25
    """

    noise_multiplier: float
    dimension: int = 1

    def __post_init__(self) -> None:
        set_ = object.__setattr__
        set_(self, "noise_multiplier", _positive("noise_multiplier", self.noise_multiplier))
        set_(self, "dimension", _whole("dimension", self.dimension, 1))

    @property
    def epsilon(self) -> float:
        """Pure differential privacy of the release."""
        return 1.0 / self.noise_multiplier


@dataclass(frozen=True)
class Failure:
    """A release that keeps its promise except with probability `delta`.

    The promise itself is another event beside this one. A thresholded histogram is a `Gaussian` and
    the `Failure(delta')` that a bin held by one person alone passes the threshold.

    Examples
    --------
    >>> Failure(1e-9)
    Failure(delta=1e-09)
    """

    delta: float

    def __post_init__(self) -> None:
        number = float(self.delta)
        if not 0 <= number < 1:
            raise ValueError(f"delta of a Failure must be in [0, 1), got {self.delta!r}")
        object.__setattr__(self, "delta", number)


@dataclass(frozen=True)
class NoPrivacy:
    """An exact release: no finite epsilon covers it.

    Examples
    --------
    >>> NoPrivacy()
    NoPrivacy()
    """


@dataclass(frozen=True)
class Nothing:
    """No release at all; costs nothing.

    Examples
    --------
    >>> compose() == Nothing()
    True
    """


@dataclass(frozen=True)
class Composed:
    """Several events, each with how many times it happens, all about the same people.

    The order does not matter and later releases may depend on earlier ones.

    Examples
    --------
    >>> Composed(((Gaussian(2.0), 20), (Laplace(5.0), 1))).parts[0][1]
    20
    """

    parts: tuple[tuple[Event, int], ...]

    def __post_init__(self) -> None:
        checked = tuple((part, _whole("count", count, 0)) for part, count in self.parts)
        for part, _ in checked:
            if not isinstance(part, Event):
                raise ValueError(f"a Composed holds events, got {part!r}")
        object.__setattr__(self, "parts", checked)


Event: TypeAlias = Gaussian | Laplace | Failure | NoPrivacy | Nothing | Composed
Leaf: TypeAlias = Gaussian | Laplace | Failure | NoPrivacy


@dataclass(frozen=True)
class Tally:
    """An event sorted by kind: all that accountants need to know.

    `failure` is the sum of all failure probabilities, rounded up; `exact` says that something was
    released without noise.
    """

    gaussians: tuple[tuple[Gaussian, int], ...] = ()
    laplaces: tuple[tuple[Laplace, int], ...] = ()
    failure: float = 0.0
    exact: bool = False

    @property
    def gaussian_count(self) -> int:
        """How many Gaussian releases there are."""
        return sum(count for _, count in self.gaussians)


def flatten(event: Event) -> tuple[tuple[Leaf, int], ...]:
    """Leaves of an event with their counts, equal leaves merged, in order of first appearance.

    Examples
    --------
    >>> inner = Composed(((Gaussian(2.0), 3), (Laplace(5.0), 1)))
    >>> for leaf, count in flatten(Composed(((inner, 2), (Gaussian(2.0), 1), (Nothing(), 9)))):
    ...     print(count, leaf)
    7 Gaussian(noise_multiplier=2.0, dimension=1, steps=None)
    2 Laplace(noise_multiplier=5.0, dimension=1)
    """
    found: dict[Leaf, int] = {}
    waiting: list[tuple[Event, int]] = [(event, 1)]
    while waiting:
        part, count = waiting.pop()
        match part:
            case Composed(parts=parts):
                waiting.extend((inner, count * times) for inner, times in reversed(parts) if times)
            case Nothing():
                pass
            case Gaussian() | Laplace() | Failure() | NoPrivacy():
                found[part] = found.get(part, 0) + count
            case _:
                raise TypeError(f"expected a privacy event, got {part!r}")
    return tuple(found.items())


def compose(*events: Event) -> Event:
    """Compose `events` into one, flattened and as simple as possible.

    Examples
    --------
    >>> compose(Laplace(5.0), Nothing())
    Laplace(noise_multiplier=5.0, dimension=1)
    >>> compose(Laplace(5.0), Laplace(5.0))
    Composed(parts=((Laplace(noise_multiplier=5.0, dimension=1), 2),))
    """
    parts = flatten(Composed(tuple((event, 1) for event in events)))
    if not parts:
        return Nothing()
    if len(parts) == 1 and parts[0][1] == 1:
        return parts[0][0]
    return Composed(parts)


# A fit prices its releases again before each of them, and many fits have the same.
@lru_cache(maxsize=1024)
def tally(event: Event) -> Tally:
    """Sort an event by kind.

    Examples
    --------
    >>> tally(compose(Gaussian(2.0), Failure(1e-9), Gaussian(2.0))).gaussian_count
    2
    """
    gaussians: list[tuple[Gaussian, int]] = []
    laplaces: list[tuple[Laplace, int]] = []
    failure = Fraction(0)
    exact = False
    for leaf, count in flatten(event):
        match leaf:
            case Gaussian():
                gaussians.append((leaf, count))
            case Laplace():
                laplaces.append((leaf, count))
            case Failure(delta=delta):
                failure += count * Fraction(delta)
            case NoPrivacy():
                exact = True
    rounded = float(failure)
    if Fraction(rounded) < failure:
        rounded = math.nextafter(rounded, math.inf)
    return Tally(tuple(gaussians), tuple(laplaces), rounded, exact)


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
