"""The bounded statistics of k-means.

A record goes to its nearest public centre c_k and is measured from there in units of a public
spread s: ``u = (y - c_k) / s``, pulled onto the ball of radius r. Released together: per cluster
``w0`` and ``w1 u``, and over all of them ``w2 |u|^2``, which tells the next spread.

Sensitivity: the vector of one record is (w0 e_k, w1 e_k u, w2 |u|^2), squared norm at most
B = w0^2 + w1^2 r^2 + w2^2 r^4. Two records' vectors have inner product [k = k'] (w0^2 + w1^2 <u,
u'>) + w2^2 |u|^2 |u'|^2 >= min(0, min h) with h of :mod:`privem.blocks.sensitivity`, as |u|^2
|u'|^2 >= <u, u'>^2. So the bounds derived there hold.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ...blocks import conditions
from ...blocks.region import Region
from ...blocks.sensitivity import MomentWeights, apart, capped, check_bounded, groups_apart
from ...core import Block, Group, Scratch
from ...kernels.compiled import NearestPass, available
from ...kernels.nearest import (
    nearest_block_rows,
    nearest_centre,
    piece_rows,
    sums_block_rows,
)
from ...linalg import Array, gamma, short_buffers

# Recipes by name, and the kind of their noise.
KMEANS_RECIPES = {
    "whitened": "gaussian",
    "joint": "gaussian",
    "gg": "gaussian",
    "ll": "laplace",
    "dplloyd": "laplace",
}


@dataclass(frozen=True)
class BoundedClusterSums:
    """Weighted counts (K,), sums (K, d), and (unless released apart) the pooled square."""

    count: Array
    total: Array
    square: Array | None


def cluster_releases(recipe: str, components: int, d: int) -> list[tuple[str, int]]:
    """Kind of noise and number of numbers of each group that one iteration releases."""
    match recipe:
        case "whitened":
            return [("gaussian", components * (1 + d) + 1)]
        case "joint":
            return [("gaussian", components * (1 + d))]
        case "gg":
            return [("gaussian", components), *[("gaussian", d)] * components]
        case "ll":
            return [("laplace", components), *[("laplace", d)] * components]
        case "dplloyd":
            return [("laplace", components * (1 + d))]
    raise ValueError(f"unknown recipe {recipe!r}")


def whitened_weights(d: int, r: float) -> MomentWeights:
    """Counts and sums share the noise; the one square needs little."""
    w0, w1 = math.sqrt(0.35), math.sqrt(0.60) / r
    return MomentWeights(w0, w1, max(math.sqrt(0.05) / r**2, w1**2 / (2 * w0) * (1 + 1e-9)), r)


@dataclass(frozen=True)
class BoundedClusterQuery:
    """Counts and sums of the records nearest to each public centre, in unit coordinates.

    ``"whitened"``: as described above. ``"joint"``: one group, measured from the region's centre.
    ``"gg"`` and ``"ll"``: counts and each cluster's sum apart, Gaussian or Laplace (Park et al.
    2016). ``"dplloyd"``: counts and sums with Laplace noise of one L1 sensitivity (Blum et al.
    2005).
    """

    centres: Array
    region: Region
    weights: MomentWeights
    spread: float
    recipe: str
    cap_weight: float = 1.0
    travels = ("centres", "region", "weights", "spread", "recipe", "cap_weight")

    @property
    def block_rows(self) -> int:
        """Rows per call."""
        return sums_block_rows(self.region.d, len(self.centres))

    @cached_property
    def local(self) -> bool:
        """Whether records are measured from their centre."""
        return self.recipe == "whitened"

    @cached_property
    def step(self) -> float:
        """Lattice of coordinates and centres on which scores are exact.

        Which centre is nearest must not depend on rounding, and so on where in a block a record
        stands: it would be a jump that no bound covers. With q fractional bits, products have 2 q
        and a score, at most 2 d in size, fits 53 bits: every order of summation gives the same
        number. Proof: docs/proofs/release.md, section 5.
        """
        return float(2.0 ** -((51 - math.ceil(math.log2(2 * self.region.d))) // 2))

    @cached_property
    def lattice_centres(self) -> Array:
        """Centres on the lattice."""
        inside = self.region.inside(self.centres)
        return np.asarray(np.rint(inside / self.step) * self.step)

    @cached_property
    def _compiled(self) -> NearestPass | None:
        if not available():
            return None
        region, spread = self.region, self.spread if self.local else 0.0
        sides = (1.0 / region.scale, -region.limit, region.limit)
        unit = (*sides, region.ball, self.step, spread, self.weights.radius)
        return NearestPass(region.centre, self.lattice_centres, unit)

    def __call__(self, block: Block, scratch: Scratch) -> BoundedClusterSums:
        """Sum a block."""
        weight, w = capped(block.weight, self.cap_weight, len(block.X)), self.weights
        found = self._compiled and self._compiled(block.X, weight, scratch)
        if not found:
            found = self._by_pieces(block.X, weight, scratch)
        count, total, square = found
        released = np.asarray([w.w2 * square]) if self.local else None
        return BoundedClusterSums(w.w0 * count, w.w1 * total, released)

    def _by_pieces(
        self, rows: Array, weight: Array | None, scratch: Scratch
    ) -> tuple[Array, Array, float]:
        k, d = self.centres.shape
        size = piece_rows(d, k)
        count, total, square = np.zeros(k), np.zeros((k, d)), 0.0
        for start in range(0, len(rows), size):
            x = self.region.to_unit(rows[start : start + size], scratch).T
            here = None if weight is None else weight[start : start + size]
            with short_buffers():
                piece = self._sums(x, here, scratch)
            count += piece[0]
            total += piece[1]
            square += piece[2]
        return count, total, square

    def _sums(self, x: Array, weight: Array | None, scratch: Scratch) -> tuple[Array, Array, float]:
        step, centres = self.step, self.lattice_centres
        x *= 1.0 / step
        np.trunc(x, out=x)  # towards the centre, so that no record leaves the region
        x *= step
        label, distance = nearest_centre(x, centres, scratch)
        member = scratch.take("member", (len(centres), len(label)))
        np.equal(np.arange(len(centres))[:, None], label, out=member, casting="unsafe")
        if weight is not None:
            member *= weight
        count = member.sum(axis=1)
        if not self.local:
            return count, np.dot(member, x.T), 0.0
        # x - c, and its squared length, are exact: see step.
        x -= np.take(centres.T, label, axis=1, out=scratch.take("centre", x.shape), mode="clip")
        reach = self.spread * self.weights.radius
        beyond = np.maximum(np.sqrt(distance) / reach, 1.0)
        x *= np.divide(1.0 / self.spread, beyond, out=beyond)
        square = np.minimum(distance, reach**2) / self.spread**2
        total = square.sum() if weight is None else np.dot(square, weight)
        return count, np.dot(member, x.T), float(total)

    def groups(self, neighbours: str) -> list[Group]:
        """Sensitivities: above for one group; apart as in :mod:`privem.blocks.sensitivity`."""
        k, d = self.centres.shape
        w, cap = self.weights, self.cap_weight
        parts = cluster_releases(self.recipe, k, d)
        if self.recipe in ("whitened", "joint"):
            return [Group("clusters", slice(0, parts[0][1]), w.l2(neighbours) * cap)]
        if self.recipe == "dplloyd":
            # A record adds one count and one sum; replaced, it may take both from another cluster.
            one = w.w0 + w.w1 * apart("total", "laplace", "full", "add-remove", d, w.radius)
            twice = 2.0 if neighbours == "replace-one" else 1.0
            return [Group("clusters", slice(0, parts[0][1]), one * twice * cap, "laplace")]
        return groups_apart(parts, k, w, cap, "full", neighbours, d)

    def rounding(self, rows: float) -> float:
        """Bound on the floating-point error of the sum over ``rows`` records.

        Labels are exact (see ``step``); what is left are the roundings of u and of the sums. These
        are made in pieces, so that no number passes through more than ``nearest_block_rows``
        additions in a block, compiled or not (docs/proofs/release.md, section 5).
        """
        w, r = self.weights, self.weights.radius
        shift = gamma(self.region.d + 16) * r
        moved = w.w1 * shift + w.w2 * (2 * r * shift + shift**2)
        depth = nearest_block_rows(self.region.d, len(self.centres))
        sums = gamma(depth + 64) * (math.sqrt(w.bound) + moved)
        return rows * (moved + sums)

    def check(self, d: int, private: bool) -> None:
        """Exact labels rest on coordinates within [-1, 1] (docs/proofs/release.md, section 5)."""
        conditions.table(self.centres, d)
        conditions.ordinary(self.spread)
        conditions.need(self.recipe in ("whitened", "joint", "gg", "ll", "dplloyd"))
        check_bounded(self.region, self.weights, self.cap_weight, d, not self.local)
        conditions.need((self.region.limit <= 1).all())
        k = len(self.centres)
        conditions.held(k, nearest_block_rows(d, k), k * (2 + d))
