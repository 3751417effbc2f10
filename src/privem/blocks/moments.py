"""Count, sum and second moment: all there is to one Gaussian, and where the data lie.

The first two passes of every exact fit (:class:`FramePlan`) find them; later sums are taken about
their mean.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..core import Block, Release, Scratch, Stage
from ..linalg import Array, smat, svec
from ..noise.exact import Exact
from . import conditions
from .region import farthest

MANY_COLUMNS = 128
"""Above so many columns nothing forms d x d moments unless the model itself has d x d parameters.

Measured with eight clusters: a start from them and one that does without take the same time at 60
columns of 300 rows and at 180 columns of 20,000.
"""


@dataclass(frozen=True)
class Sums:
    """First pass: how many rows, their weight, and the weighted sum of each column."""

    rows: Array
    count: Array
    total: Array


@dataclass(frozen=True)
class Moments:
    """Weight, sum and second moment about an origin.

    The second moment is packed by :func:`privem.linalg.svec`, or it is the diagonal alone.
    """

    count: Array
    total: Array
    second: Array


@dataclass(frozen=True)
class SumsQuery:
    """Rows, weight and column sums."""

    block_rows: int = 8184
    travels = ()

    def __call__(self, block: Block, scratch: Scratch) -> Sums:
        """Sum a block."""
        rows = np.asarray(float(len(block.X)))
        # A non-finite value poisons its column's sum: that is how bad values are noticed.
        with np.errstate(over="ignore", invalid="ignore"):
            if block.weight is None:
                total = np.sum(block.X, axis=0, dtype=np.float64)
                return Sums(rows, rows, np.asarray(total))
            x = scratch.take("x", block.X.shape)
            np.multiply(block.X, block.weight[:, None], out=x)
            return Sums(rows, np.asarray(block.weight.sum()), x.sum(axis=0))

    def check(self, d: int, private: bool) -> None:
        """Of any rows."""

    def largest(self, low: Array, high: Array) -> Array:
        """Two counts, and the columns themselves."""
        return np.concatenate([[1.0, 1.0], farthest(low, high)])


@dataclass(frozen=True)
class MomentsQuery:
    """Weight, sum and second moment about ``origin``; ``diagonal``: the squares of columns only."""

    origin: Array
    diagonal: bool = False
    travels = ("origin", "diagonal")

    @property
    def block_rows(self) -> int:
        """Blocks of about a megabyte."""
        return int(np.clip(2**17 // len(self.origin), 64, 8184)) // 8 * 8

    def __call__(self, block: Block, scratch: Scratch) -> Moments:
        """Sum a block."""
        x = scratch.take("x", block.X.shape)
        with np.errstate(over="ignore", invalid="ignore"):
            np.subtract(block.X, self.origin, out=x)
            if self.diagonal:
                weight = np.ones(len(x)) if block.weight is None else block.weight
                total = np.dot(weight, x)
                np.multiply(x, x, out=x)
                return Moments(np.asarray(weight.sum()), total, np.dot(weight, x))
            count = float(len(x)) if block.weight is None else block.weight.sum()
            return Moments(np.asarray(count), *first_two(x, block.weight))

    def check(self, d: int, private: bool) -> None:
        """About a point among the rows."""
        conditions.shaped((d,), self.origin)
        conditions.held(1, 1, 1 + d + (d if self.diagonal else d * (d + 1) // 2))

    def largest(self, low: Array, high: Array) -> Array:
        """A count, distances from the origin, and their products."""
        a = farthest(low, high, self.origin)
        return np.concatenate([[1.0], a, a**2 if self.diagonal else svec(np.outer(a, a))])


def first_two(x: Array, weight: Array | None) -> tuple[Array, Array]:
    """Sum (d,) and packed second moment of records (b, d), which are overwritten."""
    if weight is None:
        return x.sum(axis=0), svec(np.dot(x.T, x))
    total = np.dot(weight, x)
    x *= np.sqrt(weight)[:, None]
    return total, svec(np.dot(x.T, x))


@dataclass(frozen=True)
class Frame:
    """Where the data lie: public once released. Later sums are taken about ``origin``."""

    rows: float
    """Number of rows, whatever their weight."""
    count: float
    """Sum of the weights."""
    origin: Array
    total: Array
    second: Array
    """As that of :class:`Moments`: all of it, or the diagonal, which comes first either way."""

    @cached_property
    def mean(self) -> Array:
        """Mean of each column."""
        return np.asarray(self.origin + self.total / self.count)

    @cached_property
    def covariance(self) -> Array:
        """Covariance matrix, divided by the count; not of a frame that has the diagonal alone."""
        shift = self.total / self.count
        return np.asarray(smat(self.second, len(shift)) / self.count - np.outer(shift, shift))

    @cached_property
    def diagonal(self) -> Array:
        """Diagonal of the covariance matrix."""
        shift = self.total / self.count
        return np.asarray(self.second[: len(shift)] / self.count - shift**2)

    @cached_property
    def scale(self) -> float:
        """Mean variance of a column: what rounding is measured against where units are mixed."""
        return max(float(np.mean(self.diagonal)), 0.0)

    @cached_property
    def variances(self) -> Array:
        """Variance of each column, the size its floors are measured against.

        A constant column has no size of its own (what is left is rounding): it gets the mean one.
        """
        own = self.diagonal
        return np.where(own > (1e-14 * self.mean) ** 2, own, self.scale)


@dataclass(frozen=True)
class FramePlan:
    """Two exact passes: sums, then second moments (or their diagonal) about the mean.

    Parameters
    ----------
    names : sequence of str
        One per column, for error messages.
    min_rows : int
        Fewer rows than this are refused.
    whole_from : float
        With fewer rows than this, squares of columns only: d numbers instead of d(d+1)/2.
    """

    names: Sequence[str]
    min_rows: int = 1
    whole_from: float = 0.0

    def stages(self) -> Generator[Stage, Release[Any], Frame]:
        """Generate the stages."""
        sums = yield from self.sums()
        origin = np.asarray(sums.total / sums.count)
        # Whether a constant 1e300 survives its square must not hang on how its mean rounds.
        with np.errstate(over="ignore"):
            self._refuse_overflow(origin**2)
        return (yield from self.about(origin, sums, int(sums.rows) < self.whole_from))

    def sums(self) -> Generator[Stage, Release[Any], Sums]:
        """The first pass: rows, weight and column sums, with an error where they are no use."""
        sums: Sums = (yield Stage(SumsQuery(), Exact(), "sums")).statistics
        rows, count = int(sums.rows), float(sums.count)
        if rows < self.min_rows:
            raise ValueError(
                f"n_samples={rows} row(s) of data, but at least {self.min_rows} are needed: "
                "n_samples should be >= n_clusters or n_components"
            )
        if not count > 0:
            raise ValueError("the sample weights sum to zero: no record counts")
        self._refuse_overflow(sums.total)
        return sums

    def about(
        self, origin: Array, sums: Sums, diagonal: bool
    ) -> Generator[Stage, Release[Any], Frame]:
        """The second pass: moments about an origin, or their diagonal."""
        release = yield Stage(MomentsQuery(origin, diagonal=diagonal), Exact(), "moments")
        moments: Moments = release.statistics
        rows, count = int(sums.rows), float(sums.count)
        frame = Frame(rows, count, origin, moments.total, moments.second)
        self._refuse_overflow(frame.diagonal)
        return frame

    def _refuse_overflow(self, per_column: np.ndarray) -> None:
        if np.isfinite(per_column).all():
            return
        for name, value in zip(self.names, per_column, strict=True):
            if not np.isfinite(value):
                raise ValueError(
                    f"column {name!r} holds values so large that their sum or squares overflow "
                    "double precision; rescale it (for example divide by its largest value)"
                )
