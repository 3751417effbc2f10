"""Accountants by name, the tightest bound that is proved, and how much noise a budget requires.

`auto` chooses among `gdp` and tight `zcdp` where all noise is Gaussian; tight `zcdp` where Laplace
noise is present, and `linear` where there is nothing else (it is then pure differential privacy,
and works at delta = 0). Each candidate that is valid gives a true upper bound and the choice looks
at the event alone, never at data, so the smallest is a true bound too. `pld` is not a candidate:
its convolutions round without a proved bound.

Examples
--------
>>> from privem.accounting.events import Composed, Gaussian, Laplace
>>> round(AUTO.epsilon(Composed(((Laplace(10.0), 5),)), 0.0), 6)
0.5
>>> round(AUTO.delta(Gaussian(1.0, steps=2**24), 1.0), 6)
0.126937
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable

from scipy.optimize import brentq

from .accountant import (
    GDP,
    ZCDP,
    ZCDP_LOOSE,
    Accountant,
    NotValid,
    check_delta,
    check_epsilon,
    gaussian_curve,
    hockey_stick,
    smallest,
)
from .classic import ADVANCED, ADVANCED_CLASSICAL, LINEAR, LINEAR_CLASSICAL, MOMENTS
from .events import Event, tally
from .pld import PLD
from .rdp import RDP

_LEAST, _MOST = 2.0**-60, 2.0**60
_SLOW = ("pld", "rdp")


def _best(event: Event, verb: str, value: float) -> tuple[float, str]:
    bill = tally(event)
    if bill.exact or not bill.laplaces:
        candidates = [GDP, ZCDP]
    else:
        candidates = [ZCDP] if bill.gaussians else [LINEAR, ZCDP]
    answers: list[tuple[float, str]] = []
    for accountant in candidates:
        try:
            answers.append((float(getattr(accountant, verb)(event, value)), accountant.name))
        except NotValid:
            continue
    # zcdp is valid for every event, so there is always an answer; ties go to the first candidate.
    return min(answers, key=lambda answer: answer[0])


def which(event: Event, delta: float) -> str:
    """Name of the accountant whose epsilon `auto` reports at `delta`.

    Examples
    --------
    >>> from privem.accounting.events import Gaussian, Laplace
    >>> which(Gaussian(5.0, steps=2**24), 1e-6), which(Gaussian(5.0, steps=4), 1e-6)
    ('gdp', 'zcdp')
    >>> which(Laplace(5.0), 0.0)
    'linear'
    """
    return _best(event, "epsilon", check_delta(delta))[1]


AUTO = Accountant(
    "auto",
    lambda event, delta: _best(event, "epsilon", check_delta(delta))[0],
    lambda event, epsilon: _best(event, "delta", check_epsilon(epsilon, zero=True))[0],
)
_CLASSIC = (MOMENTS, ADVANCED, ADVANCED_CLASSICAL, LINEAR, LINEAR_CLASSICAL)
ACCOUNTANTS: dict[str, Accountant] = {
    accountant.name: accountant for accountant in (AUTO, GDP, ZCDP, ZCDP_LOOSE, RDP, PLD, *_CLASSIC)
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


def epsilon(event: Event, delta: float, accountant: str = "auto") -> float:
    """Epsilon of an event at `delta`, an upper bound.

    Examples
    --------
    >>> from privem.accounting import NoPrivacy, Nothing
    >>> epsilon(NoPrivacy(), 1e-6), epsilon(Nothing(), 1e-6)
    (inf, 0.0)
    """
    return accountant_named(accountant).epsilon(event, delta)


def delta(event: Event, epsilon: float, accountant: str = "auto") -> float:
    """Delta of an event at `epsilon`, an upper bound.

    Examples
    --------
    >>> from privem.accounting import Failure, NoPrivacy
    >>> delta(NoPrivacy(), 1.0), delta(Failure(1e-9), 1.0)
    (1.0, 1e-09)
    """
    return accountant_named(accountant).delta(event, epsilon)


def _start(
    make_event: Callable[[float], Event], epsilon: float, delta: float, accountant: str
) -> float:
    """Where to look first: for slow accountants at the answer of zcdp, which is fast."""
    if accountant not in _SLOW:
        return 1.0
    try:
        return calibrate(make_event, epsilon, delta, accountant="zcdp")
    except ValueError:
        return 1.0


def _bracket(spent: Callable[[float], float], epsilon: float, start: float) -> tuple[float, float]:
    """Multipliers that are too little and enough; 0 in place of the one that does not exist."""
    low = high = start
    factor = 1.1
    if spent(start) <= epsilon:
        while spent(low := low / factor) <= epsilon:
            if low < _LEAST:
                return 0.0, low
            high, factor = low, min(factor * factor, 1024.0)
    else:
        while spent(high := high * factor) > epsilon:
            if high > _MOST:
                return high, 0.0
            low, factor = high, min(factor * factor, 1024.0)
    return low, high


def calibrate(
    make_event: Callable[[float], Event], epsilon: float, delta: float, accountant: str = "auto"
) -> float:
    """Smallest noise multiplier whose event fits the budget, rounded up.

    Parameters
    ----------
    make_event : callable
        The whole cost of a plan as a function of the noise multiplier; more noise must not cost
        more. Parts may be fixed, and releases may use any increasing function of the multiplier.
    epsilon, delta : float
        The budget.
    accountant : str
        A name in `ACCOUNTANTS`.

    Returns
    -------
    float
        A multiplier at which the accountant was seen to answer at most `epsilon`.

    Raises
    ------
    ValueError
        Where no noise is enough (fixed parts cost more than the budget), or none is needed.

    Examples
    --------
    >>> from privem.accounting import Composed, Gaussian
    >>> round(calibrate(lambda m: Composed(((Gaussian(m, 65, 2**24), 420),)), 1.0, 1e-4), 3)
    65.287
    """
    epsilon, delta = check_epsilon(epsilon), check_delta(delta)
    price = accountant_named(accountant).epsilon
    refused: list[NotValid] = []

    def spent(multiplier: float) -> float:
        try:
            return price(make_event(multiplier), delta)
        except NotValid as problem:
            # Too little noise for the theorem is too little noise; whether any amount is valid
            # shows below.
            refused.append(problem)
            return math.inf

    low, high = _bracket(spent, epsilon, _start(make_event, epsilon, delta, accountant))
    if not low:
        raise ValueError(
            "make_event costs nothing at any noise multiplier: there is nothing to calibrate"
        )
    if not high:
        least = spent(low)
        if refused and math.isinf(least):
            raise refused[-1]
        raise ValueError(
            f"no noise reaches epsilon={epsilon:g} at delta={delta:g} with accountant "
            f"{accountant!r}: "
            f"what does not depend on the noise multiplier costs epsilon={least:g}"
        )

    def excess(log_multiplier: float) -> float:
        # Epsilon is nearly a power of the multiplier, so the logarithms meet in a few secant steps.
        ratio = spent(math.exp(log_multiplier)) / epsilon
        return min(3.0, max(-3.0, math.log(ratio))) if ratio > 0 else -3.0

    # The library's answers are good to about 1e-9; a finer search would chase its rounding.
    fine = 1e-9 if accountant in ("pld", "rdp") else 1e-13
    root = brentq(excess, math.log(low), math.log(high), xtol=fine, rtol=1e-14)
    multiplier, step = math.exp(root), fine
    while multiplier < high and spent(multiplier) > epsilon:
        multiplier, step = multiplier * (1 + step), step * 2
    return min(multiplier, high)


def mu_total(event: Event) -> float:
    """Composed mu of all Gaussian releases, rounded up; infinite for exact releases.

    Examples
    --------
    >>> from privem.accounting.events import Composed, Gaussian
    >>> round(mu_total(Composed(((Gaussian(8.0), 4),))), 9)
    0.25
    """
    bill = tally(event)
    return math.inf if bill.exact else gaussian_curve(bill)[0]


def mu_for(epsilon: float, delta: float) -> float:
    """Largest mu whose (continuous) Gaussian mechanism is (epsilon, delta)-private, rounded down.

    Examples
    --------
    >>> round(mu_for(1.0, 1e-6), 4)
    0.2367
    """
    epsilon, delta = check_epsilon(epsilon), check_delta(delta, zero=False)
    slack = math.sqrt(-2 * math.log(delta))
    # delta <= Phi(-a) <= exp(-a^2/2)/2 at this mu, so it is always small enough.
    low = 2 * epsilon / (math.sqrt(slack * slack + 2 * epsilon) + slack)
    high = max(2 * low, sys.float_info.min)  # doubling zero would never end
    low = high / 2
    while hockey_stick(high, epsilon) <= delta:
        low, high = high, 2 * high
    inverse = smallest(lambda x: hockey_stick(1 / x, epsilon) <= delta, 1 / high, 1 / low)
    # A little less, so that `epsilon` with its own margin still answers at most epsilon.
    return (1 - 2.0**-38) / inverse
