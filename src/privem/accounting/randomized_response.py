"""Randomized response: the worst case of all eps-DP releases.

Every eps-DP pair of output distributions is a post-processing of randomized response with P =
(e^eps, 1)/(1 + e^eps) and Q = P reversed (Kairouz, Oh and Viswanath 2015, theorem 2.1). Discrete
Laplace noise on a lattice whose step is the whole sensitivity *is* randomized response, so this is
also the best bound that holds for every lattice. The moments of continuous Laplace noise
(Park et al. 2017, equation 20) are smaller by a relative O(eps) and not valid for discrete noise.
"""

from __future__ import annotations

import math


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
