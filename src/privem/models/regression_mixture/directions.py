"""Where to start a mixture of regressions: along the directions in which residuals grow.

With z = (1, W (x - m)) and t the squared residual of the one regression that explains all records
best, a record contributes h svec(v v'), h = (t - c)/(t + c) with a public c, v = z/max(r, |z|).
Were the residuals plain noise, h would not depend on z; components whose coefficients differ by
delta make them large where <z, delta> is large.

*Sensitivity.* |h| <= 1, of either sign, and |v| <= 1: derived in
:class:`privem.blocks.bounded_sums.OuterSum`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ...blocks import conditions
from ...blocks.bounded_sums import OuterSum
from ...blocks.region import Region
from ...blocks.sensitivity import one_group
from ...core import Block, Group, Scratch
from ...linalg import Array, U, gamma, smat
from .model import Regressions


@dataclass(frozen=True)
class ResidualDirections(OuterSum):
    """See above; ``one`` is the single regression, c its variance, r = 1.5 sqrt(1 + d).

    ``region``: where private records are pulled, in whose unit coordinates ``one`` is.
    """

    one: Regressions
    region: Region | None = None
    cap_weight: float = 1.0
    travels = ("one", "region", "cap_weight")

    @property
    def width(self) -> int:
        """One entry per covariate, and the intercept."""
        return len(self.one.centre) + 1

    @property
    def block_rows(self) -> int:
        """Blocks of about half a megabyte."""
        return int(np.clip(2**16 // (self.width + 1), 64, 4088)) // 8 * 8

    def vectors(self, block: Block, scratch: Scratch) -> tuple[Array, Array]:
        """The vectors v (1 + d, b), and h (b,)."""
        if self.region is None:
            rows = np.asarray(block.X, dtype=np.float64).T
        else:
            rows = self.region.to_unit(block.X, scratch).T
        white, residuals, _ = self.one.log_joint(rows[:-1], rows[-1])
        v = np.concatenate([np.ones((1, white.shape[1])), white])
        radius = 1.5 * math.sqrt(self.width)
        v /= np.maximum(np.sqrt(np.einsum("ij,ij->j", v, v)), radius)
        t = np.minimum(np.abs(residuals[0]), 1e150) ** 2
        return v, (t - 1.0) / (t + 1.0)

    def groups(self, neighbours: str) -> list[Group]:
        """One group; h is signed."""
        return one_group(self, "residuals", neighbours, 1.0, 2.0)

    def rounding(self, rows: float) -> float:
        """Of v: the whitening's rounding over r; of h: 1.3 (its steepest slope) a residual's.

        What v errs by counts twice in v v'.
        """
        assert self.region is not None
        q, (moved, residuals) = self.width, self.one.errors(self.region)
        # The relative error of t counts too: h changes by t h'(t) <= 1/2 per unit of it.
        h = 1.3 * float(residuals[0]) + 16 * U
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
