"""What Wu 2021 prints. NOT private: integer noise on real sums shows their fractional parts.

Beside it the same gradient EM with noise that keeps the promise, continuous or on a lattice, to
compare the three; what privem offers is ``SymmetricMixture(method="gradient")``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
from scipy.stats import norm

from privem.accounting.registry import mu_for
from privem.kernels.robust import TOP, robust_bound, robust_rows
from privem.linalg import Scratch
from privem.noise.sampler import discrete_gaussian

Array = np.ndarray
GAMMA = 0.05  # failure probability


def gradients(X: Array, theta: Array) -> Array:
    """Of every record, for two Gaussians at theta and -theta, sigma = 1."""
    return np.tanh(X @ theta)[:, None] * X - theta


class Settings:
    """Line 1 of Algorithm 1, and what follows from it."""

    def __init__(self, n: int, d: int, epsilon: float, delta: float, steps: int, tau: float):
        self.n, self.d, self.epsilon, self.delta, self.steps = n, d, epsilon, delta, steps
        self.tau = tau
        self.beta = math.log(d / GAMMA)
        self.omega = math.sqrt(n * tau / (2 * self.beta))
        room = math.log(1 / delta)
        self.tilde = math.sqrt(2 * (room + epsilon)) - math.sqrt(2 * room)
        self.variance = 8 * tau * d * steps / (9 * self.beta * n * self.tilde**2)

    def robust(self, X: Array, theta: Array) -> Array:
        """Every record's gradient, bounded (equations 9 to 13; the right signs in 14)."""
        g = np.ascontiguousarray(gradients(X, theta))
        return robust_rows(g, self.omega, self.beta, Scratch())

    def sensitivity(self, bound: float = TOP) -> float:
        """Of the mean of bounded gradients, in the Euclidean norm, replacing a record."""
        return 2 * bound * self.omega * math.sqrt(self.d) / self.n

    def deviation(self) -> float:
        """Of noise that keeps the promise over all steps, by exact accounting."""
        bound = robust_bound(self.beta)
        return self.sensitivity(bound) * math.sqrt(self.steps) / mu_for(self.epsilon, self.delta)


Noise = Callable[[Array, np.random.Generator], Array]


def integer_noise(settings: Settings) -> Noise:
    """As printed: integers on real numbers."""
    variance = Fraction(settings.variance).limit_denominator(10**9)
    return lambda exact, rng: exact + discrete_gaussian(variance, exact.size)


def continuous_noise(settings: Settings) -> Noise:
    """As in Wang et al. 2023, of the size that is needed."""
    return lambda exact, rng: exact + settings.deviation() * rng.normal(size=exact.size)


def lattice_noise(settings: Settings) -> Noise:
    """Rounded to a fine lattice first, then as many steps of it."""
    step = settings.deviation() / 2**24
    return lambda exact, rng: (
        step * (np.rint(exact / step) + discrete_gaussian(2**48, exact.size)).astype(float)
    )


def dg_em(
    X: Array, start: Array, settings: Settings, noise: Noise, rng: np.random.Generator
) -> Array:
    """Algorithm 1, step size 1."""
    theta = start
    for _ in range(settings.steps):
        theta = theta + noise(settings.robust(X, theta).mean(axis=0), rng)
    return theta


def equation_14(a: Array, b: Array, right: bool = False) -> Array:
    """The mean of h(a + b Z) by equations 13 to 15; ``right``: with the signs of T3, T4 mended."""
    root, cube = math.sqrt(2 * math.pi), a - a**3 / 6
    v_minus, v_plus = (math.sqrt(2) - a) / b, (math.sqrt(2) + a) / b
    e_minus, e_plus = np.exp(-(v_minus**2) / 2), np.exp(-(v_plus**2) / 2)
    f_minus, f_plus = norm.cdf(-v_minus), norm.cdf(-v_plus)
    sign = -1.0 if right else 1.0
    t1 = TOP * (f_minus - f_plus)
    t2 = -cube * (f_minus + f_plus)
    t3 = sign * b / root * (1 - a * a / 2) * (e_minus - e_plus)
    t4 = a * b * b / 2 * (f_minus + f_plus + (v_plus * e_plus - sign * v_minus * e_minus) / root)
    t5 = b**3 / (6 * root) * ((2 + v_minus**2) * e_minus - (2 + v_plus**2) * e_plus)
    return a * (1 - b * b / 2) - a**3 / 6 + t1 + t2 + t3 + t4 + t5


def record_read_off(released: Array, others: Array, theta: Array, settings: Settings) -> Array:
    """The record that is missing among ``others``, from one release; up to its sign.

    Whoever knows the others can subtract them. What is left is the record's bounded gradient over
    n, which is below one half, plus the noise. If that is whole numbers, rounding takes it away.
    """
    left = released - settings.robust(others, theta).sum(axis=0) / settings.n
    left -= np.rint(left)
    bounded = left * settings.n
    most = settings.omega * robust_bound(settings.beta)
    gradient = _unbounded(np.clip(bounded, -most, most), settings)
    # g = tanh(a) y - theta with a = <y, theta>: so <g + theta, theta> = a tanh(a).
    pulled = gradient + theta
    high = abs(float(pulled @ theta))
    low, top = 0.0, high + 2.0
    for _ in range(200):
        middle = (low + top) / 2
        low, top = (middle, top) if middle * math.tanh(middle) < high else (low, middle)
    return np.asarray(pulled / max(math.tanh(low), 1e-12))


def _unbounded(bounded: Array, settings: Settings) -> Array:
    """The gradient whose bounded values these are: the bound is increasing, so by halving."""
    low, high = np.full(bounded.shape, -1e3), np.full(bounded.shape, 1e3)
    for _ in range(80):
        middle = (low + high) / 2
        value = robust_rows(middle.copy(), settings.omega, settings.beta, Scratch())
        below = value < bounded
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return (low + high) / 2
