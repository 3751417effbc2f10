"""Accountants by name."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

from . import auto, gdp, pld, rdp, zcdp
from .classic import advanced, linear, moments
from .events import Event


@dataclass(frozen=True)
class Accountant:
    """A name and two functions: `epsilon(event, delta)` and `delta(event, epsilon)`."""

    name: str
    epsilon: Callable[[Event, float], float]
    delta: Callable[[Event, float], float]


def _classical(name: str, module: object) -> Accountant:
    verbs = (
        functools.partial(getattr(module, verb), form="classical") for verb in ("epsilon", "delta")
    )
    return Accountant(name, *verbs)


ACCOUNTANTS: dict[str, Accountant] = {
    accountant.name: accountant
    for accountant in (
        Accountant("auto", auto.epsilon, auto.delta),
        Accountant("gdp", gdp.epsilon, gdp.delta),
        Accountant("zcdp", zcdp.epsilon, zcdp.delta),
        Accountant(
            "zcdp-loose",
            functools.partial(zcdp.epsilon, conversion="loose"),
            functools.partial(zcdp.delta, conversion="loose"),
        ),
        Accountant("rdp", rdp.epsilon, rdp.delta),
        Accountant("pld", pld.epsilon, pld.delta),
        Accountant("moments", moments.epsilon, moments.delta),
        Accountant("advanced", advanced.epsilon, advanced.delta),
        _classical("advanced-classical", advanced),
        Accountant("linear", linear.epsilon, linear.delta),
        _classical("linear-classical", linear),
    )
}


def accountant_named(name: str) -> Accountant:
    """The accountant called `name`, or a ValueError that lists them all.

    Examples
    --------
    >>> accountant_named("gdp").name
    'gdp'
    """
    try:
        return ACCOUNTANTS[name]
    except (KeyError, TypeError):
        raise ValueError(
            f"unknown accountant {name!r}; choose one of {', '.join(ACCOUNTANTS)}"
        ) from None
