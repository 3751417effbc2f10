"""Latent classes on torch tensors: records are codes, and become zeros and ones."""

from __future__ import annotations

from ..linalg import Array
from .tensor_mixture import softmax
from .tensors import Pieces, Tensor, Tensors, Total, Work, counted, products, sums


class Indicators:
    """Which category a record has in each column, as zeros and ones (p, b)."""

    def __init__(self, work: Work, sizes: tuple[int, ...], b: int) -> None:
        self.work = work
        # A record counts once: the constant comes first.
        self.phi = work.take("features", (1 + sum(sizes), b))
        self.phi[0] = 1.0
        self.e = self.phi[1:]
        torch = work.torch
        self._codes = [torch.arange(size, device=work.device)[:, None] for size in sizes]

    def load(self, rows: Tensor) -> None:
        """Of a block of codes; places beyond the last record hold zeros."""
        at = 0
        for j, codes in enumerate(self._codes):
            here = self.e[at : at + len(codes)]
            self.work.torch.eq(codes, rows[:, j], out=here[:, : len(rows)])
            at += len(codes)
        self.e[:, len(rows) :] = 0.0


def class_sums(
    records: Tensors, sizes: tuple[int, ...], logs: Array, levels: Array, pieces: Pieces
) -> tuple[Array, Array, float]:
    """Counts (K,), tables (K, p) and the log-likelihood; ``logs`` (K, p), ``levels`` (K,)."""
    work, k = records.work, len(logs)
    size = work.block(records.count, 1 + sum(sizes) + 4 * k, pieces)
    shown, total = Indicators(work, sizes, size), Total(work.torch)
    profiles, level = work.put(logs), work.put(levels)[:, None]
    joint = work.take("joint", (k, size))
    for rows, weight in records.blocks(size):
        shown.load(rows)
        work.torch.mm(profiles, shown.e, out=joint)
        joint.add_(level)
        evidence = softmax(work, joint, counted(work, weight, len(rows), size))
        total.add(products(work, joint, shown.phi, pieces), sums(work, evidence, pieces))
    found, likelihood = total.values()
    return found[:, 0], found[:, 1:], float(likelihood[0])


def pair_sums(records: Tensors, sizes: tuple[int, ...], pieces: Pieces) -> Array:
    """How much of all records has each pair of categories, (p, p)."""
    work, p = records.work, sum(sizes)
    size = work.block(records.count, 2 + 2 * p, pieces)
    shown, total = Indicators(work, sizes, size), Total(work.torch)
    for rows, weight in records.blocks(size):
        shown.load(rows)
        here, left = counted(work, weight, len(rows), size), shown.e
        if here is not None:
            left = work.torch.mul(left, here, out=work.take("scaled", (p, size)))
        total.add(products(work, left, shown.e, pieces))
    return total.values()[0]
