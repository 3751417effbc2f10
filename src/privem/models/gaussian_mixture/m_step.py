"""The exact M-step of a Gaussian mixture, and its conjugate priors.

The priors are Dirichlet weights and Normal-inverse-Wishart components. Park et al. 2016 and 2017
(section 4) give the maximum a posteriori M-step for full covariances. The other covariance types
maximise the same posterior within their family.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ...blocks.moments import Frame
from ...core import Release
from ...linalg import Array, floor_eigenvalues, smat, svec
from .model import CONDITION_LIMIT, Mixture, MixtureQuery, MixtureSums, direct_is_faster

# Parameters beyond these could not be squared without overflow: no valid data lead to them.
_HUGE_MEAN, _HUGE_VARIANCE = 1e150, 1e300

# An expected count below this is no evidence at all: the component keeps its parameters.
_EMPTY = 10 * np.finfo(float).eps


@dataclass(frozen=True)
class Prior:
    """Dirichlet(alpha) on the weights, NIW(mean, kappa, nu, scatter) on each component.

    The papers' defaults are alpha = 2, mean = 0, kappa = 1, nu = d + 2, scatter = 0.1 I.
    """

    alpha: float
    mean: Array
    kappa: float
    nu: float
    scatter: Array

    def counts(self, count: Array) -> Array:
        """Posterior counts, to which the mode of the weights is proportional (Park et al. 2016)."""
        return np.maximum(count + self.alpha - 1.0, 0.0)

    def shrink(
        self, means: Array, n: Array, second: Array, covariance_type: str
    ) -> tuple[Array, Array]:
        """Posterior modes from maximum-likelihood means and covariances; n has shape (K, 1).

        mean_k = (n_k mean_k + kappa m) / (n_k + kappa), and
        cov_k = (S + n_k cov_k + kappa n_k/(kappa + n_k) e e') / (nu + n_k + d + 2), e = mean_k - m.
        """
        components, d = means.shape
        away = means - self.mean
        pull = (self.kappa * n / (self.kappa + n))[:, 0]
        modes = self.mean + away * (n / (n + self.kappa))
        denominator = self.nu + d + 2.0
        match covariance_type:
            case "full":
                outer = np.einsum("k,ki,kj->kij", pull, away, away)
                scatter = self.scatter + n[:, :, None] * second + outer
                return modes, scatter / (n[:, :, None] + denominator)
            case "tied":
                # One covariance under K means: each mean's density adds one to the exponent.
                outer = np.einsum("k,ki,kj->ij", pull, away, away)
                total = n.sum()
                scatter = self.scatter + total * second + outer
                return modes, scatter / (total + self.nu + d + 1.0 + components)
            case "diag":
                scatter = np.diag(self.scatter) + n * second + pull[:, None] * away**2
                return modes, scatter / (n + denominator)
            case _:
                trace = np.trace(self.scatter) + n[:, 0] * d * second
                trace = trace + pull * np.sum(away**2, axis=1)
                return modes, trace / (d * (n[:, 0] + denominator))

    def log_density(self, mixture: Mixture) -> float:
        """Log prior density of the parameters, up to a constant."""
        away = mixture.means - self.mean
        w = mixture.whiteners
        d = away.shape[1]
        if w.ndim == 3:
            white = np.einsum("kij,kj->ki", w, away)
            traces = np.einsum("kij,jl,kil->k", w, self.scatter, w)
        else:
            white = w * away
            traces = w**2 @ np.diag(self.scatter)
        weights = (self.alpha - 1.0) * np.log(mixture.weights).sum()
        mean_part = -0.5 * self.kappa * np.sum(white**2)
        if mixture.covariance_type == "tied":
            exponent = self.nu + d + 1.0 + len(away)
            cov_part = exponent * mixture.log_determinants[0] - 0.5 * traces[0]
        else:
            cov_part = np.sum((self.nu + d + 2.0) * mixture.log_determinants - 0.5 * traces)
        return float(weights + mean_part + cov_part)


@dataclass(frozen=True)
class GaussianMixtureModel:
    """Maximum likelihood (or, with a prior, maximum a posteriori) for a Gaussian mixture.

    Parameters
    ----------
    covariance_type : {"full", "tied", "diag", "spherical"}
    frame : Frame
        Where the data lie: origin of the sums, scale of the floors, pooled second moment.
    reg_covar : float
        Added to every variance.
    prior : Prior or None
        Dirichlet and Normal-inverse-Wishart; ``None`` for maximum likelihood.
    """

    covariance_type: str
    frame: Frame
    reg_covar: float = 1e-6
    prior: Prior | None = None

    @cached_property
    def floor(self) -> Array:
        """The smallest variance that each column is allowed: ``reg_covar``, or above rounding."""
        return np.maximum(max(self.reg_covar, 1e-30), 1e-12 * self.frame.variances)

    def query(self, state: Mixture, round: int = 0) -> MixtureQuery:
        """The E-step under ``state``."""
        condition = state.condition(self.frame.origin, self.frame.variances)
        # Without the records that the background takes, a pooled second moment does change.
        pooled = state.background is not None and self.covariance_type == "tied"
        direct = condition > CONDITION_LIMIT or direct_is_faster(state) or pooled
        return MixtureQuery(state, self.frame.origin, direct)

    def m_step(self, state: Mixture, release: Release[MixtureSums]) -> Mixture:
        """New parameters from a release.

        Total: counts at or below zero, and components whose arithmetic overflows, keep the
        previous mean and covariance; indefinite second moments have their eigenvalues raised.
        """
        sums, origins = release.statistics, release.query.origins
        count = np.maximum(sums.count, 0.0)
        weights = self._weights(count)
        n = np.maximum(count, _EMPTY)[:, None]
        with np.errstate(over="ignore", invalid="ignore"):
            shift = sums.total / n
            means = origins + shift
            second = self._about_means(sums, n, shift)
            if self.prior is not None:
                means, second = self.prior.shrink(means, n, second, self.covariance_type)
        alive = (count > _EMPTY) & (np.abs(means) < _HUGE_MEAN).all(axis=1)
        if self.covariance_type != "tied":
            alive &= (np.abs(second.reshape(len(n), -1)) < _HUGE_VARIANCE).all(axis=1)
        covariances = self.valid(second, state.covariances, alive)
        means = np.where(alive[:, None], means, state.means)
        state = replace(state, weights=weights, means=means, covariances=covariances)
        if state.background is None:
            return state
        rest = 1.0 - float(np.minimum(count, self.frame.count).sum()) / self.frame.count
        share = float(np.clip(rest, _EMPTY, 1 - _EMPTY))
        return replace(state, background=replace(state.background, weight=share))

    def _weights(self, count: Array) -> Array:
        weights = count if self.prior is None else self.prior.counts(count)
        # Scaled first: a sum of huge finite counts must not overflow.
        weights = weights / max(float(weights.max()), 1e-300)
        weights = np.maximum(weights, _EMPTY)
        return np.asarray(weights / weights.sum())

    def _about_means(self, sums: MixtureSums, n: Array, shift: Array) -> Array:
        """Second moments about the new means, per record: the covariances before any floor."""
        d, second, total = shift.shape[1], sums.second, n.sum()
        if second is None:  # tied, and about the frame's origin: it never changes
            second, total = self.frame.second, self.frame.count
        match self.covariance_type:
            case "full":
                spread = np.einsum("ki,kj->kij", shift, shift)
                return np.asarray(smat(second, d) / n[:, :, None] - spread)
            case "tied":
                share = n / n.sum()
                spread = np.einsum("ki,kj->ij", shift * share, shift)
                return np.asarray(smat(second, d) / total - spread)
            case "diag":
                return np.asarray(second / n - shift**2)
            case _:
                return np.asarray((second / n[:, 0] - np.sum(shift**2, axis=1)) / d)

    def valid(self, new: Array, old: Array, alive: Array) -> Array:
        """New covariances where they are valid, or can be made so, of components ``alive``."""
        if self.covariance_type == "tied":
            return self._floored(new) if (np.abs(new) < _HUGE_VARIANCE).all() else old
        each = zip(new, old, alive, strict=True)
        usable = (
            self._floored(c) if ok and (np.abs(c) < _HUGE_VARIANCE).all() else before
            for c, before, ok in each
        )
        return np.stack(list(usable))

    def _floored(self, new: Array) -> Array:
        kind = self.covariance_type
        if kind in ("full", "tied"):
            return floor_eigenvalues(new + self.reg_covar * np.eye(len(new)), self.floor)
        floor = self.floor if kind == "diag" else self.floor.mean()
        return np.asarray(np.maximum(new + self.reg_covar, floor))

    def carried(self, sums: MixtureSums, origins: Array, query: MixtureQuery) -> MixtureSums:
        """Sums about points (K, d), about the origins of a query instead.

        A record at x - a is at x - a + e from a point e away: with n records of sum t, that adds
        n e to the sum and t e' + e t' + n e e' to the second moment.
        """
        n, e, t, second = sums.count[:, None], origins - query.origins, sums.total, sums.second
        if self.covariance_type == "tied" and not query.direct:
            return replace(sums, total=t + n * e, second=None)
        if second is None:  # pooled, it is that of all records
            second = self.frame.second
        match self.covariance_type:
            case "full" | "tied":
                cross = np.einsum("ki,kj->kij", t + n * e / 2, e)
                more = svec(cross + np.swapaxes(cross, 1, 2))
                more = more.sum(axis=0) if self.covariance_type == "tied" else more
            case "diag":
                more = (2 * t + n * e) * e
            case _:
                more = np.sum((2 * t + n * e) * e, axis=1)
        return replace(sums, total=t + n * e, second=second + more)

    def objective(self, state: Mixture, release: Release[MixtureSums]) -> float:
        """Mean log-likelihood of ``state``; with a prior, plus the mean log prior density."""
        value = float(release.statistics.log_likelihood or 0.0)
        if state.covariance_type == "tied" and not release.query.direct:
            # The common term the kernel left out: -1/2 sum x'Px = -1/2 <P, sum x x'>.
            value -= 0.5 * float(svec(state.precisions[0]) @ self.frame.second)
        if self.prior is not None:
            value += self.prior.log_density(state)
        return value / self.frame.count
