"""The bounded statistics of k-means.

A record goes to its nearest public centre c_k and is measured from there in units of a public
spread s: ``u = (y - c_k) / s``, pulled onto the ball of radius r. Released together: per cluster
``w0`` and ``w1 u``, and over all of them ``w2 |u|^2``, which tells the next spread.

Sensitivity: the vector of one record is (w0 e_k, w1 e_k u, w2 |u|^2), squared norm at most
B = w0^2 + w1^2 r^2 + w2^2 r^4. Two records' vectors have inner product [k = k'] (w0^2 + w1^2 <u,
u'>) + w2^2 |u|^2 |u'|^2 >= min(0, min h) with h of :mod:`privem.models.sensitivity`, as |u|^2
|u'|^2 >= <u, u'>^2. So the bounds derived there hold.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..core import Block, Group, Scratch
from ..kernels.nearest import nearest, nearest_block_rows
from ..tree import Array
from .region import Region
from .rounding import gamma
from .sensitivity import MomentWeights, apart, capped

__all__ = ["BoundedClusterQuery", "BoundedClusterSums", "cluster_releases"]


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


@dataclass(frozen=True)
class BoundedClusterQuery:
    """Counts and sums of the records nearest to each public centre, in unit coordinates.

    ``"whitened"``: as described above. ``"joint"``: one group, measured from the region's centre.
    ``"gg"`` and ``"ll"``: counts and each cluster's sum apart, Gaussian or Laplace (003).
    ``"dplloyd"``: counts and sums with Laplace noise of one L1 sensitivity (the baseline of 004).
    """

    centres: Array
    region: Region
    weights: MomentWeights
    spread: float
    recipe: str
    cap_weight: float = 1.0

    @property
    def block_rows(self) -> int:
        """Rows per call."""
        return nearest_block_rows(self.region.d, len(self.centres))

    @cached_property
    def local(self) -> bool:
        """Whether records are measured from their centre."""
        return self.recipe == "whitened"

    @cached_property
    def _step(self) -> float:
        """Lattice of coordinates and centres on which scores are exact.

        Which centre is nearest must not depend on rounding, and so on where in a block a record
        stands: it would be a jump that no bound covers. With q fractional bits, products have 2 q
        and a score, at most 2 d in size, fits 53 bits: every order of summation gives the same
        number. Proof: docs/proofs/release.md, section 5.
        """
        return float(2.0 ** -((51 - math.ceil(math.log2(2 * self.region.d))) // 2))

    @cached_property
    def _lattice_centres(self) -> Array:
        inside = self.region.inside(self.centres)
        return np.asarray(np.rint(inside / self._step) * self._step)

    def __call__(self, block: Block, scratch: Scratch) -> BoundedClusterSums:
        """Sum a block."""
        y = self.region.to_unit(block.X, scratch)
        k, d = self.centres.shape
        step = self._step
        y *= 1.0 / step
        np.trunc(y, out=y)  # towards the centre, so that no record leaves the region
        y *= step
        x, label, _ = nearest(y, np.zeros(d), self._lattice_centres, scratch)
        member = scratch.take("member", (k, len(label)))
        np.equal(np.arange(k)[:, None], label, out=member, casting="unsafe")
        square = None
        u = x
        if self.local:
            u = (x - self._lattice_centres[label].T) / self.spread
            norm = np.sqrt(np.einsum("ij,ij->j", u, u))
            u /= np.maximum(norm / self.weights.radius, 1.0)
        weight = capped(block.weight, self.cap_weight, len(label))
        if weight is not None:
            member *= weight
        w = self.weights
        if self.local:
            total_weight = member.sum(axis=0)
            square = np.asarray([w.w2 * float(np.einsum("ij,ij->j", u, u) @ total_weight)])
        return BoundedClusterSums(w.w0 * member.sum(axis=1), w.w1 * (member @ u.T), square)

    def groups(self, neighbours: str) -> list[Group]:
        """Sensitivities: above for one group; apart as in :mod:`privem.models.sensitivity`."""
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
        found, at = [], 0
        for index, (kind, size) in enumerate(parts):
            part = "total" if index else "count"
            weight = w.w1 if index else w.w0
            bound = apart(part, kind, "full", neighbours, d, w.radius) * weight * cap
            found.append(Group(f"{part} {index}", slice(at, at + size), bound, kind))
            at += size
        return found

    def rounding(self, rows: float) -> float:
        """Bound on the floating-point error of the sum over ``rows`` records.

        Labels are exact (see ``_step``); what is left are the roundings of u and of the sums.
        """
        w, r = self.weights, self.weights.radius
        shift = gamma(self.region.d + 16) * r
        moved = w.w1 * shift + w.w2 * (2 * r * shift + shift**2)
        sums = gamma(self.block_rows + 64) * (math.sqrt(w.bound) + moved)
        return rows * (moved + sums)
