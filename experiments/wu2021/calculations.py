"""Calculations without chance: variances, what noise costs, and equation 14."""

from __future__ import annotations

import math

import numpy as np

from privem.accounting import Gaussian
from privem.accounting import epsilon as epsilon_of
from privem.kernels.robust import TOP, robust_bound, smoothed_truncation

from . import printed
from .cells import DELTA


def variance_ratio(sigma: float) -> float:
    """The discrete Gaussian's variance over sigma^2."""
    x = np.arange(-60, 61)
    weights = np.exp(-(x**2) / (2 * sigma**2))
    return float((weights * x**2).sum() / weights.sum() / sigma**2)


def budget(epsilon: float) -> dict[str, float]:
    """Line 1 of Algorithm 1, and what a promise of that noise comes to, were it on a fine lattice.

    The paper's own argument, concentrated differential privacy: rho = T D^2/(2 sigma^2). The exact
    curve takes the exact bound of the smoothed truncation, too.
    """
    settings = printed.Settings(2_000, 10, epsilon, DELTA, 10, 3.0)
    whole = settings.steps / settings.variance
    rho = settings.sensitivity(TOP) ** 2 * whole / 2
    exact = settings.sensitivity(robust_bound(settings.beta)) * math.sqrt(whole)
    return {
        "argued": rho + 2 * math.sqrt(rho * math.log(1 / DELTA)),
        "exact": epsilon_of(Gaussian(1 / exact), DELTA),
    }


def tails(epsilon: float, sigma: float) -> dict[str, float]:
    """Delta of one coordinate and one release of integers, D = 1: as printed, and really."""
    x = np.arange(-400, 401)
    weights = np.exp(-(x**2) / (2 * sigma**2))
    weights /= weights.sum()
    far = weights[x > epsilon * sigma**2 + 0.5].sum()
    return {
        "said": far,
        "true": weights[x > epsilon * sigma**2 - 0.5].sum() - math.exp(epsilon) * far,
    }


def priced(what: str, epsilon: float, sigma: float) -> dict[str, float]:
    """One of the two."""
    return budget(epsilon) if what == "budget" else tails(epsilon, sigma)


def truncated(beta: float) -> list[dict[str, float]]:
    """The mean of h(a (1 + o)): printed, with the right signs, and as an integral."""
    a = np.linspace(0.02, 10, 500)
    b = a / math.sqrt(beta)
    ways = {
        "printed": printed.equation_14(a, b),
        "right": printed.equation_14(a, b, right=True),
        "integral": smoothed_truncation(a, b),
    }
    return [{"a": at, **{name: each[i] for name, each in ways.items()}} for i, at in enumerate(a)]
