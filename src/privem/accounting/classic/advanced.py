"""Advanced composition at the best split of delta.

Releases that are each (eps_t, delta_t)-private compose (Dwork, Rothblum and Vadhan 2010; Dwork and
Roth 2014, theorem 3.20) to

    eps = sqrt(2 ln(1/delta') sum eps_t^2) + sum eps_t (e^eps_t - 1),      delta = delta' + sum
    delta_t

for any delta' > 0. The theorem is stated for equal releases; the proof (Azuma on losses within
+-eps_t) gives this form for unequal ones. delta' takes the share of delta that makes eps smallest,
the rest is split evenly among the Gaussian releases. Every split is valid, so the search need not
be exact. It can be worse than linear composition when releases are few; `auto` never uses either
for Gaussian noise.
"""

from __future__ import annotations

import math

from scipy.optimize import minimize_scalar

from ..events import Event, Tally
from ..verbs import NotValid, delta_of, epsilon_of, smallest_delta
from .per_release import Form, gaussian_epsilon

_WORTHLESS = 1e300


def _at_split(bill: Tally, delta: float, share: float, form: Form) -> float:
    """Epsilon where `share` of delta is delta'."""
    releases = [(event.epsilon, count) for event, count in bill.laplaces]
    if bill.gaussians:
        each = delta * (1 - share) / bill.gaussian_count * (1 - 2.0**-50)
        if each <= 0:
            return math.inf
        releases += [
            (gaussian_epsilon(event, each, form), count) for event, count in bill.gaussians
        ]
    if max(epsilon for epsilon, _ in releases) > 300:
        return math.inf
    squares = math.fsum(count * epsilon * epsilon for epsilon, count in releases)
    drift = math.fsum(count * epsilon * math.expm1(epsilon) for epsilon, count in releases)
    return math.sqrt(-2 * math.log(delta * share) * squares) + drift


def _epsilon(bill: Tally, delta: float, form: Form) -> float:
    if delta < 1e-300:
        return math.inf
    if not bill.gaussians:
        return _at_split(bill, delta, 1.0, form)
    refused: list[NotValid] = []

    def cost(logit: float) -> float:
        try:
            return min(_at_split(bill, delta, 1 / (1 + math.exp(-logit)), form), _WORTHLESS)
        except NotValid as problem:
            refused.append(problem)
            return _WORTHLESS

    found = minimize_scalar(cost, bounds=(-12.0, 12.0), method="bounded", options={"xatol": 1e-6})
    best = min(cost(float(found.x)), cost(0.0))
    if best < _WORTHLESS:
        return best
    if refused:
        raise refused[-1]
    return math.inf


def epsilon(event: Event, delta: float, form: Form = "analytic") -> float:
    """Epsilon at a given delta.

    Examples
    --------
    >>> from privem.accounting.events import Composed, Gaussian
    >>> round(epsilon(Composed(((Gaussian(342.53), 420),)), 1e-4), 3)
    1.0
    """
    return epsilon_of(event, delta, lambda bill, rest: _epsilon(bill, rest, form))


def _delta(bill: Tally, epsilon: float, form: Form) -> float:

    def enough(candidate: float) -> bool:
        try:
            return _epsilon(bill, candidate, form) <= epsilon
        except NotValid:
            return False

    _epsilon(bill, 0.5, form)  # raises where the noise is not valid at any delta
    return smallest_delta(enough)


def delta(event: Event, epsilon: float, form: Form = "analytic") -> float:
    """Delta at a given epsilon; 1 where advanced composition gives no guarantee.

    Examples
    --------
    >>> from privem.accounting.events import Composed, Laplace
    >>> delta(Composed(((Laplace(100.0), 50),)), 0.4) < 1e-5
    True
    """
    return delta_of(event, epsilon, lambda bill, rest: _delta(bill, rest, form))
