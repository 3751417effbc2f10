"""Zero-concentrated differential privacy, with a loose and a tight conversion to (eps, delta).

A Gaussian release of noise multiplier m is rho = 1/(2 m^2)-zCDP (Bun and Steinke 2016, proposition
1.6), the discrete Gaussian on an integer vector likewise, exactly and at any number of steps
(Canonne, Kamath and Steinke 2020, theorem 14). A Laplace release is eps-DP, hence eps^2/2-zCDP (Bun
and Steinke, proposition 1.4). rho adds up.

loose: eps = rho + 2 sqrt(rho ln(1/delta)) (Bun and Steinke, proposition 1.3; used by Park et al.
2016 and 2017).
tight: delta = inf over alpha > 1 of e^((alpha-1)(alpha rho - eps)) (1 - 1/alpha)^alpha / (alpha -
1) (Canonne, Kamath and Steinke, corollary 13; Asoodeh et al. 2020). With t = alpha - 1 the best
order solves one monotone equation: t^2 rho + ln(1+t) = ln(1/delta) for a given delta, and (1 + 2t)
rho - ln(1 + 1/t) = eps for a given eps. Every t gives a true bound, so an inexact root costs a
little tightness and no privacy.

Examples
--------
>>> from privem.accounting.events import Composed, Gaussian
>>> release = Composed(((Gaussian(90.284), 420),))
>>> round(ZCDP.epsilon(release, 1e-4), 3), round(ZCDP_LOOSE.epsilon(release, 1e-4), 3)
(0.776, 1.0)
>>> round(ZCDP.delta(Gaussian(4.0), 1.0), 6), round(ZCDP_LOOSE.delta(Gaussian(4.0), 1.0), 6)
(1.2e-05, 0.000549)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache, partial

from .accountant import TINY, Accountant
from .events import Tally


def rho_total(bill: Tally) -> float:
    """Composed rho of a bill, rounded up."""
    gaussian = ((1.0 / event.noise_multiplier, count) for event, count in bill.gaussians)
    laplace = ((event.epsilon, count) for event, count in bill.laplaces)
    # An underflow to 0 would be perfect privacy.
    squares = (
        (max(root * root, 4 * TINY), count) for part in (gaussian, laplace) for root, count in part
    )
    doubled = [count * square for square, count in squares]
    return 0.5 * math.fsum(doubled) * (1 + 2.0**-50)


def _root(rising: Callable[[float], float]) -> float:
    """The t > 0 at which a rising function changes sign, by bisection of log t."""
    low, high = -700.0, 700.0
    for _ in range(64):
        middle = 0.5 * (low + high)
        if rising(math.exp(middle)) < 0:
            low = middle
        else:
            high = middle
    return math.exp(high)


def _shift(t: float) -> float:
    """Value of t ln t - (1+t) ln(1+t), without cancellation at large t."""
    return -math.log1p(t) - t * math.log1p(1 / t)


@lru_cache(maxsize=1024)
def tight_epsilon(rho: float, delta: float) -> float:
    """Epsilon of rho-zCDP at `delta`, by the tight conversion.

    Examples
    --------
    >>> round(tight_epsilon(0.1, 1e-6), 3)
    2.142
    """
    if rho == 0:
        return 0.0
    if delta == 0 or math.isinf(rho):
        return math.inf
    log_inverse = -math.log(delta)
    t = _root(lambda x: x * x * rho + math.log1p(x) - log_inverse)
    return max(0.0, (1 + t) * rho + (log_inverse + _shift(t)) / t)


def tight_delta(rho: float, epsilon: float) -> float:
    """Delta of rho-zCDP at `epsilon`, by the tight conversion.

    Examples
    --------
    >>> tight_delta(0.1, 2.2) < 1e-6
    True
    """
    if rho == 0:
        return 0.0
    if math.isinf(rho):
        return 1.0
    t = _root(lambda x: (1 + 2 * x) * rho - math.log1p(1 / x) - epsilon)
    exponent = t * ((1 + t) * rho - epsilon) + _shift(t)
    # The exponent is a difference of terms of this size; give their rounding back.
    scale = abs(t * (1 + t) * rho) + abs(t * epsilon) + abs(_shift(t))
    return max(math.exp(min(0.0, exponent + 2.0**-50 * scale)), TINY)


def _epsilon(bill: Tally, delta: float, loose: bool) -> float:
    rho = rho_total(bill)
    if not loose or delta == 0:
        return tight_epsilon(rho, delta)
    return rho + 2 * math.sqrt(rho * -math.log(delta))


def _delta(bill: Tally, epsilon: float, loose: bool) -> float:
    rho = rho_total(bill)
    if not loose:
        return tight_delta(rho, epsilon)
    if epsilon <= rho:
        return 1.0
    exponent = (epsilon - rho) * (epsilon - rho) / (4 * rho) if rho else math.inf
    return max(math.exp(-exponent * (1 - 2.0**-48)), TINY)


ZCDP, ZCDP_LOOSE = (
    Accountant.of(name, partial(_epsilon, loose=loose), partial(_delta, loose=loose))
    for name, loose in (("zcdp", False), ("zcdp-loose", True))
)
