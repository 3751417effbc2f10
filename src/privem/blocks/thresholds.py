"""Which values occur often, where nobody knows beforehand which ones there are.

A sum over records has a number for everything that may occur. What texts a column holds nobody
knows: so only those that do occur are counted, every count gets noise, and a text is published if
its noisy count reaches a threshold. Counts themselves are not published.

*Sensitivity.* A record (of a person, one row drawn at random) adds one to the count of one value in
each of k columns. Adding or removing it moves the counts by sqrt(k), replacing it by sqrt(2 k).

*Threshold.* A value that only this record has occurs in one of two neighbours and not in the other.
There are at most m such values: m = k where a record is added or removed, m = 2 k where one is
replaced, and m is also how many counts may differ: what the release is priced for. The threshold is
so high that noise lifts a count of one over it with a probability of at most delta'/m. Any of them
is published with a probability of at most delta', which is charged beside the noise
(:attr:`privem.core.Spent.failure`). Proof: docs/proofs/tables.md, section 9.

*Tail.* For discrete Gaussian noise N of parameter s (in lattice steps), P(N >= t) <= Q((t - 1)/s):
the sum of exp(-x^2/(2 s^2)) over x >= t is at most its integral from t - 1 on, and over all whole
numbers it is at least s sqrt(2 pi) (Poisson summation). And Q(z) <= exp(-z^2/2)/(z sqrt(2 pi)),
which exceeds Q(z) by a part in z^2: far more than floating-point numbers err.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..core import Block, Group, Release, Scratch, Spent
from ..noise.discrete import Discrete, encode
from .sensitivity import UP, moved


@dataclass(frozen=True)
class Values:
    """Those values of each column that are published, sorted."""

    names: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class ValuesQuery:
    """How often each value of some columns of text occurs; derived above.

    Only a source that holds text can answer it (:class:`privem.data.raw.ListedSource`), and only
    with :class:`Thresholded` noise.
    """

    columns: tuple[str, ...]
    view: str = "values"
    block_rows: int = 16_384

    def __call__(self, block: Block, scratch: Scratch) -> Any:
        """Raise: rows of numbers hold no text."""
        raise TypeError("values of text cannot be counted in rows of numbers")

    def groups(self, neighbours: str) -> list[Group]:
        """Those counts that may differ between neighbours."""
        k = len(self.columns)
        most = int(moved(neighbours, k, 2 * k))
        return [Group("values", slice(0, most), math.sqrt(most) * UP)]

    def rounding(self, rows: float) -> float:
        """Whole numbers: no rounding error."""
        return 0.0


@dataclass(frozen=True)
class Thresholded:
    """Noise on the count of every value that occurs; what reaches the threshold is published.

    Parameters
    ----------
    noise : Discrete
    failure : float
        The probability, charged to delta, that a value which one record alone has is published.
    most : int
        At most so many values of a column are published: those with the largest noisy counts.

    Examples
    --------
    >>> noise = Thresholded(Discrete(4.0, "add-remove", 1e6), 1e-7)
    >>> query = ValuesQuery(("city",))
    >>> noise.release(query, [{"Bonn": 900, "Cork": 500, "Ulm": 1}]).statistics
    Values(names=(('Bonn', 'Cork'),))
    >>> round(noise.threshold(query), 1)  # in records
    21.8
    """

    noise: Discrete
    failure: float
    most: int = 2**13

    @property
    def private(self) -> bool:
        """Always true."""
        return True

    def price(self, query: Any) -> tuple[Spent, ...]:
        """What the noise costs, and what the threshold adds to delta."""
        (spent,) = self.noise.price(query)
        return (replace(spent, failure=self.failure),)

    def threshold(self, query: Any) -> float:
        """The noisy count from which values are published."""
        (spent,) = self.price(query)
        return least_steps(spent) * spent.grid

    def release(self, query: Any, total: Any) -> Release[Any]:
        """Add noise to every count, and publish the values that reach the threshold.

        ``total``: how often each value occurs, as a mapping for each column. What is published is
        sorted, so that nothing but the values themselves can be seen.
        """
        (spent,) = self.price(query)
        least = least_steps(spent)
        published = []
        for counts in total:
            names = np.array(sorted(counts), dtype=object)
            exact = np.array([counts[name] for name in names], dtype=np.float64)
            noisy = encode(exact, spent, self.noise.entropy)
            first = np.argsort(-noisy, kind="stable")[: self.most]
            published.append(tuple(sorted(names[first[noisy[first] >= least]])))
        return Release(query, Values(tuple(published)), None, (spent,))


def least_steps(spent: Spent) -> int:
    """The threshold in steps of the lattice; derived above."""
    one = math.ceil(1.0 / spent.grid)
    return one + 1 + math.ceil(spent.steps * _quantile(spent.failure / spent.dimension))


def _quantile(probability: float) -> float:
    """A number that a normal variable exceeds with no more than this probability."""
    if not 0 < probability < 0.1:
        raise ValueError(f"a threshold needs a delta above 0 and far below 1, got {probability}")
    low, high = 1.0, 40.0
    for _ in range(100):
        middle = 0.5 * (low + high)
        bound = -0.5 * middle**2 - math.log(middle * math.sqrt(2 * math.pi))
        low, high = (low, middle) if bound <= math.log(probability) else (middle, high)
    return high * (1 + 1e-9)
