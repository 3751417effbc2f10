"""The sum behind a private score: log-densities under a public Gaussian mixture, within limits.

A record contributes ``f(x) = clip(log p(x), low, high) - (low + high)/2``, where p, low and high
are public. |f| <= w/2 with w = high - low, so adding or removing a record moves the sum by at most
w/2, and replacing one by at most w; times the cap on weights. Proof, and why the computed sum keeps
to it: ``docs/proofs/score.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp
from scipy.stats import chi2

from ...blocks.rounding import gamma
from ...blocks.sensitivity import capped
from ...core import Block, Group, Scratch
from ...tree import Array
from .model import Mixture

_UP = 1 + 2.0**-40
# Far beyond any record, and still a number when whitened and squared.
_HUGE = 1e100
# How far exp and log may differ from one place in a block to another; they err by a few 2^-53.
_EXP = 2.0**-38
# Of a component's own records, those within the ellipsoid that sets the lower limit.
_INSIDE = 0.999
_LEAST_WEIGHT = 1e-3


@dataclass(frozen=True)
class ScoreSums:
    """Sum of clipped log-densities about the middle of their limits, (1,)."""

    total: Array


@dataclass(frozen=True)
class LogDensityQuery:
    """Sums log-densities under ``mixture``, clipped to [low, high]; NaN counts as ``low``."""

    mixture: Mixture
    low: float
    high: float
    cap_weight: float = 1.0
    block_rows: int = 4088

    @property
    def size(self) -> int:
        """How many numbers are released."""
        return 1

    def contributions(self, block: Block, scratch: Scratch) -> Array:
        """What each record of a block adds, (b,), before weights.

        Additions and products of single numbers only, no matrix products: IEEE arithmetic rounds
        each in one way, so that up to exp and log a record's value is its own, wherever in a block
        it stands.
        """
        b = len(block.X)
        joint = scratch.take("joint", (len(self.mixture.means), b))
        x, z = scratch.take("moved", block.X.T.shape), scratch.take("white", (b,))
        term = scratch.take("term", (b,))
        with np.errstate(all="ignore"):
            for k, (mean, w) in enumerate(
                zip(self.mixture.means, self.mixture.whiteners, strict=True)
            ):
                np.subtract(block.X.T, mean[:, None], out=x)
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
            top = np.fmax.reduce(joint, axis=0)
            total = np.zeros(b)
            for row in joint:
                np.subtract(row, top, out=term)
                np.exp(term, out=term)
                total += term
            value = top + np.log(total)
        # fmax: what is not a number (a missing value, no density at all) becomes the lower limit.
        value = np.minimum(np.fmax(value, self.low), self.high)
        return np.asarray(value - self.middle)

    @property
    def middle(self) -> float:
        """What contributions are taken about."""
        return self.low / 2 + self.high / 2

    def __call__(self, block: Block, scratch: Scratch) -> ScoreSums:
        """Sum a block."""
        f = self.contributions(block, scratch)
        weight = capped(block.weight, self.cap_weight, len(f))
        return ScoreSums(np.atleast_1d(f.sum() if weight is None else f @ weight))

    def unravel(self, vector: Array) -> ScoreSums:
        """The sums from the vector of their numbers."""
        return ScoreSums(vector)

    def groups(self, neighbours: str) -> list[Group]:
        """A record adds a number in [-w/2, w/2]; two of them are at most w apart."""
        if neighbours not in ("add-remove", "replace-one"):
            raise ValueError(
                f"neighbours must be 'add-remove' or 'replace-one', got {neighbours!r}"
            )
        half = (self.high - self.low) / 2 * (2.0 if neighbours == "replace-one" else 1.0)
        return [Group("score", slice(0, 1), half * self.cap_weight * _UP)]

    def rounding(self, rows: float) -> float:
        """Where a record stands may move its value a little; and a rounding per row of a block."""
        moved = _EXP * (1 + abs(self.low) + abs(self.high))
        half = (self.high - self.low) / 2
        return rows * self.cap_weight * (moved + gamma(self.block_rows + 32) * (half + moved))


def highest(mixture: Mixture) -> float:
    """No density is above the sum of the components' peaks."""
    with np.errstate(divide="ignore"):
        return float(logsumexp(mixture.constants))


def lowest(mixture: Mixture) -> float:
    """Below the density of all but a thousandth of the records of every component that counts."""
    with np.errstate(divide="ignore"):
        peaks = mixture.constants
    counts = mixture.weights >= min(_LEAST_WEIGHT, float(mixture.weights.max()))
    reach = float(chi2.ppf(_INSIDE, mixture.means.shape[1]))
    return float(np.min(peaks[counts])) - reach / 2 - math.log(2.0)
