"""Renyi differential privacy, converted by the dp_accounting library.

The Renyi curve of a Gaussian release is alpha/(2 m^2) (Mironov 2017, proposition 7); the discrete
Gaussian on an integer vector lies below the same line (Canonne, Kamath and Steinke 2020,
proposition 5 and theorem 14), so discrete noise needs no correction. Laplace noise, discrete or
not, lies below randomized response at the same epsilon. Curves add up. The library turns the sum
into (epsilon, delta) at the best of a fixed set of orders, so the answer is a little above tight
zCDP where all noise is Gaussian, and below it where Laplace noise dominates.

*Randomized response* is the worst case of all eps-DP releases. Every eps-DP pair of output
distributions is a post-processing of randomized response with P = (e^eps, 1)/(1 + e^eps) and Q = P
reversed (Kairouz, Oh and Viswanath 2015, theorem 2.1). Discrete Laplace noise on a lattice whose
step is the whole sensitivity *is* randomized response, so this is also the best bound that holds
for every lattice. The moments of continuous Laplace noise (Park et al. 2017, equation 20) are
smaller by a relative O(eps) and not valid for discrete noise.

Examples
--------
>>> from privem.accounting.events import Composed, Gaussian
>>> round(RDP.epsilon(Composed(((Gaussian(71.9, steps=2**24), 420),)), 1e-4), 2)
1.0
>>> RDP.delta(Gaussian(4.0), 1.0) < 2e-5
True
"""

from __future__ import annotations

import functools
import math

import numpy as np

from .accountant import TINY, Accountant
from .events import Tally


def log_moment(order: float, epsilon: float) -> float:
    """The log-moment ln E_P[(P/Q)^order] of randomized response, without cancellation.

    Equals ln cosh((order + 1/2) eps) - ln cosh(eps/2); it is at most order (order + 1) eps^2/2 and
    order eps.

    Examples
    --------
    >>> log_moment(1.0, 1e-9) <= 1.0000001e-18
    True
    """
    outer, inner = (order + 0.5) * epsilon, 0.5 * epsilon
    if outer < 30:
        rise = 2 * math.sinh(0.5 * (outer + inner)) * math.sinh(0.5 * (outer - inner))
        return math.log1p(rise / math.cosh(inner))
    return (outer - inner) + math.log1p(math.exp(-2 * outer)) - math.log1p(math.exp(-2 * inner))


@functools.cache
def _orders() -> tuple[float, ...]:
    # alpha - 1 from 0.02 (the library drops orders below 1.01) to where epsilon = 0.001, delta =
    # 1e-15 has its best.
    return tuple(float(order) for order in 1.0 + np.geomspace(0.02, 1e6, 500))


def _curve(bill: Tally) -> list[float]:
    slope = 0.5 * math.fsum(
        n / event.noise_multiplier / event.noise_multiplier for event, n in bill.gaussians
    )
    # Never near zero: the library takes 0 for perfect privacy, and fails where exp(-curve) rounds
    # to 1.
    return [
        max(
            order * slope
            + math.fsum(n * log_moment(order - 1, event.epsilon) for event, n in bill.laplaces)
            / (order - 1),
            1e-15,
        )
        * (1 + 2.0**-44)
        for order in _orders()
    ]


def _epsilon(bill: Tally, delta: float) -> float:
    if delta == 0:
        return math.inf
    from dp_accounting.rdp import rdp_privacy_accountant

    return float(rdp_privacy_accountant.compute_epsilon(_orders(), _curve(bill), delta)[0])


def _delta(bill: Tally, epsilon: float) -> float:
    from dp_accounting.rdp import rdp_privacy_accountant

    found = float(rdp_privacy_accountant.compute_delta(_orders(), _curve(bill), epsilon)[0])
    return max(found, TINY) * (1 + 2.0**-30)


RDP = Accountant.of("rdp", _epsilon, _delta)
