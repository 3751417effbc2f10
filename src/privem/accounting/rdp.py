"""Renyi differential privacy, converted by the dp_accounting library.

The Renyi curve of a Gaussian release is alpha/(2 m^2) (Mironov 2017, proposition 7); the discrete
Gaussian on an integer vector lies below the same line (Canonne, Kamath and Steinke 2020,
proposition 5 and theorem 14), so discrete noise needs no correction. Laplace noise, discrete or
not, lies below randomized response at the same epsilon. Curves add up. The library turns the sum
into (epsilon, delta) at the best of a fixed set of orders, so the answer is a little above tight
zCDP where all noise is Gaussian, and below it where Laplace noise dominates.
"""

from __future__ import annotations

import functools
import math

import numpy as np

from . import library
from .events import Event, Tally
from .randomized_response import log_moment
from .verbs import TINY, delta_of, epsilon_of


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
    return library.rdp_epsilon(_orders(), _curve(bill), delta) if delta else math.inf


def epsilon(event: Event, delta: float) -> float:
    """Epsilon at a given delta.

    Examples
    --------
    >>> from privem.accounting.events import Composed, Gaussian
    >>> round(epsilon(Composed(((Gaussian(71.9, steps=2**24), 420),)), 1e-4), 2)
    1.0
    """
    return epsilon_of(event, delta, _epsilon)


def _delta(bill: Tally, epsilon: float) -> float:
    return max(library.rdp_delta(_orders(), _curve(bill), epsilon), TINY) * (1 + 2.0**-30)


def delta(event: Event, epsilon: float) -> float:
    """Delta at a given epsilon.

    Examples
    --------
    >>> from privem.accounting.events import Gaussian
    >>> delta(Gaussian(4.0), 1.0) < 2e-5
    True
    """
    return delta_of(event, epsilon, _delta)
