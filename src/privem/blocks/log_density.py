"""Sums of log-densities under public models, the same limits for all of them.

m public densities p_1, ..., p_m give a record x the numbers l_i = clip(log p_i(x), low, high): the
same limits for every model, so that whatever is clipped is clipped alike.

*What is released.* The level, the mean of the l_i, varies much from record to record; where the
models disagree, v_i = l_i - level, varies little, and it alone tells which model is better. A mean
is also divided by the number of records, which may need counting. So a record adds

    ( a (level - middle), b pull(v), c ),     middle = (low + high)/2,

where pull() shortens the vector v to a length of at most C. With A = (high - low)/2 the level is
within A of the middle. a, b and c are such that a^2 A^2 + b^2 C^2 + c^2 = 1: disagreements have
half of it; of the rest, two thirds are the level's and one third the count's, which is best where
the mean level is half-way between the middle and a limit. What one model, or a public number of
records, does not need goes to the others.

*Sensitivity.* The squared norm of what a record adds is at most a^2 A^2 + b^2 C^2 + c^2 = 1. Adding
or removing a record moves the sum by at most 1, and replacing one by at most 2, attained by records
with opposite vectors where nothing is counted. A cap on weights multiplies both.

Released plainly, m numbers within A of the middle have the sensitivity sqrt(m) A. The noise on a
difference of two of them is then sqrt(2 m) A times the multiplier, where it is 2 C here.

*How far do they disagree?* C comes out of a release of its own, a histogram of |v| over nodes
r_0 > r_1 > ... a factor sqrt 2 apart, r_0 = sqrt(m) A being the largest length there is. A record
between two nodes counts for both, 1 - t and t, in proportion on the scale of logarithms. The norm
of (1 - t, t) is at most 1, and no inner product of two records is negative: the sensitivity is 1,
or sqrt 2 where a record is replaced.

*A contest* of two densities p and q asks which describes the records better. A record adds
clip(log p(x) - log q(x), -c, c): adding or removing a record moves the sum by at most c, replacing
one by at most 2 c, times the cap on weights.

Proofs, and why the computed sums keep to these bounds: ``docs/proofs/score.md``, and of contests
``docs/proofs/contest.md``.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from ..core import Block, Group, Scratch
from ..linalg import Array, gamma
from . import conditions
from .histograms import Histogram
from .robust_mean import MeanSums
from .sensitivity import UP, capped, moved

# How far exp and log may differ from one place in a block to another; they err by a few 2^-53.
EXP_ERROR = 2.0**-38
# Nodes of the histogram of disagreements, a factor sqrt(2) apart.
NODES = 16
# A length moves by so many times its relative error, on the scale of nodes: 2/ln 2, times the
# largest length over the smallest; and sqrt(2) for the two numbers that change. Rounded up.
_STEEP = 3.0 / math.log(2.0) * math.sqrt(2.0 ** (NODES - 1))
# What is taken for granted of disagreements that noise hides: exponential, of this mean for each
# square root of a model. And a cell says more if it is so many noise deviations high.
_USUAL = 0.5
_CLEAR = 2.0
_ROWS = 4088


class LogDensity(ABC):
    """Abstract base of public densities of records."""

    @property
    @abstractmethod
    def peak(self) -> float:
        """No log-density is higher."""

    @abstractmethod
    def log_joint(self, X: Array, scratch: Scratch) -> Array:
        """Logarithms of parts (K, b) whose sum is the density of each of the b records.

        Computed by additions and products of single numbers only, no matrix products: IEEE
        arithmetic rounds each in one way, so that a record's values are its own, wherever in a
        block it stands.
        """


class BoundedLogDensity(LogDensity):
    """Abstract base of those whose logarithm is bounded, whatever the record."""

    @property
    @abstractmethod
    def size(self) -> float:
        """No log-density is larger in size."""

    @abstractmethod
    def check(self, d: int) -> None:
        """Raise unless this is a density of records of d columns, and ``size`` holds."""


def log_density(density: LogDensity, X: Array, scratch: Scratch) -> Array:
    """The log-density of each record; a record's own, but for ``EXP_ERROR`` of its size."""
    joint = density.log_joint(X, scratch)
    with np.errstate(all="ignore"):
        top = np.fmax.reduce(joint, axis=0)
        total = np.zeros(len(X))
        for row in joint:
            np.subtract(row, top, out=row)
            np.exp(row, out=row)
            total += row
        return np.asarray(top + np.log(total))


@dataclass(frozen=True)
class ClippedLogs:
    """Log-densities of records, clipped to [low, high]; NaN counts as ``low``."""

    densities: tuple[LogDensity, ...]
    low: float
    high: float

    @property
    def middle(self) -> float:
        """What they are taken about."""
        return self.low / 2 + self.high / 2

    @property
    def half(self) -> float:
        """How far they may lie from the middle."""
        return self.high / 2 - self.low / 2

    @property
    def farthest(self) -> float:
        """The largest length of a vector of disagreements."""
        return math.sqrt(len(self.densities)) * self.half

    @property
    def moved(self) -> float:
        """How far a value may move from one place in a block to another, in units of ``half``."""
        return EXP_ERROR * (1 + abs(self.low) + abs(self.high)) / self.half

    def __call__(self, X: Array, scratch: Scratch) -> Array:
        """The values (m, b) about the middle, in units of ``half``: within [-1, 1]."""
        values = np.empty((len(self.densities), len(X)))
        for value, density in zip(values, self.densities, strict=True):
            # fmax: what is not a number (a missing value, no density at all) becomes the limit.
            found = np.fmax(log_density(density, X, scratch), self.low)
            np.minimum(found, self.high, out=value)
        values -= self.middle
        values /= self.half
        return values

    def apart(self, X: Array, scratch: Scratch) -> tuple[Array, Array, Array]:
        """Levels (b,), disagreements (m, b) and their lengths (b,), in the same units."""
        values, m = self(X, scratch), len(self.densities)
        level, square = np.zeros(len(X)), np.zeros(len(X))
        for value in values:
            level += value
        level /= m
        values -= level
        for value in values:
            square += value * value
        return level, values, np.sqrt(square)


@dataclass(frozen=True)
class LogDensitySums:
    """Sums of levels (1,), disagreements (m,) and records (1,), the last two where asked for."""

    level: Array
    apart: Array | None
    count: Array | None


@dataclass(frozen=True)
class LogDensityQuery:
    """The sum of levels, disagreements and records, as derived above.

    ``clip``: C, of several models; ``counted``: whether the number of records is not public.
    """

    logs: ClippedLogs
    clip: float | None = None
    counted: bool = True
    cap_weight: float = 1.0
    block_rows: int = _ROWS

    @property
    def units(self) -> tuple[float, float, float]:
        """What the sums of levels, disagreements and records are in: 1/a, 1/b and 1/c."""
        rest = 1.0 if self.clip is None else 0.5
        level = self.logs.half / math.sqrt(rest * (2 / 3 if self.counted else 1.0))
        return level, (self.clip or 0.0) / math.sqrt(0.5), math.sqrt(3 / rest)

    def contributions(self, block: Block, scratch: Scratch) -> Array:
        """What each record of a block adds, a column each, before weights."""
        (level, apart, count), half = self.units, self.logs.half
        if self.clip is None:
            parts = [self.logs(block.X, scratch) * (half / level)]
        else:
            mean, away, length = self.logs.apart(block.X, scratch)
            away /= np.maximum(length * (half / self.clip), 1.0)
            parts = [mean[None] * (half / level), away * (half / apart)]
        if self.counted:
            parts.append(np.full((1, len(block.X)), 1 / count))
        return np.concatenate(parts)

    def __call__(self, block: Block, scratch: Scratch) -> LogDensitySums:
        """Sum a block."""
        f = self.contributions(block, scratch)
        weight = capped(block.weight, self.cap_weight, f.shape[1])
        total, m = f.sum(axis=1) if weight is None else f @ weight, self._apart
        return LogDensitySums(
            total[:1], total[1 : 1 + m] if m else None, total[1 + m :] if self.counted else None
        )

    @property
    def _apart(self) -> int:
        return 0 if self.clip is None else len(self.logs.densities)

    @property
    def numbers(self) -> int:
        """How many are released."""
        return 1 + self._apart + self.counted

    def groups(self, neighbours: str) -> list[Group]:
        """A record adds a vector of norm 1 at most; two of them are at most 2 apart."""
        bound = moved(neighbours, 1.0, 2.0) * self.cap_weight * UP
        return [Group("scores", slice(0, self.numbers), bound)]

    def rounding(self, rows: float) -> float:
        """Where a record stands may move its values a little; and a rounding per row of a block.

        The level moves as far as a value; disagreements sqrt(m) times as far, which shortening
        does not increase.
        """
        level, apart, _ = self.units
        place = 1 / level
        if self.clip is not None:
            place += math.sqrt(self._apart) / apart
        place *= self.logs.half * self.logs.moved
        return rows * (place + gamma(self.block_rows + 32) * (1 + place))


@dataclass(frozen=True)
class DisagreementQuery:
    """How many records the models disagree about by how much."""

    logs: ClippedLogs
    cap_weight: float = 1.0
    block_rows: int = _ROWS

    @property
    def nodes(self) -> Array:
        """Lengths, the largest first."""
        return np.asarray(self.logs.farthest * 2.0 ** (-0.5 * np.arange(NODES)))

    def contributions(self, block: Block, scratch: Scratch) -> Array:
        """What each record of a block adds, (nodes, b), before weights."""
        _, _, length = self.logs.apart(block.X, scratch)
        with np.errstate(divide="ignore"):
            longest = math.sqrt(len(self.logs.densities))
            at = np.clip(2 * np.log2(longest / length), 0.0, NODES - 1.0)
        return np.asarray(np.maximum(0.0, 1 - np.abs(at - np.arange(NODES)[:, None])))

    def __call__(self, block: Block, scratch: Scratch) -> Histogram:
        """Sum a block."""
        f = self.contributions(block, scratch)
        weight = capped(block.weight, self.cap_weight, f.shape[1])
        return Histogram((f.sum(axis=1) if weight is None else f @ weight)[None])

    def groups(self, neighbours: str) -> list[Group]:
        """One group; derived above."""
        bound = math.sqrt(moved(neighbours, 1.0, 2.0)) * self.cap_weight * UP
        return [Group("disagreements", slice(0, NODES), bound)]

    def rounding(self, rows: float) -> float:
        """A length moves by sqrt(m) times as far as a value, and along the nodes in proportion."""
        place = _STEEP * self.logs.moved
        return rows * (place + gamma(self.block_rows + 32) * (1 + place))


def best_clip(
    counts: Array, noise: float, nodes: Array, records: float, unit: float, models: int
) -> float:
    """Where to clip disagreements: the node with the least squared bias and noise.

    Clipped at C, the mean of v moves by at most the mean of (|v| - C)+, which the histogram tells;
    the noise on its sum is ``unit`` C for each model. Cells that do not stand out of their noise
    count as much as is usual, and no more than noise may hide.
    """
    beyond = np.exp(-nodes / (_USUAL * math.sqrt(models)))
    usual = np.diff(beyond, prepend=0.0) * records
    counts = np.where(counts > _CLEAR * noise, counts, np.minimum(usual, _CLEAR * noise))
    bias = np.maximum(nodes - nodes[:, None], 0.0) @ counts
    return float(nodes[np.argmin(bias**2 + (unit * nodes) ** 2 * models)])


@dataclass(frozen=True)
class ContestQuery:
    """How much more likely records are under one density than under another.

    Parameters
    ----------
    first, second : BoundedLogDensity
    limit : float
        c: no record says more.
    cap_weight : float
    """

    first: BoundedLogDensity
    second: BoundedLogDensity
    limit: float
    cap_weight: float = 1.0
    block_rows: int = 4088
    travels = ("first", "second", "limit", "cap_weight")

    def contributions(self, block: Block, scratch: Scratch) -> Array:
        """What each record of a block adds, (b,), before weights."""
        first, second = (log_density(p, block.X, scratch) for p in (self.first, self.second))
        # fmax: what is not a number becomes the lower limit.
        return np.minimum(np.fmax(first - second, -self.limit), self.limit)

    def __call__(self, block: Block, scratch: Scratch) -> MeanSums:
        """Sum a block."""
        f = self.contributions(block, scratch)
        weight = capped(block.weight, self.cap_weight, len(f))
        return MeanSums(np.atleast_1d(f.sum() if weight is None else f @ weight))

    def groups(self, neighbours: str) -> list[Group]:
        """A record adds a number in [-c, c]; two of them are at most 2 c apart."""
        bound = self.limit * moved(neighbours, 1.0, 2.0) * self.cap_weight * UP
        return [Group("contest", slice(0, 1), bound)]

    def rounding(self, rows: float) -> float:
        """Both log-densities may be moved a little; and a rounding per row of a block."""
        off = sum(EXP_ERROR * (1 + density.size) for density in (self.first, self.second))
        off = min(off, 2 * self.limit)
        return rows * (off + gamma(self.block_rows + 32) * (self.limit + off))

    def check(self, d: int, private: bool) -> None:
        """Two bounded densities, and a limit; it is for private fits."""
        conditions.need(private)
        conditions.ordinary(self.limit, self.cap_weight)
        for density in (self.first, self.second):
            density.check(d)
