"""K linear regressions with intercepts, own weights and variances; which one holds is hidden.

A record (x, y) is seen by component k as u_k = (W (x - m), (y - a_k - <b_k, W (x - m)>)/s_k):
whitened covariates, the same for all, and the residual in the component's deviations. The
responsibilities are those of y given x; the statistics are those of a Gaussian mixture on u_k:
counts, sums and second moments. A weighted least squares of residuals on covariates is arithmetic
on them.

*Private*: u_k is pulled onto a ball of radius r, so that one record contributes g_k (w0, w1 u_k, w2
svec(u_k u_k')) with g >= 0 of sum one and |u_k| <= r: bounds as derived in
:mod:`privem.blocks.sensitivity`, whatever the responsibilities came from. The noise shrinks with
the component's own residuals. Proof of ``rounding``: ``docs/proofs/regressions.md``, section 2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from ...blocks import conditions
from ...blocks.region import Region, farthest
from ...blocks.sensitivity import MomentWeights, capped
from ...blocks.shrinkage import consistency, james_stein, operator_noise, soften, soften_each
from ...core import Block, Group, Release, Scratch
from ...kernels.mixture import log_normaliser
from ...linalg import Array, U, gamma, smat, svec

# Squared residuals enter responsibilities up to here (see models.private_mixture).
_CAP = 1400.0
_LEAST_PART = 0.02
# Most that rounding may do to a residual, in deviations.
_COARSEST = 1e-6
# A variance is trusted to move within these factors in one noisy step.
_LEAST_STEP, _MOST_STEP = 0.1, 10.0


@dataclass(frozen=True)
class Regressions:
    """Weights (K,), coefficients (K, 1 + d) of (1, W (x - m)), variances (K,); W (d, d), m (d,)."""

    weights: Array
    coefficients: Array
    variances: Array
    whitener: Array
    centre: Array
    travels = ("weights", "coefficients", "variances", "whitener", "centre")

    def in_data(self) -> tuple[Array, Array]:
        """Slopes (K, d) and intercepts (K,) for x itself."""
        slopes = self.coefficients[:, 1:] @ self.whitener
        return slopes, self.coefficients[:, 0] - slopes @ self.centre

    def log_joint(self, x: Array, y: Array) -> tuple[Array, Array, Array]:
        """Whitened covariates (d, b), residuals in deviations and log joint densities (K, b)."""
        with np.errstate(over="ignore"):
            white = self.whitener @ (x - self.centre[:, None])
            residuals = y - self.coefficients[:, :1] - self.coefficients[:, 1:] @ white
            residuals /= np.sqrt(self.variances)[:, None]
            joint = -0.5 * np.minimum(residuals**2, 1e300) + self.constants[:, None]
        return white, residuals, joint

    def errors(self, region: Region) -> tuple[float, Array]:
        """What rounding does to whitened covariates, in L2, and to residuals in deviations, (K,).

        Of records in a region.
        """
        q = len(self.centre) + 1
        away = region.reach + float(np.linalg.norm(self.centre))
        far = float(np.linalg.norm(self.whitener)) * away
        moved = gamma(q + 4) * far
        slopes = np.linalg.norm(self.coefficients[:, 1:], axis=1)
        heights = region.limit[-1] + np.abs(self.coefficients[:, 0]) + slopes * (far + moved)
        return moved, (slopes * moved + gamma(q + 8) * heights) / np.sqrt(self.variances)

    def resolved(self, region: Region) -> Regressions:
        """Deviations wide enough for arithmetic: noise may lead steep lines to narrower ones.

        A wider deviation divides a residual's error, so :meth:`errors` are then small.
        """
        _, residuals = self.errors(region)
        wider = np.maximum(residuals / _COARSEST, 1.0)
        return replace(self, variances=self.variances * wider**2)

    @property
    def constants(self) -> Array:
        """Log joint densities where the residual is zero."""
        return np.asarray(np.log(self.weights) - 0.5 * np.log(math.tau * self.variances))

    def check(self, d: int, private: bool) -> None:
        """Regressions of the last of d columns on the others."""
        conditions.need(d > 1)
        conditions.table(self.coefficients, d)
        conditions.shaped((len(self.coefficients),), self.weights, self.variances)
        conditions.shaped((d - 1, d - 1), self.whitener)
        conditions.shaped((d - 1,), self.centre)
        conditions.need((self.weights > 0).all() and (self.variances > 0).all())
        if private:
            # No residual overflows before it is bounded.
            conditions.magnitudes(self.variances, positive=True)
            conditions.magnitudes(self.coefficients, self.whitener, self.centre)
            conditions.need(np.isfinite(self.constants).all())


@dataclass(frozen=True)
class RegressionSums:
    """Counts (K,), sums (K, d + 1), packed second moments of u; log-likelihood (exact fits)."""

    count: Array
    total: Array
    second: Array
    likelihood: Array | None = None


@dataclass(frozen=True)
class Bounded:
    """What makes the sums private: where records are pulled, weights and radius, weight cap."""

    region: Region
    weights: MomentWeights
    cap_weight: float = 1.0
    travels = ("region", "weights", "cap_weight")


@dataclass(frozen=True)
class RegressionQuery:
    """Statistics of each component under ``state``; the last column is the target.

    ``bounded=None``: exact, with the log-likelihood. With it, the state is in the region's unit
    coordinates.
    """

    state: Regressions
    bounded: Bounded | None = None
    travels = ("state", "bounded")

    @property
    def block_rows(self) -> int:
        """Blocks of about half a megabyte."""
        k, d = len(self.state.weights), len(self.state.centre)
        return int(np.clip(2**16 // (k + d), 64, 4088)) // 8 * 8

    def __call__(self, block: Block, scratch: Scratch) -> RegressionSums:
        """Sum a block."""
        s, bound, weight = self.state, self.bounded, block.weight
        if bound is None:
            rows = np.asarray(block.X, dtype=np.float64).T
        else:
            rows = bound.region.to_unit(block.X, scratch).T
            weight = capped(weight, bound.cap_weight, len(block.X))
        white, residuals, joint = s.log_joint(rows[:-1], rows[-1])
        if bound is not None:
            np.maximum(joint, (s.constants - 0.5 * _CAP)[:, None], out=joint)
        evidence = log_normaliser(joint, scratch)
        likelihood = None
        if bound is None:
            likelihood = np.asarray(evidence.sum() if weight is None else evidence @ weight)
        if weight is not None:
            joint *= weight
        count, total, second = self._moments(white, residuals, joint)
        if bound is None:
            return RegressionSums(count, total, second, likelihood)
        w = bound.weights
        return RegressionSums(w.w0 * count, w.w1 * total, w.w2 * second)

    def _moments(self, white: Array, residuals: Array, share: Array) -> tuple[Array, Array, Array]:
        k, q = len(share), len(white) + 1
        total, second = np.empty((k, q)), np.empty((k, q, q))
        norms = np.einsum("ij,ij->j", white, white)
        u = np.empty((q, white.shape[1]))
        for j in range(k):
            u[:-1], u[-1] = white, residuals[j]
            if self.bounded is not None:
                # Residuals beyond 1e150 would overflow when squared; they are pulled in anyway.
                size = np.sqrt(norms + np.minimum(np.abs(residuals[j]), 1e150) ** 2)
                u /= np.maximum(size / self.bounded.weights.radius, 1.0)
            total[j] = u @ share[j]
            second[j] = (u * share[j]) @ u.T
        return share.sum(axis=1), total, svec(second)

    def groups(self, neighbours: str) -> list[Group]:
        """All numbers together; see :mod:`privem.blocks.sensitivity`."""
        assert self.bounded is not None
        k, q = len(self.state.weights), len(self.state.centre) + 1
        bound = self.bounded.weights.l2(neighbours) * self.bounded.cap_weight
        return [Group("moments", slice(0, k * (1 + q + q * (q + 1) // 2)), bound)]

    def rounding(self, rows: float) -> float:
        """Bound on the floating-point error of the sum over records of total weight ``rows``."""
        assert self.bounded is not None
        s, w = self.state, self.bounded.weights
        k, q = len(s.weights), len(s.centre) + 1
        moved, residuals = s.errors(self.bounded.region)
        off = float(np.max(residuals))
        top = 4 * _CAP
        log_error = 0.5 * (gamma(q + 8) * top + 2 * math.sqrt(top) * off + off * off)
        log_error += 4 * U * float(np.max(np.abs(s.constants))) + 4 * U * _CAP
        if not log_error < 0.125:
            return math.inf
        factor = math.expm1(2 * log_error) + 2 * gamma(k + 32)
        shift = moved + off + gamma(q + 16) * w.radius
        change = w.w1 * shift + w.w2 * (2 * w.radius * shift + shift * shift)
        size = math.sqrt(w.bound)
        sums = gamma(self.block_rows + k + q + 32)
        return rows * (factor * size + (1 + factor) * (change + sums * (size + change)))

    def check(self, d: int, private: bool) -> None:
        """Without bounds there is no sensitivity, and the likelihood beside the sums."""
        conditions.need((self.bounded is not None) == private)
        self.state.check(d, private)
        k = len(self.state.weights)
        conditions.held(k, self.block_rows, k * (1 + d + d * d) + 1)
        if self.bounded is not None:
            self.bounded.region.check(d)
            self.bounded.weights.check()
            conditions.ordinary(self.bounded.cap_weight)

    def largest(self, low: Array, high: Array) -> Array:
        """A residual is within the target and the fitted values of the farthest covariates."""
        s = self.state
        white = np.abs(s.whitener) @ farthest(low[:-1], high[:-1], s.centre)
        heights = float(farthest(low, high)[-1]) + np.abs(s.coefficients) @ np.append(1.0, white)
        residuals = heights / np.sqrt(s.variances)
        u = [np.append(white, residual) for residual in residuals]
        likelihood = float(np.max(0.5 * residuals**2 + np.abs(s.constants))) + math.log(len(u))
        seconds = [svec(np.outer(part, part)) for part in u]
        return np.concatenate([np.ones(len(u)), *u, *seconds, [likelihood]])


@dataclass(frozen=True)
class RegressionMixtureModel:
    """E- and M-step.

    Parameters
    ----------
    floor : float
        The smallest variance.
    bounded : Bounded or None
        Of private fits.
    records : float or None
        How many there are, where that is known or was released.
    """

    floor: float
    bounded: Bounded | None = None
    records: float | None = None

    def query(self, state: Regressions, round: int = 0) -> RegressionQuery:
        """The expected statistics under ``state``."""
        if self.bounded is not None:
            state = state.resolved(self.bounded.region)
        return RegressionQuery(state, self.bounded)

    def m_step(self, state: Regressions, release: Release[RegressionSums]) -> Regressions:
        """New parameters; a component without evidence keeps its own."""
        if release.deviation is not None and self.bounded is not None:
            return self._noisy(state, release, self.bounded.weights)
        sums = release.statistics
        k, q = sums.total.shape
        count = np.clip(np.nan_to_num(sums.count), 0.0, 1e300)
        share = np.maximum(count / max(float(count.max()), 1e-300), 1e-12)
        moves, variances = np.zeros((k, q)), state.variances.copy()
        for j in range(k):
            if not count[j] > 1e-12 * count.max():
                continue
            with np.errstate(over="ignore", invalid="ignore"):
                mean, second = sums.total[j] / count[j], smat(sums.second[j], q) / count[j]
            # Squares of what is solved for below must not overflow.
            if not (np.abs(mean).max() < 1e40 and np.abs(second).max() < 1e80):
                continue
            gram, cross = _normal_equations(mean, second)
            values, vectors = np.linalg.eigh(gram)
            # Covariates are whitened: what spreads less than this within a component is rounding.
            keep = values > 1e-6 * max(float(values[-1]), 0.0)
            move = vectors[:, keep] @ ((vectors[:, keep].T @ cross) / values[keep])
            left = second[-1, -1] - 2 * move @ cross + move @ gram @ move
            moves[j] = move * math.sqrt(state.variances[j])
            with np.errstate(over="ignore"):
                variances[j] = np.clip(left * state.variances[j], self.floor, 1e300)
        coefficients = np.clip(state.coefficients + moves, -1e150, 1e150)
        return replace(
            state, weights=share / share.sum(), coefficients=coefficients, variances=variances
        )

    def _noisy(
        self, state: Regressions, release: Release[RegressionSums], w: MomentWeights
    ) -> Regressions:
        """As above from noisy moments: Gram matrices softened, moves shrunk, steps bounded."""
        sums, noise, frame = release.statistics, release.deviation, release.query.state
        assert noise is not None
        k, q = sums.total.shape
        total = self.records or float(np.maximum(sums.count, noise.count).sum() / w.w0)
        count = np.maximum(sums.count / w.w0, _LEAST_PART * total / k)
        factor = w.w2 * consistency(q, w.radius)
        coefficients, variances = state.coefficients.copy(), state.variances.copy()
        for j in range(k):
            mean = sums.total[j] / (w.w1 * count[j])
            second = smat(sums.second[j], q) / (factor * count[j])
            first, blur = (
                noise.total[j, 0] / (w.w1 * count[j]),
                noise.second[j, 0] / (factor * count[j]),
            )
            gram, cross = _normal_equations(mean, second)
            gram = soften(gram, 0.05, float(operator_noise(q, blur)), 1e3)
            inverse = np.asarray(np.linalg.inv(gram), dtype=np.float64)
            # The noise of the cross moments, first entry apart, carried through the inverse.
            spread = np.full(q, blur / math.sqrt(2))
            spread[0] = first
            variance = float(np.sum((inverse * spread) ** 2)) / q
            deviation = math.sqrt(frame.variances[j])
            away = (frame.coefficients[j] - state.coefficients[j]) / deviation
            move = james_stein((inverse @ cross + away)[None], np.array([variance]))[0]
            # Residuals beyond the radius were pulled in: a longer move can only be noise.
            move *= min(1.0, w.radius / max(float(np.linalg.norm(move)), 1e-300))
            at = move - away
            left = second[-1, -1] - 2 * at @ cross + at @ gram @ at
            step = soften_each(np.asarray(left), _LEAST_STEP, blur, _MOST_STEP)
            coefficients[j] += move * deviation
            variances[j] = np.clip(float(step) * frame.variances[j], self.floor, 4.0)
        weights = count / count.sum()
        coefficients = np.clip(coefficients, -1e6, 1e6)
        return replace(state, weights=weights, coefficients=coefficients, variances=variances)

    def objective(self, state: Regressions, release: Release[RegressionSums]) -> float:
        """Mean log-likelihood of y given x."""
        sums = release.statistics
        assert sums.likelihood is not None
        return float(sums.likelihood / sums.count.sum())


def _normal_equations(mean: Array, second: Array) -> tuple[Array, Array]:
    """E z z' and E z r for z = (1, whitened covariates), from moments of (covariates, residual)."""
    q = len(mean)
    gram = np.empty((q, q))
    gram[0, 0] = 1.0
    gram[0, 1:] = gram[1:, 0] = mean[:-1]
    gram[1:, 1:] = second[:-1, :-1]
    return gram, np.concatenate([mean[-1:], second[:-1, -1]])
