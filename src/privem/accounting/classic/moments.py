"""The moments accountant of Park et al. 2017: log-moments of the privacy loss at integer orders.

delta = min over lambda = 1, 2, ... of exp(sum_t alpha_t(lambda) - lambda eps) (their equations 3
and 4), with alpha(lambda) = lambda (lambda + 1) / (2 m^2) for Gaussian noise (equation 21). The
discrete Gaussian has no larger moments (Canonne, Kamath and Steinke 2020, proposition 5). For
Laplace noise the moments of randomized response replace their equation 20, which holds for
continuous noise only; the two agree to a relative O(eps).

The total is convex in lambda, so the best integer is found by bisection. lambda has no upper limit.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from ..events import Event, Tally
from ..randomized_response import log_moment
from ..verbs import TINY, delta_of, epsilon_of

_MOST = 2**40


def _log_moment(bill: Tally) -> Callable[[int], float]:
    half = 0.5 * math.fsum(
        n / event.noise_multiplier / event.noise_multiplier for event, n in bill.gaussians
    )

    def total(order: int) -> float:
        pure = math.fsum(n * log_moment(order, event.epsilon) for event, n in bill.laplaces)
        return (order * (order + 1.0) * half + pure) * (1 + 2.0**-44)

    return total


def _least(cost: Callable[[int], float]) -> float:
    """Minimum over positive integers of a function that falls, then rises."""
    low, high = 1, 2
    while high < _MOST and cost(high + 1) < cost(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        if cost(middle + 1) < cost(middle):
            low = middle
        else:
            high = middle
    return min(cost(order) for order in (max(1, low - 1), low, high, high + 1))


def _epsilon(bill: Tally, delta: float) -> float:
    if delta == 0:
        return math.inf
    moment, log_inverse = _log_moment(bill), -math.log(delta)
    return _least(lambda order: (moment(order) + log_inverse) / order)


def epsilon(event: Event, delta: float) -> float:
    """Epsilon at a given delta.

    Examples
    --------
    >>> from privem.accounting.events import Composed, Gaussian
    >>> round(epsilon(Composed(((Gaussian(90.285), 420),)), 1e-4), 3)
    1.0
    """
    return epsilon_of(event, delta, _epsilon)


def _delta(bill: Tally, epsilon: float) -> float:
    moment = _log_moment(bill)
    exponent = _least(lambda order: moment(order) - order * epsilon)
    return max(math.exp(min(0.0, exponent * (1 - 2.0**-44))), TINY)


def delta(event: Event, epsilon: float) -> float:
    """Delta at a given epsilon.

    Examples
    --------
    >>> from privem.accounting.events import Gaussian
    >>> round(delta(Gaussian(4.0), 1.0), 6)
    0.000553
    """
    return delta_of(event, epsilon, _delta)
