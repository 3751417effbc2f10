"""Latent classes over categorical columns: counts per class and category are the statistic.

Column j has m_j categories; a record is d codes, code c of column j being its c-th category, or
anything else: a value outside the declared ones, which counts as not seen. Written as the indicator
vector e of p = sum m_j zeros and ones, a class is a vector of p probabilities, and everything below
is two matrix products with e.

*Sensitivity of a class table.* With responsibilities g >= 0 of sum one, a record contributes
(g_k, g_k e)_k. e has at most one 1 per column, so |e|^2 <= d and the contribution's squared norm is
sum_k g_k^2 (1 + |e|^2) <= B = 1 + d: adding or removing a record moves the sum by at most sqrt(B).
The inner product of two contributions is sum_k g_k g'_k (1 + <e, e'>) >= 0, so replacing a record
moves it by at most sqrt(2 B); records sure of different classes attain it.

Weights and persons multiply it by the cap on weights (:mod:`privem.blocks.sensitivity`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ...blocks import conditions
from ...blocks.log_density import BoundedLogDensity
from ...blocks.sensitivity import UP, capped, moved
from ...blocks.shrinkage import james_stein
from ...core import Block, Group, Release, Scratch
from ...kernels.mixture import log_normaliser
from ...linalg import Array, gamma

_TINY = 1e-10  # the smallest probability an exact fit may have
_LEAST_PART = 0.02  # a class never counts for less than this share of an equal part
_FAR = 1e6  # beyond any number that looks like a probability


@dataclass(frozen=True)
class Classes:
    """Weights (K,) and category probabilities (K, p), column after column."""

    weights: Array
    profiles: Array
    travels = ("weights", "profiles")


@dataclass(frozen=True)
class ClassSums:
    """Expected counts (K,), tables (K, p), and (exact fits) the log-likelihood."""

    count: Array
    table: Array
    likelihood: Array | None = None


def indicators(X: Array, sizes: tuple[int, ...], scratch: Scratch) -> Array:
    """The indicator vectors e of a block of codes, (p, b), in working memory."""
    e = scratch.take("indicators", (sum(sizes), len(X)))
    at = 0
    for j, size in enumerate(sizes):
        np.equal(np.arange(size)[:, None], X[:, j], out=e[at : at + size], casting="unsafe")
        at += size
    return e


def block_rows(sizes: tuple[int, ...]) -> int:
    """Blocks of about a megabyte."""
    return int(np.clip(2**17 // sum(sizes), 64, 8184)) // 8 * 8


@dataclass(frozen=True)
class ClassQuery:
    """Expected counts under ``state``; ``cap_weight=None``: exact, with the log-likelihood."""

    state: Classes
    sizes: tuple[int, ...]
    cap_weight: float | None = None
    travels = ("state", "sizes", "cap_weight")

    @property
    def block_rows(self) -> int:
        """Blocks of about a megabyte."""
        return block_rows(self.sizes)

    @cached_property
    def logs(self) -> tuple[Array, Array]:
        """Logarithms of weights and profiles."""
        return np.log(self.state.weights), np.log(self.state.profiles)

    def log_joint(self, X: Array, scratch: Scratch) -> Array:
        """Log joint probabilities (K, b) of class and record."""
        weights, profiles = self.logs
        joint = profiles @ indicators(X, self.sizes, scratch)
        joint += weights[:, None]
        return np.asarray(joint)

    def __call__(self, block: Block, scratch: Scratch) -> ClassSums:
        """Sum a block."""
        share = self.log_joint(block.X, scratch)
        evidence = log_normaliser(share, scratch)
        weight, likelihood = block.weight, None
        if self.cap_weight is not None:
            weight = capped(weight, self.cap_weight, len(block.X))
        else:
            likelihood = np.asarray(evidence.sum() if weight is None else evidence @ weight)
        if weight is not None:
            share *= weight
        e = indicators(block.X, self.sizes, scratch)
        return ClassSums(share.sum(axis=1), share @ e.T, likelihood)

    def groups(self, neighbours: str) -> list[Group]:
        """One group; derived above."""
        k, p = self.state.profiles.shape
        bound = math.sqrt(moved(neighbours, 1, 2) * (1 + len(self.sizes)))
        return [Group("classes", slice(0, k * (1 + p)), bound * (self.cap_weight or 1.0) * UP)]

    def rounding(self, rows: float) -> float:
        """Per record: what the log joint's rounding does to responsibilities, and the sums'.

        The log joint is a sum of p + 1 public numbers times zeros and ones, off by h at most; each
        responsibility is then off by a factor within exp(+-2 h) and the roundings of a softmax.
        """
        k, p = self.state.profiles.shape
        factor = math.expm1(2 * gamma(p + 8) * self.height) + 2 * gamma(k + 32)
        return rows * math.sqrt(1 + len(self.sizes)) * (factor + (1 + factor) * self._sums)

    @property
    def height(self) -> float:
        """No log joint probability is larger in size."""
        weights, profiles = self.logs
        return float(np.max(np.abs(weights)) + len(self.sizes) * np.max(np.abs(profiles)))

    @property
    def _sums(self) -> float:
        return gamma(self.block_rows + 32)

    def check(self, d: int, private: bool) -> None:
        """Positive probabilities of all categories."""
        check_codes(self.sizes, self.cap_weight, d, private)
        weights, profiles = self.state.weights, self.state.profiles
        conditions.table(profiles, sum(self.sizes))
        conditions.shaped((len(profiles),), weights)
        conditions.need((profiles > 0).all() and (weights > 0).all())
        conditions.need(profiles.size < conditions.MOST_NUMBERS)
        conditions.held(len(weights), self.block_rows, profiles.size + 1)

    def largest(self, low: Array, high: Array) -> Array:
        """Counts, and the log-likelihood of the least likely record."""
        k, p = self.state.profiles.shape
        weights, profiles = (float(np.abs(part).max()) for part in self.logs)
        likelihood = weights + len(self.sizes) * profiles + math.log(k)
        return np.append(np.ones(k * (1 + p)), likelihood)


@dataclass(frozen=True)
class ClassLogDensity(BoundedLogDensity):
    """The log-probability of records, computed number by number."""

    state: Classes
    sizes: tuple[int, ...]
    travels = ("state", "sizes")

    @property
    def peak(self) -> float:
        """That of a record of which nothing is seen."""
        return 0.0

    @property
    def size(self) -> float:
        """The least likely categories in the least likely class."""
        return ClassQuery(self.state, self.sizes).height

    def check(self, d: int) -> None:
        """Positive probabilities of all categories."""
        ClassQuery(self.state, self.sizes).check(d, private=False)

    def log_joint(self, X: Array, scratch: Scratch) -> Array:
        """Log joint probabilities (K, b) of class and record; no matrix products."""
        joint = scratch.take("joint", (len(self.state.weights), len(X)))
        joint[:] = np.log(self.state.weights)[:, None]
        logs, at = np.log(self.state.profiles), 0
        for j, size in enumerate(self.sizes):
            within = (X[:, j] >= 0) & (X[:, j] < size)
            code = np.where(within, X[:, j], 0).astype(np.int64)
            seen = code == X[:, j]
            joint += np.where(seen, logs[:, at : at + size][:, code], 0.0)
            at += size
        return joint


def check_codes(sizes: tuple[int, ...], cap_weight: float | None, d: int, private: bool) -> None:
    """Categories per column; a cap, without which weights would have no bound."""
    conditions.need(len(sizes) == d)
    conditions.need(all(0 < size < conditions.MOST_NUMBERS for size in sizes))
    # Fits ask for pairs first: no more categories than those allow, whatever is asked for.
    conditions.need(sum(sizes) ** 2 <= 2 * conditions.MOST_NUMBERS)
    conditions.need((cap_weight is not None) == private)
    if cap_weight is not None:
        conditions.ordinary(cap_weight)


@dataclass(frozen=True)
class CategoricalModel:
    """E- and M-step of a latent class model.

    Parameters
    ----------
    sizes : tuple of int
        Categories per column.
    cap_weight : float or None
        Of a private fit's records; ``None``: exact.
    records : float or None
        How many there are, where that is known or was released.
    """

    sizes: tuple[int, ...]
    cap_weight: float | None = None
    records: float | None = None

    def query(self, state: Classes, round: int = 0) -> ClassQuery:
        """The expected counts under ``state``."""
        return ClassQuery(state, self.sizes, self.cap_weight)

    def m_step(self, state: Classes, release: Release[ClassSums]) -> Classes:
        """New probabilities; a class without evidence keeps its own. Noise shrinks the moves.

        With noise of deviation s, counts are at least 2% of an equal part, and the move of a
        class's profile is shrunk towards none by what its noise explains (James and Stein). What
        noise makes negative is zero (:meth:`nearest`), and then no probability ends below half of
        what it is over all classes, or of s/N_k where that is less.
        """
        sums = release.statistics
        noise = 0.0 if release.deviation is None else float(np.max(release.deviation.count))
        total = float(self.records or np.clip(sums.count, 0.0, 1e300).max() * len(sums.count))
        least = _LEAST_PART * max(total, noise) / len(sums.count) if noise else 0.0
        count = np.clip(np.nan_to_num(sums.count), least, 1e300)
        share = count / max(float(count.max()), 1e-300)
        weights = np.maximum(share, 1e-12) / np.maximum(share, 1e-12).sum()
        # What a column's categories sum to is the count, but for values outside the declared ones.
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            seen = self.per_column(sums.table)
            if noise:
                n = self._spread(count[:, None] * np.ones(len(self.sizes)))
                seen = np.clip(seen, 0.5 * n, 1.5 * n)
            profiles = sums.table / seen
            alive = np.isfinite(profiles) & (seen > 1e-300)
        profiles = np.where(alive, profiles, state.profiles)
        floor = np.full_like(profiles, _TINY)
        if noise:
            spread = noise / count
            moves = james_stein(profiles - state.profiles, spread**2)
            profiles = self.nearest(state.profiles + moves)
            overall = np.minimum(state.weights @ state.profiles, 1 / self.spread_sizes)
            floor = 0.5 * np.minimum(spread[:, None], overall)
        return Classes(weights, self.valid(profiles, floor))

    def nearest(self, profiles: Array) -> Array:
        """The nearest probabilities of each column: negative ones become zero, others less.

        Sorted, u_1 >= u_2 >= ..., those beyond theta = max_r (u_1 + ... + u_r - 1)/r keep what
        exceeds it (Duchi et al. 2008).
        """
        d, most = len(self.sizes), max(self.sizes)
        places = (np.repeat(np.arange(d), self.sizes), np.arange(sum(self.sizes)) - self._offsets)
        padded = np.full((len(profiles), d, most), -_FAR)
        padded[:, *places] = np.clip(np.nan_to_num(profiles), -_FAR / most, _FAR / most)
        ordered = -np.sort(-padded, axis=2)
        ranks = np.arange(1, most + 1)
        theta = ((np.cumsum(ordered, axis=2) - 1) / ranks).max(axis=2)
        return np.maximum(profiles - self._spread(theta), 0.0)

    def objective(self, state: Classes, release: Release[ClassSums]) -> float:
        """Mean log-likelihood."""
        sums = release.statistics
        assert sums.likelihood is not None
        return float(sums.likelihood / sums.count.sum())

    def valid(self, profiles: Array, floor: Array | float) -> Array:
        """Probabilities that are positive and sum to one in each column."""
        raised = np.maximum(np.clip(np.nan_to_num(profiles), 0.0, 1e300), floor)
        raised = raised / self._spread(np.maximum.reduceat(raised, self._starts, axis=-1))
        raised = np.maximum(raised, _TINY)
        return np.asarray(raised / self.per_column(raised))

    @cached_property
    def inside(self) -> NDArray[np.bool_]:
        """Which pairs of categories are of one column, (p, p)."""
        column = np.repeat(np.arange(len(self.sizes)), self.sizes)
        return np.asarray(column[:, None] == column)

    @cached_property
    def _starts(self) -> NDArray[np.int64]:
        return np.cumsum((0, *self.sizes[:-1])).astype(np.int64)

    @cached_property
    def _offsets(self) -> NDArray[np.int64]:
        return np.repeat(self._starts, self.sizes)

    @cached_property
    def spread_sizes(self) -> Array:
        """How many categories the column of each category has, (p,)."""
        return np.repeat(np.asarray(self.sizes, dtype=float), self.sizes)

    def _spread(self, per_column: Array) -> Array:
        """A number per column (..., d) as one per category (..., p)."""
        return np.repeat(per_column, self.sizes, axis=-1)

    def column_sums(self, table: Array) -> Array:
        """The sum of each column's categories, (..., d)."""
        return np.asarray(np.add.reduceat(table, self._starts, axis=-1))

    def per_column(self, table: Array) -> Array:
        """The same, repeated for its categories, (..., p)."""
        return self._spread(self.column_sums(table))
