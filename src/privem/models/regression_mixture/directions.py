"""Where to start a mixture of regressions: along the directions in which residuals grow.

With z = (1, W (x - m)) and t the squared residual of the one regression that explains all records
best, a record contributes h svec(v v'), h = (t - c)/(t + c) with a public c, v = z/max(r, |z|).
Were the residuals plain noise, h would not depend on z; components whose coefficients differ by
delta make them large where <z, delta> is large.

*Sensitivity.* |h| <= 1 and |v| <= 1, so |h svec(v v')| <= 1: adding or removing a record moves the
sum by at most 1, replacing one (h may change its sign) by at most 2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ...blocks import conditions
from ...blocks.region import Region
from ...blocks.sensitivity import capped
from ...core import Block, Group, Scratch
from ...linalg import U, gamma, smat, svec
from ...tree import Array
from .model import Regressions

__all__ = ["ResidualDirections", "ResidualSums", "apart_along"]

_UP = 1 + 2.0**-40


@dataclass(frozen=True)
class ResidualSums:
    """Sum of h v v', packed."""

    second: Array


@dataclass(frozen=True)
class ResidualDirections:
    """See above; ``one`` is the single regression, c its variance, r = 1.5 sqrt(1 + d).

    ``region``: where private records are pulled, in whose unit coordinates ``one`` is.
    """

    one: Regressions
    region: Region | None = None
    cap_weight: float = 1.0
    travels = ("one", "region", "cap_weight")

    @property
    def _q(self) -> int:
        return len(self.one.centre) + 1

    @property
    def block_rows(self) -> int:
        """Blocks of about half a megabyte."""
        return int(np.clip(2**16 // (self._q + 1), 64, 4088)) // 8 * 8

    def __call__(self, block: Block, scratch: Scratch) -> ResidualSums:
        """Sum a block."""
        weight = block.weight
        if self.region is None:
            rows = np.asarray(block.X, dtype=np.float64).T
        else:
            rows = self.region.to_unit(block.X, scratch).T
            weight = capped(weight, self.cap_weight, len(block.X))
        white, residuals, _ = self.one.log_joint(rows[:-1], rows[-1])
        v = np.concatenate([np.ones((1, white.shape[1])), white])
        radius = 1.5 * math.sqrt(self._q)
        v /= np.maximum(np.sqrt(np.einsum("ij,ij->j", v, v)), radius)
        t = np.minimum(np.abs(residuals[0]), 1e150) ** 2
        h = (t - 1.0) / (t + 1.0)
        h = h if weight is None else h * weight
        return ResidualSums(svec((v * h) @ v.T))

    def groups(self, neighbours: str) -> list[Group]:
        """One group; derived above."""
        moved = {"add-remove": 1.0, "replace-one": 2.0}[neighbours] * self.cap_weight * _UP
        return [Group("residuals", slice(0, self._q * (self._q + 1) // 2), moved)]

    def rounding(self, rows: float) -> float:
        """Of v: the whitening's rounding over r; of h: 1.3 (its steepest slope) a residual's.

        What v errs by counts twice in v v'.
        """
        assert self.region is not None
        s, q = self.one, self._q
        away = self.region.reach + float(np.linalg.norm(s.centre))
        norm = float(np.linalg.norm(s.whitener))
        moved = gamma(q + 4) * norm * away
        slope = float(np.linalg.norm(s.coefficients[0, 1:]))
        height = self.region.limit[-1] + abs(s.coefficients[0, 0]) + slope * (norm * away + moved)
        residual = (slope * moved + gamma(q + 8) * height) / math.sqrt(s.variances[0])
        # The relative error of t counts too: h changes by t h'(t) <= 1/2 per unit of it.
        h = 1.3 * residual + 16 * U
        v = moved / (1.5 * math.sqrt(q)) + gamma(q + 16)
        one = h + 2 * v + v * v
        return float(rows * (one + gamma(self.block_rows + 32) * (1 + one)))

    def check(self, d: int, private: bool) -> None:
        """One regression; where it is private, a region that records are pulled into."""
        conditions.need((self.region is not None) == private)
        self.one.check(d, private)
        conditions.need(len(self.one.weights) == 1)
        conditions.ordinary(self.cap_weight)
        if self.region is not None:
            self.region.check(d)

    def largest(self, low: Array, high: Array) -> Array:
        """No entry of h v v' is beyond one; off the diagonal it is packed times sqrt(2)."""
        return np.full(self._q * (self._q + 1) // 2, 1.5)


def apart_along(second: Array, q: int, k: int, blur: float) -> Array:
    """Directions (q, m), the longest first and of length one, in which k components may differ.

    For Gaussian covariates E h z z' is, up to a multiple of the identity, delta delta' but for its
    first entry, which no covariate tells: it is completed so that the rank is the lowest. Where
    nothing stands out of the noise ``blur`` components differ in their intercepts.
    """
    matrix = smat(np.clip(np.nan_to_num(second), -1e150, 1e150), q)
    intercept = np.eye(q)[:, :1]
    if q == 1:
        return intercept
    level = float(np.median(np.diag(matrix)[1:])) if q > 2 else float(matrix[0, 0])
    rest = matrix[1:, 1:] - level * np.eye(q - 1)
    values, vectors = np.linalg.eigh(rest)
    keep = values > max(4 * blur, 1e-9 * float(np.abs(matrix).max()))
    if not keep.any():
        return intercept
    inverse = vectors[:, keep] / values[keep] @ vectors[:, keep].T
    full = np.zeros((q, q))
    full[1:, 1:] = (vectors[:, keep] * values[keep]) @ vectors[:, keep].T
    full[0, 1:] = full[1:, 0] = matrix[0, 1:]
    full[0, 0] = matrix[0, 1:] @ inverse @ matrix[0, 1:]
    values, vectors = np.linalg.eigh(full)
    order = np.argsort(values)[::-1][: max(1, min(k - 1, q))]
    lengths = np.sqrt(np.maximum(values[order], 0.0))
    axes = vectors[:, order] * (lengths / lengths.max())
    if k > 2:  # they may differ in their intercepts besides
        axes = np.concatenate([axes, 0.5 * intercept], axis=1)
    return np.asarray(axes)
