"""What is left of a budget, and what would still fit."""

from __future__ import annotations

import math
from dataclasses import replace

from ..accounting import Gaussian, epsilon, mu_for
from ..budget import failure_of
from .budget import Budget
from .chain import State
from .entry import Asked
from .filter import Cost


def room(budget: Budget, state: State, delta: float, steps: int = 1) -> float:
    """The largest epsilon, at ``delta``, of a fit with Gaussian noise that still fits; 0 if none.

    At ``delta=0``, with Laplace noise. ``steps``: see :meth:`Budget.steps`.
    """
    limits, totals, failure = state.limits, state.totals, failure_of(delta)
    fresh = totals == Cost()
    if not delta:
        return (budget.epsilon if limits is None or fresh else limits.left_pure(totals)) / steps
    if limits is None or fresh:
        failures = budget.delta
        whole = max(0.0, budget.delta - steps * failure)
        mu = mu_for(budget.epsilon, whole) if whole else 0.0
    else:
        failures, mu = limits.left_for_failures(totals), limits.left(totals)
    if steps * failure > failures or not mu > 1e-12:
        return 0.0
    return epsilon(Gaussian(steps / mu), delta - failure, "gdp") * (1 - 1e-6)


def refusal(
    dataset: str, budget: Budget, state: State, asked: Asked, cost: Cost, steps: int
) -> str:
    """Why a reservation is refused, what is left and what would still fit."""
    limits, totals = state.limits_for(budget, cost), state.totals
    said = (
        f"the ledger has too little left of {dataset!r} for {asked.model}: of {budget}, "
        f"epsilon {limits.epsilon(totals, budget):.4g} is spent or reserved, and this asks for "
        f"epsilon {asked.epsilon:g} at delta {asked.delta:g}. "
    )
    if limits.allow(replace(totals + cost, failure=0, apart=0)):
        if (totals + cost).apart > limits.apart:
            return (
                f"{said}There is enough of epsilon, but not of delta: at so large an epsilon, what "
                "discrete noise adds to delta is more than is left for it. Nothing was released"
            )
        return (
            f"{said}There is enough of epsilon, but not of delta: failures may still take "
            f"{limits.left_for_failures(totals):.3g} of it, and this would take "
            f"{cost.failures:.3g}. Use a smaller delta, or max_rows= where it is known. Nothing "
            "was released"
        )
    if cost.laplace:
        # By whichever rule, in proportion.
        squares = max(0.0, (limits.squares - totals.squares) / cost.squares)
        pure = 0.0 if cost.gaussian else limits.left_pure(totals) / cost.epsilon
        most = asked.epsilon * max(math.sqrt(squares), pure)
    else:
        most = room(budget, state, asked.delta, steps)
    if most <= 0:
        return f"{said}Nothing more fits. Nothing was released"
    return (
        f"{said}At delta {asked.delta:g}, about epsilon {_rounded_down(most):g} would still fit. "
        "Nothing was released"
    )


def _rounded_down(value: float) -> float:
    """To three digits.

    Examples
    --------
    >>> _rounded_down(0.98765)
    0.987
    """
    unit = 10.0 ** (math.floor(math.log10(value)) - 2)
    return float(f"{math.floor(value / unit) * unit:.3g}")
