"""Privacy loss distributions (dp_accounting): the tight answer where Laplace noise is mixed in.

All Gaussian releases are one Gaussian of the composed mu, so they enter as a single loss
distribution; each Laplace release enters as randomized response, its worst case (see
`rdp`). Discrete Gaussian noise enters as in `gdp`: as the rounded continuous
Gaussian of variance sigma^2 - 1/12, a post-processing of the continuous one, plus (1 + e^eps) times
the total variation between them. The library's own discrete Gaussian would be exact in one
dimension only (many coordinates have no worst shift) and cannot reach 2^24 steps.

The library rounds losses pessimistically (Doroshenko et al. 2022, algorithm 1) but convolves by
FFT, whose rounding has no sign; `_slack` bounds it and is added to delta.

Examples
--------
>>> from privem.accounting.events import Gaussian, Laplace, compose
>>> round(PLD.epsilon(compose(Gaussian(5.0, steps=2**24), Laplace(4.0)), 1e-6), 2)
1.06
>>> round(PLD.delta(Laplace(1.0), 0.5), 4)
0.2876
"""

from __future__ import annotations

import functools
import math
from typing import Any

from .accountant import Accountant, discreteness, gaussian_curve, smallest
from .events import Laplace, Tally

_TRUNCATED = 1e-20
_MOST_CELLS = 400_000
# Standard deviations of the loss that the grid can hold; outside, only the trivial bound is given.
_SPREADS = (1e-8, 500.0)


def _spread(mu: float, laplaces: tuple[tuple[Laplace, int], ...]) -> float:
    squares = math.fsum(count * event.epsilon * event.epsilon for event, count in laplaces)
    return math.sqrt(mu * mu + squares)


@functools.lru_cache(maxsize=16)
def _loss(mu: float, laplaces: tuple[tuple[Laplace, int], ...]) -> tuple[Any, float]:
    """Composed loss distribution and a bound on its rounding error in delta."""
    from dp_accounting.pld import privacy_loss_distribution as library

    spread = _spread(mu, laplaces)
    # The library cuts Gaussian losses where their tail falls below e^-90, past 13 standard
    # deviations on each side.
    reach = 32 * spread + 2 * max((event.epsilon for event, _ in laplaces), default=0.0)
    # A thousandth of the spread makes the second-order discretisation error about 1e-7; randomized
    # response needs a few cells between its two losses; and the number of cells must stay in hand.
    finest = min([spread / 1000, 0.01, *(event.epsilon / 4 for event, _ in laplaces)])
    interval = max(finest, (reach + mu * mu) / _MOST_CELLS)
    cells = {"value_discretization_interval": interval}
    parts = []
    if mu:
        parts = [library.from_gaussian_mechanism(1.0 / mu, log_mass_truncation_bound=-90, **cells)]
    for event, count in laplaces:
        # Discrete Laplace noise at sensitivity one step: randomized response.
        single = library.from_discrete_laplace_mechanism(
            event.epsilon, sensitivity=1, use_connect_dots=True, **cells
        )
        parts.append(single if count == 1 else single.self_compose(count, _TRUNCATED))
    total = functools.reduce(lambda one, other: one.compose(other, _TRUNCATED), parts)
    return total, _slack(reach / interval, sum(n for _, n in laplaces))


def _slack(cells: float, releases: int) -> float:
    """Allowance for the error of delta from FFT convolution.

    A transform of N cells errs by at most about 4 u log2 N relative to the 2-norm, a k-th power by
    k times that, and delta weighs N cells by at most 1 each, hence sqrt(N). (Higham 2002, theorem
    24.2; its constant depends on the implementation: 4 is the usual order of magnitude, not proved
    for this one.)
    """
    if not releases:
        return 0.0
    cells = max(cells, 4.0)
    return 4 * 2.0**-53 * math.log2(cells) * math.sqrt(cells) * (releases + 2)


def _delta_at(bill: Tally, epsilons: list[float]) -> list[float]:
    mu, drift = gaussian_curve(bill)
    if not _SPREADS[0] <= _spread(mu, bill.laplaces) <= _SPREADS[1]:
        return [1.0] * len(epsilons)
    loss, slack = _loss(mu, bill.laplaces)
    # One call per epsilon: the library's vectorised form subtracts large sums and overflows, this
    # one does not.
    return [
        max(float(loss.get_delta_for_epsilon(x)), 0.0) * (1 + 2.0**-36)
        + slack
        + discreteness(drift, x)
        for x in epsilons
    ]


def _epsilon(bill: Tally, delta: float) -> float:
    if delta == 0:
        return math.inf
    # delta is convex in e^eps with at most one turning point, after which nothing is gained: scan,
    # then bisect.
    mu = gaussian_curve(bill)[0]
    pure = math.fsum(n * event.epsilon for event, n in bill.laplaces)
    if math.isinf(mu + pure):
        return math.inf
    top = mu * mu / 2 + mu * math.sqrt(2 * math.log(2 / delta)) + pure
    grid = [top * i / 16 for i in range(17)]
    values = _delta_at(bill, grid)
    first = next((i for i, value in enumerate(values) if value <= delta), None)
    if first is None:
        return math.inf
    if first == 0:
        return 0.0
    return smallest(lambda x: _delta_at(bill, [x])[0] <= delta, grid[first - 1], grid[first], 1e-9)


def _delta(bill: Tally, epsilon: float) -> float:
    # Smaller epsilons imply this one, so take the least over them: the drift term grows with
    # epsilon.
    return min(1.0, *_delta_at(bill, [epsilon * i / 32 for i in range(33)]))


PLD = Accountant.of("pld", _epsilon, _delta)
