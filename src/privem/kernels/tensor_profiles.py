"""Profiles, histograms and log-densities of records in torch tensors.

A record's share of a point is rounded to a multiple of 2^-44, and multiples are added as integers:
exactly, in any order, so additions may be atomic. That is far less than the bound on the sums of a
block in NumPy (``docs/proofs/device.md``).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..linalg import Array
from .tensors import Pieces, Place, Tensor, Tensors, Total, Work, counted, sums

_BITS = 44
# Points of a grid that are added up one by one.
_FEW = 16
# So many shares of one stay below 2^63; and so many records are worked on at once.
_MOST, _AT_ONCE = 2**18, 2**22
# As in :mod:`privem.models.gaussian_mixture.density`: a number when whitened and squared.
_HUGE = 1e100

# The numbers (b,) of a block of records.
Values = Callable[[Tensor], Tensor]


class Shares:
    """Running totals of shares, by the number of their point."""

    def __init__(self, work: Work, points: int) -> None:
        self._torch = work.torch
        self._high = work.torch.zeros(points, dtype=work.torch.int64, device=work.device)
        self._low = work.torch.zeros_like(self._high)

    def add(self, below: Tensor, part: Tensor) -> None:
        """Records between the points ``below`` and ``below + 1``, ``part`` of the way along.

        Added up in pieces whose sums stay below 2^63.
        """
        torch, points, b = self._torch, len(self._high), len(below)
        right = part.mul(2.0**_BITS).round_().to(torch.int64)
        pieces = -(-b // _MOST)
        if points > _FEW:
            made = torch.zeros(pieces * points, dtype=torch.int64, device=below.device)
            if pieces > 1:
                piece = torch.arange(b, device=below.device).div_(_MOST, rounding_mode="floor")
                below = below + piece.mul_(points)
            made.scatter_add_(0, below, 2**_BITS - right)
            made.scatter_add_(0, below + 1, right)
            made = made.view(pieces, points)
        else:  # additions to one place would wait for each other
            if pieces > 1:
                beyond = (0, pieces * _MOST - b)
                below = torch.nn.functional.pad(below, beyond, value=-1)
                right = torch.nn.functional.pad(right, beyond)
            made = torch.zeros((pieces, points), dtype=torch.int64, device=below.device)
            none = torch.zeros_like(right[:1])
            for j in range(points - 1):
                here = below == j
                over = torch.where(here, right, none).view(pieces, -1).sum(1)
                made[:, j] += (here.view(pieces, -1).sum(1) << _BITS) - over
                made[:, j + 1] += over
        self._high += (made >> _BITS).sum(0)
        self._low += (made & (2**_BITS - 1)).sum(0)

    def value(self) -> Array:
        """The totals, each rounded once."""
        high, low = (part.cpu().numpy().astype(object) for part in (self._high, self._low))
        exact = high * 2**_BITS + low
        return np.array([float(v) for v in exact / 2**_BITS])


def place_counts(records: Tensors, place: Place, factor: Array, cells: int) -> Array:
    """How much of all records is at each of ``cells + 1`` points of each column, (d, cells + 1).

    ``factor`` (d,): cells per unit coordinate.
    """
    work, torch, d = records.work, records.work.torch, records.d
    size = work.block(records.count, 5 * d, Pieces(), most=_MOST)
    total, widths = Shares(work, d * (cells + 1)), work.put(factor)[:, None]
    first = torch.arange(d, device=work.device)[:, None] * (cells + 1)
    for rows, _ in records.blocks(size):
        y = work.take("x", (d, len(rows)))
        place(rows, y)
        y.mul_(widths).add_(cells / 2).clamp_(0.0, float(cells))
        below = y.to(torch.int64).clamp_(max=cells - 1)
        y.sub_(below)
        total.add(below.add_(first).ravel(), y.ravel())
    return total.value().reshape(d, cells + 1)


def profile(records: Tensors, numbers: int, values: Values, grid: Array) -> Array:
    """How much of all records is at each point of a grid, (J + 1,).

    ``numbers``: that each record takes on the way to its value; NaN counts at the first point.
    """
    work, torch = records.work, records.work.torch
    size = work.block(records.count, numbers + 12, Pieces(), most=_AT_ONCE)
    points, total = work.put(grid), Shares(work, len(grid))
    widths, inner = points[1:] - points[:-1], points[1:-1].contiguous()
    for rows, _ in records.blocks(size):
        v = torch.fmin(torch.fmax(values(rows), points[0]), points[-1])
        below = torch.searchsorted(inner, v, right=True)
        total.add(below, (v - points[below]) / widths[below])
    return total.value()


def value_sum(records: Tensors, numbers: int, values: Values, limit: float) -> float:
    """The weighted sum of values within the limit; NaN counts as minus the limit."""
    work, torch, pieces = records.work, records.work.torch, Pieces()
    size, total = work.block(records.count, numbers + 6, pieces), Total(records.work.torch)
    low = torch.full((1,), -limit, dtype=work.double, device=work.device)
    for rows, weight in records.blocks(size):
        found = work.take("value", (1, size))
        found[:, len(rows) :] = 0.0
        found[0, : len(rows)] = torch.fmax(values(rows), low).clamp_(max=limit)
        here = counted(work, weight, len(rows), size)
        if here is not None:
            found.mul_(here)
        total.add(sums(work, found, pieces))
    return float(total.values()[0][0])


def squared_lengths(work: Work, place: Place, mean: Array, whitener: Array) -> Values:
    """``|W (y - m)|^2 / d`` of records y, as they are placed."""
    torch, m, w, d = work.torch, work.put(mean)[:, None], work.put(whitener), len(mean)

    def values(rows: Tensor) -> Tensor:
        y = work.take("x", (d, len(rows)))
        place(rows, y)
        y.sub_(m)
        if w.ndim == 1:
            z = y.mul_(w[:, None])
        else:
            z = torch.mm(w, y, out=work.take("white", tuple(y.shape)))
        return z.mul_(z).sum(0).div_(d)

    return values


def log_density(
    work: Work,
    means: Array,
    whiteners: Array,
    constants: Array,
    flat: float | None,
    inside: Callable[[Tensor], Tensor] | None,
) -> Values:
    """The log-density of a mixture, by sums and products of single numbers in a fixed order.

    As :class:`privem.models.gaussian_mixture.density.GaussianLogDensity` and
    :func:`privem.blocks.log_density.log_density` compute it. ``flat``: the level of a background.
    ``inside`` pulls records (d, b) in the data's coordinates into a region, to the last bit as
    :meth:`Region.clamp`.
    """
    torch, (k, d) = work.torch, means.shape
    m, level = work.put(means)[:, :, None], work.put(constants)[:, None]
    w = work.put(whiteners)
    used = np.any(whiteners != 0, axis=0)

    def values(rows: Tensor) -> Tensor:
        b = len(rows)
        x = rows.T.to(work.double)
        if inside is not None:
            x = inside(x)
        away = torch.sub(x, m, out=work.take("apart", (k, d, b)))
        if flat is None:
            away.clamp_(-_HUGE, _HUGE)
        joint = torch.zeros((k + (flat is not None), b), dtype=work.double, device=work.device)
        z, term, parts = work.take("z", (k, b)), work.take("term", (k, b)), joint[:k]
        for j in range(d):
            if w.ndim == 2:
                torch.mul(away[:, j], w[:, j, None], out=z)
            else:
                z.zero_()
                for i in np.flatnonzero(used[j]):
                    z.add_(torch.mul(away[:, i], w[:, j, i, None], out=term))
            parts.add_(torch.mul(z, z, out=term))
        parts.mul_(-0.5).add_(level)
        if flat is not None:
            joint[k] = flat
        top = joint.amax(0)
        joint.sub_(top).exp_()
        total = torch.zeros_like(top)
        for row in joint:
            total.add_(row)
        return total.log_().add_(top)

    return values


def cells(
    records: Tensors, place: Place, middle: Array, axes: Array, edges: tuple[Array, ...]
) -> Array:
    """How many records lie in each cell of a grid (:mod:`privem.models.kmeans.grid`)."""
    work, torch, d = records.work, records.work.torch, records.d
    size = work.block(records.count, 2 * d + 5, Pieces())
    bounds = [work.put(ends[1:-1]) for ends in edges]
    many = int(np.prod([len(ends) - 1 for ends in edges]))
    total = torch.zeros(many, dtype=torch.int64, device=work.device)
    for rows, _ in records.blocks(size):
        y = work.take("x", (d, len(rows)))
        place(rows, y)
        cell = torch.zeros(len(rows), dtype=torch.int64, device=work.device)
        for axis, ends, inner in zip(axes, edges, bounds, strict=False):
            along = torch.zeros(len(rows), dtype=work.double, device=work.device)
            for j in np.flatnonzero(axis):
                along.add_(y[j].sub(float(middle[j])).mul_(float(axis[j])))
            cell.mul_(len(ends) - 1).add_(torch.searchsorted(inner, along, right=True))
        total += torch.bincount(cell, minlength=many)
    return np.asarray(total.cpu().numpy(), dtype=np.float64)
