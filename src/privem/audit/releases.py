"""The audit of one release, drawn many times.

The sum of a release is computed once per data set and only its noise is drawn again: for a single
release that is exact, and cheap enough for millions of draws.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..core import Noise, Query, Spent
from ..linalg import Array, ravel
from ..noise.discrete import Discrete
from .curves import Claim, multiplier
from .evidence import Evidence, judge
from .neighbours import Dataset
from .report import Finding

_CHUNK = 2**14
# Single coordinates that become statistics of their own.
_COORDINATES = 16


def exact_sum(query: Query[Any], data: Any) -> Any:
    """The secret sum of a query, through the same source that a fit uses."""
    cap = float(getattr(query, "cap_weight", 1.0))
    return Dataset.of(data).source(cap).total(query, private=True)


def random_sum(query: Any, data: Dataset) -> bool:
    """Whether the sum itself is drawn: over random cells, or one row per person."""
    view = getattr(query, "view", "rows")
    if getattr(query, "cell", None) is not None:
        return True
    return bool(view == "persons" and data.groups is not None)


@dataclass(frozen=True)
class ReleaseAudit:
    """What an audit of one release proved by its draws.

    ``moved`` holds, of each group of numbers, its name, the distance of the two rounded sums and
    the distance that the release allows. A larger distance is a violation with certainty. It is
    empty if the sums are random.

    Examples
    --------
    A count that one record moves by one, as it was charged:

    >>> from privem.blocks.histograms import CountQuery
    >>> from privem.noise.discrete import Discrete
    >>> X = np.zeros((10, 1))
    >>> audit = audit_release(CountQuery(), Discrete(1.0, "add-remove", 100.0), X, X[:9], 100)
    >>> round(audit.share, 3), audit.too_far, audit.violated
    (1.0, False, False)
    """

    name: str
    evidence: Evidence
    moved: tuple[tuple[str, float, float], ...]

    @property
    def share(self) -> float:
        """How much of the charged sensitivity this pair of data sets uses, at most over groups."""
        return max((d / a if a > 0 else math.inf for _, d, a in self.moved), default=0.0)

    @property
    def too_far(self) -> bool:
        """Whether the neighbours' sums lie further apart than the charged sensitivity."""
        return any(not distance <= allowed * (1 + 1e-12) for _, distance, allowed in self.moved)

    @property
    def violated(self) -> bool:
        """Whether the claim is refuted."""
        return self.evidence.violated or self.too_far

    def finding(self) -> Finding:
        """As a line of a report."""
        share = self.share if self.moved else math.nan
        line = self.evidence.finding(self.name, "", "draws", share, moved=self.moved)
        return replace(line, passed=not self.violated)


def log_ratio(laplace: Array, scale: Array, x: Array, a: Array, b: Array) -> Array:
    """Log-likelihood ratio of released rows x (draws, D) between exact sums a and b.

    ``laplace`` says (1 or 0) which numbers have Laplace noise, ``scale`` its size.
    """
    linear = (x - (a + b) / 2) @ ((1 - laplace) * (a - b) / scale**2)
    which = np.flatnonzero(laplace)
    if len(which):
        y, c, d = x[:, which], a[which], b[which]
        linear = linear + ((np.abs(y - d) - np.abs(y - c)) / scale[which]).sum(axis=1)
    return np.asarray(linear)


class Layout:
    """Which number of a release belongs to which group: grid, scale and kind of its noise."""

    def __init__(self, query: Any, noise: Noise, prices: tuple[Spent, ...], size: int) -> None:
        self.prices = prices
        groups = query.groups(getattr(noise, "neighbours", "add-remove"))
        self.wheres: list[slice] = [group.where for group in groups]
        self.grid, self.scale, self.laplace = np.ones(size), np.ones(size), np.zeros(size)
        for spent, where in zip(prices, self.wheres, strict=False):
            self.grid[where], self.scale[where] = spent.grid, spent.scale
            self.laplace[where] = spent.kind == "laplace"


def _draw(
    query: Any, noise: Noise, view: _Statistics, data: Dataset, draws: int, each: bool
) -> dict[str, Array]:
    """Views of released vectors; a sum that is random is drawn anew with the noise."""
    total = None if random_sum(query, data) else exact_sum(query, data)
    parts = []
    for start in range(0, draws, _CHUNK):
        size = min(_CHUNK, draws - start)
        anew = (exact_sum(query, data) if total is None else total for _ in range(size))
        if each or type(noise) is not Discrete:  # something derived from it is another noise
            x = np.stack([ravel(noise.release(query, sums).statistics)[view.at] for sums in anew])
        elif total is None:
            x = _publish(noise, view, np.stack([ravel(sums)[view.at] for sums in anew]))
        else:
            x = _publish(noise, view, np.tile(ravel(total)[view.at], (size, 1)))
        parts.append(view(x))
    return {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}


def _publish(noise: Discrete, view: _Statistics, sums: Array) -> Array:
    """One release per row of exact sums (draws, numbers that are looked at).

    The publishing step itself, on many sums of each group: numbers are treated one by one there,
    which the structural checks look into.
    """
    x = np.empty_like(sums)
    for spent, where in zip(view.layout.prices, view.layout.wheres, strict=True):
        mine = np.flatnonzero((view.at >= where.start) & (view.at < where.stop))
        if len(mine):
            x[:, mine] = noise._publish(sums[:, mine].ravel(), spent).reshape(len(sums), -1)
    return x


class _Statistics:
    """Scalar views of a released vector that would tell two data sets apart.

    Numbers that are the same on both are left out beyond a few: a histogram has thousands.
    """

    def __init__(self, layout: Layout, a: Array, b: Array) -> None:
        self.layout = layout
        with np.errstate(all="ignore"):
            apart = np.nan_to_num(np.abs(a - b) / layout.scale, nan=np.inf)
        order = np.argsort(-apart, kind="stable")
        self.at = order[: max(np.count_nonzero(apart), _COORDINATES)]
        self.single = [i for i in range(len(self.at[:_COORDINATES])) if apart[self.at[i]] > 0]
        self.a, self.b = a[self.at], b[self.at]
        self.grid, self.scale = layout.grid[self.at], layout.scale[self.at]

    def __call__(self, x: Array) -> dict[str, Array]:
        """All of them, one value per row."""
        laplace = self.layout.laplace[self.at]
        # A broken mechanism may give infinities; they are evidence, not an error.
        with np.errstate(all="ignore"):
            size = (((x - (self.a + self.b) / 2) / self.scale) ** 2).sum(axis=1)
            found = {
                "the likelihood ratio": log_ratio(laplace, self.scale, x, self.a, self.b),
                "the size of the noise": size,
                "agreement of low bits": self._low_bits(x, self.a) - self._low_bits(x, self.b),
            }
        return found | {f"number {self.at[i]}": x[:, i] for i in self.single}

    def _low_bits(self, x: Array, exact: Array) -> Array:
        """How many numbers lie on the lattice through ``exact``, rather than the one through 0."""
        odd = np.mod(exact, self.grid)
        agree = (np.mod(x, self.grid) == odd) & (odd != 0)
        return np.asarray(agree.sum(axis=1), dtype=np.float64)


def audit_release(
    query: Any,
    noise: Noise,
    data: Any,
    neighbour: Any,
    draws: int = 100_000,
    *,
    delta: float = 1e-6,
    alpha: float = 1e-6,
    one_by_one: bool = False,
    name: str = "release",
) -> ReleaseAudit:
    """Draw one release many times on two neighbouring data sets and test what it claims.

    Parameters
    ----------
    query : PrivateQuery
    noise : Noise
        As in a stage; the claim is ``noise.price(query)``.
    data, neighbour : array of shape (n, d) or Dataset
        Neighbours in the sense of the noise.
    draws : int
        How many draws on each data set.
    delta : float
        Epsilon is reported at this delta.
    alpha : float
        A correct release fails with at most this probability.
    one_by_one : bool
        Call ``noise.release`` once per draw, instead of its publishing step on many copies at once.
        This is always done for noise other than privem's own.

    Examples
    --------
    >>> import numpy as np
    >>> from privem.blocks.histograms import CountQuery
    >>> from privem.noise.discrete import Discrete
    >>> X = np.zeros((10, 1))
    >>> found = audit_release(CountQuery(), Discrete(1.0, "add-remove", 100.0), X, X[:9], 2000)
    >>> found.violated, found.evidence.claimed_mu < 1.0001
    (False, True)
    """
    pair = (Dataset.of(data), Dataset.of(neighbour))
    prices = noise.price(query)
    claim = Claim.of(prices)
    random = any(random_sum(query, side) for side in pair)
    a, b = (
        np.mean([ravel(exact_sum(query, side)) for _ in range(64 if random else 1)], axis=0)
        for side in pair
    )
    layout = Layout(query, noise, prices, a.size)
    view = _Statistics(layout, a, b)
    moved = () if random else _moved(layout, a, b)
    one, other = (_draw(query, noise, view, side, draws, one_by_one) for side in pair)
    samples = {key: (one[key], other[key]) for key in one}
    return ReleaseAudit(name, judge(samples, claim, delta, alpha), moved)


def _moved(layout: Layout, a: Array, b: Array) -> tuple[tuple[str, float, float], ...]:
    """Distance of the rounded sums, per group, and what the price allows."""
    found = []
    for spent, where in zip(layout.prices, layout.wheres, strict=True):
        order = 1 if spent.kind == "laplace" else 2
        with np.errstate(all="ignore"):
            apart = np.rint(a[where] / spent.grid) - np.rint(b[where] / spent.grid)
            distance = float(np.linalg.norm(apart, ord=order)) * spent.grid
        allowed = spent.scale / multiplier(spent) if multiplier(spent) > 0 else 0.0
        found.append((spent.name, distance, allowed))
    return tuple(found)
