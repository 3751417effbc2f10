"""Discrete noise on a lattice: how every private sum becomes public.

:func:`encode` does it, for a central fit (:meth:`Discrete.release`), for a party's own sum
(:mod:`privem.federation.sums`) and on a person's device (:mod:`privem.local`):

1. The whole sum is rounded once onto a lattice of step g, a power of two, so that dividing by g,
   rounding, and multiplying back are exact in floating point.
2. Exact integer noise is added (:mod:`privem.noise.sampler`).
3. What is published is an integer multiple of g.

The sensitivity charged is that of the rounded, computed sum: the query's own (derived beside it),
plus twice the query's bound on its floating-point error, plus g sqrt(D) for rounding D numbers
(each of two neighbours moves by at most g/2 per number). Proof: ``docs/proofs/release.md``, section
1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..core import Group, Release, Spent
from ..linalg import Array, ravel, unravel
from .sampler import Entropy, discrete_gaussian, discrete_laplace, os_entropy

Statistics = TypeVar("Statistics")

_STEPS_LOG2 = 24  # the scale is at least 2**24 lattice steps
_MOST_STEPS_LOG2 = 38  # and below 2**40, which the sampler can do
_LIMIT = 2.0**62  # encoded sums stay below this, noise far below 2**62: int64 cannot wrap


class NoSuchNoise(ValueError):
    """The terms ask for more or less noise than can be added exactly."""


@dataclass(frozen=True)
class Discrete:
    """Discrete Gaussian or Laplace noise, depending on the group, at one noise multiplier.

    Parameters
    ----------
    multiplier : float
        Noise scale over (widened) sensitivity, for every group.
    neighbours : {"add-remove", "replace-one"}
        Which data sets are neighbours.
    rows : float
        A public bound on the number of records (the sum of their weights, if they have any), for
        the floating-point error.
    entropy : Entropy
        Where random bytes come from; anything but the default is for tests.
    """

    multiplier: float
    neighbours: str
    rows: float
    entropy: Entropy = os_entropy

    @property
    def private(self) -> bool:
        """Always true."""
        return True

    def price(self, query: Any) -> tuple[Spent, ...]:
        """Lattice, noise and cost of each group of a ``PrivateQuery``, before any row is read."""
        error = query.rounding(self.rows)
        cell = getattr(query, "cell", None)
        # The sensitivity is that of a record of the largest weight; there are at most `most` such.
        most = self.rows / max(1.0, getattr(query, "cap_weight", 1.0))
        spent = (self._spend(group, error, most) for group in query.groups(self.neighbours))
        return tuple(spent if cell is None else (replace(s, cell=cell.index) for s in spent))

    def _spend(self, group: Group, error: float, most: float) -> Spent:
        d = group.dimension
        # unit: twice the norm of d errors of half a step. stretch: from an L2 norm to an L1 norm.
        gaussian = group.kind == "gaussian"
        unit, stretch = (math.sqrt(d), 1.0) if gaussian else (float(d), math.sqrt(d))
        slack = 2 * error * stretch
        # Fine enough that rounding to the lattice widens the sensitivity by a part in 256.
        bits = max(_STEPS_LOG2, math.frexp(unit * self.multiplier)[1] + 8)
        if bits > _MOST_STEPS_LOG2:
            raise NoSuchNoise(
                f"{group.name}: {d} numbers at a noise multiplier of {self.multiplier:.3g} need a "
                f"finer lattice than 2^-{_MOST_STEPS_LOG2}; use a larger epsilon or fewer features"
            )
        if not math.isfinite(slack):
            raise ValueError(
                f"{group.name}: sums of {self.rows:.3g} records under these parameters have no "
                "finite rounding error; start from wider covariances"
            )
        # Upward margins: no rounding here may end below the noise that was promised.
        share = 1.0 / self.multiplier - unit * 2.0**-bits
        wanted = (group.sensitivity + slack) / share * (1 + 2.0**-40)
        grid = math.ldexp(1.0, math.frexp(wanted)[1] - 1 - bits)
        # One record moves a number by at most the sensitivity, so a sum is at most `most` times it.
        if most * (group.sensitivity + slack) / grid >= _LIMIT:
            raise NoSuchNoise(
                "epsilon is too large: so little noise cannot be added exactly to a sum over up "
                f"to {self.rows:.2g} records. Use a smaller epsilon (above 20 or so it protects "
                "hardly anybody), or epsilon=None (--exact at the command line) for a fit without "
                f"noise or privacy. ({group.name}: sums would not fit 62 bits at a noise "
                f"multiplier of {self.multiplier:.3g})"
            )
        steps = math.ceil(wanted / grid)
        return Spent(group.name, group.kind, d, group.sensitivity, slack, grid, steps)

    def release(self, query: Any, total: Statistics) -> Release[Statistics]:
        """Round, add noise, publish."""
        exact = ravel(total)
        parts = pieces(query, self.neighbours, self.price(query), exact.size)
        noisy = [self._publish(exact[where], spent) for where, spent in parts]
        return released(query, total, noisy, parts, [spent.deviation for _, spent in parts])

    def _publish(self, exact: Array, spent: Spent) -> Array:
        steps = encode(exact, spent, self.entropy)
        return np.asarray(steps.astype(np.float64) * spent.grid)


Pieces = Sequence[tuple[slice, Spent]]


def pieces(query: Any, neighbours: str, prices: Sequence[Spent], size: int) -> Pieces:
    """Where each group lies in a statistic of ``size`` numbers, and the price of the group."""
    wheres = [group.where for group in query.groups(neighbours)]
    edges = [0, *(where.stop for where in wheres)]
    if [where.start for where in wheres] != edges[:-1] or edges[-1] != size:
        raise ValueError("the groups of a query must cut its numbers, in order, into pieces")
    return list(zip(wheres, prices, strict=True))


def encode(
    exact: Array, spent: Spent, entropy: Entropy = os_entropy, share: int = 1
) -> NDArray[np.int64]:
    """Sums of one group, of any shape, as they may leave: rounded once, with noise on each number.

    The result counts lattice steps. ``share`` is as in :func:`draw`.
    """
    steps = lattice(exact, spent)
    return np.asarray(steps + draw(spent, steps.size, entropy, share).reshape(steps.shape))


def released(
    query: Any,
    like: Statistics,
    noisy: Sequence[Array],
    parts: Pieces,
    deviations: Sequence[float],
) -> Release[Statistics]:
    """The release of noisy sums: one array, one piece and one standard deviation per group."""
    spread = [np.full(len(sums), one) for sums, one in zip(noisy, deviations, strict=True)]
    return Release(
        query,
        unravel(like, np.concatenate(noisy)),
        unravel(like, np.concatenate(spread)),
        tuple(spent for _, spent in parts),
    )


def too_fine(multiplier: float, kind: str, dimension: int, rows: float) -> bool:
    """Whether sums over ``rows`` records might not fit the lattice; true whenever they do not.

    A sum is at most ``rows`` sensitivities, and a lattice step at least 2^-(bits + 1) of the noise.
    """
    unit = math.sqrt(dimension) if kind == "gaussian" else float(dimension)
    finest = max(2.0 ** (_STEPS_LOG2 + 1) / multiplier, 2.0**10 * unit)
    return rows * finest >= _LIMIT


def lattice(exact: Array, spent: Spent) -> NDArray[np.int64]:
    """Sums in whole lattice steps: the one rounding.

    Clamping moves neighbours no further apart. Sources only give finite sums
    (:mod:`privem.data.sums`). NaN from any other caller becomes 0 instead of the integer -2^63,
    to which no noise can be added.
    """
    steps = np.nan_to_num(np.rint(exact / spent.grid), nan=0.0)
    return np.asarray(np.clip(steps, -_LIMIT, _LIMIT).astype(np.int64))


def draw(
    spent: Spent, size: int, entropy: Entropy = os_entropy, share: int = 1
) -> NDArray[np.int64]:
    """Integer noise of one group, or one of ``share`` equal parts of Gaussian noise.

    ``share`` independent parts together have at least the promised variance (rounded up). Laplace
    noise is not shared: every call draws all of it.
    """
    if spent.kind == "gaussian":
        return discrete_gaussian(-(-(spent.steps**2) // share), size, entropy)
    return discrete_laplace(spent.steps, size, entropy)
