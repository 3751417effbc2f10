"""The density of Gaussian models: of records, bounded for a release, above a background.

*Log-densities for releases* (:class:`GaussianLogDensity`) are computed by sums and products of
single numbers in a fixed order and then by exp and log, whose last digits may depend on where in a
block a record stands: ``value_error`` covers that. Proof: ``docs/proofs/contest.md``.

*The background* is a uniform density on the bounds. The profile (:mod:`privem.blocks.profile`) of
log p(x) - log u (:class:`RatioQuery`), where u is the uniform density, says how badly a private
fit's own density does, and so how large its background should be.

*Estimators* have a density above a background (:class:`WithBackground`), one that can be scored
privately (:class:`GaussianScored`), and components (:class:`MixtureDensity`).
"""

from __future__ import annotations

import copy
import math
from abc import abstractmethod
from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp
from sklearn.base import DensityMixin

from ...blocks import conditions
from ...blocks.log_density import EXP_ERROR, BoundedLogDensity, log_density
from ...blocks.profile import ProfileQuery
from ...blocks.region import Background, Region
from ...budget import Part, Terms
from ...core import Block, Release, Scratch, Stage
from ...data.table import Table
from ...estimator.density import Components, Density, OfBlock
from ...estimator.score import PrivatelyScored
from ...estimator.synthetic import Synthetic
from ...estimator.warnings import advise, advise_at_end, few
from ...ground import Ground
from ...linalg import Array
from ...parameters import check_option, check_samples, is_ball, region_of
from ..kmeans.grid import to_simplex
from .model import Mixture, MixtureQuery

# Far beyond any record, and still a number when whitened and squared.
_HUGE = 1e100
# Ratios at which the profile is taken. Below the first only the background explains a record, above
# the last only the mixture does, whatever the ratio: few points, and so little noise.
RATIOS = np.array([-6.0, -3.0, -1.0, 0.0, 1.0, 3.0, 6.0])
LEAST, MOST = 0.005, 0.995
# The most that outliers weigh.
_FEW = 0.1
# Nats of a record that a smaller background may cost: so many, and so many for each column.
_SPARED = (0.05, 0.025)
# Of what the preamble leaves of a budget: the question how large a background should be.
_SHARE = 0.02
# With full covariances of more columns than this, the question would take longer than the fit.
MOST_ASKED = 256
# Above this weight, the background is all but the whole model.
_MUCH, _MOST = 0.3, 0.9


@dataclass(frozen=True)
class GaussianLogDensity(BoundedLogDensity):
    """The log-density of a mixture, computed number by number; bounded above a background."""

    mixture: Mixture
    travels = ("mixture",)

    @property
    def peak(self) -> float:
        """No density is above the sum of the components' peaks, and of the background."""
        with np.errstate(divide="ignore"):
            peaks = self.mixture.constants
        flat = self.mixture.background
        return float(logsumexp(peaks if flat is None else np.append(peaks, flat.level)))

    @property
    def size(self) -> float:
        """The background is a floor, peaks are a ceiling."""
        flat = self.mixture.background
        return math.inf if flat is None else max(abs(flat.level), abs(self.peak))

    def check(self, d: int) -> None:
        """A valid mixture above a background, of no more components than a party holds."""
        conditions.held(len(self.mixture.means) + 1, 4088, 1)
        conditions.need(self.mixture.background is not None)
        self.mixture.check(d, background=True)

    def log_joint(self, X: Array, scratch: Scratch) -> Array:
        """Log joint density (K, b) of component and record; no matrix products.

        Under a background, which is one more component, records are clamped to its region first.
        """
        b, count, flat = len(X), len(self.mixture.means), self.mixture.background
        joint = scratch.take("joint", (count + (flat is not None), b))
        x, z = scratch.take("moved", X.T.shape), scratch.take("white", (b,))
        term = scratch.take("term", (b,))
        with np.errstate(all="ignore"):
            if flat is not None:
                X, joint[count] = flat.clamped(X, scratch), flat.level
            for k, (mean, w) in enumerate(
                zip(self.mixture.means, self.mixture.whiteners, strict=True)
            ):
                np.subtract(X.T, mean[:, None], out=x)
                if flat is None:
                    np.clip(x, -_HUGE, _HUGE, out=x)
                joint[k] = 0.0
                for j in range(len(mean)):
                    if w.ndim == 1:
                        np.multiply(x[j], w[j], out=z)
                    else:
                        z[:] = 0.0
                        for i in np.flatnonzero(w[j]):
                            np.multiply(x[i], w[j, i], out=term)
                            z += term
                    np.multiply(z, z, out=term)
                    joint[k] += term
                joint[k] *= -0.5
                joint[k] += self.mixture.constants[k]
        return joint


@dataclass(frozen=True)
class RatioQuery(ProfileQuery):
    """The profile of log p - log u, u the uniform density on the region.

    Parameters
    ----------
    mixture : Mixture
        Without a background.
    region : Region
    grid : array of shape (J + 1,)
        Increasing.
    cap_weight : float
    """

    mixture: Mixture
    region: Region
    grid: Array
    cap_weight: float = 1.0
    block_rows: int = 4088
    travels = ("mixture", "region", "grid", "cap_weight")

    def values(self, block: Block, scratch: Scratch) -> Array:
        """Log-densities, from that of the uniform density on."""
        x = scratch.take("inside", block.X.T.shape)
        x[:] = block.X.T
        self.region.clamp(x)
        density = GaussianLogDensity(self.mixture)
        return log_density(density, x.T, scratch) + self.region.log_volume

    @property
    def value_error(self) -> float:
        """Of log-densities whose ratio is within the grid."""
        size = float(np.abs(self.grid[[0, -1]]).max())
        return EXP_ERROR * (1 + abs(self.region.log_volume) + size)

    def check(self, d: int, private: bool) -> None:
        """Any mixture: whatever it is, a record adds hats that sum to one."""
        conditions.held(len(self.mixture.means), self.block_rows, len(self.grid))
        self.mixture.check(d)
        self.region.check(d, data=True)
        self.check_profile()


def background_part(left: float) -> Part:
    """The part of an allowance that :func:`background_weight` spends."""
    return Part("background", left * _SHARE, [("gaussian", len(RATIOS))])


def background_weight(mixture: Mixture, ground: Ground) -> Generator[Stage, Release[Any], float]:
    """The weight of a background beneath a mixture in the data's coordinates; generates a stage."""
    query = RatioQuery(mixture, ground.region, RATIOS, ground.cap_weight)
    release = yield ground.stage(query, "background")
    d, count = ground.region.d, ground.count
    # What noise does not explain are outliers, and these are few.
    few = _FEW + 2 * forecast_weight(d, ground.allowance.base, count)
    return weight_of(release.statistics.counts, release.spread, count, d, few)


def weight_of(counts: Array, deviation: float, count: float, d: int, few: float = 1.0) -> float:
    """The weight of a background, from the profile over :data:`RATIOS` and its noise.

    The smallest weight under which records are all but as likely as they can be, and a deviation of
    it more: a background that is too small may cost any number of nats, but records drawn from it
    have none of the data's means. Columns that fill their bounds would have most of it for little.
    It is above ``few``, and what noise may hide, only as far as records would otherwise lose twice
    as much: those of a model whose shape is none of theirs.
    """
    tried = 1 / (1 + np.exp(np.linspace(math.log(1 / LEAST - 1), math.log(1 / MOST - 1), 401)))
    gains = np.log(tried[:, None] + (1 - tried)[:, None] * np.exp(RATIOS))
    values = gains @ to_simplex(counts / count)
    spared, hidden = _SPARED[0] + _SPARED[1] * d, math.sqrt(2.0) * deviation / count
    wanted, needed = (float(tried[np.argmax(values >= values.max() - s * spared)]) for s in (1, 2))
    return float(np.clip(max(min(wanted + hidden, max(few, hidden)), needed), LEAST, MOST))


def forecast_weight(d: int, multiplier: float, count: float) -> float:
    """A weight to expect before looking: ``multiplier`` is that of the whole budget's noise.

    The relative noise on a mean, in units of the region, is in proportion to sqrt(d) multiplier /
    count; where that is large, the mixture is noise.
    """
    q = 6 * math.sqrt(3 * d) * multiplier / count
    return float(np.clip(q * q / (1 + q * q), LEAST, MOST))


class WithBackground(Synthetic, Density):
    """Abstract base of such estimators; they have the parameters ``background`` and ``bounds``."""

    if TYPE_CHECKING:
        background: Any
        bounds: Any
        bounds_: tuple[Array, Array]
        background_weight_: float

    @abstractmethod
    def _draw(self, n_samples: int, rng: Any) -> tuple[Array, NDArray[np.int64]]:
        """Records drawn from the model without its background, and the component of each."""

    def _background(self) -> Background | None:
        # A model that was put together by hand has none.
        weight = getattr(self, "background_weight_", 0.0)
        if not weight:
            return None
        low, high = self.bounds_
        ball = is_ball(self.bounds)
        region = Region.around_origin(float(high[0]), len(high)) if ball else Region.box(low, high)
        return Background(weight, region)

    def _check_background(self) -> None:
        check_option("background", self.background, ("auto", True, False))
        if self.epsilon is None and self._asks_for_background:
            region_of(self.bounds, None, self._isotropic)

    @property
    def _asks_for_background(self) -> bool:
        """Whether an exact fit has one."""
        return self.background not in ("auto", False)

    def _exact_region(self, table: Table) -> Region | None:
        """The region of an exact fit's background, if it has one: the bounds given, or the range.

        The range is that of all records with a weight above zero.
        """
        if not self._asks_for_background:
            return None
        given = self._region(self.n_features_in_)
        if given is not None:
            return given
        if not table.single_rows:
            raise ValueError(
                "background=True needs bounds here: these rows can be summed, but their range "
                "cannot be looked up"
            )
        low = np.full(self.n_features_in_, np.inf)
        high = -low
        for block in table.rows.blocks(8184):
            rows = np.asarray(block.X, dtype=np.float64)
            # Values that are not finite are refused by the fit, in words of its own.
            counts = np.isfinite(rows).all(axis=1)
            if block.weight is not None:
                counts &= block.weight > 0
            low = np.minimum(low, rows[counts].min(axis=0, initial=np.inf))
            high = np.maximum(high, rows[counts].max(axis=0, initial=-np.inf))
        constant = [name for name, flat in zip(self._called(), low == high, strict=True) if flat]
        if constant:
            raise ValueError(
                "background=True: a uniform density on the range of the data needs columns that "
                f"vary, and these do not: {few(constant)}; leave them out, or give bounds"
            )
        # Without a record that counts there is no fit.
        return Region.box(low, high) if (low < high).all() else None

    def _set_exact_background(self, background: Background | None) -> None:
        """Set what an exact fit has found."""
        self.background_weight_ = 0.0 if background is None else background.weight
        if background is not None:
            self.bounds_ = self._sides(background.region, self.bounds is not None)

    def _set_private_background(self, weight: float) -> None:
        """Set what a private fit has found; say where noise hides much."""
        self.background_weight_ = float(weight)
        if weight > _MUCH:
            advise_at_end(
                "noise hides much of the data in this model: its background, a uniform density "
                f"on the bounds, has weight {weight:.3g}; use more records, fewer features, "
                "narrower bounds or a larger epsilon"
            )

    def _known(self, plan: Any, terms: Terms) -> dict[str, str]:
        known = super()._known(plan, terms)
        if self.background_weight_:
            known["background"] = (
                f"a uniform density on the bounds of weight {self.background_weight_:.3g}, which "
                "follows from the releases"
            )
        return known

    def _without_background(self) -> Self:
        background = self._background()
        if background is not None and background.weight > _MOST:
            advise(
                f"the background has weight {background.weight:.3g}: what is left without it "
                "says little about the data"
            )
        alone = copy.copy(self)
        alone.background_weight_ = 0.0
        return alone

    def _draws(self, n_samples: int, rng: Any) -> tuple[Array, NDArray[np.int64]]:
        check_samples(n_samples)
        background = self._background()
        if background is None:
            return self._draw(n_samples, rng)
        flat = rng.binomial(n_samples, background.weight)
        X, component = self._draw(n_samples - flat, rng)
        rows = np.vstack([X, background.region.draw(flat, rng)])
        return rows, np.concatenate([component, np.full(flat, -1)])


def divergences(mixture: Mixture) -> Array:
    """Jeffreys' divergence of each pair of components, (K, K): both Kullback-Leibler's together.

    Examples
    --------
    >>> two = Mixture("diag", np.ones(2) / 2, np.array([[0.0], [3.0]]), np.ones((2, 1)))
    >>> divergences(two).tolist()
    [[0.0, 9.0], [9.0, 0.0]]
    """
    p, kind = mixture.precisions, mixture.covariance_type
    apart = mixture.means[:, None] - mixture.means
    d = apart.shape[2]
    along = "jab,jka,jkb->jk" if p.ndim == 3 else "ja,jka,jka->jk"
    moved = np.einsum(along, p, *[apart] * 2)
    match kind:
        case "full":
            wider = np.einsum("jab,kab->jk", p, mixture.covariances)
        case "tied":
            wider = np.full(moved.shape, float(d))
        case _:
            wider = p @ mixture.deviations.T**2
    return np.asarray((moved + moved.T + wider + wider.T) / 2 - d)


class GaussianScored(PrivatelyScored):
    """Abstract base of estimators whose density is a Gaussian mixture within ``bounds_``."""

    bounds_: tuple[Array, Array]

    @abstractmethod
    def _density(self) -> Mixture:
        """The fitted density."""

    def _scored(self) -> GaussianLogDensity:
        return GaussianLogDensity(self._density())

    def _log_uniform(self) -> float:
        low, high = self.bounds_
        return -float(np.sum(np.log(high - low)))


class MixtureDensity(Components, DensityMixin, GaussianScored):  # type: ignore[misc]
    """Abstract base: densities and responsibilities under ``weights_ means_ covariances_``."""

    covariance_type: str
    weights_: Array
    means_: Array
    covariances_: Array

    def _log_joint(self) -> OfBlock:
        query = MixtureQuery.for_evaluation(replace(self._density(), background=None))
        return lambda block, scratch: query.log_joint(block.X, scratch)

    def aic(self, X: Any) -> float:
        """Akaike's information criterion on ``X``; lower is better."""
        densities = self.score_samples(X)
        return float(-2 * densities.sum() + 2 * self._n_parameters())

    def bic(self, X: Any) -> float:
        """Bayesian information criterion on ``X``; lower is better."""
        densities = self.score_samples(X)
        return float(-2 * densities.sum() + self._n_parameters() * np.log(len(densities)))

    def _density(self) -> Mixture:
        parameters = (self.weights_, self.means_, self.covariances_)
        return Mixture(self.covariance_type, *parameters, self._background())

    def _n_parameters(self) -> int:
        return self._density().n_parameters + (self._background() is not None)
