"""What Wang et al. 2023 print. NOT private as programs: noise and sums are floating-point numbers.

The mechanisms are private on paper, where noise is as stated; :mod:`privem` has them on a lattice
(``method="gradient"``).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from privem.accounting.registry import mu_for
from privem.kernels.robust import TOP, robust_bound, smoothed_truncation

Array = NDArray[np.float64]
Gradients = Callable[[NDArray[np.intp] | slice, Array], Array]


def clipped(
    gradients: Gradients,
    n: int,
    start: Array,
    clip: float,
    steps: int,
    epsilon: float,
    delta: float,
    rng: np.random.Generator,
) -> list[Array]:
    """Algorithm 1: the start and all iterates, step size one.

    The paper's noise has "some constant c"; here it is the least that is private, by the exact
    composition of Gaussian noise where a record is replaced.
    """
    deviation = 2 * clip * math.sqrt(steps) / (n * mu_for(epsilon, delta))
    found = [start]
    for _ in range(steps):
        g = gradients(slice(None), found[-1])
        g = g / np.maximum(np.linalg.norm(g, axis=1, keepdims=True) / clip, 1.0)
        found.append(found[-1] + g.mean(axis=0) + deviation * rng.normal(size=start.size))
    return found


def least_constant(epsilon: float, delta: float) -> float:
    """Algorithm 1's c, with the noise of :func:`clipped`."""
    return 4 * epsilon**2 / (mu_for(epsilon, delta) ** 2 * math.log(1 / delta))


def tilde(epsilon: float, delta: float) -> float:
    """Algorithm 2's epsilon with a tilde."""
    return math.sqrt(math.log(1 / delta) + epsilon) - math.sqrt(math.log(1 / delta))


def scale(
    m: float, tau: float, epsilon: float, delta: float, failure: float
) -> tuple[float, float]:
    """Algorithm 2's s and beta."""
    log = math.log(1 / failure)
    return math.sqrt(m * tau * tilde(epsilon, delta)) / (2 * log), math.sqrt(log)


def variances(
    m: float, d: int, tau: float, epsilon: float, delta: float, failure: float
) -> tuple[float, float]:
    """Algorithm 2's sigma^2: the two sides of the equation that it prints. m is n/T."""
    s, beta = scale(m, tau, epsilon, delta, failure)
    et = tilde(epsilon, delta)
    return 16 * s * s * d / (9 * m * m * et * et), 4 * d * tau / (9 * m * beta**2 * et)


def spent_mu(epsilon: float, delta: float, failure: float) -> float:
    """What Algorithm 2 spends: the exact sensitivity over its noise. Each record is in one step.

    Nothing but epsilon, delta and the smoothing matters: m, tau and d cancel.
    """
    s, beta = scale(1, 1, epsilon, delta, failure)
    return 2 * s * robust_bound(beta) / math.sqrt(variances(1, 1, 1, epsilon, delta, failure)[0])


def robust(
    gradients: Gradients,
    n: int,
    start: Array,
    tau: float,
    steps: int,
    epsilon: float,
    delta: float,
    failure: float,
    rng: np.random.Generator,
) -> list[Array]:
    """Algorithm 2: the start and all iterates, step size one, with the first form of its noise."""
    m, d = n // steps, start.size
    s, beta = scale(m, tau, epsilon, delta, failure)
    deviation = math.sqrt(variances(m, d, tau, epsilon, delta, failure)[0])
    order, found = rng.permutation(n), [start]
    for t in range(steps):
        a = gradients(order[t * m : (t + 1) * m], found[-1]) / s
        g = s * smoothed_truncation(a, np.abs(a) / math.sqrt(beta)).mean(axis=0)
        found.append(found[-1] + g + deviation * rng.normal(size=d))
    return found


def local_mean(
    x: Array, tau: float, epsilon: float, delta: float, failure: float, rng: np.random.Generator
) -> float:
    """Theorem 2 with local privacy: everybody adds noise to their own bounded number.

    The paper has the bound, which is that of Theorem 2 with sqrt(n) for n, and not the scale; so
    does the scale here. The noise is exact, that of replacing one number.
    """
    log_f, log_d = math.log(1 / failure), math.log(1 / delta)
    s = math.sqrt(math.sqrt(len(x)) * epsilon * tau) / (log_f * log_d**0.25)
    beta = math.sqrt(log_f)
    a = x / s
    sent = s * smoothed_truncation(a, np.abs(a) / math.sqrt(beta))
    sent += 2 * s * robust_bound(beta) / mu_for(epsilon, delta) * rng.normal(size=len(x))
    return float(sent.mean())


def closed_form(a: float, b: float) -> float:
    """Equation 12 with its correction (Catoni and Giulini 2017), term by term."""
    high, low = (math.sqrt(2) - a) / b, (math.sqrt(2) + a) / b
    f_high, f_low = float(ndtr(-high)), float(ndtr(-low))
    e_high, e_low = math.exp(-high * high / 2), math.exp(-low * low / 2)
    root = math.sqrt(2 * math.pi)
    correction = (
        TOP * (f_high - f_low)
        - (a - a**3 / 6) * (f_high + f_low)
        + b / root * (1 - a * a / 2) * (e_low - e_high)
        + a * b * b / 2 * (f_low + f_high + (low * e_low + high * e_high) / root)
        + b**3 / (6 * root) * ((2 + high * high) * e_high - (2 + low * low) * e_low)
    )
    return a * (1 - b * b / 2) - a**3 / 6 + correction
