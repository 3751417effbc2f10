"""What the paper's budgets come to, in epsilon at a delta."""

from __future__ import annotations

import math

from privem.accounting import Composed, Laplace, epsilon


def cdp_epsilon(nominal: float, delta: float) -> float:
    """Epsilon of the paper's "budget", which is rho of zCDP, by the tightest proved conversion.

    The simple one, rho + 2 sqrt(rho log(1/delta)) of Bun and Steinke 2016, is up to a quarter more.
    """
    share = math.sqrt(2 * nominal / 1000)
    return epsilon(Composed(((Laplace(1 / share), 1000),)), delta, "zcdp")


def laplace_epsilon(share: float, releases: int, delta: float) -> float:
    """Epsilon of Laplace releases of epsilon' each, by the tightest proved account."""
    return epsilon(Composed(((Laplace(1 / share), releases),)), delta)
