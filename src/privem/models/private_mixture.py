"""The bounded statistics of a Gaussian mixture, for releases with noise.

Each component's records are measured in that component's own coordinates, whitened by parameters
that are already public: u_k = W_k (y - m_k), pulled onto a ball of radius r. The noise then shrinks
with the component. The ``joint`` frame measures all records from the region's centre instead.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..core import Block, Group, Scratch
from ..kernels.quadratic import Features
from ..kernels.whitened import by_differences, by_products, differences_block_rows
from ..linalg import smat, svec, symmetric_pairs
from ..tree import Array
from .gaussian_mixture import Mixture, MixtureQuery
from .region import Region
from .rounding import U, gamma
from .sensitivity import MomentWeights, apart, capped

__all__ = ["RECIPES", "BoundedQuery", "BoundedSums", "releases"]

# Which noise the counts, sums and second moments get when they are released apart (003, 004).
RECIPES = {
    "whitened": None,
    "joint": None,
    "ggg": ("gaussian", "gaussian", "gaussian"),
    "llg": ("laplace", "laplace", "gaussian"),
    "laplace": ("laplace", "laplace", "laplace"),
}

# Squared distances enter responsibilities up to here when differences are formed: exp(-700) is
# nothing, and rounding errors stay in proportion.
_CAP = 1400.0
# Tiles in a block.
_TILES = 8
# by_products is used where its error bound widens the sensitivity by less than this.
_WIDENING = 1e-3


@dataclass(frozen=True)
class BoundedSums:
    """Weighted sums ``w0 g``, ``w1 g u`` and ``w2 g u u'`` (shape by covariance type)."""

    count: Array
    total: Array
    second: Array


@dataclass(frozen=True)
class BoundedQuery:
    """Clipped statistics of each component, under a public mixture in unit coordinates.

    Parameters
    ----------
    mixture : Mixture
        Gives the responsibilities and, if ``whitened``, the coordinates.
    region : Region
        Where records are pulled to first.
    weights : MomentWeights
        Weights and clipping radius r.
    recipe : str
        A key of ``RECIPES``. ``"whitened"`` uses each component's own coordinates, all others the
        region's (then r is the region's reach).
    rows : float
        How many records there may be: decides, without data, which kernel is accurate enough.
    cap_weight : float
        The largest weight of a record; multiplies all sensitivities.
    """

    mixture: Mixture
    region: Region
    weights: MomentWeights
    recipe: str
    rows: float
    cap_weight: float = 1.0

    @property
    def whitened(self) -> bool:
        """Whether each component has coordinates of its own."""
        return self.recipe == "whitened"

    @cached_property
    def _kind(self) -> str:
        kinds = {"full": "full", "tied": "full", "diag": "square", "spherical": "norm"}
        return kinds[self.mixture.covariance_type]

    @cached_property
    def _features(self) -> Features:
        return Features(self._kind, self.mixture.means.shape[1])

    @cached_property
    def _evaluation(self) -> MixtureQuery:
        """The mixture's log-density as a linear function of the features, about zero."""
        m = self.mixture
        if m.covariance_type == "tied":
            copies = np.stack([m.covariances] * len(m.means))
            m = Mixture("full", m.weights, m.means, copies)
        return MixtureQuery(m, np.zeros(m.means.shape[1]))

    @cached_property
    def _whiteners(self) -> Array:
        """W_k as matrices (K, d, d)."""
        w = self.mixture.whiteners
        return w if w.ndim == 3 else np.stack([np.diag(row) for row in w])

    @cached_property
    def direct(self) -> bool:
        """Whether differences are formed: where products would err too much."""
        error = self._error_by_products() * self.rows
        return self.whitened and 2 * error > _WIDENING * math.sqrt(self.weights.bound)

    @property
    def block_rows(self) -> int:
        """Rows per call."""
        components, d = self.mixture.means.shape
        if self.direct:
            return differences_block_rows(d)
        return _TILES * self._features.tile_rows(components)

    def __call__(self, block: Block, scratch: Scratch) -> BoundedSums:
        """Sum a block."""
        y = self.region.to_unit(block.X, scratch)
        weight = capped(block.weight, self.cap_weight, len(y))
        count, total, second = (self._by_differences if self.direct else self._by_products)(
            y, weight, scratch
        )
        w = self.weights
        return BoundedSums(w.w0 * count, w.w1 * total, w.w2 * second)

    def _by_differences(
        self, y: Array, weight: Array | None, scratch: Scratch
    ) -> tuple[Array, Array, Array]:
        m = self.mixture
        count, total, second = by_differences(
            m.means, self._whiteners, m.constants, y, self.weights.radius, _CAP, weight, scratch
        )
        match m.covariance_type:
            case "full":
                return count, total, svec(second)
            case "tied":
                return count, total, svec(second.sum(axis=0))
            case "diag":
                return count, total, np.diagonal(second, axis1=1, axis2=2)
            case _:
                return count, total, np.trace(second, axis1=1, axis2=2)

    def _by_products(
        self, y: Array, weight: Array | None, scratch: Scratch
    ) -> tuple[Array, Array, Array]:
        query = self._evaluation
        radius = self.weights.radius if self.whitened else math.inf
        count, first, second = by_products(
            self._features, query.coefficients, query.mixture.constants, y, radius, weight, scratch
        )
        d = y.shape[1]
        means = self.mixture.means if self.whitened else np.zeros_like(self.mixture.means)
        w = self.mixture.whiteners if self.whitened else None
        total = first[:, 1:] - first[:, :1] * means
        zeroth, linear, quadratic = second[:, 0], second[:, 1 : d + 1], second[:, d + 1 :]
        if self._kind == "full":
            i, j = symmetric_pairs(d)
            packed = quadratic * np.where(i == j, 1.0, np.sqrt(2.0))
            cross = np.einsum("ki,kj->kij", linear, means)
            outer = np.einsum("k,ki,kj->kij", zeroth, means, means)
            matrix = smat(packed, d) - cross - np.swapaxes(cross, 1, 2) + outer
            if w is not None:
                total = np.einsum("kij,kj->ki", w, total)
                matrix = w @ matrix @ np.swapaxes(w, 1, 2)
            if self.mixture.covariance_type == "tied":
                return count, total, svec(matrix.sum(axis=0))
            return count, total, svec(matrix)
        if self._kind == "square":
            squares = quadratic - 2 * linear * means + zeroth[:, None] * means**2
            if w is not None:
                total, squares = w * total, w**2 * squares
            return count, total, squares
        norms = quadratic[:, 0] - 2 * np.sum(linear * means, axis=1)
        norms = norms + zeroth * np.sum(means**2, axis=1)
        if w is not None:
            total, norms = w * total, w[:, 0] ** 2 * norms
        return count, total, norms

    def groups(self, neighbours: str) -> list[Group]:
        """All numbers together, or apart; see :mod:`privem.models.sensitivity`."""
        components, d = self.mixture.means.shape
        shape, w = self.mixture.covariance_type, self.weights
        parts = releases(self.recipe, shape, components, d)
        if RECIPES[self.recipe] is None:
            bound = w.l2(neighbours) * self.cap_weight
            return [Group("moments", slice(0, parts[0][1]), bound)]
        found, at = [], 0
        for index, (kind, size) in enumerate(parts):
            part = "count" if index == 0 else "total" if index <= components else "second"
            weight = {"count": w.w0, "total": w.w1, "second": w.w2}[part]
            bound = apart(part, kind, shape, neighbours, d, w.radius) * weight * self.cap_weight
            found.append(Group(f"{part} {index}", slice(at, at + size), bound, kind))
            at += size
        return found

    def rounding(self, rows: float) -> float:
        """Bound on the floating-point error of the sum over records of total weight ``rows``."""
        one = self._error_by_differences() if self.direct else self._error_by_products()
        return rows * one

    @cached_property
    def _spread(self) -> tuple[float, float]:
        """Largest |W_k| (Frobenius) and largest distance of a record in the region to a mean."""
        norm = float(np.max(np.sqrt(np.sum(self._whiteners**2, axis=(1, 2)))))
        away = self.region.reach + float(np.max(np.linalg.norm(self.mixture.means, axis=1)))
        return norm, away

    def _contribution(self, log_error: float, shift: float, sums: float) -> float:
        """Error of one record's share in the sum.

        ``log_error`` bounds the error of each log joint density, ``shift`` that of each u_k,
        ``sums`` the relative error of accumulation. Responsibilities are then off by a factor
        within exp(+-2 log_error) and the K + 32 roundings of a softmax.
        """
        w, r = self.weights, self.weights.radius
        if not log_error < 0.125:
            return math.inf  # far beyond anything a release could be priced with
        factor = math.expm1(2 * log_error) + 2 * gamma(len(self.mixture.means) + 32)
        moved = w.w1 * shift + w.w2 * (2 * r * shift + shift * shift)
        size = math.sqrt(w.bound)
        return factor * size + (1 + factor) * (moved + sums * (size + moved))

    def _error_by_differences(self) -> float:
        """Per record, u_k formed explicitly. Proof: docs/proofs/release.md, section 3."""
        components, d = self.mixture.means.shape
        norm, away = self._spread
        shift = gamma(d + 4) * norm * away
        q = 4 * _CAP
        log_error = 0.5 * (gamma(d + 8) * q + 2 * math.sqrt(q) * shift + shift**2)
        log_error += 4 * U * float(np.max(np.abs(self.mixture.constants)))
        clipped = shift + gamma(d + 16) * self.weights.radius
        sums = gamma(differences_block_rows(d) + components + d + 32)
        return self._contribution(log_error, clipped, sums)

    def _error_by_products(self) -> float:
        """Per record, u_k only implied. Proof: docs/proofs/release.md, section 4."""
        query = self._evaluation
        components, d = self.mixture.means.shape
        p = self._features.size
        reach, limit = self.region.reach, self.region.limit
        i, j = symmetric_pairs(d)
        products = {"full": limit[i] * limit[j], "square": limit**2, "norm": [reach**2]}[self._kind]
        largest = np.abs(query.coefficients) @ np.concatenate([[1.0], limit, products])
        height = float(np.max(largest)) + float(np.max(np.abs(query.mixture.constants)))
        norm, away = self._spread
        far = norm * away
        # Evaluating the linear form; and its coefficients, which were computed from W and m.
        log_error = gamma(p + 4 * d + 24) * height + gamma(4 * d + 24) * far**2
        # A tile is one product; a block adds up its tiles.
        tile = self._features.tile_rows(components)
        sums = gamma(tile + _TILES + components + 4 * d + 64)
        if not self.whitened:
            return self._contribution(log_error, gamma(d + 8) * reach, sums)
        w, r = self.weights, self.weights.radius
        # The clip is decided by a squared distance off by 2 log_error, only where it exceeds r^2.
        shift = log_error / r + gamma(16) * r
        # Rounding of raw sums is magnified by whitening them afterwards.
        return self._contribution(log_error, shift, sums) + 2 * sums * (w.w1 * far + w.w2 * far**2)


def releases(recipe: str, covariance_type: str, components: int, d: int) -> list[tuple[str, int]]:
    """Kind of noise and number of numbers of each group that one iteration releases."""
    p = d * (d + 1) // 2
    size = {"full": p, "tied": p, "diag": d, "spherical": 1}[covariance_type]
    seconds = 1 if covariance_type == "tied" else components
    kinds = RECIPES[recipe]
    if kinds is None:
        return [("gaussian", components * (1 + d) + seconds * size)]
    counts, totals, second = kinds
    return [(counts, components), *[(totals, d)] * components, *[(second, size)] * seconds]
