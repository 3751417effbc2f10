"""The epsilon of a single Gaussian release, as the older composition theorems need it."""

from __future__ import annotations

import math
from typing import Literal

from .. import gdp
from ..events import Gaussian
from ..verbs import NotValid

Form = Literal["analytic", "classical"]


def gaussian_epsilon(event: Gaussian, delta: float, form: Form) -> float:
    """Epsilon of one Gaussian release.

    `analytic` is exact (Balle and Wang 2018). `classical` is sqrt(2 ln(1.25/delta)) /
    noise_multiplier, proved for epsilon below 1 only (Dwork and Roth 2014, theorem A.1). Discrete
    noise pays the total variation of `gdp` in both forms.

    Examples
    --------
    >>> round(gaussian_epsilon(Gaussian(10.0), 1e-5, "classical"), 4)
    0.4845
    >>> round(gaussian_epsilon(Gaussian(10.0), 1e-5, "analytic"), 4)
    0.3407
    """
    if form == "analytic":
        return gdp.epsilon(event, delta)
    if form != "classical":
        raise ValueError(f"form must be 'analytic' or 'classical', got {form!r}")
    widened = event.noise_multiplier
    if event.steps is not None:
        # epsilon < 1 below, so 1 + e bounds 1 + e^eps.
        delta -= (1 + math.e) * event.dimension * gdp.total_variation(event.steps)
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
