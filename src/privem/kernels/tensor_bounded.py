"""The kernels of private queries on torch tensors. In float64, step by step as in NumPy.

Each operation is a call of its own, so no compiler fuses a product with a sum where the proofs
count two roundings or none. How sums are cut is the caller's: :class:`Pieces` that its error bound
allows.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ..linalg import Array
from .cuda import Box, bounded
from .cuda_clusters import bounded_clusters
from .cuda_differences import differences
from .mixture import Features
from .tensor_mixture import (
    FeatureTile,
    linear_form,
    responsibilities,
    weighted_moments,
    whitened,
)
from .tensor_nearest import assign, member_of
from .tensors import (
    Pieces,
    Place,
    Tensor,
    Tensors,
    Total,
    Work,
    counted,
    products,
    rooted,
    sums,
)
from .whitened import DEEPEST, raised

# As in :mod:`privem.blocks.region`.
_LARGEST, _HUGE = 1e300, 1e100


def pulled(work: Work, centre: Array, scale: Array, limit: Array, ball: bool) -> Place:
    """Records in unit coordinates, pulled into a region (:meth:`Region.place`)."""
    torch = work.torch
    columns = np.stack([centre, 1.0 / scale, -limit, limit])[:, :, None]
    middle, inverse, low, high = work.put(columns)
    moved = bool(centre.any())

    def clamp(y: Tensor, out: Tensor) -> None:
        torch.fmax(y, low, out=out)  # NaN becomes the lower limit
        torch.minimum(out, high, out=out)

    def place(rows: Tensor, out: Tensor) -> None:
        if moved:
            torch.sub(rows.T, middle, out=out)
            out.mul_(inverse)
        else:
            torch.mul(rows.T, inverse, out=out)
        if not ball:
            clamp(out, out)
            return
        square = _squares(out)
        odd = ~(square <= _LARGEST)
        if bool(odd.any()):
            inside = torch.empty_like(out)
            clamp(out, inside)
            torch.where(odd, inside, out, out=out)
            square = torch.where(odd, _squares(inside), square)
        out.mul_(torch.div(1.0, rooted(square.clamp_(min=1.0))))

    return place


def _squares(y: Tensor) -> Tensor:
    """Squared norms of the columns, added in halves: in an order that d alone decides."""
    square = y * y
    while len(square) > 1:
        half = len(square) // 2
        square[:half] += square[-half:]
        square = square[: len(square) - half]
    return square[0]


def by_products(
    records: Tensors,
    features: Features,
    coefficients: Array,
    constants: Array,
    place: Place,
    radius: float,
    pieces: Pieces,
    box: Box | None = None,
) -> tuple[Array, Array]:
    """Sums (K,) of g and (K, p) of g s phi; see :func:`privem.kernels.mixture.by_products`.

    ``box``: what ``place`` pulls records into, if it is one.
    """

    def portable(some: Tensors) -> tuple[Array, Array]:
        work, k = some.work, len(coefficients)
        size = work.block(some.count, features.size + 2 * features.d + 5 * k, pieces)
        tile, total, torch = FeatureTile(features, size, work), Total(work.torch), work.torch
        form, joint = linear_form(work, features, coefficients), work.take("joint", (k, size))
        level, far = work.put(constants)[:, None], work.take("far", (k, size))
        clipped, half = math.isfinite(radius), 0.5 * radius**2
        for rows, weight in some.blocks(size):
            tile.load(rows, place)
            form(tile.phi, joint)
            if clipped:
                torch.sub(level, joint, out=far).clamp_(min=half)
            responsibilities(work, joint, counted(work, weight, len(rows), size))
            count = sums(work, joint, pieces)
            if clipped:
                joint.div_(far)
            total.add(count, products(work, joint, tile.phi, pieces))
        found, everything = total.values()
        return found, everything * half if clipped else everything

    if box is not None:
        found = bounded(records, features, coefficients, constants, box, radius, portable)
        if found is not None:
            return found
    return portable(records)


def by_differences(
    records: Tensors,
    means: Array,
    whiteners: Array,
    constants: Array,
    place: Place,
    radius: float,
    cap: float,
    kind: str,
    pieces: Pieces,
    box: Box | None = None,
) -> tuple[Array, Array, Array]:
    """Sums of g, g s u and g s u u'; see :func:`privem.kernels.whitened.by_differences`.

    ``box``: what ``place`` pulls records into, if it is one.
    """

    def portable(some: Tensors) -> tuple[Array, Array, Array]:
        work, torch = some.work, some.work.torch
        k, d = means.shape
        size = work.block(some.count, (2 * k + 1) * d + 4 * k, pieces)
        x, apart = work.take("x", (d, size)), work.take("apart", (k, d, size))
        white, joint = work.take("white", (k, d, size)), work.take("joint", (k, size))
        shrink, total = work.take("far", (k, size)), Total(torch)
        m, w, level = work.put(means)[:, :, None], work.put(whiteners), work.put(constants)[:, None]
        for rows, weight in some.blocks(size):
            place(rows, x[:, : len(rows)])
            x[:, len(rows) :] = 0.0
            torch.sub(x, m, out=apart)
            whitened(work, w, apart, white)
            torch.mul(white, white, out=apart)
            torch.sum(apart, 1, out=joint)
            torch.clamp(joint, min=radius**2, out=shrink)
            torch.div(torch.full_like(shrink[:1], radius**2), shrink, out=shrink)
            joint.clamp_(0.0, cap).mul_(-0.5).add_(level)
            responsibilities(work, joint, counted(work, weight, len(rows), size))
            count = sums(work, joint, pieces)
            joint.mul_(shrink)
            total.add(count, *weighted_moments(work, white, joint, kind, pieces))
        found = total.values()
        return found[0], found[1], found[2]

    if box is not None:
        found = differences(records, means, whiteners, constants, box, radius, cap, kind, portable)
        if found is not None:
            return found
    return portable(records)


def pooled_sums(
    records: Tensors,
    means: Array,
    weights: Array,
    far: float,
    whitener: Array,
    place: Place,
    radius: float,
    second: bool,
    pieces: Pieces,
) -> tuple[Array, Array, Array]:
    """Sums of g, g s (1, z) and s z z'; see :func:`privem.kernels.whitened.pooled_sums`.

    ``place`` lays records out in unit coordinates; z is the whitener times these.
    """
    work, torch = records.work, records.work.torch
    k, d = means.shape
    size = work.block(records.count, 3 * d + 2 * k + 8, pieces)
    squares = np.einsum("ij,ij->i", means, means)
    form = work.put(np.concatenate([-0.5 * squares[:, None], means, np.full((k, 1), -0.5)], axis=1))
    half, lift, total = 0.5 * radius**2, raised(far), Total(torch)
    y, w, p = work.take("x", (d, size)), work.put(whitener), work.put(weights)[None]
    phi, scaled = work.take("features", (d + 2, size)), work.take("scaled", (d + 2, size))
    share, top = work.take("joint", (k, size)), work.take("total", (1, size))
    z, phi[0] = phi[1 : d + 1], 1.0
    for rows, weight in records.blocks(size):
        place(rows, y[:, : len(rows)])
        y[:, len(rows) :] = 0.0
        torch.mm(w, y, out=z)
        torch.mul(z, z, out=y)
        torch.sum(y, 0, out=phi[d + 1])
        torch.mm(form, phi, out=share)  # -q / 2
        share.clamp_(-DEEPEST, 0.0).exp_()
        torch.mm(p, share, out=top)
        here = counted(work, weight, len(rows), size)
        depth = (lift / top[0]).sub_(top[0].log())  # F / 2
        shrink = torch.div(half, depth.clamp_(min=half), out=depth)
        torch.div(1.0 if here is None else here, top[0], out=scaled[d + 1])
        torch.mul(shrink, scaled[d + 1], out=scaled[0])
        torch.mul(z, scaled[0], out=scaled[1 : d + 1])
        parts = [products(work, share, scaled, pieces)]
        if second:
            z.mul_(top)
            parts.append(products(work, z, scaled[1 : d + 1], pieces))
        total.add(*parts)
    found = total.values()
    collected = found[0] * weights[:, None]
    return collected[:, d + 1], collected[:, : d + 1], found[1] if second else np.zeros((d, d))


def bounded_nearest(
    records: Tensors,
    centres: Array,
    step: float,
    place: Place,
    spread: float | None,
    radius: float,
    pieces: Pieces,
    box: Box | None = None,
) -> tuple[Array, Array, float]:
    """Counts, sums and the summed squares of records (:mod:`privem.models.kmeans.query`).

    Coordinates and centres are multiples of ``step``, so scores are exact in any order. ``spread``:
    the unit of distances from centres; ``None`` measures records from where coordinates begin.
    ``box``: what ``place`` pulls records into, if it is one.
    """

    def portable(some: Tensors) -> tuple[Array, Array, float]:
        work, torch = some.work, some.work.torch
        k, d = centres.shape
        size = work.block(some.count, 3 * d + 3 * k, pieces)
        phi, score = work.take("features", (d + 1, size)), work.take("score", (k, size))
        phi[0] = 1.0
        x, square, c = phi[1:], work.take("square", (d, size)), work.put(centres)
        offset, total = 0.5 * (c * c).sum(1, keepdim=True), Total(torch)
        columns = c.T.contiguous()
        for rows, weight in some.blocks(size):
            place(rows, x[:, : len(rows)])
            x[:, len(rows) :] = 0.0
            x.mul_(1.0 / step).trunc_().mul_(step)
            best, label = assign(work, x, c, offset, score)
            member = member_of(work, label, k)
            here = counted(work, weight, len(rows), size)
            if here is not None:
                member.mul_(here)
            parts = []
            if spread is not None:
                torch.mul(x, x, out=square)
                distance = square.sum(0).sub_(best.mul_(2.0)).clamp_(min=0.0)
                x.sub_(torch.index_select(columns, 1, label, out=square))
                reach = spread * radius
                beyond = rooted(distance.clone()).div_(reach).clamp_(min=1.0)
                x.mul_(torch.div(1.0 / spread, beyond))
                distance.clamp_(max=reach**2).div_(spread**2)
                if here is not None:
                    distance.mul_(here)
                parts = [sums(work, distance[None], pieces)]
            total.add(products(work, member, phi, pieces), *parts)
        found = total.values()
        pooled = float(found[1][0]) if spread is not None else 0.0
        return found[0][:, 0], found[0][:, 1:], pooled

    if box is not None:
        found = bounded_clusters(records, centres, step, spread, radius, box, portable)
        if found is not None:
            return found
    return portable(records)


def clamped(
    work: Work, low: Array, high: Array, centre: Array, scale: Array, ball: bool
) -> Callable[[Tensor], Tensor]:
    """Records (d, b) in the data's coordinates, pulled into a region (:meth:`Region.clamp`)."""
    torch = work.torch
    least, most, middle, size = (work.put(v)[:, None] for v in (low, high, centre, scale))

    def inside(x: Tensor) -> Tensor:
        if not ball:  # NaN stays, and becomes a limit of whatever is computed
            return torch.clamp(x, least, most)
        y = x.sub(middle).div_(size).clamp_(-_HUGE, _HUGE)
        norm = rooted(_squares(y))
        return torch.where(norm > 1, y.div_(norm).mul_(size).add_(middle), x)

    return inside
