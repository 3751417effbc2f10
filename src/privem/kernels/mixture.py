"""Responsibilities, and mixture statistics from quadratic features: two matrix products per block.

The log-density of a Gaussian is linear in ``phi(x) = (1, x, x_i x_j)``, and the expected statistics
are the responsibilities times the same phi. So one block costs ``L = W phi`` (log joint density),
a softmax down the columns, and ``S = R phi'``. Features lie along the first axis and records
along the second, so that every pass is contiguous.

*Clipped.* At ``u = W_k (x - m_k)``, with whitener W_k and mean m_k, a record counts
``s = min(1, r^2 / |u|^2)`` times: the sums of ``g_k``, ``g_k s u`` and ``g_k s u u'`` are then
bounded, |s u| <= r and |s u u'| <= r^2. One factor for both saves a root and a matrix product.
:func:`by_products` never forms u. With s from the log-density at hand, the sums of
``g s (1, x, x x')`` are one matrix product, and whitening them afterwards gives the same.
:func:`privem.kernels.whitened.by_differences` forms u. It costs more and errs less; the query's
error bound says which.

Products are made by circular offset, ``x * roll(x, -o)``: all offsets of a tile are one call to
``np.multiply`` on a strided view of x written twice.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.lib.stride_tricks import as_strided

from ..linalg import Array, Scratch, short_buffers

# exp(-600) is 1e-261: far below what a sum in double precision can see, yet far enough from the
# smallest normal number that no later product becomes subnormal, which would cost 100 cycles each.
_LOWEST = -600.0


def _exponentiate(joint: Array, scratch: Scratch) -> tuple[Array, Array]:
    """Subtract each column's maximum, exponentiate in place; return the maxima and the sums."""
    top = scratch.take("softmax.top", joint.shape[1:])
    total = scratch.take("softmax.total", joint.shape[1:])
    np.maximum.reduce(joint, axis=0, out=top)
    joint -= top
    np.clip(joint, _LOWEST, 0.0, out=joint)  # measured: np.maximum takes twice as long
    np.exp(joint, out=joint)
    np.add.reduce(joint, axis=0, out=total)
    return top, total


def responsibilities(joint: Array, weight: Array | None, scratch: Scratch) -> None:
    """Turn (K, b) log joint densities into responsibilities times the records' weights in place."""
    _, total = _exponentiate(joint, scratch)
    np.divide(1.0 if weight is None else weight, total, out=total)
    joint *= total


def log_normaliser(joint: Array, scratch: Scratch) -> Array:
    """Turn (K, b) log joint densities into responsibilities in place; return the (b,) log sums."""
    top, total = _exponentiate(joint, scratch)
    inverse = scratch.take("softmax.inverse", joint.shape[1:])
    np.divide(1.0, total, out=inverse)
    joint *= inverse
    np.log(total, out=total)
    top += total
    return top


def softmax(joint: Array, weight: Array | None, scratch: Scratch) -> float:
    """As :func:`log_normaliser`, times the records' weights; return the weighted log-likelihood."""
    evidence = log_normaliser(joint, scratch)
    if weight is None:
        return float(np.add.reduce(evidence))
    joint *= weight
    return float(np.dot(evidence, weight))


# How many numbers fit the second-level cache.
_FEW = 2**17
# One product of :func:`by_products` sums at most this many records: its error grows with them.
PIECE = 512

# Lays records (b, d) out in an array (d, b): centred, or clipped to a region.
Place = Callable[[Array, Array], None]


def centred(origin: Array) -> Place:
    """Records about an origin."""

    def place(rows: Array, out: Array) -> None:
        np.subtract(rows.T, origin[:, None], out=out)

    return place


@dataclass(frozen=True)
class Features:
    """Which products of coordinates to append to (1, x), and how to cut the work.

    ``kind``: ``"linear"`` none, ``"square"`` the d squares, ``"norm"`` their sum, ``"full"`` all
    d(d+1)/2 in the order of :func:`privem.linalg.symmetric_pairs`.
    """

    kind: str
    d: int
    whole: bool = False
    """Make all products at once, however many."""

    def of_few(self, rows: int) -> Features:
        """The same in one tile where all products of so many records fit the cache.

        Measured: with 20 records of 50 columns, 26 tiles take four times as long.
        """
        return replace(self, whole=True) if self.size * rows <= _FEW else self

    @cached_property
    def size(self) -> int:
        """How many features there are, the constant included."""
        extra = {"linear": 0, "norm": 1, "square": self.d, "full": self.d * (self.d + 1) // 2}
        return 1 + self.d + extra[self.kind]

    @cached_property
    def offsets_per_tile(self) -> int:
        """How many circular offsets are made at a time: all of them while they fit the cache."""
        return self.d // 2 + 1 if self.whole or self.size <= 512 else 1

    @cached_property
    def depth(self) -> int:
        """At most so many additions lie between a feature and the log joint density."""
        tiles = self.tiles()
        return self.size if len(tiles) <= 1 else self.offsets_per_tile * self.d + len(tiles) + 2

    def tile_rows(self, components: int) -> int:
        """Records per tile.

        Measured: features fit the second-level cache, and OpenBLAS is at its best below a million
        multiply-adds.
        Never a power of two: rows of features would then collide in the cache.
        """
        if self.size > 512:
            return 504 if self.d <= 75 else 248
        best = min(_FEW // self.size, 10**6 // (self.size * components))
        rows = min(max(best, 1496), 8184) // 8 * 8
        return rows - 8 if rows % 512 == 0 else rows

    def tiles(self) -> list[tuple[int, int, int, int]]:
        """(first offset, last offset, first feature, last feature) of each tile of products."""
        if self.kind != "full":
            return []
        tiles, at, count = [], 1 + self.d, self.d // 2 + 1
        for low in range(0, count, self.offsets_per_tile):
            high = min(low + self.offsets_per_tile, count)
            rows = (high - low) * self.d
            if high == count and self.d % 2 == 0 and self.d > 1:
                rows -= self.d // 2
            tiles.append((low, high, at, at + rows))
            at += rows
        return tiles


def differences_block_rows(d: int) -> int:
    """Rows per block where differences are formed."""
    return 4088 if d <= 16 else 1496


class _Tile:
    """Working arrays for tiles of b records: features are made on demand."""

    def __init__(self, features: Features, b: int, scratch: Scratch) -> None:
        self.features, d, self.b = features, features.d, b
        self.tiles = features.tiles()
        self.at_once = len(self.tiles) <= 1
        if self.at_once:
            spare = d if features.kind == "full" else 0  # the half offset is computed whole
            everything = scratch.take("features", (features.size + spare, b))
            self.linear, self.products = everything[: d + 1], everything[d + 1 :]
            self.whole = everything[: features.size]
        else:
            self.linear = scratch.take("linear", (d + 1, b))
            self.products = scratch.take("tile", (features.offsets_per_tile * d, b))
        self.linear[0] = 1.0
        self.x = self.linear[1:]
        if features.kind == "full":
            self.twice = scratch.take("twice", (d + d // 2, b))
            step, unit = self.twice.strides
            self.rolled = as_strided(self.twice, (d // 2 + 1, d, b), (step, step, unit))

    def load(self, rows: Array, place: Place) -> None:
        """Lay b records out."""
        d, x = self.features.d, self.x
        place(rows, x)
        match self.features.kind:
            case "square":
                np.multiply(x, x, out=self.products)
            case "norm":
                np.einsum("ij,ij->j", x, x, out=self.products[0])
            case "full":
                self.twice[:d] = x
                self.twice[d:] = x[: d // 2]
                if self.at_once:
                    self._multiply(0, d // 2 + 1)

    def _multiply(self, low: int, high: int) -> None:
        d = self.features.d
        out = self.products[: (high - low) * d].reshape(high - low, d, self.b)
        np.multiply(self.x, self.rolled[low:high], out=out)

    def times(self, parts: list[Array], out: Array, spare: Array) -> None:
        """``out = weights @ phi``, the weights cut by :func:`_cut`."""
        np.dot(parts[0], self.whole if self.at_once else self.linear, out=out)
        for (low, high, first, last), weights in zip(self.tiles, parts[1:], strict=False):
            self._multiply(low, high)
            np.dot(weights, self.products[: last - first], out=spare)
            out += spare

    def gather(self, responsibilities: Array, parts: list[Array], most: int) -> None:
        """``sums += responsibilities @ phi'``, the sums cut by :func:`_cut`."""
        accumulate(responsibilities, self.whole if self.at_once else self.linear, parts[0], most)
        for (low, high, first, last), sums in zip(self.tiles, parts[1:], strict=False):
            self._multiply(low, high)
            sums += np.dot(responsibilities, self.products[: last - first].T)


def accumulate(left: Array, right: Array, out: Array, most: int) -> None:
    """``out += left @ right'``, by products of ``most`` columns, added one after the other.

    An error bound grows with the length of a product. Measured: one call for all of them takes two
    thirds of the time of a loop.
    """
    b = left.shape[1]
    pieces = b // most
    whole = pieces * most
    if pieces:
        a = left[:, :whole].reshape(len(left), pieces, most).transpose(1, 0, 2)
        c = right[:, :whole].reshape(len(right), pieces, most).transpose(1, 2, 0)
        products = np.empty((1 + pieces, *out.shape))
        products[0] = out
        np.matmul(a, c, out=products[1:])
        np.add.reduce(products, axis=0, out=out)
    if whole < b:
        # Not ``@``: for one product it holds the interpreter's lock, and other threads wait.
        out += np.dot(left[:, whole:], right[:, whole:].T)


def _cut(features: Features, matrix: Array) -> list[Array]:
    """A (K, p) matrix cut along the tiles: BLAS is fastest on small contiguous pieces."""
    tiles = features.tiles()
    if len(tiles) <= 1:
        return [matrix]
    edges = [first for _, _, first, _ in tiles]
    return [np.ascontiguousarray(part) for part in np.split(matrix, edges, axis=1)]


class Tiles:
    """A pass over tiles of records: log joint densities out, weighted sums of features back in."""

    def __init__(
        self, features: Features, coefficients: Array, scratch: Scratch, place: Place
    ) -> None:
        self.features, self._scratch = features, scratch
        self._components = len(coefficients)
        self._parts = _cut(features, coefficients)
        self._place = place
        self._tile: _Tile | None = None

    def log_joint(self, rows: Array) -> Array:
        """Log joint densities (K, b) of the next tile, in working memory."""
        if self._tile is None or self._tile.b != len(rows):
            self._tile = _Tile(self.features, len(rows), self._scratch)
            self._joint = self._scratch.take("log_joint", (self._components, len(rows)))
            self._spare = self._scratch.take("spare", self._joint.shape)
        self._tile.load(rows, self._place)
        self._tile.times(self._parts, self._joint, self._spare)
        return self._joint

    def zeros(self) -> list[Array]:
        """Sums to start :meth:`gather` with; concatenated along axis 1 they are (K, p)."""
        return [np.zeros_like(part) for part in self._parts]

    def gather(self, shares: Array, sums: list[Array], most: int = 2**20) -> None:
        """``sums += shares @ phi'`` for the tile at hand, ``most`` records in a product."""
        assert self._tile is not None
        self._tile.gather(shares, sums, most)


def log_joint(
    features: Features, coefficients: Array, rows: Array, origin: Array, scratch: Scratch
) -> Array:
    """Log joint density of each component and record, shape (K, b). ``coefficients``: (K, p)."""
    with short_buffers():
        return Tiles(features, coefficients, scratch, centred(origin)).log_joint(rows)


def responsibility_sums(
    features: Features,
    coefficients: Array,
    rows: Array,
    origin: Array,
    weight: Array | None,
    scratch: Scratch,
) -> tuple[Array, float]:
    """Sums of responsibility times feature, (K, p), and the block's log-likelihood."""
    size = features.tile_rows(len(coefficients))
    features = features.of_few(len(rows))
    tiles = Tiles(features, coefficients, scratch, centred(origin))
    sums, likelihood = tiles.zeros(), 0.0
    with short_buffers():
        for start in range(0, len(rows), size):
            joint = tiles.log_joint(rows[start : start + size])
            here = None if weight is None else weight[start : start + size]
            likelihood += softmax(joint, here, scratch)
            tiles.gather(joint, sums)
    return np.concatenate(sums, axis=1), likelihood


def by_products(
    features: Features,
    coefficients: Array,
    constants: Array,
    rows: Array,
    place: Place,
    radius: float,
    weight: Array | None,
    scratch: Scratch,
) -> tuple[Array, Array]:
    """Sums (K,) of g and (K, p) of g s phi(x).

    ``constants`` are the log joint densities at the means, so that ``-2 (L - constants)`` is the
    squared distance. ``place`` lays records out within the region. ``radius`` may be infinite.
    """
    components = len(coefficients)
    tiles = Tiles(features, coefficients, scratch, place)
    count, sums = np.zeros(components), tiles.zeros()
    clipped, half = np.isfinite(radius), 0.5 * radius**2
    size = features.tile_rows(components)
    with short_buffers(), np.errstate(over="ignore", invalid="ignore"):
        for start in range(0, len(rows), size):
            joint = tiles.log_joint(rows[start : start + size])
            here = None if weight is None else weight[start : start + size]
            if clipped:
                far = scratch.take("far", joint.shape)
                np.subtract(constants[:, None], joint, out=far)  # |u|^2 / 2
                np.clip(far, half, np.inf, out=far)  # measured: np.maximum takes twice as long
            responsibilities(joint, here, scratch)
            count += np.add.reduce(joint, axis=1)
            if clipped:
                joint /= far  # g s, but for a factor
            tiles.gather(joint, sums, PIECE)
    everything = np.concatenate(sums, axis=1)
    if clipped:
        everything *= half
    return count, everything
