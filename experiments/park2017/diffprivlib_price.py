"""What diffprivlib's k-means really spends (0.6.5 and 0.6.6, ``models/k_means.py``).

Per iteration it adds noise to a count and d sums of each cluster. ``_split_epsilon`` wants to give
one part of the budget to each coordinate's sum and c = cbrt(4 d 0.225^2) parts to the count, and
normalises by d + c; but it returns the two in the other order than ``_update_centers`` unpacks
them. So the count gets 1 part, each sum c, and an iteration costs 1 + d c where d + c are booked:
1.21 times at d = 10, 0.91 times at d = 2.

That takes its own sensitivities for granted. What it spends *at least*, whatever they should be,
is seen on a pair of neighbours: a record at the corner (1, ..., 1) of the box [-1, 1]^d joins a
large cluster whose sum lies well inside its range. The count's loss is that of a geometric
mechanism moved by its sensitivity, no less than Laplace noise of scale 1/epsilon_count. Each sum
moves by 1 under ``LaplaceBoundedDomain``, whose scale b solves epsilon_sum = 2/b + log C(b) with
C(b) <= 1 + 2/b, so b <= 4/epsilon_sum, and inside a wide range it is plain Laplace noise. So an
iteration spends no less than Laplace noise at 1 + d c/4 parts. That is composed over iterations at
delta by privacy loss distributions. It is the lowest price we can defend, and it gives diffprivlib
the least noise at equal epsilon; at its own sensitivities it would have to make do with a
fraction of it.

Not charged, though it makes the promise void at any epsilon: clusters without records are left
without noise, exact labels and inertia are published, and noise is floating-point.
"""

from __future__ import annotations

import math

from privem.accounting import Composed, Laplace, epsilon

__all__ = ["booked_and_spent", "nominal_for", "rounds", "spent"]

_RHO = 0.225


def _parts(d: int) -> float:
    return float((4 * d * _RHO**2) ** (1 / 3))


def rounds(nominal: float, n: int, d: int, k: int) -> int:
    """``_calc_iters``: reads the exact number of records."""
    least = math.sqrt(500 * k**3 / n**2 * (d + _parts(d)) ** 3)
    return int(max(min(nominal / least, 7), 2))


def booked_and_spent(d: int) -> tuple[float, float]:
    """Parts of the budget booked and spent in an iteration, at its own sensitivities."""
    return d + _parts(d), 1 + d * _parts(d)


def spent(nominal: float, n: int, d: int, k: int, delta: float) -> float:
    """What it spends at least, at ``delta``; see above."""
    turns = rounds(nominal, n, d, k)
    part = nominal / turns / (d + _parts(d))
    count, total = part, part * _parts(d) / 4
    pure = turns * (count + d * total)
    event = Composed(((Laplace(1 / count), turns), (Laplace(1 / total), turns * d)))
    return min(pure, epsilon(event, delta, "pld"))


def nominal_for(target: float, n: int, d: int, k: int, delta: float) -> float:
    """The epsilon to ask for so that ``target`` is spent."""
    low, high = target / 4, target * 64
    for _ in range(14):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if spent(middle, n, d, k, delta) <= target else (low, middle)
    return low
