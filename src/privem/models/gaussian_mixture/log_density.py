"""Log-densities of records under public mixtures, and how badly a private fit's own one does.

*The ratio to the uniform density.* The profile (:mod:`privem.blocks.profile`) of log p(x) - log u,
where u is the uniform density on the region: it says how large a background should be.

A log-density is computed by sums and products of single numbers in a fixed order and then by exp
and log, whose last digits may depend on where in a block a record stands: ``value_error`` covers
that. Proof: ``docs/proofs/contest.md``.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import logsumexp

from ...blocks import conditions
from ...blocks.log_density import EXP_ERROR, BoundedLogDensity, ContestQuery, log_density
from ...blocks.profile import ProfileQuery
from ...blocks.region import Background, Region
from ...budget import Part
from ...core import Block, Release, Scratch, Stage
from ...ground import Ground
from ...tree import Array
from ..kmeans.grid import to_simplex
from .model import Mixture

# Far beyond any record, and still a number when whitened and squared.
_HUGE = 1e100


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


# Ratios at which the profile is taken. Below the first only the background explains a record, above
# the last only the mixture does, whatever the ratio: few points, and so little noise.
RATIOS = np.array([-6.0, -3.0, -1.0, 0.0, 1.0, 3.0, 6.0])
LEAST, MOST = 0.005, 0.995
# The most that outliers weigh.
_FEW = 0.1
# Nats of a record that a smaller background may cost: so many, and so many for each column.
_SPARED = (0.05, 0.025)
# No record says more in a contest than so many nats: as many as leave its noise at a twentieth of a
# nat. A mixture may be good for most records, and very bad for some.
_LIMITS, _CONTEST_NOISE = (4.0, 64.0), 0.05
# Of what the preamble leaves of a budget: the question how large a background should be.
_SHARE = 0.02
# With full covariances of more columns than this, the question would take longer than the fit.
MOST_ASKED = 256


def background_part(left: float) -> Part:
    """The part of an allowance that :func:`background_weight` spends."""
    return Part("background", left * _SHARE, [("gaussian", len(RATIOS))])


def background_weight(mixture: Mixture, ground: Ground) -> Generator[Stage, Release[Any], float]:
    """The weight of a background beneath a mixture in the data's coordinates; generates a stage."""
    query = RatioQuery(mixture, ground.region, RATIOS, ground.cap_weight)
    release = yield ground.stage(query, "background")
    d, count = ground.region.d, ground.count
    weight = weight_of(release.statistics.counts, release.spread, count, d)
    # What noise does not explain are outliers, and these are few.
    most = _FEW + 2 * forecast_weight(d, ground.allowance.base, count)
    return min(weight, max(most, math.sqrt(2.0) * release.spread / count), MOST)


def weight_of(counts: Array, deviation: float, count: float, d: int) -> float:
    """The weight of a background, from the profile over :data:`RATIOS` and its noise.

    The smallest weight under which records are all but as likely as they can be, and a deviation of
    it more: a background that is too small may cost any number of nats, but records drawn from it
    have none of the data's means. Columns that fill their bounds would have most of it for little.
    """
    tried = 1 / (1 + np.exp(np.linspace(math.log(1 / LEAST - 1), math.log(1 / MOST - 1), 401)))
    gains = np.log(tried[:, None] + (1 - tried)[:, None] * np.exp(RATIOS))
    values = gains @ to_simplex(counts / count)
    spared = _SPARED[0] + _SPARED[1] * d
    best = float(tried[np.argmax(values >= values.max() - spared)])
    return float(np.clip(best + math.sqrt(2.0) * deviation / count, LEAST, MOST))


def forecast_weight(d: int, multiplier: float, count: float) -> float:
    """A weight to expect before looking: ``multiplier`` is that of the whole budget's noise.

    The relative noise on a mean, in units of the region, is in proportion to sqrt(d) multiplier /
    count; where that is large, the mixture is noise.
    """
    q = 6 * math.sqrt(3 * d) * multiplier / count
    return float(np.clip(q * q / (1 + q * q), LEAST, MOST))


def contest(mixture: Mixture, one: Mixture, ground: Ground) -> Generator[Stage, Release[Any], bool]:
    """Whether records are more likely under a mixture than under one Gaussian; generates a stage.

    By more than a mixture gains on records it was fitted to (Akaike). Both are in the data's
    coordinates.
    """
    region, count = ground.region, ground.count
    flat = Background(forecast_weight(region.d, ground.allowance.base, count), region)
    both = [GaussianLogDensity(replace(m, background=flat)) for m in (mixture, one)]
    noise = ground.allowance.multiplier("contest") * ground.cap_weight / count
    limit = float(np.clip(_CONTEST_NOISE / noise, *_LIMITS))
    query = ContestQuery(both[0], both[1], limit, ground.cap_weight)
    release = yield ground.stage(query, "contest")
    gain = float(release.statistics.total[0]) / count
    return gain > (mixture.n_parameters - one.n_parameters) / count
