"""Accountants that papers use. They are looser than `gdp` and `zcdp` and serve comparisons.

*Linear composition*: epsilons and deltas add up (Dwork and Roth 2014, theorem 3.16). delta is
shared evenly among the Gaussian releases. With Laplace noise alone this is pure differential
privacy and works at delta = 0. It is the oldest and by far the loosest accountant.

*Advanced composition* at the best split of delta. Releases that are each (eps_t, delta_t)-private
compose (Dwork, Rothblum and Vadhan 2010; Dwork and Roth 2014, theorem 3.20) to

    eps = sqrt(2 ln(1/delta') sum eps_t^2) + sum eps_t (e^eps_t - 1)
    delta = delta' + sum delta_t

for any delta' > 0. The theorem is stated for equal releases; the proof (Azuma on losses within
+-eps_t) gives this form for unequal ones. delta' takes the share of delta that makes eps smallest,
the rest is split evenly among the Gaussian releases. Every split is valid, so the search need not
be exact. It can be worse than linear composition when releases are few; `auto` never uses either
for Gaussian noise.

*The moments accountant* of Park et al. 2017: log-moments of the privacy loss at integer orders.

delta = min over lambda = 1, 2, ... of exp(sum_t alpha_t(lambda) - lambda eps) (their equations 3
and 4), with alpha(lambda) = lambda (lambda + 1) / (2 m^2) for Gaussian noise (equation 21). The
discrete Gaussian has no larger moments (Canonne, Kamath and Steinke 2020, proposition 5). For
Laplace noise the moments of randomized response replace their equation 20, which holds for
continuous noise only; the two agree to a relative O(eps).

The total is convex in lambda, so the best integer is found by bisection. lambda has no upper limit.

Examples
--------
>>> from privem.accounting.events import Composed, Gaussian, Laplace
>>> release = Gaussian(5.0)
>>> round(LINEAR.epsilon(release, 1e-6), 3), round(MOMENTS.epsilon(release, 1e-6), 3)
(0.834, 1.071)
>>> LINEAR.delta(Laplace(10.0), 0.1), LINEAR.delta(Laplace(10.0), 0.05)
(0.0, 1.0)
>>> round(ADVANCED.epsilon(Composed(((Gaussian(342.53), 420),)), 1e-4), 3)
1.0
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Literal

from scipy.optimize import minimize_scalar

from .accountant import GDP, TINY, Accountant, NotValid, smallest_delta, total_variation
from .events import Gaussian, Tally
from .rdp import log_moment

Form = Literal["analytic", "classical"]

_WORTHLESS = 1e300
_MOST = 2**40


def _gaussian_epsilon(event: Gaussian, delta: float, form: Form) -> float:
    """Epsilon of one Gaussian release.

    `analytic` is exact (Balle and Wang 2018). `classical` is sqrt(2 ln(1.25/delta)) /
    noise_multiplier, proved for epsilon below 1 only (Dwork and Roth 2014, theorem A.1). Discrete
    noise pays the total variation of `gdp` in both forms.

    Examples
    --------
    >>> round(_gaussian_epsilon(Gaussian(10.0), 1e-5, "classical"), 4)
    0.4845
    >>> round(_gaussian_epsilon(Gaussian(10.0), 1e-5, "analytic"), 4)
    0.3407
    """
    if form == "analytic":
        return GDP.epsilon(event, delta)
    widened = event.noise_multiplier
    if event.steps is not None:
        # epsilon < 1 below, so 1 + e bounds 1 + e^eps.
        delta -= (1 + math.e) * event.dimension * total_variation(event.steps)
        widened *= math.sqrt(1 - 1 / (12 * event.steps * event.steps))
    if delta <= 0:
        return math.inf
    epsilon = math.sqrt(2 * math.log(1.25 / delta)) / widened
    if epsilon >= 1:
        raise NotValid(
            "the classical Gaussian mechanism is proved for epsilon below 1 per release, "
            f"here it is {epsilon:.4g}; add noise or use the analytic form"
        )
    return epsilon


def _linear_epsilon(bill: Tally, delta: float, form: Form) -> float:
    pure = math.fsum(count * event.epsilon for event, count in bill.laplaces)
    if not bill.gaussians:
        return pure
    if delta == 0:
        return math.inf
    share = delta / bill.gaussian_count * (1 - 2.0**-50)
    if share == 0:
        return math.inf
    return pure + math.fsum(
        n * _gaussian_epsilon(event, share, form) for event, n in bill.gaussians
    )


def _linear_delta(bill: Tally, epsilon: float, form: Form) -> float:
    if bill.gaussians:
        return _searched(_linear_epsilon, bill, epsilon, form)
    # Compared without a margin: 1/multiplier is the very number the noise was made for.
    return 0.0 if _linear_epsilon(bill, 0.0, form) <= epsilon else 1.0


def _searched(
    price: Callable[[Tally, float, Form], float], bill: Tally, epsilon: float, form: Form
) -> float:
    """Smallest delta whose price is at most `epsilon`; 1 where there is none."""

    def enough(delta: float) -> bool:
        try:
            return price(bill, delta, form) <= epsilon
        except NotValid:
            return False

    price(bill, 0.5, form)  # raises where the noise is not valid at any delta
    return smallest_delta(enough)


def _at_split(bill: Tally, delta: float, share: float, form: Form) -> float:
    """Epsilon where `share` of delta is delta'."""
    releases = [(event.epsilon, count) for event, count in bill.laplaces]
    if bill.gaussians:
        each = delta * (1 - share) / bill.gaussian_count * (1 - 2.0**-50)
        if each <= 0:
            return math.inf
        releases += [
            (_gaussian_epsilon(event, each, form), count) for event, count in bill.gaussians
        ]
    if max(epsilon for epsilon, _ in releases) > 300:
        return math.inf
    squares = math.fsum(count * epsilon * epsilon for epsilon, count in releases)
    drift = math.fsum(count * epsilon * math.expm1(epsilon) for epsilon, count in releases)
    return math.sqrt(-2 * math.log(delta * share) * squares) + drift


def _advanced_epsilon(bill: Tally, delta: float, form: Form) -> float:
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


def _moments_epsilon(bill: Tally, delta: float) -> float:
    if delta == 0:
        return math.inf
    moment, log_inverse = _log_moment(bill), -math.log(delta)
    return _least(lambda order: (moment(order) + log_inverse) / order)


def _moments_delta(bill: Tally, epsilon: float) -> float:
    moment = _log_moment(bill)
    exponent = _least(lambda order: moment(order) - order * epsilon)
    return max(math.exp(min(0.0, exponent * (1 - 2.0**-44))), TINY)


def _composition(form: Form, suffix: str = "") -> tuple[Accountant, Accountant]:
    """Linear and advanced composition, with the epsilon of each Gaussian release in this form."""
    advanced = partial(_searched, _advanced_epsilon, form=form)
    return (
        Accountant.of(
            f"linear{suffix}",
            partial(_linear_epsilon, form=form),
            partial(_linear_delta, form=form),
        ),
        Accountant.of(f"advanced{suffix}", partial(_advanced_epsilon, form=form), advanced),
    )


LINEAR, ADVANCED = _composition("analytic")
LINEAR_CLASSICAL, ADVANCED_CLASSICAL = _composition("classical", "-classical")
MOMENTS = Accountant.of("moments", _moments_epsilon, _moments_delta)
