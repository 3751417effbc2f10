"""How much noise a budget requires."""

from __future__ import annotations

import math
from collections.abc import Callable

from scipy.optimize import brentq

from .accountant import NotValid, check_delta, check_epsilon
from .events import Event
from .registry import accountant_named

_LEAST, _MOST = 2.0**-60, 2.0**60
_SLOW = ("pld", "rdp")


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
