"""The sum behind a private mean of heavy-tailed records (Wang et al. 2023, section 4).

A record contributes the bounded difference ``bound(x - centre)``, coordinate by coordinate
(:class:`~privem.blocks.bounding.Robust`) or as a whole (:class:`~privem.blocks.bounding.Clip`). Its
sensitivity is that of the bounding: the norm when a record is added or removed, twice the norm when
one is replaced, times the cap on weights.

``x - centre`` and its clamping are elementwise and correctly rounded, so they are a function of the
record; all that rounds after them is the bounding and the sum.

*How wide?* Let E (x - centre)^2 <= tau per coordinate. Pulled onto a ball of radius C, a vector
moves by |x| - C or not at all, at most |x|^2/(4 C): the mean moves by at most p tau/(4 C). phi
moves a number by at most x^2/(4 TOP s), and smoothing multiplies x by u = 1 + Z/sqrt(beta), E u^2
= 1 + 1/beta: sqrt(p) tau (1 + 1/beta)/(4 TOP s) in L2. The noise on the mean has deviation m D/n
per coordinate (m: noise multiplier, D: sensitivity), sqrt(p) times that in L2, where D is C or s B
sqrt(p), doubled where records are replaced. So bias times noise does not depend on the width, is
p^1.5 tau m/(4 n) for the ball, and (1 + 1/beta)(2 Phi(sqrt(beta)) - 1) > 1 times that with
smoothing: the ball at which both are equal has the smallest sum of the two bounds.
:func:`best_clip` takes half its radius: the sum is a quarter above the smallest in the worst case,
and half of it where tails are lighter than the worst. See ``docs/proofs/gradient.md``, section 3.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from ..core import Block, Group, Scratch
from ..kernels.robust import TOP
from ..linalg import Array, gamma
from . import conditions
from .bounded_sums import BoundedSum, Cell, check_weights
from .bounding import Bounding, Clip, Robust
from .sensitivity import UP, one_group

# Far beyond any record, and squares of it are still numbers.
_HUGE = 1e150


@dataclass(frozen=True)
class MeanSums:
    """Sum of bounded differences, (p,)."""

    total: Array


@dataclass(frozen=True)
class RobustMeanQuery(BoundedSum[MeanSums]):
    """The sum of bounded differences from a public centre, in units of a public ``unit`` each."""

    centre: Array
    unit: Array
    bounding: Bounding
    cap_weight: float = 1.0
    cell: Cell | None = None
    kind: str = "gaussian"
    travels = ("centre", "unit", "bounding", "cap_weight", "cell")

    @property
    def block_rows(self) -> int:
        """Blocks of half a megabyte."""
        return int(np.clip(2**16 // len(self.centre), 64, 65_528)) // 8 * 8

    @property
    def size(self) -> int:
        """How many numbers are released."""
        return len(self.centre)

    def contributions(self, block: Block, scratch: Scratch) -> Array:
        """What each record of a block adds, (p, b), before weights; in working memory.

        NaN, which streams may hold, counts as the lowest number: a fixed public rule.
        """
        x = scratch.take("difference", block.X.T.shape)
        with np.errstate(over="ignore", invalid="ignore"):
            np.subtract(block.X.T, self.centre[:, None], out=x)
            x /= self.unit[:, None]
        np.fmax(x, -_HUGE, out=x)
        np.minimum(x, _HUGE, out=x)
        return self.bounding.apply(x, scratch)

    def unravel(self, vector: Array) -> MeanSums:
        """The sums from the vector of their numbers."""
        return MeanSums(vector)

    def groups(self, neighbours: str) -> list[Group]:
        """One group; opposite records are twice the norm apart.

        Laplace noise goes by the L1 norm, at most sqrt(p) times the L2 norm (Cauchy-Schwarz).
        """
        norm = self.bounding.norm(self.size)
        (group,) = one_group(self, "mean", neighbours, norm, 2.0 * norm)
        if self.kind == "laplace":
            bound = group.sensitivity * (math.sqrt(self.size) * UP)
            group = replace(group, sensitivity=bound, kind=self.kind)
        return [group]

    def rounding(self, rows: float) -> float:
        """The bounding's error per record, and a rounding per row of a block."""
        p = self.size
        moved, norm = self.bounding.error(p, 0.0), self.bounding.norm(p)
        return rows * (moved + gamma(self.block_rows + 32) * (norm + moved))

    def check(self, d: int, private: bool) -> None:
        """A unit for each column, neither tiny nor huge."""
        conditions.shaped((d,), self.centre, self.unit)
        conditions.magnitudes(self.unit, positive=True)
        self.bounding.check()
        check_weights(self.cap_weight, self.cell, private)


def best_clip(tau: float, count: float, multiplier: float, p: int, factor: float) -> Clip:
    """Half the ball at which the worst bias equals the noise's deviation, in L2.

    Parameters
    ----------
    tau : float
        Bound on the second moment of each coordinate.
    count : float
        Number of records.
    multiplier : float
        Noise over sensitivity.
    p : int
    factor : float
        What multiplies the noise besides: 2 where records are replaced, sqrt(count) where every
        person adds noise, and sqrt(2 p) for Laplace noise (its deviation, and the L1 norm).
    """
    noise = math.sqrt(p) * multiplier * factor / count
    # Below the typical size of a record nothing is gained: everything would be clipped.
    return Clip(max(0.5 * math.sqrt(p * tau / (4 * noise)), math.sqrt(p * tau)))


def papers_scale(
    method: str, tau: float, count: float, epsilon: float, delta: float, failure: float
) -> Robust:
    """The parameters of Theorem 2, Lemma 1 or Algorithm 2 (with ``count`` records in a cell)."""
    log_f, log_d = math.log(1 / failure), math.log(1 / delta) if delta else math.inf
    match method:
        case "lemma 1":
            return Robust(math.sqrt(count * tau / (2 * log_f)), 2 * log_f)
        case "theorem 2":
            return Robust(math.sqrt(count * epsilon * tau) / (log_f * log_d**0.25), log_f**0.5)
        case "algorithm 2":
            tilde = math.sqrt(log_d + epsilon) - math.sqrt(log_d)
            return Robust(math.sqrt(count * tau * tilde) / (2 * log_f), log_f**0.5)
    raise ValueError(f"unknown method {method!r}")


def bias_bound(bounding: Bounding, tau: float, p: int) -> float:
    """How far the mean of bounded records may lie from the true one, in L2."""
    match bounding:
        case Clip(radius=radius):
            return p * tau / (4 * radius)
        case Robust(scale=scale, beta=beta):
            return math.sqrt(p) * tau * (1 + 1 / beta) / (4 * TOP * scale)
