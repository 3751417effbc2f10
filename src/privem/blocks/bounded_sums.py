"""Sums over records of one bounded vector each: what all queries of this kind share.

A record's vector f has a bounded norm, whatever the record. The sum is over all records, or over
those of one :class:`Cell` of a random partition, each times its weight. The bounds on |f|, and on
the distance of two such vectors, are derived beside each query; ``one_group`` multiplies them by
the cap on weights (:mod:`privem.blocks.sensitivity`).

Queries that have a :class:`~privem.blocks.region.Region` pull records into it first
(:class:`InRegion`), so that rounding has a bound.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from ..core import Block, Scratch
from ..linalg import Array, svec, symmetric_pairs, symmetric_scale
from . import conditions
from .region import Region
from .sensitivity import capped

Sums = TypeVar("Sums")

# On weights of an exact fit; a number, as federations carry no infinity.
NO_CAP = 2.0**100
# More than any plan asks for, and few enough to hold.
_MOST_CELLS = 2**20


@dataclass(frozen=True)
class Cell:
    """The ``index``-th of ``count`` cells of a random partition: whom one stage is about.

    Every record draws its cell once per fit, uniformly and independently of all data
    (:mod:`privem.data.sampling`). Stages of different cells therefore concern different people: a
    fit costs each of them the stages about everyone and those of one cell
    (``docs/proofs/gradient.md``, section 4).
    """

    index: int
    count: int
    travels = ("index", "count")

    def check(self, private: bool) -> None:
        """One cell of a partition; a party sees to it that a run has one partition."""
        conditions.need(private and 0 <= self.index < self.count <= _MOST_CELLS)


class InRegion:
    """Mixin of queries that pull records into a public region before anything else.

    Frozen dataclasses with fields ``region``, of the features, ``target``, of a target, which is
    then the last column, ``cap_weight`` and ``cell``.
    """

    region: Region
    target: Region | None
    cap_weight: float
    cell: Cell | None

    @property
    def block_rows(self) -> int:
        """Blocks of about half a megabyte: a handful of passes over each stay in the cache."""
        return int(np.clip(2**16 // (self.region.d + 2), 64, 8184)) // 8 * 8

    def inside(self, rows: Array, scratch: Scratch, missing: bool = False) -> Array:
        """Records (b, c) in their region; see :func:`in_region`."""
        return in_region(rows, self.region, self.target, scratch, missing)

    def check_records(self, d: int, private: bool) -> None:
        """Regions of d columns in all; weights and cell."""
        features = d - (self.target is not None)
        conditions.need(features > 0)
        self.region.check(features, data=private)
        if self.target is not None:
            self.target.check(1, data=private)
        check_weights(self.cap_weight, self.cell, private)


class BoundedSum(ABC, Generic[Sums]):
    """Abstract base of queries that compute each record's vector, weigh the vectors and add them.

    Subclasses are frozen dataclasses with a field ``cap_weight``, the largest weight of a record.
    """

    cap_weight: float

    @property
    @abstractmethod
    def size(self) -> int:
        """How many numbers are released."""

    @abstractmethod
    def contributions(self, block: Block, scratch: Scratch) -> Array:
        """What each record of a block adds, (size, b), before weights; in working memory."""

    @abstractmethod
    def unravel(self, vector: Array) -> Sums:
        """The sums from the vector of their numbers."""

    def __call__(self, block: Block, scratch: Scratch) -> Sums:
        """Sum a block."""
        f = self.contributions(block, scratch)
        weight = capped(block.weight, self.cap_weight, f.shape[1])
        return self.unravel(f.sum(axis=1) if weight is None else np.dot(f, weight))


@dataclass(frozen=True)
class SecondMoments:
    """Packed sum of h v v'."""

    second: Array


class OuterSum(ABC):
    """Abstract base of queries for the sum of h svec(v v'), |v| <= 1 and |h| <= 1.

    |h svec(v v')| <= |v|^2 <= 1: adding or removing a record moves the sum by at most 1. <svec v
    v', svec u u'> = <v, u>^2 >= 0, so with h = 1 replacing one moves it by at most sqrt(2); with
    signed h by at most 2. Subclasses have a field ``cap_weight``, as in :class:`BoundedSum`.
    """

    cap_weight: float

    @property
    @abstractmethod
    def width(self) -> int:
        """How many entries v has."""

    @abstractmethod
    def vectors(self, block: Block, scratch: Scratch) -> tuple[Array, Array | None]:
        """The vectors v (width, b), and h (b,) or ``None`` where it is one."""

    @property
    def size(self) -> int:
        """How many numbers are released."""
        return self.width * (self.width + 1) // 2

    def contributions(self, block: Block, scratch: Scratch) -> Array:
        """What each record of a block adds, (size, b), before weights."""
        v, h = self.vectors(block, scratch)
        i, j = symmetric_pairs(len(v))
        f = v[i] * v[j] * symmetric_scale(len(v))[:, None]
        return np.asarray(f if h is None else f * h)

    def __call__(self, block: Block, scratch: Scratch) -> SecondMoments:
        """Sum a block, as one product of matrices."""
        v, h = self.vectors(block, scratch)
        weight = capped(block.weight, self.cap_weight, v.shape[1])
        factor = h if weight is None else (weight if h is None else weight * h)
        return SecondMoments(svec(np.dot(v if factor is None else v * factor, v.T)))

    def unravel(self, vector: Array) -> SecondMoments:
        """The sums from the vector of their numbers."""
        return SecondMoments(vector)

    def largest(self, low: Array, high: Array) -> Array:
        """No entry of h v v' is beyond one; off the diagonal it is packed times sqrt(2)."""
        return np.full(self.size, 1.5)


def check_weights(cap_weight: float, cell: Cell | None, private: bool) -> None:
    """A cap on weights, and a cell if there is one."""
    conditions.ordinary(cap_weight)
    if cell is not None:
        cell.check(private)


def in_region(
    rows: Array, region: Region, target: Region | None, scratch: Scratch, missing: bool = False
) -> Array:
    """Records pulled into their region, in the data's coordinates, (c, b), in working memory.

    ``missing``: NaN among the features means missing, and is put at the region's centre, where it
    pulls on nothing else.

    Elementwise and correctly rounded, like :meth:`Region.to_unit`: what comes out is a function of
    the record, wherever in a block it stands.
    """
    x = scratch.take("bounded", rows.T.shape)
    d = region.d
    features = rows[:, :d]
    if missing:
        features = np.where(np.isnan(features), region.centre, features)
    parts = [(x[:d], region, features)]
    if target is not None:
        parts.append((x[d:], target, rows[:, d:]))
    for out, part, values in parts:
        np.multiply(part.to_unit(values, scratch).T, part.scale[:, None], out=out)
        out += part.centre[:, None]
    return x
