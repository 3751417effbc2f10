"""What every accountant is: two functions, `epsilon(event, delta)` and `delta(event, epsilon)`.

An accountant supplies two cores that price noise alone: `(tally, delta) -> epsilon` and `(tally,
epsilon) -> delta`. `Accountant.of` turns them into the two functions: these check the numbers,
settle exact releases and empty events, and take failure probabilities off the budget.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from .events import Event, Tally, tally

Core = Callable[[Tally, float], float]

# Relative upward margin on every epsilon and delta reported: far above the rounding of a few
# hundred float64 operations, far below anything a reader could notice.
UP = 1.0 + 2.0**-40
# What a positive number that underflows is rounded up to: below it float64 loses its precision.
TINY = sys.float_info.min


class NotValid(ValueError):
    """The accountant has no theorem for this noise."""


def _number(value: float) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        return math.nan


def check_epsilon(epsilon: float, *, zero: bool = False) -> float:
    """`epsilon` as a float; ValueError unless finite and above 0 (or at least 0, where `zero`)."""
    number = _number(epsilon)
    if not math.isfinite(number) or number < 0 or (number == 0 and not zero):
        least = "at least 0" if zero else "above 0"
        raise ValueError(f"epsilon must be a finite number {least}, got {epsilon!r}")
    return number


def check_delta(delta: float, *, zero: bool = True) -> float:
    """`delta` as a float; ValueError unless in [0, 1), or in (0, 1) where not `zero`."""
    number = _number(delta)
    if not (0 <= number < 1) or (number == 0 and not zero):
        raise ValueError(f"delta must be in {'[' if zero else '('}0, 1), got {delta!r}")
    return number


@dataclass(frozen=True)
class Accountant:
    """A name and two functions: `epsilon(event, delta)` and `delta(event, epsilon)`."""

    name: str
    epsilon: Callable[[Event, float], float]
    delta: Callable[[Event, float], float]

    @classmethod
    def of(cls, name: str, epsilon: Core, delta: Core) -> Accountant:
        """An accountant made of two cores."""
        return cls(name, partial(_epsilon_of, core=epsilon), partial(_delta_of, core=delta))


def _epsilon_of(event: Event, delta: float, core: Core) -> float:
    """Epsilon of `event` at `delta`, given a core that prices its noise for the rest of delta."""
    delta = check_delta(delta)
    bill = tally(event)
    if bill.exact or bill.failure > delta:
        return math.inf
    if not (bill.gaussians or bill.laplaces):
        return 0.0
    # Subtraction rounds to nearest; one step down keeps the rest of delta on the safe side.
    rest = math.nextafter(delta - bill.failure, 0.0) if bill.failure else delta
    return max(0.0, core(bill, rest)) * UP


def _delta_of(event: Event, epsilon: float, core: Core) -> float:
    """Delta of `event` at `epsilon`, given a core that prices its noise."""
    epsilon = check_epsilon(epsilon, zero=True)
    bill = tally(event)
    if bill.exact:
        return 1.0
    if not (bill.gaussians or bill.laplaces):
        return bill.failure
    noise = core(bill, epsilon)
    return min(1.0, (noise + bill.failure) * UP)


def smallest(
    feasible: Callable[[float], bool], low: float, high: float, tolerance: float = 2.0**-46
) -> float:
    """Smallest number with `feasible`, to a relative `tolerance`, from above.

    `feasible` is monotone, false at `low` (not checked) and true at `high`. Only numbers at which
    it was seen to be true are returned, so rounding inside `feasible` cannot turn the answer
    unsafe.

    Examples
    --------
    >>> smallest(lambda x: x * x >= 2.0, 0.0, 2.0) >= 2.0**0.5
    True
    """
    for _ in range(200):
        if high - low <= abs(high) * tolerance:
            break
        middle = 0.5 * (low + high)
        if feasible(middle):
            high = middle
        else:
            low = middle
    return high


def smallest_delta(enough: Callable[[float], bool]) -> float:
    """Smallest delta in (0, 1) with `enough`, searched on a log scale; 1 where there is none."""
    top = math.nextafter(1.0, 0.0)
    if not enough(top):
        return 1.0
    log_delta = smallest(lambda x: enough(min(math.exp(x), top)), -740.0, 0.0)
    return min(math.exp(log_delta), 1.0)
