"""The kernels of :mod:`privem.kernels.mixture` on torch tensors.

Each function is one pass over all records. Features lie along the first axis and records along the
second; products of coordinates by circular offset, all in one launch.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..linalg import Array
from .cuda import fused
from .cuda_products import by_tensor_cores
from .mixture import _LOWEST, Features
from .tensors import Pieces, Place, Tensor, Tensors, Total, Work, centred, counted, products, sums


class FeatureTile:
    """The features of a block of b records, made in place."""

    def __init__(self, features: Features, b: int, work: Work) -> None:
        self.features, self.b, self.work = features, b, work
        self.phi = work.take("features", (features.size, b))
        self.phi[0] = 1.0
        self.x = self.phi[1 : 1 + features.d]

    def load(self, rows: Tensor, place: Place) -> None:
        """Lay records out; places beyond the last record hold zeros."""
        b, d, torch = len(rows), self.features.d, self.work.torch
        place(rows, self.x[:, :b])
        self.x[:, b:] = 0.0
        rest = self.phi[1 + d :]
        match self.features.kind:
            case "square":
                torch.mul(self.x, self.x, out=rest)
            case "norm":
                square = self.work.take("square", tuple(self.x.shape))
                torch.mul(self.x, self.x, out=square)
                torch.sum(square, 0, out=rest[0])
            case "full":
                self._products(rest)

    def _products(self, rest: Tensor) -> None:
        d, b, torch = self.features.d, self.b, self.work.torch
        whole, half = (d - 1) // 2 + 1, d // 2
        twice = self.work.take("twice", (d + half, b))
        twice[:d] = self.x
        twice[d:] = self.x[:half]
        # Offset o is the records, times themselves from the o-th coordinate on.
        rolled = twice.as_strided((whole, d, b), (b, b, 1), twice.storage_offset())
        torch.mul(self.x, rolled, out=rest[: whole * d].view(whole, d, b))
        if d % 2 == 0:
            torch.mul(self.x[:half], self.x[half:], out=rest[whole * d :])


def exponentiate(work: Work, joint: Tensor) -> tuple[Tensor, Tensor]:
    """Subtract each column's maximum, exponentiate in place; the maxima and the sums."""
    top = work.torch.amax(joint, 0)
    joint.sub_(top).clamp_(min=_LOWEST).exp_()
    return top, joint.sum(0)


def responsibilities(work: Work, joint: Tensor, weight: Tensor | None) -> None:
    """Turn (K, b) log joint densities into responsibilities times weights in place."""
    _, total = exponentiate(work, joint)
    joint.mul_(total.reciprocal_() if weight is None else weight / total)


def softmax(work: Work, joint: Tensor, weight: Tensor | None) -> Tensor:
    """The same; the (1, b) weighted log-likelihoods."""
    top, total = exponentiate(work, joint)
    evidence = total.log().add_(top)
    joint.mul_(total.reciprocal_() if weight is None else weight / total)
    if weight is not None:
        evidence.mul_(weight)
    return evidence[None]


def responsibility_sums(
    records: Tensors, features: Features, coefficients: Array, origin: Array
) -> tuple[Array, float]:
    """Sums of responsibility times feature, (K, p), and the log-likelihood."""

    def portable(some: Tensors) -> tuple[Array, float]:
        return _responsibility_sums(some, features, coefficients, origin)

    found = by_tensor_cores(records, features, coefficients, origin, portable)
    if found is None:
        found = fused(records, features, coefficients, origin, False, portable)
    return portable(records) if found is None else found


def _responsibility_sums(
    records: Tensors, features: Features, coefficients: Array, origin: Array
) -> tuple[Array, float]:
    work, pieces, k = records.work, Pieces(), len(coefficients)
    size = work.block(records.count, features.size + 2 * features.d + 4 * k, pieces)
    tile, place, total = FeatureTile(features, size, work), centred(work, origin), Total(work.torch)
    weights, joint = work.put(coefficients), work.take("joint", (k, size))
    for rows, weight in records.blocks(size):
        tile.load(rows, place)
        work.torch.mm(weights, tile.phi, out=joint)
        here = counted(work, weight, len(rows), size)
        evidence = softmax(work, joint, here)
        total.add(products(work, joint, tile.phi, pieces), sums(work, evidence, pieces))
    found, likelihood = total.values()
    return found, float(likelihood[0])


def exact_sums(
    records: Tensors, means: Array, whiteners: Array, constants: Array, kind: str
) -> tuple[Array, Array, Array, float]:
    """Counts (K,), sums (K, d), second moments about each mean, and the log-likelihood.

    In each component's own coordinates, as :func:`privem.kernels.whitened.exact_sums`: for
    components that lie far from each other, measured in their own deviations.
    """
    work, pieces = records.work, Pieces()
    k, d = means.shape
    size = work.block(records.count, 2 * k * d + 4 * k, pieces)
    torch, total = work.torch, Total(work.torch)
    x, apart = work.take("x", (d, size)), work.take("apart", (k, d, size))
    white, joint = work.take("white", (k, d, size)), work.take("joint", (k, size))
    m, w = work.put(means)[:, :, None], work.put(whiteners)
    middle = centred(work, np.zeros(d))
    level = work.put(constants)[:, None]
    for rows, weight in records.blocks(size):
        middle(rows, x[:, : len(rows)])
        x[:, len(rows) :] = 0.0
        torch.sub(x, m, out=apart)
        whitened(work, w, apart, white)
        white.mul_(white)
        torch.sum(white, 1, out=joint)
        joint.mul_(-0.5).add_(level)
        here = counted(work, weight, len(rows), size)
        evidence = softmax(work, joint, here)
        first, second = weighted_moments(work, apart, joint, kind, pieces)
        total.add(sums(work, joint, pieces), first, second, sums(work, evidence, pieces))
    count, first_sum, second_sum, likelihood = total.values()
    return count, first_sum, second_sum, float(likelihood[0])


def whitened(work: Work, whiteners: Tensor, x: Tensor, out: Tensor) -> None:
    """``W_k x_k`` for each component, (k, d, b)."""
    if whiteners.ndim == 2:
        work.torch.mul(x, whiteners[:, :, None], out=out)
    else:
        work.torch.bmm(whiteners, x, out=out)


def weighted_moments(
    work: Work, x: Tensor, share: Tensor, kind: str, pieces: Pieces
) -> tuple[Tensor, Tensor]:
    """First (groups, K, d) and second moments of (K, d, b), weighted; both are overwritten."""
    torch = work.torch
    k, d, b = x.shape
    count = b // pieces.records
    cut = x.view(k, d, count, pieces.records)
    weights = share.view(k, count, pieces.records, 1)

    def along(columns: Tensor, name: str) -> Tensor:
        made = work.take(name, (k, count, d, 1))
        torch.matmul(columns.transpose(1, 2), weights, out=made)
        grouped = made.view(k, -1, pieces.products, d).sum(2, dtype=work.double)
        return grouped.transpose(0, 1)

    first = along(cut, "first")
    if kind == "full":
        x.mul_(share.sqrt_()[:, None])
        made = work.take("second", (k * count, d, d))
        each = cut.transpose(1, 2).reshape(k * count, d, pieces.records)
        torch.bmm(each, each.transpose(1, 2), out=made)
        grouped = made.view(k, -1, pieces.products, d, d).sum(2, dtype=work.double)
        return first, grouped.transpose(0, 1)
    x.mul_(x)
    squares = along(cut, "second")
    return first, squares if kind == "square" else squares.sum(2)


def linear_form(
    work: Work, features: Features, coefficients: Array
) -> Callable[[Tensor, Tensor], None]:
    """A function of features: ``coefficients @ phi``, in a given tensor.

    Where features are many, in as many steps as :attr:`Features.depth` counts.
    """
    torch, tiles = work.torch, features.tiles()
    if len(tiles) <= 1:
        whole = work.put(coefficients)

        def at_once(phi: Tensor, out: Tensor) -> None:
            torch.mm(whole, phi, out=out)

        return at_once
    edges = [first for _, _, first, _ in tiles]
    parts = [work.put(part) for part in np.split(coefficients, edges, axis=1)]

    def in_steps(phi: Tensor, out: Tensor) -> None:
        torch.mm(parts[0], phi[: edges[0]], out=out)
        spare = work.take("spare", tuple(out.shape))
        for part, (_, _, first, last) in zip(parts[1:], tiles, strict=True):
            out.add_(torch.mm(part, phi[first:last], out=spare))

    return in_steps
