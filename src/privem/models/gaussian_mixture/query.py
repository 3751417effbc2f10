"""The bounded statistics of a Gaussian mixture, for releases with noise.

Each component's records are measured in that component's own coordinates, whitened by parameters
that are already public: u_k = W_k (y - m_k). Beyond a radius r they count less: with s = min(1,
(r / |u_k|)^2), what is summed is s u_k, at most r, and s u_k u_k', at most r^2. The noise then
shrinks with the component. Where all components share a covariance, one s per record serves all of
them (:mod:`privem.kernels.whitened`). The ``joint`` frame measures all records from the region's
centre instead.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ...blocks import conditions
from ...blocks.region import Region
from ...blocks.sensitivity import MomentWeights, capped, check_bounded, groups_apart
from ...blocks.shrinkage import clip_radius
from ...core import Block, Group, Scratch
from ...kernels.mixture import Place, by_products, differences_block_rows
from ...kernels.whitened import by_differences, pooled_sums, pooled_tile_rows
from ...linalg import Array, smat, svec, symmetric_scale, whiten
from .model import Mixture, MixtureQuery, direct_is_faster, most_sums
from .rounding import CAP, MixtureRounding

# Which noise the counts, sums and second moments get when they are released apart (Park et al.).
RECIPES: dict[str, tuple[str, str, str] | None] = {
    "whitened": None,
    "joint": None,
    "ggg": ("gaussian", "gaussian", "gaussian"),
    "llg": ("laplace", "laplace", "gaussian"),
    "laplace": ("laplace", "laplace", "laplace"),
}

# Tiles in a block.
TILES = 16
# Differences are formed where products would widen the sensitivity by more than this.
_WIDENING = 1e-3
# Or to clip less, below so many records: noise leaves them less room.
_MANY = 3e5
# The tail beyond EM's clip radius; see clip_radius.
TAIL = 1.2


@dataclass(frozen=True)
class BoundedSums:
    """Weighted sums ``w0 g``, ``w1 g s u`` and ``w2 g s u u'`` (shape by covariance type).

    The last is empty where it was not asked for: tied and whitened, with w2 = 0.
    """

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
    travels = ("mixture", "region", "weights", "recipe", "rows", "cap_weight")

    @property
    def whitened(self) -> bool:
        """Whether each component has coordinates of its own."""
        return self.recipe == "whitened"

    @property
    def _pooled(self) -> bool:
        """A common whitener: records are whitened once, components differ in their means only."""
        return self.whitened and self.mixture.covariance_type == "tied"

    @property
    def _roomy(self) -> float:
        components, d = self.mixture.means.shape
        return math.hypot(clip_radius(d, TAIL), math.sqrt(2 * math.log(components))) * (1 - 1e-9)

    @property
    def shared(self) -> bool:
        """Whether records have one factor s each instead of one per component."""
        return self._pooled and not self.direct

    @property
    def wants_second(self) -> bool:
        """Whether second moments are released. Not to ask for them makes the rest sharper."""
        return not self._pooled or self.weights.w2 > 0

    @cached_property
    def evaluation(self) -> MixtureQuery:
        """The mixture's log-density as a linear function of the features, about zero."""
        m = self.mixture
        k, d = m.means.shape
        if m.covariance_type == "tied":
            m = Mixture("full", m.weights, m.means, np.stack([m.covariances] * k))
        return MixtureQuery(m, np.zeros(d))

    @cached_property
    def errors(self) -> MixtureRounding:
        """Bounds on floating-point errors."""
        return MixtureRounding(self.mixture, self.region, self.weights, TILES)

    @cached_property
    def _error_by_products(self) -> float:
        if self._pooled:
            return self.errors.pooled()
        query = self.evaluation
        return self.errors.by_products(query.features, query.coefficients, self.whitened)

    @cached_property
    def direct(self) -> bool:
        """Whether differences are formed: where products would err too much, or take longer.

        Also where few records share a covariance and a clip radius without room: one factor per
        record takes 2 log(1 / p_k) off its square, and would clip more than it need.
        """
        widening = 2 * self._error_by_products * self.rows / math.sqrt(self.weights.bound)
        if not self.whitened or widening > _WIDENING or direct_is_faster(self.mixture):
            return self.whitened
        return self._pooled and self.rows < _MANY and self.weights.radius < self._roomy

    @property
    def block_rows(self) -> int:
        """Rows per call."""
        components, d = self.mixture.means.shape
        if self.direct:
            return differences_block_rows(d)
        if self._pooled:
            return TILES * pooled_tile_rows(components, d)
        return TILES * self.evaluation.features.tile_rows(components)

    def __call__(self, block: Block, scratch: Scratch) -> BoundedSums:
        """Sum a block."""
        weight = capped(block.weight, self.cap_weight, len(block.X))
        way = self._by_products
        if self.direct:
            way = self._by_differences
        elif self.shared:
            way = self._by_pooling
        return self.of_sums(*way(block.X, weight, scratch))

    def of_sums(self, count: Array, total: Array, second: Array) -> BoundedSums:
        """The statistic, from sums of g, g s u and g s u u'."""
        w = self.weights
        second = w.w2 * second if self.wants_second else np.empty(0)
        return BoundedSums(w.w0 * count, w.w1 * total, second)

    def _place(self, scratch: Scratch) -> Place:
        """Records in unit coordinates, clipped; whitened too where all components share that."""

        def place(rows: Array, out: Array) -> None:
            self.region.place(rows, out, scratch)
            if self.shared:
                whiten(self.mixture.whiteners[0], out)

        return place

    @property
    def kind(self) -> str:
        """Of second moments, where differences are formed."""
        return {"diag": "square", "spherical": "norm"}.get(self.mixture.covariance_type, "full")

    def _by_differences(
        self, rows: Array, weight: Array | None, scratch: Scratch
    ) -> tuple[Array, Array, Array]:
        m = self.mixture
        found = by_differences(
            m.means,
            m.whiteners,
            m.constants,
            rows,
            self._place(scratch),
            self.weights.radius,
            CAP,
            weight,
            self.kind,
            scratch,
        )
        return self.of_differences(*found)

    def of_differences(
        self, count: Array, total: Array, second: Array
    ) -> tuple[Array, Array, Array]:
        """Sums as they are released, from those that differences give."""
        match self.mixture.covariance_type:
            case "full":
                return count, total, svec(second)
            case "tied":
                return count, total, svec(second.sum(axis=0))
            case _:
                return count, total, second

    def _by_pooling(
        self, rows: Array, weight: Array | None, scratch: Scratch
    ) -> tuple[Array, Array, Array]:
        found = pooled_sums(
            *self.spheres,
            self.errors.far,
            rows,
            self._place(scratch),
            self.weights.radius,
            weight,
            self.wants_second,
            scratch,
        )
        return self.of_pool(*found)

    @property
    def spheres(self) -> tuple[Array, Array]:
        """Means and weights of the components in whitened coordinates, where they are spheres."""
        m = self.mixture
        weights = m.weights / m.weights.max()
        return m.means @ m.whiteners[0].T, weights / weights.sum()

    def of_pool(self, count: Array, sums: Array, pooled: Array) -> tuple[Array, Array, Array]:
        """Sums as they are released, from those about the origin of whitened coordinates."""
        means = self.spheres[0]
        zeroth, linear = sums[:, :1], sums[:, 1:]
        total = linear - zeroth * means
        if not self.wants_second:
            return count, total, pooled
        cross = linear.T @ means
        return count, total, svec(pooled - cross - cross.T + (zeroth * means).T @ means)

    def _by_products(
        self, rows: Array, weight: Array | None, scratch: Scratch
    ) -> tuple[Array, Array, Array]:
        query = self.evaluation
        count, sums = by_products(
            query.features,
            query.coefficients,
            query.mixture.constants,
            rows,
            self._place(scratch),
            self.radius,
            weight,
            scratch,
        )
        return self.of_products(count, sums)

    @property
    def radius(self) -> float:
        """Beyond which records count less."""
        return self.weights.radius if self.whitened else math.inf

    def of_products(self, count: Array, sums: Array) -> tuple[Array, Array, Array]:
        """Sums as they are released, from those of the features."""
        query, d = self.evaluation, self.region.d
        zeroth, linear, quadratic = sums[:, :1], sums[:, 1 : d + 1], sums[:, d + 1 :]
        means = query.mixture.means if self.whitened else np.zeros_like(linear)
        total = linear - zeroth * means
        w = self.mixture.whiteners if self.whitened else None
        match query.features.kind:
            case "full":
                matrix = smat(quadratic * symmetric_scale(d), d)
                cross = linear[:, :, None] * means[:, None, :]
                matrix -= cross
                matrix -= np.swapaxes(cross, 1, 2)
                matrix += (zeroth * means)[:, :, None] * means[:, None, :]
                if w is not None:
                    total = (w @ total[:, :, None])[:, :, 0]
                    matrix = w @ matrix @ np.swapaxes(w, 1, 2)
                if self.mixture.covariance_type == "tied":
                    matrix = matrix.sum(axis=0)
                return count, total, svec(matrix)
            case "square":
                second = quadratic - 2 * linear * means + zeroth * means**2
                if w is not None:
                    total, second = w * total, w**2 * second
                return count, total, second
            case _:
                second = quadratic[:, 0] - 2 * np.sum(linear * means, axis=1)
                second = second + zeroth[:, 0] * np.sum(means**2, axis=1)
                if w is not None:
                    total, second = w * total, w[:, 0] ** 2 * second
                return count, total, second

    def groups(self, neighbours: str) -> list[Group]:
        """All numbers together, or apart; see :mod:`privem.blocks.sensitivity`."""
        components, d = self.mixture.means.shape
        shape, w = self.mixture.covariance_type, self.weights
        parts = releases(self.recipe, shape, components, d, self.wants_second)
        if RECIPES[self.recipe] is None:
            bound = w.l2(neighbours, shared=self._pooled) * self.cap_weight
            return [Group("moments", slice(0, parts[0][1]), bound)]
        return groups_apart(parts, components, w, self.cap_weight, shape, neighbours, d)

    def rounding(self, rows: float) -> float:
        """Bound on the floating-point error of the sum over records of total weight ``rows``."""
        one = self.errors.by_differences() if self.direct else self._error_by_products
        return rows * one

    def check(self, d: int, private: bool) -> None:
        """A valid mixture, a known recipe, and a radius that covers what it is for."""
        self.mixture.check(d)
        conditions.need(self.recipe in RECIPES)
        check_bounded(self.region, self.weights, self.cap_weight, d, not self.whitened)
        conditions.need(0.0 <= self.rows < math.inf)
        k = len(self.mixture.means)
        conditions.held(k, self.block_rows, most_sums(k, d, self.mixture.covariance_type))


def releases(
    recipe: str, covariance_type: str, components: int, d: int, second: bool = True
) -> list[tuple[str, int]]:
    """Kind of noise and number of numbers of each group that one iteration releases."""
    p = d * (d + 1) // 2
    size = {"full": p, "tied": p, "diag": d, "spherical": 1}[covariance_type]
    seconds = (1 if covariance_type == "tied" else components) if second else 0
    kinds = RECIPES[recipe]
    if kinds is None:
        return [("gaussian", components * (1 + d) + seconds * size)]
    counts, totals, squares = kinds
    return [(counts, components), *[(totals, d)] * components, *[(squares, size)] * seconds]
