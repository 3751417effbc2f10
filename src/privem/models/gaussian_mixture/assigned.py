"""Mixture statistics under a first assignment: what turns a start into a mixture."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...blocks import conditions
from ...blocks.region import farthest
from ...core import Block, Scratch
from ...kernels.nearest import nearest
from ...linalg import svec
from ...tree import Array
from .model import COVARIANCE_TYPES, MixtureSums, largest_second, most_sums


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
                second = np.stack([svec((x * row) @ x.T) for row in share])
            case "tied":
                second = svec((x * share.sum(axis=0)) @ x.T)
            case "diag":
                second = share @ (x**2).T
            case _:
                second = share @ np.einsum("ij,ij->j", x, x)
        return MixtureSums(share.sum(axis=1), share @ x.T, np.asarray(second))

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
