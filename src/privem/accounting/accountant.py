"""What an accountant is, and the two with closed forms: Gaussian differential privacy and zCDP.

An accountant is two functions, `epsilon(event, delta)` and `delta(event, epsilon)`. It supplies two
cores that price noise alone: `(tally, delta) -> epsilon` and `(tally, epsilon) -> delta`.
`Accountant.of` turns them into the two functions: these check the numbers, settle exact releases
and empty events, and take failure probabilities off the budget.

*Gaussian differential privacy* (GDP) is exact for continuous noise, and nearly so for discrete
noise. Gaussian releases of noise multipliers m_t compose to one Gaussian release with mu^2 = sum
1/m_t^2, whose curve is known in closed form (Balle and Wang 2018, theorem 8; Dong, Roth and Su
2022, corollaries 2.13 and 3.3):

    delta(eps) = Phi(-eps/mu + mu/2) - e^eps Phi(-eps/mu - mu/2)

Discrete Gaussian noise of sigma lattice steps on an integer vector is within total variation 1/(250
sigma^4) per coordinate of a *rounded continuous* Gaussian of variance sigma^2 - 1/12 (sigma >= 8),
and rounding is post-processing. So mu^2 grows by the factor 1/(1 - 1/(12 sigma^2)), delta by (1 +
e^eps) times the total variation. At sigma = 2^24 steps that is 3e-16 and 5e-32. Proof:
docs/proofs/accounting.md, section 2.

*Zero-concentrated differential privacy* (zCDP) also prices Laplace noise. A Gaussian release of
noise multiplier m is rho = 1/(2 m^2)-zCDP (Bun and Steinke 2016, proposition 1.6), the discrete
Gaussian on an integer vector likewise, exactly and at any number of steps (Canonne, Kamath and
Steinke 2020, theorem 14). A Laplace release is eps-DP, hence eps^2/2-zCDP (Bun and Steinke,
proposition 1.4). rho adds up. There are two conversions to (eps, delta):

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
>>> round(GDP.epsilon(Composed(((Gaussian(65.2875, steps=2**24), 420),)), 1e-4), 4)
1.0
>>> round(GDP.delta(Gaussian(1.0), 1.0), 6)
0.126937
>>> release = Composed(((Gaussian(90.284), 420),))
>>> round(ZCDP.epsilon(release, 1e-4), 3), round(ZCDP_LOOSE.epsilon(release, 1e-4), 3)
(0.776, 1.0)
>>> round(ZCDP.delta(Gaussian(4.0), 1.0), 6), round(ZCDP_LOOSE.delta(Gaussian(4.0), 1.0), 6)
(1.2e-05, 0.000549)
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial

from scipy.special import erfcx, ndtr, ndtri

from .events import Event, Gaussian, Tally, tally

Core = Callable[[Tally, float], float]
# Relative upward margin on every epsilon and delta reported: far above the rounding of a few
# hundred float64 operations, far below anything a reader could notice.
UP = 1.0 + 2.0**-40
# What a positive number that underflows is rounded up to: below it float64 loses its precision.
TINY = sys.float_info.min
_U = 2.0**-53
_LEAST_STEPS = 8.0


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


def hockey_stick(mu: float, epsilon: float) -> float:
    """Upper bound, to rounding, of delta at `epsilon` for mu-GDP.

    With a = eps/mu - mu/2, b = eps/mu + mu/2 and Mills' ratio M(x) = Phi(-x)/phi(x), phi(a) = e^eps
    phi(b), so delta = phi(a) (M(a) - M(b)): nothing overflows, and the one subtraction gets its
    rounding error added back.

    Examples
    --------
    >>> round(hockey_stick(1.0, 1.0), 6)
    0.126937
    """
    if mu == 0:
        return 0.0
    if math.isinf(mu):
        return 1.0
    a, b = epsilon / mu - mu / 2, epsilon / mu + mu / 2
    if a - 4 * _U * b > 1e3:
        return TINY  # underflows, but a positive number is still positive
    tail = _mills(b)
    if a > 0:
        head = _mills(a)
        gap = head - tail + 16 * _U * head
        log_delta = -a * a / 2 - 0.5 * math.log(2 * math.pi) + math.log(gap) + (8 * b * b + 16) * _U
        return max(math.exp(min(log_delta, 0.0)), TINY)
    density = math.exp(-a * a / 2) / math.sqrt(2 * math.pi)
    return min(1.0, float(ndtr(-a)) - density * tail + 16 * _U * (1 + b * density))


def _mills(x: float) -> float:
    return math.sqrt(math.pi / 2) * float(erfcx(x / math.sqrt(2)))


def total_variation(steps: float) -> float:
    """Distance of the discrete Gaussian from a rounded continuous one of variance steps^2 - 1/12.

    Parameters
    ----------
    steps : float
        Standard deviation of the discrete Gaussian in lattice steps, at least 8.

    Returns
    -------
    float
        1 / (250 steps^4), an upper bound for one coordinate.

    Examples
    --------
    >>> total_variation(8)
    9.765625e-07
    """
    if steps < _LEAST_STEPS:
        raise NotValid(
            f"gdp is proved for discrete noise of at least {_LEAST_STEPS:g} lattice steps, "
            f"got {steps:g}; use a finer lattice, or accountant='zcdp', which holds for any"
        )
    return 1.0 / (250.0 * steps**4)


def discreteness(drift: float, epsilon: float) -> float:
    """(1 + e^epsilon) * drift: what a total variation of `drift` adds to delta at `epsilon`."""
    return (
        drift + math.exp(min(epsilon + math.log(drift), 700.0)) * (1 + 2.0**-40) if drift else 0.0
    )


def gaussian_curve(bill: Tally) -> tuple[float, float]:
    """(mu, total variation) of the Gaussian part of a bill, both rounded up.

    The part is then (eps, hockey_stick(mu, eps) + (1 + e^eps) * total variation)-private for every
    eps.
    """
    squares = math.fsum(count * _mu_squared(event) for event, count in bill.gaussians)
    drift = math.fsum(
        count * event.dimension * total_variation(event.steps)
        for event, count in bill.gaussians
        if event.steps is not None
    )
    return math.sqrt(squares) * (1 + 8 * _U), drift * (1 + 8 * _U)


def _mu_squared(event: Gaussian) -> float:
    mu = 1.0 / event.noise_multiplier
    square = max(mu * mu, TINY)  # an underflow to 0 would be perfect privacy
    if event.steps is None:
        return square
    return square / (1.0 - 1.0 / (12.0 * event.steps * event.steps))


def _refuse_laplace(bill: Tally) -> None:
    if bill.laplaces:
        raise NotValid(
            "gdp prices Gaussian noise only and this event holds Laplace noise; "
            "use accountant='auto', 'zcdp', 'rdp' or 'pld'"
        )


def _turning_point(mu: float, drift: float) -> float:
    """Where the curve stops falling: its derivative in e^eps is drift - Phi(-eps/mu - mu/2)."""
    if drift == 0:
        return math.inf
    return max(0.0, mu * (-float(ndtri(min(drift, 0.5))) - mu / 2))


def _curve(mu: float, drift: float, epsilon: float) -> float:
    return hockey_stick(mu, epsilon) + discreteness(drift, epsilon)


def _gdp_delta(bill: Tally, epsilon: float) -> float:
    _refuse_laplace(bill)
    mu, drift = gaussian_curve(bill)
    # (eps', delta) implies (eps, delta) for eps' <= eps, so past the turning point delta stays
    # where it is.
    return min(1.0, _curve(mu, drift, min(epsilon, _turning_point(mu, drift))))


def _gdp_epsilon(bill: Tally, delta: float) -> float:
    _refuse_laplace(bill)
    return _on_curve(*gaussian_curve(bill), delta)


@lru_cache(maxsize=1024)
def _on_curve(mu: float, drift: float, delta: float) -> float:
    """Smallest epsilon at which the curve is at most `delta`."""
    if delta == 0 or math.isinf(mu):
        return math.inf
    if _curve(mu, drift, 0.0) <= delta:
        return 0.0
    end = _turning_point(mu, drift)
    # Tail bound: at this epsilon hockey_stick is below delta/2.
    high = mu * mu / 2 + mu * math.sqrt(-2 * math.log(delta)) * (1 + 1e-9)
    if high > end or _curve(mu, drift, high) > delta:
        high = end
        if not math.isfinite(high) or _curve(mu, drift, high) > delta:
            return math.inf
    return smallest(lambda x: _curve(mu, drift, x) <= delta, 0.0, high)


GDP = Accountant.of("gdp", _gdp_epsilon, _gdp_delta)


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


def _zcdp_epsilon(bill: Tally, delta: float, loose: bool) -> float:
    rho = rho_total(bill)
    if not loose or delta == 0:
        return tight_epsilon(rho, delta)
    return rho + 2 * math.sqrt(rho * -math.log(delta))


def _zcdp_delta(bill: Tally, epsilon: float, loose: bool) -> float:
    rho = rho_total(bill)
    if not loose:
        return tight_delta(rho, epsilon)
    if epsilon <= rho:
        return 1.0
    exponent = (epsilon - rho) * (epsilon - rho) / (4 * rho) if rho else math.inf
    return max(math.exp(-exponent * (1 - 2.0**-48)), TINY)


ZCDP, ZCDP_LOOSE = (
    Accountant.of(name, partial(_zcdp_epsilon, loose=loose), partial(_zcdp_delta, loose=loose))
    for name, loose in (("zcdp", False), ("zcdp-loose", True))
)
