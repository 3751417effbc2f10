"""Sums over records in torch tensors, on an accelerator or not: what all kernels there share.

Records come as (n, d) tensors and are laid out as (d, b), like everywhere in
:mod:`privem.kernels`. The arithmetic is that of the NumPy kernels, step by step, so that the error
bounds of private releases hold for both (``docs/proofs/device.md``). What differs is how a sum is
cut: a matrix product takes a *piece* of at most some hundred records, so many pieces are added up,
and those sums are collected by :class:`Total` without an error to speak of. There are no atomic
additions of floating-point numbers, so the same device gives the same bits again.

Nothing here imports torch: whoever holds a tensor has done so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from ..linalg import Array, RunningSum

Tensor = Any
# Lays records (b, d) out in (d, b), in the type that is computed with.
Place = Callable[[Tensor, Tensor], None]

# Bytes of working memory that a pass may take on an accelerator, and on a processor: there, what a
# block needs had better stay in the cache.
_BYTES = {"cuda": 3 * 2**30}
_BYTES_ELSEWHERE = 2**24
# Rows of a block on an accelerator, at most: launches then cost nothing.
_MOST_ROWS = 2**20


@dataclass(frozen=True)
class Pieces:
    """How sums are cut: so many records to a product, and so many products added up."""

    records: int = 512
    products: int = 32

    @property
    def rows(self) -> int:
        """Records in a sum of products."""
        return self.records * self.products


class Work:
    """Working memory on one device, and the type that is computed in; kept between passes."""

    def __init__(self, device: Any, dtype: Any) -> None:
        import torch

        self.torch: Any = torch
        self.device, self.dtype = device, dtype
        self._buffers: dict[str, Tensor] = {}

    def take(self, name: str, shape: tuple[int, ...], dtype: Any = None) -> Tensor:
        """An uninitialised tensor, valid until the name is asked for again."""
        dtype, size = dtype or self.dtype, prod(shape)
        buffer = self._buffers.get(name)
        if buffer is None or buffer.dtype != dtype or buffer.numel() < size:
            self._buffers.pop(name, None)  # before there are two of them
            buffer = self.torch.empty(size, dtype=dtype, device=self.device)
            self._buffers[name] = buffer
        return buffer[:size].view(shape)

    def put(self, values: Any, dtype: Any = None) -> Tensor:
        """A small array, there; contiguous."""
        values = np.ascontiguousarray(values, dtype=np.float64)
        return self.torch.tensor(values, dtype=dtype or self.dtype, device=self.device)

    @property
    def double(self) -> Any:
        """The type of float64."""
        return self.torch.float64

    def block(self, n: int, numbers: int, pieces: Pieces, most: int = _MOST_ROWS) -> int:
        """Rows of a block, given how many numbers each takes: whole sums of products."""
        size = numbers * (8 if self.dtype == self.double else 4)
        wanted = _BYTES.get(self.device.type, _BYTES_ELSEWHERE) // max(size, 1)
        wanted = min(wanted, most, max(n, 1))
        return max(1, -(-wanted // pieces.rows)) * pieces.rows


@dataclass(frozen=True)
class Tensors:
    """Records on a device, or on their way to it, and their weights (float64). Secret."""

    X: Tensor
    weight: Tensor | None
    work: Work
    streamed: bool = False
    """Whether they lie in the memory of the host, and are copied block by block."""
    ahead: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @property
    def count(self) -> int:
        """How many."""
        return int(self.X.shape[0])

    @property
    def d(self) -> int:
        """How many columns."""
        return int(self.X.shape[1])

    def blocks(self, rows: int) -> Iterator[tuple[Tensor, Tensor | None]]:
        """Blocks of ``rows`` records, the last of fewer, and their weights."""
        if self.streamed:
            yield from self._copied(rows)
            return
        for start in range(0, self.count, rows):
            where = slice(start, start + rows)
            yield self.X[where], None if self.weight is None else self.weight[where]

    def _copied(self, rows: int) -> Iterator[tuple[Tensor, Tensor | None]]:
        """The same from the host: the next block travels while one is worked on.

        Two blocks of pinned memory, two on the device, and a stream for copies. A block on the
        device is written again only after the work on it, and pinned memory only after its copy.
        """
        torch, work = self.work.torch, self.work
        side, main = torch.cuda.Stream(work.device), torch.cuda.current_stream(work.device)
        pinned = [torch.empty((rows, self.d), dtype=self.X.dtype, pin_memory=True) for _ in "ab"]
        held = [torch.empty_like(p, device=work.device) for p in pinned]
        side.wait_stream(main)  # what the new memory was used for before
        copied = [torch.cuda.Event() for _ in "ab"]
        used = [torch.cuda.Event() for _ in "ab"]

        def send(turn: int, start: int) -> None:
            here = self.X[start : start + rows]
            at, b = turn % 2, len(here)
            copied[at].synchronize()
            pinned[at][:b].copy_(here)
            with torch.cuda.stream(side):
                side.wait_event(used[at])
                held[at][:b].copy_(pinned[at][:b], non_blocking=True)
                copied[at].record(side)

        starts = list(range(0, self.count, rows))
        for at, start in enumerate(starts[:1]):
            send(at, start)
        for turn, start in enumerate(starts):
            main.wait_event(copied[turn % 2])
            b = min(rows, self.count - start)
            weight = None if self.weight is None else self.weight[start : start + rows]
            yield held[turn % 2][:b], weight
            used[turn % 2].record(main)
            if turn + 1 < len(starts):
                send(turn + 1, starts[turn + 1])
        side.synchronize()


@dataclass(frozen=True)
class _Numbers:
    """Statistics of one vector, for a running sum."""

    values: Array


class Total:
    """Running totals, each with its rounding errors (Knuth's TwoSum), as :class:`RunningSum`.

    What is added has a leading axis: one sum for each group of pieces. Totals are kept for each
    place along it; only at the end they are brought to the host, and summed there.
    """

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._sums: list[tuple[Tensor, Tensor]] = []

    def add(self, *parts: Tensor) -> None:
        """Add a block's sums, all float64."""
        if not self._sums:
            self._sums = [(part.clone(), self._torch.zeros_like(part)) for part in parts]
            return
        for (high, low), part in zip(self._sums, parts, strict=True):
            total = high + part
            seen = total - high
            low += (high - (total - seen)).add_(part - seen)
            high.copy_(total)

    def values(self) -> list[Array]:
        """The totals, each without its leading axis."""
        found = []
        for high, low in self._sums:
            total = RunningSum[_Numbers]()
            for part in (high, low):
                for values in part.cpu().numpy():
                    total.add(_Numbers(values))
            value = total.value()
            assert value is not None
            found.append(np.asarray(value.values))
        return found


def rooted(values: Tensor) -> Tensor:
    """Square roots in place, correctly rounded: on a processor torch's own (by MKL) are not."""
    if values.is_cuda:
        return values.sqrt_()
    numbers = values.numpy()
    np.sqrt(numbers, out=numbers)
    return values


def centred(work: Work, origin: Array) -> Place:
    """Records about an origin: subtracted in float64, whatever they are computed in."""
    about = work.put(origin, work.double)[:, None]

    def place(rows: Tensor, out: Tensor) -> None:
        work.torch.sub(rows.T, about, out=out)

    return place


def counted(work: Work, weight: Tensor | None, b: int, size: int) -> Tensor | None:
    """What each place of a block counts: records their weights, places without a record nothing.

    ``None`` if all of them count one.
    """
    if weight is None and b == size:
        return None
    full = work.take("weight", (size,))
    full[b:] = 0.0
    full[:b] = 1.0 if weight is None else weight
    return full


def products(work: Work, left: Tensor, right: Tensor, pieces: Pieces) -> Tensor:
    """``left @ right'`` of (k, b) and (p, b), as sums (groups, k, p) of pieces; float64."""
    (k, b), p = left.shape, right.shape[0]
    count = b // pieces.records
    a = left.view(k, count, pieces.records).transpose(0, 1)
    c = right.view(p, count, pieces.records).permute(1, 2, 0)
    made = work.take("products", (count, k, p))
    work.torch.bmm(a, c, out=made)
    return made.view(-1, pieces.products, k, p).sum(1, dtype=work.double)


def sums(work: Work, values: Tensor, pieces: Pieces) -> Tensor:
    """The sum of (k, b) along the records, as (groups, k), by the same pieces; float64."""
    cut = values.view(values.shape[0], -1, pieces.products, pieces.records)
    return cut.sum(3, dtype=work.double).sum(2).T
