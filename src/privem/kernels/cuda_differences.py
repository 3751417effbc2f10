"""Private sums about each component's mean by CUDA C++: ``differences.cu``.

As :func:`privem.kernels.whitened.by_differences` defines them, of records in a box, and the
log-densities of such records. See :mod:`privem.kernels.cuda` for when kernels are used, and
``docs/proofs/device.md`` for their rounding errors.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..linalg import Array
from .cuda import COMPARED, Box, trusted, usable
from .launches import collected, launch, processors_of, source_of
from .tensors import Tensor, Tensors

_KINDS = {"square": 1, "norm": 2, "full": 3}
# Records that a thread may add up before the sums are collected: less than a block of NumPy's.
_RUN = 1024
# So many sums of a number are collected by TwoSum at most.
_PARTS = 2**26
# Numbers that a thread may add up; each takes two registers.
_MOST = 96
# Of memory that blocks share (for which nothing has to be asked), in bytes, and of the device.
_SHARED, _HELD = 48 * 2**10, 2**30
# Of the former, that all blocks of a processor have.
_PROCESSOR = 220 * 2**10
# Of a processor: registers that threads have, and blocks.
_REGISTERS, _BLOCKS = 65_536, 32
# More warps of a processor make it no faster.
_ENOUGH = 24
# Coordinates of which no difference has to be clamped.
_REACH = 1e99


@dataclass(frozen=True)
class Differences:
    """What kernels are compiled for."""

    kind: str
    """Of second moments: "full", "square" or "norm"; the whitener is diagonal but for the first."""
    d: int
    k: int
    short: bool
    """Whether the rows are float32."""
    entry: str = "moments"
    """Or "density", which is compiled alone."""
    flat: bool = False
    """Whether the latter has a background."""
    single, hard, bounded = False, False, True

    @property
    def entries(self) -> int:
        """Numbers of a whitener."""
        return self.d * (self.d + 1) // 2 if self.kind == "full" else self.d

    @property
    def sums(self) -> int:
        """Numbers that are added up for each component."""
        return self.d + {"full": self.entries, "square": self.d, "norm": 1}[self.kind]

    @property
    def _stride(self) -> int:
        return (self.d + self.entries + 2) // 2 * 2

    @property
    def _given(self) -> int:
        return (3 * self.d + 1) // 2 * 2 + self.k * self._stride

    @property
    def at_once(self) -> int:
        """Records of a thread of ``shares``."""
        return 2 if self.d <= 12 else 1

    @property
    def threads(self) -> int:
        """Threads of a block of ``shares``; zero if that does not fit."""
        for threads in (128, 64, 32):
            if 8 * (self._given + self.k * (self.at_once + 1) * threads) <= _SHARED:
                return threads
        return 0

    @property
    def blocks(self) -> int:
        """Its blocks of a processor, by the registers and the memory that they need."""
        registers = min(255, 4 * self.at_once * self.d + 80)
        bytes_ = 8 * (self._given + self.k * (self.at_once + 1) * self.threads) + 1024
        return max(1, min(_REGISTERS // (registers * self.threads), _PROCESSOR // bytes_, 16))

    def _resident(self, warps: int) -> int:
        # With many sums room to schedule is worth more than warps.
        spare = 80 if self.sums > 40 else 16
        registers = min(255, -(-(2 * (self.sums + self.d) + spare) // 8) * 8)
        bytes_ = 8 * warps * (self._stride + 64 * (self.d + 2))
        if bytes_ > _SHARED:
            return 0
        most = min(_BLOCKS, _PROCESSOR // (bytes_ + 1024))
        # Each quarter of a processor has a quarter of its registers.
        return min(4 * (_REGISTERS // 4 // (registers * 32)) // warps, most)

    @property
    def warps(self) -> int:
        """Components of a block of ``moments``: those that leave few warps idle."""

        def busy(warps: int) -> tuple[float, int]:
            taken = min(self._resident(warps) * warps, _ENOUGH)
            return taken * self.k / (-(-self.k // warps) * warps), warps

        return max((1, 2, 3, 4), key=busy)

    @property
    def resident(self) -> int:
        """Blocks of ``moments`` of a processor."""
        return self._resident(self.warps)

    @property
    def groups(self) -> int:
        """Blocks that all components take."""
        return -(-self.k // self.warps)

    @property
    def lanes(self) -> int:
        """Whether there is a kernel."""
        return int(self.sums <= _MOST and self.threads > 0 and self.resident > 0)

    def launches(self, n: int, processors: int) -> Launches:
        """How n rows are cut: a thread adds up few enough at a time."""
        across = max(1, processors * self.resident // self.groups)
        lanes, grid = 32 * across, processors * self.blocks
        threads = grid * self.threads
        room = _HELD // (8 * (self.d + self.k + 1))
        chunk = min(_RUN * min(lanes, threads), max(room, lanes), n)
        return Launches(across, grid, chunk, -(-n // chunk) * max(lanes, threads))

    def source(self) -> str:
        """The kernels' source."""
        names = {
            "D": self.d,
            "K": self.k,
            "KIND": _KINDS[self.kind],
            "SUMS": self.sums,
            "IN": "float" if self.short else "double",
            "SHORT": int(self.short),
            "AT_ONCE": self.at_once,
            "THREADS": self.threads,
            "BLOCKS": self.blocks,
            "WARPS": self.warps,
            "RESIDENT": self.resident,
            "DENSITY": int(self.entry == "density"),
            "FLAT": int(self.flat),
        }
        return source_of(names, "rows.cu", "differences.cu")

    def given(self, box: Array, means: Array, whiteners: Array, constants: Array) -> Array:
        """All parameters as the kernels take them; ``box``: three numbers for each column."""
        if whiteners.ndim == 3:
            rows, columns = np.tril_indices(self.d)
            whiteners = whiteners[:, rows, columns]
        parts = np.concatenate([means, whiteners, constants[:, None]], axis=1)
        table = np.zeros((self.k, self._stride))
        table[:, : parts.shape[1]] = parts
        head = np.zeros(self._given - table.size)
        head[: box.size] = box.ravel()
        return np.concatenate([head, table.ravel()])

    def expanded(self, found: Array) -> tuple[Array, Array]:
        """First and second moments, from sums (p, K)."""
        total, rest = found[: self.d].T, found[self.d :].T
        if self.kind != "full":
            return total, rest if self.kind == "square" else rest[:, 0]
        second = np.empty((self.k, self.d, self.d))
        rows, columns = np.tril_indices(self.d)
        second[:, rows, columns] = second[:, columns, rows] = rest
        return total, second


Moments = tuple[Array, Array, Array]


def differences(
    records: Tensors,
    means: Array,
    whiteners: Array,
    constants: Array,
    box: Box,
    radius: float,
    cap: float,
    kind: str,
    portable: Callable[[Tensors], Moments],
) -> Moments | None:
    """Sums of g, g s u and g s u u'; ``None`` where the compiled kernels are not to be used.

    ``portable`` sums the same of other records, for the comparison.
    """
    k, d = means.shape
    shape = Differences(kind, d, k, records.X.element_size() == 4)
    module, torch = usable(records, shape), records.work.torch
    if module is None or (kind == "full") != (whiteners.ndim == 3):
        return None
    if shape.launches(records.count, processors_of(records.X, torch)).parts >= _PARTS:
        return None
    place = np.stack([box.centre, 1.0 / box.scale, box.limit])
    given = shape.given(place, means, whiteners, constants)

    def ours(some: Tensors) -> Moments:
        count, found = _summed(shape, module, some.X, given, radius, cap, torch)
        return (count, *shape.expanded(found))

    def flat(found: Moments) -> tuple[Array, float]:
        return np.concatenate([part.reshape(shape.k, -1) for part in found], axis=1), 0.0

    few = made_up(records, box)
    if not trusted(shape, lambda: flat(ours(few)), lambda: flat(portable(few))):
        return None
    return ours(records)


def made_up(records: Tensors, box: Box) -> Tensors:
    """Records to compare kernels by: what is found must not depend on the rows."""
    torch, work = records.work.torch, records.work
    draw = torch.Generator(device=records.X.device).manual_seed(0)
    form = {"dtype": records.X.dtype, "device": records.X.device, "generator": draw}
    centre, reach = (work.put(v, records.X.dtype) for v in (box.centre, box.scale))
    made = torch.randn((COMPARED, records.d), **form) * (0.3 * reach) + centre
    return Tensors(made, None, work)


@dataclass(frozen=True)
class Launches:
    """How rows are cut."""

    across: int
    """Blocks of ``moments`` that share records."""
    grid: int
    """Blocks of ``shares``."""
    chunk: int
    """Records of a launch."""
    parts: int
    """Sums that are collected for each number."""


def _summed(
    shape: Differences,
    module: Any,
    X: Tensor,
    given: Array,
    radius: float,
    cap: float,
    torch: Any,
) -> tuple[Array, Array]:
    """Sums (K,) of g and (p, K) of the rest."""
    n, d, k = len(X), shape.d, shape.k
    cut = shape.launches(n, processors_of(X, torch))
    chunk, lanes, threads = cut.chunk, 32 * cut.across, cut.grid * shape.threads
    form = {"dtype": torch.float64, "device": X.device}
    table = torch.tensor(given, **form)
    tiles = -(-chunk // 32) * 32
    placed, parts = torch.empty((tiles, d), **form), torch.empty((tiles, k + 1), **form)
    counts = torch.zeros((2, k, threads, 1), **form)
    out = torch.zeros((2, shape.sums * k, lanes, 1), **form)
    for start in range(0, n, chunk):
        here, b = X[start : start + chunk], min(chunk, n - start)
        launch(
            module,
            "shares",
            (cut.grid, 1),
            shape.threads,
            here,
            (here, table, radius**2, cap, placed, parts, counts, b),
            torch,
        )
        launch(
            module,
            "moments",
            (cut.across, shape.groups),
            32 * shape.warps,
            here,
            (placed, parts, table, out, b),
            torch,
        )
    count = collected(counts[0], counts[1], torch)[:, 0]
    return count, collected(out[0], out[1], torch).reshape(shape.sums, k)


Values = Callable[[Tensor], Tensor]


def densities(
    records: Tensors,
    means: Array,
    whiteners: Array,
    constants: Array,
    sides: tuple[Array, Array],
    portable: Values,
    flat: float | None = None,
) -> Values:
    """The log-densities (b,) of some of the rows, clamped to a box.

    In the order and with the roundings of :func:`privem.kernels.tensor_profiles.log_density`.
    ``portable`` where the compiled kernel is not to be used. ``flat``: the level of a background.
    """
    k, d = means.shape
    kind = "full" if whiteners.ndim == 3 else "square"
    short = records.X.element_size() == 4
    shape = Differences(kind, d, k, short, entry="density", flat=flat is not None)
    module, torch = usable(records, shape), records.work.torch
    # Portable kernels clamp differences; here they are within reach.
    if module is None or max(np.abs(v).max() for v in (*sides, means)) > _REACH:
        return portable
    table = records.work.put(
        shape.given(np.stack([*sides, np.full(d, flat or 0.0)]), means, whiteners, constants)
    )
    processors = processors_of(records.X, torch)

    def values(rows: Tensor) -> Tensor:
        found = torch.empty(len(rows), dtype=torch.float64, device=rows.device)
        blocks = min(-(-len(rows) // shape.threads), 16 * processors)
        given = (rows, table, found, len(rows))
        launch(module, "density", (blocks, 1), shape.threads, rows, given, torch)
        return found

    low, high = sides
    few = made_up(records, Box((low + high) / 2, (high - low) / 2 + 1e-300, high)).X

    def of(way: Values) -> tuple[Array, float]:
        return way(few).cpu().numpy()[:, None], 0.0

    return values if trusted(shape, lambda: of(values), lambda: of(portable)) else portable
