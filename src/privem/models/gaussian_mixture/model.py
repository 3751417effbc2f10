"""Mixtures of Gaussians: expected counts, sums and second moments per component.

Symbols, with K components, d features and p packed entries of a symmetric matrix:

==================  ===========================  =============================================
``covariance_type``  ``covariances``              ``Statistics.second``, about the query's origins
==================  ===========================  =============================================
full                (K, d, d)                    (K, p) packed ``sum g x x'``
tied                (d, d)                       (p,) packed, pooled over components
diag                (K, d)                       (K, d) ``sum g x^2``
spherical           (K,)                         (K,) ``sum g |x|^2``
==================  ===========================  =============================================
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ...blocks import conditions
from ...blocks.region import Background, farthest
from ...core import Block, Scratch
from ...kernels.mixture import Features, differences_block_rows, log_joint, responsibility_sums
from ...kernels.nearest import nearest
from ...kernels.whitened import exact_log_joint, exact_sums
from ...linalg import (
    Array,
    invert_cholesky,
    svec,
    symmetric_entries,
    symmetric_pairs,
    symmetric_scale,
)

COVARIANCE_TYPES = ("full", "tied", "diag", "spherical")
_KIND = {"full": "full", "tied": "linear", "diag": "square", "spherical": "norm"}

# Quadratic features about one origin lose this much of the rounding unit: (distance / sd)^2. Past
# the limit the direct kernel is used, so that results keep about eleven digits.
CONDITION_LIMIT = 1e5


def direct_is_faster(mixture: Mixture) -> bool:
    """Many features and few components: making the products costs more than it saves.

    Nanoseconds per record, measured on one core (``make bench`` shows both sides of the border).
    """
    if mixture.covariance_type != "full":
        return False
    k, d = mixture.means.shape
    products = d * (d + 1) / 2
    by_products = products * (0.085 * k + (0.9 if products > 512 else 0.65))
    return bool(k * (0.045 * d**2 + 2.3 * d + 15) < by_products)


@dataclass(frozen=True)
class Mixture:
    """Parameters of a mixture; always valid: positive weights, positive definite covariances.

    Weights are shares of what a background, if there is one, leaves to the components.
    """

    covariance_type: str
    weights: Array
    means: Array
    covariances: Array
    background: Background | None = None
    travels = ("covariance_type", "weights", "means", "covariances", "background")

    @cached_property
    def whiteners(self) -> Array:
        """W_k with |W_k (x - mean_k)| the Mahalanobis distance: (K, d, d), or (K, d) if diagonal.

        Scikit-learn's ``precisions_cholesky_`` is its transpose.
        """
        components, d = self.means.shape
        match self.covariance_type:
            case "full":
                return invert_cholesky(self.covariances)
            case "tied":
                return np.broadcast_to(invert_cholesky(self.covariances), (components, d, d))
            case "diag":
                return np.asarray(1.0 / np.sqrt(self.covariances))
            case _:
                scales = 1.0 / np.sqrt(self.covariances)
                return np.broadcast_to(scales[:, None], (components, d))

    @cached_property
    def precisions(self) -> Array:
        """Inverse covariances: (K, d, d), or (K, d) if diagonal."""
        w = self.whiteners
        return np.asarray(np.swapaxes(w, 1, 2) @ w if w.ndim == 3 else w**2)

    @property
    def deviations(self) -> Array:
        """Standard deviation of each feature in each component, (K, d)."""
        c = self.covariances
        match self.covariance_type:
            case "full" | "tied":
                c = np.diagonal(c, axis1=-2, axis2=-1)
            case "spherical":
                c = c[:, None]
        return np.broadcast_to(np.sqrt(c), self.means.shape)

    @property
    def n_parameters(self) -> int:
        """How many numbers are free, without a background."""
        k, d = self.means.shape
        pairs = d * (d + 1) // 2
        shape = {"full": k * pairs, "tied": pairs, "diag": k * d, "spherical": k}
        return int(shape[self.covariance_type] + d * k + k - 1)

    @cached_property
    def log_determinants(self) -> Array:
        """Log |W_k|, that is half the log-determinant of each precision matrix."""
        w = self.whiteners
        return np.asarray(np.log(np.diagonal(w, axis1=1, axis2=2) if w.ndim == 3 else w).sum(1))

    @cached_property
    def constants(self) -> Array:
        """Log joint density of each component at its own mean."""
        d = self.means.shape[1]
        log_weights = np.log(self.weights)
        if self.background is not None:
            log_weights = log_weights + self.background.log_rest
        return np.asarray(log_weights + self.log_determinants - 0.5 * d * np.log(2 * np.pi))

    def condition(self, origin: Array, variances: Array) -> float:
        """Largest (distance to the origin / sd)^2 over components and typical records.

        To be exact: the terms of (x - origin)' P_k (x - origin) added without their signs, which
        is what their rounding is in proportion to, in whatever units the columns are.
        """
        far = np.abs(self.means - origin) + np.sqrt(variances)
        size = np.abs(self.precisions)
        terms = "ki,kij,kj->k" if size.ndim == 3 else "ki,ki,ki->k"
        with np.errstate(over="ignore"):
            return float(np.max(np.einsum(terms, far, size, far)))

    def check(self, d: int, background: bool = False) -> None:
        """Valid parameters of components among rows of d columns; whether one may be uniform."""
        if self.background is not None:
            conditions.need(background)
            self.background.check(d)
        conditions.need(self.covariance_type in COVARIANCE_TYPES)
        conditions.table(self.means, d)
        k = len(self.means)
        conditions.shaped((k,), self.weights)
        shapes = {"full": (k, d, d), "tied": (d, d), "diag": (k, d), "spherical": (k,)}
        conditions.shaped(shapes[self.covariance_type], self.covariances)
        conditions.need((self.weights > 0).all())
        if self.covariance_type in ("diag", "spherical"):
            conditions.need((self.covariances > 0).all())
        try:
            conditions.need(np.isfinite(self.whiteners).all() and np.isfinite(self.constants).all())
        except np.linalg.LinAlgError:
            conditions.need(False)


@dataclass(frozen=True)
class MixtureSums:
    """Expected counts, sums and second moments, about the query's ``origins``."""

    count: Array
    total: Array
    second: Array | None = None
    log_likelihood: Array | None = None


@dataclass(frozen=True)
class MixtureQuery:
    """Responsibility-weighted sums under ``mixture``; also evaluates log joint densities.

    ``direct`` sums about each component's mean instead of one common origin. Under a background,
    which a tied mixture has only where ``direct``, records are clamped to its region first.
    """

    mixture: Mixture
    origin: Array
    direct: bool = False
    travels = ("mixture", "origin", "direct")

    @classmethod
    def for_evaluation(cls, mixture: Mixture) -> MixtureQuery:
        """A query about the mixture's own mean: for densities, where no frame is at hand."""
        origin = mixture.weights @ mixture.means
        spread = np.max((mixture.means - origin) ** 2, axis=0)
        return cls(mixture, origin, mixture.condition(origin, spread) > CONDITION_LIMIT)

    @cached_property
    def features(self) -> Features:
        """Which products of coordinates the statistics need."""
        return Features(_KIND[self.mixture.covariance_type], len(self.origin))

    @property
    def block_rows(self) -> int:
        """Rows per call: several of the kernel's tiles, so that a block's bookkeeping is cheap."""
        components, d = self.mixture.means.shape
        return differences_block_rows(d) if self.direct else 4 * self.features.tile_rows(components)

    @cached_property
    def origins(self) -> Array:
        """The point each component's sums are taken about, (K, d)."""
        if self.direct:
            return self.mixture.means
        return np.broadcast_to(self.origin, self.mixture.means.shape)

    @cached_property
    def coefficients(self) -> Array:
        """The (K, features) matrix whose product with phi(x - origin) is the log joint density.

        For a tied covariance the term -x'Px/2, the same for every component, is left out.
        """
        m = self.mixture
        w, centred = m.whiteners, m.means - self.origin
        components, d = centred.shape
        out = np.empty((components, self.features.size))
        if w.ndim == 3:
            white = np.einsum("kij,kj->ki", w, centred)
            out[:, 1 : d + 1] = np.einsum("kij,ki->kj", w, white)
        else:
            white = w * centred
            out[:, 1 : d + 1] = w * white
        out[:, 0] = m.constants - 0.5 * np.einsum("ki,ki->k", white, white)
        match self.features.kind:
            case "full":
                np.negative(symmetric_entries(m.precisions), out=out[:, d + 1 :])
                out[:, d + 1 : 2 * d + 1] *= 0.5  # the diagonal comes first
            case "square":
                out[:, d + 1 :] = -0.5 * m.precisions
            case "norm":
                out[:, d + 1] = -0.5 * m.precisions[:, 0]
        return out

    def log_joint(self, rows: Array, scratch: Scratch) -> Array:
        """Log joint density of each component, but for a background, and record, (K, b)."""
        m = self.mixture
        if self.direct:
            return exact_log_joint(rows, m.means, m.whiteners, m.constants, scratch)
        joint = log_joint(self.features, self.coefficients, rows, self.origin, scratch)
        if m.covariance_type == "tied":
            white = (rows - self.origin) @ m.whiteners[0].T
            joint -= 0.5 * np.einsum("ij,ij->i", white, white)
        return joint

    def __call__(self, block: Block, scratch: Scratch) -> MixtureSums:
        """Sum a block."""
        m, rows = self.mixture, block.X
        k, flat = len(m.means), m.background
        if flat is not None:
            rows = flat.clamped(rows, scratch)
        if self.direct:
            kind = {"tied": "full"}.get(m.covariance_type, self.features.kind)
            means, whiteners, constants = m.means, m.whiteners, m.constants
            if flat is not None:  # a Gaussian so wide that its density is the same everywhere
                means = np.concatenate([means, self.origin[None]])
                whiteners = np.concatenate([whiteners, np.zeros_like(whiteners[:1])])
                constants = np.append(constants, flat.level)
            count, total, second, evidence = exact_sums(
                rows, means, whiteners, constants, block.weight, kind, scratch
            )
            second = second[:k]
            if kind == "full":
                second = svec(second)
            if m.covariance_type == "tied":
                second = second.sum(axis=0)
            return MixtureSums(count[:k], total[:k], second, np.asarray(evidence))
        coefficients = self.coefficients
        if flat is not None:
            level = flat.level * np.eye(1, self.features.size)
            coefficients = np.concatenate([coefficients, level])
        sums, evidence = responsibility_sums(
            self.features, coefficients, rows, self.origin, block.weight, scratch
        )
        return self.of_features(sums[:k], evidence)

    def of_features(self, sums: Array, evidence: float) -> MixtureSums:
        """The statistics, from sums (K, p) of responsibility times feature."""
        d = len(self.origin)
        packed: Array | None = sums[:, d + 1 :]
        match self.features.kind:
            case "full":
                packed = sums[:, d + 1 :] * symmetric_scale(d)
            case "norm":
                packed = sums[:, d + 1]
            case "linear":
                packed = None  # The pooled second moment never changes: the frame has it.
        return MixtureSums(sums[:, 0], sums[:, 1 : d + 1], packed, np.asarray(evidence))

    def check(self, d: int, private: bool) -> None:
        """A valid mixture."""
        conditions.shaped((d,), self.origin)
        self.mixture.check(d, background=self.direct or self.mixture.covariance_type != "tied")
        k = len(self.mixture.means) + (self.mixture.background is not None)
        conditions.held(k, self.block_rows, most_sums(k, d, self.mixture.covariance_type))

    def largest(self, low: Array, high: Array) -> Array:
        """A log-density is a linear form in products of distances, with public coefficients."""
        m = self.mixture
        k, tied = len(m.means), m.covariance_type == "tied"
        if m.background is not None:  # to whose region records are clamped
            low, high = m.background.region.sides
        a = farthest(low, high, self.origin)
        reaches = farthest(low, high, self.origins) if self.direct else np.tile(a, (k, 1))
        i, j = symmetric_pairs(len(a))
        squares = np.array([a @ a])
        products = {"full": a[i] * a[j], "square": a**2, "norm": squares, "linear": squares[:0]}
        features = np.concatenate([[1.0], a, products[self.features.kind]])
        log_density = float(np.max(np.abs(self.coefficients) @ features)) + np.log(k)
        if tied:
            log_density += 0.5 * float(a @ np.abs(m.precisions[0]) @ a)
        if m.background is not None:
            log_density = max(log_density, abs(m.background.level)) + np.log(2)
        parts = [np.ones(k), reaches.ravel()]
        if self.direct or not tied:
            second = largest_second(m.covariance_type, reaches if self.direct else a[None], k)
            parts.append(second)
        return np.concatenate([*parts, [log_density]])


@dataclass(frozen=True)
class AssignedQuery:
    """Mixture statistics under hard assignment to centres, or random responsibilities."""

    covariance_type: str
    origin: Array
    centres: Array
    seed: int | None = None
    direct: bool = True
    block_rows: int = 1496
    travels = ("covariance_type", "origin", "centres")

    @property
    def origins(self) -> Array:
        """The point each component's sums are taken about, (K, d)."""
        return np.broadcast_to(self.origin, self.centres.shape)

    def __call__(self, block: Block, scratch: Scratch) -> MixtureSums:
        """Sum a block."""
        components = len(self.centres)
        x, label, _ = nearest(block.X, self.origin, self.centres - self.origin, scratch)
        if self.seed is None:
            share = np.equal(np.arange(components)[:, None], label).astype(float)
        else:
            # Each row has its own stretch of the stream, however rows are cut into blocks.
            stream = np.random.PCG64(self.seed).advance(block.start * components)
            share = np.random.Generator(stream).random((len(label), components)).T
            share = share / share.sum(axis=0)
        if block.weight is not None:
            share *= block.weight
        match self.covariance_type:
            case "full":
                second = np.stack([svec(np.dot(x * row, x.T)) for row in share])
            case "tied":
                second = svec(np.dot(x * share.sum(axis=0), x.T))
            case "diag":
                second = np.dot(share, (x**2).T)
            case _:
                second = np.dot(share, np.einsum("ij,ij->j", x, x))
        return MixtureSums(share.sum(axis=1), np.dot(share, x.T), np.asarray(second))

    def check(self, d: int, private: bool) -> None:
        """Centres among the rows."""
        conditions.need(self.covariance_type in COVARIANCE_TYPES)
        conditions.shaped((d,), self.origin)
        conditions.table(self.centres, d)
        k = len(self.centres)
        conditions.held(k, self.block_rows, most_sums(k, d, self.covariance_type))

    def largest(self, low: Array, high: Array) -> Array:
        """Counts, distances from the origin, and their products."""
        a, k = farthest(low, high, self.origin), len(self.centres)
        second = largest_second(self.covariance_type, a[None], k)
        return np.concatenate([np.ones(k), np.tile(a, k), second])


def most_sums(k: int, d: int, covariance_type: str) -> int:
    """How many numbers a mixture's sums are, at most."""
    return k * (2 + d + (d * d if covariance_type == "full" else d)) + d * d


def largest_second(covariance_type: str, a: Array, k: int) -> Array:
    """Largest second moments of k components; a component's distances are a row of ``a``.

    Or all components share its only row.
    """
    match covariance_type:
        case "full":
            each = svec(a[:, :, None] * a[:, None, :])
        case "tied":
            return np.asarray(np.max(svec(a[:, :, None] * a[:, None, :]), axis=0))
        case "diag":
            each = a**2
        case _:
            each = np.einsum("ij,ij->i", a, a)[:, None]
    return np.tile(each, (k // len(a), 1)).ravel()
