"""Exact sums of full mixtures on tensor cores, by CUDA C++: ``products.cu``.

As :func:`privem.kernels.mixture.responsibility_sums` defines them, for more columns and components
than a thread of ``sums.cu`` has registers for. See :mod:`privem.kernels.cuda` for when kernels are
used. Private sums never come here: their rounding errors are proved for other kernels.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from math import log
from typing import Any

import numpy as np

from ..linalg import Array
from .cuda import COMPARED, Portable, Shape, trusted, usable
from .launches import launch, processors_of, source_of
from .mixture import Features
from .tensors import Tensor, Tensors

# What has tensor cores for doubles in pieces of 16 x 8 x 8, and shared memory enough.
_CAPABLE = (9, 0)
# Columns and components of which scores fit the registers, and records the shared memory.
_COLUMNS, _COMPONENTS = 100, 64
# Threads that share a record of ``sums.cu`` where that is faster; measured.
_FEW_LANES = 4
# Bytes of shared memory that a block may have.
_SHARED = 227 * 2**10
# Numbers that a thread adds up, at most, and registers that it needs besides.
_NUMBERS, _BESIDES = 56, 64
# Warps that a processor has registers for, by how many a thread needs.
_WARPS = ((136, 16), (200, 12), (10**9, 8))
# Fewer warps do not keep tensor cores busy: shares are then found first.
_BUSY = 6
# Warps that add up what is found first; they have 128 registers.
_ADDING = 13
# Bytes of shares between two kernels, at most.
_HELD = 2**30
# Records of a short sum in float32 (FLUSH of the source), and so many such sums are added in it.
_SHORT, _SHORT_SUMS = 128, 2048
# A log joint density that no component has.
_NOBODY = -1e30


@dataclass(frozen=True)
class Cut:
    """How the work is dealt: the numbers that ``products.cu`` is compiled with."""

    run: int
    """Pairs of offsets of a slice."""
    parts: int
    """Slices of the same coordinates."""
    group: int
    """Warps that share a tile of records."""
    groups: int
    """Groups of a block."""
    rows: int
    """Records of a tile."""
    own: int = 1
    """Times 16 records of a warp, where it finds shares."""
    slices: int = 1
    """Slices of a warp, where it adds up."""
    held: bool = False
    """Whether coefficients lie in shared memory."""


@dataclass(frozen=True)
class Products:
    """What a kernel is compiled for."""

    d: int
    k: int
    single: bool
    entry: str
    """What it does: "shares", then "moments" of them; or both, "sums"."""
    cut: Cut
    hard, bounded, lanes = False, False, 1

    @property
    def short(self) -> bool:
        """Whether the rows are float32: they are what is computed in."""
        return self.single

    @property
    def _chunks(self) -> int:
        return (self.d + 4) // 4

    @property
    def steps(self) -> int:
        """Products of eight features."""
        return self._chunks * self.cut.run * self.cut.parts

    @property
    def columns(self) -> int:
        """Of shares: components, in eights."""
        return -(-self.k // 8) * 8

    @property
    def wide(self) -> int:
        """Of sums: components, in sixteens."""
        return -(-self.k // 16) * 16

    @property
    def threads(self) -> int:
        """Of a block."""
        return 32 * self.cut.group * self.cut.groups

    @property
    def across(self) -> int:
        """Blocks that all slices take."""
        slices = self._chunks * self.cut.parts
        return -(-slices // (self.cut.group * self.cut.slices)) if self.entry == "moments" else 1

    @property
    def shared(self) -> int:
        """Bytes of shared memory of a block; the order is that of the source."""
        cut, scores, moments = self.cut, self.entry != "moments", self.entry != "shares"
        pairs, size = cut.run * cut.parts, 4 if self.single else 8
        pitch = (4 * self._chunks + 2 * pairs + 2) // 8 * 8 + 4
        each = cut.rows * (self.d + pitch)
        if moments:
            each += (1 if scores else 2) * cut.rows * (self.wide + 4)
        if moments and self.single:
            each += 32 * cut.group * cut.slices * cut.run * self.wide // 4
        coefficients = self.steps * self.columns // 8 * 512 if scores and cut.held else 0
        return coefficients + size * (-(-self.d // 2) * 4 + cut.groups * each)

    def source(self) -> str:
        """The kernel's source."""
        names = {
            "D": self.d,
            "K": self.k,
            "T": "float" if self.single else "double",
            "SINGLE": int(self.single),
            "ENTRY": self.entry,
            "SCORES": int(self.entry != "moments"),
            "MOMENTS": int(self.entry != "shares"),
            **{name.upper(): int(value) for name, value in vars(self.cut).items()},
        }
        return source_of(names, "tensor_cores.cu", "products.cu")

    @cached_property
    def places(self) -> Any:
        """Where each of :class:`Features` lies among those of the steps."""
        d, whole = self.d, self.d + 1
        offset, i = np.divmod(np.arange(d * (d + 1) // 2), d)
        left = np.concatenate([np.zeros(d + 1, dtype=int), 1 + i])
        right = np.concatenate([np.arange(d + 1), 1 + (i + offset) % d])
        apart = (right - left) % whole
        far = apart > whole // 2
        left, apart = np.where(far, right, left), np.where(far, whole - apart, apart)
        step = left // 4 * (self.cut.run * self.cut.parts) + apart // 2
        return 8 * step + 4 * (apart % 2) + left % 4

    @cached_property
    def dealt(self) -> Any:
        """The column of each component: of eight, the first four have the even ones."""
        k = np.arange(self.k)
        return k // 8 * 8 + 2 * (k % 4) + k % 8 // 4

    def table(self, coefficients: Array) -> Array:
        """Coefficients (K, p) for logarithms to base 2, in the order in which lanes take them."""
        matrix = np.zeros((8 * self.steps, self.columns))
        matrix[self.places[0]] = _NOBODY
        matrix[np.ix_(self.places, self.dealt)] = coefficients.T / log(2.0)
        # A step has two offsets of four features; a lane one feature of each, and a column.
        parts = matrix.reshape(self.steps, 2, 4, self.columns // 8, 8).transpose(0, 3, 4, 2, 1)
        parts = np.ascontiguousarray(parts)
        if not self.single:
            return parts
        bits = parts.astype(np.float32).view(np.uint32)
        high = ((bits + np.uint32(1 << 12)) & ~np.uint32(0x1FFF)).view(np.float32)
        return np.stack([high, parts - high], axis=-2)

    def collected(self, sums: Array) -> Array:
        """Sums of each feature of the steps, wide, as (K, p)."""
        return sums.reshape(-1, self.wide)[np.ix_(self.places, self.dealt)].T


@cache
def plan(d: int, k: int, single: bool) -> tuple[Products, ...]:
    """The kernels for so many columns and components: one, or two where one has no room."""
    if d > _COLUMNS or k > _COMPONENTS:
        return ()
    chunks, pairs, halves = (d + 4) // 4, ((d + 1) // 2 + 2) // 2, -(-k // 16)
    most = _NUMBERS // (4 * halves)
    parts = -(-pairs // most)
    run = -(-pairs // parts)
    slices = chunks * parts
    group = -(-slices // (most // run))
    each = -(-slices // group)

    def fitting(entry: str, cuts: list[tuple[Any, ...]]) -> Products | None:
        made = (Products(d, k, single, entry, Cut(run, parts, *cut)) for cut in cuts)
        return next((one for one in made if one.shared <= _SHARED), None)

    own = 2 if group == 1 and k <= 32 else 1
    numbers = 4 * halves * run * each * (1 if single else 2) + 8 * own * -(-k // 8)
    warps = next(w for registers, w in _WARPS if numbers + _BESIDES <= registers)
    many = [groups for groups in range(warps // group, 0, -1) if groups * group >= _BUSY]
    rows = 16 * own * group
    cuts = [(group, groups, rows, own, each, held) for groups in many for held in (True, False)]
    both = fitting("sums", cuts)
    if both is not None:
        return (both,)
    own, warps = (2, 8) if single and k <= 32 else (1, 12)
    across = -(-slices // _ADDING)
    shares = fitting("shares", [(w, 1, 16 * own * w, own) for w in range(warps, 0, -1)])
    moments = fitting("moments", [(-(-slices // across), 1, rows) for rows in (128, 64, 32)])
    return () if shares is None or moments is None else (shares, moments)


def _summed(
    shapes: tuple[Products, ...],
    modules: tuple[Any, ...],
    X: Tensor,
    coefficients: Array,
    origin: Array,
    torch: Any,
) -> tuple[Array, float]:
    """Sums (K, p) and the log-likelihood."""
    first, last, n = shapes[0], shapes[-1], len(X)
    form = {"dtype": torch.float32 if first.single else torch.float64, "device": X.device}
    rough = origin.astype(np.float32) if first.single else origin
    packed = first.table(coefficients)
    given = np.concatenate([packed.ravel(), rough, origin - rough])
    table, middle = torch.tensor(given, **form).split([packed.size, 2 * len(origin)])
    processors = processors_of(X, torch)
    grids = [max(1, processors // shape.across) for shape in shapes]
    groups = grids[-1] * last.cut.groups
    # Records of a launch: so many shares may lie between two kernels, and short sums are few.
    room = n if first is last else _HELD // (first.columns * table.element_size())
    launches = -(-n // min(room, groups * _SHORT * _SHORT_SUMS))
    chunk = -(-n // (1024 * launches)) * 1024
    shares = torch.empty((0 if first is last else min(chunk, n), first.columns), **form)
    out = torch.empty((groups, 8 * last.steps, last.wide), dtype=torch.float64, device=X.device)
    evidence = torch.empty(grids[0] * first.threads, dtype=torch.float64, device=X.device)
    total = torch.zeros(last.steps * 8 * last.wide + 1, dtype=torch.float64, device=X.device)
    for start in range(0, n, chunk):
        here = X[start : start + chunk]
        arguments = (here, middle, table, shares, out, evidence, len(here))
        for shape, module, grid in zip(shapes, modules, grids, strict=True):
            across = (grid, shape.across)
            launch(module, shape.entry, across, shape.threads, X, arguments, torch, shape.shared)
        total[:-1] += out.view(groups, -1).sum(0)
        total[-1] += evidence.sum()
    found = total.cpu().numpy()
    return last.collected(found[:-1]), float(found[-1]) * log(2.0)


def by_tensor_cores(
    records: Tensors, features: Features, coefficients: Array, origin: Array, portable: Portable
) -> tuple[Array, float] | None:
    """Sums of responsibility times feature, (K, p), and the log-likelihood.

    ``None`` where these kernels are not to be used; ``portable`` sums the same of other records,
    for the comparison.
    """
    torch, X = records.work.torch, records.X
    if features.kind != "full" or X.device.type != "cuda":
        return None
    single, k = records.work.dtype == torch.float32, len(coefficients)
    if 0 < Shape("full", features.d, k, False, single, single).lanes <= _FEW_LANES:
        return None
    if torch.cuda.get_device_capability(X.device) < _CAPABLE:
        return None
    shapes = plan(features.d, k, single)
    modules = tuple(usable(records, shape) for shape in shapes)
    if not modules or None in modules:
        return None

    def ours(some: Tensors) -> tuple[Array, float]:
        return _summed(shapes, modules, some.X, coefficients, origin, torch)

    few = Tensors(X[:COMPARED], None, records.work)
    agree = trusted(shapes[0], lambda: ours(few), lambda: portable(few))
    return ours(records) if agree else None
