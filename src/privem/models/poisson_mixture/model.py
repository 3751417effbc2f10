"""Mixtures of Poisson distributions: columns of counts, independent within a component.

Component k has a rate for every column. The statistic is, per component, the expected number of
records and the sum of their counts.

*The bounded statistic.* A record x is pulled into a public region. For each component it is
measured from the public rates l_k of the last iteration, in public units: v_k = (x - l_k) / s_k,
column by column, with s_k = sqrt(max(l_k, 1/4)), about the component's own deviation. v_k is pulled
onto the ball of radius r: u_k = v_k min(1, r / |v_k|). The record contributes g_k (w0, w1 u_k, w2
|u_k|^2) for every k, with responsibilities g >= 0 that sum to one. Squared lengths tell which
component covers several groups of records.

*Sensitivity.* The squared norm is at most sum_k g_k^2 B <= B, B = w0^2 + w1^2 r^2 + w2^2 r^4:
adding or removing a record moves the sum by at most sqrt(B). The inner product of two records'
vectors is sum_k g_k g'_k (w0^2 + w1^2 <u_k, u'_k> + w2^2 |u_k|^2 |u'_k|^2). As |u|^2 |u'|^2 >= <u,
u'>^2, it is at least sum_k g_k g'_k h(<u_k, u'_k>) with h of :mod:`privem.blocks.sensitivity`. So
the bounds derived there hold; replacing a record moves the sum by at most sqrt(2 B) as w1 r <= w0
(:meth:`~privem.blocks.sensitivity.MomentWeights.with_square`). Regions, rates and units only decide
what u_k is, so the bound holds for whatever a server asks. A cap on weights multiplies it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.special import gammaln, logsumexp

from ...blocks import conditions
from ...blocks.log_density import LogDensity
from ...blocks.region import Region, farthest
from ...blocks.sensitivity import MomentWeights, capped
from ...blocks.shrinkage import consistency, james_stein
from ...core import Block, Group, Release, Scratch
from ...kernels.mixture import log_normaliser
from ...linalg import Array, gamma

# The smallest rate there is: its logarithm is a number.
FLOOR = 1e-9
# Deviations are not taken to be smaller than that of this rate.
_NARROWEST = 0.25
# A component never counts for less than this share of an equal part.
_LEAST_PART = 0.02
# A number this many deviations of its noise large is more than noise.
_CLEAR = 2.0


@dataclass(frozen=True)
class Poissons:
    """Weights (K,) and rates (K, d).

    Of a noisy M-step also, for each component: its records, in deviations of their noise, and by
    how much the square of a column exceeds its variance, as far as noise does not explain it (K,).
    """

    weights: Array
    rates: Array
    evidence: Array | None = None
    excess: Array | None = None
    travels = ("weights", "rates")

    def log_joint(self, X: Array) -> Array:
        """Log joint density (K, b) of component and record, but for the record's factorials."""
        joint = np.log(self.rates) @ X.T
        joint += (np.log(self.weights) - self.rates.sum(axis=1))[:, None]
        return np.asarray(joint)

    def check(self, d: int) -> None:
        """Positive weights, and rates that have a logarithm."""
        conditions.table(self.rates, d)
        conditions.shaped((len(self.rates),), self.weights)
        conditions.need((self.weights > 0).all() and (self.rates >= FLOOR).all())
        conditions.magnitudes(self.rates)


@dataclass(frozen=True)
class PoissonLogDensity(LogDensity):
    """The log-probability of records, computed number by number."""

    state: Poissons

    @property
    def peak(self) -> float:
        """That of a record at the modes of all components at once."""
        modes = np.floor(self.state.rates)
        each = modes * np.log(self.state.rates) - self.state.rates - gammaln(modes + 1)
        return float(logsumexp(np.log(self.state.weights) + each.sum(axis=1)))

    def log_joint(self, X: Array, scratch: Scratch) -> Array:
        """Log joint density (K, b) of component and record; no matrix products."""
        x = np.asarray(X.T, dtype=np.float64)
        joint = scratch.take("joint", (len(self.state.weights), len(X)))
        joint[:] = (np.log(self.state.weights) - self.state.rates.sum(axis=1))[:, None]
        with np.errstate(all="ignore"):
            for column, logs in zip(x, np.log(self.state.rates).T, strict=True):
                joint += logs[:, None] * column - gammaln(column + 1)
        return joint


@dataclass(frozen=True)
class PoissonSums:
    """Expected records (K,), sums (K, d); squares (K,) of private fits, log-likelihood of exact."""

    count: Array
    total: Array
    likelihood: Array | None = None
    square: Array | None = None


def _block_rows(state: Poissons) -> int:
    return int(np.clip(2**17 // sum(state.rates.shape), 64, 8184)) // 8 * 8


@dataclass(frozen=True)
class PoissonQuery:
    """The exact statistic."""

    state: Poissons
    travels = ("state",)

    @property
    def block_rows(self) -> int:
        """Blocks of about a megabyte."""
        return _block_rows(self.state)

    def __call__(self, block: Block, scratch: Scratch) -> PoissonSums:
        """Sum a block."""
        X = np.asarray(block.X, dtype=np.float64)
        share = self.state.log_joint(X)
        evidence = log_normaliser(share, scratch) - gammaln(X + 1).sum(axis=1)
        weight = np.ones(len(X)) if block.weight is None else block.weight
        share *= weight
        return PoissonSums(share.sum(axis=1), share @ X, np.asarray(evidence @ weight))

    def check(self, d: int, private: bool) -> None:
        """Without a bound on what a record adds it is for exact fits."""
        conditions.need(not private)
        self.state.check(d)
        k = len(self.state.weights)
        conditions.held(k, self.block_rows, k * (1 + d) + 1)

    def largest(self, low: Array, high: Array) -> Array:
        """Counts, the columns themselves, and the log-likelihood of the least likely record."""
        s, a = self.state, farthest(low, high)
        heights = np.abs(np.log(s.weights)) + np.abs(np.log(s.rates)) @ a + s.rates.sum(axis=1)
        factorials = float(np.sum(np.abs(gammaln(a + 1)))) + len(a)
        k = len(s.weights)
        likelihood = float(heights.max()) + math.log(k) + factorials
        return np.concatenate([np.ones(k), np.tile(a, k), [likelihood]])


@dataclass(frozen=True)
class BoundedPoissonQuery:
    """The bounded statistic, as derived above."""

    state: Poissons
    region: Region
    weights: MomentWeights
    cap_weight: float = 1.0
    travels = ("state", "region", "weights", "cap_weight")

    @property
    def block_rows(self) -> int:
        """Blocks of about a megabyte."""
        return _block_rows(self.state)

    @cached_property
    def units(self) -> Array:
        """About the deviation of each column in each component, (K, d)."""
        return np.sqrt(np.maximum(self.state.rates, _NARROWEST))

    def __call__(self, block: Block, scratch: Scratch) -> PoissonSums:
        """Sum a block."""
        X, w = self.region.to_data(self.region.to_unit(block.X, scratch)), self.weights
        share = self.state.log_joint(X)
        log_normaliser(share, scratch)
        weight = capped(block.weight, self.cap_weight, len(X))
        if weight is not None:
            share *= weight
        total, square = np.empty_like(self.state.rates), np.empty(len(share))
        for k, (rates, units) in enumerate(zip(self.state.rates, self.units, strict=True)):
            v = (X - rates) / units
            length = np.sqrt(np.einsum("ij,ij->i", v, v))
            v /= np.maximum(length / w.radius, 1.0)[:, None]
            total[k] = share[k] @ v
            square[k] = share[k] @ np.minimum(length, w.radius) ** 2
        return PoissonSums(w.w0 * share.sum(axis=1), w.w1 * total, square=w.w2 * square)

    def groups(self, neighbours: str) -> list[Group]:
        """One group; derived above."""
        bound = self.weights.l2(neighbours) * self.cap_weight
        numbers = 2 * self.state.weights.size + self.state.rates.size
        return [Group("moments", slice(0, numbers), bound)]

    def rounding(self, rows: float) -> float:
        """Bound on the floating-point error of the sum over ``rows`` records.

        The record itself is what ``to_data`` gives: number by number, so the same wherever it
        stands. The log joint of it is a sum of d + 2 terms, off by h at most; each responsibility
        is then off by a factor within exp(+-2 h) and the roundings of a softmax. u_k is off by the
        roundings of a difference, a norm of d terms and two quotients, its square by twice that.
        """
        s, w, (k, d) = self.state, self.weights, self.state.rates.shape
        a = farthest(*self.region.sides)
        height = np.abs(np.log(s.weights)) + np.abs(np.log(s.rates)) @ a + s.rates.sum(axis=1)
        h = gamma(d + 16) * float(height.max())
        if not h < 0.125:
            return math.inf
        factor = math.expm1(2 * h) + 2 * gamma(k + 32)
        one, size = gamma(d + 16) * w.radius, math.sqrt(w.bound)
        moved = w.w1 * one + w.w2 * (2 * w.radius * one + one**2)
        sums = gamma(self.block_rows + 64)
        return rows * (factor * size + (1 + factor) * (moved + sums * (size + moved)))

    def check(self, d: int, private: bool) -> None:
        """A region, and weights under which the sensitivity above holds."""
        conditions.need(private)
        self.state.check(d)
        self.region.check(d, data=True)
        self.weights.check()
        conditions.ordinary(self.cap_weight)
        k = len(self.state.weights)
        conditions.held(k, self.block_rows, k * (2 + d))


@dataclass(frozen=True)
class PoissonModel:
    """E- and M-step of an exact fit."""

    def query(self, state: Poissons, round: int = 0) -> PoissonQuery:
        """The expected statistics under ``state``."""
        return PoissonQuery(state)

    def m_step(self, state: Poissons, release: Release[PoissonSums]) -> Poissons:
        """New rates; a component without evidence keeps its own."""
        sums = release.statistics
        count = np.clip(np.nan_to_num(sums.count), 0.0, 1e300)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            rates = sums.total / count[:, None]
        found = (count > 1e-12 * count.max())[:, None] & np.isfinite(rates) & (rates < 1e150)
        share = np.maximum(count / max(float(count.max()), 1e-300), 1e-12)
        rates = np.where(found, np.maximum(rates, FLOOR), state.rates)
        return Poissons(share / share.sum(), rates)

    def objective(self, state: Poissons, release: Release[PoissonSums]) -> float:
        """Mean log-likelihood."""
        sums = release.statistics
        assert sums.likelihood is not None
        return float(sums.likelihood / sums.count.sum())


@dataclass(frozen=True)
class PrivatePoissonModel:
    """E- and M-step of a private fit.

    Parameters
    ----------
    region : Region
    weights : MomentWeights
    cap_weight : float
    records : float
        How many there are, public or released.
    """

    region: Region
    weights: MomentWeights
    cap_weight: float
    records: float

    def query(self, state: Poissons, round: int = 0) -> BoundedPoissonQuery:
        """The bounded statistics about ``state``."""
        return BoundedPoissonQuery(state, self.region, self.weights, self.cap_weight)

    def m_step(self, state: Poissons, release: Release[PoissonSums]) -> Poissons:
        """Rates move by the mean of u, less what its noise explains, and stay in the region."""
        sums, noise, w = release.statistics, release.deviation, self.weights
        assert noise is not None
        k = len(state.weights)
        blur = noise.count / w.w0
        least = np.maximum(_LEAST_PART * self.records / k, blur)
        seen = np.nan_to_num(sums.count / w.w0)
        count = np.clip(seen, least, 1e300)
        moves = np.nan_to_num(sums.total / (w.w1 * count[:, None]))
        units = release.query.units
        moves = moves + (release.query.state.rates - state.rates) / units
        moves = james_stein(moves, (noise.total[:, 0] / (w.w1 * count)) ** 2)
        # What lies beyond the ball was pulled onto it: a mean of such vectors is no longer.
        length = np.linalg.norm(moves, axis=1, keepdims=True)
        moves *= np.minimum(1.0, w.radius / np.maximum(length, 1e-300))
        new = self.valid(count, state.rates + units * moves)
        assert sums.square is not None
        assert noise.square is not None
        d = state.rates.shape[1]
        usual = d * consistency(d, w.radius)
        square = np.nan_to_num(sums.square / (w.w2 * count))
        over = square - usual - _CLEAR * noise.square / (w.w2 * count)
        excess = np.maximum(over, 0.0) / usual
        return replace(new, evidence=seen / blur, excess=excess)

    def valid(self, count: Array, rates: Array) -> Poissons:
        """Weights of these counts, and rates within the region."""
        low, high = self.region.sides
        inside = np.clip(rates, np.maximum(low, FLOOR), np.maximum(high, FLOOR))
        return Poissons(count / count.sum(), inside)
