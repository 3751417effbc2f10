"""The kernels of :mod:`privem.kernels.nearest` on torch tensors, and plain moments."""

from __future__ import annotations

import numpy as np

from ..linalg import Array
from .cuda import fused
from .mixture import Features
from .tensors import Pieces, Tensor, Tensors, Total, Work, centred, counted, products, sums


def assign(work: Work, x: Tensor, centres: Tensor, offset: Tensor, score: Tensor) -> Tensor:
    """The nearest centre of records (d, b), ties to the lowest index; scores are written."""
    work.torch.mm(centres, x, out=score)
    score.sub_(offset)
    return score.max(0)


def member_of(work: Work, label: Tensor, k: int) -> Tensor:
    """Zeros and ones (K, b): which centre a record belongs to."""
    ranks = work.torch.arange(k, device=work.device)[:, None]
    member = work.take("member", (k, label.shape[0]))
    work.torch.eq(ranks, label, out=member)
    return member


def nearest_sums(
    records: Tensors, origin: Array, centres: Array, second: bool
) -> tuple[Array, Array, float, Array | None]:
    """Counts (K,), sums (K, d) about the origin, the inertia and, if asked, second moments.

    ``centres`` are given about ``origin``. Second moments are (K, d, d).
    """
    if not second:
        features = Features("linear", len(origin))
        scores = np.concatenate([-0.5 * (centres**2).sum(axis=1, keepdims=True), centres], axis=1)

        def portable(some: Tensors) -> tuple[Array, float]:
            count, total, inertia, _ = _nearest_sums(some, origin, centres, False)
            return np.concatenate([count[:, None], total], axis=1), inertia

        found = fused(records, features, scores, origin, True, portable)
        if found is not None:
            return found[0][:, 0], found[0][:, 1:], found[1], None
    return _nearest_sums(records, origin, centres, second)


def _nearest_sums(
    records: Tensors, origin: Array, centres: Array, second: bool
) -> tuple[Array, Array, float, Array | None]:
    work, pieces = records.work, Pieces()
    (k, d), torch = centres.shape, records.work.torch
    size = work.block(records.count, 3 * d + 3 * k, pieces)
    total, place = Total(torch), centred(work, origin)
    phi, score = work.take("features", (d + 1, size)), work.take("score", (k, size))
    phi[0] = 1.0
    x, square = phi[1:], work.take("square", (d, size))
    c = work.put(centres)
    offset = 0.5 * (c * c).sum(1, keepdim=True)
    for rows, weight in records.blocks(size):
        place(rows, x[:, : len(rows)])
        x[:, len(rows) :] = 0.0
        best, label = assign(work, x, c, offset, score)
        here = counted(work, weight, len(rows), size)
        member = member_of(work, label, k)
        torch.mul(x, x, out=square)
        distance = square.sum(0).sub_(best.mul_(2.0)).clamp_(min=0.0)
        if here is not None:
            member.mul_(here)
            distance.mul_(here)
        parts = [products(work, member, phi, pieces), sums(work, distance[None], pieces)]
        if second:
            parts.append(_second_moments(work, member, x, square, pieces))
        total.add(*parts)
    found = total.values()
    return found[0][:, 0], found[0][:, 1:], float(found[1][0]), found[2] if second else None


def _second_moments(work: Work, share: Tensor, x: Tensor, spare: Tensor, pieces: Pieces) -> Tensor:
    """``sum share x x'`` of each component, (groups, K, d, d)."""
    made = []
    for row in share:
        work.torch.mul(x, row, out=spare)
        made.append(products(work, spare, x, pieces))
    return work.torch.stack(made, 1)


def column_sums(records: Tensors) -> tuple[float, Array]:
    """The weight of all records, and the sum of each column."""
    work, pieces = records.work, Pieces()
    size = work.block(records.count, records.d, pieces)
    total = Total(work.torch)
    for rows, weight in records.blocks(size):
        x = rows.T.to(work.double)
        if weight is not None:
            x = x * weight
        count = float(len(rows)) if weight is None else weight.sum()
        count = work.torch.as_tensor(count, dtype=work.double, device=work.device)
        total.add(count.reshape(1, 1), x.sum(1)[None])
    count, columns = total.values()
    return float(count[0]), columns


def moment_sums(records: Tensors, origin: Array, diagonal: bool) -> tuple[float, Array, Array]:
    """Weight, sum (d,) and second moment (d, d), or its diagonal, about an origin."""
    work, pieces, d = records.work, Pieces(), records.d
    size = work.block(records.count, 2 * d + 3, pieces)
    total, place, torch = Total(work.torch), centred(work, origin), work.torch
    phi, scaled = work.take("features", (d + 1, size)), work.take("scaled", (d + 1, size))
    for rows, weight in records.blocks(size):
        b = len(rows)
        place(rows, phi[1:, :b])
        phi[1:, b:] = 0.0
        phi[0, :b], phi[0, b:] = 1.0, 0.0
        here = counted(work, weight, b, size)
        left = phi
        if here is not None:
            left = torch.mul(phi, here, out=scaled)
        if diagonal:
            first = sums(work, left, pieces)
            total.add(first, sums(work, torch.mul(left[1:], phi[1:], out=scaled[1:]), pieces))
        else:
            total.add(products(work, left, phi, pieces))
    found = total.values()
    if diagonal:
        return float(found[0][0]), found[0][1:], found[1]
    return float(found[0][0, 0]), found[0][0, 1:], found[0][1:, 1:]


def shared_moments(
    records: Tensors, origin: Array, centres: Array, kind: str
) -> tuple[Array, Array, Array]:
    """Counts, sums and second moments by nearest centre, both about ``origin``.

    By ``kind``: "full" (K, d, d), "pooled" (d, d), "square" (K, d), "norm" (K,).
    """
    if kind in ("full", "pooled"):
        count, total, _, second = nearest_sums(records, origin, centres, second=True)
        assert second is not None
        return count, total, second if kind == "full" else second.sum(axis=0)
    work, pieces = records.work, Pieces()
    (k, d), torch = centres.shape, records.work.torch
    size = work.block(records.count, 3 * d + 3 * k, pieces)
    collected, place = Total(torch), centred(work, origin)
    phi, score = work.take("features", (2 * d + 1, size)), work.take("score", (k, size))
    phi[0] = 1.0
    x, c = phi[1 : d + 1], work.put(centres)
    offset = 0.5 * (c * c).sum(1, keepdim=True)
    for rows, weight in records.blocks(size):
        place(rows, x[:, : len(rows)])
        x[:, len(rows) :] = 0.0
        _, label = assign(work, x, c, offset, score)
        member = member_of(work, label, k)
        here = counted(work, weight, len(rows), size)
        if here is not None:
            member.mul_(here)
        torch.mul(x, x, out=phi[d + 1 :])
        collected.add(products(work, member, phi, pieces))
    (found,) = collected.values()
    squares = found[:, d + 1 :]
    return found[:, 0], found[:, 1 : d + 1], squares if kind == "square" else squares.sum(axis=1)
