"""Floating-point error of one record's share in a mixture's bounded sums, by way of summing.

From public numbers alone. Proof: ``docs/proofs/release.md``, sections 3 and 4.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ...blocks.region import Region
from ...blocks.sensitivity import MomentWeights
from ...kernels.mixture import PIECE, Features, differences_block_rows
from ...kernels.whitened import POOLED_PIECE, pooled_tile_rows
from ...linalg import Array, U, gamma
from .model import Mixture

# Squared distances enter responsibilities up to here when differences are formed: exp(-700) is
# nothing, and rounding errors stay in proportion.
CAP = 1400.0
# Covers the roundings of the bounds themselves: sums of non-negative numbers.
_UP = 1 + 2.0**-30


def whitened_lengths(mixture: Mixture, region: Region) -> tuple[Array, Array]:
    """Largest norms of ``|W_k| |y|`` and ``|W_k| |m_k|``, entries without their signs; (K,)."""
    w, m = np.abs(mixture.whiteners), np.abs(mixture.means)
    limit, reach = region.limit, region.reach
    if w.ndim == 3:
        corner = np.linalg.norm(w @ limit, axis=1)
        # |W|_2 is at most the Frobenius norm, and the root of largest row times column sum.
        rows, columns = w.sum(axis=2).max(axis=1), w.sum(axis=1).max(axis=1)
        stretch = np.minimum(np.sqrt(np.sum(w * w, axis=(1, 2))), np.sqrt(rows * columns))
        at_mean = np.linalg.norm(np.einsum("kij,kj->ki", w, m), axis=1)
    else:
        corner, stretch = np.linalg.norm(w * limit, axis=1), w.max(axis=1)
        at_mean = np.linalg.norm(w * m, axis=1)
    return np.minimum(corner, stretch * reach) * _UP, at_mean * _UP


@dataclass(frozen=True)
class MixtureRounding:
    """Error of the sum over records of total weight one, in L2.

    Parameters
    ----------
    mixture : Mixture
        Under which responsibilities are computed, in unit coordinates.
    region : Region
        Where records are.
    weights : MomentWeights
        Weights and clipping radius.
    tiles : int
        Tiles in a block.
    """

    mixture: Mixture
    region: Region
    weights: MomentWeights
    tiles: int

    @cached_property
    def _lengths(self) -> tuple[Array, Array]:
        return whitened_lengths(self.mixture, self.region)

    @cached_property
    def far(self) -> float:
        """A: at least the norm of every ``|W_k| (|y| + |m_k|)``."""
        return float(np.max(np.add(*self._lengths)))

    def height(self, features: Features, coefficients: Array) -> float:
        """Largest sum of ``|c| |phi(y)|``, the terms of a log joint density without their signs."""
        c, d = np.abs(coefficients), self.region.d
        limit, reach = self.region.limit, self.region.reach
        linear = np.minimum(
            c[:, 1 : d + 1] @ limit, np.linalg.norm(c[:, 1 : d + 1], axis=1) * reach
        )
        match features.kind:
            case "full":
                p = np.abs(self.mixture.precisions)
                p = np.broadcast_to(p, (len(c), d, d))
                corner = np.einsum("kij,i,j->k", p, limit, limit)
                stretch = np.minimum(np.sqrt(np.sum(p * p, axis=(1, 2))), p.sum(axis=2).max(axis=1))
                quadratic = 0.5 * np.minimum(corner, stretch * reach**2)
            case "square":
                squares = c[:, d + 1 :]
                quadratic = np.minimum(squares @ limit**2, squares.max(axis=1) * reach**2)
            case _:
                quadratic = c[:, d + 1] * reach**2
        return float(np.max(c[:, 0] + linear + quadratic)) * _UP

    @cached_property
    def _constant(self) -> float:
        return float(np.max(np.abs(self.mixture.constants)))

    def by_differences(self) -> float:
        """u_k is formed. Section 3."""
        components, d = self.mixture.means.shape
        r, shift, q = self.weights.radius, gamma(d + 4) * self.far, 4 * CAP
        log_error = 0.5 * (gamma(d + 8) * q + 2 * math.sqrt(q) * shift + shift**2)
        log_error += 4 * U * self._constant
        moved = self._moved(shift + gamma(d + 16) * r)
        sums = gamma(differences_block_rows(d) + components + d + 32)
        return self._contribution(log_error, moved, sums)

    def by_products(self, features: Features, coefficients: Array, whitened: bool) -> float:
        """u_k is only implied. Section 4."""
        d = self.region.d
        height = self.height(features, coefficients) + self._constant
        # Evaluating the linear form; and its coefficients, which were computed from W and m.
        squares = d if features.kind == "norm" else 0
        y, m = self._lengths
        given = 0.5 * gamma(d + 4) * y**2 + gamma(2 * d + 4) * y * m
        given = given + 0.5 * gamma(3 * d + 8) * m**2
        log_error = gamma(features.depth + squares + 8) * height + float(np.max(given))
        sums = self._sums(features)
        if not whitened:
            moved = self._moved(gamma(d + 8) * self.region.reach)
            return self._contribution(log_error, moved, sums)
        return self._contribution(log_error, self._clipped(log_error), sums) + self._raw(sums)

    def pooled(self) -> float:
        """All share W: z = W y is formed, u_k = z - W m_k implied. Section 4, tied."""
        (components, d), far, w = self.mixture.means.shape, self.far, self.weights
        shift = gamma(d + 8) * far
        height = 0.5 * far**2 * (1 + gamma(4 * d))
        log_error = gamma(3 * d + 32) * height + far * shift + shift**2
        # F, by the logarithm of a sum; and by what is added to it where distances are capped.
        off = 2 * log_error + gamma(2 * components + 8192)
        off += (4 * log_error + gamma(2 * components + 64)) * w.radius**2
        moved = w.w1 * off / w.radius + w.w2 * off + self._moved(2 * shift)
        tiles = pooled_tile_rows(components, d) // POOLED_PIECE
        sums = gamma(POOLED_PIECE + self.tiles * tiles + components + 4 * d + 64)
        return self._contribution(log_error, moved, sums) + self._raw(sums)

    def _sums(self, features: Features) -> float:
        """Relative error of sums: a piece of a tile is one product; a block adds them up."""
        components, d = self.mixture.means.shape
        rows = features.tile_rows(components)
        pieces = self.tiles * math.ceil(rows / PIECE)
        # Counts are reduced over a whole tile: NumPy adds pairwise along the contiguous axis, in
        # runs of at most 128, so they err less than sums of a piece do.
        return gamma(min(rows, PIECE) + pieces + components + 4 * d + 64)

    def _raw(self, sums: float) -> float:
        """Rounding of raw sums is magnified by whitening them afterwards."""
        return 2 * sums * (self.weights.w1 * self.far + self.weights.w2 * self.far**2)

    def _moved(self, shift: float) -> float:
        """Change of ``(w1 s u, w2 s u u')`` if u is off by ``shift``: both maps do not expand."""
        w, r = self.weights, self.weights.radius
        return w.w1 * shift + w.w2 * (2 * r * shift + shift * shift)

    def _clipped(self, log_error: float) -> float:
        """The same if s comes from a squared distance that is off by ``2 log_error``."""
        w, r = self.weights, self.weights.radius
        off = 2 * log_error + gamma(32) * r**2
        return w.w1 * off / r + w.w2 * off

    def _contribution(self, log_error: float, moved: float, sums: float) -> float:
        """Error of one record's share in the sum.

        ``log_error`` bounds the error of each log joint density, ``moved`` that of each component's
        vector, ``sums`` the relative error of accumulation. Responsibilities are then off by a
        factor within exp(+-2 log_error) and the K + 32 roundings of a softmax.
        """
        if not log_error < 0.125:
            return math.inf  # far beyond anything a release could be priced with
        factor = math.expm1(2 * log_error) + 2 * gamma(len(self.mixture.means) + 32)
        size = math.sqrt(self.weights.bound)
        return factor * size + (1 + factor) * (moved + sums * (size + moved))
