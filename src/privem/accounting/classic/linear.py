"""Linear composition: epsilons and deltas add up (Dwork and Roth 2014, theorem 3.16).

delta is shared evenly among the Gaussian releases. With Laplace noise alone this is pure
differential privacy and works at delta = 0. It is the oldest and by far the loosest accountant;
papers report it.
"""

from __future__ import annotations

import math

from ..events import Event, Tally
from ..verbs import NotValid, delta_of, epsilon_of, smallest_delta
from .per_release import Form, gaussian_epsilon


def _epsilon(bill: Tally, delta: float, form: Form) -> float:
    pure = math.fsum(count * event.epsilon for event, count in bill.laplaces)
    if not bill.gaussians:
        return pure
    if delta == 0:
        return math.inf
    share = delta / bill.gaussian_count * (1 - 2.0**-50)
    if share == 0:
        return math.inf
    return pure + math.fsum(n * gaussian_epsilon(event, share, form) for event, n in bill.gaussians)


def epsilon(event: Event, delta: float, form: Form = "analytic") -> float:
    """Epsilon at a given delta.

    Examples
    --------
    >>> from privem.accounting.events import Composed, Laplace
    >>> round(epsilon(Composed(((Laplace(10.0), 5),)), 0.0), 6)
    0.5
    """
    return epsilon_of(event, delta, lambda bill, rest: _epsilon(bill, rest, form))


def _delta(bill: Tally, epsilon: float, form: Form) -> float:
    if not bill.gaussians:
        # Compared without a margin: 1/multiplier is the very number the noise was made for.
        return 0.0 if _epsilon(bill, 0.0, form) <= epsilon else 1.0

    def enough(share: float) -> bool:
        try:
            return _epsilon(bill, share, form) <= epsilon
        except NotValid:
            return False

    _epsilon(bill, 0.5, form)  # raises where the noise is not valid at any delta
    return smallest_delta(enough)


def delta(event: Event, epsilon: float, form: Form = "analytic") -> float:
    """Delta at a given epsilon; 1 where linear composition gives no guarantee.

    Examples
    --------
    >>> from privem.accounting.events import Laplace
    >>> delta(Laplace(10.0), 0.1), delta(Laplace(10.0), 0.05)
    (0.0, 1.0)
    """
    return delta_of(event, epsilon, lambda bill, rest: _delta(bill, rest, form))
